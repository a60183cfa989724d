"""A PNG of what is shown, where matplotlib is there."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

from fedveil.core.files import write_atomically
from fedveil_papers.shown import Display

WITHOUT = "No picture: matplotlib is not installed (pip install 'fedveil[report]')."
LOOK: Any = {
    "text.parse_math": False,
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def write_png(shown: Display, found: dict[str, Any], path: Path) -> bool:
    """Draw to a file; return False where matplotlib is missing."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        return False
    content = io.BytesIO()
    with mpl.rc_context(LOOK), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # a name in a script that the font lacks is drawn as boxes
        canvas = Figure(layout="constrained")
        shown.draw(found, canvas)
        canvas.savefig(content, dpi=150, format="png", metadata={"Software": None})
    write_atomically(path, content.getvalue())
    return True
