"""Pack: a page's data in little space. Names and rounds that repeat stand once; figures stand in lists without names.

`unpack` in page.js is the other half.
"""

from __future__ import annotations

import json
import math
from typing import Any

from fedveil.certificates.certificate import Certificate

Named = dict[str, int]


def pack(data: dict[str, Any], *, brief: bool = False) -> dict[str, Any]:
    """Return the data packed; a brief page leaves out the attackers' AUC and information."""
    strings: Named = {}
    packed = dict(data) | {"theorems": THEOREMS}
    packed["views"] = [
        [view | {"points": [point and _point(point, strings) for point in view["points"]]} for view in row]
        for row in data["views"]
    ]
    packed["attackers"] = [
        [[_attacker(one, strings, brief) for one in each] for each in by_setting] for by_setting in data["attackers"]
    ]
    packed["certificates"] = [
        [[_certificate(one, strings) for one in each] for each in by_setting] for by_setting in data["certificates"]
    ]
    packed["theory"] = [
        [one and one | {"settings": [each and _theorems(each) for each in one["settings"]]} for one in row]
        for row in data["theory"]
    ]
    rounds: Named = {}
    packed["losses"] = [
        [[run["seed"], [_curve(curve, strings, rounds) for curve in run["curves"]]] for run in runs]
        for runs in data["losses"]
    ]
    packed["rounds"] = [json.loads(one) for one in rounds]
    packed["strings"] = list(strings)
    return packed


def escaped_json(value: Any) -> str:
    """Return compact JSON that may stand inside a script element: no <, > or &, nothing but ASCII, no NaN.

    >>> escaped_json({"a": "</script>", "b": float("nan")})
    '{"a":"\\\\u003c/script\\\\u003e","b":null}'
    """
    text = json.dumps(_plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _point(point: dict[str, Any], strings: Named) -> list[Any]:
    told = [point["utility"], point["leakage"], _place(strings, point["attacker"]), _short(point["bits"])]
    return [*told, point["each"]]


def _attacker(one: dict[str, Any], strings: Named, brief: bool) -> list[Any]:
    told = [_place(strings, one["name"]), _place(strings, one["kind"]), one["chosen"], one["balanced_accuracy"]]
    return told if brief else [*told, _short(one["auc"]), _short(one["bits"])]


def _curve(curve: dict[str, Any], strings: Named, rounds: Named) -> list[Any]:
    return [_place(strings, curve["name"]), _place(rounds, json.dumps(curve["x"])), curve["y"]]


def _certificate(one: dict[str, Any], strings: Named) -> list[Any]:
    named = {key: one[key] for key in Certificate.__dataclass_fields__ if key in one}
    return [
        _place(strings, one["quantity"]),
        "≤" if one["direction"] == "upper" else "≥",
        Certificate(**named).rounded(),
        one.get("confidence"),
        [[_place(strings, key), _place(strings, _shown(value))] for key, value in one["assumptions"].items()],
        [_place(strings, text) for text in one["does_not_cover"]],
        _place(strings, f"{one['method']}. {one['citation']}."),
    ]


THEOREMS = (
    "advantage",
    "accuracy",
    "error",
    "error_corrected",
    "error_printed",
    "error_certified",
    "equivocation",
    "accuracy_corrected",
    "accuracy_printed",
    "accuracy_certified",
)
"""A setting's figures for the theorems, in the order in which they are packed."""


def _theorems(each: dict[str, Any]) -> list[Any]:
    figures = [each[name] for name in THEOREMS]
    return [_short(one) if isinstance(one, list) else one for one in figures]


def _place(named: Named, text: object) -> int:
    return named.setdefault(str(text), len(named))


def _short(figure: list[float] | None) -> list[float] | None:
    return figure and [round(value, 3) for value in figure]


def _shown(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(_shown, value)) if isinstance(value, list) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
