"""Gradient inversion: find inputs whose gradient matches the observed one (Zhu et al. 2019; Geiping et al. 2020)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from fedveil.attacks.reconstruction.lbfgs import minimise
from fedveil.attacks.reconstruction.matching import Over, mismatch, parameter_slices, total_variation
from fedveil.core.errors import InputError, nearest
from fedveil.core.randomness import torch_generator
from fedveil.updates.gradients import LossOf, layers_with_parameters

Solver = Literal["signed-adam", "lbfgs"]
SOLVERS = ("signed-adam", "lbfgs")
_NUMBERS = 2**25
"""How many numbers of observed gradients are in memory at once."""


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The inputs reconstructed from each victim's gradient.

    Attributes:
        images: (n, *shape), the restart of lowest cost for each victim.
        costs: (n, restarts), the final costs.
        labels: (n,), as given or as recovered.
    """

    images: Tensor
    costs: Tensor
    labels: Tensor

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.images.shape[1:]))
        return f"Reconstruction({len(self.images)} images of {shape}, restarts={self.costs.shape[1]})"

    @property
    def chosen(self) -> Tensor:
        """The restart that each victim's image is from."""
        return self.costs.argmin(dim=1)


@dataclass(frozen=True)
class Inversion:
    """Minimise 1 − cos(∇_w ℓ(x, y; w), t) + tv_weight · TV(x) over x, for all victims and restarts as one stack.

    Symbols: t the observed gradient; w the round's weights, which the server knows; TV the mean absolute difference of
    neighbouring pixels. "signed-adam" is Geiping, Bauermeister, Dröge and Moeller's (2020) solver: Adam on the signs of
    the slope, with the rate multiplied by 0.1 at 3/8, 5/8 and 7/8 of the iterations and every step clamped to the box.
    "lbfgs" (as in Zhu, Liu and Han 2019, but with a line search for each row, a smoothed TV, the box applied only at
    the end, and double precision) is better for smooth activations: on the sigmoid LeNet, the signs of the slope change
    erratically while costs differ by 1e-5.
    Guarantee: none. An input that it fails to reconstruct may still be recoverable; it is one attacker.

    Attributes:
        iterations: steps of each restart; evaluations of the cost for "lbfgs".
        restarts: random starts for each victim; the one of lowest cost is kept, since the attacker does not know the
            truth.
        tv_weight: weight of the total variation; larger for noisy gradients.
        solver: "signed-adam" or "lbfgs".
        over: whether the cosine is over "all" tensors together, or the mean of the cosines of each "tensor".
        rate: signed Adam's step in the first three eighths of the iterations, in units of the box's width.
        history: how many steps L-BFGS remembers.
        at_once: how many rows are in one stack; fewer if gradients are long.
    """

    iterations: int = 2000
    restarts: int = 1
    tv_weight: float = 1e-4
    solver: Solver = "signed-adam"
    over: Over = "all"
    rate: float = 0.1
    history: int = 30
    at_once: int = 32

    def __post_init__(self) -> None:
        for name in ("iterations", "restarts", "history", "at_once"):
            if getattr(self, name) < 1:
                raise InputError(f"reconstruction: {name} must be at least 1, got {getattr(self, name)}")
        if not (self.tv_weight >= 0 and math.isfinite(self.tv_weight)):
            raise InputError(f"reconstruction: tv_weight must be 0 or more, got {self.tv_weight}")
        if not self.rate > 0:
            raise InputError(f"reconstruction: rate must be above 0, got {self.rate}")
        if self.solver not in SOLVERS:
            raise InputError(f"reconstruction: no solver {self.solver!r}: {nearest(self.solver, SOLVERS)}")
        if self.over not in ("all", "tensor"):
            raise InputError(f"reconstruction: over must be 'all' or 'tensor', got {self.over!r}")

    def invert(
        self,
        model: nn.Module,
        loss: LossOf,
        seen: Tensor,
        shape: Sequence[int],
        *,
        labels: Tensor | None = None,
        tv_weights: Tensor | None = None,
        box: tuple[float, float] = (0.0, 1.0),
        seed: int = 0,
        progress: Callable[[float], None] | None = None,
    ) -> Reconstruction:
        """Reconstruct each victim's input from its gradient.

        Args:
            model: the network with the weights at which gradients were taken; it is not changed.
            loss: maps outputs and labels to one loss per record.
            seen: (n, d) gradients in the order of the network's parameters.
            shape: the shape of one input: channels, height, width.
            labels: the victims' labels, if the attacker knows them (default: recovered from the gradient).
            tv_weights: one for each victim instead of `tv_weight`, so that an attacker can try several at once.
            box: lowest and highest value of an input.
            seed: for the generators, one for each victim and restart.
            progress: called with the share of the work that is done.
        """
        _check(model, seen, box)
        network = copy.deepcopy(model).to(torch.float64 if self.solver == "lbfgs" else torch.float32).eval()
        network.requires_grad_(requires_grad=False)
        kind = next(network.parameters()).dtype
        y = recovered_labels(model, seen) if labels is None else labels.long()
        if y.shape != (len(seen),):
            raise InputError(f"reconstruction: {tuple(y.shape)} labels for {len(seen)} gradients; give one for each")
        weights = torch.full((len(seen),), self.tv_weight) if tv_weights is None else tv_weights
        weights = weights.to(kind)
        rows = [(victim, restart) for victim in range(len(seen)) for restart in range(self.restarts)]
        block_size = max(1, min(self.at_once, _NUMBERS // seen.shape[1]))
        blocks = [rows[start : start + block_size] for start in range(0, len(rows), block_size)]
        images, costs = [], []
        for number, block in enumerate(blocks):
            victims = torch.tensor([victim for victim, _ in block])
            target = seen[victims].to(kind)
            target = target / torch.linalg.vector_norm(target, dim=1, keepdim=True)  # cosines do not change

            def cost(
                x: Tensor,
                smooth: float,
                y: Tensor = y[victims],
                target: Tensor = target,
                weights: Tensor = weights[victims],
            ) -> Tensor:
                with torch.enable_grad():
                    unlike = mismatch(network, loss, x, y, target, self.over)
                return unlike + weights * total_variation(x, smooth)

            done = 0

            def tick(number: int = number, share: float = 1 / len(blocks)) -> None:
                nonlocal done
                done += 1
                if progress:
                    progress(share * (number + min(1.0, done / self.iterations)))

            starts = [_start(shape, box, seed, *row).to(kind) for row in block]
            solve = self._lbfgs if self.solver == "lbfgs" else self._signed_adam
            solution = solve(cost, torch.stack(starts), box, tick)
            images.append(solution.float())
            costs.append(cost(solution.requires_grad_(), 0.0).detach().double())
        final_costs = torch.cat(costs).view(len(seen), self.restarts)
        final_costs = torch.where(torch.isfinite(final_costs), final_costs, math.inf)
        stack = torch.cat(images).view(len(seen), self.restarts, *shape)
        return Reconstruction(stack[torch.arange(len(seen)), final_costs.argmin(dim=1)].detach(), final_costs, y)

    def _signed_adam(
        self, cost: Callable[[Tensor, float], Tensor], start: Tensor, box: tuple[float, float], tick: Callable[[], None]
    ) -> Tensor:
        x = start.clone().requires_grad_()
        optimiser = torch.optim.Adam([x], lr=self.rate * (box[1] - box[0]))
        steps = [math.ceil(share * self.iterations) for share in (3 / 8, 5 / 8, 7 / 8)]
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimiser, steps, gamma=0.1)
        for _ in range(self.iterations):
            (slope,) = torch.autograd.grad(cost(x, 0.0).sum(), x)
            x.grad = slope.nan_to_num(0.0).sign()
            optimiser.step()
            schedule.step()
            with torch.no_grad():
                x.clamp_(*box)
            tick()
        return x.detach()

    def _lbfgs(
        self, cost: Callable[[Tensor, float], Tensor], start: Tensor, box: tuple[float, float], tick: Callable[[], None]
    ) -> Tensor:
        width = box[1] - box[0]

        def evaluate(points: Tensor) -> tuple[Tensor, Tensor]:
            x = points.view_as(start).detach().requires_grad_()
            costs = cost(x, 0.01 * width)
            (slope,) = torch.autograd.grad(costs.sum(), x)
            return costs.detach(), slope.flatten(1)

        solution = minimise(evaluate, start.flatten(1), self.iterations, self.history, self.rate * width, tick)
        return solution.view_as(start).clamp(*box)


def recovered_labels(model: nn.Module, seen: Tensor) -> Tensor:
    """Return each victim's label, (n,), from the gradient of the last fully connected layer.

    This is iDLG (Zhao, Mopuri and Bilen 2020). With cross-entropy and one record, the slope of output k is
    δ_k = p_k − 1[k = y], which is negative for the true label only. The gradient of the bias is δ itself; without a
    bias, or if its gradient was not observed, the sums of the weights' rows δ_k·Σa have the same signs, as long
    as Σa > 0 (true after ReLUs and sigmoids). A single output is treated as a probability: its slope is negative if
    the label is 1.
    The result is exact for the gradient of one record. Noise can hide the sign, and the least entry is then a guess;
    from several records at most one label is recovered; a shield that changes the last layer's signs defeats the
    attack.
    """
    layer = _last(model)
    slices = parameter_slices(model)
    slopes = seen[:, slices[id(layer.weight)]].reshape(len(seen), *layer.weight.shape).sum(dim=2)
    if layer.bias is not None:
        biases = seen[:, slices[id(layer.bias)]]
        slopes = torch.where(biases.abs().sum(dim=1, keepdim=True) > 0, biases, slopes)
    return (slopes[:, 0] < 0).long() if slopes.shape[1] == 1 else slopes.argmin(dim=1)


def _last(model: nn.Module) -> nn.Linear:
    layers = layers_with_parameters(model)
    if not layers or not isinstance(layers[-1], nn.Linear):
        raise InputError(
            "reconstruction: labels can be recovered only if the last layer is fully connected; give labels"
        )
    return layers[-1]


def _start(shape: Sequence[int], box: tuple[float, float], seed: int, victim: int, restart: int) -> Tensor:
    """Return a grey input with a little noise."""
    noise = torch.randn(tuple(shape), generator=torch_generator(seed, "victim", victim, "restart", restart))
    low, high = box
    return ((low + high) / 2 + 0.1 * (high - low) * noise).clamp(low, high)


def _check(model: nn.Module, seen: Tensor, box: tuple[float, float]) -> None:
    size = sum(parameter.numel() for parameter in model.parameters())
    if seen.ndim != 2 or not len(seen) or seen.shape[1] != size:
        raise InputError(
            f"reconstruction: gradients have shape {tuple(seen.shape)}, but this network's are rows of {size} numbers"
        )
    if not box[0] < box[1]:
        raise InputError(f"reconstruction: the box needs its lowest value below its highest, got {box}")
    for what, bad in (
        ("holds NaN or infinite numbers", ~torch.isfinite(seen).all(dim=1)),
        ("is zero", (seen == 0).all(dim=1)),
    ):
        if bad.any():
            first = int(bad.nonzero()[0])
            raise InputError(
                f"reconstruction: victim {first}'s gradient {what} ({int(bad.sum())} of {len(seen)} do), so there is "
                "nothing to match; leave it out"
            )
