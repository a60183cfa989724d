"""Where limits lie midway between standard and curious classifiers: how `fedveil.audit.calibration` got its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Member = dict[str, Any]


def midway(members: Sequence[Member], tells: float) -> dict[str, float | None]:
    """Return the limits that members lead to, with the ends that they lie between; None where there are none.

    `share`: the geometric mean of the highest upper end of a standard classifier's interval and the lowest lower end
    of a curious one's (as many times above the one as below the other), of those whose score cannot rule out values
    of a correlated y (two values, or ρ = I(s; y)/H(s) below `tells`). `ruled_out`: the same for (end − share)/ρ, of the
    others. Failed attempts have no part in it.
    """
    others = [one for one in members if _can_rule_out(one, tells)]
    plain = [one for one in members if not _can_rule_out(one, tells)]
    standard, curious = _ends(plain, lambda end, _: end)
    share = None if standard is None or curious is None else _mean(standard, curious)
    found = {"standard": standard, "curious": curious, "share": share, "ruled_out": None}
    if share is not None:
        base = share
        low, high = _ends(others, lambda end, told: (end - base) / told)
        found |= {"ruled_out_standard": low, "ruled_out_curious": high}
        found["ruled_out"] = None if low is None or high is None else _mean(low, high)
    return found


def _mean(low: float, high: float) -> float:
    return float((max(low, 0.0) * max(high, 0.0)) ** 0.5)


def _told(one: Member) -> float:
    labels = one["audits"][0]["explained"]
    return float(labels["by_target_bits"]["estimate"] / labels["entropy_bits"])


def _can_rule_out(one: Member, tells: float) -> bool:
    return bool(one["audits"][0]["explained"]["target_values"] > 2 and _told(one) >= tells)


def _ends(members: Sequence[Member], scale: Any) -> tuple[float | None, float | None]:
    standard = [scale(one["audits"][0]["share"]["high"], _told(one)) for one in members if one["label"] == "standard"]
    curious = [scale(one["audits"][0]["share"]["low"], _told(one)) for one in members if one["label"] == "curious"]
    return max(standard, default=None), min(curious, default=None)
