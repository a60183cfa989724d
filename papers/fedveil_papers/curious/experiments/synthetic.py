"""Honest-but-curious classifiers in the plane (Malekzadeh et al., CCS 2021, Figures 2 to 4, Appendix A)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from rich.table import Table

from fedveil.attacks import panel
from fedveil.core.errors import InputError
from fedveil_papers.curious.experiments.figures import from_json, over_runs
from fedveil_papers.curious.experiments.plane import (
    GROUPS,
    ConvexRow,
    MarginRow,
    MixtureRow,
    NearRow,
    Picture,
    Readings,
)
from fedveil_papers.curious.mixture import Mixture
from fedveil_papers.experiment import Experiment, Measured, Part
from fedveil_papers.rows import Figures, PaperFigures, Row, notes_of
from fedveil_papers.wide_table import WideTable

COLOURS = ("#1b6ca8", "#7cc4e8", "#b5471b", "#f2a65a")
"""The groups' colours."""

_BOTH = "one logistic regression"


@dataclass(frozen=True)
class SyntheticResults:
    """All figures over runs, and what the paper prints."""

    mixtures: list[MixtureRow]
    margins: list[MarginRow]
    convex: list[ConvexRow]
    near: list[NearRow]
    first_run: Picture
    paper: PaperFigures


@dataclass(frozen=True)
class CuriousSynthetic(Experiment[SyntheticResults]):
    """Mixtures of two logistic regressions, a single one for both attributes, and its optimum's distance from y's.

    Attributes:
        runs: the number of data sets drawn; run r has seed `seed` + r.
        train, validation, test: the number of records in each split.
        margin: the margin of Figure 2's data, on which the mixtures are judged.
        margins: further margins for the normal mixture, as the paper prints no distribution.
        convex_margins: margins at which the logistic regression for both attributes is trained for all `betas`.
        betas: β_s of the convex case.
        beta_y: the mixtures' β_y.
        threshold: τ' of eq. 2.
        inverse_penalty: C of the logistic regressions: λ = 1 / (C · train), scikit-learn's default at 1.
        ridges: λ at which Appendix A.2 is measured.
        agreements: P(s = y) at which it is measured, with β_s = .3; all else has .5, which is independence.
        panel: attackers that are retrained on every release.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "curious-synthetic"
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
        """Refuse settings that cannot be run."""
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

    def parts(self) -> list[Part]:
        """Return for each run the mixtures, the convex case at each margin and Appendix A.2; then the picture."""
        return [part for seed in self._seeds for part in self._run(seed)] + [self._picture()]

    @property
    def _seeds(self) -> list[int]:
        return list(range(self.seed, self.seed + self.runs))

    def _run(self, seed: int) -> list[Part]:
        return [self._mixtures(seed), *(self._convex(seed, margin) for margin in self.convex_margins), self._near(seed)]

    def _mixtures(self, seed: int) -> Part:
        return self._part("mixtures", f"run {seed}: mixtures", seed, self.margin, **self._mixing)

    def _convex(self, seed: int, margin: float) -> Part:
        name = f"run {seed}: one logistic regression, margin {margin:g}"
        return self._part("convex", name, seed, margin, betas=self.betas)

    def _near(self, seed: int) -> Part:
        swept = {"betas": self.betas, "ridges": self.ridges, "agreements": self.agreements}
        return self._part("near", f"run {seed}: Appendix A.2", seed, self.margin, **swept)

    def _picture(self) -> Part:
        return self._part("picture", "picture", self.seed, self.margin, **self._mixing)

    @property
    def _mixing(self) -> dict[str, Any]:
        return {"beta_y": self.beta_y, "threshold": self.threshold, "margins": self.margins}

    def _part(self, measure: str, name: str, seed: int, margin: float, **further: Any) -> Part:
        settings = {
            "kind": self.kind,
            "part": measure,
            "sizes": [self.train, self.validation, self.test],
            "panel": self.panel,
            "inverse_penalty": self.inverse_penalty,
            "seed": seed,
            "margin": margin,
            **further,
        }
        return Part(settings, f"fedveil_papers.curious.experiments.plane:measure_{measure}", name)

    def gather(self, measured: Measured, paper: PaperFigures) -> SyntheticResults:
        """Join the rows of all runs."""
        mixtures = [measured[self._mixtures(seed)] for seed in self._seeds]
        convex = [
            [row for margin in self.convex_margins for row in measured[self._convex(seed, margin)]["rows"]]
            for seed in self._seeds
        ]
        return SyntheticResults(
            mixtures=over_runs([from_json(list[MixtureRow], run["releases"]) for run in mixtures]),
            margins=over_runs([from_json(list[MarginRow], run["margins"]) for run in mixtures]),
            convex=over_runs([from_json(list[ConvexRow], rows) for rows in convex]),
            near=over_runs([from_json(list[NearRow], measured[self._near(seed)]["rows"]) for seed in self._seeds]),
            first_run=from_json(Picture, measured[self._picture()]),
            paper=paper,
        )

    def rows(self, results: SyntheticResults) -> list[Row]:
        """Return each release, and the logistic regression for both at each β_s, by who reads s and how."""
        rows = []
        for mixture in results.mixtures:
            printed = _printed(results.paper, mixture.release)
            paper = {"Figure 4": printed} if printed else {}
            rows += self._readings(mixture.release, None, mixture, paper, {"margin": self.margin})
        for by_margin in results.margins:
            utility, leakage = {"accuracy": by_margin.honesty.in_row}, {"accuracy": by_margin.curiosity.in_row}
            rows.append(self._row("normal mixture", None, "maker", utility, leakage, {}, {"margin": by_margin.margin}))
        for convex in results.convex:
            more = {"margin": convex.margin, "ceiling": convex.ceiling, "pieces": convex.pieces}
            rows += self._readings(_BOTH, convex.beta_s, convex, {}, more)
            for attacker, figure in (("own threshold", convex.own_threshold), ("intervals", convex.intervals)):
                utility, leakage = {"accuracy": convex.honesty.in_row}, {"accuracy": figure.in_row}
                rows.append(self._row(_BOTH, convex.beta_s, attacker, utility, leakage, {}, more))
        for near in results.near:
            rows.append(self._row(_BOTH, near.beta_s, None, None, None, {}, asdict(near)))
        return rows

    def _readings(
        self, method: str, strength: float | None, read: Readings, paper: dict[str, Any], more: dict[str, Any]
    ) -> list[Row]:
        """Return a row for the server's reading, if it reads s, and one for the strongest retrained attacker."""
        utility = {"accuracy": read.honesty.in_row}
        leakage = {"balanced_accuracy": read.retrained.in_row, "prior": read.prior.in_row}
        rows = [
            self._row(method, strength, "retrained", utility, leakage, paper, {**more, "attacker_name": read.attacker})
        ]
        if read.curiosity is not None:
            leakage = {"accuracy": read.curiosity.in_row, "prior": read.prior.in_row}
            rows.insert(0, self._row(method, strength, "maker", utility, leakage, paper, more))
        return rows

    def _row(
        self,
        method: str,
        strength: float | None,
        attacker: str | None,
        utility: Figures | None,
        leakage: Figures | None,
        paper: dict[str, Any],
        more: dict[str, Any],
    ) -> Row:
        return Row(method, strength, "y", "s", attacker, self._seeds, utility, leakage, paper, more)

    def tables(self, results: SyntheticResults) -> list[Table]:
        """Mixtures, the normal mixture by margin, one logistic regression, Appendix A.2."""
        return [
            self._mixture_table(results),
            _margin_table(results),
            _convex_table(results),
            _near_table(results),
        ]

    def _mixture_table(self, results: SyntheticResults) -> Table:
        table = WideTable(
            f"Figure 4: β = ({self.beta_y:g}, {1 - self.beta_y:g}), τ' = {self.threshold:g}, {self.runs} run(s)",
            ("release", "δ_y", "paper", "δ_s, the server's G", "paper", "prior", "retrained, balanced", "attacker"),
            left=("release", "attacker"),
        )
        for row in results.mixtures:
            printed = _printed(results.paper, row.release)
            honesty, curiosity = (f"{printed[name]:g}" if name in printed else "" for name in ("honesty", "curiosity"))
            table.add_row(
                row.release,
                str(row.honesty),
                honesty,
                "–" if row.curiosity is None else str(row.curiosity),
                curiosity,
                f"{row.prior.estimate:.3f}",
                str(row.retrained),
                row.attacker,
            )
        return table

    def notes(self, results: SyntheticResults) -> list[str]:
        """State what the figures are based on."""
        several = ", for several runs the widest of theirs after mean ± standard deviation." if self.runs > 1 else "."
        return [
            f"Data: y and s balanced and independent, |x1| and |x2| uniform on [margin, 1]; {self.train} training "
            "records; the paper prints no distribution. The margin was chosen so that the normal mixture reaches "
            "the paper's .95.",
            f"Logistic regressions have the penalty C = {self.inverse_penalty:g}: without one, separable data drives "
            "weights to infinity, and the normal mixture becomes the hard one.",
            "One shared bit b has P(b = y) + P(b = s) ≤ 1 + P(y = s) for any classifier. The output is a number: along "
            "it the groups 00, 01, 10, 11 follow each other, s changes at each border, and several intervals separate "
            "them.",
            f"Intervals: 95%{several} Retrained: the strongest attacker on validation, an estimate; the bounds of A.2 "
            "are proven.",
            *notes_of(results.paper),
        ]

    def draw(self, results: SyntheticResults, canvas: Any) -> None:
        """Draw the data, both mixtures, the trade-off and the neighbourhood."""
        canvas.set_size_inches(11.5, 6.4)
        data, hard, normal, trade, near, empty = canvas.subplots(2, 3).flat
        _draw_data(results, data)
        _draw_mixture(results, "hard", self.threshold, hard)
        _draw_mixture(results, "normal", self.threshold, normal)
        _draw_trade_off(results, trade)
        _draw_near(results, near)
        empty.axis("off")  # it holds the legends of the others, which would cover their points
        groups = empty.legend(*data.get_legend_handles_labels(), loc="upper left", frameon=False, borderaxespad=0)
        empty.legend(*trade.get_legend_handles_labels(), loc="lower left", frameon=False, borderaxespad=0)
        empty.add_artist(groups)  # a second legend replaces the first unless the first is added as an artist


def _printed(paper: PaperFigures, release: str) -> Mapping[str, Any]:
    """Return what the paper prints about a release: "honesty" and "curiosity"."""
    entries = (entry for entry in paper if entry.get("release") == release)
    return {name: value for name, value in next(entries, {}).items() if name != "release"}


def _margin_table(results: SyntheticResults) -> Table:
    table = WideTable(
        "Normal mixture by margin of the data", ("margin", "δ_y", "δ_s, the server's G"), left=("margin",)
    )
    for row in results.margins:
        table.add_row(f"{row.margin:g}", str(row.honesty), str(row.curiosity))
    return table


def _convex_table(results: SyntheticResults) -> Table:
    table = WideTable(
        "One logistic regression for both (Appendix A.1): δ_s by how the output is read",
        (
            *("margin", "β_s", "δ_y", "shared ½", "sum", "1 + P(y = s)", "own threshold"),
            *("intervals", "number", "sum", "prior", "retrained, balanced"),
        ),
        left=("margin",),
        keys=2,
    )
    for row in results.convex:
        assert row.curiosity is not None  # the server reads s in all of these
        honesty = row.honesty.estimate
        table.add_row(
            f"{row.margin:g}",
            f"{row.beta_s:g}",
            f"{honesty:.3f}",
            f"{row.curiosity.estimate:.3f}",
            f"{honesty + row.curiosity.estimate:.3f}",
            f"{row.ceiling:.3f}",
            f"{row.own_threshold.estimate:.3f}",
            str(row.intervals),
            f"{row.pieces:g}",
            f"{honesty + row.intervals.estimate:.3f}",
            f"{row.prior.estimate:.3f}",
            str(row.retrained),
        )
    table.caption = "The paper: δ_y + δ_s = 1.5 for any logistic regression; that is the first sum."
    return table


def _near_table(results: SyntheticResults) -> Table:
    table = WideTable(
        "Appendix A.2: distance of the optimum for both from y's own",
        ("λ", "P(s = y)", "β_s", "‖Θ∞ − Θ*_y‖", "bound by ∇L_s", "bound by L_s, corrected", "L_y lost"),
        left=("λ",),
        keys=3,
    )
    for row in results.near:
        figures = (row.distance, row.gradient_bound, row.gap_bound, row.lost)
        table.add_row(
            f"{row.ridge:g}", f"{row.agreement:g}", f"{row.beta_s:g}", *(f"{figure:.4f}" for figure in figures)
        )
    return table


def _draw_data(results: SyntheticResults, axis: Any) -> None:
    picture = results.first_run
    for group, (name, colour) in enumerate(zip(GROUPS, COLOURS, strict=True)):
        points = [x for x, number in zip(picture.x, picture.group, strict=True) if number == group]
        axis.scatter(*zip(*points, strict=True), s=7, color=colour, marker="ox"[group % 2], linewidth=0.8, label=name)
    axis.set(title="Figure 2: data", xlabel="x1 (decides y)", ylabel="x2 (decides s)", aspect="equal")


def _draw_mixture(results: SyntheticResults, mixture: str, threshold: float, axis: Any) -> None:
    by_group = results.first_run.counts[mixture]
    bins = len(by_group[0])
    centres = [(number + 0.5) / bins for number in range(bins)]
    for counts, name, colour in zip(by_group, GROUPS, COLOURS, strict=True):
        axis.bar(centres, counts, width=1 / bins, color=colour, alpha=0.8, label=name)
    for cut in (threshold, 0.5, 1 - threshold):
        axis.axvline(cut, color="black", linewidth=0.7, linestyle=":")
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.yaxis.set_minor_formatter(lambda value, _: "")
    axis.set(title=f"Figure 4: {mixture} mixture", xlabel="ŷ", ylabel="test records (log)")
    axis.set_ylim(0.8, 2 * max(map(max, by_group)))


def _draw_trade_off(results: SyntheticResults, axis: Any) -> None:
    for number, margin in enumerate(dict.fromkeys(row.margin for row in results.convex)):
        rows = [row for row in results.convex if row.margin == margin]
        honesty = [row.honesty.estimate for row in rows]
        colour = (COLOURS[0], COLOURS[2])[number % 2]
        shared = [row.curiosity.estimate for row in rows if row.curiosity is not None]
        intervals = [row.intervals.estimate for row in rows]
        for values, line, name in ((shared, "o--", "shared threshold"), (intervals, "s-", "intervals")):
            axis.plot(values, honesty, line, color=colour, markersize=3.5, label=f"{name}, margin {margin:g}")
    axis.plot([0.5, 0.75], [1.0, 0.75], color="grey", linewidth=4, alpha=0.3, label="δ_y + δ_s = 1.5")
    axis.set(title="One logistic regression, β_s from 0 to .5", xlabel="δ_s", ylabel="δ_y", xlim=(0.45, 1.02))


def _draw_near(results: SyntheticResults, axis: Any) -> None:
    ridge = results.near[0].ridge
    rows = {row.beta_s: row for row in results.near if row.ridge == ridge and row.agreement == 0.5}
    for name, label in (
        ("distance", "measured"),
        ("gap_bound", "bound by L_s, corrected"),
        ("gradient_bound", "bound by ∇L_s"),
    ):
        axis.plot(list(rows), [getattr(row, name) for row in rows.values()], "o-", markersize=3, label=label)
    axis.set(title=f"Appendix A.2, λ = {ridge:g}", xlabel="β_s", ylabel="‖Θ∞ − Θ*_y‖")
    axis.legend(frameon=False, fontsize=8)
