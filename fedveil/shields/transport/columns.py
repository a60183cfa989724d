"""A table's columns as finitely many cells, learned from training people: what transport moves people between."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from fedveil.core.arrays import FloatArray, IntArray

_OWN_CELLS = 16
"""A number with at most so many values has one cell for each; others are cut at quantiles."""
_ATOM = 0.2
"""A value that so large a share of people have is a cell of its own."""
_PEOPLE = 400
"""Fewest training people for whom quantiles make a further cell."""
_DONORS = 256


@dataclass(frozen=True, eq=False)
class Column:
    """One column, or several that are the same in other words (education and its number).

    Attributes:
        names: the table's names for it.
        features: where its features stand in x.
        key: which of them its cell is read from.
        edges: inner edges of a number's cells; None for a category, whose cell is its one-hot place.
        usual: the cell of a category that training people did not have.
        shares: the cells' shares of training people.
        places: the cells' coordinates for costs, with total variance 1 over training people.
        donors: (cells, 256, features): values that training people in a cell have, for those who are moved there.
    """

    names: tuple[str, ...]
    features: IntArray
    key: IntArray
    edges: FloatArray | None
    usual: int
    shares: FloatArray
    places: FloatArray
    donors: FloatArray

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return len(self.shares)

    def cell(self, x: npt.NDArray[np.floating]) -> IntArray:
        """Return each record's cell."""
        return _cell(x[:, self.key], self.edges, self.usual)


def learn_columns(x: npt.NDArray[np.floating], names: Sequence[str], rng: np.random.Generator) -> list[Column]:
    """Learn every column's cells; those that are the same in other words are one, in a number's order if one is one."""
    owner = np.asarray(names)
    found: list[Column] = []
    for name in dict.fromkeys(names):
        key = np.flatnonzero(owner == name)
        edges = _edges(x[:, key])
        cells = _cell(x[:, key], edges, 0)
        same = next((place for place, other in enumerate(found) if _same(other.cell(x), cells)), None)
        if same is None:
            found.append(_column((name,), x, key, key, edges, rng))
        else:
            first = found[same]
            features, called = np.concatenate([first.features, key]), (*first.names, name)
            if first.edges is not None:
                key, edges = first.key, first.edges
            found[same] = _column(called, x, features, key, edges, rng)
    return found


def _column(
    names: tuple[str, ...],
    x: npt.NDArray[np.floating],
    features: IntArray,
    key: IntArray,
    edges: FloatArray | None,
    rng: np.random.Generator,
) -> Column:
    cells = _cell(x[:, key], edges, 0)
    counts = np.bincount(cells, minlength=len(key) if edges is None else len(edges) + 1 + (len(key) > 1))
    shares = counts / counts.sum()
    donors = np.zeros((len(counts), _DONORS, len(features)))
    for cell in range(len(counts)):
        pool = np.flatnonzero(cells == cell)
        if len(pool):
            donors[cell] = x[rng.choice(pool, _DONORS)][:, features]
    return Column(names, features, key, edges, int(counts.argmax()), shares, _places(shares, edges is None), donors)


def _edges(values: npt.NDArray[np.floating]) -> FloatArray | None:
    """Return a number's inner edges, or None for one-hot features."""
    if values.shape[1] > 1 and np.isin(values, (0.0, 1.0)).all():
        return None
    number = values[:, 0]
    own, counts = np.unique(number, return_counts=True)
    between = (own[1:] + own[:-1]) / 2
    if len(own) <= _OWN_CELLS:
        return np.asarray(between, dtype=np.float64)
    atoms = np.flatnonzero(counts > _ATOM * len(number))
    rest = number[~np.isin(number, own[atoms])]
    wanted = int(np.clip(len(rest) // _PEOPLE, 2, _OWN_CELLS))
    cuts = np.quantile(rest, np.linspace(0, 1, wanted + 1)[1:-1])
    around = [between[place] for atom in atoms for place in (atom - 1, atom) if 0 <= place < len(between)]
    # A cut falls between two values that occur, so that no value lies on an edge.
    places = np.clip(np.searchsorted(own, cuts), 1, len(own) - 1) - 1
    return np.unique(np.concatenate([around, between[places]])).astype(np.float64)


def _cell(values: npt.NDArray[np.floating], edges: FloatArray | None, usual: int) -> IntArray:
    if edges is None:
        return np.where(values.any(axis=1), values.argmax(axis=1), usual).astype(np.int64)
    cells = np.searchsorted(edges, values[:, 0])
    if values.shape[1] > 1:  # flags behind a number, such as "missing"
        cells = np.where((values[:, 1:] != 0).any(axis=1), len(edges) + 1, cells)
    return np.asarray(cells, dtype=np.int64)


def _same(one: IntArray, other: IntArray) -> bool:
    """Whether two partitions of people are the same, and say anything."""
    kinds = len(np.unique(one))
    pairs = len(np.unique(one * (int(other.max(initial=0)) + 1) + other))
    return kinds > 2 and pairs == kinds == len(np.unique(other))


def _places(shares: FloatArray, category: bool) -> FloatArray:
    """Return one-hot coordinates of categories and normal scores of numbers, centred, with total variance 1."""
    middle = np.cumsum(shares) - shares / 2
    raw = np.eye(len(shares)) if category else ndtri(np.clip(middle, 1e-4, 1 - 1e-4))[:, None]
    centred = raw - shares @ raw
    variance = float(shares @ (centred**2).sum(axis=1))
    return np.asarray(centred / np.sqrt(variance) if variance > 0 else 0 * centred, dtype=np.float64)
