"""Maps of people: t-SNE of raw inputs and of what was released, for a bounded number of cells.

A map shows whether people with one value of an attribute lie together. It proves nothing: distances between clusters
and their sizes mean little, and an attacker may read what no map shows (van der Maaten and Hinton 2008; Wattenberg,
Viégas and Johnson 2016).
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fedveil.report.settings import Setting
from fedveil.studies.results import StudyResults

PEOPLE = 400
"""At most this many people are drawn."""

CELLS = 12
"""At most this many cells are mapped."""

_GRID = 1000
"""Coordinates are whole numbers up to this."""


@dataclass(frozen=True)
class PeopleMap:
    """A map of test people.

    Attributes:
        seed: the seed of the cell that the people belong to.
        places: their coordinates, [[x, …], [y, …]].
        codes: for each attribute, their values' codes.
    """

    seed: int
    places: list[list[int]]
    codes: list[list[int]]


@dataclass(frozen=True)
class Maps:
    """The maps of a page.

    Attributes:
        released: for each setting, the map of what its first cell released; None if there is no map.
        raw: by seed, the map of the same people's raw inputs.
        first: the seed of the first finished cell.
        values: for each attribute, its values' names.
    """

    released: list[PeopleMap | None]
    raw: dict[int, PeopleMap]
    first: int | None
    values: list[list[str]]


def maps(results: StudyResults, settings: Sequence[Setting], wanted: Sequence[int], names: Sequence[str]) -> Maps:
    """Return maps of at most twelve of the wanted settings' first cells, and of the same people's raw inputs."""
    cache = results.folder / ".report-cache"
    released: list[PeopleMap | None] = [None] * len(settings)
    first = next((cell.seed for setting in settings for cell in setting.cells), None)
    for index in list(dict.fromkeys(wanted))[:CELLS]:
        for cell in settings[index].cells[:1]:
            released[index] = _map(cell.sample, "released", cell.seed, names, cache)
    seeds = [*([] if first is None else [first]), *(people.seed for people in released if people is not None)]
    raw = {seed: _map(results.inputs(seed) or {}, "x", seed, names, cache) for seed in dict.fromkeys(seeds)}
    return Maps(
        released=released,
        raw={seed: people for seed, people in raw.items() if people is not None},
        first=first,
        values=[_values(results, name) for name in names],
    )


def _map(
    arrays: Mapping[str, npt.NDArray[np.generic]], vectors: str, seed: int, names: Sequence[str], cache: Path
) -> PeopleMap | None:
    places = tsne_map(arrays.get(vectors, np.empty(0)), cache)
    if places is None:
        return None
    codes = [np.ravel(arrays.get(f"code/{name}", np.empty(0, np.int64)))[:PEOPLE] for name in names]
    return PeopleMap(seed, places, [[int(code) for code in column] for column in codes])


def _values(results: StudyResults, attribute: str) -> list[str]:
    judged = [cell.result.leakage[attribute] for cell in results.cells if attribute in cell.result.leakage]
    return list(judged[0].classes) if judged else []


def tsne_map(vectors: npt.ArrayLike, cache: Path | None = None) -> list[list[int]] | None:
    """Return coordinates, [[x, …], [y, …]] on a grid of 0 to 1000, or None if there is nothing to map.

    The same vectors give the same map. At most the first 400 rows are used. `cache` is a folder of earlier maps.
    """
    rows = np.asarray(vectors, dtype=np.float64)
    rows = rows.reshape(len(rows), -1)[:PEOPLE] if rows.ndim and len(rows) else np.empty((0, 0))
    if len(rows) < 5 or rows.shape[1] == 0 or not np.isfinite(rows).all() or not np.ptp(rows, axis=0).any():
        return None
    file = None if cache is None else cache / f"tsne-1-{hashlib.sha256(rows.tobytes()).hexdigest()[:32]}.npy"
    if file is not None and file.is_file():
        try:
            grid = np.load(file, allow_pickle=False)
            if grid.shape == (2, len(rows)):
                return [[int(value) for value in axis] for axis in grid]
        except (OSError, ValueError):  # a damaged map is computed again
            pass
    places = _places(rows)
    low, reach = places.min(axis=0), max(float(np.ptp(places, axis=0).max()), 1e-12)
    grid = np.round((places - low) / reach * _GRID).astype(np.int64).T
    if file is not None:
        try:
            file.parent.mkdir(exist_ok=True)
            np.save(file, grid)
        except OSError:  # a read-only folder: the next report computes it again
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
        places = TSNE(perplexity=perplexity, init="pca", random_state=0, n_jobs=1).fit_transform(scaled)
    return np.nan_to_num(np.asarray(places, dtype=np.float64))
