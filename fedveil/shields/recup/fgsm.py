"""Fast gradient sign steps through a zoo: RecUP-FL's meta-train and meta-test, and the four forms it compares with.

A `Point` is a batch of updates that move: it has their features, and turns slopes of features into steps of updates.
`DirectPoint` works by autograd through any features; `PooledPoint` (see `pools`) makes the same steps for max-pooled
magnitudes, and is much faster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.core.randomness import numpy_generator
from fedveil.shields.recup.zoo import Zoo
from fedveil.updates.features import features
from fedveil.updates.segments import Segment

Variant = Literal["one-step", "average", "iterative", "momentum", "meta"]
"""RecUP-FL, Appendix E, and Algorithm 1."""

VARIANTS: tuple[str, ...] = get_args(Variant)

MOMENTUM = 0.9

Slopes = Callable[[int, Tensor], Tensor]
"""(member, features (n, f)) → the direction in which its loss grows, (n, f)."""


@dataclass(frozen=True, eq=False)
class Step:
    """Numbers to add to updates: (n, d) to all entries, or (n, f) to one entry of each pool.

    `entries` says to which entry of each pool; None means to all entries.
    """

    amounts: Tensor
    entries: Tensor | None = None

    def signs(self, size: Tensor) -> Step:
        """Return ±size, (n, 1), in the direction of each number; 0 stays 0."""
        return replace(self, amounts=self.amounts.sign() * size.to(self.amounts))


class Point(Protocol):
    """Updates that move."""

    def features(self) -> Tensor:
        """Return the current (n, f) features."""

    def gradient(self, slopes: Tensor) -> Step:
        """Return the gradient, with respect to the updates, of a function with these (n, f) slopes in the features."""

    def spread(self, step: Step) -> Tensor:
        """Return a step in coordinates that do not depend on the current point, (n, …)."""

    def add(self, step: Step) -> None:
        """Move by a step."""

    def add_everywhere(self, amounts: Tensor) -> None:
        """Move by numbers in the coordinates of `spread`."""

    def mark(self) -> Any:
        """Return what `go_back` needs to return to the current point."""

    def go_back(self, mark: Any) -> None:
        """Undo all steps since a mark."""

    def write(self, rows: Tensor, share: Tensor, bound: Tensor) -> None:
        """Add share · (this point − its start) to rows, with each number's change clipped to ±bound; both (n, 1)."""


class DirectPoint:
    """The updates themselves, and autograd: for any features, and the reference for `PooledPoint`."""

    def __init__(self, updates: Tensor, segments: Sequence[Segment], how: str) -> None:
        self.start, self.now, self.segments, self.how = updates, updates, segments, how

    def features(self) -> Tensor:
        """Return the features."""
        return features(self.now, self.segments, self.how)

    def gradient(self, slopes: Tensor) -> Step:
        """Differentiate."""
        with torch.enable_grad():
            now = self.now.detach().requires_grad_(True)
            outputs = features(now, self.segments, self.how)
            (gradient,) = torch.autograd.grad(outputs, now, slopes.to(outputs))
        return Step(gradient)

    def spread(self, step: Step) -> Tensor:
        """Return the step's numbers."""
        return step.amounts

    def add(self, step: Step) -> None:
        """Move by a step."""
        self.now = self.now + step.amounts

    def add_everywhere(self, amounts: Tensor) -> None:
        """Move by these numbers."""
        self.now = self.now + amounts

    def mark(self) -> Tensor:
        """Return the updates."""
        return self.now

    def go_back(self, mark: Tensor) -> None:
        """Restore the updates."""
        self.now = mark

    def write(self, rows: Tensor, share: Tensor, bound: Tensor) -> None:
        """Add the change."""
        rows += share.to(rows) * torch.clamp(self.now - self.start, -bound.to(rows), bound.to(rows))


def reach(variant: str, iterations: int) -> int:
    """Return how many steps of size ε can add up in the change of one number.

    >>> reach("meta", 10), reach("iterative", 10)
    (10, 1)
    """
    return iterations if variant == "meta" else 1


def depth(variant: str, iterations: int, models: int) -> int:
    """Return how many entries of one pool can ever be its largest: one more than can be changed at a time.

    Meta-train and meta-test change one entry of each pool in every kept step, and up to Q − 1 more before it.
    """
    if variant == "meta":
        return iterations + max(1, models - 1)
    return 1 + (models if variant in ("iterative", "momentum") else 1)


def draw_models(zoo: Zoo, variant: str, iterations: int, models: int, seed: int, number: int) -> list[list[int]]:
    """Draw the members for every iteration of round `number`, without replacement within an iteration.

    All devices share the draw, so that they can be one batch; no secret depends on it.
    """
    random = numpy_generator(seed, "models of the zoo", zoo.attribute, number)
    count = 1 if variant == "one-step" else min(models, len(zoo))
    return [random.choice(len(zoo), count, replace=False).tolist() for _ in range(reach(variant, iterations))]


def climb(
    now: Point,
    slopes: Slopes,
    drawn: list[list[int]],
    size: Tensor,
    variant: str,
    going_on: Callable[[Tensor], Tensor] | None = None,
) -> None:
    """Move updates to points where the zoo's loss is larger.

    Args:
        now: the updates, which move.
        slopes: the direction in which each member's loss grows.
        drawn: the members of every iteration.
        size: ε of each row, (n, 1).
        variant: which form of the steps.
        going_on: given the features before each iteration, returns which rows, (n,), go on; the others stop for good.
    """
    for members in drawn:
        if going_on is not None:
            size = size * going_on(now.features())[:, None].to(size)
            if not size.any():
                return
        small = size / len(members)
        if variant == "meta":
            start = now.mark()
            for member in members[:-1]:
                now.add(now.gradient(slopes(member, now.features())).signs(small))
            last = now.gradient(slopes(members[-1], now.features()))
            now.go_back(start)
            now.add(last.signs(size))  # only the meta-test's step is kept
        elif variant == "average":
            start = now.features()
            for step in [now.gradient(slopes(member, start)).signs(small) for member in members]:
                now.add(step)  # all from the same point
        elif variant == "momentum":
            velocity: Tensor | None = None
            for member in members:
                gradient = now.spread(_normalised(now.gradient(slopes(member, now.features()))))
                velocity = gradient if velocity is None else MOMENTUM * velocity + gradient
                now.add_everywhere(velocity.sign() * small.to(velocity))
        else:
            for member in members:
                now.add(now.gradient(slopes(member, now.features())).signs(small))


def _normalised(step: Step) -> Step:
    sums = step.amounts.abs().sum(dim=1, keepdim=True)
    return replace(step, amounts=step.amounts / torch.where(sums > 0, sums, 1.0))


def slopes_of(zoo: Zoo, codes: Tensor) -> Slopes:
    """Return the direction in which each member's cross-entropy of these values grows, up to a positive factor per row.

    The gradient of −log p_u in the logits is (1 − p_u)·(w − e_u), with w the softmax over the other values alone. The
    factor 1 − p_u, which rounds to 0 for a confident member, is left out: signs and normalised slopes stay the same.
    """

    def slopes(member: int, inputs: Tensor) -> Tensor:
        x = zoo.standardised(inputs)
        layers = list(zoo.members[member])
        if all(type(layer) in (nn.Linear, nn.ReLU) for layer in layers):
            return _by_hand(layers, x, codes) / zoo.scale
        with torch.enable_grad():
            x = x.detach().requires_grad_(True)
            logits = zoo.members[member](x)
            (slope,) = torch.autograd.grad(logits, x, _towards_others(logits.detach(), codes))
        return slope / zoo.scale

    return slopes


def _by_hand(layers: list[nn.Module], x: Tensor, codes: Tensor) -> Tensor:
    """Go forward and back through fully connected layers; only the inputs' gradient is needed."""
    active: list[Tensor] = []
    for layer in layers:
        if isinstance(layer, nn.Linear):
            x = functional.linear(x, layer.weight, layer.bias)
        else:
            active.append(x > 0)
            x = x.relu_()
    slope = _towards_others(x, codes)
    for layer in reversed(layers):
        slope = slope @ layer.weight if isinstance(layer, nn.Linear) else slope.mul_(active.pop())
    return slope


def _towards_others(logits: Tensor, codes: Tensor) -> Tensor:
    others = logits.scatter(1, codes[:, None], -torch.inf).softmax(dim=1)
    return others.scatter_(1, codes[:, None], -1.0)


def fooled(zoo: Zoo, inputs: Tensor, codes: Tensor) -> Tensor:
    """Return the share of members that guess a wrong value, (n,), from features (n, f)."""
    wrong = [zoo.logits(member, inputs).argmax(dim=1) != codes for member in range(len(zoo))]
    return torch.stack(wrong).double().mean(dim=0)
