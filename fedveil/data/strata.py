"""Strata for a split that must serve several labels at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import Split


def joint_strata(labels: Sequence[Attribute], least: int = 10) -> IntArray:
    """Return one stratum per record: its combination of the labels' values.

    A combination of fewer than `least` records could not be dealt out in proportion, so its records join
    a stratum of the rarest single value among them: it is the rare values that a split must not lose.

    >>> a = Attribute("a", np.array([0] * 12 + [1] * 12 + [0]), ("x", "y"))
    >>> b = Attribute("b", np.array([0] * 12 + [0] * 12 + [1]), ("x", "y"))
    >>> joint_strata([a, b])[[0, 11, 12, 23, 24]].tolist()
    [0, 0, 1, 1, 2]
    """
    joint = np.zeros(len(labels[0]), dtype=np.int64)
    frequency: list[IntArray] = []
    single: list[IntArray] = []
    values_so_far = 0
    for label in labels:
        codes, counts = np.unique(label.codes, return_inverse=True, return_counts=True)[1:]
        joint = np.unique(joint * len(counts) + codes, return_inverse=True)[1]
        single.append(codes + values_so_far)  # so that no two labels share a code
        values_so_far += len(counts)
        frequency.append(counts[codes])
    rarest = np.argmin(np.stack(frequency), axis=0)
    fallback = np.stack(single)[rarest, np.arange(len(joint))]
    rare = np.bincount(joint)[joint] < least
    strata = np.where(rare, joint.max() + 1 + fallback, joint)
    return np.unique(strata, return_inverse=True)[1].astype(np.int64)


def group_strata(strata: IntArray, groups: IntArray) -> IntArray:
    """Return strata by group: all records of a group take the rarest stratum among them.

    So a split by group deals out the few groups that hold a rare value first, where a majority would hide it.

    >>> group_strata(np.array([0, 0, 1, 0, 0]), np.array([7, 7, 7, 8, 8])).tolist()
    [1, 1, 1, 0, 0]
    """
    group_of_row = np.unique(groups, return_inverse=True)[1]
    order = np.lexsort((np.bincount(strata)[strata], group_of_row))
    first = np.unique(group_of_row[order], return_index=True)[1]
    return np.asarray(strata[order][first][group_of_row], dtype=np.int64)


def even_split(strata: IntArray, *, seed: int, validation: float, test: float) -> npt.NDArray[np.int8]:
    """Split records at random into parts of exactly the rounded shares; runs of neighbouring strata keep theirs.

    Records are shuffled, ordered by stratum and taken at even distances, so that the strata from a to b, together m
    records, send m × share ± 1 to the test split, and about as evenly to validation. Where strata are numbered by
    the label that matters most first, that label's values are such runs.

    >>> split = even_split(np.repeat([0, 1], [75, 25]), seed=0, validation=0.08, test=0.2)
    >>> [np.bincount(part, minlength=3).tolist() for part in (split, split[75:])]
    [[72, 8, 20], [18, 2, 5]]
    """
    n = len(strata)
    n_test, n_validation = round(n * test), round(n * validation)
    if not (validation >= 0 and test >= 0 and n_test + n_validation < max(n, 1)):
        raise InputError(
            f"split: validation {validation} and test {test} must be at least 0 and leave something to train on"
        )
    shuffled = numpy_generator(seed, "split").permutation(n)
    left = shuffled[np.argsort(strata[shuffled], kind="stable")]
    split = np.full(n, Split.TRAIN, dtype=np.int8)
    for part, size in ((Split.TEST, n_test), (Split.VALIDATION, n_validation)):
        chosen = ((np.arange(size) + 0.5) * len(left) / max(size, 1)).astype(np.int64)
        split[left[chosen]] = part
        left = np.delete(left, chosen)
    return split
