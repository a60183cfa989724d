"""Pruned curious classifiers (Malekzadeh, Borovykh and Gündüz, CCS 2021, §5.7, Figure 9)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.core.errors import InputError
from fedveil_papers import curious_pruning_layout as layout
from fedveil_papers.curious_case import CuriousCase
from fedveil_papers.curious_synthetic_layout import over_runs
from fedveil_papers.experiment import Kept, LaidOutExperiment, Say
from fedveil_papers.shown import PaperFigures

if TYPE_CHECKING:
    from collections.abc import Callable

    from fedveil.data import AttributeData
    from fedveil.games.curious import Curious

STANDARD = "Std"
RELEASES = {"RawHBC": "raw", "SoftHBC": "soft"}


@dataclass(frozen=True)
class CuriousPruning(LaidOutExperiment):
    """Classifiers whose smallest weights are set to zero before they answer, without retraining, by growing amounts.

    Attributes:
        cases: data sets, each with target, secret, widths and epochs (`CuriousCase`).
        betas: settings (β_x, β_y, β_s) at which RawHBC and SoftHBC are trained; the standard one is trained once.
        amounts: shares of weights set to zero.
        scope: whether they are the smallest of each "layer", as in PyTorch's l1_unstructured, or of the "network".
        runs: how many seeds; run r trains with seed `seed` + r on the same split.
        panel: attackers that are retrained on the outputs at every amount.
        fresh: whether attackers learn from test people, too, each half's from the other half.
        most: at most so many records of each split are given to attackers; all if 0.
        draws: bootstrap draws behind the intervals of retrained attackers.
        listed: amounts that the table shows; all are drawn.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "curious-pruning"
    layout: ClassVar[ModuleType] = layout
    cases: list[dict[str, Any]]
    betas: list[list[float]]
    amounts: list[float] = field(default_factory=lambda: [place / 10 for place in range(10)])
    scope: str = "layer"
    runs: int = 5
    panel: str = "quick"
    fresh: bool = True
    most: int = 0
    draws: int = 1000
    listed: list[float] = field(default_factory=lambda: [0.0, 0.5, 0.7, 0.9])
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be run."""
        from fedveil.attacks import panel

        if self.runs < 1 or self.most < 0:
            raise InputError("experiment: runs must be at least 1, and most not negative")
        if not self.amounts or not all(0 <= amount < 1 for amount in self.amounts):
            raise InputError(f"experiment: amounts must lie in [0, 1), got {self.amounts}")
        if self.scope not in ("layer", "network"):
            raise InputError(f"experiment: scope {self.scope!r} is not known: choose layer or network")
        for case in self._cases():
            case.check("experiment: cases")
            for name, betas in self._made():
                self._game(case, name, betas)
        panel(self.panel, draws=self.draws)

    def _cases(self) -> list[CuriousCase]:
        return [CuriousCase.of(told, f"experiment: cases[{place}]") for place, told in enumerate(self.cases)]

    def _made(self) -> list[tuple[str, list[float]]]:
        """Return every classifier's name and β; the standard one first."""
        return [(STANDARD, [0.0, 1.0, 0.0]), *((name, betas) for betas in self.betas for name in RELEASES)]

    @staticmethod
    def _game(case: CuriousCase, name: str, betas: list[float]) -> Curious:
        from fedveil.games.curious import Curious

        if len(betas) != 3:
            raise InputError(f"experiment: betas are β_x, β_y, β_s; {betas} has {len(betas)} numbers")
        x, y, s = betas
        return Curious(
            secrets=case.secret,
            output="soft" if RELEASES.get(name) == "soft" else "raw",
            beta_x=x,
            beta_y=y,
            beta_s=s,
            widths=tuple(case.widths),
        )

    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Train, prune and judge whatever is not in the folder yet."""
        curves = []
        judged: dict[str, Any] = {
            name: getattr(self, name) for name in ("amounts", "scope", "panel", "fresh", "most", "draws")
        }
        for case in self._cases():
            data = cache(partial(case.load, self.seed))  # read when the first part is missing; one case at a time
            for name, betas in self._made():
                runs = []
                for run in range(self.runs):
                    about = f"{case.name}: {name} {layout.betas_of(betas)}, run {run + 1}"
                    key: dict[str, Any] = {"kind": self.kind, "case": case.told, "name": name, "betas": betas, **judged}
                    key |= {"seed": self.seed, "run": run}
                    say(about)
                    measure = partial(self._curve, data, case, name, betas, run, partial(_tell, say, about))
                    runs.append(kept.part(key, measure)["rows"])
                curves.append({"case": case.name, "release": name, "betas": betas, "rows": over_runs(runs)})
        told = {**judged, "runs": self.runs, "listed": self.listed}
        sizes = {case.name: {"epochs": case.epochs, "widths": case.widths, **case.options} for case in self._cases()}
        return {
            "kind": self.kind,
            "settings": told,
            "cases": sizes,
            "curves": curves,
            "paper": [dict(one) for one in paper],
        }

    def _curve(
        self, ready: Callable[[], AttributeData], case: CuriousCase, name: str, betas: list[float], run: int, say: Say
    ) -> dict[str, Any]:
        from fedveil_papers.curious import prune, train
        from fedveil_papers.curious.measuring import measure

        data = ready()
        whole = train(self._game(case, name, betas), data, epochs=case.epochs, seed=self.seed + run, progress=say)
        rows = []
        for amount in self.amounts:
            say(f"pruned by {amount:g}")
            pruned = prune(whole, amount, scope="network" if self.scope == "network" else "layer")
            found = measure(
                pruned,
                data,
                case.secret,
                attackers=self.panel,
                fresh=self.fresh,
                most=self.most or None,
                draws=self.draws,
                seed=self.seed,
            )
            rows.append({"amount": amount, **found.as_dict()})
        return {"rows": rows}


def _tell(say: Say, about: str, line: str) -> None:
    say(f"{about}: {line}")
