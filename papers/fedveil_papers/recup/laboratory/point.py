"""One shield at one strength: what it does to updates, what attackers read in them, and how well the model learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import child_seed
from fedveil.data import Split
from fedveil.shields.recup import Zoo
from fedveil.shields.shield import Identity, Shield
from fedveil.updates.features import features
from fedveil_papers.recup.laboratory.kept import share_kept
from fedveil_papers.recup.laboratory.readers import ADAPTIVE, STATIC, Features, Read, Readers, Reading, strongest
from fedveil_papers.recup.laboratory.sending import Policies, Sender, Tally
from fedveil_papers.recup.laboratory.task import Task
from fedveil_papers.recup.laboratory.training import Trained, train


@dataclass(frozen=True)
class Point:
    """What was measured for a shield at a strength.

    Attributes:
        name, strength: the shield's name and strength.
        damage: what it does to updates, by round; see `Tally`.
        readings: what attackers read, by attribute, round, mode, attacker and features.
        losses: the test people's loss in some rounds of the run under the shield; empty if none was played.
        kept: the fall of the test loss relative to the undefended run's; None if no run was played, or if the
            undefended loss did not fall (see `share_kept`).
        silent: how often a client could not send anything.
        validation_kept: the same share on validation people, who may be used to choose.
    """

    name: str
    strength: float | None
    damage: dict[int, dict[str, float]]
    readings: list[Reading]
    losses: dict[int, float]
    kept: float | None
    silent: int
    validation_kept: float | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Point:
        """Return a point from its JSON values."""
        return cls(
            name=values["method"],
            strength=values["strength"],
            damage={int(number): damage for number, damage in values["damage"].items()},
            readings=[Reading.of(reading) for reading in values["rows"]],
            losses={int(number): loss for number, loss in values["losses"].items()},
            kept=values["kept"],
            silent=values["silent"],
            validation_kept=values.get("validation_kept"),
        )

    def read(self, attribute: str, mode: str = "retrained", number: int | None = None) -> list[Reading]:
        """Return what attackers of a mode read about an attribute, in all rounds unless one is named."""
        return [
            reading
            for reading in self.readings
            if reading.attribute == attribute and reading.mode == mode and number in (None, reading.round)
        ]

    def worst(self, attribute: str, mode: str = "retrained", number: int | None = None) -> Reading:
        """Return the attacker that reads test people best, over all rounds unless one is named; see `strongest`."""
        readings = self.read(attribute, mode, number)
        if not readings:
            raise InputError(f"no {mode} attacker was tried on {attribute!r}")
        return strongest(readings)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return {
            "method": self.name,
            "strength": self.strength,
            "damage": {str(number): damage for number, damage in self.damage.items()},
            "rows": [reading.as_dict() for reading in self.readings],
            "losses": {str(number): loss for number, loss in self.losses.items()},
            "kept": self.kept,
            "validation_kept": self.validation_kept,
            "silent": self.silent,
        }


@dataclass(eq=False)
class Laboratory:
    """A task, rounds to examine, and attackers; each shield is measured against the same clean run.

    For all shields, updates are attacked at the weights that the undefended run has in a round, so that shields are
    compared at the same weights; how well the model learns is measured by a run under each shield.

    Attributes:
        task: what is learned.
        rounds: the rounds whose updates are examined.
        attributes: the attributes that are attacked; default: all of the data's.
        static, adaptive: which attackers are tried, on which features.
        pool: retrained attackers that see one sender's updates of all these rounds together, and on which features.
        length: how many rounds a run has; default: up to the last that is examined.
        draws: bootstrap draws for each interval.
        progress: called with what is being done.
        zoos: zoos that were fitted already, by their settings.
    """

    task: Task
    rounds: Sequence[int] = (1,)
    attributes: Sequence[str] = ()
    static: Sequence[Read] = STATIC
    adaptive: Sequence[Read] = ADAPTIVE
    pool: Sequence[Read] = ()
    length: int | None = None
    draws: int = 400
    progress: Callable[[str], None] | None = None
    zoos: dict[str, dict[str, Zoo]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.attributes = tuple(self.attributes) or tuple(self.task.data.attributes)
        for name in self.attributes:
            self.task.data.attribute(name)
        self.length = max(self.rounds) if self.length is None else self.length

    @cached_property
    def undefended(self) -> Trained:
        """The run without a shield."""
        self.say("undefended run")
        assert self.length is not None
        return train(Sender.prepare(self.task), self.length, keep=self.rounds)

    @cached_property
    def clean(self) -> dict[int, Features]:
        """What the server sees of updates without a shield, by round."""
        return {number: self.look(Sender.prepare(self.task), number)[0] for number in self.rounds}

    @cached_property
    def readers(self) -> dict[int, Readers]:
        """The attackers of each round."""
        seeds = {number: child_seed(self.task.seed, "readers", number) for number in self.rounds}
        return {number: Readers(self.clean[number], seed, self.draws) for number, seed in seeds.items()}

    def say(self, what: str) -> None:
        """Report what is being done."""
        if self.progress:
            self.progress(what)

    def people(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return the clients that the attacker learns from, those it chooses by, and its victims."""
        train, validation, test = (self.task.people(split) for split in Split)
        return train, validation, test

    def look(self, sender: Sender, number: int) -> tuple[Features, Tally]:
        """Return what a server sees of everybody's update at a round's weights, and what the shield did."""
        model = self.task.model(self.undefended.weights[number])
        hows = dict.fromkeys(how for how, _ in (*self.static, *self.adaptive, *self.pool))
        pools: list[dict[str, Any]] = []
        speakers, tally = [], Tally()
        for people in self.people():
            parts: dict[str, list[Tensor]] = {how: [] for how in hows}
            spoke = []
            for part in sender.parts(people):
                sent = sender.send(model, part, number)
                tally.add(sent)
                spoke.append(part[sent.speaking])
                for how in hows:
                    parts[how].append(features(sent.sent, self.task.segments, how))
            pools.append({how: torch.cat(rows).double().numpy() for how, rows in parts.items()})
            speakers.append(np.concatenate(spoke))
        labels = [{name: self.task.labels(people, name) for name in self.task.data.attributes} for people in speakers]
        groups = self.task.data.groups
        whose = [None if groups is None else groups[people[:, 0]] for people in speakers]
        return Features(tuple(pools), tuple(labels), tuple(whose)), tally  # type: ignore[arg-type]

    def measure(
        self,
        name: str,
        shield: Shield | None = None,
        strength: float | None = None,
        *,
        at: Mapping[int, Shield] | None = None,
        policies: Policies | None = None,
        utility: bool = True,
    ) -> Point:
        """Measure a shield; without one, the undefended updates.

        Args:
            name: the method's name.
            shield: the clients' shield in the run whose learning is measured, and in every round that is examined.
            strength: the shield's strength, which is only recorded.
            at: other shields for some rounds: the same shield at strengths that suit the rounds' norms.
            policies: each client's policy.
            utility: whether a run is played under the shield.
        """
        sender = Sender.prepare(self.task, shield, policies)
        readings: list[Reading] = []
        damage: dict[int, dict[str, float]] = {}
        seen: dict[int, Features] = {}
        for number in self.rounds:
            self.say(f"{name}: round {number}")
            round_sender = sender if at is None or number not in at else Sender.prepare(self.task, at[number], policies)
            seen[number], tally = self.look(round_sender, number)
            damage[number] = tally.as_dict()
            readers = self.readers[number]
            for attribute in self.attributes:
                readings += readers.static(seen[number], attribute, self.static, number)
                readings += readers.retrained(seen[number], attribute, self.adaptive, number)
        if self.pool and len(self.rounds) > 1:
            together = _together(list(seen.values()), [how for how, _ in self.pool])
            for attribute in self.attributes:
                readers = self.readers[self.rounds[-1]]
                readings += readers.retrained(together, attribute, self.pool, "all", "pooled")
        self.say(f"{name}: learning")
        bare = shield is None or isinstance(shield, Identity)
        run = self.undefended if bare else train(sender, self.length or 1, keep=self.rounds) if utility else None
        kept = None if run is None else share_kept(run.reduction, self.undefended.reduction)
        chosen = None if run is None else share_kept(run.validation_reduction, self.undefended.validation_reduction)
        losses = {} if run is None else run.losses
        return Point(name, strength, damage, readings, losses, kept, run.silent if run else 0, chosen)


def _together(rounds: Sequence[Features], hows: Sequence[str]) -> Features:
    """Join each sender's features of all rounds with their mean, in which noise averages out."""
    if any(
        len(pool[how]) != len(rounds[0].pools[index][how])
        for seen in rounds
        for index, pool in enumerate(seen.pools)
        for how in hows
    ):
        raise InputError("not every client sent an update in every round, so their rounds cannot be joined")
    pools = []
    for index in range(3):
        by_round = {how: [seen.pools[index][how] for seen in rounds] for how in hows}
        pools.append({how: np.hstack([np.mean(parts, axis=0), *parts]) for how, parts in by_round.items()})
    return Features(tuple(pools), rounds[0].labels, rounds[0].groups)  # type: ignore[arg-type]
