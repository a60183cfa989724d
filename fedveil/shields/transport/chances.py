"""Everybody's chances of each code, summed: what held-out people tell about a map before any code is drawn."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.shields.transport.alignment import Alignment
from fedveil.shields.transport.chart import Chart
from fedveil.shields.transport.codebook import squared
from fedveil.shields.transport.images import ImageChart

_BLOCK = 4096


def summed_chances(
    chart: Chart | ImageChart, x: npt.NDArray[np.floating], u: IntArray, values: int, generator: torch.Generator
) -> FloatArray:
    """Return (strata × codes, values): for each value, the sum of its people's chances of each (stratum, code).

    Where a column that stays is aligned, the stratum is drawn, and the chances are those of the code in it.
    """
    strata = chart.move(x, u, generator).strata
    count = int(chart.alignment.b.shape[0]) if chart.alignment is not None else 1
    sums = np.zeros((values, count, len(chart.centres)))
    for start in range(0, len(x), _BLOCK):
        part = slice(start, start + _BLOCK)
        each = _chances(chart, x[part], strata[part], u[part])
        for value, stratum in np.unique(np.stack([u[part], strata[part]]), axis=1).T:
            sums[value, stratum] += each[(u[part] == value) & (strata[part] == stratum)].sum(axis=0)
    return np.asarray(sums.reshape(values, -1).T, dtype=np.float64)


def _chances(chart: Chart | ImageChart, x: npt.NDArray[np.floating], strata: IntArray, u: IntArray) -> FloatArray:
    alignment = chart.alignment
    assert isinstance(alignment, Alignment)
    if isinstance(chart, ImageChart):
        points = torch.from_numpy(chart.embedding.coordinates(chart.embedding.grey(x, u))).float()
    else:
        points = chart.points(x)
    cost = squared(points, chart.centres)
    own = alignment.b[torch.from_numpy(strata), torch.from_numpy(u)]
    chances = torch.softmax((own - cost).double() / alignment.temperature, dim=1)
    return np.asarray(chances.numpy(), dtype=np.float64)
