"""L-BFGS for many independent problems at once."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Maps points (n, d) to their costs (n,) and slopes (n, d)."""

_ENOUGH = 1e-4
"""Armijo's constant: the share of the predicted decrease that a step must achieve."""


def minimise(
    evaluate: Evaluate,
    start: Tensor,
    evaluations: int,
    history: int = 30,
    first: float = 0.1,
    progress: Callable[[], None] | None = None,
) -> Tensor:
    """Return a point of low cost for each row (Liu and Nocedal 1989; steps are halved until Armijo's rule holds).

    Each evaluation tries one point of every row, whether the row continues its line search or has a new direction. So
    no row waits for another, and a row's path does not depend on the other rows.

    Args:
        evaluate: computes costs and slopes of points.
        start: one point per row, (n, d).
        evaluations: how many points each row may try.
        history: how many steps are remembered.
        first: the largest coordinate of the first step.
        progress: called after every evaluation.
    """
    point, memory = start.clone(), _Memory(start, history)
    cost, slope = evaluate(point)
    memory.scale = first / slope.abs().amax(dim=1).clamp_min(torch.finfo(start.dtype).tiny)
    direction, step = memory.direction(slope), torch.ones_like(cost)
    for _ in range(evaluations - 1):
        trial = point + step[:, None] * direction
        new_cost, new_slope = evaluate(trial)
        predicted = _ENOUGH * step * (slope * direction).sum(dim=1)
        accepted = torch.isfinite(new_cost) & torch.isfinite(new_slope).all(dim=1) & (new_cost <= cost + predicted)
        memory.add(accepted, trial - point, new_slope - slope)
        accepted_rows = accepted[:, None]
        point, slope = torch.where(accepted_rows, trial, point), torch.where(accepted_rows, new_slope, slope)
        cost, step = torch.where(accepted, new_cost, cost), torch.where(accepted, 1.0, step / 2)
        if accepted.any():
            direction = torch.where(accepted_rows, memory.direction(slope), direction)
        if progress:
            progress()
    return point


class _Memory:
    """The last steps s and changes of slope y of each row, in a ring buffer.

    The two-loop recursion is computed from inner products alone (Chen, Wang and Zhou 2014), which are stored: a step
    takes three passes over the memory, instead of four passes that each copy it.
    """

    def __init__(self, start: Tensor, history: int) -> None:
        rows, size = start.shape
        self.rows, self.history = torch.arange(rows), history
        self.pairs = start.new_zeros(rows, 2 * history, size)  # steps, then changes
        self.inner = start.new_zeros(rows, 2 * history, 2 * history)
        self.inverse = start.new_zeros(rows, history)
        self.count = torch.zeros(rows, dtype=torch.long)
        self.scale = start.new_ones(rows)

    def add(self, accepted: Tensor, step: Tensor, change: Tensor) -> None:
        """Store the steps along which the slope grew; others would make the model of the cost indefinite."""
        along, size = (step * change).sum(dim=1), change.square().sum(dim=1)
        stored = accepted & (along > 1e-10 * size)
        rows, slot = self.rows[stored], (self.count % self.history)[stored]
        self.pairs[rows, slot], self.pairs[rows, slot + self.history] = step[stored], change[stored]
        products = torch.bmm(self.pairs, torch.stack([step, change], dim=2))[stored]
        for column, at in enumerate((slot, slot + self.history)):
            self.inner[rows, at] = products[:, :, column]
            self.inner[rows, :, at] = products[:, :, column]
        self.inverse[rows, slot] = 1 / along[stored]
        self.scale = torch.where(stored, along / torch.where(stored, size, 1.0), self.scale)
        self.count = self.count + stored

    def direction(self, slope: Tensor) -> Tensor:
        """Return each row's next direction by the two-loop recursion, or plain descent if that would go uphill."""
        sloped = torch.bmm(self.pairs, slope[:, :, None])[:, :, 0]
        shares = torch.zeros_like(sloped)  # the coefficient of each stored vector in the direction
        weights = []
        for back in range(1, min(self.history, int(self.count.max())) + 1):
            slot = (self.count - back) % self.history  # a slot that was never filled holds zeros and changes nothing
            along = sloped[self.rows, slot] + (self.inner[self.rows, slot] * shares).sum(dim=1)
            weight = self.inverse[self.rows, slot] * along
            shares[self.rows, slot + self.history] -= weight
            weights.append((slot, weight))
        shares = shares * self.scale[:, None]
        for slot, weight in reversed(weights):
            other = slot + self.history
            along = self.scale * sloped[self.rows, other] + (self.inner[self.rows, other] * shares).sum(dim=1)
            shares[self.rows, slot] += weight - self.inverse[self.rows, slot] * along
        gradient = self.scale[:, None] * slope
        ascent = gradient + torch.bmm(shares[:, None], self.pairs)[:, 0]
        wrong = (ascent * slope).sum(dim=1) <= 0
        return -torch.where(wrong[:, None], gradient, ascent)
