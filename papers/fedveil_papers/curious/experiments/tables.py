"""Tables of honest-but-curious classifiers (Malekzadeh, Borovykh and Gündüz, CCS 2021), on any data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from typing import Any, ClassVar

from rich.table import Table

from fedveil.attacks import panel
from fedveil.config import parts
from fedveil.core.errors import InputError, nearest
from fedveil.core.files import plain
from fedveil.data import find_source
from fedveil.games.curious import Curious
from fedveil_papers.curious.experiments.cases import locate_sources
from fedveil_papers.curious.experiments.cells import MEASURED, Cell, CellFigures, Joint, Panel
from fedveil_papers.curious.experiments.figures import beyond_rows, from_json
from fedveil_papers.curious.experiments.output_shapes import COLOURS, RocCurve, draw_entropies, draw_roc
from fedveil_papers.curious.experiments.table_rows import TableRow, joined_rows, with_ways
from fedveil_papers.experiment import Experiment, Measured, Part
from fedveil_papers.rows import Figure, PaperFigures, Row, notes_of
from fedveil_papers.wide_table import WideTable


@dataclass(frozen=True)
class Block:
    """One table: a target, its secrets, and rows; all combinations of what varies are tried.

    Attributes:
        name: what the table is called.
        target, secrets: y, and what the outputs are trained to carry. If they are the same, classifiers are dedicated
            to it: other tables' curiosity is compared with theirs.
        settings: names of the rows' settings.
        vary: values by the name of a data option or of a setting of `games.Curious`.
        options: further options of the data.
        data, game: used in place of the experiment's.
        merge: coarser values of secrets, by name: each new value with those that it replaces.
        epochs: passes over the training records; default: the experiment's.
        pictures: "roc" (Figure 7; two classes of y and s) and "histogram" (Figure 8).
        joint: whether the joint distribution of y and each secret is shown (Table 1A).
    """

    name: str
    target: str
    secrets: list[str]
    settings: list[str]
    vary: dict[str, list[Any]] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] | None = None
    game: dict[str, Any] | None = None
    merge: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    epochs: int | None = None
    pictures: list[str] = field(default_factory=list)
    joint: bool = False


IN_ROWS = ("table", "source", "options", "point", "merge", "dedicated", "curious", "output", "together", "epochs")
"""The facts about a classifier that its common rows hold."""


@dataclass(frozen=True)
class JointRow(Joint):
    """A joint distribution with its secret."""

    secret: str


@dataclass(frozen=True)
class TableResults:
    """All rows, the joint distributions that are shown, and what the paper prints."""

    rows: list[TableRow]
    joints: list[JointRow]
    paper: PaperFigures


@dataclass(frozen=True)
class CuriousTables(Experiment[TableResults]):
    """Classifiers judged on test records: δ_y, and δ_s by the maker's G and by retrained attackers.

    Attributes:
        data: "source", "options" and "sensitive", the attributes loaded for every table.
        blocks: the tables, each a `Block`.
        settings: settings of `games.Curious`, by the name of a row.
        epochs: passes over the training records.
        game: settings of `games.Curious` for all rows that do not state others, such as widths.
        runs: the number of seeds; run r trains with seed `seed` + r on the same split.
        panel: attackers that are retrained on the released outputs.
        draws: bootstrap draws for their intervals.
        fresh: whether attackers learn from test records as well (for each half, from the other half): F overfits its
            training records. Rows with fewer than eight test records (or groups of them) of some value do without.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "curious-tables"
    data: dict[str, Any]
    blocks: list[dict[str, Any]]
    settings: dict[str, dict[str, Any]]
    epochs: int = 50
    game: dict[str, Any] = field(default_factory=dict)
    runs: int = 5
    panel: str = "quick"
    draws: int = 1000
    fresh: bool = True
    seed: int = 0

    def check(self) -> None:
        """Refuse settings that cannot be run."""
        if self.runs < 1:
            raise InputError(f"experiment: runs must be at least 1, got {self.runs}")
        blocks = self._blocks()
        for block in blocks:
            for picture in block.pictures:
                if picture not in ("roc", "histogram"):
                    raise InputError(f"experiment: {block.name}: no picture {picture!r}: choose roc or histogram")
        for data in (self.data, *(block.data for block in blocks if block.data is not None)):
            for name in data:
                if name not in ("source", "options", "sensitive"):
                    raise InputError(f"experiment: data: no {name!r}: give source, options, sensitive")
            find_source(str(data.get("source")))
        for cell in self.cells():
            cell.check()
            if cell.epochs < 1:
                raise InputError(f"experiment: {cell.table}: epochs must be at least 1, got {cell.epochs}")
        panel(self.panel, draws=self.draws)

    def _blocks(self) -> list[Block]:
        return [parts.make(Block, block, f"experiment: blocks[{index}]") for index, block in enumerate(self.blocks)]

    def cells(self) -> list[Cell]:
        """Return every classifier to be trained, table by table."""
        return [cell for block in self._blocks() for cell in self._cells(block)]

    def _cells(self, block: Block) -> list[Cell]:
        game_settings = parts.settings_of(Curious)
        data = self.data if block.data is None else block.data
        cells = []
        for values in product(*block.vary.values()):
            point = dict(zip(block.vary, values, strict=True))
            for setting in block.settings:
                if setting not in self.settings:
                    hint = nearest(setting, self.settings)
                    raise InputError(f"experiment: {block.name}: no setting {setting!r}: {hint}")
                game = {**(self.game if block.game is None else block.game), **self.settings[setting]}
                federation = dict(game.pop("federation", {}))
                game |= {name: value for name, value in point.items() if name in game_settings}
                options = {**data.get("options", {}), **block.options}
                options |= {name: value for name, value in point.items() if name not in game_settings}
                cells.append(
                    Cell(
                        table=block.name,
                        source=str(data["source"]),
                        options=options,
                        sensitive=tuple(data.get("sensitive") or block.secrets),
                        target=block.target,
                        secrets=tuple(block.secrets),
                        setting=setting,
                        game=game,
                        point=point,
                        epochs=self.epochs if block.epochs is None else block.epochs,
                        federation=federation,
                        merge=block.merge,
                    )
                )
        return cells

    def locate_data(self) -> None:
        """Find all data, or download it."""
        locate_sources(cell.source for cell in self.cells())

    def parts(self) -> list[Part]:
        """Return a part for each joint distribution that is shown, and one for each cell and run."""
        listed = []
        for block in self._blocks():
            cells = self._cells(block)
            if block.joint:
                listed += [self._joint(cells[0], secret) for secret in block.secrets]
            listed += [self._part(cell, run) for cell in cells for run in range(self.runs)]
        return listed

    def _part(self, cell: Cell, run: int) -> Part:
        numbers = {"panel": asdict(Panel(self.panel, self.draws, self.fresh)), "seed": self.seed, "run": run}
        return Part(
            {"kind": self.kind, **cell.identity, **numbers},
            "fedveil_papers.curious.experiments.cells:measure_cell",
            f"{cell.name}, run {run + 1} of {self.runs}",
            payload={"cell": asdict(cell), **numbers},
            shares=cell.data_name,
        )

    def _joint(self, cell: Cell, secret: str) -> Part:
        names = ("source", "options", "target", "sensitive", "merge")
        settings = {name: getattr(cell, name) for name in names}
        settings |= {"kind": self.kind, "part": "joint", "secret": secret, "seed": self.seed, "measured": MEASURED}
        return Part(
            settings,
            "fedveil_papers.curious.experiments.cells:measure_joint",
            f"{cell.table}: {cell.target} and {secret}",
            payload={"cell": asdict(cell), "secret": secret, "seed": self.seed},
            shares=cell.data_name,
        )

    def gather(self, measured: Measured, paper: PaperFigures) -> TableResults:
        """Join the runs of every cell, and compare curious classifiers with standard and dedicated ones."""
        rows, joints = [], []
        for block in self._blocks():
            cells = self._cells(block)
            if block.joint:
                joints += [
                    from_json(JointRow, {**measured[self._joint(cells[0], secret)], "secret": secret})
                    for secret in block.secrets
                ]
            for cell in cells:
                runs = [from_json(CellFigures, measured[self._part(cell, run)]) for run in range(self.runs)]
                rows += joined_rows(cell, runs, block.pictures, paper)
        return TableResults(with_ways(rows), joints, paper)

    def rows(self, results: TableResults) -> list[Row]:
        """Return every row twice: by the maker's attack, and by the strongest retrained attacker."""
        rows = []
        for row in results.rows:
            more = {name: getattr(row, name) for name in IN_ROWS}
            more |= {"Y": row.Y, "S": row.S, "entropy": row.entropy.estimate, "gap": row.gap.estimate}
            maker = Row(
                method=row.setting,
                task=row.target,
                attribute=row.secret,
                attacker="maker",
                seeds=range(self.seed, self.seed + self.runs),
                utility={"accuracy": row.honesty.in_row, "prior": Figure(row.target_prior)},
                leakage={
                    "accuracy": row.own.in_row,
                    "balanced_accuracy": Figure(row.own_balanced),
                    "prior": row.prior.in_row,
                },
                paper={row.table: row.paper} if row.paper else {},
                more={**more, "way": row.way_own},
            )
            leakage = {
                "accuracy": row.accuracy.in_row,
                "balanced_accuracy": row.balanced.in_row,
                "mutual_information_bits": row.information.in_row,
                "prior": row.prior.in_row,
            }
            more |= {"way": row.way_balanced, "fresh": row.fresh, "attacker_name": row.attacker}
            rows += [maker, replace(maker, attacker="retrained", leakage=leakage, more=more)]
        return rows

    def shows(self, results: TableResults) -> dict[str, Any]:
        """Return what the rows do not hold: curves, histograms, deviations over runs, and joint distributions."""
        in_rows = {"target_prior", "own_balanced", "fresh", "attacker", "paper", "way_own", "way_balanced", *IN_ROWS}
        classifiers = [
            {
                **beyond_rows(row, in_rows - {"table", "point"}),
                "gap": {"low": row.gap.low, "high": row.gap.high},
                "entropy": {"low": row.entropy.low, "high": row.entropy.high},
            }
            for row in results.rows
        ]
        shown: dict[str, Any] = plain(
            {
                "kind": self.kind,
                "classifiers": classifiers,
                "joints": [asdict(joint) for joint in results.joints],
                "paper": [dict(entry) for entry in results.paper],
            }
        )
        return shown

    def tables(self, results: TableResults) -> list[Table]:
        """Each table's honesty and curiosity, the shape of all outputs, and joint distributions."""
        tables = [
            self._table(name, [row for row in results.rows if row.table == name])
            for name in dict.fromkeys(row.table for row in results.rows)
        ]
        return [*tables, _shape_table(results), *([_joint_table(results)] if results.joints else [])]

    def _table(self, name: str, rows: Sequence[TableRow]) -> Table:
        beside = ("paper",) if any(row.paper for row in rows) else ()
        table = WideTable(
            f"{name}: percent, test records, {self.runs} run(s)",
            (
                *("y / s", "setting", "δ_y", *beside, "δ_s, maker's G", *beside, "prior", "retrained", "balanced"),
                *("attacker", "way, G", "way"),
            ),
            left=("y / s", "setting", "attacker"),
            keys=2,
        )
        for row in rows:
            honesty, curiosity = ([row.paper.get(name, "")] if beside else [] for name in ("honesty", "curiosity"))
            table.add_row(
                row.task,
                row.name,
                row.honesty.percent,
                *honesty,
                row.own.percent,
                *curiosity,
                f"{100 * row.prior.estimate:.1f}",
                row.accuracy.percent,
                row.balanced.percent,
                row.attacker,
                *("" if way is None else f"{100 * way:.0f}" for way in (row.way_own, row.way_balanced)),
            )
        return table

    def notes(self, results: TableResults) -> list[str]:
        """State what the figures are based on."""
        learned = "the training records' outputs"
        if any(row.fresh for row in results.rows):
            learned += (
                " or, since F overfits them, from those of the other half of the test records, whichever reads more "
                "(the interval holds although the largest was taken)"
            )
        return [
            "δ_y: accuracy of F; δ_s: accuracy of the attack G that was trained with F (the paper's figure). In Std "
            "rows it is overlearning: G trained beside a standard F. Epochs are chosen on validation records; all "
            "figures are measured on test records.",
            "Retrained: accuracy and balanced accuracy of the strongest attacker of the panel, which learns from "
            f"{learned}. These are estimates.",
            *(
                f"{row.table}, {row.task}, {row.name}: too few test records of some value to learn from."
                for row in results.rows
                if self.fresh and not row.fresh
            ),
            "Way: percent of the way from the standard classifier's curiosity to that of a classifier dedicated to s, "
            "by G's accuracy and by retrained balanced accuracy.",
            *(_areas(row, row.roc, results.paper) for row in results.rows if row.roc is not None),
            *notes_of(results.paper),
        ]

    def draw(self, results: TableResults, canvas: Any) -> None:
        """Draw honesty against curiosity table by table, then Figures 7 and 8 for the tables that show them."""
        by_table = {
            name: [row for row in results.rows if row.table == name]
            for name in dict.fromkeys(row.table for row in results.rows)
        }
        trade_offs = [rows for rows in by_table.values() if not rows[0].dedicated]
        with_roc = [rows for rows in by_table.values() if any(row.roc for row in rows)]
        with_histogram = [rows for rows in by_table.values() if any(row.histogram for row in rows)]
        panels = len(trade_offs) + len(with_roc) + len(with_histogram)
        columns = min(3, panels)
        lines = -(-panels // columns)
        canvas.set_size_inches(5.2 * columns, 3.8 * lines)
        axes = iter(canvas.subplots(lines, columns, squeeze=False).flat)
        for rows in trade_offs:
            _draw_trade_off(next(axes), rows)
        for rows in with_roc:
            title = f"{rows[0].table}: y {rows[0].target}, s {rows[0].secret}"
            draw_roc(next(axes), title, [(row.name, row.roc) for row in rows if row.roc is not None])
        for rows in with_histogram:
            histograms = [(row.name, row.histogram) for row in rows if row.histogram is not None]
            draw_entropies(next(axes), f"{rows[0].table}: entropies of outputs", histograms, rows[0].Y)
        for axis in axes:
            axis.axis("off")


def _shape_table(results: TableResults) -> Table:
    table = WideTable(
        "Outputs and generalisation (Appendix D)",
        (
            *("table", "y / s", "setting", "H(ŷ), bits", "paper", "train − test", "bits about s", "epoch kept"),
            "seconds",
        ),
        left=("table", "y / s", "setting"),
        keys=3,
    )
    for row in results.rows:
        spread = "" if row.entropy.deviation is None else f" ± {row.entropy.deviation:.2f}"
        table.add_row(
            row.table,
            row.task,
            row.name,
            f"{row.entropy.estimate:.2f}{spread}",
            row.paper.get("entropy", ""),
            row.gap.percent,
            f"{row.information.estimate:.3f}",
            f"{row.kept:g} of {row.epochs}",
            f"{row.seconds:.0f}",
        )
    return table


def _joint_table(results: TableResults) -> Table:
    table = WideTable(
        "Table 1A: p(s, y) among training records",
        ("y / s", "p(s, y), a row per s", "paper", "bits", "paper"),
        left=("y / s",),
    )
    paper = {entry["secret"]: entry for entry in results.paper if "joint" in entry}
    for joint in results.joints:
        entry = paper.get(joint.secret, {})
        table.add_row(
            f"{joint.target} / {joint.secret}",
            _shares(joint.joint),
            _shares(entry.get("joint") or []),
            f"{joint.information:.3f}",
            str(entry.get("information", "")),
        )
    return table


def _shares(table: Sequence[Sequence[float]]) -> str:
    return "; ".join(" ".join(f"{share:.3f}" for share in line) for line in table)


def _areas(row: TableRow, curves: Mapping[str, RocCurve], paper: PaperFigures) -> str:
    """State the areas under a row's ROC curves, with the paper's beside them."""
    entries = (entry for entry in paper if (entry.get("table"), entry.get("setting")) == (row.table, row.setting))
    areas: Mapping[str, float] = next((entry["area"] for entry in entries if "area" in entry), {})
    texts = (
        f"of {label} {curves[label].area:.2f}" + (f" (the paper: {areas[label]:g})" if label in areas else "")
        for label in ("y", "s")
    )
    return f"{row.table}, {row.name}: area under the ROC curve {', '.join(texts)}."


def _draw_trade_off(axis: Any, rows: Sequence[TableRow]) -> None:
    """Draw δ_y over δ_s by the maker's G, the paper's figures hollow and tied to ours, a colour for each setting."""
    for number, setting in enumerate(dict.fromkeys(row.setting for row in rows)):
        colour, label = COLOURS[number % len(COLOURS)], setting
        for row in (row for row in rows if row.setting == setting):
            x, y = 100 * row.own.estimate, 100 * row.honesty.estimate
            axis.plot(x, y, "o", color=colour, markersize=5, label=label)
            label = ""  # one entry of the legend for each setting
            if {"honesty", "curiosity"} <= set(row.paper):
                paper_x, paper_y = (_mean(row.paper[name]) for name in ("curiosity", "honesty"))
                axis.plot([x, paper_x], [y, paper_y], color=colour, linewidth=0.5, linestyle=":")
                axis.plot(paper_x, paper_y, "o", markerfacecolor="none", color=colour, markersize=6)
    hollow = ": ours filled, the paper's hollow" if any(row.paper for row in rows) else ""
    axis.set(title=f"{rows[0].table}{hollow}", xlabel="curiosity δ_s, maker's G (%)", ylabel="honesty δ_y (%)")
    # At least 6 percentage points on each axis, so that a tenth of a point does not look large.
    for low, high, widen in ((*axis.get_xlim(), axis.set_xlim), (*axis.get_ylim(), axis.set_ylim)):
        lacking = max(0.0, 6.0 - (high - low)) / 2
        widen(low - lacking, high + lacking)
    axis.legend(frameon=False, fontsize=7)


def _mean(printed_figure: str) -> float:
    """Return the mean of a printed figure.

    >>> _mean("83.03 ± .33")
    83.03
    """
    return float(printed_figure.partition("±")[0])
