"""Curves of shields on updates against attackers: leakage, learning and realised norm at several strengths."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.core.errors import InputError
from fedveil_papers.experiment import Experiment, Kept, Say
from fedveil_papers.shown import PaperFigures
from fedveil_papers.update_layout import cells_of_point, draw_curve, matched_utility, memories, prior_of
from fedveil_papers.update_parts import Case, Trial, make_shields, trials_on

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil_papers.exposure import Laboratory


@dataclass(frozen=True)
class UpdateCurves(Experiment):
    """Each shield at each strength on each case: what it does, what attackers read, what learning keeps.

    Attributes:
        cases: data set, attributes, rounds looked at, people; see `Case`.
        methods: shields with their strengths; see `Trial`.
        static, adaptive, pool: pairs of features and attackers; see `fedveil_papers.exposure.Laboratory`.
        draws: bootstrap draws behind each interval.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "update-curves"
    cases: list[dict[str, Any]]
    methods: list[dict[str, Any]]
    static: list[tuple[str, str]] = field(default_factory=lambda: [("max", "stru-nn"), ("max", "unkwn-nn")])
    adaptive: list[tuple[str, str]] = field(default_factory=lambda: [("max", "boosting"), ("recovered", "boosting")])
    pool: list[tuple[str, str]] = field(default_factory=list)
    draws: int = 400
    seed: int = 0

    def check(self) -> None:
        """Refuse cases and methods that cannot be made."""
        if not self.cases or not self.methods:
            raise InputError("experiment: needs cases and methods; name some")
        for case in self.made_cases():
            for method in trials_on(case, self.methods):
                method.check(case)

    def made_cases(self) -> list[Case]:
        """Return the cases."""
        return [Case.of(told, f"experiment: cases[{place}]") for place, told in enumerate(self.cases)]

    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Measure every case, each method at each strength; what was measured before is read."""
        panels = []
        for case in self.made_cases():
            ready = cache(partial(self._laboratory, case, say))  # made when the first part is missing
            points = [self._part(kept, case, ready, None, None)]
            for method in trials_on(case, self.methods):
                points += [self._part(kept, case, ready, method, strength) for strength in method.strengths]
            panels.append({"case": case.name, "attributes": case.asked or case.attributes, "points": points})
        return {"kind": self.kind, "panels": panels, "paper": [dict(one) for one in paper]}

    def _laboratory(self, case: Case, say: Say) -> Laboratory:
        from fedveil_papers.exposure import Laboratory

        task = case.task(self.seed)
        return Laboratory(
            task,
            case.rounds,
            case.asked or case.attributes,
            static=self.static,
            adaptive=self.adaptive,
            pool=self.pool,
            length=case.length,
            draws=self.draws,
            progress=lambda what: say(f"{case.name}: {what}"),
        )

    def _part(
        self, kept: Kept, case: Case, ready: Callable[[], Laboratory], method: Trial | None, strength: float | None
    ) -> dict[str, Any]:
        settings = {
            "case": case.told,
            "method": None if method is None else method.itself,
            "strength": strength,
            "readers": [self.static, self.adaptive, self.pool, self.draws],
            "seed": self.seed,
        }

        def measure() -> dict[str, Any]:
            lab = ready()
            if method is None:
                return {**lab.measure("no shield").as_dict(), "segment": lab.task.segments[-1].stop}
            found = make_shields(lab, method, strength)
            if found is None:
                return {"method": method.name, "strength": strength, "unreachable": True}
            shield, by_round, told = found
            point = lab.measure(method.name, shield, strength, at=by_round, utility=method.utility)
            return {**point.as_dict(), "settings": told, "norm": strength if method.norms else None}

        return kept.part(settings, measure)

    def tables(self, found: dict[str, Any]) -> list[Table]:
        """One table per case and attribute; a row per method and strength."""
        from rich.table import Table

        made = []
        for panel in found["panels"]:
            for attribute in panel["attributes"]:
                table = Table(title=f"{panel['case']}: {attribute} (prior {prior_of(panel, attribute):.3f})")
                for heading in ("method", "strength", "relative L2", "loss kept", "static stru-nn", "static unkwn-nn"):
                    table.add_column(heading, justify="left" if heading == "method" else "right")
                table.add_column("worst retrained", justify="right")
                table.add_column("by")
                table.add_column("pooled", justify="right")
                for point in panel["points"]:
                    table.add_row(*cells_of_point(point, attribute))
                table.caption = (
                    "Balanced accuracy with 95% intervals. Static attackers and norms: means over rounds; the worst "
                    "attacker and its round are chosen on validation."
                )
                made += [table, matched_utility(panel, attribute)]
        return made

    def notes(self, found: dict[str, Any]) -> list[str]:
        """Say what the figures rest on."""
        lines = [
            "Static attackers know clean updates only, as the paper's do; retrained ones learned from updates that "
            "went through the same shield. All figures are estimates against the attackers tried.",
            "Relative L2: the mean norm of the change over the mean norm of the update. Loss kept: how much of the "
            "undefended run's fall of the test loss the run under the shield has.",
        ]
        return lines + memories(found) + [str(one["note"]) for one in found["paper"] if "note" in one]

    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """Draw the worst retrained and the static attacker against what learning keeps; a panel per case, attribute."""
        panels = [(panel, attribute) for panel in found["panels"] for attribute in panel["attributes"]]
        canvas.set_size_inches(4.2 * len(panels), 6.4)
        axes = canvas.subplots(2, len(panels), squeeze=False, sharex="col")
        for column, (panel, attribute) in enumerate(panels):
            for row, mode in enumerate(("static", "retrained")):
                draw_curve(axes[row][column], panel, attribute, mode)
            axes[0][column].set_title(f"{panel['case']}: {attribute}")
            axes[1][column].set_xlabel("share of the loss's fall that is kept")
        canvas.legend(
            *axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=min(4, 2 * len(panels))
        )
