"""Methods judged by four wishes (task-agnostic, efficient, provable, accurate), each of them measured (Table 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedveil.config.cells import load_data, make_game
from fedveil.core.errors import InputError
from fedveil.core.files import plain
from fedveil.games.game import DataShape
from fedveil.studies.choosing import pay_for_choice
from fedveil.studies.hypervolume import estimate_of
from fedveil.studies.hypervolume import shown as finite
from fedveil.studies.model import weakest_certificates
from fedveil_papers.drawing import error_bars
from fedveil_papers.rows import Figure, PaperFigures, Row, printed
from fedveil_papers.shown import Played, Shown, at, cells_of, named_method, with_interval
from fedveil_papers.tappfl.device_cost import Point, Seconds, ratio_of, seconds_by_point, timing_part
from fedveil_papers.tappfl.spending import Spent, most_spent

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.studies.check import Plan
    from fedveil.studies.model import StatedCertificate
    from fedveil.studies.results import CellResult
    from fedveil_papers.experiment import Measured, Part

WISHES = ("task-agnostic", "efficient", "provable", "accurate")


@dataclass(frozen=True)
class MatrixRow:
    """A method at a strength.

    Attributes:
        method, strength: which method, at which strength.
        paper_name: what the paper calls the method.
        reads: what its game may read: x, u, y.
        seconds_per_round: one device's processor seconds; None if nothing is trained.
        times_reference: these seconds as a multiple of the reference's.
        bytes_per_round: bytes sent by each device.
        spent: ε that noise has spent; None without noise.
        certificates: what is certified about its releases, for all seeds.
        utility, utility_lost: accuracy of the task, and by how much the reference's is higher.
        leakage: balanced accuracy of retrained attackers.
    """

    method: str
    strength: float | None
    paper_name: str | None
    reads: Sequence[str]
    seconds_per_round: float | None
    times_reference: Figure | None
    bytes_per_round: float | None
    spent: Spent | None
    certificates: Sequence[StatedCertificate]
    utility: Figure | None
    utility_lost: Figure | None
    leakage: Figure | None

    @property
    def provable(self) -> str:
        """What the method guarantees, in words."""
        words = [] if self.spent is None else [str(self.spent)]
        words += [
            f"{certificate.quantity} ≤ {certificate.bound:.3f}"
            for certificate in self.certificates
            if certificate.quantity == "balanced accuracy"
        ]
        return "; ".join(words) or "none"


@dataclass(frozen=True)
class Block:
    """All methods on one task and attribute of one study; `chance` is the balanced accuracy of guessing."""

    study: str
    data: str
    task: str
    attribute: str
    seeds: Sequence[int]
    chance: float
    rows: Sequence[MatrixRow]


@dataclass(frozen=True)
class Matrix:
    """All blocks, why some methods have no figures, and the paper's ticks by method and source."""

    blocks: Sequence[Block]
    unmeasured: Mapping[str, str]
    paper: Mapping[str, Mapping[str, Mapping[str, bool]]]


@dataclass(frozen=True)
class MethodMatrix(Shown[Matrix]):
    """A row per method and strength of one study, and a row for each method that could not be measured.

    - task-agnostic: whether the game's stages declare to read y. The engine withholds what is not declared.
    - efficient: one device's processor seconds and bytes sent per round, and the seconds as a multiple of the
      reference's; methods are timed in turn in one process.
    - provable: certificates about what is released, and the ε spent by noise, with what each is about.
    - accurate: how much utility is lost compared with the reference, paired over people, and the leakage to retrained
      attackers.

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
        """Refuse studies whose reference has several strengths or trains nothing."""
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

    def parts(self, played: Sequence[Played]) -> list[Part]:
        """Return a part for each study: what a round costs one device."""
        return [timing_part(study.plan, _points(study)) for study in played]

    def gather(self, played: Sequence[Played], measured: Measured, paper: PaperFigures) -> Matrix:
        """Return all rows; a block per study, task and attribute."""
        blocks = []
        for study, part in zip(played, self.parts(played), strict=True):
            seconds = seconds_by_point(_points(study), measured[part])
            for task in study.results.tasks:
                for attribute in study.results.attributes:
                    blocks.append(self._block(study, seconds, task, attribute))
        ticks = [entry for entry in paper if "marks" in entry]
        names = dict.fromkeys(str(entry["method"]) for entry in ticks)
        by_method = {
            name: {source: entry["marks"] for source, entry in printed(ticks, {"method": name}).items()}
            for name in names
        }
        return Matrix(blocks, dict(self.unmeasured), by_method)

    def _block(self, played: Played, seconds: Seconds, task: str, attribute: str) -> Block:
        rows = [self._row(played, point, seconds, task, attribute) for point in seconds]
        chance = played.results.frontier(task, attribute).chance
        return Block(
            played.results.name, played.plan.study.data.source, task, attribute, played.plan.study.seeds, chance, rows
        )

    def _row(
        self,
        played: Played,
        point: Point,
        seconds: Seconds,
        task: str,
        attribute: str,
    ) -> MatrixRow:
        name, strength = point
        cells = cells_of(played, name)[strength]
        (base,) = [key for key in seconds if key[0] == self.reference]
        figures = {
            (figure.method, figure.strength): figure for figure in played.results.frontier(task, attribute).points
        }
        defended, bare = figures[point], figures[base]
        lost = np.concatenate(
            [[bare.utility.estimate - defended.utility.estimate], bare.utility_draws - defended.utility_draws]
        )
        device, reference = seconds[point], seconds[base]
        assert reference is not None
        paid = {cell.id: cell.result for cell in pay_for_choice(played.results.cells)}
        by_cell = [paid[cell.id].binding_certificates(attribute) for cell in cells]
        return MatrixRow(
            name,
            strength,
            self.names.get(name),
            _reads(played, name, strength),
            None if device is None else float(np.median(device)),
            ratio_of(device, reference),
            _bytes(cells),
            most_spent(played.plan, cells),
            weakest_certificates(by_cell),
            Figure.of(finite(defended.utility)),
            Figure.of(finite(estimate_of(lost))),
            Figure.of(finite(defended.leakage)),
        )

    def rows(self, results: Matrix) -> list[Row]:
        """Return each method at each strength: what it costs, what it loses, what is proved."""
        return [
            Row(
                method=row.method,
                strength=row.strength,
                task=block.task,
                attribute=block.attribute,
                attacker="retrained",
                seeds=block.seeds,
                utility={"accuracy": row.utility, "accuracy_lost": row.utility_lost},
                leakage={"balanced_accuracy": row.leakage},
                paper=results.paper.get(row.method, {}),
                more={
                    "study": block.study,
                    "data": block.data,
                    "reads": row.reads,
                    "seconds_per_round": row.seconds_per_round,
                    "times_reference": None if row.times_reference is None else row.times_reference.as_dict(),
                    "bytes_per_round": row.bytes_per_round,
                    "provable": row.provable,
                },
            )
            for block in results.blocks
            for row in block.rows
        ]

    def shows(self, results: Matrix) -> dict[str, Any]:
        """Return what the rows do not hold: names, ε spent and certificates of the methods, and the paper's ticks."""
        blocks = [
            {
                **{name: getattr(block, name) for name in ("study", "data", "task", "attribute", "chance")},
                "methods": [
                    {
                        "method": row.method,
                        "strength": row.strength,
                        "paper_name": row.paper_name,
                        "spent": None if row.spent is None else asdict(row.spent),
                        "certificates": [certificate.as_dict() for certificate in row.certificates],
                    }
                    for row in block.rows
                ],
            }
            for block in results.blocks
        ]
        shown: dict[str, Any] = plain(
            {"kind": self.kind, "blocks": blocks, "unmeasured": results.unmeasured, "paper": results.paper}
        )
        return shown

    def tables(self, results: Matrix) -> list[Table]:
        """Return the paper's ticks, then what was measured."""
        ticks = [_ticks_table(results)] if results.paper else []
        return [*ticks, *(_measured_table(block, results.unmeasured) for block in results.blocks)]

    def notes(self, results: Matrix) -> list[str]:
        """Say what the columns are, and why a method has no figures."""
        return [
            *(f"{name}: not measured: {why}." for name, why in results.unmeasured.items()),
            "game reads: what the game's stages declare; the engine withholds the rest, so a game without y is "
            "task-agnostic in fact. s per round: processor seconds of one device of median size, with one thread, "
            "methods in turn; × none: median and quartiles over turns. kB up: sent per device and round.",
            "accuracy lost: compared with no defence, paired over test people. leaks: balanced accuracy of retrained "
            "attackers. An ε on updates bounds what updates reveal; it says nothing about representations.",
        ]

    def draw(self, results: Matrix, canvas: Any) -> None:
        """Draw seconds, accuracy lost and leakage as bars, method by method."""
        most = max(len(block.rows) for block in results.blocks)
        canvas.set_size_inches(10.5, 0.32 * most * len(results.blocks) + 1.2)
        grid = canvas.subplots(len(results.blocks), 3, squeeze=False, sharey="row")
        for axes_row, block in zip(grid, results.blocks, strict=True):
            rows = block.rows[::-1]
            labels = [" ".join([row.method, at(row.strength)]).strip() for row in rows]
            columns = (
                ([row.times_reference for row in rows], "device seconds per round, × no defence"),
                ([row.utility_lost for row in rows], f"accuracy of {block.task} lost"),
                ([row.leakage for row in rows], f"retrained attackers on {block.attribute} (dashed: guessing)"),
            )
            for axes, (figures, words) in zip(axes_row, columns, strict=True):
                values = [0.0 if figure is None else figure.estimate for figure in figures]
                bars = {"color": "#0072b2", "alpha": 0.8, "error_kw": {"elinewidth": 0.7}}
                axes.barh(labels, values, xerr=error_bars(figures), **bars)
                axes.set_xlabel(words, fontsize=8)
                axes.tick_params(labelsize=7.5)
            axes_row[2].axvline(block.chance, color="#c25400", linestyle="--", linewidth=0.9)


def _points(study: Played) -> list[Point]:
    """Return the methods and strengths that have finished cells."""
    return [(method.name, strength) for method in study.plan.methods for strength in cells_of(study, method.name)]


def _ticks_table(results: Matrix) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(title="What the paper says (✓), by source", title_justify="left")
    for heading in ("method", "source", *WISHES):
        table.add_column(heading)
    for name, sources in results.paper.items():
        for source, ticks in sources.items():
            table.add_row(Text(name), Text(source), *("✓" if ticks.get(wish) else "" for wish in WISHES))
    return table


def _measured_table(block: Block, unmeasured: Mapping[str, str]) -> Table:
    from rich.table import Table
    from rich.text import Text

    title = f"Measured: {block.data}, {block.task} against {block.attribute}"
    table = Table(title=Text(title), title_justify="left")
    costs = ("s per round", "× none", "kB up")
    for heading in ("method", "at", "game reads", *costs, "provable", "accuracy lost", "leaks"):
        table.add_column(heading)
    for row in block.rows:
        sent = 0.0 if row.bytes_per_round is None else row.bytes_per_round
        table.add_row(
            Text(row.method + (f" ({row.paper_name})" if row.paper_name else "")),
            at(row.strength),
            ", ".join(row.reads) or "–",
            "no training" if row.seconds_per_round is None else f"{row.seconds_per_round:.3f}",
            with_interval(row.times_reference, 2),
            "0" if row.seconds_per_round is None else f"{sent / 1000:.1f}",
            Text(row.provable),
            with_interval(row.utility_lost),
            with_interval(row.leakage),
        )
    for name in unmeasured:
        table.add_row(Text(name), "", "not measured", *[""] * 6)
    return table


def _reads(played: Played, name: str, strength: float | None) -> list[str]:
    """Return what the engine lets the method's game read, attributes as u."""
    shape = DataShape.of(load_data(played.plan.study, played.plan.study.seeds[0]))
    stages = make_game(played.plan.method(name), strength).stages(shape)
    read = {what.partition(":")[0] for stage in stages for what in stage.reads}
    return [what for what in ("x", "u", "y") if what in read]


def _bytes(cells: Sequence[CellResult]) -> float | None:
    """Return bytes sent per device and round of the last stage, as the cells' rounds recorded them."""
    rounds = [record for cell in cells for record in cell.metrics if record.stage == cell.metrics[-1].stage]
    sent = sum(record.devices - record.silent for record in rounds)
    return sum(record.bytes_up for record in rounds) / sent if sent else None
