"""Recorded losses as functions of the strength, with a least-squares line (TAPPFL's Figure 2)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.stats import linregress
from scipy.stats import t as student

from fedveil.config.cells import load_data, make_game
from fedveil.core.entropy import entropy
from fedveil.core.errors import InputError
from fedveil.data import Split
from fedveil.games.game import DataShape
from fedveil_papers.drawing import error_bars
from fedveil_papers.rows import Figure, PaperFigures, Row
from fedveil_papers.shown import Played, Shown, at, cells_of, named_method, with_interval

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.studies.check import Plan
    from fedveil.studies.results import CellResult
    from fedveil_papers.experiment import Measured


@dataclass(frozen=True)
class Line:
    """A fitted line: value = intercept + slope · strength."""

    slope: Figure
    intercept: float
    r_squared: float


@dataclass(frozen=True)
class Point:
    """One cell: losses at the end of training, and what attackers read from its releases."""

    strength: float | None
    seed: int
    losses: Mapping[str, float]
    retrained_bits: Figure | None
    retrained_balanced_accuracy: Figure | None
    cotrained_balanced_accuracy: Figure | None


@dataclass(frozen=True)
class Panel:
    """One attribute of one study.

    Attributes:
        study, data, attribute: what the panel is about.
        entropy_nats: H(u) of the training records.
        points: all cells.
        lines: a line for each loss, by its name.
        information_line: a line for the bits that retrained attackers read.
    """

    study: str
    data: str
    attribute: str
    entropy_nats: float
    points: Sequence[Point]
    lines: Mapping[str, Line]
    information_line: Line


@dataclass(frozen=True)
class Losses:
    """All panels, with the method they are about and the number of last rounds that losses are averaged over."""

    method: str
    rounds_averaged: int
    panels: Sequence[Panel]


@dataclass(frozen=True)
class LossesByStrength(Shown[Losses]):
    """Each loss at the end of training by strength, and what attackers read in the same releases.

    A loss is the mean over the last `rounds` recorded rounds of the last stage. The line is a least-squares fit over
    all strengths and seeds; the interval of its slope assumes that deviations from the line are normal.

    Attributes:
        method: the method whose strengths are shown.
        losses: names of the moves whose losses are shown; the first is the adversary's.
        rounds: how many of the last rounds are averaged.
    """

    kind: ClassVar[str] = "losses-by-strength"
    method: str = "tappfl"
    losses: tuple[str, ...] = ("CE", "JSD")
    rounds: int = 3

    def check(self, plans: Sequence[Plan]) -> None:
        """Refuse studies with fewer than three strengths, or whose game has no moves of these names."""
        if self.rounds < 1 or not self.losses:
            raise InputError(f"shows: {self.kind} needs at least one loss and one round, got {self.rounds} rounds")
        for plan in plans:
            method = named_method(plan, self.method, self.kind)
            if len(method.points) < 3:
                raise InputError(
                    f"shows: {self.kind} draws a line, but {self.method} in study {plan.study.name!r} has "
                    f"{len(method.points)} strengths; give at least three"
                )
            shape = DataShape.of(load_data(plan.study, plan.study.seeds[0]))
            last_stage = [*make_game(method, method.points[0]).stages(shape)][-1:]
            moves = [move.title for stage in last_stage for move in stage.moves]
            for name in self.losses:
                if name not in moves:
                    raise InputError(
                        f"shows: {self.kind} needs the loss {name!r}, but {self.method} in study {plan.study.name!r} "
                        f"records {', '.join(moves) or 'none'}"
                    )

    def gather(self, played: Sequence[Played], measured: Measured, paper: PaperFigures) -> Losses:
        """Return points and lines, a panel per study and attribute."""
        panels = [self._panel(study, attribute) for study in played for attribute in study.results.attributes]
        return Losses(self.method, self.rounds, panels)

    def _panel(self, played: Played, attribute: str) -> Panel:
        cells = [cell for same_strength in cells_of(played, self.method).values() for cell in same_strength]
        points = [self._point(cell, attribute) for cell in cells]
        strengths = [_number(point.strength) for point in points]
        bits = [_estimate(point.retrained_bits) for point in points]
        return Panel(
            played.results.name,
            played.plan.study.data.source,
            attribute,
            _entropy(played, attribute),
            points,
            {name: fit_line(strengths, [point.losses[name] for point in points]) for name in self.losses},
            fit_line(strengths, bits),
        )

    def _point(self, cell: CellResult, attribute: str) -> Point:
        stage = cell.metrics[-1].stage if cell.metrics else None
        last = [record for record in cell.metrics if record.stage == stage][-self.rounds :]
        cotrained, judged = cell.result.cotrained.get(attribute), cell.result.leakage[attribute]
        return Point(
            cell.strength,
            cell.seed,
            {name: float(np.mean([record.losses[name] for record in last])) for name in self.losses},
            Figure.of(judged.mutual_information_bits),
            Figure.of(judged.worst.balanced_accuracy),
            None if cotrained is None else Figure.of(cotrained.balanced_accuracy),
        )

    def rows(self, results: Losses) -> list[Row]:
        """Return each cell's losses, and each line."""
        rows = []
        for panel in results.panels:
            about = Row(method=results.method, attribute=panel.attribute)
            where = {"study": panel.study, "data": panel.data}
            rows += [
                replace(about, strength=point.strength, seeds=[point.seed], more={**where, "losses": point.losses})
                for point in panel.points
            ]
            seeds = sorted({point.seed for point in panel.points})
            lines = {**panel.lines, "retrained bits": panel.information_line}
            rows += [replace(about, seeds=seeds, more={**where, "line": name, **asdict(lines[name])}) for name in lines]
        return rows

    def tables(self, results: Losses) -> list[Table]:
        """Return a table of points for each panel, then one of lines."""
        return [*(self._points_table(panel) for panel in results.panels), _lines_table(results)]

    def _points_table(self, panel: Panel) -> Table:
        from rich.table import Table
        from rich.text import Text

        table = Table(title=Text(f"{panel.data}, {panel.attribute}"), title_justify="left")
        headings = ["λ", "seed", *(f"{name} (nats)" for name in self.losses), "retrained: bits read"]
        for heading in (*headings, "retrained: balanced acc.", "co-trained (weak): balanced acc."):
            table.add_column(heading, justify="right")
        for point in panel.points:
            table.add_row(
                at(point.strength),
                str(point.seed),
                *(f"{point.losses[name]:.3f}" for name in self.losses),
                with_interval(point.retrained_bits),
                with_interval(point.retrained_balanced_accuracy),
                with_interval(point.cotrained_balanced_accuracy),
            )
        return table

    def notes(self, results: Losses) -> list[str]:
        """Say what a loss means, and what it does not."""
        entropies = "; ".join(f"{panel.data} {panel.attribute} {panel.entropy_nats:.3f}" for panel in results.panels)
        return [
            f"Losses are means over the last {results.rounds_averaged} rounds, on training records of the devices "
            "that took part. A CE at or above H(u) means that the adversary reads nothing or has not learned, never "
            "that there is nothing to read. The retrained attackers' bits are a lower bound on what can be read.",
            f"H(u) in nats: {entropies}. At a JSD of 2 ln 2 = {2 * math.log(2):.3f} the critic distinguishes nothing.",
            "The paper prints a picture but no figures; it says that CE rises with λ, and that JSD tends to rise.",
        ]

    def draw(self, results: Losses, canvas: Any) -> None:
        """Draw a column per panel: the losses with their lines, and the bits beneath."""
        canvas.set_size_inches(3.6 * len(results.panels) + 0.6, 2.3 * (len(self.losses) + 1))
        grid = canvas.subplots(len(self.losses) + 1, len(results.panels), squeeze=False, sharex=True)
        for column, panel in enumerate(results.panels):
            strengths = [_number(point.strength) for point in panel.points]
            bits = [point.retrained_bits for point in panel.points]
            curves = [
                (f"{name} (nats)", [point.losses[name] for point in panel.points], panel.lines[name])
                for name in self.losses
            ]
            curves.append(("retrained: bits", [_estimate(figure) for figure in bits], panel.information_line))
            for row, (label, values, line) in enumerate(curves):
                axes = grid[row][column]
                axes.plot(strengths, values, "o", color="#0072b2")
                ends = np.array([min(strengths), max(strengths)])
                axes.plot(ends, line.intercept + line.slope.estimate * ends, "-", color="#c25400", linewidth=1.2)
                title = f"slope {line.slope.estimate:+.3f}, R² {line.r_squared:.2f}"
                axes.set_title(title, fontsize=8, loc="right")
                if column == 0:
                    axes.set_ylabel(label)
            grid[0][column].axhline(panel.entropy_nats, color="#565b63", linestyle="--", linewidth=0.8)
            grid[-1][column].errorbar(
                strengths, curves[-1][1], yerr=error_bars(bits), fmt="none", ecolor="#0072b2", linewidth=0.8
            )
            grid[-1][column].set_ylim(bottom=0)
            grid[-1][column].set_xlabel("λ")
            grid[0][column].set_title(f"{panel.data}, {panel.attribute} (dashed: H(u))", fontsize=8, loc="left")


def fit_line(strengths: Sequence[float], values: Sequence[float]) -> Line:
    """Fit value = intercept + slope · strength by least squares.

    >>> line = fit_line([0, 0.5, 1], [1, 2, 3])
    >>> line.slope.estimate, line.intercept, line.r_squared
    (2.0, 1.0, 1.0)
    """
    fit = linregress(strengths, values)
    slope, flat = float(fit.slope), float(np.ptp(values)) == 0.0
    figure = Figure(slope)
    if len(values) > 2:
        half = float(student.ppf(0.975, len(values) - 2)) * float(fit.stderr)
        figure = Figure(slope, slope - half, slope + half)
    return Line(figure, float(fit.intercept), 0.0 if flat else float(fit.rvalue) ** 2)


def _lines_table(results: Losses) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Least-squares lines: loss = intercept + slope · λ", title_justify="left")
    for heading in ("data", "attribute", "figure", "slope", "intercept", "R²"):
        table.add_column(heading)
    for panel in results.panels:
        for name, line in {**panel.lines, "retrained bits": panel.information_line}.items():
            figures = (str(line.slope), f"{line.intercept:.3f}", f"{line.r_squared:.2f}")
            table.add_row(Text(panel.data), Text(panel.attribute), Text(name), *figures)
    return table


def _entropy(played: Played, attribute: str) -> float:
    """Return H(u) of the training records, in nats."""
    data = load_data(played.plan.study, played.plan.study.seeds[0])
    labels = data.attribute(attribute).take(data.rows(Split.TRAIN))
    return entropy(labels.counts / labels.counts.sum()) * math.log(2)


def _estimate(figure: Figure | None) -> float:
    return math.nan if figure is None else figure.estimate


def _number(strength: float | None) -> float:
    assert strength is not None
    return strength
