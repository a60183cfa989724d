"""The look-up attacker: counts of each value for every distinct vector, the best reading of discrete releases.

Symbols: u the attribute with K values, r a vector, c(r) a coarser form of it, n_u(c) how often people with value u have
that form, n_u how often value u occurs, b(u | r) naive Bayes.

    score(u | r) ∝ n_u(c(r)) / n_u · N/K + a · b(u | r)        (N: how many people the attacker learned from)

Dividing by n_u weighs values evenly. The smoothing a decides how many counted people outweigh naive Bayes, which
multiplies what each of the most telling columns (in at most 32 quantile bins) says by itself; it also answers for
vectors that were never seen. As forms the attacker tries the vector itself and each column in 2 to 32 quantile bins, so
that releases that are nearly discrete, or have few columns, are read as well. Form and smoothing are those with the
lowest cross-entropy on validation people, values weighed evenly; naive Bayes alone is one of the choices.

Vectors are compared by 64 bits: a form's scrambled numbers are multiplied by random odd numbers and added, so that two
different forms practically never collide.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from fedveil.attacks.attack import Attack, Labelled
from fedveil.attacks.binning import Binning, Codes
from fedveil.core.arrays import FloatArray, FloatingArray, IntArray
from fedveil.core.randomness import numpy_generator

_FINEST = 32
_FORMS = (2, 4, 8, 16, 32, None)
"""Bins of each column in the forms that are tried, from coarse to fine; None is the vector itself."""

_SMOOTHING = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0)
_MOST_COLUMNS = 512
"""Naive Bayes considers at most this many columns: the ones that say most by themselves."""

_PSEUDO = 1.0
"""Counts added to each bin of each value in naive Bayes."""

Keys = npt.NDArray[np.uint64]


class LookUp(Attack):
    """Counts per distinct vector or code, smoothed towards naive Bayes."""

    name = "look-up"
    most_vectors = 500_000

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Count, and choose form and smoothing on validation."""
        self.notes = ()
        auxiliary = self.capped(auxiliary, self.most_vectors, classes)
        rng = numpy_generator(self.seed, "look-up")
        self.binning_ = Binning.fit(auxiliary.vectors, _FINEST)
        binned, held_out = self.binning_.apply(auxiliary.vectors), self.binning_.apply(validation.vectors)
        self.columns_ = _Columns.fit(binned, auxiliary.codes, classes).fewer(held_out, validation.codes)
        columns = auxiliary.vectors.shape[1]
        drawn = rng.integers(2**63, size=columns, dtype=np.uint64)
        self.multipliers_: Keys = np.asarray(2 * drawn + 1, dtype=np.uint64)
        base = self.columns_.log_posterior(held_out)
        posterior = np.exp(base)
        best, self.table_, self.form_, self.smoothing_ = _cost(base, validation.codes), None, None, 0.0
        for form in _FORMS:
            keys = self._keys(auxiliary.vectors, binned, form)
            table = _Table.count(keys, auxiliary.codes, classes)
            if len(table.keys) > 0.9 * len(keys):
                break  # hardly anybody shares this form, and still fewer share a finer one: there is nothing to look up
            counts = table.of(self._keys(validation.vectors, held_out, form))
            for smoothing in _SMOOTHING:
                cost = _cost(np.log(_mixed(counts, posterior, smoothing)), validation.codes)
                if cost < best:
                    best, self.table_, self.form_, self.smoothing_ = cost, table, form, smoothing
        if columns > _MOST_COLUMNS:
            note = f"considered the {_MOST_COLUMNS} most telling of {columns:,} columns where it reads columns"
            self.notes = (*self.notes, note)

    def scores(self, vectors: FloatingArray) -> FloatArray:
        """Return log-probabilities with values weighed evenly."""
        binned = self.binning_.apply(vectors)
        base = self.columns_.log_posterior(binned)
        if self.table_ is None:
            return base
        counts = self.table_.of(self._keys(vectors, binned, self.form_))
        return np.asarray(np.log(_mixed(counts, np.exp(base), self.smoothing_)), dtype=np.float64)

    def _keys(self, vectors: FloatingArray, binned: Codes, form: int | None) -> Keys:
        """Mix every vector, or its coarser form, into 64 bits."""
        keys = np.zeros(len(vectors), dtype=np.uint64)
        for column, multiplier in enumerate(self.multipliers_):
            if form is None:
                values = np.ascontiguousarray(vectors[:, column], dtype=np.float64) + 0.0  # −0 equals 0
                numbers = values.view(np.uint64)
            else:
                numbers = (binned[:, column] // (_FINEST // form)).astype(np.uint64) + np.uint64(1)
            keys += _scrambled(numbers) * multiplier  # scrambled first: floats end in zeros, which absorb multipliers
        return keys


def _scrambled(numbers: Keys) -> Keys:
    """Spread the bits of every number over all 64 (the finaliser of MurmurHash3)."""
    numbers = (numbers ^ (numbers >> np.uint64(33))) * np.uint64(0xFF51AFD7ED558CCD)
    numbers = (numbers ^ (numbers >> np.uint64(33))) * np.uint64(0xC4CEB9FE1A85EC53)
    return numbers ^ (numbers >> np.uint64(33))


@dataclass(frozen=True, eq=False)
class _Columns:
    """Naive Bayes: log p(bin | u) of each column that is used, the most telling first, (columns, bins, K)."""

    kept: IntArray
    log_likelihood: FloatArray

    @classmethod
    def fit(cls, binned: Codes, codes: IntArray, classes: int) -> _Columns:
        counts = np.empty((binned.shape[1], _FINEST, classes))
        for column in range(binned.shape[1]):
            cells = binned[:, column].astype(np.int64) * classes + codes
            counts[column] = np.bincount(cells, minlength=_FINEST * classes).reshape(_FINEST, classes)
        shares = (counts + _PSEUDO / _FINEST) / (counts.sum(axis=1, keepdims=True) + _PSEUDO)
        mean = shares.mean(axis=2, keepdims=True)
        telling = (shares * np.log(shares / mean)).sum(axis=(1, 2))
        kept = np.argsort(-telling, kind="stable")[:_MOST_COLUMNS]
        return cls(kept, np.log(shares[kept]))

    def fewer(self, held_out: Codes, codes: IntArray) -> _Columns:
        """Return only the most telling columns, as many as read validation people best: chance adds up over many."""
        total = np.zeros((len(held_out), self.log_likelihood.shape[2]))
        best, chosen = np.inf, len(self.kept)
        for count, (likelihood, column) in enumerate(zip(self.log_likelihood, self.kept, strict=True), start=1):
            total += likelihood[held_out[:, column]]
            if count & (count - 1) == 0 or count == len(self.kept):  # powers of two, and all
                cost = _cost(log_softmax(total, axis=1), codes)
                if cost < best:
                    best, chosen = cost, count
        return _Columns(self.kept[:chosen], self.log_likelihood[:chosen])

    def log_posterior(self, binned: Codes) -> FloatArray:
        total = np.zeros((len(binned), self.log_likelihood.shape[2]))
        for likelihood, column in zip(self.log_likelihood, self.kept, strict=True):
            total += likelihood[binned[:, column]]
        return np.asarray(log_softmax(total, axis=1), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class _Table:
    """How often each form occurs with each value, values weighed evenly."""

    keys: Keys
    counts: FloatArray

    @classmethod
    def count(cls, keys: Keys, codes: IntArray, classes: int) -> _Table:
        distinct, index = np.unique(keys, return_inverse=True)
        counts = np.bincount(index * classes + codes, minlength=len(distinct) * classes).reshape(-1, classes)
        of_value = np.maximum(np.bincount(codes, minlength=classes), 1)
        return cls(distinct, counts * (len(codes) / classes) / of_value)

    def of(self, keys: Keys) -> FloatArray:
        position = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.asarray(np.where((self.keys[position] == keys)[:, None], self.counts[position], 0.0))


def _mixed(counts: FloatArray, base: FloatArray, smoothing: float) -> FloatArray:
    return np.asarray((counts + smoothing * base + 1e-12) / (counts.sum(axis=1, keepdims=True) + smoothing))


def _cost(log_posterior: FloatArray, codes: IntArray) -> float:
    """Return the cross-entropy with values weighed evenly."""
    classes = log_posterior.shape[1]
    weights = 1 / np.maximum(np.bincount(codes, minlength=classes), 1)[codes]
    return float(-(weights * log_posterior[np.arange(len(codes)), codes]).sum() / weights.sum())
