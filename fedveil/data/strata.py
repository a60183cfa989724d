"""Strata for a split that must serve several labels at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fedveil.data.attribute import Attribute, IntArray


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
