"""Methods against what is asked of them: task-agnostic, efficient, provable, accurate; each cell measured (Table 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedveil.core.errors import InputError
from fedveil.studies.hypervolume import estimate_of
from fedveil.studies.hypervolume import shown as plain_figure
from fedveil_papers.device_cost import device_seconds, ratio_of
from fedveil_papers.shown import PaperFigures, Played, Shown, at, cells_of, named_method, with_interval
from fedveil_papers.spending import most_spent, spent_in_words

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.studies.check import Plan
    from fedveil.studies.results import CellResult

ASKED = ("task-agnostic", "efficient", "provable", "accurate")


@dataclass(frozen=True)
class MethodMatrix(Shown):
    """A row per method and strength of one study, and a row for each method that could not be measured.

    - task-agnostic: whether the game's stages declare to read y. The engine withholds what is not declared.
    - efficient: one device's processor seconds and bytes sent per round, and the seconds as a multiple of the
      reference's, timed by turns in one process.
    - provable: certificates on what is released, and the ε spent by noise; what each is about.
    - accurate: utility less than the reference's, paired over people; retrained attackers' leakage beside.

    Attributes:
        reference: the method without a defence.
        names: what the paper calls a method, by our name.
        unmeasured: why a method of the paper has no figures, by its name.
    """

    kind: ClassVar[str] = "method-matrix"
    reference: str = "none"
    names: dict[str, str] = field(default_factory=dict)
    unmeasured: dict[str, str] = field(default_factory=dict)

    def check(self, plans: Sequence[Plan]) -> None:
        """The reference must be trained, once."""
        from fedveil.config.cells import load_data, make_game
        from fedveil.games.game import DataShape

        for plan in plans:
            method = named_method(plan, self.reference, self.kind)
            shape = DataShape.of(load_data(plan.study, plan.study.seeds[0]))
            if len(method.points) > 1 or not make_game(method, method.points[0]).stages(shape):
                raise InputError(
                    f"shows: {self.kind} compares with {self.reference!r}, which must have one strength at most and "
                    "train something; choose another reference"
                )
            for name in self.names:
                named_method(plan, name, self.kind)

    def gather(self, played: Sequence[Played], paper: PaperFigures) -> dict[str, Any]:
        """Return all rows; a block per study, task and attribute."""
        blocks = []
        for one in played:
            points = [(method.name, strength) for method in one.plan.methods for strength in cells_of(one, method.name)]
            seconds = device_seconds(one.plan, points)
            for task in one.results.tasks:
                for attribute in one.results.attributes:
                    rows = [self._row(one, point, seconds, task, attribute) for point in points]
                    start = {"study": one.results.name, "data": one.plan.study.data.source, "task": task}
                    chance = one.results.frontier(task, attribute).chance
                    blocks.append({**start, "attribute": attribute, "chance": chance, "rows": rows})
        printed = {
            name: {one["source"]: one["marks"] for one in paper if one.get("method") == name and "marks" in one}
            for name in dict.fromkeys(str(one["method"]) for one in paper if "marks" in one)
        }
        return {"kind": self.kind, "blocks": blocks, "unmeasured": dict(self.unmeasured), "paper": printed}

    def _row(
        self,
        played: Played,
        point: tuple[str, float | None],
        seconds: dict[tuple[str, float | None], list[float] | None],
        task: str,
        attribute: str,
    ) -> dict[str, Any]:
        name, strength = point
        cells = cells_of(played, name)[strength]
        (base,) = [key for key in seconds if key[0] == self.reference]
        frontier = played.results.frontier(task, attribute)
        own, without = (
            next(one for one in frontier.points if (one.method, one.strength) == key) for key in (point, base)
        )
        lost = np.concatenate(
            [[without.utility.estimate - own.utility.estimate], without.utility_draws - own.utility_draws]
        )
        mine, reference = seconds[point], seconds[base]
        assert reference is not None
        return {
            "method": name,
            "strength": strength,
            "paper_name": self.names.get(name),
            "reads": _reads(played, name, strength),
            "seconds_per_round": None if mine is None else float(np.median(mine)),
            "times_reference": ratio_of(mine, reference),
            "bytes_per_round": _bytes(cells),
            "spent": most_spent(played.plan, cells),
            "certificates": weakest_certificates(
                [[one.as_dict() for one in cell.result.certificates.get(attribute, ())] for cell in cells]
            ),
            "utility": plain_figure(own.utility),
            "utility_lost": plain_figure(estimate_of(lost)),
            "leakage": plain_figure(own.leakage),
        }

    def tables(self, found: dict[str, Any]) -> list[Table]:
        """The paper's ticks, then what was measured."""
        from rich.table import Table
        from rich.text import Text

        ticks = Table(title="What the paper says (✓), by source", title_justify="left")
        for heading in ("method", "source", *ASKED):
            ticks.add_column(heading)
        for name, sources in found["paper"].items():
            for source, given in sources.items():
                ticks.add_row(Text(name), Text(source), *("✓" if given.get(one) else "" for one in ASKED))
        made = [ticks] if found["paper"] else []
        for block in found["blocks"]:
            title = f"Measured: {block['data']}, {block['task']} against {block['attribute']}"
            table = Table(title=Text(title), title_justify="left")
            costs = ("s per round", "× none", "kB up")
            for heading in ("method", "at", "game reads", *costs, "provable", "accuracy lost", "leaks"):
                table.add_column(heading)
            for row in block["rows"]:
                trained = row["seconds_per_round"] is not None
                table.add_row(
                    Text(row["method"] + (f" ({row['paper_name']})" if row["paper_name"] else "")),
                    at(row["strength"]),
                    ", ".join(row["reads"]) or "–",
                    f"{row['seconds_per_round']:.3f}" if trained else "no training",
                    with_interval(row["times_reference"], 2),
                    f"{row['bytes_per_round'] / 1000:.1f}" if trained else "0",
                    Text(provable(row)),
                    with_interval(row["utility_lost"]),
                    with_interval(row["leakage"]),
                )
            for name in found["unmeasured"]:
                table.add_row(Text(name), "", "not measured", *[""] * 6)
            made.append(table)
        return made

    def notes(self, found: dict[str, Any]) -> list[str]:
        """Say what the columns are, and why a method has none."""
        missing = [f"{name}: not measured: {why}." for name, why in found["unmeasured"].items()]
        return [
            *missing,
            "game reads: what the game's stages declare; the engine withholds the rest, so a game without y is "
            "task-agnostic in fact. s per round: processor seconds of one device of median size, one thread, methods "
            "by turns; × none: median and quartiles over turns. kB up: sent per device and round.",
            "accuracy lost: against no defence, paired over test people. leaks: balanced accuracy of retrained "
            "attackers. An ε on updates bounds what updates tell, and nothing about representations.",
        ]

    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """Seconds, accuracy lost and leakage as bars, method by method."""
        blocks = found["blocks"]
        most = max(len(block["rows"]) for block in blocks)
        canvas.set_size_inches(10.5, 0.32 * most * len(blocks) + 1.2)
        grid = canvas.subplots(len(blocks), 3, squeeze=False, sharey="row")
        for line, block in zip(grid, blocks, strict=True):
            rows = block["rows"][::-1]
            labels = [" ".join([row["method"], at(row["strength"])]).strip() for row in rows]
            columns = (
                ("times_reference", "device seconds per round, × no defence"),
                ("utility_lost", f"accuracy of {block['task']} lost"),
                ("leakage", f"retrained attackers on {block['attribute']} (dashed: guessing)"),
            )
            for axes, (name, words) in zip(line, columns, strict=True):
                figures = [row[name] or {"estimate": 0.0, "low": 0.0, "high": 0.0} for row in rows]
                values = [figure["estimate"] for figure in figures]
                spread = [[abs(one["estimate"] - one[end]) for one in figures] for end in ("low", "high")]
                axes.barh(labels, values, xerr=spread, color="#0072b2", alpha=0.8, error_kw={"elinewidth": 0.7})
                axes.set_xlabel(words, fontsize=8)
                axes.tick_params(labelsize=7.5)
            line[2].axvline(block["chance"], color="#c25400", linestyle="--", linewidth=0.9)


def weakest_certificates(by_seed: Sequence[Sequence[dict[str, Any]]]) -> list[dict[str, Any]]:
    """Return, of each quantity that every seed certifies, the certificate that holds for all seeds: the weakest.

    >>> one, other = ({"quantity": "balanced accuracy", "direction": "upper", "bound": bound} for bound in (0.6, 0.7))
    >>> weakest_certificates([[one], [other]])[0]["bound"], weakest_certificates([[one], []])
    (0.7, [])
    """
    found = []
    for told in dict.fromkeys((one["quantity"], one["direction"]) for one in by_seed[0]):
        same = [[one for one in own if (one["quantity"], one["direction"]) == told] for own in by_seed]
        if all(same):
            tightest, weakest = (min, max) if told[1] == "upper" else (max, min)
            found.append(weakest((tightest(own, key=_bound) for own in same), key=_bound))
    return found


def _bound(certificate: dict[str, Any]) -> float:
    return float(certificate["bound"])


def provable(row: dict[str, Any]) -> str:
    """Return what a row's method guarantees, in words."""
    words = [spent_in_words(row["spent"])] if row["spent"] else []
    words += [
        f"{one['quantity']} ≤ {one['bound']:.3f}"
        for one in row["certificates"]
        if one["quantity"] == "balanced accuracy"
    ]
    return "; ".join(words) or "none"


def _reads(played: Played, name: str, strength: float | None) -> list[str]:
    """Return what the engine lets the method's game read, attributes as u."""
    from fedveil.config.cells import load_data, make_game
    from fedveil.games.game import DataShape

    shape = DataShape.of(load_data(played.plan.study, played.plan.study.seeds[0]))
    stages = make_game(played.plan.method(name), strength).stages(shape)
    read = {what.partition(":")[0] for stage in stages for what in stage.reads}
    return [what for what in ("x", "u", "y") if what in read]


def _bytes(cells: Sequence[CellResult]) -> float | None:
    """Return bytes sent per device and round of the last stage, as the cells' rounds recorded them."""
    rounds = [record for cell in cells for record in cell.metrics if record.stage == cell.metrics[-1].stage]
    spoke = sum(record.devices - record.silent for record in rounds)
    return sum(record.bytes_up for record in rounds) / spoke if spoke else None
