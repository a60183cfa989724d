"""t-SNE of raw inputs and of releases, coloured by the attribute, with figures to check an eye against (Figure 3)."""

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
from fedveil_papers.shown import PaperFigures, Played, Shown, at, cells_of, named_method, with_interval

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.studies.check import Plan
    from fedveil.studies.results import CellResult


@dataclass(frozen=True)
class Maps(Shown):
    """A row of maps per study and attribute: raw x, then what the method releases at each strength.

    Beside each map stand the retrained attackers' balanced accuracy on all test people, and how often the nearest
    neighbour among the mapped people has the same value of u, averaged over values: in the space itself, and on the
    map, which is what an eye sees.

    Attributes:
        method: whose releases are mapped.
    """

    kind: ClassVar[str] = "maps"
    method: str = "tappfl"

    def check(self, plans: Sequence[Plan]) -> None:
        """Raw inputs must have been judged, too."""
        for plan in plans:
            named_method(plan, self.method, self.kind)
            if _raw(plan) is None:
                raise InputError(
                    f"shows: {self.kind} sets raw inputs beside releases, but nobody attacks them in study "
                    f"{plan.study.name!r}: let drop_columns hold 0, or add a method whose game is raw"
                )
            if plan.study.attacks.view != "representations":
                raise InputError(f"shows: {self.kind} needs representations, not {plan.study.attacks.view}")

    def gather(self, played: Sequence[Played], paper: PaperFigures) -> dict[str, Any]:
        """Return all maps with their figures; of the first seed."""
        rows = []
        for one in played:
            raw = _raw(one.plan)
            assert raw is not None
            seed = one.plan.study.seeds[0]
            kept = one.results.inputs(seed) or {}
            for attribute in one.results.attributes:
                cells = {(raw[0], raw[1]): "raw x"}
                cells |= {
                    (self.method, strength): f"r, {_setting(strength)}" for strength in cells_of(one, self.method)
                }
                panels = []
                for (method, strength), title in cells.items():
                    same = cells_of(one, method).get(strength, [])
                    (cell,) = [cell for cell in same if cell.seed == seed]
                    vectors = kept["x"] if title == "raw x" else cell.sample["released"]
                    codes = (kept if title == "raw x" else cell.sample)[f"code/{attribute}"]
                    panels.append({"title": title, **_panel(vectors, codes, cell, attribute)})
                values = list(cell.result.leakage[attribute].classes)
                start = {"study": one.results.name, "data": one.plan.study.data.source, "attribute": attribute}
                rows.append({**start, "values": values, "seed": seed, "panels": panels})
        return {"kind": self.kind, "method": self.method, "rows": rows}

    def tables(self, found: dict[str, Any]) -> list[Table]:
        """The figures beside the maps."""
        from rich.table import Table
        from rich.text import Text

        table = Table()
        headings = ("data", "attribute", "map", "people", "retrained: balanced acc.", "1-NN in the space")
        for heading in (*headings, "1-NN on the map", "guessing"):
            table.add_column(heading)
        for row in found["rows"]:
            for panel in row["panels"]:
                table.add_row(
                    Text(row["data"]),
                    Text(row["attribute"]),
                    panel["title"],
                    str(len(panel["codes"])),
                    with_interval(panel["retrained_balanced_accuracy"]),
                    with_interval(panel["neighbour_in_space"]),
                    with_interval(panel["neighbour_on_map"]),
                    f"{1 / len(row['values']):.3f}",
                )
        return [table]

    def notes(self, found: dict[str, Any]) -> list[str]:
        """Say what a map cannot show."""
        return [
            f"Maps are of at most {PEOPLE} test people; attackers are retrained on the auxiliary people's releases and "
            "judged on all test people. A map that looks mixed proves nothing: read the figures beside it.",
            "The paper prints maps and no figures: raw inputs 'form some clusters', learnt representations are "
            "'completely mixed'.",
        ]

    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """A grid of maps."""
        from fedveil.report.marks import marks

        most = max(len(row["panels"]) for row in found["rows"])
        canvas.set_size_inches(3.1 * most, 3.5 * len(found["rows"]))
        grid = canvas.subplots(len(found["rows"]), most, squeeze=False)
        for number, row in enumerate(found["rows"]):
            looks = list(marks([f"value {value}" for value in row["values"]]).values())
            for place, axes in enumerate(grid[number]):
                axes.set_xticks([])
                axes.set_yticks([])
                if place >= len(row["panels"]) or row["panels"][place]["map"] is None:
                    axes.axis("off")
                    continue
                panel = row["panels"][place]
                across, up = (np.array(axis) for axis in panel["map"])
                codes = np.array(panel["codes"])
                for code, (value, look) in enumerate(zip(row["values"], looks, strict=True)):
                    mine = codes == code
                    axes.scatter(
                        across[mine], up[mine], s=9, c=look.light, marker=look.marker, linewidths=0, label=value
                    )
                axes.set_title(
                    f"{row['data']}, {row['attribute']}: {panel['title']}\n"
                    f"retrained attackers {panel['retrained_balanced_accuracy']['estimate']:.3f}\n"
                    f"1-NN {panel['neighbour_in_space']['estimate']:.3f}, on the map "
                    f"{panel['neighbour_on_map']['estimate']:.3f}; guessing {1 / len(row['values']):.3f}",
                    fontsize=7.5,
                    loc="left",
                )
            beneath = {"loc": "upper left", "bbox_to_anchor": (0, 0), "ncols": 2}
            grid[number][0].legend(fontsize=6, frameon=False, markerscale=1.2, **beneath)


def _raw(plan: Plan) -> tuple[str, float | None] | None:
    """Return the method and strength under which raw inputs were attacked, where they were."""
    for method in plan.methods:
        if method.game.kind != "raw":
            continue
        if method.shield is None:
            return method.name, method.points[0]
        if method.shield.kind == "drop-columns" and 0 in method.points:
            return method.name, 0.0
    return None


def _setting(strength: float | None) -> str:
    return "as released" if strength is None else f"λ = {at(strength)}"


def _panel(vectors: npt.ArrayLike, codes: npt.ArrayLike, cell: CellResult, attribute: str) -> dict[str, Any]:
    known = np.asarray(codes) >= 0
    rows = np.asarray(vectors, dtype=np.float64)[known][:PEOPLE]
    labels = np.asarray(codes)[known][:PEOPLE]
    places = tsne_map(rows)
    return {
        "map": places,
        "codes": [int(code) for code in labels],
        "retrained_balanced_accuracy": cell.result.leakage[attribute].worst.balanced_accuracy.as_dict(),
        "neighbour_in_space": neighbour_agreement(Standardiser.fit(rows).apply(rows), labels),
        "neighbour_on_map": None if places is None else neighbour_agreement(np.array(places).T, labels),
    }


def neighbour_agreement(vectors: npt.ArrayLike, codes: npt.ArrayLike) -> dict[str, float] | None:
    """Return how often a person's nearest neighbour has the same value, averaged over values; None below two people.

    Of several at the same least distance, the share with the same value counts. The interval is Agresti and Coull's,
    over people as if they were independent.

    >>> neighbour_agreement([[0.0], [0.1], [5.0], [5.1]], [0, 0, 1, 1])["estimate"]
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
    return {"estimate": middle, "low": min(low, middle), "high": max(high, middle)}
