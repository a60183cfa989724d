"""Lower bounds on ε by counting events, as in auditing DP: what samples *can* show about an unknown mechanism.

No sample bounds ε from above, since a rare output may reveal everything. But an event that is frequent under one value
of u and rare under another proves a lower bound on ε. The event is chosen on one half of the records and counted on the
other (or on records that are given separately), so that the choice costs no validity; both rates are bounded by Clopper
and Pearson (1934). Jagielski, Ullman and Oprea (2020) audit DP-SGD in this way.

Outputs are either integer codes (events: one code) or scores, one or more columns of floats, e.g. an attacker's
log-odds (events: a column at or above, or at or below, a threshold).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedveil.certificates.confidence import check_alpha, proportion_bounds
from fedveil.core.arrays import BoolArray
from fedveil.core.errors import InputError

Records = tuple[npt.ArrayLike, npt.ArrayLike]
"""Outputs and values of the attribute, one of each per record."""

_Checked = tuple[npt.NDArray[Any], npt.NDArray[Any]]

_THRESHOLDS = 32
"""How many quantiles of each column of scores are tried as thresholds, on the half that chooses the event."""


@dataclass(frozen=True)
class EpsilonLowerBound:
    """A lower bound on ε, proved by counting at some confidence. It promises no privacy.

    Attributes:
        definition: "information privacy" or "attribute DP".
        epsilon: the lower bound, in nats; 0 if nothing was proved.
        confidence: the probability, over the draw of the records, that the true ε is at least this.
        event: the event that was counted, and the values that it distinguishes.
        records: how many records it was counted on.
        delta: δ of attribute DP, 0 for information privacy.
    """

    definition: str
    epsilon: float
    confidence: float
    event: str
    records: int
    delta: float = 0.0

    def __str__(self) -> str:
        return (
            f"ε of {self.definition} ≥ {math.floor(self.epsilon * 1000) / 1000:.3f} (lower bound at confidence "
            f"{self.confidence:.4g} by counting {self.event}; no promise that ε is not larger)"
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the bound in the form of every `--json` output."""
        return {
            "certified": False,
            "label": "lower bound by event counting",
            "definition": self.definition,
            "epsilon_at_least": self.epsilon,
            "delta": self.delta,
            "confidence": self.confidence,
            "event": self.event,
            "records": self.records,
        }


def audit_attribute_dp(
    outputs: npt.ArrayLike,
    attribute: npt.ArrayLike,
    generator: np.random.Generator,
    *,
    delta: float = 0.0,
    confidence: float = 0.95,
    counted_on: Records | None = None,
) -> EpsilonLowerBound:
    """Bound from below the ε of (ε, δ)-ADP: ε ≥ ln((P(E|u) − δ)/P(E|u′)).

    With `counted_on`, the event is chosen on all of `outputs` and counted on the records of `counted_on`.
    Guarantee: for independent records, the result exceeds the true ε with probability at most 1 − confidence.
    """
    alpha = (1.0 - confidence) / 2.0
    check_alpha(alpha)
    if not 0.0 <= delta < 1.0:
        raise InputError(f"audit: delta must lie in [0, 1), got {delta}")

    def rates(event: BoolArray, labels: npt.NDArray[Any], values: npt.NDArray[Any]) -> list[tuple[float, float]]:
        by_value = [event[labels == value] for value in values]
        return [proportion_bounds(int(inside.sum()), len(inside), alpha) for inside in by_value]

    choosing, counting = _parts(outputs, attribute, generator, counted_on)
    values = np.unique(choosing[1])
    pairs = [(u, other) for u in range(len(values)) for other in range(len(values)) if u != other]
    best = max(
        (
            (_log_ratio(likely[u][0] - delta, likely[other][1]), rule, u, other)
            for event, rule in _events(choosing[0])
            for likely in [rates(event, choosing[1], values)]
            for u, other in pairs
        ),
        key=lambda candidate: candidate[0],
        default=None,
    )
    if best is None:
        raise InputError("audit: needs records of at least two values of the attribute in either half; add records")
    _, rule, *pair = best
    u, other = (values[index] for index in pair)
    (likely, _), (_, unlikely) = rates(rule.holds(counting[0]), counting[1], values[pair])
    epsilon = max(0.0, _log_ratio(likely - delta, unlikely))
    return EpsilonLowerBound(
        "attribute DP", epsilon, confidence, f"{rule} for u = {u} against u = {other}", len(counting[1]), delta
    )


def audit_information_privacy(
    outputs: npt.ArrayLike,
    attribute: npt.ArrayLike,
    generator: np.random.Generator,
    *,
    confidence: float = 0.95,
    counted_on: Records | None = None,
) -> EpsilonLowerBound:
    """Bound from below the ε of information privacy: ε ≥ |ln P(u|E)/P(u)|, an average of the ratios inside E.

    With `counted_on`, the event is chosen on all of `outputs` and counted on the records of `counted_on`.
    Guarantee: for independent records, the result exceeds the true ε with probability at most 1 − confidence.
    """
    alpha = (1.0 - confidence) / 2.0
    check_alpha(alpha)

    def proved(event: BoolArray, labels: npt.NDArray[Any], value: object, more: bool) -> float:
        chosen = labels == value
        after = proportion_bounds(int((chosen & event).sum()), int(event.sum()), alpha)
        before = proportion_bounds(int(chosen.sum()), len(chosen), alpha)
        return _log_ratio(after[0], before[1]) if more else _log_ratio(before[0], after[1])

    choosing, counting = _parts(outputs, attribute, generator, counted_on)
    best = max(
        (
            (proved(event, choosing[1], u, more), rule, u, more)
            for event, rule in _events(choosing[0])
            for u in np.unique(choosing[1])
            for more in (True, False)
        ),
        key=lambda candidate: candidate[0],
    )
    _, rule, u, more = best
    epsilon = max(0.0, proved(rule.holds(counting[0]), counting[1], u, more))
    direction = "more" if more else "less"
    event = f"{rule}, which makes u = {u} {direction} likely"
    return EpsilonLowerBound("information privacy", epsilon, confidence, event, len(counting[1]))


@dataclass(frozen=True)
class _Rule:
    """An event as a rule: a code, or a column of scores on one side of a threshold."""

    column: int
    sign: str
    level: float

    def holds(self, outputs: npt.NDArray[Any]) -> BoolArray:
        column = outputs[:, self.column]
        if self.sign == "=":
            return np.asarray(column == self.level)
        return np.asarray(column >= self.level if self.sign == "≥" else column <= self.level)

    def __str__(self) -> str:
        return f"output[{self.column}] {self.sign} {self.level:.6g}"


def _events(outputs: npt.NDArray[Any]) -> Iterator[tuple[BoolArray, _Rule]]:
    """Yield candidate events, derived only from the records on which the event is chosen."""
    for column in range(outputs.shape[1]):
        if outputs.dtype.kind in "iub":
            rules = [_Rule(column, "=", int(code)) for code in np.unique(outputs[:, column])]
        else:
            levels = np.unique(np.quantile(outputs[:, column], np.linspace(0.0, 1.0, _THRESHOLDS + 2)[1:-1]))
            rules = [_Rule(column, sign, float(level)) for level in levels for sign in ("≥", "≤")]
        for rule in rules:
            yield rule.holds(outputs), rule


def _parts(
    outputs: npt.ArrayLike, attribute: npt.ArrayLike, generator: np.random.Generator, counted_on: Records | None
) -> tuple[_Checked, _Checked]:
    """Return the records that choose the event and those that count it: random halves, unless given separately."""
    rows, labels = _checked(outputs, attribute)
    if counted_on is not None:
        counted = _checked(*counted_on)
        if counted[0].shape[1] != rows.shape[1] or counted[0].dtype.kind != rows.dtype.kind:
            raise InputError("audit: the records to choose on and those to count on need outputs of the same form")
        return (rows, labels), counted
    order = generator.permutation(len(labels))
    first, second = order[: len(order) // 2], order[len(order) // 2 :]
    return (rows[first], labels[first]), (rows[second], labels[second])


def _checked(outputs: npt.ArrayLike, attribute: npt.ArrayLike) -> _Checked:
    rows, labels = np.asarray(outputs), np.asarray(attribute)
    rows = rows[:, None] if rows.ndim == 1 else rows
    if rows.ndim != 2 or labels.ndim != 1 or len(rows) != len(labels) or len(labels) < 4:
        raise InputError("audit: needs one row of outputs and one value of the attribute per record, 4 records or more")
    if rows.dtype.kind not in "iubf" or (rows.dtype.kind == "f" and not np.isfinite(rows).all()):
        raise InputError("audit: outputs must be integer codes or finite scores")
    return rows, labels


def _log_ratio(likely: float, unlikely: float) -> float:
    return math.log(likely / unlikely) if likely > 0.0 and unlikely > 0.0 else -math.inf
