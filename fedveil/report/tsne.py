"""Maps of what was released: t-SNE of raw inputs and of representations, for a bounded number of cells.

A map shows whether people with one value of an attribute lie together. It proves nothing: distances between clusters
and their sizes mean little, and an attacker may read what no map shows (van der Maaten and Hinton 2008; Wattenberg,
Viégas and Johnson 2016).
"""

from __future__ import annotations

import hashlib
import warnings
from pathlib import Path

import numpy as np
import numpy.typing as npt

PEOPLE = 400
"""At most so many people are drawn."""

CELLS = 12
"""At most so many cells are mapped."""

_GRID = 1000
"""Coordinates are whole numbers up to this."""


def tsne_map(vectors: npt.ArrayLike, cache: Path | None = None) -> list[list[int]] | None:
    """Return the people's places, [[x, …], [y, …]] on a grid of 0 to 1000, or None where there is nothing to map.

    The same vectors give the same map. At most the first 400 rows are used. `cache` is a folder of maps made before.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    rows = rows.reshape(len(rows), -1)[:PEOPLE] if rows.ndim and len(rows) else np.empty((0, 0))
    if len(rows) < 5 or rows.shape[1] == 0 or not np.isfinite(rows).all() or not np.ptp(rows, axis=0).any():
        return None
    kept = None if cache is None else cache / f"tsne-1-{hashlib.sha256(rows.tobytes()).hexdigest()[:32]}.npy"
    if kept is not None and kept.is_file():
        try:
            found = np.load(kept, allow_pickle=False)
            if found.shape == (2, len(rows)):
                return [[int(value) for value in axis] for axis in found]
        except (OSError, ValueError):  # a damaged map is made anew
            pass
    places = _places(rows)
    low, reach = places.min(axis=0), max(float(np.ptp(places, axis=0).max()), 1e-12)
    grid = np.round((places - low) / reach * _GRID).astype(np.int64).T
    if kept is not None:
        try:
            kept.parent.mkdir(exist_ok=True)
            np.save(kept, grid)
        except OSError:  # a folder that may only be read: the next report takes the time again
            pass
    return [[int(value) for value in axis] for axis in grid]


def _places(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    from sklearn.manifold import TSNE  # takes a second to load

    scaled = (rows - rows.mean(axis=0)) / np.where(rows.std(axis=0) > 0, rows.std(axis=0), 1.0)
    if scaled.shape[1] == 1:  # PCA cannot start a plane from a line
        scaled = np.hstack([scaled, np.zeros_like(scaled)])
    perplexity = min(30.0, (len(scaled) - 1) / 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = TSNE(perplexity=perplexity, init="pca", random_state=0, n_jobs=1).fit_transform(scaled)
    return np.nan_to_num(np.asarray(made, dtype=np.float64))
