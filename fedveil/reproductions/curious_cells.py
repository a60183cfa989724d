"""One curious classifier of a table: its data, its training, and what it tells on test people."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fedveil.studies import parts

if TYPE_CHECKING:
    from fedveil.data import AttributeData
    from fedveil.games.curious import Curious

MEASURED = 1
"""To be raised when a cell is measured otherwise: kept ones are then measured anew."""


@dataclass(frozen=True)
class Cell:
    """A classifier to be made. One whose target is its secret is dedicated to it: what F could at most tell.

    Attributes:
        table: where it stands.
        source, options: the data; `sensitive` are loaded (and left out of a table's features) in every cell.
        target, secrets: y and what its outputs shall carry.
        setting: what its row is called.
        game: settings of `games.Curious`.
        point: what varies within its table, by name.
        epochs: passes over the training records.
        extras: "roc" and "histogram": what pictures need.
    """

    table: str
    source: str
    options: dict[str, Any]
    sensitive: tuple[str, ...]
    target: str
    secrets: tuple[str, ...]
    setting: str
    game: dict[str, Any]
    point: dict[str, Any]
    epochs: int
    extras: tuple[str, ...] = field(default=())

    @property
    def dedicated(self) -> bool:
        """Whether F is trained for the secret itself."""
        return self.secrets == (self.target,)

    @property
    def key(self) -> dict[str, Any]:
        """What its figures depend on; neither the table nor the row's name."""
        told = ("source", "options", "sensitive", "target", "secrets", "game", "epochs", "extras")
        return {name: getattr(self, name) for name in told} | {"measured": MEASURED}

    def made(self) -> Curious:
        """Return the game, its settings checked."""
        from fedveil.games.curious import Curious

        settings = {**self.game, "widths": tuple(self.game.get("widths", ())), "secrets": self.secrets}
        made: Curious = parts.make(Curious, settings, f"experiment: {self.table}: {self.setting!r}")
        return made

    def data(self, seed: int) -> AttributeData:
        """Load the data, y and the secrets set; the split is the same for every run."""
        return _with_labels(_loaded(self.source, _frozen(self.options), self.sensitive, self.target, seed), self)

    def measure(self, seed: int, run: int, panel: str, fresh: bool) -> dict[str, Any]:
        """Train F, and return its figures on test people, a row for each secret."""
        from fedveil.curious import train
        from fedveil.data import Split
        from fedveil.reproductions import curious_measures as measures

        data, started = self.data(seed), time.perf_counter()
        classifier = train(self.made(), data, epochs=self.epochs, seed=seed + run)
        seconds = time.perf_counter() - started
        train_people, held_out, test = (classifier.outputs(data, part) for part in Split)
        right = test.predicted == test.y.codes
        honesty = measures.share(right, test.groups, seed)
        learned = float((train_people.predicted == train_people.y.codes).mean())
        common = {
            "Y": len(test.y.values),
            "target_prior": test.y.prior,
            "honesty": honesty,
            # The training people are all there are: only the test people's share is uncertain.
            "gap": {"estimate": learned - honesty["estimate"]}
            | {"low": learned - honesty["high"], "high": learned - honesty["low"]},
            "entropy": measures.mean_entropy(test),
            "kept": classifier.kept,
        }
        pools = (train_people, held_out, test)
        rows = [
            {"secret": name, **common, **measures.told_of(classifier, pools, name, panel, fresh, seed)}
            for name in self.secrets
        ]
        found: dict[str, Any] = {"rows": rows, "seconds": seconds}
        if "histogram" in self.extras:
            found["histogram"] = measures.histogram(test)
        if "roc" in self.extras:
            found["roc"] = {"y": measures.roc(test.y.codes, measures.margin(test.scores))}
            codes = test.secrets[self.secrets[0]].codes
            found["roc"]["s"] = measures.roc(codes, measures.own_scores(classifier, test, self.secrets[0]))
        return found


def _frozen(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(options.items()))


def _loaded(
    source: str, options: tuple[tuple[str, Any], ...], sensitive: tuple[str, ...], target: str, seed: int
) -> AttributeData:
    # A target that is loaded as an attribute needs no reading of its own.
    return _read(source, options, sensitive, None if target in sensitive else target, seed)


@lru_cache(maxsize=1)  # cells of the same data follow each other; images are too large to keep several
def _read(
    source: str, options: tuple[tuple[str, Any], ...], sensitive: tuple[str, ...], target: str | None, seed: int
) -> AttributeData:
    from fedveil.data import load

    return load(source, target=target, sensitive=sensitive, seed=seed, **dict(options))


def _with_labels(data: AttributeData, cell: Cell) -> AttributeData:
    y = data.label(cell.target)
    if cell.target in cell.secrets:
        y = replace(y, name=f"{y.name} itself")  # target and attribute are told apart by their names
    secrets = {name: data.attribute(name) for name in cell.secrets}
    known = y.known
    made = replace(data, y=y, attributes=secrets, tasks={})
    return made if known.all() else made.take(known)
