"""Exact p-values of "better than chance", valid at every number of victims.

Null hypothesis: the release says nothing about the attribute, so that the victims' values are exchangeable given the
guesses. The guesses are fixed; the values are rearranged among the victims, each arrangement being equally likely. The
p-value is the share of arrangements whose balanced accuracy is at least the one observed. No approximation by a normal
distribution is involved, so P(p ≤ α) ≤ α holds under the null hypothesis even for ten victims.

Two values, no groups. With n₁ victims of value 1 among n, of whom g₁ are guessed to have it, the number X of right
guesses of value 1 is hypergeometric, and balanced accuracy rises with X: p = P(X ≥ x) in closed form.

Otherwise the arrangements are drawn: p = (1 + #{drawn ≥ observed}) / (1 + N), which is exact too (Phipson and Smyth
2010), since the observed arrangement is one of N + 1 exchangeable ones.

Groups (several records of one person). Only whole groups are independent of each other.
* If no group has two values, a group's value is a property of the group: values are permuted among groups. The null
  hypothesis then includes that a group's size says nothing about its value.
* If some group has several values, the groups' blocks of values are permuted among groups of equal size. Nothing is
  assumed within a block, nor about sizes.
* If equal sizes are so rare that this allows few arrangements, one record is drawn from every group, which leaves
  independent records. The decision depends on sizes alone, so it does not disturb the level.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.stats import hypergeom, random_table

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError

ARRANGEMENTS = 9_999
"""N: with the observed arrangement ten thousand, so that the smallest p-value is 0.0001."""

_ENTRIES = 2_000_000
"""How many values are rearranged at a time, to bound memory."""

_ROUNDING = 1e-12
"""Two balanced accuracies that differ by less are equal."""


def chance_p_value(
    guesses: npt.ArrayLike,
    codes: npt.ArrayLike,
    classes: int,
    groups: npt.ArrayLike | None,
    rng: np.random.Generator,
) -> float:
    """Return the one-sided p-value of the guesses' balanced accuracy against chance; see the module.

    Guarantee: P(p ≤ α) ≤ α for every α if the values are exchangeable given the guesses. It is 1 if fewer than two
    values occur, since no arrangement then differs from another.

    Args:
        guesses: the guessed value of each victim, 0 … K − 1.
        codes: the true value of each victim, 0 … K − 1; a negative code is unknown, and the record is left out.
        classes: K.
        groups: which records belong together; None if all are independent.
        rng: draws the arrangements; it is not used for two values without groups.

    Of ten victims, five have either value. If all guesses are right, one arrangement in 252 does as well.

    >>> rng = np.random.default_rng(0)
    >>> right = [0] * 5 + [1] * 5
    >>> round(1 / chance_p_value(right, right, 2, None, rng))
    252
    >>> chance_p_value([0] * 10, right, 2, None, rng)
    1.0
    """
    guess, code, group = _checked(guesses, codes, classes, groups)
    if len(np.unique(code)) < 2:
        return 1.0
    if group is None or len(np.unique(group)) == len(group):
        return _without_groups(guess, code, classes, rng)
    index, sizes = _numbered(group)
    value_of_group = np.zeros(len(sizes), dtype=np.int64)
    value_of_group[index] = code
    if np.array_equal(value_of_group[index], code):
        return _by_group(guess, value_of_group, index, classes, rng)
    if _log_arrangements(sizes) >= math.log(ARRANGEMENTS + 1):
        return _by_block(guess, code, index, sizes, classes, rng)
    order = rng.permutation(len(code))
    drawn = order[np.unique(index[order], return_index=True)[1]]
    if len(np.unique(code[drawn])) < 2:
        return 1.0
    return _without_groups(guess[drawn], code[drawn], classes, rng)


def _without_groups(guess: IntArray, code: IntArray, classes: int, rng: np.random.Generator) -> float:
    if classes == 2:
        right = int(((guess == 1) & (code == 1)).sum())
        # P(X ≥ right) is P(X > right − 1).
        return min(1.0, float(hypergeom.sf(right - 1, len(code), int((code == 1).sum()), int((guess == 1).sum()))))
    counts = np.bincount(code, minlength=classes)
    guessed = np.bincount(guess, minlength=classes)
    # Rearranged values matter only through the table of guesses and values, whose margins are fixed.
    tables = random_table(guessed, counts).rvs(size=ARRANGEMENTS, random_state=rng)
    drawn = _balanced_accuracy(np.diagonal(tables, axis1=1, axis2=2), counts)
    return _share_as_good(drawn, _observed(guess, code, classes))


def _by_group(
    guess: IntArray, value_of_group: IntArray, index: IntArray, classes: int, rng: np.random.Generator
) -> float:
    """Permute values among groups; groups differ in size, so how many records have a value varies too."""
    guessed = np.zeros((len(value_of_group), classes))
    np.add.at(guessed, (index, guess), 1.0)
    sizes = guessed.sum(axis=1)

    def draw(number: int) -> FloatArray:
        values = rng.permuted(np.broadcast_to(value_of_group, (number, len(value_of_group))), axis=1)
        has_value = [(values == value).astype(np.float64) for value in range(classes)]
        right = np.stack([has @ guessed[:, value] for value, has in enumerate(has_value)], axis=1)
        return _balanced_accuracy(right, np.stack([has @ sizes for has in has_value], axis=1))

    return _share_as_good(_in_parts(draw, len(value_of_group)), _observed(guess, value_of_group[index], classes))


def _by_block(
    guess: IntArray, code: IntArray, index: IntArray, sizes: IntArray, classes: int, rng: np.random.Generator
) -> float:
    """Permute the groups' blocks of values among groups of equal size."""
    by_group = np.argsort(index, kind="stable")
    size_of_record = sizes[index[by_group]]
    # For each size, the positions of its records: one row per group.
    positions = [by_group[size_of_record == size].reshape(-1, size) for size in np.unique(sizes)]
    counts = np.bincount(code, minlength=classes)

    def draw(number: int) -> FloatArray:
        right = np.zeros((number, classes))
        for rows in positions:
            order = rng.permuted(np.broadcast_to(np.arange(len(rows)), (number, len(rows))), axis=1)
            hits = code[rows][order] == guess[rows]
            for value in range(classes):
                right[:, value] += (hits & (guess[rows] == value)).sum(axis=(1, 2))
        return _balanced_accuracy(right, counts)

    return _share_as_good(_in_parts(draw, len(code)), _observed(guess, code, classes))


def _in_parts(draw: Callable[[int], FloatArray], entries: int) -> FloatArray:
    """Draw all arrangements, as many at a time as memory allows."""
    at_once = max(1, _ENTRIES // entries)
    starts = range(0, ARRANGEMENTS, at_once)
    return np.concatenate([draw(min(at_once, ARRANGEMENTS - start)) for start in starts])


def _share_as_good(drawn: FloatArray, observed: float) -> float:
    return float((1 + (drawn >= observed - _ROUNDING).sum()) / (1 + len(drawn)))


def _observed(guess: IntArray, code: IntArray, classes: int) -> float:
    right = np.bincount(code[guess == code], minlength=classes)
    return float(_balanced_accuracy(right[None], np.bincount(code, minlength=classes))[0])


def _balanced_accuracy(right: npt.NDArray[np.number], counts: npt.NDArray[np.number]) -> FloatArray:
    """Return the mean share of right guesses over the values that occur, for each row of `right`."""
    occurs = np.broadcast_to(counts > 0, right.shape)
    shares = np.divide(right, counts, out=np.zeros(right.shape), where=occurs)
    return np.asarray(shares.sum(axis=1) / occurs.sum(axis=1))


def _numbered(group: IntArray) -> tuple[IntArray, IntArray]:
    """Return for each record the number of its group, from 0, and the groups' sizes."""
    _, index, sizes = np.unique(group, return_inverse=True, return_counts=True)
    return index.reshape(-1), sizes


def _log_arrangements(sizes: IntArray) -> float:
    """Return the logarithm of the number of ways to permute blocks among groups of equal size."""
    _, groups_of_size = np.unique(sizes, return_counts=True)
    return sum(math.lgamma(number + 1) for number in groups_of_size)


def _checked(
    guesses: npt.ArrayLike, codes: npt.ArrayLike, classes: int, groups: npt.ArrayLike | None
) -> tuple[IntArray, IntArray, IntArray | None]:
    """Return guesses, values and groups of the records whose value is known."""
    guess, code = np.asarray(guesses), np.asarray(codes)
    if code.ndim != 1 or guess.shape != code.shape:
        raise InputError(f"exact test: give one guess and one value per record, got {guess.shape} and {code.shape}")
    if not (np.issubdtype(guess.dtype, np.integer) and np.issubdtype(code.dtype, np.integer)) and len(code):
        raise InputError(f"exact test: guesses and values must be whole numbers, got {guess.dtype} and {code.dtype}")
    labelled = code >= 0
    guess, code = guess[labelled].astype(np.int64), code[labelled].astype(np.int64)
    if classes < 2 or (len(code) and not (guess.min() >= 0 and max(guess.max(), code.max()) < classes)):
        raise InputError(f"exact test: guesses and values must lie in 0 … K − 1 with K at least 2, got K = {classes}")
    if groups is None:
        return guess, code, None
    group = np.asarray(groups)
    if group.shape != labelled.shape:
        raise InputError(f"exact test: give one group per record, got {group.shape} for {labelled.shape}")
    return guess, code, group[labelled]
