"""The networks of RecUP-FL's Table 2 (Cui et al. 2023), and the sigmoid LeNet of Zhu, Liu and Han (2019).

Where the paper is silent or fails, we chose the following. Outputs are logits and the loss is the cross-entropy, except
for Adult, whose single sigmoid and squared error are as printed. AudioMNIST's batch norms (the third is printed with 32
of 64 channels) normalise each record by itself: a batch norm on a client with one record can do nothing else. CelebA's
stack would collapse 32 × 32 to nothing and has no output layer: here its convolutions have stride 1 and are padded, and
an output layer is added. Pixels of LFW and CelebA are centred first: on pixels in [0, 1], which "lfw-on-pixels" keeps,
LFW's stack learns hardly more than the labels' frequencies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from fedveil.core.errors import InputError, nearest
from fedveil.core.models import drawn_by_torch


class Centred(nn.Module):
    """Pixels from [0, 1] to about mean 0 and deviation 1; it has no weights."""

    def forward(self, x: Tensor) -> Tensor:
        """Return (x − ½)·4."""
        return (x - 0.5) * 4


def network(name: str, shape: Sequence[int], generator: torch.Generator, outputs: int = 2) -> nn.Sequential:
    """Return a network by name for inputs of a shape, its weights drawn from the generator.

    >>> sum(p.numel() for p in network("lfw", (3, 62, 47), torch.Generator()).parameters())
    880450
    """
    if name not in NETWORKS:
        raise InputError(f"no network {name!r}: {nearest(name, NETWORKS)}")
    return drawn_by_torch(lambda: NETWORKS[name](tuple(shape), outputs), generator)


def _adult(shape: tuple[int, ...], outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(shape[0], 50), nn.ReLU(), nn.Linear(50, 1), nn.Sigmoid())


def _audiomnist(shape: tuple[int, ...], outputs: int) -> nn.Sequential:
    stack: list[nn.Module] = []
    for fan_in, channels in ((shape[0], 16), (16, 32), (32, 64)):
        norm = nn.InstanceNorm2d(channels, affine=True)
        stack += [nn.Conv2d(fan_in, channels, 3, stride=2), norm, nn.ReLU(), nn.MaxPool2d(2)]
    return _behind(stack, shape, [32], outputs)


def _lfw(shape: tuple[int, ...], outputs: int, first: Sequence[nn.Module] = ()) -> nn.Sequential:
    stack = [*first] or [Centred()]
    for fan_in, channels in ((shape[0], 32), (32, 64), (64, 128)):
        stack += [nn.Conv2d(fan_in, channels, 3), nn.MaxPool2d(2), nn.ReLU()]
    return _behind(stack, shape, [256], outputs)


def _lfw_on_pixels(shape: tuple[int, ...], outputs: int) -> nn.Sequential:
    return _lfw(shape, outputs, [nn.Identity()])


def _celeba(shape: tuple[int, ...], outputs: int) -> nn.Sequential:
    stack: list[nn.Module] = [Centred()]
    for fan_in, channels in ((shape[0], 16), (16, 32), (32, 64), (64, 128)):
        stack += [nn.Conv2d(fan_in, channels, 3, padding=1), nn.MaxPool2d(2), nn.ReLU()]
    return _behind(stack, shape, [128], outputs, nn.Sigmoid)


def _lenet(shape: tuple[int, ...], outputs: int) -> nn.Sequential:
    stack: list[nn.Module] = []
    for fan_in, stride in ((shape[0], 2), (12, 2), (12, 1)):
        stack += [nn.Conv2d(fan_in, 12, 5, stride=stride, padding=2), nn.Sigmoid()]
    model = _behind(stack, shape, [], outputs)
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)  # Zhu et al.'s start: torch's leaves sigmoids almost flat
    return model


def _behind(
    stack: list[nn.Module],
    shape: tuple[int, ...],
    hidden: list[int],
    outputs: int,
    activation: Callable[[], nn.Module] = nn.ReLU,
) -> nn.Sequential:
    """Put fully connected layers behind convolutions."""
    stack.append(nn.Flatten())
    try:
        with torch.no_grad():
            width = nn.Sequential(*stack).eval()(torch.zeros(1, *shape)).shape[1]
    except (RuntimeError, ValueError):
        raise InputError(f"inputs of shape {shape} are too small for this network's convolutions and pools") from None
    for size in hidden:
        stack += [nn.Linear(width, size), activation()]
        width = size
    return nn.Sequential(*stack, nn.Linear(width, outputs))


NETWORKS: dict[str, Callable[[tuple[int, ...], int], nn.Sequential]] = {
    "adult": _adult,
    "audiomnist": _audiomnist,
    "lfw": _lfw,
    "lfw-on-pixels": _lfw_on_pixels,
    "celeba": _celeba,
    "lenet": _lenet,
}
