"""A sample of test people, stored for inspection: what they released, their raw inputs, and their attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from fedveil.config.study import Study
from fedveil.core.arrays import IntArray
from fedveil.core.randomness import numpy_generator
from fedveil.data import Split
from fedveil.studies.reading import Arrays

if TYPE_CHECKING:
    from fedveil.federation.release import Releases
    from fedveil.federation.run import Run

SAMPLED_PEOPLE = 400
MOST_INPUTS = 2000


def sampled_releases(study: Study, run: Run, releases: Releases) -> Arrays:
    """Return what the sampled people released, with their attributes."""
    people = _sampled(run)
    return {"released": releases.of(Split.TEST)[people].astype(np.float32), **_codes(study, run, people)}


def sampled_inputs(study: Study, run: Run) -> Arrays:
    """Return the raw inputs of the same people (the first 2,000 values of each) with their attributes."""
    people = _sampled(run)
    data = run.federation.data
    x = data.x[data.rows(Split.TEST)[people]]
    return {"x": x.reshape(len(x), -1)[:, :MOST_INPUTS].astype(np.float32), **_codes(study, run, people)}


def _sampled(run: Run) -> IntArray:
    """Return which of the test people are sampled: the same in every cell with the same seed."""
    count = len(run.federation.data.rows(Split.TEST))
    generator = numpy_generator(run.federation.seed, "sample of people")
    return np.sort(generator.choice(count, min(SAMPLED_PEOPLE, count), replace=False))


def _codes(study: Study, run: Run, people: IntArray) -> Arrays:
    """Return the attributes of sampled people, and which records of the data they are."""
    data = run.federation.data
    rows = data.rows(Split.TEST)[people]
    return {"row": rows, **{f"code/{name}": data.attribute(name).codes[rows] for name in study.asked}}
