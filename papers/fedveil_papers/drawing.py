"""A picture of results as PNG, if matplotlib is installed."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedveil.core.files import write_atomically
from fedveil_papers.rows import Figure
from fedveil_papers.shown import Display, Results

WITHOUT = "No picture: matplotlib is not installed (pip install 'fedveil[report]')."
LOOK: Any = {
    "text.parse_math": False,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def write_png(display: Display[Results], results: Results, path: Path) -> bool:
    """Draw results to a file; return False if matplotlib is not installed."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        return False
    content = io.BytesIO()
    with mpl.rc_context(LOOK), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # letters that the font lacks are drawn as boxes
        canvas = Figure(layout="constrained")
        display.draw(results, canvas)
        canvas.savefig(content, dpi=150, format="png", metadata={"Software": None})
    write_atomically(path, content.getvalue())
    return True


def error_bars(figures: Sequence[Figure | None]) -> list[list[float]]:
    """Return how far intervals reach below and above their figures, in matplotlib's form; 0 for a figure without one.

    >>> error_bars([Figure(0.5, 0.25, 1.0), Figure(0.5), None])
    [[0.25, 0.0, 0.0], [0.5, 0.0, 0.0]]
    """
    pairs = [(0.0, None, None) if figure is None else (figure.estimate, figure.low, figure.high) for figure in figures]
    below = [0.0 if low is None else abs(estimate - low) for estimate, low, _ in pairs]
    above = [0.0 if high is None else abs(high - estimate) for estimate, _, high in pairs]
    return [below, above]
