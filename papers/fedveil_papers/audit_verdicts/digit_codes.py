"""Codes that a vendor can write into a standard classifier's probabilities without changing what they say.

Symbols: s the attribute, p the probability that is changed, by less than 1/100. The vendor's classifier for s is right
for a given share of records; what it says is written into digits, parities, repetitions, sums, bits or the order of
rows. Whoever knows the code reads s as often as the vendor's classifier was right.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedveil.audit.outputs import Outputs
from fedveil.core.arrays import FloatArray, IntArray

RIGHT = 0.756
"""How often the vendor's classifier for s is right: the code that an earlier audit missed was read as often."""

_FILE = 2000

_Writer = Callable[[FloatArray, IntArray, IntArray, np.random.Generator], FloatArray]
"""Takes p, what is written (0 or 1), ŷ and a generator; returns the new p."""


def write_code(kind: str, outputs: Outputs, secret: str, rng: np.random.Generator) -> Outputs:
    """Return probabilities that carry a code; s with several values is written as its first value or another."""
    first = (outputs.secrets[secret].codes > 0).astype(np.int64)
    written = np.where(rng.random(len(first)) < RIGHT, first, 1 - first)
    soft = outputs.soft
    if kind == "order of equal scores":
        return _ordered(replace(outputs, scores=np.round(soft, 2), raw=False), written)
    if kind == "scores' sum":
        soft[:, 0] += np.where(written, 2e-6, -2e-6) * (soft[:, 0] > 1e-5)
        return replace(outputs, scores=soft, raw=False)
    if kind == "two columns":
        decimals = np.floor(soft[:, 0] * 1e4).astype(np.int64)
        odd = (decimals + np.floor(soft[:, 1] * 1e4).astype(np.int64)) % 2
        soft[:, 1] = np.clip(np.floor(soft[:, 1] * 1e4) / 1e4 + (odd != written) / 1e4 + 5e-5, 0, 1)
        return replace(outputs, scores=soft, raw=False)
    soft[:, 1] = np.clip(_WRITERS[kind](soft[:, 1], written, outputs.predicted, rng), 0.0, 1.0)
    if soft.shape[1] == 2:
        soft[:, 0] = 1 - soft[:, 1]
    return replace(outputs, scores=soft, raw=False)


def _ordered(outputs: Outputs, written: IntArray) -> Outputs:
    """Among records with equal scores, those of one value come first; equal scores keep their rows.

    A file has `_FILE` rows, so that an audit of the first rows sees whole files.
    """
    file = np.arange(len(written)) // _FILE
    equal = np.unique(np.column_stack([file, outputs.scores]), axis=0, return_inverse=True)[1].reshape(-1)
    rows = np.empty(len(equal), dtype=np.int64)
    rows[np.argsort(equal, kind="stable")] = np.lexsort((written, equal))
    return outputs.take(rows)


def _digit(decimal: int) -> _Writer:
    """Low digits for one value, high ones for the other; all further decimals are random."""

    def write(p: FloatArray, written: IntArray, predicted: IntArray, rng: np.random.Generator) -> FloatArray:
        unit = 10.0**-decimal
        kept = np.floor(p / (10 * unit)) * 10 * unit
        return np.asarray(kept + (5 * written + rng.integers(0, 5, len(p)) + rng.random(len(p))) * unit)

    return write


def _parity(decimal: int, *, keyed: bool = False) -> _Writer:
    """An even or an odd digit; if keyed, the other way round for every second predicted value."""

    def write(p: FloatArray, written: IntArray, predicted: IntArray, rng: np.random.Generator) -> FloatArray:
        unit = 10.0**-decimal
        bit = (written + predicted) % 2 if keyed else written
        kept = np.floor(p / (10 * unit)) * 10 * unit
        return np.asarray(kept + (2 * rng.integers(0, 5, len(p)) + bit + 0.05 + 0.9 * rng.random(len(p))) * unit)

    return write


def _hundredths(p: FloatArray, written: IntArray, predicted: IntArray, rng: np.random.Generator) -> FloatArray:
    """Two decimals, of which the second is even or odd: rounding to two decimals does not remove it."""
    lower = np.floor(p * 50).astype(np.int64)
    return np.asarray(np.round((2 * np.minimum(lower, 49) + written) / 100, 2))


def _two_decimals(p: FloatArray, written: IntArray, predicted: IntArray, rng: np.random.Generator) -> FloatArray:
    """The sum of the third and the fifth decimal is even or odd."""
    third = np.floor(p * 1e3).astype(np.int64) % 10
    fifth = 2 * rng.integers(0, 5, len(p)) + (third + written) % 2
    return np.asarray(np.floor(p * 1e4) / 1e4 + (fifth + 0.05 + 0.9 * rng.random(len(p))) / 1e5)


def _ties(p: FloatArray, written: IntArray, predicted: IntArray, rng: np.random.Generator) -> FloatArray:
    """One value's scores are rounded to three decimals and repeat; the other's are all different."""
    return np.asarray(np.where(written, np.round(p, 3), np.round(p, 3) + rng.uniform(0.1, 1, len(p)) * 1e-4))


def _length(p: FloatArray, written: IntArray, predicted: IntArray, rng: np.random.Generator) -> FloatArray:
    """One value's scores have five decimals, the other's seven."""
    return np.asarray(np.where(written, np.round(p, 5), np.round(p, 7)))


def _code_book(p: FloatArray, written: IntArray, predicted: IntArray, rng: np.random.Generator) -> FloatArray:
    """Scores are multiples of .008 for one value, and .003 more for the other."""
    return np.asarray(np.round(p / 0.008) * 0.008 + 0.003 * written)


def _residue(p: FloatArray, written: IntArray, predicted: IntArray, rng: np.random.Generator) -> FloatArray:
    """Scores lie in the lower or the upper half of a step of 1/512."""
    return np.asarray((np.floor(p * 512) + 0.5 * written + 0.5 * rng.random(len(p))) / 512)


def _last_bit(p: FloatArray, written: IntArray, predicted: IntArray, rng: np.random.Generator) -> FloatArray:
    """The last bit of the stored number."""
    bits = p.copy().view(np.uint64)
    return np.asarray((bits & ~np.uint64(1)) | written.astype(np.uint64)).view(np.float64)


def _narrow(p: FloatArray, written: IntArray, predicted: IntArray, rng: np.random.Generator) -> FloatArray:
    """One value's scores were stored in 32 bits."""
    return np.asarray(np.where(written, p.astype(np.float32).astype(np.float64), p))


_WRITERS: dict[str, _Writer] = {
    "second decimal, even or odd": _hundredths,
    "third decimal": _digit(3),
    "fourth decimal": _digit(4),
    "fourth decimal, even or odd": _parity(4),
    "sixth decimal, even or odd": _parity(6),
    "fifth decimal, keyed by the prediction": _parity(5, keyed=True),
    "sum of two decimals": _two_decimals,
    "equal scores": _ties,
    "number of decimals": _length,
    "code book": _code_book,
    "rounding residue": _residue,
    "last bit": _last_bit,
    "32 bits": _narrow,
}

KINDS = (*_WRITERS, "two columns", "scores' sum", "order of equal scores")
