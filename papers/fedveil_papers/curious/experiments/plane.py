"""Measurements in the plane, on the data of the paper's Figure 2: mixtures, one logistic regression, its optimum.

Each `measure_…` is the task of a part (`fedveil_papers.experiment.Part`): it takes the part's settings and returns its
figures, both as JSON values. The rows of the figures are the dataclasses below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedveil.attacks import panel
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.measures import share_right
from fedveil.data import AttributeData, Split
from fedveil.studies.units import Report
from fedveil.view import Pool, View
from fedveil_papers.curious.convex import CuriousLogistic, neighbourhood
from fedveil_papers.curious.experiments.figures import RunFigure, to_json
from fedveil_papers.curious.figure2 import figure2
from fedveil_papers.curious.intervals import IntervalAttacker
from fedveil_papers.curious.mixture import Mixture

BINS = 50
"""How many bins the picture's histograms of outputs have."""

GROUPS = ("y = 0, s = 0", "y = 0, s = 1", "y = 1, s = 0", "y = 1, s = 1")


@dataclass(frozen=True, kw_only=True)
class Readings:
    """What is read in a release, on test records.

    Attributes:
        honesty: accuracy on y of the output cut at ½.
        curiosity: accuracy on s of the server's reading; None if the server does not read s.
        prior: the share of the most frequent value of s.
        attacker, retrained: the retrained attacker that is best on validation records, and its balanced accuracy.
    """

    honesty: RunFigure
    curiosity: RunFigure | None
    prior: RunFigure
    attacker: str
    retrained: RunFigure


@dataclass(frozen=True, kw_only=True)
class MixtureRow(Readings):
    """One release of Figure 4: "standard" (y's classifier alone), "hard mixture" or "normal mixture"."""

    release: str


@dataclass(frozen=True)
class MarginRow:
    """The normal mixture at one margin of the data, read by the server."""

    margin: float
    honesty: RunFigure
    curiosity: RunFigure


@dataclass(frozen=True, kw_only=True)
class ConvexRow(Readings):
    """One logistic regression for both attributes (Appendix A.1); the server cuts its output at ½ for y and for s.

    Attributes:
        margin: the data's margin.
        beta_s: the weight of s.
        ceiling: 1 + P(y = s) among test records, the most that honesty + curiosity can be with a shared threshold.
        own_threshold: accuracy on s with a threshold fitted to s.
        intervals: accuracy on s with several intervals.
        pieces: the number of these intervals.
    """

    margin: float
    beta_s: float
    ceiling: float
    own_threshold: RunFigure
    intervals: RunFigure
    pieces: float


@dataclass(frozen=True)
class NearRow:
    """Distance of the optimum for both attributes from y's optimum (Appendix A.2).

    Attributes:
        ridge: λ.
        agreement: P(s = y).
        beta_s: the weight of s.
        distance, gradient_bound, gap_bound, lost: as in `fedveil_papers.curious.convex.Neighbourhood`.
    """

    ridge: float
    agreement: float
    beta_s: float
    distance: float
    gradient_bound: float
    gap_bound: float
    lost: float


@dataclass(frozen=True)
class Picture:
    """The first run's data and outputs, as drawn.

    Attributes:
        x: some test records.
        group: for each, the index of its (y, s) in `GROUPS`.
        counts: by mixture ("hard", "normal") and group, how many outputs fall into each bin of [0, 1].
    """

    x: list[tuple[float, float]]
    group: list[int]
    counts: dict[str, list[list[int]]]


@dataclass(frozen=True)
class Laboratory:
    """How one run's data is drawn, classified and judged; its fields are those of `CuriousSynthetic`."""

    sizes: tuple[int, int, int]
    inverse_penalty: float
    panel: str
    seed: int

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> Laboratory:
        """Take the fields from a part's settings."""
        train, validation, test = settings["sizes"]
        return cls((train, validation, test), settings["inverse_penalty"], settings["panel"], settings["seed"])

    def draw(self, margin: float, agreement: float = 0.5) -> Drawn:
        """Draw Figure 2's data."""
        data = figure2(*self.sizes, margin=margin, agreement=agreement, seed=self.seed)
        assert data.y is not None
        return Drawn(data, data.y.codes, data.attributes["s"].codes, *(data.rows(split) for split in Split))

    @property
    def penalty(self) -> float:
        """λ of the logistic regressions."""
        return 1 / (self.inverse_penalty * self.sizes[0])

    def two_classifiers(self, drawn: Drawn) -> tuple[FloatArray, FloatArray]:
        """Return z^y and z^s of all records: two logistic regressions, one for y and one for s."""
        x, rows = drawn.data.x, drawn.train
        z_y, z_s = (
            CuriousLogistic.fit(x[rows], codes[rows], codes[rows], beta_s=0.0, penalty=self.penalty).soft(x)
            for codes in (drawn.y, drawn.s)
        )
        return z_y, z_s

    def judge(self, drawn: Drawn, outputs: FloatArray, guesses: IntArray | None) -> Readings:
        """Return honesty at ½, the server's reading of s, and what attackers retrained on the outputs read."""
        secret, test = drawn.data.attributes["s"], drawn.test
        pools = (
            Pool(outputs[rows, None], {"s": secret.take(rows)}) for rows in (drawn.train, drawn.validation, drawn.test)
        )
        judgement = panel(self.panel, seed=self.seed).judge(View.apart(*pools, fitted=True), "s")
        return Readings(
            honesty=RunFigure.of(share_right((outputs[test] >= 0.5) == drawn.y[test])),
            curiosity=None if guesses is None else RunFigure.of(share_right(guesses[test] == drawn.s[test])),
            prior=RunFigure.of(judgement.prior),
            attacker=judgement.worst.name,
            retrained=RunFigure.of(judgement.worst.balanced_accuracy),
        )


@dataclass(frozen=True, eq=False)
class Drawn:
    """Data with the codes of y and s, and the rows of each split."""

    data: AttributeData
    y: IntArray
    s: IntArray
    train: IntArray
    validation: IntArray
    test: IntArray


def measure_mixtures(settings: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Judge y's classifier and both mixtures, then the normal mixture at further margins."""
    laboratory, beta_y, threshold = Laboratory.of(settings), settings["beta_y"], settings["threshold"]
    drawn = laboratory.draw(settings["margin"])
    z_y, z_s = laboratory.two_classifiers(drawn)
    releases = [MixtureRow(release="standard", **vars(laboratory.judge(drawn, z_y, None)))]
    for name, hard in (("hard mixture", True), ("normal mixture", False)):
        mixture = Mixture(beta_y, hard)
        outputs = mixture.mix_scalar(z_y, z_s)
        guesses = mixture.read_scalar(outputs, threshold)[1]
        releases.append(MixtureRow(release=name, **vars(laboratory.judge(drawn, outputs, guesses))))
    margins = []
    for margin in settings["margins"]:
        other = laboratory.draw(margin)
        soft = Mixture(beta_y, hard=False)
        y, s = soft.read_scalar(soft.mix_scalar(*laboratory.two_classifiers(other)), threshold)
        honesty, curiosity = (
            RunFigure.of(share_right(guess[other.test] == codes[other.test]))
            for guess, codes in ((y, other.y), (s, other.s))
        )
        margins.append(MarginRow(margin, honesty, curiosity))
    return {"releases": to_json(releases), "margins": to_json(margins)}


def measure_convex(settings: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Train one logistic regression for both attributes at every β_s, and read s in its output in several ways."""
    laboratory = Laboratory.of(settings)
    drawn = laboratory.draw(settings["margin"])
    x, y, s, train, test = drawn.data.x, drawn.y, drawn.s, drawn.train, drawn.test
    measured = []
    for beta in settings["betas"]:
        classifier = CuriousLogistic.fit(x[train], y[train], s[train], beta_s=beta, penalty=laboratory.penalty)
        outputs = classifier.soft(x)
        auxiliary, validation = ((outputs[rows], s[rows]) for rows in (train, drawn.validation))
        threshold, intervals = (IntervalAttacker.fit(auxiliary, validation, most=most) for most in (2, 6))
        row = ConvexRow(
            **vars(laboratory.judge(drawn, outputs, (outputs >= 0.5).astype(int))),
            margin=settings["margin"],
            beta_s=beta,
            ceiling=1 + float((y[test] == s[test]).mean()),
            own_threshold=RunFigure.of(share_right(threshold.guesses(outputs[test]) == s[test])),
            intervals=RunFigure.of(share_right(intervals.guesses(outputs[test]) == s[test])),
            pieces=len(intervals.borders) + 1,
        )
        measured.append(row)
    return {"rows": to_json(measured)}


def measure_near(settings: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Measure Appendix A.2 at every λ and β_s, and at every P(s = y) for the first λ."""
    laboratory, ridges = Laboratory.of(settings), settings["ridges"]
    cases = [(ridge, 0.5, beta) for ridge in ridges for beta in settings["betas"]]
    cases += [(ridges[0], agreement, 0.3) for agreement in settings["agreements"]]
    rows = []
    for ridge, agreement, beta in cases:
        drawn = laboratory.draw(settings["margin"], agreement)
        part = drawn.train
        # The second axis shows s alone; if s is y, both axes show y and the two optima are the same.
        near = neighbourhood(drawn.data.x[part], drawn.y[part], drawn.s[part], beta_s=beta, penalty=ridge)
        rows.append(NearRow(ridge, agreement, beta, **asdict(near)))
    return {"rows": to_json(rows)}


def measure_picture(settings: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Return what the picture shows: some test records, and both mixtures' outputs by group."""
    laboratory = Laboratory.of(settings)
    drawn = laboratory.draw(settings["margin"])
    z_y, z_s = laboratory.two_classifiers(drawn)
    group = 2 * drawn.y + drawn.s
    counts = {}
    for name, hard in (("hard", True), ("normal", False)):
        outputs = Mixture(settings["beta_y"], hard).mix_scalar(z_y, z_s)[drawn.test]
        counts[name] = [
            np.histogram(outputs[group[drawn.test] == number], BINS, (0, 1))[0].tolist()
            for number in range(len(GROUPS))
        ]
    some = drawn.test[:400]
    return to_json(Picture(drawn.data.x[some].tolist(), group[some].tolist(), counts))  # type: ignore[no-any-return]
