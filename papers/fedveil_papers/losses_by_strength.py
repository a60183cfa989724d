"""Recorded losses against the strength, with a least-squares line (TAPPFL's Figure 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from scipy.stats import linregress
from scipy.stats import t as student

from fedveil.core.entropy import entropy
from fedveil.core.errors import InputError
from fedveil_papers.shown import PaperFigures, Played, Shown, cells_of, named_method, with_interval

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.studies.check import Plan
    from fedveil.studies.results import CellResult


@dataclass(frozen=True)
class LossesByStrength(Shown):
    """Each loss at the end of training against the strength, and attackers' information on the same releases.

    A loss is the mean over the last `rounds` recorded rounds of the last stage. The line is a least-squares fit over
    all strengths and seeds; its slope's interval takes the points' deviations from a line to be normal.

    Attributes:
        method: whose strengths are shown.
        losses: names of the moves whose losses are shown; the first is the adversary's.
        rounds: how many of the last rounds are averaged.
    """

    kind: ClassVar[str] = "losses-by-strength"
    method: str = "tappfl"
    losses: tuple[str, ...] = ("CE", "JSD")
    rounds: int = 3

    def check(self, plans: Sequence[Plan]) -> None:
        """A line needs three strengths, and the game must have moves of these names."""
        from fedveil.config.cells import load_data, make_game
        from fedveil.games.game import DataShape

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
            last = [*make_game(method, method.points[0]).stages(shape)][-1:]
            moves = [move.title for stage in last for move in stage.moves]
            for name in self.losses:
                if name not in moves:
                    raise InputError(
                        f"shows: {self.kind} needs the loss {name!r}, but {self.method} in study {plan.study.name!r} "
                        f"records {', '.join(moves) or 'none'}"
                    )

    def gather(self, played: Sequence[Played], paper: PaperFigures) -> dict[str, Any]:
        """Return points and lines, a panel per study and attribute."""
        panels = [self._panel(one, attribute) for one in played for attribute in one.results.attributes]
        return {"kind": self.kind, "method": self.method, "rounds_averaged": self.rounds, "panels": panels}

    def _panel(self, played: Played, attribute: str) -> dict[str, Any]:
        cells = [cell for same in cells_of(played, self.method).values() for cell in same]
        points = [self._point(cell, attribute) for cell in cells]
        strengths = [point["strength"] for point in points]
        return {
            "study": played.results.name,
            "data": played.plan.study.data.source,
            "attribute": attribute,
            "entropy_nats": _entropy(played, attribute),
            "points": points,
            "lines": {name: _line(strengths, [point["losses"][name] for point in points]) for name in self.losses},
            "information_line": _line(strengths, [point["retrained_bits"]["estimate"] for point in points]),
        }

    def _point(self, cell: CellResult, attribute: str) -> dict[str, Any]:
        stage = cell.metrics[-1].stage if cell.metrics else None
        last = [record for record in cell.metrics if record.stage == stage][-self.rounds :]
        cotrained = cell.result.cotrained.get(attribute)
        judged = cell.result.leakage[attribute]
        return {
            "strength": cell.strength,
            "seed": cell.seed,
            "losses": {name: float(np.mean([record.losses[name] for record in last])) for name in self.losses},
            "retrained_bits": judged.mutual_information_bits.as_dict(),
            "retrained_balanced_accuracy": judged.worst.balanced_accuracy.as_dict(),
            "cotrained_balanced_accuracy": None if cotrained is None else cotrained.balanced_accuracy.as_dict(),
        }

    def tables(self, found: dict[str, Any]) -> list[Table]:
        """Points, then lines."""
        from rich.table import Table
        from rich.text import Text

        made = []
        for panel in found["panels"]:
            table = Table(title=Text(f"{panel['data']}, {panel['attribute']}"), title_justify="left")
            headings = ["λ", "seed", *(f"{name} (nats)" for name in self.losses), "retrained: bits read"]
            for heading in (*headings, "retrained: balanced acc.", "co-trained (weak): balanced acc."):
                table.add_column(heading, justify="right")
            for point in panel["points"]:
                table.add_row(
                    f"{point['strength']:g}",
                    str(point["seed"]),
                    *(f"{point['losses'][name]:.3f}" for name in self.losses),
                    with_interval(point["retrained_bits"]),
                    with_interval(point["retrained_balanced_accuracy"]),
                    with_interval(point["cotrained_balanced_accuracy"]),
                )
            made.append(table)
        lines = Table(title="Least-squares lines: loss = intercept + slope · λ", title_justify="left")
        for heading in ("data", "attribute", "figure", "slope", "intercept", "R²"):
            lines.add_column(heading)
        for panel in found["panels"]:
            for name, line in [*panel["lines"].items(), ("retrained bits", panel["information_line"])]:
                shown = (with_interval(line["slope"]), f"{line['intercept']:.3f}", f"{line['r_squared']:.2f}")
                lines.add_row(Text(panel["data"]), Text(panel["attribute"]), Text(name), *shown)
        return [*made, lines]

    def notes(self, found: dict[str, Any]) -> list[str]:
        """Say what a loss says, and what it does not."""
        entropies = "; ".join(f"{p['data']} {p['attribute']} {p['entropy_nats']:.3f}" for p in found["panels"])
        return [
            f"Losses are means over the last {found['rounds_averaged']} rounds, on training records of the devices "
            "that took part. A CE at or above H(u) says that the adversary reads nothing, or has not learned: never "
            "that there is nothing to read. The retrained attackers' bits say what there is (a lower bound).",
            f"H(u) in nats: {entropies}. A JSD of 2 ln 2 = {2 * math.log(2):.3f} says that the critic tells nothing.",
            "The paper prints a picture and no figures; it says that CE rises with λ, and that JSD tends to.",
        ]

    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """A column per data set: the losses with their lines, and the bits beneath."""
        panels = found["panels"]
        canvas.set_size_inches(3.6 * len(panels) + 0.6, 2.3 * (len(self.losses) + 1))
        grid = canvas.subplots(len(self.losses) + 1, len(panels), squeeze=False, sharex=True)
        for column, panel in enumerate(panels):
            strengths = [point["strength"] for point in panel["points"]]
            rows = [
                (f"{name} (nats)", [point["losses"][name] for point in panel["points"]], panel["lines"][name])
                for name in self.losses
            ]
            bits = [point["retrained_bits"] for point in panel["points"]]
            rows.append(("retrained: bits", [one["estimate"] for one in bits], panel["information_line"]))
            for row, (label, values, line) in enumerate(rows):
                axes = grid[row][column]
                axes.plot(strengths, values, "o", color="#0072b2")
                ends = np.array([min(strengths), max(strengths)])
                slope, start = line["slope"]["estimate"], line["intercept"]
                axes.plot(ends, start + slope * ends, "-", color="#c25400", linewidth=1.2)
                axes.set_title(f"slope {slope:+.3f}, R² {line['r_squared']:.2f}", fontsize=8, loc="right")
                if column == 0:
                    axes.set_ylabel(label)
            grid[0][column].axhline(panel["entropy_nats"], color="#565b63", linestyle="--", linewidth=0.8)
            spread = [[abs(one["estimate"] - one[end]) for one in bits] for end in ("low", "high")]
            grid[-1][column].errorbar(strengths, rows[-1][1], yerr=spread, fmt="none", ecolor="#0072b2", linewidth=0.8)
            grid[-1][column].set_ylim(bottom=0)
            grid[-1][column].set_xlabel("λ")
            grid[0][column].set_title(f"{panel['data']}, {panel['attribute']} (dashed: H(u))", fontsize=8, loc="left")


def _entropy(played: Played, attribute: str) -> float:
    """Return H(u) of the training records, in nats."""
    from fedveil.config.cells import load_data
    from fedveil.data import Split

    data = load_data(played.plan.study, played.plan.study.seeds[0])
    labels = data.attribute(attribute).take(data.rows(Split.TRAIN))
    return entropy(labels.counts / labels.counts.sum()) * math.log(2)


def _line(strengths: Sequence[float], values: Sequence[float]) -> dict[str, Any]:
    """Fit values = intercept + slope · strength.

    >>> line = _line([0, 0.5, 1], [1, 2, 3])
    >>> line["slope"]["estimate"], line["intercept"], line["r_squared"]
    (2.0, 1.0, 1.0)
    """
    fit = linregress(strengths, values)
    reach = float(student.ppf(0.975, len(values) - 2)) * float(fit.stderr) if len(values) > 2 else math.nan
    slope = float(fit.slope)
    flat = float(np.ptp(values)) == 0.0
    return {
        "slope": {"estimate": slope, "low": slope - reach, "high": slope + reach},
        "intercept": float(fit.intercept),
        "r_squared": 0.0 if flat else float(fit.rvalue) ** 2,
    }
