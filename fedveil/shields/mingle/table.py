"""Tables: the columns that reveal most take another person's values where that hides most for the least change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from threadpoolctl import threadpool_limits

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.shields.mingle.plan import Plan, plan

_QUANTILES = 10
"""The most cells that a number is rounded to."""
_RARE = 30
"""Joint values that fewer people than this have do not get their own cell."""
_DONORS = 500
"""The most training people whose values are kept for each cell."""


@dataclass(frozen=True, eq=False)
class Step:
    """One group of columns V that is moved, given the rest W of a record and its label.

    Strata are the label and, in bins, what W and the label reveal about u; cells are V's joint values, with numbers
    rounded to tenths of their distribution. A record that is moved takes the values of a training person in the new
    cell, drawn at random, so that no observer can see who was moved. The last output is "not stated", all zeros.

    Attributes:
        names: the columns V.
        moved: the indices of their features.
        centres: the vector of each cell.
        donors: the training people's values of each cell, and the zeros.
        guess: a model of u given W and the label.
        prior: the shares of the values of u.
        edges: the edges of the bins, (labels, values, bins − 1).
        labels: the number of labels.
        plan: the chances.
    """

    names: tuple[str, ...]
    moved: IntArray
    centres: FloatArray
    donors: tuple[FloatArray, ...]
    guess: HistGradientBoostingClassifier
    prior: FloatArray
    edges: FloatArray
    labels: int
    plan: Plan

    def move(self, x: FloatArray, y: IntArray, generator: torch.Generator) -> FloatArray:
        """Return records as they are shown."""
        rest = np.delete(x, self.moved, axis=1)
        stratum = _strata(_posterior(self.guess, rest, y), self.prior, y, self.edges)
        cell = _cells(x[:, self.moved], self.centres)
        row = self.plan.chances[stratum, cell].cumsum(axis=1)
        drawn = torch.rand((len(x), 2), generator=generator, dtype=torch.float64).numpy()
        outputs = (row < drawn[:, :1] * row[:, -1:]).sum(axis=1)
        shown = x.copy()
        for output, values in enumerate(self.donors):
            people = np.flatnonzero((outputs == output) & (cell != output))
            shown[np.ix_(people, self.moved)] = values[(drawn[people, 1] * len(values)).astype(np.int64)]
        return shown


def fit_step(
    x: FloatArray,
    y: IntArray,
    u: IntArray,
    names: Sequence[str],
    columns: Sequence[str],
    budget: float,
    bins: int,
    size: FloatArray,
    seed: int,
) -> Step:
    """Fit one step on training people.

    Args:
        x: records, as earlier steps left them.
        y: labels; all 0 if there is no task.
        u: codes of the attribute, 0 to U − 1.
        names: the table's column of each feature.
        columns: the group V.
        budget: mean of ‖x′ − x‖ / size.
        bins: the number of bins for what the rest reveals.
        size: what a record's change is divided by.
        seed: for the guesses at u.
    """
    moved = np.flatnonzero(np.isin(names, columns))
    rest = np.delete(x, moved, axis=1)
    values, labels = int(u.max()) + 1, int(y.max()) + 1
    prior = np.bincount(u, minlength=values) / len(u)
    guess, out_of_fold = _guess(rest, y, u, seed)
    edges = _edges(out_of_fold, prior, y, labels, bins)
    stratum = _strata(out_of_fold, prior, y, edges)
    centres = _centres(x[:, moved], [name for name in names if name in columns])
    cell = _cells(x[:, moved], centres)
    donors = [x[np.ix_(np.flatnonzero(cell == index)[:_DONORS], moved)] for index in range(len(centres))]
    donors.append(np.zeros((1, len(moved))))
    strata = labels * values * edges.shape[2] + labels * values
    shares = np.zeros((values, strata, len(centres)))
    np.add.at(shares, (u, stratum, cell), 1.0)
    people = shares.sum(axis=0) / len(u)
    shares /= shares.sum(axis=(1, 2), keepdims=True)
    weight = np.bincount(stratum, 1 / size, strata) / np.maximum(np.bincount(stratum, minlength=strata), 1)
    cost = weight[:, None, None] * _root_mean_square_distances(donors)
    chances = plan(shares, people, cost, np.zeros(len(donors), bool), budget)
    return Step(tuple(columns), moved, centres, tuple(donors), guess, prior, edges, labels, chances)


def _guess(rest: FloatArray, y: IntArray, u: IntArray, seed: int) -> tuple[HistGradientBoostingClassifier, FloatArray]:
    """Return a model of u given the rest and the label, and out-of-fold posteriors of the training people."""
    model = HistGradientBoostingClassifier(
        max_iter=100, learning_rate=0.1, max_leaf_nodes=15, min_samples_leaf=40, random_state=seed % 2**32
    )
    folds = int(min(4, np.bincount(u).min()))
    if folds < 2:
        raise InputError("mingle: a value of the attribute occurs only once among training people; too few to learn")
    inputs = np.column_stack([rest, y])
    with threadpool_limits(1, user_api="openmp"):
        parts = StratifiedKFold(folds, shuffle=True, random_state=seed % 2**32)
        out_of_fold = cross_val_predict(model, inputs, u, cv=parts, method="predict_proba")
        return model.fit(inputs, u), out_of_fold


def _posterior(model: HistGradientBoostingClassifier, rest: FloatArray, y: IntArray) -> FloatArray:
    with threadpool_limits(1, user_api="openmp"):
        posterior: FloatArray = model.predict_proba(np.column_stack([rest, y]))
    return posterior


def _lift(posterior: FloatArray, prior: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the value whose chance rises by the largest factor, and that factor."""
    ratio = posterior / prior
    best = ratio.argmax(axis=1)
    return best, ratio[np.arange(len(best)), best]


def _edges(posterior: FloatArray, prior: FloatArray, y: IntArray, labels: int, bins: int) -> FloatArray:
    """Return (labels, values, bins' edges): quantiles of the lift among people with one label and likeliest value."""
    best, lift = _lift(posterior, prior)
    each = max(1, bins // len(prior))
    edges = np.full((labels, len(prior), each - 1), np.inf)
    for label in range(labels):
        for value in range(len(prior)):
            lifts = lift[(y == label) & (best == value)]
            if len(lifts):
                edges[label, value] = np.quantile(lifts, np.linspace(0, 1, each + 1)[1:-1])
    return edges


def _strata(posterior: FloatArray, prior: FloatArray, y: IntArray, edges: FloatArray) -> IntArray:
    best, lift = _lift(posterior, prior)
    if y.max(initial=0) >= len(edges):
        raise InputError("mingle: a record has a label that no training person had")
    bin_index = (lift[:, None] > edges[y, best]).sum(axis=1)
    strata: IntArray = (y * edges.shape[1] + best) * (edges.shape[2] + 1) + bin_index
    return strata


def _centres(values: FloatArray, names: Sequence[str]) -> FloatArray:
    """Return one vector per cell: joint values that at least 30 people have, numbers rounded to tenths or coarser."""
    rounded = values.copy()
    numbers = [
        index
        for index, name in enumerate(names)
        if list(names).count(name) == 1 and len(np.unique(values[:, index])) > _QUANTILES
    ]
    parts = min(_QUANTILES, max(2, int((len(values) / _RARE) ** (1 / max(1, len(numbers))))))
    for index in numbers:
        column = values[:, index]
        middles = np.unique(np.quantile(column, (np.arange(parts) + 0.5) / parts))
        rounded[:, index] = middles[np.abs(column[:, None] - middles).argmin(axis=1)]
    distinct, counts = np.unique(rounded, axis=0, return_counts=True)
    return np.asarray(distinct[counts >= min(_RARE, counts.max())], dtype=np.float64)


def _root_mean_square_distances(donors: Sequence[FloatArray]) -> FloatArray:
    """Return √E‖a − b‖² for a person a of a cell and a donor b of an output; 0 if a stays."""
    means = np.stack([values.mean(axis=0) for values in donors])
    spread = np.array([values.var(axis=0).sum() for values in donors])
    squares = ((means[:-1, None] - means[None]) ** 2).sum(axis=2) + spread[:-1, None] + spread
    squares[np.arange(len(squares)), np.arange(len(squares))] = 0.0
    return np.asarray(np.sqrt(squares))


def _cells(values: FloatArray, centres: FloatArray) -> IntArray:
    """Return each record's nearest cell; a rare value that is not moved is shown as it is."""
    squares = (centres**2).sum(axis=1) - 2 * values @ centres.T
    return np.asarray(squares.argmin(axis=1), dtype=np.int64)
