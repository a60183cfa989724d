"""Splits of records into training, validation and test, and random parts of a data set.

A split is drawn evenly over *strata*, the combinations of labels that it must serve; *groups*, the records of one
person, stay whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import Split


def random_part(n: int, limit: int | None, seed: int, name: str) -> IntArray:
    """Return the rows of at most `limit` of n records, drawn at random, in ascending order; with None, all rows."""
    if limit is not None and limit < 1:
        raise InputError(f"{name}: limit must be at least 1, got {limit}")
    if limit is None or limit >= n:
        return np.arange(n)
    return np.sort(numpy_generator(seed, name, "limit").choice(n, size=limit, replace=False))


def random_split(
    n: int,
    *,
    seed: int,
    validation: float = 0.1,
    test: float = 0.2,
    strata: IntArray | None = None,
    groups: IntArray | None = None,
) -> npt.NDArray[np.int8]:
    """Split n records at random, so that strata keep their shares and groups stay whole.

    Within each stratum the shuffled units (records, or groups) are dealt out in proportion, so that a stratum of at
    least three units is in all three splits. A group belongs to the stratum of most of its records. If strata vary
    within groups, a value that is in the majority in no group may therefore be missing from a split, and shares are
    only as even as the groups' sizes allow.
    """
    if not (validation >= 0 and test >= 0 and validation + test < 1):
        raise _too_large(validation, test)
    rng = numpy_generator(seed, "split")
    unit_of_row = np.arange(n) if groups is None else np.unique(groups, return_inverse=True)[1]
    units = int(unit_of_row.max()) + 1 if n else 0
    stratum_of_unit = np.zeros(units, dtype=np.int64)
    if strata is not None and n:
        names, stratum_of_row = np.unique(strata, return_inverse=True)
        if groups is None:
            stratum_of_unit = stratum_of_row  # no votes to count, and the table below would grow with units × strata
        else:
            votes = np.zeros((units, len(names)), dtype=np.int32)
            np.add.at(votes, (unit_of_row, stratum_of_row), 1)
            stratum_of_unit = votes.argmax(axis=1)
    split_of_unit = np.full(units, Split.TRAIN, dtype=np.int8)
    for stratum in np.unique(stratum_of_unit):
        members = rng.permutation(np.flatnonzero(stratum_of_unit == stratum))
        n_test = _share(len(members), test)
        n_validation = _share(len(members), validation)
        split_of_unit[members[:n_test]] = Split.TEST
        split_of_unit[members[n_test : n_test + n_validation]] = Split.VALIDATION
    return split_of_unit[unit_of_row]


def even_split(strata: IntArray, *, seed: int, validation: float, test: float) -> npt.NDArray[np.int8]:
    """Split records at random into parts of exactly the rounded shares, evenly over runs of neighbouring strata.

    Records are shuffled, ordered by stratum and picked at even distances. Of the m records in the strata a to b
    together, m × share ± 1 are therefore test records; validation records are spread about as evenly. If strata are
    numbered by the most important label first, each value of that label is such a run.

    >>> split = even_split(np.repeat([0, 1], [75, 25]), seed=0, validation=0.08, test=0.2)
    >>> [np.bincount(part, minlength=3).tolist() for part in (split, split[75:])]
    [[72, 8, 20], [18, 2, 5]]
    """
    n = len(strata)
    n_test, n_validation = round(n * test), round(n * validation)
    if not (validation >= 0 and test >= 0 and n_test + n_validation < max(n, 1)):
        raise _too_large(validation, test)
    shuffled = numpy_generator(seed, "split").permutation(n)
    remaining = shuffled[np.argsort(strata[shuffled], kind="stable")]
    split = np.full(n, Split.TRAIN, dtype=np.int8)
    for part, size in ((Split.TEST, n_test), (Split.VALIDATION, n_validation)):
        chosen = ((np.arange(size) + 0.5) * len(remaining) / max(size, 1)).astype(np.int64)
        split[remaining[chosen]] = part
        remaining = np.delete(remaining, chosen)
    return split


def joint_strata(labels: Sequence[Attribute], least: int = 10) -> IntArray:
    """Return one stratum per record: its combination of the labels' values.

    A combination of fewer than `least` records could not be dealt out in proportion. Its records join the stratum of
    their rarest single value instead, since rare values are the ones that a split must not lose.

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

    A split by group then spreads the few groups that hold a rare value, which a majority of records would hide.

    >>> group_strata(np.array([0, 0, 1, 0, 0]), np.array([7, 7, 7, 8, 8])).tolist()
    [1, 1, 1, 0, 0]
    """
    group_of_row = np.unique(groups, return_inverse=True)[1]
    order = np.lexsort((np.bincount(strata)[strata], group_of_row))
    first = np.unique(group_of_row[order], return_index=True)[1]
    return np.asarray(strata[order][first][group_of_row], dtype=np.int64)


def _share(units: int, fraction: float) -> int:
    """Return a share of some units, rounded, but at least one if there are three units or more."""
    if fraction == 0:
        return 0
    return max(round(units * fraction), 1 if units >= 3 else 0)


def _too_large(validation: float, test: float) -> InputError:
    return InputError(
        f"split: validation {validation} and test {test} must be at least 0 and leave training records; lower them"
    )
