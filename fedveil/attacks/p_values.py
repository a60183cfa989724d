"""How probable a panel's largest figure would be if vectors carried no information about the attribute."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import ndtr

from fedveil.attacks.trial import Trial
from fedveil.core.arrays import IntArray
from fedveil.core.exact_tests import chance_p_value
from fedveil.core.measures import chance_error
from fedveil.core.randomness import numpy_generator

_FEW = 500
"""Up to this many victims, p-values that no formula gives exactly are counted over permutations."""


def p_value_of_largest(trials: Sequence[Trial], groups: IntArray | None, seed: int) -> float:
    """Return the smallest p-value of all attackers, times their number (Bonferroni).

    For two values without groups each is exact, whatever the number of victims; otherwise it is counted over
    permutations for few victims, and by the normal approximation for many.
    """
    values = [value for trial in trials for value in _p_values(trial, groups, seed)]
    return min(1.0, len(values) * min(values))


def _p_values(trial: Trial, groups: IntArray | None, seed: int) -> Iterator[float]:
    """Yield an attacker's p-value, or one for each half if halves of the victims trained each other's attacker.

    The guesses about a half are fixed given the other half, so each p-value holds; but the two are not independent.
    """
    guesses, parts = trial.attempt.victims, trial.attempt.parts
    everybody = np.ones(len(guesses.codes), dtype=bool)
    for part in [everybody] if parts is None else [parts == 0, parts == 1]:
        codes, guessed, classes = guesses.codes[part], guesses.balanced[part], len(guesses.prior)
        of_part = None if groups is None else groups[part]
        if len(codes) <= _FEW or (classes == 2 and groups is None):
            yield chance_p_value(guessed, codes, classes, of_part, numpy_generator(seed, "p-value"))
            continue
        recalls = np.bincount(codes[guessed == codes], minlength=classes) / np.bincount(codes, minlength=classes)
        spread = float(np.nanstd(trial.draws["balanced_accuracy"][1:]))
        error = max(spread, chance_error(codes, classes, of_part))
        yield float(ndtr((1 / classes - float(recalls.mean())) / error))


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values by Holm's step-down rule, in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    adjusted, running = np.empty(len(p_values)), 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = running
    return [float(p) for p in adjusted]
