"""Figures in compact form: [estimate, low, high], four digits, None where there is none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from fedveil.studies.rows import averaged

Figure = list[float]


def number(value: Any) -> float | None:
    """Return a figure rounded to four digits, or None where it is none.

    >>> number(0.123456), number(float("nan")), number(None)
    (0.1235, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return round(float(value), 4)


def figure(value: Any) -> Figure | None:
    """Return an estimate's [estimate, low, high], or None where it is missing; a missing end is the estimate itself.

    >>> figure({"estimate": 0.8, "low": 0.75, "high": None}), figure({"estimate": None})
    ([0.8, 0.75, 0.8], None)
    """
    middle = number(value.get("estimate")) if isinstance(value, Mapping) else None
    if middle is None:
        return None
    ends = [number(value.get(end)) for end in ("low", "high")]
    return [middle, *(middle if end is None else end for end in ends)]


def mean_figure(values: Iterable[Any], within: tuple[float, float] | None = None) -> Figure | None:
    """Return the mean over seeds, its interval as in a study's rows; None where no seed has a figure."""
    known = [one for one in map(figure, values) if one is not None]
    if len(known) < 2:
        return known[0] if known else None
    named = [dict(zip(("estimate", "low", "high"), one, strict=True)) for one in known]
    return figure(averaged(named, within).as_dict())


def known_certificates(result: Any, attribute: str) -> list[Mapping[str, Any]]:
    """Return a cell's certificates about an attribute, those that state a finite bound on a named quantity.

    >>> known_certificates({"certificates": {"sex": [{"certified": True}, "?"]}}, "sex")
    []
    """
    found = inside(result, "certificates", attribute)
    return [
        one
        for one in (found if isinstance(found, list) else [])
        if inside(one, "certified") is True
        and number(inside(one, "bound")) is not None
        and isinstance(inside(one, "quantity"), str)
        and inside(one, "direction") in ("upper", "lower")
        and isinstance(inside(one, "assumptions"), Mapping)
        and isinstance(inside(one, "does_not_cover"), list)
        and all(isinstance(inside(one, part), str) for part in ("method", "citation"))
    ]


def inside(value: Any, *path: str) -> Any:
    """Return what stands at a path of keys, or None.

    >>> inside({"a": {"b": 1}}, "a", "b"), inside({"a": None}, "a", "b")
    (1, None)
    """
    for key in path:
        if not isinstance(value, Mapping) or key not in value:
            return None
        value = value[key]
    return value
