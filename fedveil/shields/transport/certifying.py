"""What held-out people certify about a fitted map: how well any observer can infer u from the code and its stratum.

Their chances of each code are summed before any code is drawn, which is tighter than counting drawn codes, and equally
valid.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch

from fedveil.certificates.certificate import Certificate
from fedveil.certificates.code_counts import certify_chances
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.shields.transport.alignment import Alignment
from fedveil.shields.transport.chart import Chart
from fedveil.shields.transport.codebook import squared
from fedveil.shields.transport.hidden import HiddenValues
from fedveil.shields.transport.images import ImageChart

_BLOCK = 4096
"""How many people's chances are held in memory at once."""


def certify_map(
    chart: Chart | ImageChart,
    hidden: HiddenValues,
    data: AttributeData,
    rows: IntArray,
    seed: int,
    confidence: float,
    about: str | None,
    kept: tuple[str, ...],
) -> Certificate:
    """Bound every observer's balanced accuracy from (stratum, code) by people on whom the map was not fitted.

    The bound needs independent people: training people, and records that come in groups, are refused.

    Args:
        about: one of several hidden attributes; None for their combinations.
        kept: columns that stay, which reveal more than their strata.
    """
    if not len(chart.centres):
        raise InputError("transport: moved moments show more than a code, so there is nothing to count; use codes")
    if np.isin(rows, data.rows(Split.TRAIN)).any():
        raise InputError("transport: people on whom the map was fitted cannot certify it; give rows of other people")
    if data.groups is not None:
        raise InputError(f"transport: {data.name}'s records come in groups, not independently: nothing is certified")
    u = hidden.of([data.attribute(name).codes[rows] for name in hidden.names])
    x = data.x[rows].astype(np.float64)
    sums = summed_chances(chart, x, u, hidden.count, torch_generator(seed, "certify"))
    if about is not None:
        sums = hidden.sums_of(about, sums)
    beyond = (f"what {', '.join(kept)} reveal beyond their strata",) if kept else ()
    return certify_chances(sums, confidence, does_not_cover=beyond)


def summed_chances(
    chart: Chart | ImageChart, x: npt.NDArray[np.floating], u: IntArray, values: int, generator: torch.Generator
) -> FloatArray:
    """Return (strata × codes, values): for each value, the sum of its people's chances of each (stratum, code).

    If a column that stays is aligned, the stratum is drawn, and the chances are those of the code in it.
    """
    strata = chart.move(x, u, generator).strata
    count = int(chart.alignment.b.shape[0]) if chart.alignment is not None else 1
    sums = np.zeros((values, count, len(chart.centres)))
    for start in range(0, len(x), _BLOCK):
        part = slice(start, start + _BLOCK)
        chances = _chances(chart, x[part], strata[part], u[part])
        for value, stratum in np.unique(np.stack([u[part], strata[part]]), axis=1).T:
            sums[value, stratum] += chances[(u[part] == value) & (strata[part] == stratum)].sum(axis=0)
    return np.asarray(sums.reshape(values, -1).T, dtype=np.float64)


def _chances(chart: Chart | ImageChart, x: npt.NDArray[np.floating], strata: IntArray, u: IntArray) -> FloatArray:
    alignment = chart.alignment
    assert isinstance(alignment, Alignment)
    if isinstance(chart, ImageChart):
        points = torch.from_numpy(chart.embedding.coordinates(chart.embedding.grey(x, u))).float()
    else:
        points = chart.points(x)
    cost = squared(points, chart.centres)
    b = alignment.b[torch.from_numpy(strata), torch.from_numpy(u)]
    chances = torch.softmax((b - cost).double() / alignment.temperature, dim=1)
    return np.asarray(chances.numpy(), dtype=np.float64)
