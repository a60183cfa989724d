"""What held-out people certify about a fitted map: how well any observer can tell u from the code and its stratum."""

from __future__ import annotations

import numpy as np

from fedveil.certificates.certificate import Certificate
from fedveil.certificates.code_counts import certify_chances
from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.shields.transport.chances import summed_chances
from fedveil.shields.transport.chart import Chart
from fedveil.shields.transport.images import ImageChart
from fedveil.shields.transport.joint import Joint


def certify_map(
    chart: Chart | ImageChart,
    joint: Joint,
    data: AttributeData,
    rows: IntArray,
    seed: int,
    confidence: float,
    about: str | None,
    kept: tuple[str, ...],
) -> Certificate:
    """Bound every observer's balanced accuracy from (stratum, code) by people whom the map was not fitted on.

    Their chances of each code are summed, which is tighter than counting drawn codes, and as valid. The bound needs
    independent people: records of training people, and of people who come in groups, are refused.

    Args:
        about: one of several hidden attributes; None for their combinations.
        kept: columns that stay, which tell more than their strata.
    """
    if not len(chart.centres):
        raise InputError("transport: moved moments show more than a code, so there is nothing to count; use codes")
    if np.isin(rows, data.rows(Split.TRAIN)).any():
        raise InputError("transport: people whom the map was fitted on certify nothing; give rows of other people")
    if data.groups is not None:
        raise InputError(f"transport: {data.name}'s records come in groups, not independently: nothing is certified")
    u = joint.of([data.attribute(name).codes[rows] for name in joint.names])
    x = data.x[rows].astype(np.float64)
    sums = summed_chances(chart, x, u, joint.count, torch_generator(seed, "certify"))
    if about is not None:
        sums = joint.sums_of(about, sums)
    beyond = (f"what {', '.join(kept)} tell beyond their strata",) if kept else ()
    return certify_chances(sums, confidence, does_not_cover=beyond)
