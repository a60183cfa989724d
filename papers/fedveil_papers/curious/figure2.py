"""The data of the paper's Figure 2: points in the plane; one axis decides y, the other s, independently.

Malekzadeh, Borovykh and Gündüz, "Honest-but-Curious Nets", CCS 2021, §3.1. The paper shows a picture and prints no
distribution; this one has the stated properties (y and s independent and balanced, each linearly separable).
"""

from __future__ import annotations

import numpy as np

from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData, Split

MARGIN = 0.1
"""Half the width of the empty strip between classes, in half-widths of the square.

Chosen among 0, .05, … .25 with 2,000 training records and scikit-learn's default penalty (C = 1): at this margin the
normal mixture of Figure 4 reads s as often as the paper's, .95. The hard mixture and the shared threshold do not depend
on it.
"""


def figure2(
    train: int = 2000,
    validation: int = 1000,
    test: int = 5000,
    *,
    margin: float = MARGIN,
    agreement: float = 0.5,
    seed: int = 0,
) -> AttributeData:
    """Draw x = ((2y − 1)·a, (2s − 1)·b) with a and b uniform on [margin, 1] and y balanced.

    Args:
        train, validation, test: the number of records in each split.
        margin: the least distance of any record to both axes, in [0, 1).
        agreement: P(s = y); .5 makes them independent, 1 the same attribute. Even at 1 both axes of x are drawn.
        seed: the seed of everything drawn.
    """
    if min(train, validation, test) < 10:
        raise InputError("figure 2: train, validation and test must each be at least 10 records")
    if not 0 <= margin < 1 or not 0 <= agreement <= 1:
        raise InputError(f"figure 2: margin must lie in [0, 1), got {margin}; agreement in [0, 1], got {agreement}")
    sizes = (train, validation, test)
    n = sum(sizes)
    rng = numpy_generator(seed, "figure2")
    y = rng.integers(0, 2, size=n)
    s = np.where(rng.random(n) < agreement, y, 1 - y)
    signs = 2.0 * np.stack([y, s], axis=1) - 1
    x = signs * rng.uniform(margin, 1.0, size=(n, 2))
    return AttributeData(
        x=x.astype(np.float32),
        attributes={"s": Attribute("s", s.astype(np.int64), ("0", "1"))},
        split=np.repeat(np.array(Split, dtype=np.int8), sizes),
        y=Attribute("y", y.astype(np.int64), ("0", "1")),
        feature_names=("x1", "x2"),
        name="figure2",
        facts={"margin": margin, "agreement": agreement},
    )
