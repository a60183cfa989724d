"""Pack: a page's data as compact JSON. Repeated names and rounds are stored once; figures are lists without names.

`unpack` in page.js is the other half.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from fedveil import __version__
from fedveil.report.certified import Contradiction
from fedveil.report.figures import Figure, figure, number
from fedveil.report.gather import CellState, PageData, PairView, ShownAttacker, ShownPoint
from fedveil.report.losses import Curve
from fedveil.report.marks import COLOURS, VALUE_MARKS
from fedveil.report.theory import Theorems, TheoryTable
from fedveil.report.tsne import Maps
from fedveil.studies.model import StatedCertificate


class Names:
    """Texts that the page stores once, and refers to by number."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text, which is added if it is new."""
        return self.numbers.setdefault(text, len(self.numbers))


def pack(page: PageData, *, brief: bool = False) -> dict[str, Any]:
    """Return the page's data as plain JSON values; a brief page leaves out the attackers' AUC and information."""
    strings, rounds, figures = Names(), Names(), page.figures
    packed: dict[str, Any] = {
        "name": figures.name,
        "complete": figures.complete,
        "planned": figures.planned,
        "finished": figures.finished,
        "tasks": figures.tasks,
        "attributes": figures.attributes,
        "methods": [{"name": name, **mark._asdict()} for name, mark in figures.methods.items()],
        "settings": [
            {**asdict(setting), "cells": [_state(cell) for cell in setting.cells]} for setting in figures.settings
        ],
        "views": [[_view(view, strings) for view in row] for row in figures.views],
        "attackers": [
            [[_attacker(attacker, strings, brief) for attacker in attackers] for attackers in by_setting]
            for by_setting in figures.attackers
        ],
        "groups": [[asdict(groups) for groups in row] for row in figures.groups],
        "certificates": [
            [[_certificate(certificate, strings) for certificate in certificates] for certificates in by_setting]
            for by_setting in figures.certificates
        ],
        "theory": [[None if table is None else _theory(table) for table in row] for row in figures.theory],
        "theorems": Theorems._fields,
        "contradictions": [
            [[_contradiction(case) for case in cases] for cases in by_setting] for by_setting in figures.contradictions
        ],
        "run": asdict(figures.run),
        "words": page.words,
        "free": page.free,
        "start": page.start,
        "losses": [
            [[seed.seed, [_curve(curve, strings, rounds) for curve in seed.curves]] for seed in seeds]
            for seeds in page.losses
        ],
        "maps": _maps(page.maps),
        "palette": COLOURS,
        "value_marks": [mark._asdict() for mark in VALUE_MARKS],
        "made_by": __version__,
    }
    return packed | {"rounds": [json.loads(listed) for listed in rounds.numbers], "strings": list(strings.numbers)}


def escaped_json(value: Any) -> str:
    """Return compact JSON that may stand inside a script element: no <, > or &, nothing but ASCII, no NaN.

    >>> escaped_json({"a": "</script>", "b": float("nan")})
    '{"a":"\\\\u003c/script\\\\u003e","b":null}'
    """
    text = json.dumps(_plain(value), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _state(cell: CellState) -> dict[str, Any]:
    return {key: value for key, value in asdict(cell).items() if value is not None}


def _view(view: PairView, strings: Names) -> dict[str, Any]:
    return {
        "points": [None if point is None else _point(point, strings) for point in view.points],
        "cotrained": view.cotrained,
        "missing": view.missing,
        "bounds": view.bounds,
        "front": view.front,
        **({"baseline": None} if view.lines is None else asdict(view.lines)),
    }


def _point(point: ShownPoint, strings: Names) -> list[Any]:
    start = [point.utility, point.leakage, strings.number(point.attacker), _short(point.bits), point.each]
    return start if point.new_seed is None else [*start, _short(point.new_seed)]


def _attacker(attacker: ShownAttacker, strings: Names, brief: bool) -> list[Any]:
    name, kind = strings.number(attacker.name), strings.number(attacker.kind)
    packed = [name, kind, attacker.chosen, attacker.balanced_accuracy]
    return packed if brief else [*packed, _short(attacker.auc), _short(attacker.bits)]


def _curve(curve: Curve, strings: Names, rounds: Names) -> list[Any]:
    return [strings.number(curve.name), rounds.number(json.dumps(curve.rounds)), curve.losses]


def _certificate(certificate: StatedCertificate, strings: Names) -> list[Any]:
    return [
        strings.number(certificate.quantity),
        "≤" if certificate.direction == "upper" else "≥",
        certificate.rounded(),
        None if certificate.confidence is None else round(certificate.confidence, 6),
        [[strings.number(name), strings.number(_text(value))] for name, value in certificate.assumptions.items()],
        [strings.number(text) for text in certificate.does_not_cover],
        strings.number(f"{certificate.method}. {certificate.citation}."),
    ]


def _contradiction(case: Contradiction) -> list[Any]:
    return [case.quantity, number(case.bound), case.attacker, case.seed, figure(case.read)]


def _theory(table: TheoryTable) -> dict[str, Any]:
    settings = [
        theorems and [_short(shown) if isinstance(shown, Figure) else shown for shown in theorems]
        for theorems in table.settings
    ]
    return {"gap": table.gap, "entropy": table.entropy, "values": table.values, "settings": settings}


def _maps(maps: Maps) -> dict[str, Any]:
    """Return the maps; if people's raw inputs are mapped, their codes are stored only there."""
    raw = {str(seed): {"places": people.places, "codes": people.codes} for seed, people in maps.raw.items()}
    released = [
        people
        and {"seed": people.seed, "places": people.places}
        | ({} if people.seed in maps.raw else {"codes": people.codes})
        for people in maps.released
    ]
    return {"released": released, "raw": raw, "first": maps.first, "values": maps.values}


def _short(shown: Figure | None) -> list[float] | None:
    return shown and [round(value, 3) for value in shown]


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return ", ".join(map(_text, value)) if isinstance(value, list) else str(value)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
