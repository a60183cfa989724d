"""One method of an Attri-Fed study: it is trained on its participants and judged on test people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from fedveil.attacks import panel
from fedveil.attacks.cotrained import judge_cotrained
from fedveil.attacks.judgement import AttackerFigures
from fedveil.config import parts
from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data import AttributeData, Split, load
from fedveil.federation import Federation
from fedveil.federation.heads import fit_heads
from fedveil.federation.release import Releases, senders
from fedveil.federation.run import Run
from fedveil.games import Game
from fedveil.games.attri_fed import AttriFed
from fedveil.rate.measuring import Measured, Released, Sent, measure
from fedveil.shields.message import Kind
from fedveil.shields.shield import Identity, Shield
from fedveil.studies.units import Report
from fedveil_papers.attri_fed.dp_training import DPTraining, accuracy_of, released_by
from fedveil_papers.experiment import Part
from fedveil_papers.rows import Figure

_ROUNDS = 30
"""Rounds of games that do not set a number themselves."""

WEAK = "mlp-small"
"""One small non-linear network on pooled representations that ignores the sender, as the paper's server does."""

_LARGER = {"light": "mlp-large", "paper": "mlp-wide"}
"""For each choice of the game's networks, an attacker with no layer smaller than the privatiser's."""


@dataclass(frozen=True)
class Method:
    """One way to send representations.

    Attributes:
        name: what its rows are called.
        game: settings of `games.AttriFed`; or, with "kind", of another game (plain representations, not coded).
        dp: settings of DP-SGD on each participant in place of a game.
        shield: a shield's "kind" and settings: on representations, or on inputs, such as drop-columns (the oracle for
            tables).
        data: further options of the data source (greyscale is the oracle for images).
    """

    name: str
    game: dict[str, Any] = field(default_factory=dict)
    dp: dict[str, Any] | None = None
    shield: dict[str, Any] | None = None
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Trained:
    """A method after training.

    Attributes:
        data: the records, with as many for training as the participants hold.
        released: what people send.
        networks: the sizes of the method's networks, "light" or "paper".
        outputs: what the head computes from exactly what is released, by split; None if the head reads something else:
            with a shield in between, or with a head for every participant.
        shield: the shield on what is sent.
        privatiser: what the game's own adversary reads; it is weak, since the encoder was trained to fool it.
        spent: ε of DP-SGD by accountant.
    """

    data: AttributeData
    released: Released
    networks: str
    outputs: dict[Split, FloatArray] | None
    shield: Shield
    privatiser: AttackerFigures | None = None
    spent: dict[str, float] | None = None

    def figures(self, measured: Measured) -> dict[str, Any]:
        """Return a cell's figures as JSON values; "weak" is what the paper's protocol would report."""
        network = next(attacker for attacker in measured.stranger.attackers if attacker.name == WEAK)
        weak = {"network": _accuracies(network), "privatiser": self.privatiser and _accuracies(self.privatiser)}
        spent = {} if self.spent is None else {"spent": self.spent}
        return {"facts": dict(self.data.facts), **measured.as_dict(), "weak": weak, **spent}


@dataclass(frozen=True)
class Case:
    """One method with a number of participants, to be trained and judged.

    Attributes:
        kind: the kind of the experiment.
        data: "source", "target", "attribute", "options" and "test", as in `MethodComparison`.
        method: what is trained.
        point: the values of what varies.
        game: all settings of the method's game.
        participants, samples: the number of devices, and of training records of each.
        panel: attackers that are retrained on what is sent.
        seed: all randomness derives from it.
    """

    kind: str
    data: dict[str, Any]
    method: Method
    point: dict[str, Any]
    game: dict[str, Any]
    participants: int
    samples: int
    panel: str
    seed: int

    @classmethod
    def of(cls, payload: Mapping[str, Any]) -> Case:
        """Return it from JSON values."""
        return cls(**{**payload, "method": Method(**payload["method"])})

    @property
    def attribute(self) -> str:
        """The private attribute."""
        return str(self.data["attribute"])

    @property
    def loading(self) -> str:
        """Everything that its data depends on, as JSON."""
        options = {**self.data.get("options", {}), **self.method.data}
        return json.dumps(
            [
                *(self.data["source"], self.data["target"], self.attribute, options, self.data.get("test")),
                *(self.participants * self.samples, self.seed),
            ],
            sort_keys=True,
        )

    def part(self, task: str) -> Part:
        """Return the case as a part, measured by a task."""
        settings = {
            "kind": self.kind,
            "data": self.data,
            "game": self.game,
            "dp": self.method.dp,
            "shield": self.method.shield,
            "more": self.method.data,
            "participants": self.participants,
            "samples": self.samples,
            "panel": self.panel,
            "seed": self.seed,
        }
        words = [f"{self.participants} participants", *(f"{name} {value}" for name, value in self.point.items())]
        return Part(settings, task, f"{self.method.name}: {', '.join(words)}", asdict(self), self.loading)

    def trainer(self) -> Game | DPTraining:
        """Return the game, or the settings of DP-SGD, checked."""
        where = f"experiment: method {self.method.name!r}"
        if self.method.dp is not None:
            training: DPTraining = parts.make(DPTraining, self.method.dp, where)
            return training
        settings = {name: value for name, value in self.game.items() if name != "kind"}
        game_class = parts.game_class(str(self.game.get("kind", "attri-fed")))
        game: Game = parts.make(game_class, {"attribute": self.attribute, **settings}, where)
        return game

    def shield(self) -> Shield:
        """Return the shield, checked; the identity if there is none."""
        if self.method.shield is None:
            return Identity()
        settings = {name: value for name, value in self.method.shield.items() if name != "kind"}
        where = f"experiment: method {self.method.name!r}: shield"
        shield: Shield = parts.make(parts.shield_class(str(self.method.shield["kind"])), settings, where)
        return shield

    def train(self) -> Trained:
        """Train the method on the participants."""
        data, trainer, shield = _load(self.loading), self.trainer(), self.shield()
        federation = Federation(data, devices=self.participants, seed=self.seed, shield=shield)
        if isinstance(trainer, DPTraining):
            rows = [federation.partition.device(device) for device in range(self.participants)]
            values, owners, logits = released_by(trainer, data, rows, self.seed)
            released = Released(values, owners, accuracy_of(logits, data), trainer.reach, dealt_at_random=True)
            return Trained(data, released, trainer.networks, None, shield, spent=trainer.spent(len(rows[0])))
        run = federation.play(trainer, rounds=_ROUNDS)
        releases, outputs = Releases(run), None
        if isinstance(trainer, AttriFed) and self.method.shield is None:
            reach = trainer.reach if trainer.compresses else None
            released = Released.of_run(run, reach, seed=self.seed, releases=releases)
            outputs = {split: releases.of(split, Kind.OUTPUT) for split in Split}
        else:
            # What a shield sends does not fit the code, and the game's own head was never trained on it: it is sent as
            # floats, and a new head is trained on what is actually sent.
            assert data.y is not None
            (utility,) = fit_heads(run, [data.y.name], seed=self.seed, releases=releases)
            values = {split: releases.of(split) for split in Split}
            released = Released(values, {split: senders(run, split) for split in Split}, utility.accuracy, None)
        networks = trainer.networks if isinstance(trainer, AttriFed) else "light"
        return Trained(data, released, networks, outputs, shield, _privatiser(run, self.attribute))

    def judge(self, trained: Trained) -> Measured:
        """Judge what is sent with the panel, the paper's weak attacker, and an attacker of the privatiser's size."""
        attackers = server_panel(self.panel, trained.networks)
        return measure(trained.released, trained.data, self.attribute, attackers=attackers, seed=self.seed)


def server_panel(attackers: str, networks: str) -> tuple[str, ...]:
    """Return a panel's attackers, joined by the paper's weak one and by one at least as large as the privatiser."""
    return tuple(dict.fromkeys([*panel(attackers).attackers, WEAK, _LARGER[networks]]))


def measure_method(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Train and judge one case: the task of a part."""
    case = Case.of(payload)
    trained = case.train()
    report.progress(0.5, "attacks")
    return trained.figures(case.judge(trained))


@lru_cache(maxsize=2)
def _load(loading: str) -> AttributeData:
    """Load the data as flat vectors, with training records drawn at random."""
    source, target, attribute, options, most_test_records, records, seed = json.loads(loading)
    data = load(source, target=target, sensitive=attribute, seed=seed, **options)
    train, test = data.rows(Split.TRAIN), data.rows(Split.TEST)
    if len(train) < records:
        raise InputError(
            f"experiment: {source} has {len(train)} training records, {records} are needed; choose fewer participants"
        )
    rng = numpy_generator(seed, "attri-fed", "records")
    chosen = [rng.choice(train, records, replace=False), data.rows(Split.VALIDATION)]
    few = most_test_records is not None and most_test_records < len(test)
    chosen.append(rng.choice(test, most_test_records, replace=False) if few else test)
    sampled = data.take(np.sort(np.concatenate(chosen)))
    if sampled.x.ndim == 2:  # a table keeps the names of its columns, some of which the oracle drops
        return sampled
    return replace(sampled, x=np.ascontiguousarray(sampled.x.reshape(len(sampled), -1)))


def _privatiser(run: Run, attribute: str) -> AttackerFigures | None:
    try:
        return judge_cotrained(run, attribute)
    except InputError:  # this game trains no adversary
        return None


def _accuracies(figures: AttackerFigures) -> dict[str, Any]:
    return {
        "attacker": figures.name,
        "accuracy": figures.accuracy.as_dict(),
        "balanced_accuracy": figures.balanced_accuracy.as_dict(),
    }


@dataclass(frozen=True)
class Reading:
    """What an attacker reads; `bits` is the information, if it was measured."""

    attacker: str
    accuracy: Figure | None
    balanced_accuracy: Figure | None
    bits: Figure | None = None

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> Reading:
        """Return it from JSON values."""
        names = ("accuracy", "balanced_accuracy", "bits")
        return cls(figures["attacker"], *(Figure.of(figures.get(name)) for name in names))

    @property
    def leakage(self) -> dict[str, Figure | None]:
        """The figures as a row names them."""
        leakage = {"accuracy": self.accuracy, "balanced_accuracy": self.balanced_accuracy}
        return leakage if self.bits is None else {**leakage, "mutual_information_bits": self.bits}


@dataclass(frozen=True)
class Cell:
    """The figures of one case.

    Attributes:
        method, participants, point: which case.
        accuracy: the task's accuracy.
        stranger, server: what is read by attackers that do not know the sender, and by those that do.
        weak: what the weak attackers read: "network" and "privatiser"; None if there is none.
        sent: how much is sent.
        certified: the most bits that what is sent can reveal, by observer; empty if nothing is coded.
        spent: ε of DP-SGD by accountant, if it was used.
        figures: all figures as JSON values.
    """

    method: str
    participants: int
    point: Mapping[str, Any]
    accuracy: Figure | None
    stranger: Reading
    server: Reading
    weak: Mapping[str, Reading | None]
    sent: Sent
    certified: Mapping[str, float]
    spent: Mapping[str, float] | None
    figures: Mapping[str, Any]

    @classmethod
    def of(cls, case: Case, figures: Mapping[str, Any]) -> Cell:
        """Return it from a part's figures."""
        return cls(
            case.method.name,
            case.participants,
            case.point,
            Figure.of(figures["accuracy"]),
            Reading.of(figures["stranger"]),
            Reading.of(figures["server"]),
            {name: None if weak is None else Reading.of(weak) for name, weak in figures["weak"].items()},
            Sent(**figures["sent"]),
            {observer: float(certificate["bound"]) for observer, certificate in figures["certificates"].items()},
            figures.get("spent"),
            figures,
        )

    @property
    def readings(self) -> dict[tuple[str, str], Reading]:
        """Every attacker's reading, by the attacker's kind and by what the observer knows."""
        readings = {("retrained", "sender unknown"): self.stranger, ("retrained", "sender known"): self.server}
        kinds = {"network": "small network (weak)", "privatiser": "cotrained"}
        weak = {(kinds[name], "sender unknown"): reading for name, reading in self.weak.items() if reading is not None}
        return {**readings, **weak}

    def beyond_rows(self) -> dict[str, Any]:
        """Return which case it is, and the figures that the common rows do not hold."""
        in_rows = ("facts", "accuracy", "stranger", "server", "weak", "bytes_ratio", "spent")
        figures = {name: value for name, value in self.figures.items() if name not in in_rows}
        further = ("header", "escaped", "joint", "ratio_float16", "ratio_input")
        sent = {name: getattr(self.sent, name) for name in further}
        return {"method": self.method, "participants": self.participants, **self.point, **figures, "sent": sent}
