"""Tables: the columns that tell most take another person's values, where that hides most at least change."""

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
_RARE = 30
_DONORS = 500


@dataclass(frozen=True, eq=False)
class Step:
    """One group of columns V that is moved, given the rest W of a record and its label.

    Strata are the label and what W and the label tell about u, in bins; cells are V's joint values (numbers by
    tenths). Who is moved takes the values of a training person of the cell it moves to, drawn at random, so that nobody
    can tell who was moved. The last output is "not said", all zeros.
    """

    names: tuple[str, ...]
    own: IntArray
    centres: FloatArray
    donors: tuple[FloatArray, ...]
    guess: HistGradientBoostingClassifier
    prior: FloatArray
    edges: FloatArray
    labels: int
    plan: Plan

    def move(self, x: FloatArray, y: IntArray, generator: torch.Generator) -> FloatArray:
        """Return records as they are shown."""
        rest = np.delete(x, self.own, axis=1)
        stratum = _strata(_posterior(self.guess, rest, y), self.prior, y, self.edges)
        cell = _cells(x[:, self.own], self.centres)
        row = self.plan.chances[stratum, cell].cumsum(axis=1)
        drawn = torch.rand((len(x), 2), generator=generator, dtype=torch.float64).numpy()
        shown = (row < drawn[:, :1] * row[:, -1:]).sum(axis=1)
        made = x.copy()
        for output, values in enumerate(self.donors):
            moved = np.flatnonzero((shown == output) & (cell != output))
            made[np.ix_(moved, self.own)] = values[(drawn[moved, 1] * len(values)).astype(np.int64)]
        return made


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
        x: records, as the steps before have left them.
        y: labels; all 0 where there is no task.
        u: codes of the attribute, 0 to U − 1.
        names: the table's column of each feature.
        columns: the group V.
        budget: mean of ‖x′ − x‖ / size.
        bins: how many bins of what the rest tells.
        size: what a record's change is measured by.
        seed: of the guesses at u.
    """
    own = np.flatnonzero(np.isin(names, columns))
    rest = np.delete(x, own, axis=1)
    values, labels = int(u.max()) + 1, int(y.max()) + 1
    prior = np.bincount(u, minlength=values) / len(u)
    guess, crossed = _guess(rest, y, u, seed)
    edges = _edges(crossed, prior, y, labels, bins)
    stratum = _strata(crossed, prior, y, edges)
    centres = _centres(x[:, own], [name for name in names if name in columns])
    cell = _cells(x[:, own], centres)
    donors = [x[np.ix_(np.flatnonzero(cell == place)[:_DONORS], own)] for place in range(len(centres))]
    donors.append(np.zeros((1, len(own))))
    strata = labels * values * edges.shape[2] + labels * values
    shares = np.zeros((values, strata, len(centres)))
    np.add.at(shares, (u, stratum, cell), 1.0)
    people = shares.sum(axis=0) / len(u)
    shares /= shares.sum(axis=(1, 2), keepdims=True)
    weight = np.bincount(stratum, 1 / size, strata) / np.maximum(np.bincount(stratum, minlength=strata), 1)
    cost = weight[:, None, None] * _apart(donors)
    made = plan(shares, people, cost, np.zeros(len(donors), bool), budget)
    return Step(tuple(columns), own, centres, tuple(donors), guess, prior, edges, labels, made)


def _guess(rest: FloatArray, y: IntArray, u: IntArray, seed: int) -> tuple[HistGradientBoostingClassifier, FloatArray]:
    """Return a model of u given the rest and the label, and what models that never saw a person say of it."""
    model = HistGradientBoostingClassifier(
        max_iter=100, learning_rate=0.1, max_leaf_nodes=15, min_samples_leaf=40, random_state=seed % 2**32
    )
    folds = int(min(4, np.bincount(u).min()))
    if folds < 2:
        raise InputError("mingle: a value of the attribute occurs only once among training people; too few to learn")
    told = np.column_stack([rest, y])
    with threadpool_limits(1, user_api="openmp"):
        parts = StratifiedKFold(folds, shuffle=True, random_state=seed % 2**32)
        crossed = cross_val_predict(model, told, u, cv=parts, method="predict_proba")
        return model.fit(told, u), crossed


def _posterior(model: HistGradientBoostingClassifier, rest: FloatArray, y: IntArray) -> FloatArray:
    with threadpool_limits(1, user_api="openmp"):
        found: FloatArray = model.predict_proba(np.column_stack([rest, y]))
    return found


def _lift(posterior: FloatArray, prior: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return which value is made likelier most, and by how much."""
    ratio = posterior / prior
    best = ratio.argmax(axis=1)
    return best, ratio[np.arange(len(best)), best]


def _edges(posterior: FloatArray, prior: FloatArray, y: IntArray, labels: int, bins: int) -> FloatArray:
    """Return (labels, values, bins' edges): quantiles of the lift among people of a label and a likeliest value."""
    best, lift = _lift(posterior, prior)
    each = max(1, bins // len(prior))
    edges = np.full((labels, len(prior), each - 1), np.inf)
    for label in range(labels):
        for value in range(len(prior)):
            own = lift[(y == label) & (best == value)]
            if len(own):
                edges[label, value] = np.quantile(own, np.linspace(0, 1, each + 1)[1:-1])
    return edges


def _strata(posterior: FloatArray, prior: FloatArray, y: IntArray, edges: FloatArray) -> IntArray:
    best, lift = _lift(posterior, prior)
    if y.max(initial=0) >= len(edges):
        raise InputError("mingle: a label that no training person had")
    place = (lift[:, None] > edges[y, best]).sum(axis=1)
    found: IntArray = (y * edges.shape[1] + best) * (edges.shape[2] + 1) + place
    return found


def _centres(values: FloatArray, names: Sequence[str]) -> FloatArray:
    """Return one vector per cell: joint values that at least 30 people have, numbers rounded to tenths or coarser."""
    rounded = values.copy()
    numbers = [
        place
        for place, name in enumerate(names)
        if list(names).count(name) == 1 and len(np.unique(values[:, place])) > _QUANTILES
    ]
    parts = min(_QUANTILES, max(2, int((len(values) / _RARE) ** (1 / max(1, len(numbers))))))
    for place in numbers:
        column = values[:, place]
        middles = np.unique(np.quantile(column, (np.arange(parts) + 0.5) / parts))
        rounded[:, place] = middles[np.abs(column[:, None] - middles).argmin(axis=1)]
    found, counts = np.unique(rounded, axis=0, return_counts=True)
    return np.asarray(found[counts >= min(_RARE, counts.max())], dtype=np.float64)


def _apart(donors: Sequence[FloatArray]) -> FloatArray:
    """Return √E‖a − b‖² for a person a of a cell and a donor b of an output; 0 where a stays."""
    means = np.stack([values.mean(axis=0) for values in donors])
    spread = np.array([values.var(axis=0).sum() for values in donors])
    squares = ((means[:-1, None] - means[None]) ** 2).sum(axis=2) + spread[:-1, None] + spread
    squares[np.arange(len(squares)), np.arange(len(squares))] = 0.0
    return np.asarray(np.sqrt(squares))


def _cells(values: FloatArray, centres: FloatArray) -> IntArray:
    """Return each record's cell, the nearest; a rare value that is not moved stays itself."""
    squares = (centres**2).sum(axis=1) - 2 * values @ centres.T
    return np.asarray(squares.argmin(axis=1), dtype=np.int64)
