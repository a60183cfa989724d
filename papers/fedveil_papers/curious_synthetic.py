"""Honest-but-curious classifiers in the plane (Malekzadeh et al., CCS 2021, Figures 2 to 4, Appendix A)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.core.errors import InputError
from fedveil.core.measures import share_right
from fedveil_papers import curious_synthetic_layout as layout
from fedveil_papers.experiment import Kept, LaidOutExperiment, Say
from fedveil_papers.shown import PaperFigures

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from fedveil.data import AttributeData

    Floats = npt.NDArray[np.float64]
    Codes = npt.NDArray[np.int64]

BINS = 50
"""How finely pictures count outputs."""


@dataclass(frozen=True)
class CuriousSynthetic(LaidOutExperiment):
    """Mixtures of two logistic regressions, one for both attributes, and the distance of its optimum from y's.

    Attributes:
        runs: how many data sets are drawn; run r has seed `seed` + r.
        train, validation, test: records of each.
        margin: of Figure 2's data, on which the mixtures are judged.
        margins: at which the normal mixture is repeated, as the paper prints no distribution.
        convex_margins: at which the logistic regression for both attributes is swept over `betas`.
        betas: β_s of the convex case.
        beta_y: the mixtures' β_y.
        threshold: τ' of eq. 2.
        inverse_penalty: C of the logistic regressions: λ = 1 / (C · train), scikit-learn's default at 1.
        ridges: λ at which Appendix A.2 is measured.
        agreements: P(s = y) at which it is, with β_s = .3; .5 is independence and used for all else.
        panel: attackers that are retrained on every release.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "curious-synthetic"
    layout: ClassVar[ModuleType] = layout
    runs: int = 5
    train: int = 2000
    validation: int = 1000
    test: int = 5000
    margin: float = 0.1
    margins: list[float] = field(default_factory=lambda: [0.0, 0.05, 0.1, 0.15, 0.2])
    convex_margins: list[float] = field(default_factory=lambda: [0.1, 0.6])
    betas: list[float] = field(default_factory=lambda: [0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    beta_y: float = 0.8
    threshold: float = 0.1
    inverse_penalty: float = 1.0
    ridges: list[float] = field(default_factory=lambda: [0.1, 0.01])
    agreements: list[float] = field(default_factory=lambda: [0.5, 0.75, 1.0])
    panel: str = "quick"
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be run."""
        from fedveil.attacks import panel
        from fedveil_papers.curious.mixture import Mixture

        if self.runs < 1 or min(self.train, self.validation, self.test) < 100:
            raise InputError("experiment: needs at least 1 run, and 100 records of train, validation and test each")
        for name, values, low, high in (
            ("margin", [self.margin, *self.margins, *self.convex_margins], 0.0, 0.99),
            ("betas", self.betas, 0.0, 1.0),
            ("agreements", self.agreements, 0.0, 1.0),
        ):
            if not all(low <= value <= high for value in values):
                raise InputError(f"experiment: {name} must lie in [{low:g}, {high:g}], got {values}")
        if min(self.inverse_penalty, *self.ridges) <= 0:
            raise InputError("experiment: inverse_penalty and ridges must be above 0")
        Mixture(self.beta_y).read_scalar([0.0], self.threshold)
        panel(self.panel)

    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Measure every run that is not in the folder yet."""
        shared: dict[str, Any] = {
            "kind": self.kind,
            "sizes": [self.train, self.validation, self.test],
            "panel": self.panel,
        }
        shared |= {"inverse_penalty": self.inverse_penalty}
        mixed: dict[str, Any] = {"beta_y": self.beta_y, "threshold": self.threshold, "margins": self.margins}
        mixtures, convex, near = [], [], []
        for seed in range(self.seed, self.seed + self.runs):
            own = {**shared, "seed": seed}
            say(f"run {seed}: mixtures")
            mixtures.append(
                kept.part({**own, **mixed, "part": "mixtures", "margin": self.margin}, partial(self._mixtures, seed))
            )
            for margin in self.convex_margins:
                say(f"run {seed}: one logistic regression, margin {margin:g}")
                key = {**own, "part": "convex", "margin": margin, "betas": self.betas}
                convex.append(kept.part(key, partial(self._convex, seed, margin)))
            say(f"run {seed}: Appendix A.2")
            key = {**own, "part": "near", "margin": self.margin, "betas": self.betas, "ridges": self.ridges}
            near.append(kept.part({**key, "agreements": self.agreements}, partial(self._near, seed)))
        key = {**shared, **mixed, "part": "picture", "margin": self.margin, "seed": self.seed}
        return {
            "kind": self.kind,
            "runs": self.runs,
            "settings": {"train": self.train, "test": self.test, "margin": self.margin, "beta_y": self.beta_y}
            | {"threshold": self.threshold, "inverse_penalty": self.inverse_penalty},
            "mixtures": layout.over_runs([run["releases"] for run in mixtures]),
            "margins": layout.over_runs([run["margins"] for run in mixtures]),
            "convex": layout.over_runs(
                [
                    [row for part in convex[place : place + len(self.convex_margins)] for row in part["rows"]]
                    for place in range(0, len(convex), len(self.convex_margins))
                ]
            ),
            "near": layout.over_runs([run["rows"] for run in near]),
            "picture": kept.part(key, self._picture),
            "paper": [dict(one) for one in paper],
        }

    def _data(self, seed: int, margin: float, agreement: float = 0.5) -> AttributeData:
        from fedveil_papers.curious.figure2 import figure2

        sizes = (self.train, self.validation, self.test)
        return figure2(*sizes, margin=margin, agreement=agreement, seed=seed)

    def _classifiers(self, data: AttributeData) -> tuple[Floats, Floats]:
        """Return z^y and z^s of all records: two logistic regressions, each fitted for its own attribute."""
        from fedveil_papers.curious.convex import CuriousLogistic

        rows, penalty = _rows(data)[0], 1 / (self.inverse_penalty * self.train)
        fitted = (
            CuriousLogistic.fit(data.x[rows], own[rows], own[rows], beta_s=0.0, penalty=penalty) for own in _codes(data)
        )
        z_y, z_s = (one.soft(data.x) for one in fitted)
        return z_y, z_s

    def _mixtures(self, seed: int) -> dict[str, Any]:
        from fedveil_papers.curious.mixture import Mixture

        data = self._data(seed, self.margin)
        z_y, z_s = self._classifiers(data)
        releases = [{"release": "standard", **self._judged(seed, data, z_y, None)}]
        for name, hard in (("hard mixture", True), ("normal mixture", False)):
            mixture = Mixture(self.beta_y, hard)
            outputs = mixture.mix_scalar(z_y, z_s)
            guesses = mixture.read_scalar(outputs, self.threshold)
            releases.append({"release": name, **self._judged(seed, data, outputs, guesses[1])})
        margins = []
        for margin in self.margins:
            other = self._data(seed, margin)
            soft = Mixture(self.beta_y, hard=False)
            guesses = soft.read_scalar(soft.mix_scalar(*self._classifiers(other)), self.threshold)
            y, s = _codes(other)
            tested = _rows(other)[2]
            figures = {
                name: share_right(guess[tested] == true[tested]).as_dict()
                for name, guess, true in zip(("honesty", "curiosity"), guesses, (y, s), strict=True)
            }
            margins.append({"margin": margin, **figures})
        return {"releases": releases, "margins": margins}

    def _convex(self, seed: int, margin: float) -> dict[str, Any]:
        from fedveil_papers.curious.convex import CuriousLogistic
        from fedveil_papers.curious.intervals import IntervalAttacker

        data = self._data(seed, margin)
        y, s = _codes(data)
        fitted, chosen, tested = _rows(data)
        rows = []
        for beta in self.betas:
            penalty = 1 / (self.inverse_penalty * self.train)
            classifier = CuriousLogistic.fit(data.x[fitted], y[fitted], s[fitted], beta_s=beta, penalty=penalty)
            outputs = classifier.soft(data.x)
            known = [(outputs[part], s[part]) for part in (fitted, chosen)]
            one, many = (IntervalAttacker.fit(*known, most=most) for most in (2, 6))
            found = self._judged(seed, data, outputs, (outputs >= 0.5).astype(int))
            rows.append(
                {
                    "margin": margin,
                    "beta_s": beta,
                    **found,
                    "ceiling": 1 + float((y[tested] == s[tested]).mean()),
                    "own_threshold": share_right(one.guesses(outputs[tested]) == s[tested]).as_dict(),
                    "intervals": share_right(many.guesses(outputs[tested]) == s[tested]).as_dict(),
                    "pieces": len(many.borders) + 1,
                }
            )
        return {"rows": rows}

    def _near(self, seed: int) -> dict[str, Any]:
        from fedveil_papers.curious.neighbourhood import neighbourhood

        cases = [(ridge, 0.5, beta) for ridge in self.ridges for beta in self.betas]
        cases += [(self.ridges[0], agreement, 0.3) for agreement in self.agreements]
        rows = []
        for ridge, agreement, beta in cases:
            data = self._data(seed, self.margin, agreement)
            part = _rows(data)[0]
            y, s = _codes(data)
            # The second axis says s alone; where s is y, both axes say y and the two optima are one.
            found = neighbourhood(data.x[part], y[part], s[part], beta_s=beta, penalty=ridge)
            rows.append({"ridge": ridge, "agreement": agreement, "beta_s": beta, **vars(found)})
        return {"rows": rows}

    def _judged(self, seed: int, data: AttributeData, outputs: Floats, guesses: Codes | None) -> dict[str, Any]:
        """Return honesty at ½, the server's own reading of s, and what attackers retrained on the outputs read."""
        from fedveil.attacks import panel
        from fedveil.view import Pool, View

        y, s = _codes(data)
        tested = _rows(data)[2]
        pools = (Pool(outputs[rows, None], {"s": data.attributes["s"].take(rows)}) for rows in _rows(data))
        judged = panel(self.panel, seed=seed).judge(View.apart(*pools), "s")
        return {
            "honesty": share_right((outputs[tested] >= 0.5) == y[tested]).as_dict(),
            "curiosity": None if guesses is None else share_right(guesses[tested] == s[tested]).as_dict(),
            "prior": judged.prior.as_dict(),
            "attacker": judged.worst.name,
            "retrained": judged.worst.balanced_accuracy.as_dict(),
        }

    def _picture(self) -> dict[str, Any]:
        """Return what the picture needs of the first run: some test records, and both mixtures' outputs by group."""
        import numpy as np

        from fedveil_papers.curious.mixture import Mixture

        data = self._data(self.seed, self.margin)
        y, s = _codes(data)
        tested = _rows(data)[2]
        z_y, z_s = self._classifiers(data)
        counts = {}
        for name, hard in (("hard", True), ("normal", False)):
            outputs = Mixture(self.beta_y, hard).mix_scalar(z_y, z_s)
            counts[name] = [
                np.histogram(outputs[tested][(y[tested] == a) & (s[tested] == b)], BINS, (0, 1))[0].tolist()
                for a in (0, 1)
                for b in (0, 1)
            ]
        some = tested[:400]
        return {"x": data.x[some].tolist(), "group": (2 * y[some] + s[some]).tolist(), "counts": counts}


def _rows(data: AttributeData) -> tuple[Codes, Codes, Codes]:
    from fedveil.data import Split

    train, validation, test = (data.rows(part) for part in Split)
    return train, validation, test


def _codes(data: AttributeData) -> tuple[Codes, Codes]:
    assert data.y is not None
    return data.y.codes, data.attributes["s"].codes
