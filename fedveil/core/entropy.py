"""Entropies and mutual information of discrete variables, in bits.

Two kinds of argument are kept apart: functions of *probabilities* (`entropy`, `conditional_entropy`,
`mutual_information`) are exact; functions of *labels* (`plug_in_…`) use observed frequencies instead of
probabilities and are estimates: on average, plug-in entropies are too small and plug-in mutual
information is too large.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError

_SUM_TOLERANCE = 1e-6


def probabilities(values: npt.ArrayLike, name: str = "probabilities") -> FloatArray:
    """Return the values as float64, after checking that they form a distribution; any shape is allowed."""
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0 or not np.all(np.isfinite(array)) or array.min() < 0.0:
        raise InputError(f"{name}: must be finite and not negative, with at least one entry; check the values")
    if abs(array.sum() - 1.0) > _SUM_TOLERANCE:
        raise InputError(f"{name}: must sum to 1, got {array.sum():.6g}; divide by the sum")
    return array


def binary_entropy(probability: npt.ArrayLike) -> FloatArray:
    """Return H₂(p) = −p log₂ p − (1−p) log₂(1−p), elementwise.

    >>> float(binary_entropy(0.5))
    1.0
    >>> binary_entropy([0.0, 1.0]).tolist()
    [0.0, 0.0]
    """
    p = np.asarray(probability, dtype=np.float64)
    if np.any(~((p >= 0.0) & (p <= 1.0))):
        raise InputError("binary entropy: a probability lies outside [0, 1]; check the values")
    return np.asarray(_surprise(p) + _surprise(1.0 - p))


def entropy(distribution: npt.ArrayLike) -> float:
    """Return H(p) of a distribution of any shape (a joint table gives the joint entropy).

    >>> entropy([0.25, 0.25, 0.25, 0.25])
    2.0
    """
    return float(_surprise(probabilities(distribution)).sum())


def conditional_entropy(joint: npt.ArrayLike) -> float:
    """Return H(A | B) of a table p(a, b): the condition B is the *last* axis, A all other axes.

    >>> conditional_entropy([[0.5, 0.0], [0.0, 0.5]])
    0.0
    """
    table = _table(joint)
    condition = table.reshape(-1, table.shape[-1]).sum(axis=0)
    return max(0.0, float(_surprise(table).sum() - _surprise(condition).sum()))


def mutual_information(joint: npt.ArrayLike) -> float:
    """Return I(A; B) of a table p(a, b); never negative.

    >>> mutual_information([[0.5, 0.0], [0.0, 0.5]])
    1.0
    """
    table = _table(joint)
    if table.ndim != 2:
        raise InputError(f"mutual information: needs a table p(a, b) of two axes, got {table.ndim}; sum the others out")
    sum_of_entropies = _surprise(table.sum(axis=0)).sum() + _surprise(table.sum(axis=1)).sum()
    return max(0.0, float(sum_of_entropies - _surprise(table).sum()))


def counts_of(*labels: npt.ArrayLike) -> IntArray:
    """Count how often every combination of labels occurs, one axis per label (distinct values, sorted).

    >>> counts_of([0, 0, 1], ["a", "b", "b"]).tolist()
    [[1, 1], [0, 1]]
    """
    columns = [np.asarray(column) for column in labels]
    if not columns or any(column.ndim != 1 or len(column) != len(columns[0]) for column in columns):
        raise InputError("labels: every label must be one value per record, all of the same length")
    if len(columns[0]) == 0:
        raise InputError("labels: there are no records to count")
    codes = [np.unique(column, return_inverse=True) for column in columns]
    table = np.zeros(tuple(len(values) for values, _ in codes), dtype=np.int64)
    np.add.at(table, tuple(code for _, code in codes), 1)
    return table


def plug_in_entropy(labels: npt.ArrayLike, *, miller_madow: bool = False) -> float:
    """Return the entropy of the observed frequencies; Miller and Madow (1955) add (m − 1)/(2n ln 2)."""
    counts = counts_of(labels)
    return _plug_in(counts) + (_miller_madow(counts) if miller_madow else 0.0)


def plug_in_conditional_entropy(labels: npt.ArrayLike, given: npt.ArrayLike, *, miller_madow: bool = False) -> float:
    """Return Ĥ(labels | given) of the observed frequencies; its mean is at most the true value."""
    counts = counts_of(labels, given)
    correction = _miller_madow(counts) - _miller_madow(counts.sum(axis=0)) if miller_madow else 0.0
    return max(0.0, _plug_in(counts) - _plug_in(counts.sum(axis=0)) + correction)


def plug_in_mutual_information(a: npt.ArrayLike, b: npt.ArrayLike, *, miller_madow: bool = False) -> float:
    """Return Î(a; b) of the observed frequencies; it is about (|A|−1)(|B|−1)/(2n ln 2) too large if I(a; b) = 0.

    >>> plug_in_mutual_information([0, 0, 1, 1], [0, 0, 1, 1])
    1.0
    """
    counts = counts_of(a, b)
    parts = (counts.sum(axis=0), counts.sum(axis=1))
    value = sum(map(_plug_in, parts)) - _plug_in(counts)
    if miller_madow:
        value += sum(map(_miller_madow, parts)) - _miller_madow(counts)
    return max(0.0, value)


def _surprise(p: FloatArray) -> FloatArray:
    """Return −p log₂ p, with 0 at p = 0 and never −0."""
    safe = np.where(p > 0.0, p, 1.0)
    return np.asarray(np.abs(p * np.log2(safe)))


def _table(joint: npt.ArrayLike) -> FloatArray:
    table = probabilities(joint, "joint distribution")
    if table.ndim < 2:
        raise InputError("joint distribution: needs at least two axes, p(a, b); got one")
    return table


def _plug_in(counts: IntArray) -> float:
    return float(_surprise(counts / counts.sum()).sum())


def _miller_madow(counts: IntArray) -> float:
    return float((np.count_nonzero(counts) - 1) / (2.0 * counts.sum() * np.log(2.0)))
