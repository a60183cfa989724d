"""A small task on synthetic people: a table whose columns clearly reveal u and y."""

import numpy as np

from fedveil.data import AttributeData
from fedveil.data.attribute import Attribute


def small_data(people: int = 900, seed: int = 0) -> AttributeData:
    """Column 0 is u with some noise, column 1 is y with some noise, the rest is noise."""
    rng = np.random.default_rng(seed)
    u, y = rng.integers(2, size=people), rng.integers(2, size=people)
    x = rng.normal(size=(people, 8)).astype(np.float32)
    x[:, 0] += 4 * u
    x[:, 1] += 3 * y
    split = np.repeat([0, 1, 2], [people // 2, people // 6, people - people // 2 - people // 6]).astype(np.int8)
    return AttributeData(
        x=x,
        attributes={"u": Attribute("u", u, ("no", "yes"))},
        split=split,
        y=Attribute("y", y, ("low", "high")),
        groups=np.arange(people) // 2,
        columns=tuple(f"c{number}" for number in range(8)),
        feature_names=tuple(f"c{number}" for number in range(8)),
    )
