"""How far to trust an attacker beside a counted table: blends of both, chosen half by half.

Symbols: q an attacker's posterior of s, p the table's, a the trust: (1 − a)·p + a·q. An attacker that learned from few
rows is now and then sure of the wrong value, which costs many bits; whoever holds the table, too, would trust it less.
The attacker and its trust for one half of the records are those that did best on the other half, where neither the
table nor any attacker had learned from the records it is judged by. Guarantee: none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.measures import Predictions

TRUST = (0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.995)
"""Never 1: an attacker that made no mistake on one half may be surely wrong about one person of the other, and a single
such record would cost hundreds of bits. As it is, no record costs more than 8 bits above the table's."""


def blended(found: Mapping[str, Predictions], table: FloatArray, half: IntArray) -> tuple[Predictions, str]:
    """Return the best blend for each half, as one set of predictions, and the names of its attackers.

    Args:
        found: what each attacker says of all records.
        table: (n, S), p(s | y, ŷ) for each record.
        half: 0 or 1 for each record.
    """
    first = next(iter(found.values()))
    own = np.arange(len(half)), first.codes
    said = {name: np.exp(made.log_posterior) for name, made in found.items()}
    costs = {
        (name, trust): -np.log2(np.maximum(_mixed(table, posterior, trust)[own], np.finfo(np.float64).tiny))
        for name, posterior in said.items()
        for trust in TRUST
    }
    log_posterior, balanced, names = np.empty_like(table), np.empty_like(first.codes), []
    for side in (0, 1):
        rows = half == side
        name, trust = min(costs, key=lambda choice: float(costs[choice][~rows].mean()))
        mixed = _mixed(table[rows], said[name][rows], trust)
        log_posterior[rows] = np.log(np.maximum(mixed, np.finfo(np.float64).tiny))
        balanced[rows] = found[name].balanced[rows]
        names.append(name)
    made = replace(first, balanced=balanced, plain=log_posterior.argmax(axis=1), log_posterior=log_posterior)
    return made, " and ".join(dict.fromkeys(names))


def _mixed(table: FloatArray, posterior: FloatArray, trust: float) -> FloatArray:
    return (1 - trust) * table + trust * posterior
