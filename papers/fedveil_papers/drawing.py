"""A picture of results as PNG, where matplotlib is installed."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

from fedveil.core.files import write_atomically
from fedveil_papers.shown import Display, Results

WITHOUT = "No picture: matplotlib is not installed (pip install 'fedveil[report]')."
LOOK: Any = {
    "text.parse_math": False,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def write_png(display: Display[Results], results: Results, path: Path) -> bool:
    """Draw results to a file; return False where matplotlib is not installed."""
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
