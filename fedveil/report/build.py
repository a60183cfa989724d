"""Build: a study's results as one HTML page that needs nothing but itself.

The page's scripts are named by their hashes in its Content-Security-Policy, which forbids every other script and every
connection. What comes from the study stands in a block of JSON, escaped, and is only ever shown as text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import math
import re
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedveil import __version__
from fedveil.core.errors import InputError
from fedveil.core.files import write_atomically
from fedveil.report.chosen import recommended_point, undefended_point
from fedveil.report.gather import gather
from fedveil.report.marks import COLOURS, marks
from fedveil.report.pack import escaped_json, pack
from fedveil.report.settings import Setting, settings_of
from fedveil.report.sound import attributes_of, pair_of, tasks_of
from fedveil.report.training import LOSS_VALUES, losses, maps
from fedveil.report.words import Sentence, say
from fedveil.studies.frontier import Point
from fedveil.studies.results import StudyResults

MOST_BYTES = 6_000_000
"""A page stays below this; more than four fifths of it are the charts' library."""


def write_report(results: StudyResults, out: str | Path | None = None) -> Path:
    """Write a study's page, by default report.html in its folder, and return where it is."""
    path = results.folder / "report.html" if out is None else Path(out)
    if path.is_dir():
        raise InputError(f"{path}: is a directory; name a file with --out")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no directory {path.parent}; make it first")
    write_atomically(path, page(results))
    return path


def page(results: StudyResults) -> str:
    """Return the whole page; what would make it too large is thinned out: curves, and attackers' lesser figures."""
    data = page_data(results)
    whole = _assembled(results, data, escaped_json(pack(data)))
    if len(whole.encode()) < MOST_BYTES:
        return whole
    data["losses"] = losses(settings_of(results), LOSS_VALUES // 5)
    return _assembled(results, data, escaped_json(pack(data, brief=True)))


def _assembled(results: StudyResults, data: dict[str, Any], packed: str) -> str:
    first: Sequence[Sentence] = [Sentence(*one) for row in data["words"][:1] for words in row[:1] for one in words]
    words = " ".join(f'<span class="about-{one.about}">{html.escape(one.text)}</span>' for one in first)
    library, code = _plotly(), f"{_own('charts.js')}\n{_own('page.js')}"
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(code)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "version": html.escape(__version__),
        "title": html.escape(f"{results.name}: attribute privacy report"),
        "name": html.escape(results.name),
        "description": html.escape(str(results.study.get("description") or "")),
        "style": _own("style.css"),
        "partial": _partial_note(data),
        "words": words or "No cell of this study is finished yet.",
        "data": packed,
        "plotly": library,
        "code": code,
    }
    return re.sub(r"%%(\w+)%%", lambda found: parts[found[1]], _own("page.html"))


def page_data(results: StudyResults) -> dict[str, Any]:
    """Return everything that the page shows, as plain values."""
    settings, attributes = settings_of(results), attributes_of(results)
    pairs = [[pair_of(results, task, attribute) for attribute in attributes] for task in tasks_of(results)]
    data = gather(results, pairs, attributes)
    data["words"] = [[[list(sentence) for sentence in say(results, pair)] for pair in row] for row in pairs]
    data["free"] = [[_place(settings, undefended_point(results, pair)) for pair in row] for row in pairs]
    best = [_place(settings, recommended_point(results, pair)) for row in pairs for pair in row]
    free = [index for row in data["free"] for index in row]
    figured = [i for row in data["views"] for view in row for i, point in enumerate(view["points"]) if point]
    data["start"] = next(i for i in [*best, *free, *figured, 0] if i is not None)
    one_each = {setting.method: i for i, setting in reversed(list(enumerate(settings))) if setting.cells}
    fronts = [index for row in data["views"] for view in row for index in _spread(view["front"])]
    wanted = [i for i in [*best, *free, *one_each.values(), *fronts] if i is not None]
    data["losses"] = losses(settings)
    data["maps"] = maps(results, settings, wanted, attributes)
    data["palette"] = [list(pair) for pair in COLOURS]
    data["value_marks"] = [mark._asdict() for mark in marks([f"value {k}" for k in range(12)]).values()]
    data["made_by"] = __version__
    return data


def _place(settings: Sequence[Setting], point: Point | None) -> int | None:
    if point is None:
        return None
    return next(i for i, one in enumerate(settings) if (one.method, one.strength) == (point.method, point.strength))


def _spread(front: Sequence[int], most: int = 8) -> list[int]:
    """Return a few of a long front, evenly."""
    step = max(1, math.ceil(len(front) / most))
    return list(front[::step])


def _partial_note(data: dict[str, Any]) -> str:
    lost = data["planned"] - data["finished"]
    lacking = len({i for row in data["views"] for view in row for i, why in enumerate(view["missing"]) if why})
    if not lost and not lacking:
        return ""
    what = f"{data['finished']} of {data['planned']} planned cells are finished"
    more = f"; {lacking} {'setting lacks' if lacking == 1 else 'settings lack'} figures" if lacking else ""
    return (
        f'<p class="partial" role="status"><strong>PARTIAL</strong> {what}{more}. What is missing is marked below.</p>'
    )


def _own(name: str) -> str:
    return files("fedveil.report").joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError("reports need plotly; install it: pip install 'fedveil[report]'") from None
    return str(get_plotlyjs()).replace("\r\n", "\n")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
