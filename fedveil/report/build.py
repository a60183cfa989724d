"""Build: a study's results as one self-contained HTML page.

The page's Content-Security-Policy names its scripts by their hashes, and forbids every other script and every
connection. What comes from the study is stored in a block of escaped JSON, and is only ever shown as text.
"""

from __future__ import annotations

import base64
import hashlib
import html
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from fedveil import __version__
from fedveil.core.errors import InputError
from fedveil.core.files import write_atomically
from fedveil.report.gather import PageData, StudyFigures, page_data
from fedveil.report.losses import LOSS_VALUES, losses
from fedveil.report.pack import escaped_json, pack
from fedveil.report.settings import settings_of
from fedveil.studies.results import StudyResults

MOST_BYTES = 6_000_000
"""A page stays below this; more than four fifths of it are the charts' library."""


def write_report(results: StudyResults, out: str | Path | None = None) -> Path:
    """Write the page of a study, by default report.html in its folder, and return its path."""
    path = results.folder / "report.html" if out is None else Path(out)
    if path.is_dir():
        raise InputError(f"{path}: is a directory; name a file with --out")
    if not path.parent.is_dir():
        raise InputError(f"{path}: no directory {path.parent} exists; create it first")
    write_atomically(path, page(results))
    return path


def page(results: StudyResults) -> str:
    """Return the whole page; if it is too large, curves are thinned and attackers' minor figures are left out."""
    data = page_data(results)
    whole = _assembled(results, data, escaped_json(pack(data)))
    if len(whole.encode()) < MOST_BYTES:
        return whole
    data = replace(data, losses=losses(settings_of(results), LOSS_VALUES // 5))
    return _assembled(results, data, escaped_json(pack(data, brief=True)))


def _assembled(results: StudyResults, data: PageData, packed: str) -> str:
    first = [sentence for row in data.words[:1] for words in row[:1] for sentence in words]
    words = " ".join(f'<span class="about-{about}">{html.escape(text)}</span>' for about, text in first)
    library, code = _plotly(), f"{_file('charts.js')}\n{_file('page.js')}"
    policy = (
        f"default-src 'none'; script-src {_hash(library)} {_hash(code)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "version": html.escape(__version__),
        "title": html.escape(f"{results.name}: attribute privacy report"),
        "name": html.escape(results.name),
        "description": html.escape(results.facts.description),
        "style": _file("style.css"),
        "partial": _partial_note(data.figures),
        "words": words or "No cell of this study is finished yet.",
        "data": packed,
        "plotly": library,
        "code": code,
    }
    return re.sub(r"%%(\w+)%%", lambda field: parts[field[1]], _file("page.html"))


def _partial_note(figures: StudyFigures) -> str:
    lost = figures.planned - figures.finished
    lacking = len({i for row in figures.views for view in row for i, why in enumerate(view.missing) if why})
    if not lost and not lacking:
        return ""
    what = f"{figures.finished} of {figures.planned} planned cells are finished"
    more = f"; {lacking} {'setting lacks' if lacking == 1 else 'settings lack'} figures" if lacking else ""
    return (
        f'<p class="partial" role="status"><strong>PARTIAL</strong> {what}{more}. What is missing is marked below.</p>'
    )


def _file(name: str) -> str:
    return files("fedveil.report").joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")


def _plotly() -> str:
    try:
        from plotly.offline import get_plotlyjs
    except ImportError:
        raise InputError("reports need plotly; install it: pip install 'fedveil[report]'") from None
    return str(get_plotlyjs()).replace("\r\n", "\n")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
