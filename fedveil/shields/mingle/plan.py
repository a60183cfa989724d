"""Which records to change into which, so that what is shown reveals least: a linear programme."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array, vstack

from fedveil.core.arrays import BoolArray, FloatArray
from fedveil.core.errors import InputError

_THRIFT = 1e-6
"""Weight of the cost: of two plans that reveal equally little, the cheaper one is chosen."""


@dataclass(frozen=True, eq=False)
class Plan:
    """Chances, and their predicted effect on the people who were counted.

    Attributes:
        chances: (S, C, O), the chance of showing o for a record in cell c of stratum s; each row sums to 1.
        before, after: balanced accuracy of the best guess of u from stratum and output.
        spent: the mean cost.
    """

    chances: FloatArray
    before: float
    after: float
    spent: float


def plan(shares: FloatArray, people: FloatArray, cost: FloatArray, revealing: BoolArray, budget: float) -> Plan:
    """Minimise over K(o | s, c) the balanced accuracy of the best guess of u, at a mean cost of at most `budget`.

    With q_u(s, o) = Σ_c p_u(s, c) K(o | s, c), the best guess is right for Σ_{s,o} max_u q_u(s, o) / U; an output that
    is `revealing` counts Σ_u instead, as if it gave u away. Both are linear once max is a variable above each q_u, so
    the programme finds the best possible K. K does not depend on u.

    Args:
        shares: p_u(s, c), shape (U, S, C); sums to 1 for each u.
        people: p(s, c), the share of all people, shape (S, C).
        cost: c(s, c, o), shape (S, C, O); infinite if a cell cannot be shown as o. Staying costs 0.
        revealing: which outputs give u away, shape (O,).
        budget: the mean cost Σ p(s, c) K c.

    Two cells with one value of u each, one stratum, and half the budget needed to move all people of one cell over:

    >>> apart = np.eye(2)[:, None, :]
    >>> best = plan(apart, np.array([[0.9, 0.1]]), 1 - np.eye(2)[None], np.zeros(2, bool), 0.05)
    >>> best.before, round(best.after, 3), round(best.spent, 3)
    (1.0, 0.75, 0.05)
    """
    values, strata, cells = shares.shape
    outputs = cost.shape[2]
    s, c, o = np.nonzero(np.isfinite(cost) & (people > 0)[:, :, None])
    moves, maxima = len(s), strata * outputs
    price = people[s, c] * cost[s, c, o]
    concealing = ~revealing[o]
    rows, columns, entries = [], [], []
    for u in range(values):  # q_u(s, o) − t(s, o) ≤ 0
        rows += [u * maxima + (s * outputs + o)[concealing], u * maxima + np.arange(maxima)]
        columns += [np.flatnonzero(concealing), moves + np.arange(maxima)]
        entries += [shares[u, s, c][concealing], np.full(maxima, -1.0)]
    limits = coo_array(
        (np.concatenate(entries), (np.concatenate(rows), np.concatenate(columns))),
        shape=(values * maxima, moves + maxima),
    )
    spending = coo_array((price, (np.zeros(moves, np.int64), np.arange(moves))), shape=(1, moves + maxima))
    cell = np.unique(s * cells + c, return_inverse=True)[1]
    whole = coo_array((np.ones(moves), (cell, np.arange(moves))), shape=(int(cell.max()) + 1, moves + maxima))
    revealed = np.where(revealing[o], shares[:, s, c].sum(axis=0), 0.0)
    solution = linprog(
        np.concatenate([revealed + _THRIFT * price, np.ones(maxima)]),
        A_ub=vstack([limits, spending]).tocsr(),
        b_ub=np.concatenate([np.zeros(values * maxima), [budget]]),
        A_eq=whole.tocsr(),
        b_eq=np.ones(whole.shape[0]),
        bounds=(0, None),
        method="highs",
    )
    if solution.x is None:
        raise InputError(f"mingle: no plan was found within a budget of {budget}: {solution.message}")
    chances = np.zeros((strata, cells, outputs))
    chances[s, c, o] = np.clip(solution.x[:moves], 0.0, None)
    empty = chances.sum(axis=2) == 0  # a cell that nobody was in is left unchanged, if that costs nothing
    chances[empty] = (cost[empty] == cost[empty].min(axis=1, keepdims=True)).astype(np.float64)
    chances /= chances.sum(axis=2, keepdims=True)
    stays = (cost == cost.min(axis=2, keepdims=True)).astype(np.float64)
    stays /= stays.sum(axis=2, keepdims=True)
    spent = float((people[:, :, None] * chances * np.where(np.isfinite(cost), cost, 0.0)).sum())
    return Plan(chances, best_guess(shares, stays, revealing), best_guess(shares, chances, revealing), spent)


def best_guess(shares: FloatArray, chances: FloatArray, revealing: BoolArray) -> float:
    """Return the balanced accuracy of the best guess of u from stratum and output."""
    shown = np.einsum("usc,sco->uso", shares, chances)
    right = np.where(revealing, shown.sum(axis=0), shown.max(axis=0))
    return float(right.sum() / len(shares))
