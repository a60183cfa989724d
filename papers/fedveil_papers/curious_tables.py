"""Tables of honest-but-curious classifiers (Malekzadeh, Borovykh and Gündüz, CCS 2021), on whatever data."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from itertools import product
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.config import parts
from fedveil.core.errors import InputError, nearest
from fedveil_papers import curious_layout as layout
from fedveil_papers.curious_beside import add_ways, printed
from fedveil_papers.curious_cells import MEASURED, Block, Cell, Read, reader
from fedveil_papers.curious_synthetic_layout import over_runs
from fedveil_papers.experiment import Kept, LaidOutExperiment, Say
from fedveil_papers.shown import PaperFigures

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class CuriousTables(LaidOutExperiment):
    """Classifiers trained centrally, each judged on test people: δ_y, δ_s by the maker's G and by retrained attackers.

    Attributes:
        data: "source", "options" and "sensitive", the attributes loaded for every table.
        blocks: the tables, each a `Block`.
        settings: of `games.Curious`, by the name of a row.
        epochs: passes over the training records.
        game: settings of `games.Curious` for all rows that do not say otherwise, such as widths.
        runs: how many seeds; run r trains with seed `seed` + r on the same split.
        panel: attackers that are retrained on the released outputs; `draws` bootstrap draws are behind their intervals.
        fresh: whether attackers learn from test people, too, each half's from the other half: F overfits its training
            people. Rows with fewer than eight test people (or groups of them) of some value do without.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "curious-tables"
    layout: ClassVar[ModuleType] = layout
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
        """Refuse what cannot be run."""
        from fedveil.attacks import panel
        from fedveil.data import find_source

        if self.runs < 1:
            raise InputError(f"experiment: runs must be at least 1, got {self.runs}")
        for block in self._blocks():
            for picture in block.pictures:
                if picture not in ("roc", "histogram"):
                    raise InputError(f"experiment: {block.name}: no picture {picture!r}: choose roc or histogram")
        for told in (self.data, *(block.data for block in self._blocks() if block.data is not None)):
            for name in told:
                if name not in ("source", "options", "sensitive"):
                    raise InputError(f"experiment: data: no {name!r}: give source, options, sensitive")
            find_source(str(told.get("source")))
        for cell in self.cells():
            cell.made()
            if cell.epochs < 1:
                raise InputError(f"experiment: {cell.table}: epochs must be at least 1, got {cell.epochs}")
        panel(self.panel, draws=self.draws)

    def _blocks(self) -> list[Block]:
        """Return the tables, checked."""
        return [parts.make(Block, told, f"experiment: blocks[{place}]") for place, told in enumerate(self.blocks)]

    def cells(self) -> list[Cell]:
        """Return every classifier to be made, table by table."""
        return [cell for block in self._blocks() for cell in self._cells(block)]

    def _cells(self, block: Block) -> list[Cell]:
        from fedveil.games.curious import Curious

        known, made = parts.settings_of(Curious), []
        told = self.data if block.data is None else block.data
        for values in product(*block.vary.values()):
            point = dict(zip(block.vary, values, strict=True))
            for setting in block.settings:
                if setting not in self.settings:
                    hint = nearest(setting, self.settings)
                    raise InputError(f"experiment: {block.name}: no setting {setting!r}: {hint}")
                game = {**(self.game if block.game is None else block.game), **self.settings[setting]}
                federation = dict(game.pop("federation", {}))
                game |= {name: value for name, value in point.items() if name in known}
                options = {**told.get("options", {}), **block.options}
                options |= {name: value for name, value in point.items() if name not in known}
                made.append(
                    Cell(
                        table=block.name,
                        source=str(told["source"]),
                        options=options,
                        sensitive=tuple(told.get("sensitive") or block.secrets),
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
        return made

    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Train and judge every classifier that is not in the folder yet."""
        rows, joints, read = [], [], reader()
        for block in self._blocks():
            cells = self._cells(block)
            if block.joint:
                joints += [{"secret": name, **self._joint(kept, read, cells[0], name)} for name in block.secrets]
            for cell in cells:
                rows += self._rows(kept, read, say, cell, block.pictures, paper)
        add_ways(rows)
        return {
            "kind": self.kind,
            "runs": self.runs,
            "fresh": self.fresh,
            "rows": rows,
            "joints": joints,
            "paper": [dict(one) for one in paper],
        }

    def _rows(
        self, kept: Kept, read: Read, say: Say, cell: Cell, pictures: list[str], paper: PaperFigures
    ) -> list[dict[str, Any]]:
        """Return a row for each secret, joined over runs."""
        found = []
        for run in range(self.runs):
            at = ", ".join(f"{name} {value}" for name, value in cell.point.items())
            say(f"{cell.table}: {cell.setting}{f', {at}' if at else ''}, run {run + 1} of {self.runs}")
            judges = {"attackers": self.panel, "draws": self.draws, "fresh": self.fresh}
            key = {
                "kind": self.kind,
                **cell.key,
                "panel": {"kind": self.panel, "draws": self.draws, "fresh": self.fresh},
            }
            measure = partial(cell.measure, read, self.seed, run, judges)
            found.append(kept.part({**key, "seed": self.seed, "run": run}, measure))
        about: dict[str, Any] = {
            "table": cell.table,
            "target": cell.target,
            "setting": cell.setting,
            "point": cell.point,
        }
        about |= {"dedicated": cell.dedicated, "curious": cell.made().beta_s > 0, "output": cell.made().output}
        about |= {"source": cell.source, "together": list(cell.secrets), "options": cell.options, "epochs": cell.epochs}
        about |= {"merge": cell.merge}
        further = {name: found[0][name] for name in pictures if name in found[0]}
        further["seconds"] = sum(one["seconds"] for one in found) / len(found)
        return [
            {**about, **row, **further, "paper": printed(paper, {**about, "secret": row["secret"]})}
            for row in over_runs([one["rows"] for one in found])
        ]

    def _joint(self, kept: Kept, read: Read, cell: Cell, secret: str) -> dict[str, Any]:
        from fedveil_papers.curious_measures import joint

        key: dict[str, Any] = {
            "kind": self.kind,
            "part": "joint",
            "source": cell.source,
            "options": cell.options,
            "secret": secret,
        }
        key |= {"target": cell.target, "sensitive": cell.sensitive, "seed": self.seed, "measured": MEASURED}
        key |= {"merge": cell.merge}
        return kept.part(key, lambda: {"target": cell.target, **joint(cell.data(read, self.seed), secret)})
