"""A few test people kept to be looked at: what they released, their raw inputs, and their attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedveil.config.study import Study
from fedveil.core.randomness import numpy_generator

if TYPE_CHECKING:
    from fedveil.federation.run import Run

Arrays = dict[str, np.ndarray]
SAMPLED_PEOPLE = 400


def sampled_rows(run: Run) -> np.ndarray:
    """Return the test people whose releases are kept to be looked at: the same in every cell of a seed."""
    from fedveil.data import Split

    data = run.federation.data
    rows = data.rows(Split.TEST)
    chosen = numpy_generator(run.federation.seed, "sample of people").choice(
        len(rows), min(SAMPLED_PEOPLE, len(rows)), replace=False
    )
    return np.sort(chosen)


def sampled_releases(study: Study, run: Run) -> Arrays:
    """Return what the sampled people released, with their attributes."""
    from fedveil.data import Split

    places = sampled_rows(run)
    released = run.release(Split.TEST)[places]
    return {"released": released.astype(np.float32), **codes_of(study, run, places)}


def sampled_inputs(study: Study, run: Run) -> Arrays:
    """Return the same people's raw inputs."""
    from fedveil.data import Split

    places = sampled_rows(run)
    data = run.federation.data
    x = data.x[data.rows(Split.TEST)[places]]
    return {"x": x.reshape(len(x), -1)[:, :2000].astype(np.float32), **codes_of(study, run, places)}


def codes_of(study: Study, run: Run, places: np.ndarray) -> Arrays:
    """Return the sampled people's attributes, and which records of the data they are."""
    from fedveil.data import Split

    data = run.federation.data
    rows = data.rows(Split.TEST)[places]
    return {"row": rows, **{f"code/{name}": data.attribute(name).codes[rows] for name in study.asked}}
