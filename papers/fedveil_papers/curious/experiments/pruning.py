"""Pruned curious classifiers (Malekzadeh, Borovykh and Gündüz, CCS 2021, §5.7, Figure 9)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from rich.table import Table

from fedveil.attacks import panel
from fedveil.core.errors import InputError
from fedveil.games.curious import Curious
from fedveil.studies.units import Report
from fedveil_papers.curious import prune, train
from fedveil_papers.curious.experiments.cases import (
    CaseFigures,
    CuriousCase,
    attackers_note,
    closing_notes,
    locate_sources,
)
from fedveil_papers.curious.experiments.figures import from_json, over_runs
from fedveil_papers.curious.measuring import measure
from fedveil_papers.experiment import Experiment, Measured, Part
from fedveil_papers.rows import PaperFigures, Row
from fedveil_papers.wide_table import WideTable

STANDARD = "Std"
COLOURS = {STANDARD: "#555555", "RawHBC": "#b5471b", "SoftHBC": "#1b6ca8"}
CURVES: tuple[tuple[str, Literal["-", "--", ":"], str], ...] = (
    ("honesty", "-", "δ_y"),
    ("curiosity", "--", "δ_s, the maker's G"),
    ("retrained_accuracy", ":", "δ_s, retrained"),
)
"""What is drawn over the amount: field, line, name."""


@dataclass(frozen=True, kw_only=True)
class PrunedRow(CaseFigures):
    """A classifier's figures after a share (`amount`) of its weights was set to zero."""

    amount: float


@dataclass(frozen=True)
class Curve:
    """One classifier by amount: its case, its release (Std, RawHBC or SoftHBC) and (β_x, β_y, β_s)."""

    case: str
    release: str
    betas: list[float]
    rows: list[PrunedRow]

    @property
    def weights(self) -> str:
        """The betas as tables show them; nothing for the standard classifier."""
        return "" if self.release == STANDARD else betas_text(self.betas)

    def bearable(self, lost: float = 0.02) -> PrunedRow:
        """Return the row of the largest amount up to which honesty loses at most this much."""
        last = self.rows[0]
        for row in self.rows:
            if row.honesty.estimate < self.rows[0].honesty.estimate - lost:
                break
            last = row
        return last


@dataclass(frozen=True)
class PruningResults:
    """All curves over runs, and what the paper prints."""

    curves: list[Curve]
    paper: PaperFigures


@dataclass(frozen=True)
class CuriousPruning(Experiment[PruningResults]):
    """Classifiers whose smallest weights are set to zero before they are used, by growing amounts, without retraining.

    Attributes:
        cases: data sets, each with target, secret, widths and epochs (`CuriousCase`).
        betas: settings (β_x, β_y, β_s) for which RawHBC and SoftHBC are trained; the standard classifier is trained
            once.
        amounts: shares of weights set to zero.
        scope: whether they are the smallest of each "layer", as in PyTorch's l1_unstructured, or of the "network".
        runs: the number of seeds; run r trains with seed `seed` + r on the same split.
        panel: attackers that are retrained on the outputs at every amount.
        fresh: whether attackers learn from test records as well, each half's from the other half.
        most: how many records of each split attackers get at most; 0: all.
        draws: bootstrap draws for the intervals of retrained attackers.
        listed: amounts that the table shows; all are drawn.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "curious-pruning"
    cases: list[dict[str, Any]]
    betas: list[list[float]]
    amounts: list[float] = field(default_factory=lambda: [tenth / 10 for tenth in range(10)])
    scope: str = "layer"
    runs: int = 5
    panel: str = "quick"
    fresh: bool = True
    most: int = 0
    draws: int = 1000
    listed: list[float] = field(default_factory=lambda: [0.0, 0.5, 0.7, 0.9])
    seed: int = 0

    def check(self) -> None:
        """Refuse settings that cannot be run."""
        if self.runs < 1 or self.most < 0:
            raise InputError("experiment: runs must be at least 1, and most not negative")
        if not self.amounts or not all(0 <= amount < 1 for amount in self.amounts):
            raise InputError(f"experiment: amounts must lie in [0, 1), got {self.amounts}")
        if self.scope not in ("layer", "network"):
            raise InputError(f"experiment: scope {self.scope!r} is not known: choose layer or network")
        for case in self._cases():
            case.check("experiment: cases")
            for release, betas in self._classifiers():
                game(case, release, betas)
        panel(self.panel, draws=self.draws)

    def _cases(self) -> list[CuriousCase]:
        return [CuriousCase.of(case, f"experiment: cases[{index}]") for index, case in enumerate(self.cases)]

    def _classifiers(self) -> list[tuple[str, list[float]]]:
        """Return every classifier's release and betas, the standard one first."""
        return [
            (STANDARD, [0.0, 1.0, 0.0]),
            *((release, betas) for betas in self.betas for release in ("RawHBC", "SoftHBC")),
        ]

    def locate_data(self) -> None:
        """Find all data, or download it."""
        locate_sources(case.source for case in self._cases())

    def parts(self) -> list[Part]:
        """Return a part for each classifier of each case and each run."""
        return [
            self._part(case, release, betas, run)
            for case in self._cases()
            for release, betas in self._classifiers()
            for run in range(self.runs)
        ]

    def _part(self, case: CuriousCase, release: str, betas: list[float], run: int) -> Part:
        settings = {
            "kind": self.kind,
            "case": case.settings,
            "name": release,
            "betas": betas,
            **{name: getattr(self, name) for name in ("amounts", "scope", "panel", "fresh", "most", "draws", "seed")},
            "run": run,
        }
        name = f"{case.name}: {release} {betas_text(betas)}, run {run + 1}"
        return Part(settings, f"{__name__}:measure_curve", name, shares=case.name)

    def gather(self, measured: Measured, paper: PaperFigures) -> PruningResults:
        """Join the rows of all runs."""
        curves = []
        for case in self._cases():
            for release, betas in self._classifiers():
                runs = [measured[self._part(case, release, betas, run)]["rows"] for run in range(self.runs)]
                rows = over_runs([from_json(list[PrunedRow], run) for run in runs])
                curves.append(Curve(case.name, release, betas, rows))
        return PruningResults(curves, paper)

    def rows(self, results: PruningResults) -> list[Row]:
        """Return every classifier at every amount, by the maker's attack and by the strongest retrained attacker."""
        cases = {case.name: case for case in self._cases()}
        seeds = range(self.seed, self.seed + self.runs)
        rows = []
        for curve in results.curves:
            for pruned in curve.rows:
                more = {"betas": curve.betas, "scope": self.scope}
                rows += pruned.as_rows(curve.release, pruned.amount, cases[curve.case], seeds, more)
        return rows

    def tables(self, results: PruningResults) -> list[Table]:
        """A table for each case, with every classifier at the amounts listed, and a summary."""
        cases = dict.fromkeys(curve.case for curve in results.curves)
        return [*(self._case_table(results, case) for case in cases), _summary_table(results)]

    def _case_table(self, results: PruningResults, case: str) -> Table:
        table = WideTable(
            f"Figure 9, {case}: weights set to zero, the smallest of each {self.scope}",
            (
                *("classifier", "(β_x, β_y, β_s)", "pruned", "δ_y", "δ_s, the maker's G", "prior", "δ_s, retrained"),
                *("retrained, balanced", "attacker", "entropy"),
            ),
            left=("classifier", "attacker"),
            keys=3,
        )
        for curve in (curve for curve in results.curves if curve.case == case):
            for row in (row for row in curve.rows if row.amount in self.listed):
                table.add_row(
                    curve.release,
                    curve.weights,
                    f"{row.amount:.0%}",
                    str(row.honesty),
                    str(row.curiosity),
                    f"{row.prior.estimate:.3f}",
                    str(row.retrained_accuracy),
                    str(row.retrained),
                    row.attacker,
                    f"{row.entropy:.2f}",
                )
        return table

    def notes(self, results: PruningResults) -> list[str]:
        """State what the figures are based on."""
        return [
            f"{self.runs} run(s). Weights of convolutions and linear layers are pruned, biases and batch norms are "
            "not; nothing is trained afterwards. G is the one trained with the whole classifier.",
            "Retrained: the strongest attacker trained on the pruned outputs, an estimate; "
            + attackers_note(self.most, self.draws, self.fresh),
            *closing_notes(self._cases(), results.paper),
        ]

    def draw(self, results: PruningResults, canvas: Any) -> None:
        """Draw honesty and both readings of s over the amount, a panel for each case and β."""
        from matplotlib.lines import Line2D

        curves = results.curves
        cases = list(dict.fromkeys(curve.case for curve in curves))
        settings = list(dict.fromkeys(tuple(curve.betas) for curve in curves if curve.release != STANDARD))
        canvas.set_size_inches(3.1 * len(settings), 2.7 * len(cases) + 0.6)
        axes = canvas.subplots(len(cases), len(settings), squeeze=False, sharex=True, sharey="row")
        for line, case in zip(axes, cases, strict=True):
            of_case = [curve for curve in curves if curve.case == case]
            for axis, betas in zip(line, settings, strict=True):
                for curve in of_case:
                    if curve.release == STANDARD or tuple(curve.betas) == betas:
                        _draw_curve(axis, curve)
                axis.axhline(of_case[0].rows[0].prior.estimate, color="grey", linewidth=0.6)
                axis.set_title(f"{case}, β {betas_text(list(betas))}", fontsize=8)
            line[0].set_ylabel("test accuracy")
        for axis in axes[-1]:
            axis.set_xlabel("share of weights at zero")
        lines = [Line2D([], [], color=colour, label=name) for name, colour in COLOURS.items()]
        lines += [Line2D([], [], color="black", linestyle=style, label=name) for _, style, name in CURVES]
        lines.append(Line2D([], [], color="grey", linewidth=0.6, label="prior of s"))
        canvas.legend(handles=lines, loc="outside lower center", ncols=len(lines), frameon=False, fontsize=8)


def game(case: CuriousCase, release: str, betas: list[float]) -> Curious:
    """Return the game that trains one classifier."""
    if len(betas) != 3:
        raise InputError(f"experiment: betas are β_x, β_y, β_s; {betas} has {len(betas)} numbers")
    beta_x, beta_y, beta_s = betas
    return Curious(
        secrets=case.secret,
        output="soft" if release == "SoftHBC" else "raw",
        beta_x=beta_x,
        beta_y=beta_y,
        beta_s=beta_s,
        widths=tuple(case.widths),
    )


def measure_curve(settings: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Train one classifier, prune it by every amount, and judge what it releases."""
    case, seed, amounts = CuriousCase.of(settings["case"], "experiment: case"), settings["seed"], settings["amounts"]
    data = case.load(seed)
    steps = 1 + len(amounts)  # training, and each amount
    whole = train(
        game(case, settings["name"], settings["betas"]),
        data,
        epochs=case.epochs,
        seed=seed + settings["run"],
        progress=lambda line: report.progress(0.0, line),
    )
    rows = []
    for number, amount in enumerate(amounts, start=1):
        report.progress(number / steps, f"pruned by {amount:g}")
        measured = measure(
            prune(whole, amount, scope=settings["scope"]),
            data,
            case.secret,
            attackers=settings["panel"],
            fresh=settings["fresh"],
            most=settings["most"] or None,
            draws=settings["draws"],
            seed=seed,
        )
        rows.append({"amount": amount, **measured.as_dict()})
    return {"rows": rows}


def _summary_table(results: PruningResults) -> Table:
    table = WideTable(
        "What a user can prune away: the largest amount that costs honesty at most 2 points",
        ("case", "classifier", "(β_x, β_y, β_s)", "amount", "δ_y", "δ_s, the maker's G", "δ_s, retrained"),
        left=("case", "classifier"),
        keys=3,
    )
    for curve in results.curves:
        whole, pruned = curve.rows[0], curve.bearable()
        changes = (
            f"{before.estimate:.3f} → {after.estimate:.3f}"
            for before, after in (
                (whole.honesty, pruned.honesty),
                (whole.curiosity, pruned.curiosity),
                (whole.retrained_accuracy, pruned.retrained_accuracy),
            )
        )
        table.add_row(curve.case, curve.release, curve.weights, f"{pruned.amount:.0%}", *changes)
    table.caption = (
        "Amounts are chosen by test figures, which a user without labels does not have: the best case of pruning."
    )
    return table


def _draw_curve(axis: Any, curve: Curve) -> None:
    amounts = [row.amount for row in curve.rows]
    for name, style, _ in CURVES:
        values = [getattr(row, name).estimate for row in curve.rows]
        axis.plot(amounts, values, style, color=COLOURS[curve.release], linewidth=1.2, marker="o", markersize=2)


def betas_text(betas: list[float]) -> str:
    """Return (β_x, β_y, β_s) as tables show them.

    >>> betas_text([0.0, 0.7, 0.3])
    '(0, .7, .3)'
    """
    return "(" + ", ".join(f"{beta:g}".lstrip("0") or "0" for beta in betas) + ")"
