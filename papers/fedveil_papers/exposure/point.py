"""One shield at one strength: what it does to updates, what attackers read of them, and what learning keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
from fedveil_papers.exposure.readers import ADAPTIVE, STATIC, Features, Read, Readers, strongest
from fedveil_papers.exposure.sending import Policies, Sender, Tally
from fedveil_papers.exposure.task import Task
from fedveil_papers.exposure.training import Trained, train


@dataclass(frozen=True)
class Point:
    """What was measured; `as_dict` is plain JSON."""

    name: str
    strength: float | None
    damage: dict[int, dict[str, float]]
    rows: list[dict[str, Any]]
    losses: dict[int, float]
    kept: float | None
    silent: int
    validation_kept: float | None = None

    def worst(self, attribute: str, mode: str = "retrained", number: int | None = None) -> dict[str, Any]:
        """Return the attacker that counts: chosen on validation people, over all rounds unless one is named."""
        own = [
            row
            for row in self.rows
            if row["attribute"] == attribute and row["mode"] == mode and number in (None, row["round"])
        ]
        if not own:
            raise InputError(f"no {mode} attacker was tried on {attribute!r}")
        return strongest(own)

    def as_dict(self) -> dict[str, Any]:
        """Return all of it as plain values."""
        return {
            "method": self.name,
            "strength": self.strength,
            "damage": {str(number): told for number, told in self.damage.items()},
            "rows": self.rows,
            "losses": {str(number): loss for number, loss in self.losses.items()},
            "kept": self.kept,
            "validation_kept": self.validation_kept,
            "silent": self.silent,
        }


@dataclass(eq=False)
class Laboratory:
    """A task, rounds to look at, and attackers; each shield is measured against the same clean run.

    Updates are attacked at the weights that the undefended run has in a round, for all shields alike, so that they are
    compared at the same place; what learning keeps is measured by a run of its own under each shield.

    Attributes:
        task: what is learned.
        rounds: where updates are looked at; the last is also how long a run is, unless `length` says so.
        attributes: what is asked; all of the data's if unsaid.
        static, adaptive: which attackers are tried, on which features.
        pool: also let retrained attackers see one sender's updates of all these rounds together, by these features.
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
    clean: dict[int, Features] = field(init=False)
    zoos: dict[str, dict[str, Zoo]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.attributes = tuple(self.attributes) or tuple(self.task.data.attributes)
        for name in self.attributes:
            self.task.data.attribute(name)
        self.length = max(self.rounds) if self.length is None else self.length
        self.say("undefended run")
        bare = Sender(self.task)
        self.undefended: Trained = train(bare, self.length, keep=self.rounds)
        self.clean = {}
        self.readers: dict[int, Readers] = {}
        for number in self.rounds:
            self.clean[number] = self.look(bare, number)[0]
            seed = child_seed(self.task.seed, "readers", number)
            self.readers[number] = Readers(self.clean[number], seed, self.draws)

    def say(self, what: str) -> None:
        """Tell whoever waits what is done."""
        if self.progress:
            self.progress(what)

    def people(self) -> tuple[IntArray, IntArray, IntArray]:
        """Return the attacker's clients to learn from and to choose by, and its victims."""
        found = [self.task.people(split) for split in Split]
        return found[0], found[1], found[2]

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
            pools.append({how: torch.cat(own).double().numpy() for how, own in parts.items()})
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
            name: what it is called.
            shield: what clients do in the run whose learning is measured, and in every round that is looked at.
            strength: what it is called by, among others of this name.
            at: another shield for a round that is looked at: the same at a strength that suits its norms.
            policies: what each client has chosen.
            utility: whether the run is played.
        """
        sender = Sender(self.task, shield or Identity(), policies)
        rows: list[dict[str, Any]] = []
        damage: dict[int, dict[str, float]] = {}
        seen: dict[int, Features] = {}
        for number in self.rounds:
            self.say(f"{name}: round {number}")
            own = sender if at is None or number not in at else Sender(self.task, at[number], policies)
            seen[number], tally = self.look(own, number)
            damage[number] = tally.as_dict()
            readers = self.readers[number]
            for attribute in self.attributes:
                about: Mapping[str, Any] = {"attribute": attribute, "round": number}
                tried = readers.static(seen[number], attribute, self.static)
                rows += [{**about, "mode": "static", **row} for row in tried]
                tried = readers.retrained(seen[number], attribute, self.adaptive)
                rows += [{**about, "mode": "retrained", **row} for row in tried]
        if self.pool and len(self.rounds) > 1:
            together = _together(list(seen.values()), [how for how, _ in self.pool])
            for attribute in self.attributes:
                tried = self.readers[self.rounds[-1]].retrained(together, attribute, self.pool)
                rows += [{"attribute": attribute, "round": "all", "mode": "pooled", **row} for row in tried]
        self.say(f"{name}: learning")
        bare = shield is None or isinstance(shield, Identity)
        run = self.undefended if bare else train(sender, self.length or 1, keep=self.rounds) if utility else None
        kept = None if run is None else run.reduction / self.undefended.reduction
        chosen = None if run is None else run.validation_reduction / self.undefended.validation_reduction
        losses = {} if run is None else run.losses
        return Point(name, strength, damage, rows, losses, kept, run.silent if run else 0, chosen)


def _together(rounds: Sequence[Features], hows: Sequence[str]) -> Features:
    """Lay each sender's features of all rounds, and their mean, in which noise averages out, beside each other."""
    if any(
        len(pool[how]) != len(rounds[0].pools[place][how])
        for one in rounds
        for place, pool in enumerate(one.pools)
        for how in hows
    ):
        raise InputError("not every client spoke in every round, so their rounds cannot be laid side by side")
    pools = []
    for place in range(3):
        own = {how: [one.pools[place][how] for one in rounds] for how in hows}
        pools.append({how: np.hstack([np.mean(parts, axis=0), *parts]) for how, parts in own.items()})
    return Features(tuple(pools), rounds[0].labels, rounds[0].groups)  # type: ignore[arg-type]
