"""Attri-Fed's figures and studies: what compressed representations cost, what attackers read, what is certified."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedveil.attacks import panel
from fedveil.attacks.cotrained import judge_cotrained
from fedveil.attacks.judgement import AttackerFigures
from fedveil.config import parts
from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data import AttributeData, Split, find_source, load
from fedveil.federation import Federation
from fedveil.federation.release import release, senders
from fedveil.federation.run import Run
from fedveil.games import Game
from fedveil.games.attri_fed import AttriFed
from fedveil.rate.measuring import WEAK, Measured, Released, measure, server_panel
from fedveil.shields.message import Kind
from fedveil.shields.shield import Identity, Shield
from fedveil_papers.attri_fed.dp_training import DPTraining, accuracy_of, released_by
from fedveil_papers.experiment import Experiment, Kept, Say
from fedveil_papers.shown import PaperFigures, with_interval

if TYPE_CHECKING:
    from rich.table import Table

_ROUNDS = 30
"""Rounds of games that do not set a number themselves."""


@dataclass(frozen=True)
class Method:
    """One way to send representations.

    Attributes:
        name: what its rows are called.
        game: settings of `games.AttriFed`; or, with "kind", of another game (representations as they are, no code).
        dp: settings of DP-SGD on each participant in place of a game.
        shield: with "kind": on representations, or on the input, as drop-columns is (the oracle for tables).
        data: further options of the data source (greyscale is the oracle for images).
    """

    name: str
    game: dict[str, Any] = field(default_factory=dict)
    dp: dict[str, Any] | None = None
    shield: dict[str, Any] | None = None
    data: dict[str, Any] = field(default_factory=dict)

    def make_shield(self) -> Shield:
        """Return the method's shield, checked; the identity where it has none."""
        if self.shield is None:
            return Identity()
        settings = {name: value for name, value in self.shield.items() if name != "kind"}
        where = f"experiment: method {self.name!r}: shield"
        shield: Shield = parts.make(parts.shield_class(str(self.shield["kind"])), settings, where)
        return shield


@dataclass(frozen=True, eq=False)
class Trained:
    """A method after training.

    Attributes:
        released: what people send.
        networks: the sizes of the method's networks, "light" or "paper".
        outputs: what the head computes from exactly this, by split; None where the head reads something else: with a
            shield in between, or with a head for every participant.
        shield: what acts on what is sent.
        privatiser: what the game's own adversary reads: weak, since the encoder was trained to fool it.
        spent: ε of DP-SGD by accountant.
    """

    released: Released
    networks: str
    outputs: dict[Split, FloatArray] | None
    shield: Shield
    privatiser: AttackerFigures | None = None
    spent: dict[str, float] | None = None

    def measure(self, data: AttributeData, attribute: str, attackers: str, seed: int) -> Measured:
        """Judge what is sent by a panel, the paper's weak attacker and one as large as the privatiser among it."""
        return measure(self.released, data, attribute, attackers=server_panel(attackers, self.networks), seed=seed)

    def figures(self, measured: Measured, data: AttributeData) -> dict[str, Any]:
        """Return a row's figures as plain values; "weak" is what the paper's protocol would report."""
        network = next(attacker for attacker in measured.stranger.attackers if attacker.name == WEAK)
        weak = {"network": _accuracies(network), "privatiser": self.privatiser and _accuracies(self.privatiser)}
        spent = {} if self.spent is None else {"spent": self.spent}
        return {"facts": dict(data.facts), **measured.as_dict(), "weak": weak, **spent}


@dataclass(frozen=True)
class AttriFedStudy(Experiment):
    """Methods × participants × whatever varies, each judged on test people.

    Attributes:
        data: "source", "target", "attribute" and "options"; "test": at most so many test records are judged.
        methods: the settings of each `Method`.
        participants: numbers of devices.
        samples: training records of each participant.
        game: settings of `games.AttriFed` that all its methods share.
        vary: values by the name of a setting of `games.AttriFed`, or of "samples".
        panel: attackers that are retrained on what is sent.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "attri-fed"
    data: dict[str, Any]
    methods: list[dict[str, Any]]
    participants: list[int] = field(default_factory=lambda: [10])
    samples: int = 500
    game: dict[str, Any] = field(default_factory=dict)
    vary: dict[str, list[Any]] = field(default_factory=dict)
    panel: str = "quick"
    seed: int = 0

    @property
    def attribute(self) -> str:
        """The private attribute."""
        return str(self.data["attribute"])

    def check(self) -> None:
        """Refuse settings that cannot be run."""
        for name in ("source", "target", "attribute"):
            if name not in self.data:
                raise InputError(f"experiment: data: give {name}")
        find_source(str(self.data["source"]))
        if min([self.samples, *self.participants]) < 1:
            raise InputError("experiment: participants and samples must be at least 1")
        panel(self.panel)
        for method in self._methods():
            method.make_shield()
            for point in self._points():
                self._trainer(method, self._game_settings(method, point))

    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Train and judge what is not in the folder yet."""
        units, rows = [], []
        for point, participants, method in product(self._points(), self.participants, self._methods()):
            game = self._game_settings(method, point)
            samples = int(point.get("samples", self.samples))
            key = {"kind": self.kind, "data": self.data, "game": game, "dp": method.dp, "shield": method.shield}
            key |= {"more": method.data, "participants": participants, "samples": samples, "panel": self.panel}
            words = [f"{participants} participants", *(f"{name} {value}" for name, value in point.items())]
            unit = partial(self._measure, method, game, participants, samples)
            units.append((f"{method.name}: {', '.join(words)}", {**key, "seed": self.seed}, unit))
            rows.append({"method": method.name, "participants": participants, **point})
        rows = [{**row, **figures} for row, figures in zip(rows, kept.parts(units, say), strict=True)]
        return {
            "kind": self.kind,
            "rows": rows,
            "facts": {name: rows[0]["facts"].get(name) for name in ("prior", "floor", "bits")},
            "varied": list(self.vary),
            "task": self.data["target"],
            "attribute": self.data["attribute"],
            "paper": [dict(printed) for printed in paper],
        }

    def _measure(self, method: Method, game: dict[str, Any], participants: int, samples: int) -> dict[str, Any]:
        data = self._load(method, participants * samples)
        trained = self._train(method, game, data, participants)
        return trained.figures(trained.measure(data, self.attribute, self.panel, self.seed), data)

    def _train(self, method: Method, game: dict[str, Any], data: AttributeData, participants: int) -> Trained:
        """Train a method on the participants."""
        trainer, shield = self._trainer(method, game), method.make_shield()
        federation = Federation(data, devices=participants, seed=self.seed, shield=shield)
        if isinstance(trainer, DPTraining):
            rows = [federation.partition.device(device) for device in range(participants)]
            values, owners, logits = released_by(trainer, data, rows, self.seed)
            released = Released(values, owners, accuracy_of(logits, data), trainer.reach, dealt_at_random=True)
            return Trained(released, trainer.networks, None, shield, spent=trainer.spent(len(rows[0])))
        run = federation.play(trainer, rounds=_ROUNDS)
        outputs = None
        if isinstance(trainer, AttriFed) and method.shield is None:
            released = Released.of_run(run, trainer.reach if trainer.compresses else None, seed=self.seed)
            outputs = {split: release(run, split, Kind.OUTPUT) for split in Split}
        else:
            # What a shield sends fits no code, and the game's own head was never trained on it: it is sent as floats,
            # and a head is trained on what really leaves.
            assert data.y is not None
            (utility,) = run.fit_head(data.y.name, seed=self.seed)
            values = {split: run.release(split) for split in Split}
            released = Released(values, {split: senders(run, split) for split in Split}, utility.accuracy, None)
        networks = trainer.networks if isinstance(trainer, AttriFed) else "light"
        return Trained(released, networks, outputs, shield, _privatiser(run, self.attribute))

    def _methods(self) -> list[Method]:
        return [
            parts.make(Method, settings, f"experiment: methods[{index}]") for index, settings in enumerate(self.methods)
        ]

    def _points(self) -> list[dict[str, Any]]:
        return [dict(zip(self.vary, values, strict=True)) for values in product(*self.vary.values())]

    def _game_settings(self, method: Method, point: Mapping[str, Any]) -> dict[str, Any]:
        settings = {**({} if "kind" in method.game else self.game), **method.game}
        return settings | {name: value for name, value in point.items() if name != "samples" and "kind" not in settings}

    def _trainer(self, method: Method, game: dict[str, Any]) -> Game | DPTraining:
        """Return a method's game, or its settings of DP-SGD, checked."""
        where = f"experiment: method {method.name!r}"
        if method.dp is not None:
            training: DPTraining = parts.make(DPTraining, method.dp, where)
            return training
        settings = {name: value for name, value in game.items() if name != "kind"}
        game_class = parts.game_class(str(game.get("kind", "attri-fed")))
        made: Game = parts.make(game_class, {"attribute": self.attribute, **settings}, where)
        return made

    def _load(self, method: Method, records: int) -> AttributeData:
        """Return a method's data with so many training records."""
        options = {**self.data.get("options", {}), **method.data}
        return _load(
            str(self.data["source"]),
            self.data["target"],
            self.attribute,
            tuple(sorted(options.items())),
            self.data.get("test"),
            records,
            self.seed,
        )

    def tables(self, found: dict[str, Any]) -> list[Table]:
        """Return one table: a row per method, participants and whatever varies."""
        from rich.table import Table

        facts = [f"{name} {value:.3f}" for name, value in found["facts"].items() if value is not None]
        title = f"{found['task']}, and what is read about {found['attribute']}"
        table = Table(title=title + (f" ({', '.join(facts)})" if facts else ""))
        headings = ["method", "participants", *found["varied"], found["task"], "sender unknown", "sender known"]
        headings += ["attacker", "weak: small network", "weak: privatiser", "bits", "bytes", "of float32"]
        for heading in [*headings, "certified ≤, unknown", "known"]:
            table.add_column(heading, justify="left" if heading in ("method", "attacker") else "right")
        for row in found["rows"]:
            certificates = [row["certificates"].get(observer) for observer in ("sender unknown", "sender known")]
            table.add_row(
                row["method"],
                str(row["participants"]),
                *(str(row[name]) for name in found["varied"]),
                with_interval(row["accuracy"]),
                with_interval(row["stranger"]["accuracy"]),
                with_interval(row["server"]["accuracy"]),
                row["server"]["attacker"],
                *(weak_reading(row, name) for name in ("network", "privatiser")),
                f"{row['sent']['bits']:.1f}",
                f"{row['sent']['bytes']:.2f}",
                f"{100 * row['bytes_ratio']:.1f}%",
                *("–" if certificate is None else f"{certificate['bound']:.2f}" for certificate in certificates),
            )
        table.caption = (
            "Accuracies on test people with 95% intervals; attackers retrained; bits and payload bytes per record."
        )
        return [table]

    def notes(self, found: dict[str, Any]) -> list[str]:
        """Say what the figures rest on, a line each."""
        lines = [
            "Certified: the most bits that what is sent can reveal about the attribute, to any attacker (95%); the "
            "ideal is I(task; attribute). Attackers' estimates are shown beside it, never in its place.",
            "Weak: one small network on pooled representations, as the paper's server reads, and the privatiser that "
            "the encoder was trained to fool: shown for comparison, never as evidence of privacy.",
            "Corollary 1 of the paper (ε = ln 1/T) holds for every mechanism, unprotected ones included: it guarantees "
            "nothing.",
        ]
        spent = {row["method"]: row["spent"] for row in found["rows"] if "spent" in row}
        for method, by_accountant in spent.items():
            words = ", ".join(f"{name} {value:.2f}" for name, value in by_accountant.items())
            lines.append(f"{method}: ε spent by each participant, by accountant: {words}.")
        return lines + [str(printed["note"]) for printed in found["paper"] if "note" in printed]

    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """Draw attackers' accuracy, the task's and the bytes, over participants or over the first thing that varies."""
        along = found["varied"][0] if found["varied"] else "participants"
        canvas.set_size_inches(11, 3.4)
        panels = canvas.subplots(1, 3)
        pictures: tuple[tuple[str, Callable[[Any], float]], ...] = (
            (f"{found['attribute']}, read by the server", lambda row: row["server"]["accuracy"]["estimate"]),
            (f"{found['task']}, accuracy", lambda row: row["accuracy"]["estimate"]),
            ("bytes, share of float32", lambda row: row["bytes_ratio"]),
        )
        for axis, (title, value) in zip(panels, pictures, strict=True):
            by_method: dict[str, list[tuple[Any, float]]] = {}
            for row in found["rows"]:
                by_method.setdefault(row["method"], []).append((row[along], value(row)))
            for name, points in by_method.items():
                axis.plot(*zip(*points, strict=True), marker="o", markersize=3, linewidth=1, label=name)
            axis.set_title(title)
            axis.set_xlabel(along)
        for name in ("prior", "floor"):
            if found["facts"].get(name) is not None:
                panels[0].axhline(found["facts"][name], color="grey", linewidth=0.6, linestyle=":")
        panels[2].set_yscale("log")
        panels[1].legend(frameon=False, fontsize=7)


def weak_reading(row: Mapping[str, Any], name: str) -> str:
    """Return what a weak attacker reads; a dash where there is none."""
    weak = row["weak"][name]
    return "–" if weak is None else with_interval(weak["accuracy"])


@lru_cache(maxsize=2)
def _load(
    source: str,
    target: str,
    attribute: str,
    options: tuple[tuple[str, Any], ...],
    most_test_records: int | None,
    records: int,
    seed: int,
) -> AttributeData:
    """Load the data as flat vectors, with so many training records, drawn at random."""
    data = load(source, target=target, sensitive=attribute, seed=seed, **dict(options))
    train, test = data.rows(Split.TRAIN), data.rows(Split.TEST)
    if len(train) < records:
        raise InputError(
            f"experiment: {source} has {len(train)} training records, {records} are needed; choose fewer participants"
        )
    rng = numpy_generator(seed, "attri-fed", "records")
    chosen = [rng.choice(train, records, replace=False), data.rows(Split.VALIDATION)]
    few = most_test_records is not None and most_test_records < len(test)
    chosen.append(rng.choice(test, most_test_records, replace=False) if few else test)
    taken = data.take(np.sort(np.concatenate(chosen)))
    if taken.x.ndim == 2:  # a table keeps the names of its columns, some of which the oracle drops
        return taken
    return replace(taken, x=np.ascontiguousarray(taken.x.reshape(len(taken), -1)))


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
