"""How often an audit's verdict is right: classifiers of known making, audited from outputs of people they never saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.config import parts
from fedveil.core.errors import InputError, nearest
from fedveil_papers import audit_verdicts_layout as layout
from fedveil_papers.audit_kept import decided, figures
from fedveil_papers.audit_midway import midway
from fedveil_papers.experiment import Kept, LaidOutExperiment, Say
from fedveil_papers.shown import PaperFigures

if TYPE_CHECKING:
    from fedveil.audit import Outputs
    from fedveil.data import AttributeData
    from fedveil_papers.audit_cases import AuditCase
    from fedveil_papers.audit_zoo import Recipe

Load = Callable[[], "AttributeData"]


@dataclass(frozen=True)
class AuditVerdicts(LaidOutExperiment):
    """Verdicts on a zoo of classifiers.

    Attributes:
        cases: data sets, each with the recipes made from it.
        recipes: how classifiers are made, by name.
        rows: how many records an audit sees.
        row_counts: further numbers of records, for the cases that ask for a curve.
        panel: the audit's attackers.
        least_gain: a curious classifier whose maker reads s better by less than this than from the case's standard
            network (accuracy on validation people) is a failed attempt, and counted apart.
        runs: how often everything is made anew; run r has seed `seed` + r.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "audit-verdicts"
    layout: ClassVar[ModuleType] = layout
    cases: list[dict[str, Any]]
    recipes: dict[str, dict[str, Any]]
    rows: int = 2000
    row_counts: list[int] = field(default_factory=list)
    panel: str = "quick"
    least_gain: float = 0.05
    runs: int = 1
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be run."""
        from fedveil.attacks import panel
        from fedveil.audit.verdict import LEAST_ROWS

        if self.runs < 1 or not self.cases or min([self.rows, *self.row_counts]) < LEAST_ROWS:
            raise InputError(f"experiment: needs at least 1 run, 1 case and {LEAST_ROWS} rows")
        panel(self.panel)
        known = self._recipes()
        for case in self._cases():
            if not case.recipes:
                raise InputError(f"experiment: case {case.name!r} names no recipes; name some")
            for name in case.recipes:
                if name not in known:
                    raise InputError(f"experiment: case {case.name!r}: no recipe {name!r}: {nearest(name, known)}")
            if any(known[name].curious for name in case.recipes) and self._reference(case) is None:
                raise InputError(
                    f"experiment: case {case.name!r} has curious classifiers and no standard network to compare their "
                    "makers' reading with; add a recipe whose maker is network"
                )

    def _recipes(self) -> dict[str, Recipe]:
        from fedveil_papers.audit_zoo import Recipe

        return {name: parts.make(Recipe, told, f"experiment: recipe {name!r}") for name, told in self.recipes.items()}

    def _cases(self) -> list[AuditCase]:
        from fedveil_papers.audit_cases import AuditCase

        return [
            parts.make(AuditCase, told, f"experiment: case {place}") for place, told in enumerate(self.cases, start=1)
        ]

    def _reference(self, case: AuditCase) -> str | None:
        """Return the case's first standard network."""
        return next((name for name in case.recipes if self.recipes[name].get("maker") == "network"), None)

    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Make and audit every classifier that is not in the folder yet."""
        from fedveil.audit.verdict import LIMITS

        jobs = [(case, seed) for seed in range(self.seed, self.seed + self.runs) for case in self._cases()]
        members = [one for case, seed in jobs for one in self._of_case(kept, say, case, seed)]
        members = [{**one, "audits": [decided(held, LIMITS) for held in one["audits"]]} for one in members]
        self._label(members)
        return {
            "kind": self.kind,
            "rows": self.rows,
            "panel": self.panel,
            "least_gain": self.least_gain,
            "limits": vars(LIMITS),
            "members": members,
            "counts": layout.counts(members),
            "midway": midway([one for one in members if one["half"] == "calibration"], LIMITS.tells),
            "by_rows": layout.by_rows(members),
            "paper": [dict(one) for one in paper],
        }

    def _of_case(self, kept: Kept, say: Say, case: AuditCase, seed: int) -> list[dict[str, Any]]:
        """Return a case's classifiers with their audits' figures."""
        known, members = self._recipes(), []
        load = cache(partial(case.load, seed))  # read when the first of its classifiers is missing
        told = {key: value for key, value in asdict(case).items() if key not in ("recipes", "half", "curve")}
        for name in case.recipes:
            say(f"run {seed}: {case.name}: {name}")
            recipe, rows = known[name], [self.rows, *(self.row_counts if name in case.curve else [])]
            key = {"kind": self.kind, "case": told, "recipe": self.recipes[name], "seed": seed}
            key |= {"rows": rows, "panel": self.panel}
            found = kept.part(key, partial(self._member, case, recipe, load, seed, rows))
            about = {"case": case.name, "recipe": name, "half": case.half, "seed": seed}
            members.append({**about, **found, "curious": recipe.curious, "beta_x": recipe.beta_x})
        return members

    def _label(self, members: list[dict[str, Any]]) -> None:
        """Say of each what it is: standard, curious, or a failed attempt at that."""
        plain = {
            (member["case"], member["seed"], member["recipe"]): member["own"]
            for member in members
            if member["own"] is not None
        }
        references = {case.name: self._reference(case) for case in self._cases()}
        for member in members:
            member["label"] = "standard"
            if member["curious"]:
                name = references[member["case"]]
                assert name is not None
                reference = plain[member["case"], member["seed"], name]
                member["gain"] = member["own"]["validation"] - reference["validation"]
                member["label"] = "curious" if member["gain"] >= self.least_gain else "failed attempt"

    def _member(self, case: AuditCase, recipe: Recipe, load: Load, seed: int, rows: list[int]) -> dict[str, Any]:
        from fedveil.core.measures import share_right
        from fedveil.data import Split
        from fedveil_papers.audit_zoo import make

        data = load()
        made = make(recipe, data, case.secrets, seed)
        outputs = made.outputs(Split.TEST)
        own = None
        if made.guesses is not None:
            own = {}
            for name, held in (("validation", made.outputs(Split.VALIDATION)), ("test", outputs)):
                right = made.guesses(held) == held.secrets[case.secret].codes
                own[name] = float(right.mean())
        return {
            "honesty": share_right(outputs.predicted == outputs.y.codes).as_dict(),
            "prior": outputs.secrets[case.secret].prior,
            "own": own,
            "audits": [self._audited(outputs, case.secret, count, seed) for count in self._fitting(rows, len(outputs))],
        }

    @staticmethod
    def _fitting(rows: list[int], there: int) -> list[int]:
        """Return the numbers of rows that the data allows, the first always: cut where it must be."""
        return [min(rows[0], there), *(count for count in rows[1:] if count <= there)]

    def _audited(self, outputs: Outputs, secret: str, count: int, seed: int) -> dict[str, Any]:
        import numpy as np

        from fedveil.audit import audit

        # The audit's own seed differs from the classifier's: an auditor knows nothing of how it was made.
        return figures(audit(outputs.take(np.arange(count)), secret, panel=self.panel, seed=1000 + seed))

    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """Draw excesses against the limit, verdicts over rows, excess over β_x."""
        from fedveil_papers.audit_verdicts_drawing import draw

        draw(found, canvas)
