"""What is learned, from whom, and with which network: RecUP-FL's four settings, and others made of the same parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.randomness import numpy_generator, torch_generator
from fedveil.data import AttributeData, Split, load
from fedveil.data.attribute import Attribute
from fedveil.games.losses import cross_entropy
from fedveil.updates.gradients import LossOf, network_segments, per_sample_gradients
from fedveil.updates.segments import Segment
from fedveil_papers.recup.laboratory.networks import network


def squared_to_label(outputs: Tensor, labels: Tensor) -> Tensor:
    """Return (ŷ − y)² of a single sigmoid output, Adult's printed loss."""
    return (outputs[:, 0] - labels.to(outputs.dtype)).square()


@dataclass(frozen=True, eq=False)
class Task:
    """Federated SGD: in each round some clients send the gradient of their records, and the server steps.

    Attributes:
        data: all records; training people are clients, validation people choose, test people judge.
        network: the network's name; see `networks`.
        rate, momentum: the learning rate and momentum of the server's steps.
        clients: how many clients take part in a round.
        records: how many records a client holds; several records have the same value of `together` or, if that is
            "person", belong to one person: people with fewer records are left out.
        together: the attribute that a client's records share, and that is attacked.
        seed: all randomness derives from it.
    """

    data: AttributeData
    network: str
    rate: float
    momentum: float = 0.0
    clients: int = 128
    records: int = 1
    together: str | None = None
    seed: int = 0
    _clients: dict[Split, IntArray] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.data.y is None:
            raise InputError(f"data set {self.data.name!r} is read without a task; name its target")
        if self.records < 1 or self.clients < 1:
            raise InputError(f"records and clients must be at least 1, got {self.records} and {self.clients}")
        if self.records > 1 and self.together is None:
            raise InputError("clients of several records need `together`, the attribute that their records share")

    @property
    def loss(self) -> LossOf:
        """One loss per record."""
        return squared_to_label if self.network == "adult" else cross_entropy

    @property
    def outputs(self) -> int:
        """How many outputs the network has."""
        assert self.data.y is not None
        return len(self.data.y.values)

    @cached_property
    def x(self) -> Tensor:
        """All inputs."""
        return torch.from_numpy(np.require(self.data.x, np.float32, ["C", "W"]))

    @cached_property
    def y(self) -> Tensor:
        """All labels."""
        assert self.data.y is not None
        return torch.from_numpy(self.data.y.codes.astype(np.int64))

    def model(self, weights: Tensor | None = None) -> nn.Sequential:
        """Return the network at its start, or with these flat weights."""
        model = network(self.network, self.data.x.shape[1:], torch_generator(self.seed, "weights"), self.outputs)
        if weights is not None:
            nn.utils.vector_to_parameters(weights.clone(), model.parameters())
        return model

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Where each tensor lies in an update."""
        return network_segments(self.model())

    def people(self, split: Split) -> IntArray:
        """Return the clients of a split: (clients, records) rows of the data, in a random order."""
        if split not in self._clients:
            rows = self.data.rows(split)
            rows = rows[self.data.y.codes[rows] >= 0]  # type: ignore[union-attr]
            rng = numpy_generator(self.seed, "clients", int(split))
            dealt = rows[:, None] if self.records == 1 else self._dealt(rows, rng)
            self._clients[split] = rng.permutation(dealt)
        return self._clients[split]

    def _dealt(self, rows: IntArray, rng: np.random.Generator) -> IntArray:
        """Deal rows that share a value to clients of several records; a person is one client."""
        assert self.together is not None
        person = self.together == "person"
        if person and self.data.groups is None:
            raise InputError(f"data set {self.data.name!r} does not say whose records are whose; name an attribute")
        keys = self.data.groups[rows] if person else self.data.attribute(self.together).codes[rows]  # type: ignore[index]
        parts = []
        for key in np.unique(keys):
            with_key = rng.permutation(rows[keys == key])
            full = self.records if person and len(with_key) >= self.records else 0 if person else len(with_key)
            parts.append(with_key[: full // self.records * self.records].reshape(-1, self.records))
        return np.concatenate(parts)

    def gradients(self, model: nn.Module, people: IntArray, x: Tensor | None = None) -> Tensor:
        """Return each client's gradient, the mean over its records; `x` replaces the task's inputs if it is given."""
        rows = torch.from_numpy(people.reshape(-1))
        inputs = self.x if x is None else x
        return per_sample_gradients(model, self.loss, inputs[rows], self.y[rows], self.records)

    def test_loss(self, model: nn.Module, split: Split = Split.TEST, x: Tensor | None = None) -> float:
        """Return the mean loss on a split's records."""
        everyone = self.data.rows(split)
        rows = torch.from_numpy(everyone[self.data.y.codes[everyone] >= 0])  # type: ignore[union-attr]
        inputs, total = self.x if x is None else x, 0.0
        with torch.no_grad():
            for part in torch.split(rows, 512):
                total += float(self.loss(model(inputs[part]), self.y[part]).double().sum())
        return total / len(rows)

    def labels(self, people: IntArray, name: str) -> Attribute:
        """Return each client's value: that of its first record (its others share it, or it is not attacked)."""
        return self.data.attribute(name).take(people[:, 0])


DEFAULTS: dict[str, dict[str, Any]] = {
    "adult": {"target": "income", "network": "adult", "rate": 1.0, "momentum": 0.9, "clients": 256},
    "lfw": {"target": "smiling", "network": "lfw", "rate": 0.05, "momentum": 0.9, "clients": 64},
    "audiomnist": {"target": "digit", "network": "audiomnist", "rate": 0.05, "momentum": 0.9, "clients": 64},
    "celeba": {"target": "gender", "network": "celeba", "rate": 0.1, "momentum": 0.9, "clients": 64},
}
"""How each of the paper's data sets is used, with our learning rates: the printed ones are per record, and too slow."""


def make_task(
    source: str,
    attributes: Sequence[str],
    *,
    seed: int = 0,
    people: Mapping[str, int] | None = None,
    options: Mapping[str, Any] | None = None,
    **settings: Any,
) -> Task:
    """Load a data set and return the paper's task on it.

    Args:
        source: adult, lfw, audiomnist or celeba.
        attributes: what is hidden and attacked.
        seed: the seed of splits, weights and sampling.
        people: the maximum numbers of "train", "validation" and "test" people, which are drawn at random.
        options: options of the data source.
        settings: settings of `Task`, in place of the defaults.
    """
    if source not in DEFAULTS:
        raise InputError(f"no task on {source!r}: {nearest(source, DEFAULTS)}")
    values = {**DEFAULTS[source], **settings}
    data = load(source, target=values.pop("target"), sensitive=list(attributes), seed=seed, **dict(options or {}))
    return Task(_fewer(data, dict(people or {}), seed), seed=seed, **values)


def _fewer(data: AttributeData, most: dict[str, int], seed: int) -> AttributeData:
    splits = {split.name.lower(): split for split in Split}
    for name in most:
        if name not in splits:
            raise InputError(f"people: no split {name!r}: {nearest(name, splits)}")
    chosen = []
    for name, split in splits.items():
        rows = data.rows(split)
        count = min(len(rows), most.get(name, len(rows)))
        chosen.append(np.sort(numpy_generator(seed, "fewer", name).choice(rows, count, replace=False)))
    fewer = data.take(np.sort(np.concatenate(chosen)))
    return replace(fewer, facts=dict(data.facts))
