"""L-BFGS for many problems at once, each with steps and a memory of its own."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Evaluate = Callable[[Tensor], tuple[Tensor, Tensor]]
"""Points (n, d) → each one's cost (n,) and slope (n, d)."""

_ENOUGH = 1e-4
"""Armijo's share of the promised fall that a step must bring."""


def minimise(
    evaluate: Evaluate,
    start: Tensor,
    evaluations: int,
    history: int = 30,
    first: float = 0.1,
    progress: Callable[[], None] | None = None,
) -> Tensor:
    """Return a point of low cost for each row (Liu and Nocedal 1989; steps halved until Armijo's rule holds).

    Every evaluation tries one point of every row, whether its line search goes on or a new direction was taken, so
    that none waits for another, and a row's path is the same in every company.

    Args:
        evaluate: costs and slopes of points.
        start: a point each, (n, d).
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
        tried = point + step[:, None] * direction
        new_cost, new_slope = evaluate(tried)
        promised = _ENOUGH * step * (slope * direction).sum(dim=1)
        taken = torch.isfinite(new_cost) & torch.isfinite(new_slope).all(dim=1) & (new_cost <= cost + promised)
        memory.add(taken, tried - point, new_slope - slope)
        at = taken[:, None]
        point, slope = torch.where(at, tried, point), torch.where(at, new_slope, slope)
        cost, step = torch.where(taken, new_cost, cost), torch.where(taken, 1.0, step / 2)
        if taken.any():
            direction = torch.where(at, memory.direction(slope), direction)
        if progress:
            progress()
    return point


class _Memory:
    """The last steps s and changes of slope y of each row, in a ring each.

    The two-loop recursion works on inner products alone (Chen, Wang and Zhou 2014), which are kept: three passes over
    the memory for a step, instead of four with a copy each.
    """

    def __init__(self, start: Tensor, history: int) -> None:
        rows, size = start.shape
        self.rows, self.history = torch.arange(rows), history
        self.known = start.new_zeros(rows, 2 * history, size)  # steps, then changes
        self.inner = start.new_zeros(rows, 2 * history, 2 * history)
        self.inverse = start.new_zeros(rows, history)
        self.count = torch.zeros(rows, dtype=torch.long)
        self.scale = start.new_ones(rows)

    def add(self, taken: Tensor, step: Tensor, change: Tensor) -> None:
        """Remember steps along which the slope grew; others would make the model of the cost indefinite."""
        along, size = (step * change).sum(dim=1), change.square().sum(dim=1)
        good = taken & (along > 1e-10 * size)
        own, place = self.rows[good], (self.count % self.history)[good]
        self.known[own, place], self.known[own, place + self.history] = step[good], change[good]
        products = torch.bmm(self.known, torch.stack([step, change], dim=2))[good]
        for column, at in enumerate((place, place + self.history)):
            self.inner[own, at] = products[:, :, column]
            self.inner[own, :, at] = products[:, :, column]
        self.inverse[own, place] = 1 / along[good]
        self.scale = torch.where(good, along / torch.where(good, size, 1.0), self.scale)
        self.count = self.count + good

    def direction(self, slope: Tensor) -> Tensor:
        """Return where each row goes next (the two-loop recursion); downhill at once where memory misleads."""
        sloped = torch.bmm(self.known, slope[:, :, None])[:, :, 0]
        shares = torch.zeros_like(sloped)  # of what is known in the direction
        weights = []
        for back in range(1, min(self.history, int(self.count.max())) + 1):
            place = (self.count - back) % self.history  # a place never filled holds zeros and changes nothing
            along = sloped[self.rows, place] + (self.inner[self.rows, place] * shares).sum(dim=1)
            weight = self.inverse[self.rows, place] * along
            shares[self.rows, place + self.history] -= weight
            weights.append((place, weight))
        shares = shares * self.scale[:, None]
        for place, weight in reversed(weights):
            other = place + self.history
            along = self.scale * sloped[self.rows, other] + (self.inner[self.rows, other] * shares).sum(dim=1)
            shares[self.rows, place] += weight - self.inverse[self.rows, place] * along
        downhill = self.scale[:, None] * slope
        found = downhill + torch.bmm(shares[:, None], self.known)[:, 0]
        uphill = (found * slope).sum(dim=1) <= 0
        return -torch.where(uphill[:, None], downhill, found)
