"""The optimisers' steps on stacks of devices, and the memory that they keep per device."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from fedveil.federation.weights import Layout
from fedveil.games.optimisers import SGD, Optimiser


def memory_size(settings: Optimiser, trained: int) -> int:
    """Return how many numbers an optimiser keeps per device: its moments one after another, then Adam's step count."""
    if isinstance(settings, SGD):
        return trained + 1 if settings.momentum else 0
    return 2 * trained + 1


@dataclass
class Memory:
    """An optimiser's moments, one list of (devices, *shape) tensors each, and every device's step count."""

    moments: list[list[Tensor]]
    count: Tensor

    @classmethod
    def unpack(cls, flat: Tensor, layout: Layout) -> Memory:
        """Split a flat memory (devices, memory size) into contiguous tensors."""
        orders = (flat.shape[1] - 1) // layout.trained if flat.shape[1] else 0
        cut = [flat[:, i * layout.trained : (i + 1) * layout.trained] for i in range(orders)]
        moments = [[view.contiguous() for view in layout.views(part, layout.parameters)] for part in cut]
        return cls(moments, flat[:, -1].clone() if flat.shape[1] else flat.new_zeros(len(flat)))

    def pack(self) -> Tensor:
        """Join the moments into the flat form again."""
        if not self.moments:
            return self.count.new_zeros(len(self.count), 0)
        flat = [tensor.reshape(len(tensor), -1) for moment in self.moments for tensor in moment]
        return torch.cat([*flat, self.count.unsqueeze(1)], dim=1)

    def leading(self, devices: int) -> Memory:
        """Return the memory of the first `devices` devices, as views."""
        return Memory([[tensor[:devices] for tensor in moment] for moment in self.moments], self.count[:devices])


def descend(
    settings: Optimiser, weights: list[Tensor], gradients: list[Tensor], memory: Memory, scale: Tensor | None
) -> None:
    """Take one step in place; `scale` multiplies each device's learning rate."""
    if settings.weight_decay:
        gradients = list(torch._foreach_add(gradients, weights, alpha=settings.weight_decay))
    if isinstance(settings, SGD):
        if settings.momentum:
            (moment,) = memory.moments
            torch._foreach_mul_(moment, settings.momentum)
            torch._foreach_add_(moment, gradients)
            gradients = moment
        if scale is None:
            torch._foreach_add_(weights, gradients, alpha=-settings.learning_rate)
        else:
            for weight, gradient in zip(weights, gradients, strict=True):
                weight.sub_(gradient * _per_device(scale * settings.learning_rate, gradient))
        return
    memory.count.add_(1)
    first, second = memory.moments
    torch._foreach_lerp_(first, gradients, 1 - settings.beta1)
    torch._foreach_mul_(second, settings.beta2)
    torch._foreach_addcmul_(second, gradients, gradients, 1 - settings.beta2)
    rate = settings.learning_rate / (1 - torch.pow(settings.beta1, memory.count))
    if scale is not None:
        rate = rate * scale
    correction = (1 - torch.pow(settings.beta2, memory.count)).rsqrt()
    spread = torch._foreach_sqrt(second)
    for weight, mean, size in zip(weights, first, spread, strict=True):
        size.mul_(_per_device(correction, size)).add_(settings.epsilon)
        weight.sub_(mean.mul(_per_device(rate, mean)).div_(size))


def _per_device(values: Tensor, like: Tensor) -> Tensor:
    return values.view(len(values), *[1] * (like.dim() - 1))
