"""Random discrete laws for the searches for a violation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

RandomJoint = Callable[..., np.ndarray]


def draw_joint(rng: np.random.Generator, values: int | None = None, outputs: int | None = None) -> np.ndarray:
    """Draw p(u, y) with uneven priors and channels from nearly useless to nearly noiseless."""
    values = int(rng.integers(2, 8)) if values is None else values
    outputs = int(rng.integers(2, 8)) if outputs is None else int(outputs)
    prior = rng.dirichlet(np.full(values, rng.choice([0.3, 1.0, 10.0])))
    rows = rng.dirichlet(np.full(outputs, rng.choice([0.1, 1.0])), size=values)
    common = rng.dirichlet(np.ones(outputs))
    mixed = (share := rng.uniform()) * rows + (1.0 - share) * common
    return np.asarray(prior[:, None] * mixed)


@pytest.fixture(scope="session")
def random_joint() -> RandomJoint:
    return draw_joint
