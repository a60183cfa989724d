"""Entropic semi-discrete optimal transport: people with costs, cells with wanted shares, one potential per cell.

With D[i, k] the cost of cell k to person i, potentials b and temperature τ, a person goes to cell k with probability
∝ exp((b_k − D[i, k]) / τ). Among all ways to fill the cells with the wanted shares this has the least mean cost minus
τ times the mean entropy of the choice (Cuturi 2013; semi-discrete: Genevay et al. 2016). b is found by asking how full
each cell is and answering with the logarithm of wanted over found: one count per cell and question is all it needs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from fedveil.core.arrays import FloatArray
from fedveil.shields.transport.counts import Counts

_WARM = 6
"""Questions at each of the higher temperatures that lead to the wanted one."""
STRIDE = 1.6
"""Over-relaxation: longer steps than Sinkhorn's, below 2, end at the same potentials sooner (Thibault et al. 2017)."""
_LEAST = 1e-7
"""A cell nobody is wanted in gets this share, so that logarithms exist."""


def schedule(start: float, temperature: float, questions: int) -> list[float]:
    """Return the temperature of each question: halved from the costs' spread down to the wanted one, then held.

    >>> schedule(0.4, 0.1, 2)
    [0.2, 0.2, 0.2, 0.2, 0.2, 0.2, 0.1, 0.1]
    """
    steps: list[float] = []
    level = start / 2
    while level > temperature * 1.0001:
        steps += [level] * _WARM
        level /= 2
    return steps + [temperature] * questions


def potentials(cost: Tensor, wanted: FloatArray, temperatures: list[float], counts: Counts) -> Tensor:
    """Return b after one question per temperature; the cells' fill then nears `wanted`, exactly so as they go on."""
    target = torch.log(torch.from_numpy(np.maximum(wanted, _LEAST)).to(cost))
    b = torch.zeros(cost.shape[1], dtype=cost.dtype)
    for temperature in temperatures:
        fill = torch.softmax((b - cost) / temperature, dim=1).sum(dim=0)
        if counts.noise:  # each person's row sums to 1, so its norm is at most 1
            fill = torch.from_numpy(counts.noised(fill.numpy())).to(cost)
            fill = fill.clamp_min(0.5)
        found = torch.log((fill / fill.sum()).clamp_min(_LEAST))
        b = b + STRIDE * temperature * (target - found).clamp(-20.0, 20.0)
    return b


def draw(cost: Tensor, b: Tensor, temperature: float, uniform: Tensor) -> Tensor:
    """Return a cell for each person, by one uniform number each; b has one row for all or one per person."""
    chances = torch.softmax((b - cost) / temperature, dim=1).cumsum(dim=1)
    return (uniform.to(chances)[:, None] > chances).sum(dim=1).clamp(max=cost.shape[1] - 1)


CostOf = Callable[[np.ndarray], Tensor]
"""Costs (people, cells) of some rows."""
