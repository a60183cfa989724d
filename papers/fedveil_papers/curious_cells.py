"""Tables of curious classifiers, and one of them: its data, its training, and what it tells on test people."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fedveil.config import parts

if TYPE_CHECKING:
    from fedveil.data import AttributeData
    from fedveil.games.curious import Curious

Options = tuple[tuple[str, Any], ...]
Read = Callable[[str, Options, tuple[str, ...], str | None, int], "AttributeData"]

MEASURED = 1
"""To be raised when a cell is measured otherwise: kept ones are then measured anew."""


@dataclass(frozen=True)
class Block:
    """One table: a target, its secrets, and rows; all that varies is crossed.

    Attributes:
        name: what the table is called.
        target, secrets: y, and what the outputs shall carry. Where both are the same, classifiers are dedicated to it:
            other tables' curiosity is compared with theirs.
        settings: names of the rows' settings.
        vary: values by the name of a data option or of a setting of `games.Curious`.
        options: of the data, further ones.
        data, game: in place of the experiment's.
        merge: coarser values of secrets, by name: each new value with those that it stands for.
        epochs: passes over the training records; the experiment's if unsaid.
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
        merge: coarser values, by attribute.
        federation: where devices train it, their number and "rounds", and for the form "server" the "auxiliary" share
            of the training people that the server holds itself; empty: one server holds all.
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
    merge: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    federation: dict[str, Any] = field(default_factory=dict)

    @property
    def dedicated(self) -> bool:
        """Whether F is trained for the secret itself."""
        return self.secrets == (self.target,)

    @property
    def key(self) -> dict[str, Any]:
        """What its figures depend on; neither the table nor the row's name."""
        told = ("source", "options", "sensitive", "target", "secrets", "epochs")
        merged = {"merge": self.merge} if self.merge else {}
        merged |= {"federation": self.federation} if self.federation else {}
        return (
            {name: getattr(self, name) for name in told} | {"game": asdict(self.made()), "measured": MEASURED} | merged
        )

    def made(self) -> Curious:
        """Return the game, its settings checked."""
        from fedveil.games.curious import Curious

        settings = {**self.game, "widths": tuple(self.game.get("widths", ())), "secrets": self.secrets}
        made: Curious = parts.make(Curious, settings, f"experiment: {self.table}: {self.setting!r}")
        return made

    def data(self, read: Read, seed: int) -> AttributeData:
        """Load the data, y and the secrets set; the split is the same for every run."""
        # A target that is loaded as an attribute needs no reading of its own.
        target = None if self.target in self.sensitive else self.target
        return _with_labels(read(self.source, _frozen(self.options), self.sensitive, target, seed), self)

    def measure(self, read: Read, seed: int, run: int, judges: Mapping[str, Any]) -> dict[str, Any]:
        """Train F, and return its figures on test people, a row for each secret."""
        from fedveil.core.measures import share_right
        from fedveil.data import Split
        from fedveil_papers import curious_measures as measures
        from fedveil_papers.curious import train
        from fedveil_papers.curious_federations import train_by_devices

        data, started = self.data(read, seed), time.perf_counter()
        if self.federation:
            classifier = train_by_devices(self.made(), data, self.federation, self.epochs, seed + run)
        else:
            classifier = train(self.made(), data, epochs=self.epochs, seed=seed + run)
        seconds = time.perf_counter() - started
        train_people, test = (classifier.outputs(data, part) for part in (Split.TRAIN, Split.TEST))
        right = test.predicted == test.y.codes
        honesty = share_right(right, test.groups, seed=seed).as_dict()
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
        rows = [
            {"secret": name, **common, **measures.told_of(classifier, data, name, judges, seed)}
            for name in self.secrets
        ]
        found: dict[str, Any] = {"rows": rows, "seconds": seconds, "histogram": measures.histogram(test)}
        secret = test.secrets[self.secrets[0]]
        if len(test.y.values) == len(secret.values) == 2 and secret.known.all():
            guessed = measures.own_scores(classifier, test, self.secrets[0])
            found["roc"] = {"y": measures.roc(test.y.codes, measures.margin(test.scores))}
            found["roc"]["s"] = measures.roc(secret.codes, guessed)
        return found


def _frozen(options: Mapping[str, Any]) -> Options:
    return tuple(sorted((name, tuple(value) if isinstance(value, list) else value) for name, value in options.items()))


def reader() -> Read:
    """Return what reads data and keeps the last: cells of the same data follow each other, and images are large."""
    from fedveil.data import load

    @lru_cache(maxsize=1)
    def read(source: str, options: Options, sensitive: tuple[str, ...], target: str | None, seed: int) -> AttributeData:
        return load(source, target=target, sensitive=sensitive, seed=seed, **dict(options))

    return read


def _with_labels(data: AttributeData, cell: Cell) -> AttributeData:
    labels = {name: data.label(name) for name in dict.fromkeys([cell.target, *cell.secrets])}
    for name in cell.merge.keys() & labels.keys():
        value_of = {old: new for new, olds in cell.merge[name].items() for old in olds}
        labels[name] = labels[name].merge(name, value_of)
    y = labels[cell.target]
    if cell.target in cell.secrets:
        y = replace(y, name=f"{y.name} itself")  # target and attribute are told apart by their names
    made = replace(data, y=y, attributes={name: labels[name] for name in cell.secrets}, tasks={})
    return made if y.known.all() else made.take(y.known)
