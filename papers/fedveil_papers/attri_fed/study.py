"""Attri-Fed's figures and studies: what compressed representations cost, what attackers read, what is certified."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from fedveil.attacks import panel
from fedveil.config import parts
from fedveil.core.errors import InputError
from fedveil.data import find_source
from fedveil_papers.attri_fed.cases import Case, Cell, Method
from fedveil_papers.experiment import Experiment, Measured, Part
from fedveil_papers.rows import Figure, PaperFigures, Row, notes_of, printed
from fedveil_papers.shown import with_interval

if TYPE_CHECKING:
    from rich.table import Table


@dataclass(frozen=True)
class Comparison:
    """The results: a cell per case.

    Attributes:
        cells: the cells, in the order of the cases.
        facts: what the data source states, such as the prior, the floor and I(task; attribute) in bits.
        varied: the names of what varies.
        task, attribute: what is learned, and what is hidden.
        paper: what the preset quotes from the paper.
    """

    cells: Sequence[Cell]
    facts: Mapping[str, float | None]
    varied: Sequence[str]
    task: str
    attribute: str
    paper: PaperFigures


Results = TypeVar("Results", bound=Comparison)


@dataclass(frozen=True)
class MethodComparison(Experiment[Results]):
    """Methods × participants × whatever varies, each judged on test people.

    Attributes:
        data: "source", "target", "attribute" and "options"; "test": how many test records are judged at most.
        methods: the settings of each `Method`.
        participants: numbers of devices.
        samples: training records of each participant.
        game: settings of `games.AttriFed` that all its methods share.
        vary: values by the name of a setting of `games.AttriFed`, or of "samples".
        panel: attackers that are retrained on what is sent.
        seed: all randomness derives from it.
    """

    data: dict[str, Any]
    methods: list[dict[str, Any]]
    participants: list[int] = field(default_factory=lambda: [10])
    samples: int = 500
    game: dict[str, Any] = field(default_factory=dict)
    vary: dict[str, list[Any]] = field(default_factory=dict)
    panel: str = "quick"
    seed: int = 0
    task: ClassVar[str]
    """The function that measures a case."""

    def check(self) -> None:
        """Refuse settings that cannot be run."""
        for name in ("source", "target", "attribute"):
            if name not in self.data:
                raise InputError(f"experiment: data: give {name}")
        find_source(str(self.data["source"]))
        if min([self.samples, *self.participants]) < 1:
            raise InputError("experiment: participants and samples must be at least 1")
        panel(self.panel)
        for case in self.cases():
            case.shield()
            case.trainer()

    def cases(self) -> list[Case]:
        """Return every case that is trained and judged."""
        methods = [
            parts.make(Method, settings, f"experiment: methods[{index}]") for index, settings in enumerate(self.methods)
        ]
        points = [dict(zip(self.vary, values, strict=True)) for values in product(*self.vary.values())]
        return [self._case(*combination) for combination in product(points, self.participants, methods)]

    def _case(self, point: dict[str, Any], participants: int, method: Method) -> Case:
        game = {**({} if "kind" in method.game else self.game), **method.game}
        if "kind" not in game:
            game |= {name: value for name, value in point.items() if name != "samples"}
        samples = int(point.get("samples", self.samples))
        return Case(self.kind, self.data, method, point, game, participants, samples, self.panel, self.seed)

    def parts(self) -> list[Part]:
        """Return a part for each case."""
        return [case.part(self.task) for case in self.cases()]

    def comparison(self, measured: Measured, paper: PaperFigures) -> Comparison:
        """Return the figures that all comparisons have."""
        cases = self.cases()
        facts = measured[cases[0].part(self.task)]["facts"]
        return Comparison(
            [Cell.of(case, measured[case.part(self.task)]) for case in cases],
            {name: facts.get(name) for name in ("prior", "floor", "bits")},
            list(self.vary),
            str(self.data["target"]),
            str(self.data["attribute"]),
            paper,
        )

    def rows(self, results: Results) -> list[Row]:
        """Return a row for each cell and attacker."""
        quoted = [entry for entry in results.paper if "note" not in entry]
        return [
            Row(
                method=cell.method,
                task=results.task,
                attribute=results.attribute,
                attacker=attacker,
                seeds=[self.seed],
                utility={"accuracy": cell.accuracy},
                leakage=reading.leakage,
                paper=printed(quoted, {"method": cell.method}),
                more={
                    "participants": cell.participants,
                    **cell.point,
                    "observer": observer,
                    "attacker_name": reading.attacker,
                    "bits": cell.sent.bits,
                    "bytes": cell.sent.bytes,
                    "bytes_ratio": cell.sent.ratio_float32,
                    "certified_bits": cell.certified.get(observer),
                    "spent": cell.spent,
                },
            )
            for cell in results.cells
            for (attacker, observer), reading in cell.readings.items()
        ]

    def shows(self, results: Results) -> dict[str, Any]:
        """Return what the rows do not hold: certificates in full, and further facts about what is sent."""
        return {
            "kind": self.kind,
            "cells": [cell.beyond_rows() for cell in results.cells],
            "facts": dict(results.facts),
            "varied": list(results.varied),
            "task": results.task,
            "attribute": results.attribute,
            "paper": [dict(entry) for entry in results.paper],
        }


@dataclass(frozen=True)
class AttriFedStudy(MethodComparison[Comparison]):
    """Methods compared by what attackers read, by their bytes, and by the rate certificate; see `MethodComparison`."""

    kind: ClassVar[str] = "attri-fed"
    task: ClassVar[str] = "fedveil_papers.attri_fed.cases:measure_method"

    def gather(self, measured: Measured, paper: PaperFigures) -> Comparison:
        """Return a cell per case."""
        return self.comparison(measured, paper)

    def tables(self, results: Comparison) -> list[Table]:
        """Return one table: a row per method, participants and whatever varies."""
        from rich.table import Table

        facts = [f"{name} {value:.3f}" for name, value in results.facts.items() if value is not None]
        title = f"{results.task}, and what is read about {results.attribute}"
        table = Table(title=title + (f" ({', '.join(facts)})" if facts else ""))
        headings = ["method", "participants", *results.varied, results.task, "sender unknown", "sender known"]
        headings += ["attacker", "weak: small network", "weak: privatiser", "bits", "bytes", "of float32"]
        for heading in [*headings, "certified ≤, unknown", "known"]:
            table.add_column(heading, justify="left" if heading in ("method", "attacker") else "right")
        for cell in results.cells:
            certified = [cell.certified.get(observer) for observer in ("sender unknown", "sender known")]
            table.add_row(
                cell.method,
                str(cell.participants),
                *(str(cell.point[name]) for name in results.varied),
                with_interval(cell.accuracy),
                with_interval(cell.stranger.accuracy),
                with_interval(cell.server.accuracy),
                cell.server.attacker,
                *weak_readings(cell),
                f"{cell.sent.bits:.1f}",
                f"{cell.sent.bytes:.2f}",
                f"{100 * cell.sent.ratio_float32:.1f}%",
                *("–" if bits is None else f"{bits:.2f}" for bits in certified),
            )
        table.caption = (
            "Accuracies on test people with 95% intervals; attackers retrained; bits and payload bytes per record."
        )
        return [table]

    def notes(self, results: Comparison) -> list[str]:
        """Return lines that say what the figures are based on."""
        lines = [
            "Certified: the most bits that what is sent can reveal about the attribute, to any attacker (95%); the "
            "ideal is I(task; attribute). Attackers' estimates are shown beside it, never in its place.",
            "Weak: one small network on pooled representations, as the paper's server reads, and the privatiser that "
            "the encoder was trained to fool: shown for comparison, never as evidence of privacy.",
            "Corollary 1 of the paper (ε = ln 1/T) holds for every mechanism, even an unprotected one: it guarantees "
            "nothing.",
        ]
        for method, by_accountant in {cell.method: cell.spent for cell in results.cells if cell.spent}.items():
            words = ", ".join(f"{name} {epsilon:.2f}" for name, epsilon in by_accountant.items())
            lines.append(f"{method}: ε spent by each participant, by accountant: {words}.")
        return [*lines, *notes_of(results.paper)]

    def draw(self, results: Comparison, canvas: Any) -> None:
        """Draw attackers' accuracy, the task's and the bytes, over participants or over the first thing that varies."""
        along = results.varied[0] if results.varied else "participants"
        canvas.set_size_inches(11, 3.4)
        panels = canvas.subplots(1, 3)
        pictures: tuple[tuple[str, Callable[[Cell], float | None]], ...] = (
            (f"{results.attribute}, read by the server", lambda cell: _estimate(cell.server.accuracy)),
            (f"{results.task}, accuracy", lambda cell: _estimate(cell.accuracy)),
            ("bytes, share of float32", lambda cell: cell.sent.ratio_float32),
        )
        for axis, (title, value) in zip(panels, pictures, strict=True):
            by_method: dict[str, list[tuple[Any, float | None]]] = {}
            for cell in results.cells:
                across = cell.point[along] if results.varied else cell.participants
                by_method.setdefault(cell.method, []).append((across, value(cell)))
            for name, points in by_method.items():
                axis.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=1, label=name)
            axis.set_title(title)
            axis.set_xlabel(along)
        for name in ("prior", "floor"):
            if (level := results.facts.get(name)) is not None:
                panels[0].axhline(level, color="grey", linewidth=0.6, linestyle=":")
        panels[2].set_yscale("log")
        panels[1].legend(frameon=False, fontsize=7)


def weak_readings(cell: Cell) -> list[str]:
    """Return what the weak attackers read, as a table shows it; a dash if there is none."""
    weak = [cell.weak[name] for name in ("network", "privatiser")]
    return ["–" if reading is None else with_interval(reading.accuracy) for reading in weak]


def _estimate(figure: Figure | None) -> float | None:
    return None if figure is None else figure.estimate
