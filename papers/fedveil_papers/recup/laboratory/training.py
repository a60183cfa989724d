"""Rounds of federated SGD under a shield: the weights that the server sends out, and how well it learns."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data import Split
from fedveil.federation.aggregation import Aggregator, WeightedMean
from fedveil_papers.recup.laboratory.kept import fall_of
from fedveil_papers.recup.laboratory.sending import Sender, Tally


@dataclass(eq=False)
class Trained:
    """A run: weights as sent out in some rounds, the test people's losses, and what the shield did.

    If inputs are shielded, the model may be used on shielded inputs or, on a person's device, on the original inputs;
    which of the two is decided on validation people.
    """

    weights: dict[int, Tensor] = field(default_factory=dict)
    losses: dict[int, float] = field(default_factory=dict)
    validation: dict[int, float] = field(default_factory=dict)
    on_veiled: bool = False
    silent: int = 0
    tally: Tally = field(default_factory=Tally)

    @property
    def reduction(self) -> float:
        """How much the loss fell, from the start to the end."""
        return fall_of(self.losses)

    @property
    def validation_reduction(self) -> float:
        """The same on validation people, who may be used to choose."""
        return fall_of(self.validation)


def train(
    sender: Sender,
    rounds: int,
    *,
    keep: Collection[int] = (),
    aggregation: Aggregator | None = None,
    fraction: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Trained:
    """Play a number of rounds.

    Args:
        sender: clients and their shield.
        rounds: the number of rounds.
        keep: rounds whose losses, and weights before the server's step, are stored; those of round 1 always are.
        aggregation: how the server aggregates the updates; default: their mean.
        fraction: the share of all clients that takes part in a round, in place of the task's number.
        progress: called with each round's number.
    """
    task, run = sender.task, Trained()
    combine = aggregation or WeightedMean()
    people = task.people(Split.TRAIN)
    count = task.clients if fraction is None else max(1, round(fraction * len(people)))
    model = task.model()
    weights = nn.utils.parameters_to_vector(model.parameters()).detach()
    speed = torch.zeros_like(weights)
    for number in range(1, rounds + 1):
        if number == 1 or number in keep:
            run.weights[number] = weights.clone()
            _judge(sender, model, number, run)
        drawn = numpy_generator(task.seed, "sample", number).choice(len(people), min(count, len(people)), replace=False)
        if sender.plain and isinstance(combine, WeightedMean):
            step = _mean_gradient(sender, model, people[drawn])
        else:
            rows = _sent(sender, model, people[drawn], number, run)
            step = combine(rows, torch.ones(len(rows)))
        speed = task.momentum * speed + step
        weights = weights - task.rate * speed
        if not torch.isfinite(weights).all():
            raise InputError(f"training diverged in round {number}: lower the rate ({task.rate}) or the noise")
        nn.utils.vector_to_parameters(weights.clone(), model.parameters())
        if progress:
            progress(number)
    _judge(sender, model, rounds + 1, run)
    run.weights[rounds + 1] = weights
    return run


def _sent(sender: Sender, model: nn.Module, people: IntArray, number: int, run: Trained) -> Tensor:
    """Return every speaking client's update, and count what the shield did."""
    updates = []
    for part in sender.parts(people):
        sent = sender.send(model, part, number)
        run.tally.add(sent)
        run.silent += len(part) - len(sent.speaking)
        updates.append(sent.sent)
    return torch.cat(updates)


def _mean_gradient(sender: Sender, model: nn.Module, people: IntArray) -> Tensor:
    """Return the mean of updates that no shield changes, in one pass, without storing each of them."""
    task, rows = sender.task, torch.from_numpy(people.reshape(-1))
    parameters = list(model.parameters())
    total = torch.zeros(())
    for part in torch.split(rows, 256):
        total = total + task.loss(model(task.x[part]), task.y[part]).sum()
    slopes = torch.autograd.grad(total / len(rows), parameters)
    return torch.cat([slope.flatten() for slope in slopes])


def _judge(sender: Sender, model: nn.Module, number: int, run: Trained) -> None:
    task = sender.task
    plain = task.test_loss(model, Split.VALIDATION)
    unusable = sender.veiled is None or sender.shield.reads_label  # inputs changed by labels would give them away
    veiled = plain if unusable else task.test_loss(model, Split.VALIDATION, sender.veiled)
    run.on_veiled = veiled < plain
    run.validation[number] = min(plain, veiled)
    run.losses[number] = task.test_loss(model, Split.TEST, sender.veiled if run.on_veiled else None)
