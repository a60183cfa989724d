"""A certificate by counting, on held-out people, how often each code occurs with each value of u.

Symbols: p_v(c) the probability of code c for people with value v, one of K; n_v how many of them were counted; p̂_v
their observed shares; A* = (1/K) Σ_c max_v p_v(c), the balanced accuracy of the best possible observer of the code.

Â, which is A* with p̂ in place of p, is convex in every p̂_v, so that E[Â] ≥ A* (Jensen): its bias is upward and grows
with the number of codes. Exchanging one person with value v changes Â by at most 1/(K n_v). By McDiarmid's inequality
(1989), Â < E[Â] − t has probability at most exp(−2t² / Σ_v 1/(K² n_v)). Hence A* ≤ Â + √(ln(1/α) Σ_v 1/(2 K² n_v))
with probability at least 1 − α, whatever the number of codes. For K = 2, A* = (1 + TV)/2 with TV the total variation
between the codes' two distributions.

If codes are drawn at random, each person's chances of them are known before the draw. Their mean over people with value
v estimates p_v without the variance of the draw. Jensen's inequality holds as before, and exchanging a person, whose
chances sum to 1, still changes Â by at most 1/(K n_v). So the bound holds with chances instead of counts, and its bias
is smaller.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from fedveil.certificates.certificate import Certificate, at_shares
from fedveil.certificates.confidence import check_alpha
from fedveil.core.errors import InputError


def best_balanced_accuracy_bound(codes: npt.ArrayLike, u: npt.ArrayLike, values: int, alpha: float) -> float:
    """Return an upper bound on A*; for independent people it is too low with probability at most alpha.

    >>> best_balanced_accuracy_bound([0, 1] * 5000, [0, 0, 1, 1] * 2500, 2, 0.05) < 0.513
    True
    """
    check_alpha(alpha)
    code, value = np.asarray(codes), np.asarray(u)
    if code.ndim != 1 or code.shape != value.shape:
        raise InputError(f"code counts: give one code and one value per person, got {code.shape} and {value.shape}")
    if values < 2 or (len(value) and not 0 <= value.min() <= value.max() < values):
        raise InputError(f"code counts: needs at least two values of u, numbered from 0, got {values}")
    people = np.bincount(value, minlength=values)
    if (people == 0).any():
        raise InputError("code counts: a value of u has no held-out people to count; hold out more")
    distinct, row = np.unique(code, return_inverse=True)
    table = np.bincount(row * values + value, minlength=len(distinct) * values).reshape(len(distinct), values)
    return balanced_accuracy_bound_from_chances(table, alpha)


def balanced_accuracy_bound_from_chances(sums: npt.ArrayLike, alpha: float) -> float:
    """Return the same bound from a (codes, K) table: for each value, the sum of its people's chances of each code.

    A person's chances sum to 1, so that column v sums to n_v. Counts are the sums of chances that are all 0 or 1.
    """
    check_alpha(alpha)
    table = np.asarray(sums, dtype=np.float64)
    if table.ndim != 2 or table.shape[1] < 2 or not (table >= 0).all():
        raise InputError(f"code counts: give sums of chances, not negative, as (codes, values), got {table.shape}")
    people = table.sum(axis=0)
    if (people < 0.5).any():
        raise InputError("code counts: a value of u has no held-out people to count; hold out more")
    if not np.allclose(people, np.round(people), atol=1e-3):
        raise InputError("code counts: each person's chances must sum to 1, but a value's do not sum to a whole number")
    values = int(table.shape[1])
    plug_in = float((table / people).max(axis=1).sum()) / values
    slack = math.sqrt(math.log(1 / alpha) * float((1 / people).sum()) / 2) / values
    return min(1.0, plug_in + slack)


def certify_codes(
    codes: npt.ArrayLike,
    u: npt.ArrayLike,
    values: int,
    confidence: float = 0.95,
    *,
    does_not_cover: tuple[str, ...] = (),
) -> Certificate:
    """Certify the balanced accuracy of an observer who sees a person's code and nothing else, by counting codes."""
    counted = {"people counted": len(np.asarray(u)), "values": values, "codes seen": len(np.unique(np.asarray(codes)))}

    def certify(level: float) -> Certificate:
        bound = best_balanced_accuracy_bound(codes, u, values, 1 - level)
        return _certificate(bound, counted, "codes counted on", level, does_not_cover)

    return at_shares(certify, confidence)


def certify_chances(
    sums: npt.ArrayLike, confidence: float = 0.95, *, does_not_cover: tuple[str, ...] = ()
) -> Certificate:
    """Certify the same from summed chances, (codes, K), of codes that are drawn independently for each person."""
    table = np.asarray(sums, dtype=np.float64)
    counted = {
        "people counted": round(float(table.sum())),
        "values": table.shape[1],
        "codes seen": int((table.sum(axis=1) > 0).sum()),
        "draw": "a person's code is drawn from exactly these chances",
    }

    def certify(level: float) -> Certificate:
        bound = balanced_accuracy_bound_from_chances(table, 1 - level)
        return _certificate(bound, counted, "chances of codes summed over", level, does_not_cover)

    return at_shares(certify, confidence)


def _certificate(
    bound: float, counted: Mapping[str, Any], how: str, confidence: float, does_not_cover: tuple[str, ...]
) -> Certificate:
    return Certificate(
        quantity="balanced accuracy",
        bound=bound,
        direction="upper",
        assumptions={
            "people": "independent and identically distributed within each value of u",
            "map": "fixed before the people counted were drawn",
            "releases per person": 1,
            **counted,
        },
        does_not_cover=(*does_not_cover, "counts that left devices to fit the map", "people from another population"),
        method=f"{how} held-out people; Jensen and McDiarmid",
        citation="our own, from McDiarmid 1989",
        confidence=confidence,
    )
