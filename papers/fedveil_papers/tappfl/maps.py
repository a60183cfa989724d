"""t-SNE of raw inputs and of releases, coloured by the attribute, with figures to check the impression (Figure 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from fedveil.core.errors import InputError
from fedveil.core.measures import smoothed_interval
from fedveil.core.standardise import Standardiser
from fedveil.report.tsne import PEOPLE, tsne_map
from fedveil_papers.rows import Figure, PaperFigures, Row
from fedveil_papers.shown import Played, Shown, at, cells_of, named_method, with_interval

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.studies.check import Plan
    from fedveil.studies.results import CellResult
    from fedveil_papers.experiment import Measured


@dataclass(frozen=True)
class Map:
    """One map and the figures beside it.

    Attributes:
        title: what is mapped.
        method, strength: the cell whose releases are mapped; for raw inputs, the cell that released them unchanged.
        map: the people's positions, [[x, …], [y, …]]; None if there is nothing to map.
        codes: each person's value of the attribute.
        retrained_balanced_accuracy: the retrained attackers' balanced accuracy on all test people.
        neighbour_in_space, neighbour_on_map: see `neighbour_agreement`.
    """

    title: str
    method: str
    strength: float | None
    map: list[list[int]] | None
    codes: Sequence[int]
    retrained_balanced_accuracy: Figure | None
    neighbour_in_space: Figure | None
    neighbour_on_map: Figure | None


@dataclass(frozen=True)
class MapRow:
    """The maps of one attribute in one study, at its first seed; `values` names the attribute's values."""

    study: str
    data: str
    attribute: str
    values: Sequence[str]
    seed: int
    panels: Sequence[Map]


@dataclass(frozen=True)
class AllMaps:
    """All rows of maps, and the method whose releases are mapped."""

    method: str
    rows: Sequence[MapRow]


@dataclass(frozen=True)
class Maps(Shown[AllMaps]):
    """A row of maps per study and attribute: raw x, then what the method releases at each strength.

    Beside each map stand the retrained attackers' balanced accuracy on all test people, and how often the nearest
    neighbour among the mapped people has the same value of u, averaged over values: in the space itself, and on the
    map, which is what people see.

    Attributes:
        method: the method whose releases are mapped.
    """

    kind: ClassVar[str] = "maps"
    method: str = "tappfl"

    def check(self, plans: Sequence[Plan]) -> None:
        """Refuse studies that do not attack raw inputs as well."""
        for plan in plans:
            named_method(plan, self.method, self.kind)
            if _raw(plan) is None:
                raise InputError(
                    f"shows: {self.kind} compares releases with raw inputs, but these are not attacked in study "
                    f"{plan.study.name!r}: let drop_columns include 0, or add a method whose game is raw"
                )
            if plan.study.attacks.view != "representations":
                raise InputError(f"shows: {self.kind} needs representations, not {plan.study.attacks.view}")

    def gather(self, played: Sequence[Played], measured: Measured, paper: PaperFigures) -> AllMaps:
        """Return all maps with their figures, for the first seed."""
        rows = [self._row(study, attribute) for study in played for attribute in study.results.attributes]
        return AllMaps(self.method, rows)

    def _row(self, played: Played, attribute: str) -> MapRow:
        raw, seed = _raw(played.plan), played.plan.study.seeds[0]
        assert raw is not None
        inputs = played.results.inputs(seed) or {}
        cell = _cell(played, *raw, seed)
        maps = [_map("raw x", cell, inputs["x"], inputs[f"code/{attribute}"], attribute)]
        for strength in cells_of(played, self.method):
            cell = _cell(played, self.method, strength, seed)
            title = "r, as released" if strength is None else f"r, λ = {at(strength)}"
            maps.append(_map(title, cell, cell.sample["released"], cell.sample[f"code/{attribute}"], attribute))
        values = list(cell.result.leakage[attribute].classes)
        return MapRow(played.results.name, played.plan.study.data.source, attribute, values, seed, maps)

    def rows(self, results: AllMaps) -> list[Row]:
        """Return a row for each map: what the nearest neighbour says about the attribute."""
        return [
            Row(
                method=panel.method,
                strength=panel.strength,
                attribute=row.attribute,
                attacker="nearest neighbour",
                seeds=[row.seed],
                leakage={"balanced_accuracy": panel.neighbour_in_space, "on_map": panel.neighbour_on_map},
                more={"study": row.study, "data": row.data, "map": panel.title, "people": len(panel.codes)},
            )
            for row in results.rows
            for panel in row.panels
        ]

    def tables(self, results: AllMaps) -> list[Table]:
        """Return the figures beside the maps."""
        from rich.table import Table
        from rich.text import Text

        table = Table()
        headings = ("data", "attribute", "map", "people", "retrained: balanced acc.", "1-NN in the space")
        for heading in (*headings, "1-NN on the map", "guessing"):
            table.add_column(heading)
        for row in results.rows:
            for panel in row.panels:
                table.add_row(
                    Text(row.data),
                    Text(row.attribute),
                    panel.title,
                    str(len(panel.codes)),
                    with_interval(panel.retrained_balanced_accuracy),
                    with_interval(panel.neighbour_in_space),
                    with_interval(panel.neighbour_on_map),
                    f"{1 / len(row.values):.3f}",
                )
        return [table]

    def notes(self, results: AllMaps) -> list[str]:
        """Say what a map cannot show."""
        return [
            f"Maps are of at most {PEOPLE} test people; attackers are retrained on the auxiliary people's releases and "
            "judged on all test people. A map that looks mixed proves nothing: read the figures beside it.",
            "The paper prints maps but no figures: raw inputs 'form some clusters', learned representations are "
            "'completely mixed'.",
        ]

    def draw(self, results: AllMaps, canvas: Any) -> None:
        """Draw a grid of maps."""
        from fedveil.report.marks import marks

        most = max(len(row.panels) for row in results.rows)
        canvas.set_size_inches(3.1 * most, 3.5 * len(results.rows))
        grid = canvas.subplots(len(results.rows), most, squeeze=False)
        for axes_row, row in zip(grid, results.rows, strict=True):
            looks = list(marks([f"value {value}" for value in row.values]).values())
            for index, axes in enumerate(axes_row):
                axes.set_xticks([])
                axes.set_yticks([])
                panel = row.panels[index] if index < len(row.panels) else None
                if panel is None or panel.map is None:
                    axes.axis("off")
                    continue
                across, up = (np.array(axis) for axis in panel.map)
                codes = np.array(panel.codes)
                for code, (value, look) in enumerate(zip(row.values, looks, strict=True)):
                    people = codes == code
                    axes.scatter(
                        across[people], up[people], s=9, c=look.light, marker=look.marker, linewidths=0, label=value
                    )
                axes.set_title(_caption(row, panel), fontsize=7.5, loc="left")
            beneath = {"loc": "upper left", "bbox_to_anchor": (0, 0), "ncols": 2}
            axes_row[0].legend(fontsize=6, frameon=False, markerscale=1.2, **beneath)


def _caption(row: MapRow, panel: Map) -> str:
    figures = (panel.retrained_balanced_accuracy, panel.neighbour_in_space, panel.neighbour_on_map)
    attackers, in_space, on_map = ("–" if figure is None else f"{figure.estimate:.3f}" for figure in figures)
    return (
        f"{row.data}, {row.attribute}: {panel.title}\n"
        f"retrained attackers {attackers}\n"
        f"1-NN {in_space}, on the map {on_map}; guessing {1 / len(row.values):.3f}"
    )


def _raw(plan: Plan) -> tuple[str, float | None] | None:
    """Return the method and strength at which raw inputs were attacked; None if they were not."""
    for method in plan.methods:
        if method.game.kind != "raw":
            continue
        if method.shield is None:
            return method.name, method.points[0]
        if method.shield.kind == "drop-columns" and 0 in method.points:
            return method.name, 0.0
    return None


def _cell(played: Played, method: str, strength: float | None, seed: int) -> CellResult:
    (cell,) = [cell for cell in cells_of(played, method).get(strength, []) if cell.seed == seed]
    return cell


def _map(title: str, cell: CellResult, vectors: npt.ArrayLike, codes: npt.ArrayLike, attribute: str) -> Map:
    labelled = np.asarray(codes) >= 0
    rows = np.asarray(vectors, dtype=np.float64)[labelled][:PEOPLE]
    labels = np.asarray(codes)[labelled][:PEOPLE]
    positions = tsne_map(rows)
    return Map(
        title,
        cell.method,
        cell.strength,
        positions,
        [int(code) for code in labels],
        Figure.of(cell.result.leakage[attribute].worst.balanced_accuracy),
        neighbour_agreement(Standardiser.fit(rows).apply(rows), labels),
        None if positions is None else neighbour_agreement(np.array(positions).T, labels),
    )


def neighbour_agreement(vectors: npt.ArrayLike, codes: npt.ArrayLike) -> Figure | None:
    """Return how often a person's nearest neighbour has the same value, averaged over values; None below two people.

    If several neighbours are equally near, the share of them with the same value counts. The interval is Agresti and
    Coull's, over people as if they were independent.

    >>> neighbour_agreement([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1]).estimate
    1.0
    """
    rows, labels = np.asarray(vectors, dtype=np.float64), np.asarray(codes)
    if len(rows) < 2:
        return None
    square = (rows**2).sum(axis=1)
    distances = square[:, None] + square - 2 * rows @ rows.T
    np.fill_diagonal(distances, np.inf)
    nearest = distances <= distances.min(axis=1, keepdims=True) + 1e-9
    hits = (nearest & (labels[:, None] == labels)).sum(axis=1) / nearest.sum(axis=1)
    present = np.unique(labels)
    shares = np.array([hits[labels == code].mean() for code in present])
    units = np.array([(labels == code).sum() for code in present])
    low, high = smoothed_interval(shares, units, 0.95)
    middle = float(shares.mean())
    return Figure(middle, min(low, middle), max(high, middle))
