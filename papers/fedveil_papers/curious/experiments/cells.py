"""One classifier of a table: its data, its training, and its figures on test records."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from fedveil.attacks.fresh import enough
from fedveil.config import parts
from fedveil.core.entropy import mutual_information
from fedveil.core.measures import share_right
from fedveil.data import AttributeData, Split
from fedveil.games.curious import Curious
from fedveil.studies.units import Report
from fedveil_papers.curious import Classifier, train
from fedveil_papers.curious.experiments.cases import load_once
from fedveil_papers.curious.experiments.figures import RunFigure, from_json, to_json
from fedveil_papers.curious.experiments.output_shapes import RocCurve, entropy_histogram, mean_entropy, roc_curves
from fedveil_papers.curious.federated import FederationSettings
from fedveil_papers.curious.measuring import measure

MEASURED = 1
"""Increase this when a change of the code changes a cell's figures: stored figures are then not read."""


@dataclass(frozen=True)
class Panel:
    """The attackers that are retrained on a classifier's outputs.

    Attributes:
        kind: "full", "quick" or names, "a,b".
        draws: bootstrap draws for their intervals.
        fresh: whether attackers that learn from test records are tried as well.
    """

    kind: str
    draws: int
    fresh: bool


@dataclass(frozen=True)
class Cell:
    """A classifier to be trained; if its target is its secret, it is dedicated to it: the most that F could reveal.

    Attributes:
        table: the table that it belongs to.
        source, options: the data; `sensitive` are loaded (and left out of a table's features) in every cell.
        target, secrets: y, and what its outputs are trained to carry.
        setting: what its row is called.
        game: settings of `games.Curious`.
        point: what varies within its table, by name.
        epochs: passes over the training records.
        merge: coarser values by attribute, each with the values that it replaces.
        federation: settings of `FederationSettings` if devices train it; empty: one server holds all records.
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
        """Whether F is trained to predict the secret itself."""
        return self.secrets == (self.target,)

    @property
    def name(self) -> str:
        """What people read while it is trained."""
        point = "".join(f", {name} {value}" for name, value in self.point.items())
        return f"{self.table}: {self.setting}{point}"

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that its figures depend on; the table and the row's name are not part of it."""
        names = ["source", "options", "sensitive", "target", "secrets", "epochs"]
        names += [name for name in ("merge", "federation") if getattr(self, name)]
        values = {name: getattr(self, name) for name in names}
        return {**values, "game": asdict(self.make_game()), "measured": MEASURED}

    @property
    def data_name(self) -> str:
        """A name of the data, the same for all cells that load the same data."""
        return f"{self.source} {sorted(self.options.items())} {self.sensitive} {self.target}"

    def check(self) -> None:
        """Refuse settings of the game or of the federation that do not exist."""
        self.make_game()
        self.make_federation()

    def make_federation(self) -> FederationSettings | None:
        """Return the federation that trains it; None if one server holds all records."""
        if not self.federation:
            return None
        settings: FederationSettings = parts.make(FederationSettings, self.federation, "experiment: federation")
        return settings

    def make_game(self) -> Curious:
        """Return the game, with its settings checked."""
        settings = {**self.game, "widths": tuple(self.game.get("widths", ())), "secrets": self.secrets}
        game: Curious = parts.make(Curious, settings, f"experiment: {self.table}: {self.setting!r}")
        return game

    def load(self, seed: int) -> AttributeData:
        """Load the data with y and the secrets set; the split is the same for every run."""
        # A target that is loaded as an attribute is not read a second time.
        target = None if self.target in self.sensitive else self.target
        data = load_once(self.source, target=target, sensitive=self.sensitive, options=self.options, seed=seed)
        labels = {name: data.label(name) for name in dict.fromkeys([self.target, *self.secrets])}
        for name in self.merge.keys() & labels.keys():
            value_of = {old: new for new, olds in self.merge[name].items() for old in olds}
            labels[name] = labels[name].merge(name, value_of)
        y = labels[self.target]
        if self.target in self.secrets:
            y = replace(y, name=f"{y.name} itself")  # target and attribute must differ in their names
        data = replace(data, y=y, attributes={name: labels[name] for name in self.secrets}, tasks={})
        return data if y.known.all() else data.take(y.known)

    def train(self, data: AttributeData, seed: int) -> Classifier:
        """Train F and G, on one server or on devices."""
        game, federation = self.make_game(), self.make_federation()
        if federation is None:
            return train(game, data, epochs=self.epochs, seed=seed)
        return federation.train(game, data, self.epochs, seed)


@dataclass(frozen=True, kw_only=True)
class SecretFigures:
    """A classifier's figures on test records, for one of its secrets.

    Attributes:
        secret: s.
        Y, S: the numbers of values of y and s.
        target_prior: the share of y's most frequent value.
        honesty: δ_y, F's accuracy.
        gap: F's accuracy on training records minus δ_y.
        entropy: the mean entropy of outputs, in bits.
        kept: the epoch whose weights were kept.
        own, own_balanced: δ_s, the accuracy of the maker's attack G, and its balanced accuracy.
        prior: the share of s's most frequent value.
        fresh: whether attackers that learn from test records were tried.
        attacker: the strongest retrained attacker.
        accuracy, balanced: its accuracy and balanced accuracy.
        information: what retrained attackers read, in bits.
    """

    secret: str
    Y: int
    S: int
    target_prior: float
    honesty: RunFigure
    gap: RunFigure
    entropy: RunFigure
    kept: float
    own: RunFigure
    own_balanced: float
    prior: RunFigure
    fresh: bool
    attacker: str
    accuracy: RunFigure
    balanced: RunFigure
    information: RunFigure


@dataclass(frozen=True)
class CellFigures:
    """A classifier's figures in one run.

    Attributes:
        rows: one for each secret.
        seconds: how long training took.
        histogram: shares of outputs by entropy.
        roc: curves of "y" and "s", if both have two classes.
    """

    rows: list[SecretFigures]
    seconds: float
    histogram: list[float]
    roc: dict[str, RocCurve] | None = None


def measure_cell(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Train a cell's classifier, and return its `CellFigures`.

    The payload has the cell's fields under "cell", the panel's under "panel", the "seed" and the number of the "run".
    """
    cell, panel, seed = from_json(Cell, payload["cell"]), from_json(Panel, payload["panel"]), payload["seed"]
    data, started = cell.load(seed), time.perf_counter()
    classifier = cell.train(data, seed + payload["run"])
    seconds = time.perf_counter() - started
    report.progress(0.5, "judging")
    training, test = (classifier.outputs(data, split) for split in (Split.TRAIN, Split.TEST))
    honesty = RunFigure.of(share_right(test.predicted == test.y.codes, test.groups, seed=seed))
    trained = float((training.predicted == training.y.codes).mean())
    common: dict[str, Any] = {
        "Y": len(test.y.values),
        "target_prior": test.y.prior,
        "honesty": honesty,
        # All training records are counted: only the accuracy on test records is uncertain.
        "gap": RunFigure(trained - honesty.estimate, trained - honesty.high, trained - honesty.low),
        "entropy": mean_entropy(test),
        "kept": classifier.kept,
    }
    rows = [
        SecretFigures(secret=secret, **common, **_read(classifier, data, secret, panel, seed))
        for secret in cell.secrets
    ]
    figures = CellFigures(rows, seconds, entropy_histogram(test), roc_curves(classifier, test, cell.secrets[0]))
    content: dict[str, Any] = to_json(figures)
    return {name: value for name, value in content.items() if value is not None}


def _read(classifier: Classifier, data: AttributeData, secret: str, panel: Panel, seed: int) -> dict[str, Any]:
    """Return what the maker's G and what retrained attackers read in the outputs of test records.

    F overfits its training records, whose outputs differ from those of others. If the panel is `fresh`, attackers that
    learn from test records (for each half, from the other half) are tried too.
    """
    outputs = classifier.outputs(data, Split.TEST)
    test = outputs.take(outputs.secrets[secret].known)
    s, guesses = test.secrets[secret], classifier.guesses(test, secret)
    fresh = panel.fresh and enough(s, test.groups)  # rows without fresh attackers are noted
    measured = measure(classifier, data, secret, attackers=panel.kind, draws=panel.draws, fresh=fresh, seed=seed)
    recalls = [float((guesses == code)[s.codes == code].mean()) for code in np.unique(s.codes)]
    worst = measured.judgement.worst
    return {
        "S": len(s.values),
        "own": RunFigure.of(share_right(guesses == s.codes, test.groups, seed=seed)),
        "own_balanced": sum(recalls) / len(recalls),
        "prior": RunFigure.of(measured.judgement.prior),
        "fresh": fresh,
        "attacker": worst.name,
        "accuracy": RunFigure.of(worst.accuracy),
        "balanced": RunFigure.of(worst.balanced_accuracy),
        "information": RunFigure.of(measured.judgement.mutual_information_bits),
    }


@dataclass(frozen=True)
class Joint:
    """p(s, y) among training records (the paper's Table 1A), with a row for each s, and I(s; y) in bits."""

    target: str
    joint: list[list[float]]
    information: float


def measure_joint(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Count the `Joint` distribution of a cell's target and of payload["secret"]."""
    cell = from_json(Cell, payload["cell"])
    data = cell.load(payload["seed"])
    assert data.y is not None
    rows, s = data.rows(Split.TRAIN), data.attribute(payload["secret"])
    table = np.zeros((len(s.values), len(data.y.values)))
    np.add.at(table, (s.codes[rows], data.y.codes[rows]), 1.0)
    table /= table.sum()
    figures: dict[str, Any] = to_json(Joint(cell.target, table.tolist(), mutual_information(table)))
    return figures
