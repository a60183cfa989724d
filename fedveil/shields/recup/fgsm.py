"""Fast gradient sign steps through a zoo: RecUP-FL's meta-train and meta-test, and the four forms it compares with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedveil.core.randomness import numpy_generator
from fedveil.shields.recup import Zoo
from fedveil.shields.recup.fgsm_points import Point, Step

Variant = Literal["one-step", "average", "iterative", "momentum", "meta"]
"""RecUP-FL, Appendix E, and Algorithm 1."""

VARIANTS: tuple[str, ...] = get_args(Variant)

MOMENTUM = 0.9

Slopes = Callable[[int, Tensor], Tensor]
"""(member, features (n, f)) → where its loss grows, (n, f)."""


def reach(variant: str, iterations: int) -> int:
    """Return how many steps ε add up at most to one number's change.

    >>> reach("meta", 10), reach("iterative", 10)
    (10, 1)
    """
    return iterations if variant == "meta" else 1


def depth(variant: str, iterations: int, models: int) -> int:
    """Return how many entries of one pool can ever be its largest: those that may be changed at a time, and one more.

    Meta-train and meta-test change one of each pool in every kept step, and up to Q − 1 more on the way ahead of one.
    """
    if variant == "meta":
        return iterations + max(1, models - 1)
    return 1 + (models if variant in ("iterative", "momentum") else 1)


def draw_models(zoo: Zoo, variant: str, iterations: int, models: int, seed: int, number: int) -> list[list[int]]:
    """Draw the members for every iteration, none twice in one of them.

    The draw is the round's, for all devices alike, so that they are one batch: nothing secret hangs on it.
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
    """Move updates to where the zoo's loss is larger.

    Args:
        now: the updates, which move.
        slopes: where each member's loss grows.
        drawn: the members of every iteration.
        size: ε of each row, (n, 1).
        variant: which form.
        going_on: told the features before each iteration, says which rows, (n,), go on; the others stay from then on.
    """
    for members in drawn:
        if going_on is not None:
            size = size * going_on(now.features())[:, None].to(size)
            if not size.any():
                return
        small = size / len(members)
        if variant == "meta":
            here = now.mark()
            for member in members[:-1]:
                now.add(now.gradient(slopes(member, now.features())).signs(small))
            last = now.gradient(slopes(members[-1], now.features()))
            now.go_back(here)
            now.add(last.signs(size))  # only the meta-test's step is kept
        elif variant == "average":
            found = now.features()
            for step in [now.gradient(slopes(member, found)).signs(small) for member in members]:
                now.add(step)  # all from the same point
        elif variant == "momentum":
            velocity: Tensor | None = None
            for member in members:
                own = now.spread(_normalised(now.gradient(slopes(member, now.features()))))
                velocity = own if velocity is None else MOMENTUM * velocity + own
                now.add_everywhere(velocity.sign() * small.to(velocity))
        else:
            for member in members:
                now.add(now.gradient(slopes(member, now.features())).signs(small))


def _normalised(step: Step) -> Step:
    sums = step.amounts.abs().sum(dim=1, keepdim=True)
    return replace(step, amounts=step.amounts / torch.where(sums > 0, sums, 1.0))


def slopes_of(zoo: Zoo, codes: Tensor) -> Slopes:
    """Return where each member's cross-entropy of the true values grows, up to a positive factor for every row.

    The gradient of −log p_u in the logits is (1 − p_u)·(w − e_u), with w the others' shares among themselves. The
    factor 1 − p_u, which rounds to 0 where a member is sure, is left out: signs and normalised slopes are as they were.
    """

    def slopes(member: int, found: Tensor) -> Tensor:
        x = zoo.standardised(found)
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
    alive: list[Tensor] = []
    for layer in layers:
        if isinstance(layer, nn.Linear):
            x = functional.linear(x, layer.weight, layer.bias)
        else:
            alive.append(x > 0)
            x = x.relu_()
    slope = _towards_others(x, codes)
    for layer in reversed(layers):
        slope = slope @ layer.weight if isinstance(layer, nn.Linear) else slope.mul_(alive.pop())
    return slope


def _towards_others(logits: Tensor, codes: Tensor) -> Tensor:
    others = logits.scatter(1, codes[:, None], -torch.inf).softmax(dim=1)
    return others.scatter_(1, codes[:, None], -1.0)


def fooled(zoo: Zoo, found: Tensor, codes: Tensor) -> Tensor:
    """Return the share of members that guess another value than the true one, (n,)."""
    wrong = [zoo.logits(member, found).argmax(dim=1) != codes for member in range(len(zoo))]
    return torch.stack(wrong).double().mean(dim=0)
