"""From a client's records to what it sends: shield the inputs, compute the gradient, shield the gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.core.policy import Policy
from fedveil.core.randomness import child_seed, torch_generator
from fedveil.data import Split
from fedveil.federation.records import prepare_shield
from fedveil.shields.message import Context, Kind, Message, Samples
from fedveil.shields.shield import Identity, Shield, ShieldError
from fedveil_papers.recup.laboratory.task import Task

Policies = Callable[[int], Policy]
"""The policy of the client with this first record."""

_NUMBERS = 2**25
"""How many numbers of updates are in memory at once."""


@dataclass(frozen=True, eq=False)
class Sent:
    """Some clients' updates, a row each: clean, and as they were sent; `speaking` are those that sent anything."""

    clean: Tensor
    sent: Tensor
    speaking: IntArray
    bytes: int


@dataclass(frozen=True, eq=False)
class Sender:
    """All clients of a task under one prepared shield; `prepare` returns one.

    Attributes:
        task: the clients' records and model.
        shield: the shield, prepared on the training people.
        veiled: all inputs as the shield leaves them; None if it does not act on inputs.
        policies: each client's policy.
    """

    task: Task
    shield: Shield
    veiled: Tensor | None = None
    policies: Policies | None = None

    @classmethod
    def prepare(cls, task: Task, shield: Shield | None = None, policies: Policies | None = None) -> Sender:
        """Prepare a shield (by default none) once on the training people, and shield all inputs if it acts on them.

        The shield's seed is child_seed(task.seed, "prepare"), and not the task's own seed as in a run: RecUP's
        published figures depend on it.
        """
        if shield is None or isinstance(shield, Identity):
            return cls(task, shield or Identity(), policies=policies)
        prepared = prepare_shield(shield, task.data, child_seed(task.seed, "prepare"))
        return cls(task, prepared, _veiled(task, prepared) if Kind.INPUT in prepared.acts_on else None, policies)

    @property
    def changes(self) -> bool:
        """Whether the shield acts on updates."""
        return Kind.UPDATE in self.shield.acts_on and not isinstance(self.shield, Identity)

    def parts(self, people: IntArray) -> list[IntArray]:
        """Deal clients into parts whose updates fit in memory together."""
        size = self.task.segments[-1].stop
        return np.array_split(people, max(1, -(-len(people) * size // _NUMBERS)))

    @property
    def plain(self) -> bool:
        """Whether updates are sent unchanged, so that a round needs only their mean."""
        return self.veiled is None and not self.changes

    def send(self, model: nn.Module, people: IntArray, number: int) -> Sent:
        """Return what these clients send in a round, and what they would have sent without a shield."""
        clean = self.task.gradients(model, people)
        updates = clean if self.veiled is None else self.task.gradients(model, people, self.veiled)
        everyone = np.arange(len(people))
        size = clean.element_size() * clean.shape[1]
        if not self.changes:
            return Sent(clean, updates, everyone, size * len(people))
        answers = self.shield.apply_all(updates, [self._context(model, client, number) for client in people])
        spoken = [index for index, answer in enumerate(answers) if not isinstance(answer, ShieldError)]
        if not spoken:
            raise InputError(f"no client could send anything: {answers[0]}")
        sent = [answer for answer in answers if not isinstance(answer, ShieldError)]
        values = torch.cat([message.values for message, _ in sent])
        speaking = np.array(spoken, dtype=np.int64)
        return Sent(clean[spoken], values, speaking, sum(message.bytes for message, _ in sent))

    def _context(self, model: nn.Module, client: IntArray, number: int) -> Context:
        first, rows = int(client[0]), torch.from_numpy(client)
        records = _records(self.task, rows)
        inputs = records["x"] if self.veiled is None else self.veiled[rows]
        return Context(
            device=first,
            round=number,
            generator=torch_generator(self.task.seed, "shield", number, first),
            data=records,
            policy=None if self.policies is None else self.policies(first),
            segments=self.task.segments,
            networks={"model": model},
            samples=Samples(model, self.task.loss, inputs, records["y"]),
        )


def _veiled(task: Task, shield: Shield) -> Tensor:
    """Shield all inputs, all people of a split together; each record still has its own randomness."""
    veiled = task.x.clone()
    for split in Split:
        rows = torch.from_numpy(task.data.rows(split))
        generator = torch_generator(task.seed, "input", split.name.lower())
        context = Context(-1, 0, generator, data=_records(task, rows))
        message, _ = shield.apply(Message(Kind.INPUT, task.x[rows]), context)
        veiled[rows] = message.values.to(veiled)
    return veiled


def _records(task: Task, rows: Tensor) -> dict[str, Tensor]:
    attributes = task.data.attributes.items()
    codes = {f"u:{name}": torch.from_numpy(attribute.codes)[rows] for name, attribute in attributes}
    return {"x": task.x[rows], "y": task.y[rows]} | codes


@dataclass
class Tally:
    """What a shield did to updates, summed over clients: norms relative to the clean update's, and bytes."""

    clients: int = 0
    size: float = 0.0
    change: float = 0.0
    largest: float = 0.0
    cosine: float = 0.0
    bytes: int = 0
    ratios: list[float] = field(default_factory=list)

    def add(self, sent: Sent) -> None:
        """Count some clients."""
        before, after = sent.clean, sent.sent
        size = _norms(before)
        self.clients += len(before)
        self.size += float(size.sum())
        self.bytes += sent.bytes
        if after is before:
            self.cosine += len(before)
            self.ratios += [0.0] * int((size > 0).sum())
            return
        change = after - before
        moved, product = _norms(change), size * _norms(after)
        cosine = torch.where(product > 0, torch.linalg.vecdot(before, after).double() / product.clamp_min(1e-300), 0.0)
        self.change += float(moved.sum())
        self.largest += float(change.abs_().amax(dim=1).double().sum())
        self.cosine += float(torch.where((product == 0) & (moved == 0), 1.0, cosine).sum())
        self.ratios += (moved / size.clamp_min(1e-300))[size > 0].tolist()

    def as_dict(self) -> dict[str, float]:
        """Return means; `relative_l2` is the mean norm of the change over the mean norm of the update."""
        count = max(1, self.clients)
        return {
            "relative_l2": self.change / self.size if self.size else 0.0,
            "median_relative_l2": float(np.median(self.ratios)) if self.ratios else 0.0,
            "l2": self.change / count,
            "linf": self.largest / count,
            "cosine": self.cosine / count,
            "bytes": self.bytes / count,
        }


def _norms(rows: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(rows, dim=1)
    return norms.double()
