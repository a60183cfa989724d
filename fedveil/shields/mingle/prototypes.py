"""Whole records: some people show an average record of their label, starting with those whom it changes least."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.shields.mingle.plan import Plan, plan

_PEOPLE = 4000
"""The most people who are clustered."""
_COMPONENTS = 100
"""The most principal components from which u is guessed."""
_FOLDS = 3


@dataclass(frozen=True, eq=False)
class Prototypes:
    """Records are shown as they are, or as one of few averages of training people with the same label.

    Strata are labels; cells are the nearest average, its distance, and which u the record looks like: if a label is
    more common among people of one u, fewer of those who look like that u have to change. The plan counts the u of
    everybody who stays as known; those who show an average reveal only the shares of u among them. So however an
    observer reads records, it learns no more about u than `plan.after` says, up to the error of these counts.

    Attributes:
        centres: the averages, (labels, averages, features).
        edges: the edges of the bins of distances, (labels, averages, bins − 1).
        guess: which u a record looks like.
        plan: the chances.
    """

    centres: FloatArray
    edges: FloatArray
    guess: Pipeline
    plan: Plan

    def move(self, x: FloatArray, y: IntArray, generator: torch.Generator) -> FloatArray:
        """Return records (flat) as they are shown."""
        cell, _ = _cells(x, y, self.guess.predict(x), self.centres, self.edges)
        row = self.plan.chances[y, cell].cumsum(axis=1)
        drawn = torch.rand((len(x), 1), generator=generator, dtype=torch.float64).numpy()
        shown = (row < drawn * row[:, -1:]).sum(axis=1) - self.plan.chances.shape[1]
        records = x.copy()
        moved = np.flatnonzero(shown >= 0)
        records[moved] = self.centres[y[moved], shown[moved]]
        return records


def fit_prototypes(
    x: FloatArray, y: IntArray, u: IntArray, budget: float, count: int, bins: int, size: FloatArray, seed: int
) -> Prototypes:
    """Fit averages and chances on training people.

    Args:
        x: flat records.
        y: labels; all 0 if there is no task.
        u: codes of the attribute, 0 to U − 1.
        budget: mean of ‖x′ − x‖ / size.
        count: how many averages a label has.
        bins: the number of bins of distances.
        size: what a record's change is divided by.
        seed: for the clustering.
    """
    values, labels = int(u.max()) + 1, int(y.max()) + 1
    centres = np.stack([_averages(x[y == label], count, seed) for label in range(labels)])
    edges = np.full((labels, count, bins - 1), np.inf)
    nearest, nearest_distance = _nearest(x, y, centres)
    for label in range(labels):
        for average in range(count):
            distances = nearest_distance[(y == label) & (nearest == average)]
            if len(distances):
                edges[label, average] = np.quantile(distances, np.linspace(0, 1, bins + 1)[1:-1])
    guess, looks_like = _guess(x, u, seed)
    cell, distances_to_averages = _cells(x, y, looks_like, centres, edges)
    cells = count * bins * values
    shares = np.zeros((values, labels, cells))
    np.add.at(shares, (u, y, cell), 1.0)
    counts = shares.sum(axis=0)
    cost = np.full((labels, cells, cells + count), np.inf)
    cost[:, np.arange(cells), np.arange(cells)] = 0.0
    for average in range(count):
        total = np.zeros((labels, cells))
        np.add.at(total, (y, cell), distances_to_averages[:, average] / size)
        cost[:, :, cells + average] = np.where(counts > 0, total / np.maximum(counts, 1), np.inf)
    revealing = np.arange(cells + count) < cells  # a record that is shown as it is
    shares /= shares.sum(axis=(1, 2), keepdims=True)
    return Prototypes(centres, edges, guess, plan(shares, counts / len(x), cost, revealing, budget))


def _averages(x: FloatArray, count: int, seed: int) -> FloatArray:
    """Return averages of clusters of records."""
    if len(x) < count:
        raise InputError(f"mingle: a label has only {len(x)} training people; choose fewer averages than {count}")
    if count == 1:
        return np.asarray(x.mean(axis=0, keepdims=True))
    rng = np.random.default_rng(seed)
    sample = x[np.sort(rng.choice(len(x), min(len(x), _PEOPLE), replace=False))]
    with threadpool_limits(1):
        centres = KMeans(count, n_init=1, random_state=seed % 2**32).fit(sample).cluster_centers_
    return np.asarray(centres, dtype=np.float64)


def _nearest(x: FloatArray, y: IntArray, centres: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return each record's nearest average of its label, and its distance."""
    distances = _distances(x, y, centres)
    nearest = distances.argmin(axis=1)
    return nearest, distances[np.arange(len(x)), nearest]


def _distances(x: FloatArray, y: IntArray, centres: FloatArray) -> FloatArray:
    if y.max(initial=0) >= len(centres) or y.min(initial=0) < 0:
        raise InputError("mingle: a record has a label that no training person had")
    distances = [np.linalg.norm(x - centres[y, average], axis=1) for average in range(centres.shape[1])]
    return np.stack(distances, axis=1)


def _cells(
    x: FloatArray, y: IntArray, looks_like: IntArray, centres: FloatArray, edges: FloatArray
) -> tuple[IntArray, FloatArray]:
    """Return each record's cell, and its distances to all averages of its label."""
    distances = _distances(x, y, centres)
    nearest = distances.argmin(axis=1)
    nearest_distance = distances[np.arange(len(x)), nearest]
    bin_index = (nearest_distance[:, None] > edges[y, nearest]).sum(axis=1)
    cells: IntArray = (looks_like * centres.shape[1] + nearest) * (edges.shape[2] + 1) + bin_index
    return cells, distances


def _guess(x: FloatArray, u: IntArray, seed: int) -> tuple[Pipeline, IntArray]:
    """Return a model that guesses u from a record, and out-of-fold guesses for the training people."""
    fewest = int(np.bincount(u).min())
    if fewest < 2:
        raise InputError("mingle: a value of the attribute occurs only once among training people; too few to learn")
    folds = min(_FOLDS, fewest)
    components = min(_COMPONENTS, x.shape[1], len(x) * (folds - 1) // folds)
    model = Pipeline(
        [
            ("components", PCA(components, svd_solver="randomized", random_state=seed % 2**32)),
            ("scale", StandardScaler()),
            ("guess", LogisticRegression(C=0.01, class_weight="balanced", max_iter=300)),
        ]
    )
    with threadpool_limits(1):
        out_of_fold = cross_val_predict(model, x, u, cv=StratifiedKFold(folds, shuffle=True, random_state=seed % 2**32))
        return model.fit(x, u), np.asarray(out_of_fold, dtype=np.int64)
