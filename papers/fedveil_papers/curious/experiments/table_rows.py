"""A row of a table: a classifier's figures over runs, the paper's figures, and how far curiosity goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedveil_papers.curious.experiments.cells import Cell, CellFigures, SecretFigures
from fedveil_papers.curious.experiments.figures import RunFigure, over_runs
from fedveil_papers.curious.experiments.output_shapes import RocCurve
from fedveil_papers.rows import PaperFigures

_CLASSES = ("age_classes", "race_classes")
"""Options of the data that a row shows as numbers of values, not by name."""


@dataclass(frozen=True, kw_only=True)
class TableRow(SecretFigures):
    """One row: a cell and one of its secrets, over runs.

    Attributes:
        table, setting, target, source, options, point, epochs, merge: as in the cell.
        dedicated: whether F is trained to predict the secret itself.
        curious: whether F is trained to carry the secret.
        output: "raw" or "soft".
        together: all secrets that the outputs are trained to carry.
        seconds: mean time of training.
        roc, histogram: those of the first run, if the table shows them.
        paper: those of "honesty", "curiosity" and "entropy" that the paper prints.
        way_own, way_balanced: how far curiosity goes from a standard classifier's to a dedicated one's, by the
            maker's accuracy and by retrained balanced accuracy; None if there is nothing to compare with.
    """

    table: str
    setting: str
    target: str
    source: str
    options: dict[str, Any]
    point: dict[str, Any]
    epochs: int
    merge: dict[str, dict[str, list[str]]]
    dedicated: bool
    curious: bool
    output: str
    together: list[str]
    seconds: float = 0.0
    roc: dict[str, RocCurve] | None = None
    histogram: list[float] | None = None
    paper: dict[str, str] = field(default_factory=dict)
    way_own: float | None = None
    way_balanced: float | None = None

    @property
    def name(self) -> str:
        """The setting, with what varies besides numbers of classes."""
        varied = [
            f"{name} {'-'.join(map(str, value)) if isinstance(value, list) else value}"
            for name, value in self.point.items()
            if name not in _CLASSES
        ]
        return ", ".join([self.setting, *varied])

    @property
    def task(self) -> str:
        """Y and s with their numbers of values."""
        if self.dedicated:
            return f"{self.secret} {self.S}, dedicated"
        together = f" (of {' and '.join(self.together)})" if len(self.together) > 1 else ""
        return f"{self.target} {self.Y} / {self.secret} {self.S}{together}"


def joined_rows(
    cell: Cell, runs: Sequence[CellFigures], pictures: Sequence[str], paper: PaperFigures
) -> list[TableRow]:
    """Return a row for each secret of a cell, joined over runs; pictures show the first run."""
    names = ("table", "setting", "target", "source", "options", "point", "epochs", "merge", "dedicated")
    about: dict[str, Any] = {name: getattr(cell, name) for name in names}
    game = cell.make_game()
    rows = []
    for figures in over_runs([run.rows for run in runs]):
        rows.append(
            TableRow(
                **vars(figures),
                **about,
                curious=game.beta_s > 0,
                output=game.output,
                together=list(cell.secrets),
                seconds=sum(run.seconds for run in runs) / len(runs),
                roc=runs[0].roc if "roc" in pictures else None,
                histogram=runs[0].histogram if "histogram" in pictures else None,
                paper=printed(paper, cell, figures.secret),
            )
        )
    return rows


def printed(paper: PaperFigures, cell: Cell, secret: str) -> dict[str, str]:
    """Return the figures that the paper prints for a cell and a secret, word for word.

    An entry names its table and setting, the point that it is about (`at`), and its figures; an entry with `over` holds
    a figure for each of its `values`.
    """
    here = {**cell.point, "secret": secret}
    for entry in paper:
        at = {**entry.get("at", {}), **({"secret": entry["secret"]} if "secret" in entry else {})}
        if (entry.get("table"), entry.get("setting")) != (cell.table, cell.setting):
            continue
        if any(here.get(name) != value for name, value in at.items()):
            continue
        names = [name for name in ("honesty", "curiosity", "entropy") if name in entry]
        if "over" not in entry:
            return {name: str(entry[name]) for name in names}
        if here.get(entry["over"]) in entry["values"]:
            index = entry["values"].index(here[entry["over"]])
            return {name: str(entry[name][index]) for name in names}
    return {}


def with_ways(rows: Sequence[TableRow]) -> list[TableRow]:
    """Return the rows; those of curious classifiers say how far they go from a standard to a dedicated classifier.

    The standard row is one of the same data, target and secret; one of the same kind of output and at the same point
    is preferred. The dedicated row is one of the same source, secret and number of values.
    """
    return [_with_way(row, rows) if row.curious and not row.dedicated else row for row in rows]


def _with_way(row: TableRow, rows: Sequence[TableRow]) -> TableRow:
    standard = [other for other in rows if not other.curious and not other.dedicated and _compared(other, row)]
    standard.sort(key=lambda other: (other.output != row.output, other.point != row.point))
    dedicated = [
        other
        for other in rows
        if other.dedicated and (other.source, other.secret, other.S) == (row.source, row.secret, row.S)
    ]
    if not standard or not dedicated:
        return row
    return replace(
        row,
        way_own=_way(standard[0].own, row.own, dedicated[0].own),
        way_balanced=_way(standard[0].balanced, row.balanced, dedicated[0].balanced),
    )


def _compared(standard: TableRow, row: TableRow) -> bool:
    names = ("source", "options", "target", "secret", "S")
    return all(getattr(standard, name) == getattr(row, name) for name in names)


def _way(standard: RunFigure, curious: RunFigure, dedicated: RunFigure) -> float | None:
    """Return a share of the way; None if the dedicated classifier hardly reads more than the standard one."""
    whole = dedicated.estimate - standard.estimate
    return (curious.estimate - standard.estimate) / whole if whole > 0.01 else None
