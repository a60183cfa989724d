"""Which records to change into which, so that those who know what is shown know least: a linear programme."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack

from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError

BoolArray = npt.NDArray[np.bool_]

_THRIFT = 1e-6
"""Of two plans that tell as little the cheaper one is taken."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Chances, and what they were reckoned to do on the people counted.

    Attributes:
        chances: (S, C, O), of showing o for a record in cell c of stratum s; each row sums to 1.
        before, after: balanced accuracy of the best guess of u from stratum and output.
        spent: mean cost.
    """

    chances: FloatArray
    before: float
    after: float
    spent: float


def plan(shares: FloatArray, people: FloatArray, cost: FloatArray, told: BoolArray, budget: float) -> Plan:
    """Minimise over K(o | s, c) the balanced accuracy of the best guess of u, at a mean cost of at most `budget`.

    Of q_u(s, o) = Σ_c p_u(s, c) K(o | s, c) the best guess is right for Σ_{s,o} max_u q_u(s, o) / U; an output that is
    `told` counts Σ_u instead, as if it gave u away. Both are linear once max is a variable above each q_u, so the
    programme finds the best K there is. K does not depend on u.

    Args:
        shares: p_u(s, c), shape (U, S, C); sums to 1 for each u.
        people: p(s, c), the share of all people, shape (S, C).
        cost: c(s, c, o), shape (S, C, O); infinite where a cell cannot be shown as o. Staying costs 0.
        told: which outputs give u away, shape (O,).
        budget: the mean cost Σ p(s, c) K c.

    Two cells that one value of u each is in, one stratum, and half a unit of cost for moving one of them over:

    >>> apart = np.eye(2)[:, None, :]
    >>> made = plan(apart, np.array([[0.9, 0.1]]), 1 - np.eye(2)[None], np.zeros(2, bool), 0.05)
    >>> made.before, round(made.after, 3), round(made.spent, 3)
    (1.0, 0.75, 0.05)
    """
    values, strata, cells = shares.shape
    outputs = cost.shape[2]
    s, c, o = np.nonzero(np.isfinite(cost) & (people > 0)[:, :, None])
    moves, places = len(s), strata * outputs
    price = people[s, c] * cost[s, c, o]
    kept = ~told[o]
    rows, columns, entries = [], [], []
    for u in range(values):  # q_u(s, o) − t(s, o) ≤ 0
        rows += [u * places + (s * outputs + o)[kept], u * places + np.arange(places)]
        columns += [np.flatnonzero(kept), moves + np.arange(places)]
        entries += [shares[u, s, c][kept], np.full(places, -1.0)]
    limits = coo_array(
        (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))),
        shape=(values * places, moves + places),
    )
    spending = coo_array((price, (np.zeros(moves, np.int64), np.arange(moves))), shape=(1, moves + places))
    cell = np.unique(s * cells + c, return_inverse=True)[1]
    whole = coo_array((np.ones(moves), (cell, np.arange(moves))), shape=(int(cell.max()) + 1, moves + places))
    tells = np.where(told[o], shares[:, s, c].sum(axis=0), 0.0)
    found = linprog(
        np.concatenate([tells + _THRIFT * price, np.ones(places)]),
        A_ub=vstack([limits, spending]).tocsr(),
        b_ub=np.concatenate([np.zeros(values * places), [budget]]),
        A_eq=whole.tocsr(),
        b_eq=np.ones(whole.shape[0]),
        bounds=(0, None),
        method="highs",
    )
    if found.x is None:
        raise InputError(f"mingle: no plan was found within a budget of {budget}: {found.message}")
    chances = np.zeros((strata, cells, outputs))
    chances[s, c, o] = np.clip(found.x[:moves], 0.0, None)
    empty = chances.sum(axis=2) == 0  # a cell that nobody counted was in: it stays, where that costs nothing
    chances[empty] = (cost[empty] == cost[empty].min(axis=1, keepdims=True)).astype(np.float64)
    chances /= chances.sum(axis=2, keepdims=True)
    stays = (cost == cost.min(axis=2, keepdims=True)).astype(np.float64)
    stays /= stays.sum(axis=2, keepdims=True)
    spent = float((people[:, :, None] * chances * np.where(np.isfinite(cost), cost, 0.0)).sum())
    return Plan(chances, best_guess(shares, stays, told), best_guess(shares, chances, told), spent)


def best_guess(shares: FloatArray, chances: FloatArray, told: BoolArray) -> float:
    """Return the balanced accuracy of whoever guesses u best from stratum and output."""
    shown = np.einsum("usc,sco->uso", shares, chances)
    right = np.where(told, shown.sum(axis=0), shown.max(axis=0))
    return float(right.sum() / len(shares))
