"""How often the interval of the strongest attacker holds what it claims to hold, by simulation.

    python studies/attacker_coverage.py

The headline of a judgement is the largest of all attackers' figures, so its interval must hold although the largest was
taken. Two simulations, seed 0:

* Guesses. Attackers of given true balanced accuracies guess two values of people; their guesses agree to some degree.
  Printed: how often the interval holds the largest true figure, and how often the interval of the attacker with the
  largest estimate would if nothing were corrected (1,000 repetitions).
* Real attackers on vectors that say nothing, taught by other people and by halves of the victims themselves ("fresh"
  people): how often the interval includes guessing, and how often the p-value falls below 5% (200 repetitions).

About three minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fedveil.attacks import panel
from fedveil.attacks.strongest import largest
from fedveil.core.measures import Predictions, interval, resampled_together
from fedveil.data import Attribute
from fedveil.view import Pool, View


class Coverage(NamedTuple):
    """Shares of repetitions in which the intervals held."""

    corrected: float
    uncorrected: float


def of_guesses(
    accuracies: Sequence[float], agreement: float, people: int, *, repetitions: int = 1000, draws: int = 300
) -> Coverage:
    """Simulate attackers of given true balanced accuracies.

    Args:
        accuracies: each attacker's.
        agreement: the probability that an attacker is right about the same people as all others that agree.
        people: how many victims, half of each value.
        repetitions: how many judgements.
        draws: bootstrap draws for each.
    """
    rng = np.random.default_rng(0)
    codes, prior = np.arange(people) % 2, np.array([0.5, 0.5])
    flat = np.full((people, 2), np.log(0.5))
    true, held, naive = max(accuracies), 0, 0
    for _ in range(repetitions):
        common = rng.random(people)
        attackers = []
        for accuracy in accuracies:
            position = np.where(rng.random(people) < agreement, common, rng.random(people))
            guesses = np.where(position < accuracy, codes, 1 - codes)
            attackers.append(Predictions(codes, guesses, guesses, flat, prior))
        resamples = resampled_together(attackers, None, draws, rng)
        figures = [interval(sample["balanced_accuracy"], 0.95) for sample in resamples]
        first, estimate = largest(figures, [sample["balanced_accuracy"] for sample in resamples], 0.95)
        held += estimate.low <= true <= estimate.high
        naive += figures[first].low <= true <= figures[first].high
    return Coverage(held / repetitions, naive / repetitions)


def of_nothing(people: int, columns: int, *, fresh: bool, repetitions: int = 200) -> tuple[float, float]:
    """Return how often intervals include guessing, and how often p < 5%, where vectors say nothing."""
    rng = np.random.default_rng(0)
    included = small = 0
    for repetition in range(repetitions):
        pools = []
        for n in (people, people // 2, people):
            u = Attribute("u", np.arange(n) % 2, ("a", "b"))
            pools.append(Pool(rng.normal(size=(n, columns)), {"u": u}))
        judges = panel(["logistic", "look-up", "boosting"], fresh=fresh, draws=200, seed=repetition, workers=1)
        judgement = judges.judge(View(*pools))
        included += judgement.worst.balanced_accuracy.low <= 0.5
        small += judgement.p_value < 0.05
    return included / repetitions, small / repetitions


def main() -> None:
    """Print both tables."""
    print("guesses: true balanced accuracies, agreement, people: held (uncorrected)")
    for accuracies in ([0.5] * 14, [0.6] * 7, [0.52, 0.54, 0.56, 0.58, 0.6], [0.9] * 3 + [0.5] * 4):
        for agreement in (0.0, 0.9):
            for people in (200, 1000):
                result = of_guesses(accuracies, agreement, people)
                listed = f"{len(accuracies)} of {min(accuracies)} to {max(accuracies)}"
                held = f"{result.corrected:.3f} ({result.uncorrected:.3f})"
                print(f"{listed:>18} {agreement:.1f} {people:5,}: {held}", flush=True)
    print("vectors that say nothing: people, columns, fresh: interval includes guessing, p < 5%")
    for people, columns in ((200, 2), (200, 20)):
        for fresh in (False, True):
            included, small = of_nothing(people, columns, fresh=fresh)
            taught = "fresh" if fresh else "other"
            print(f"{people:5,} {columns:3} {taught:>6}: {included:.3f}, {small:.3f}", flush=True)


if __name__ == "__main__":
    main()
