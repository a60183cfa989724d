"""A small network, its per-sample gradients, and zoos fitted on them: real parts that take little time."""

from __future__ import annotations

import functools

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedveil.core.randomness import torch_generator
from fedveil.shields import Context
from fedveil.shields.recup import Zoo, fit_zoo
from fedveil.updates.gradients import network_segments, per_sample_gradients

NAMES = ("sex", "race")
VALUES = {"sex": ("f", "m"), "race": ("a", "b", "c")}


def small_network() -> nn.Sequential:
    """Every kind of pool: a small convolution, a large fully connected layer, a small one."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 4 * 4, 90), nn.ReLU(), nn.Linear(90, 2)
        )


@functools.cache
def gradients(people: int = 400, seed: int = 0) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Return (n, d) gradients of people whose picture reveals sex and race, and their codes."""
    generator = torch_generator(seed, "people")
    codes = {name: torch.randint(len(VALUES[name]), (people,), generator=generator) for name in NAMES}
    x = 0.7 * torch.randn(people, 1, 6, 6, generator=generator)
    x[:, 0, :2] += codes["sex"][:, None, None].float()
    x[:, 0, 3:] += 0.8 * codes["race"][:, None, None].float()
    y = torch.randint(2, (people,), generator=generator)

    def loss(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs, labels, reduction="none")

    return per_sample_gradients(small_network(), loss, x, y).detach(), codes


SEGMENTS = network_segments(small_network())


@functools.cache
def small_zoo(name: str = "sex", how: str = "max", widths: tuple[int, ...] = (16, 24, 32, 40, 48, 56)) -> Zoo:
    """Fit a zoo on 300 people."""
    updates, codes = gradients()
    weights = torch.cat([parameter.detach().flatten() for parameter in small_network().parameters()])
    return fit_zoo(
        updates[:300],
        codes[name][:300].numpy().astype(np.int64),
        VALUES[name],
        name,
        SEGMENTS,
        how=how,
        widths=widths,
        started_from={1: weights},
    )


def context(codes: dict[str, object], device: int = 0, number: int = 1, **more: object) -> Context:
    """Return what a device knows: one record's codes, or several records'."""
    data = {f"u:{name}": torch.as_tensor(values).reshape(-1) for name, values in codes.items()}
    generator = torch_generator(0, "shield", number, device)
    return Context(device, number, generator, **({"data": data, "segments": SEGMENTS} | more))


def contexts(people: range, number: int = 1) -> list[Context]:
    """Return what these people's devices know."""
    _, codes = gradients()
    return [context({name: values[i] for name, values in codes.items()}, i, number) for i in people]
