"""How often intervals over seeds hold what they claim to hold, by simulation.

    python studies/seed_coverage.py

Every seed trains a release whose true leakage differs from seed to seed (normal, with some spread), and is judged on
test people: a share of right guesses with Agresti and Coull's interval. The people are one test set for all seeds, or
one each. Printed: how often the interval of *these releases* holds the mean of the seeds' true leakages, and the
interval of *a new seed* the true leakage of one more seed; 20,000 repetitions, seed 0. Seconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from fedveil.core.figures import Estimate
from fedveil.core.measures import smoothed_interval
from fedveil.studies.seeds import LEAST, new_seed, these_releases

PEOPLE = 1000
TRUE_MEAN = 0.6


class Coverage(NamedTuple):
    """The share of repetitions in which each interval held; None where there is no such interval."""

    these_releases: float
    new_seed: float | None


def coverage(seeds: int, spread: float, *, shared: bool, repetitions: int = 20_000) -> Coverage:
    """Simulate studies of some number of seeds.

    Args:
        seeds: how many seeds a study has.
        spread: the standard deviation of the true leakage between seeds.
        shared: whether all seeds are judged on the same people.
        repetitions: how many studies.
    """
    rng = np.random.default_rng(0)
    held = predicted = 0
    for _ in range(repetitions):
        leakages = np.clip(rng.normal(TRUE_MEAN, spread, seeds + 1), 0.01, 0.99)
        # A person is guessed right if their position lies below the leakage, so shared people are right together.
        positions = rng.random((1 if shared else seeds, PEOPLE))
        shares = (positions < leakages[:seeds, None]).mean(axis=1)
        figures = []
        for share in shares:
            low, high = smoothed_interval(np.array([share]), np.array([PEOPLE]), 0.95)
            figures.append(Estimate(float(share), min(low, float(share)), max(high, float(share))))
        mean = these_releases(figures)
        held += mean.low <= leakages[:seeds].mean() <= mean.high
        further = new_seed(figures)
        predicted += further is not None and further.low <= leakages[seeds] <= further.high
    return Coverage(held / repetitions, predicted / repetitions if seeds >= LEAST else None)


def main() -> None:
    """Print the table."""
    print("seeds  spread  test people   these releases  a new seed")
    for shared in (True, False):
        for spread in (0.0, 0.01, 0.05):
            for seeds in (1, 2, 3, 5, 10):
                these, new = coverage(seeds, spread, shared=shared)
                people = "the same" if shared else "one set each"
                print(f"{seeds:5}  {spread:6.2f}  {people:12}  {these:14.3f}  {'–' if new is None else f'{new:10.3f}'}")


if __name__ == "__main__":
    main()
