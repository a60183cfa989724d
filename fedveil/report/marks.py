"""How methods look in every chart: a colour and a shape each, so that a chart can be read without colours.

The colours follow Okabe and Ito, so that colour-blind people can tell them apart. Each has one form for light paper and
one for dark paper, with a contrast of at least 3 to 1 against it. Eight colours and eleven shapes make 88 different
marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

LIGHT_PAPER, DARK_PAPER = "#fffdf9", "#16181c"

COLOURS = (  # on light paper, on dark paper
    ("#0072b2", "#56b4e9"),
    ("#c25400", "#f0924a"),
    ("#007f5c", "#35c79b"),
    ("#a6357f", "#e38bc0"),
    ("#8a6d00", "#e2c541"),
    ("#5b4bb7", "#a99cf5"),
    ("#9a1f2e", "#ff8f8f"),
    ("#4d6b00", "#b2d34e"),
)
_NONE = ("#3c3c3c", "#d8d8d8", "x", "X")
_BASELINES = (  # dropping columns, once against each attribute
    ("#6a6a6a", "#a8a8a8", "square", "s"),
    ("#6a6a6a", "#a8a8a8", "diamond-wide", "d"),
    ("#6a6a6a", "#a8a8a8", "hourglass", "H"),
)
_SHAPES = (  # plotly's name, matplotlib's
    ("circle", "o"),
    ("diamond", "D"),
    ("triangle-up", "^"),
    ("triangle-down", "v"),
    ("pentagon", "p"),
    ("star", "*"),
    ("hexagon", "h"),
    ("triangle-left", "<"),
    ("triangle-right", ">"),
    ("cross", "P"),
    ("octagon", "8"),
)


class Mark(NamedTuple):
    """One method's mark: its colour on light and on dark paper, its shape for plotly and for matplotlib."""

    light: str
    dark: str
    symbol: str
    marker: str


def marks(methods: Sequence[str]) -> dict[str, Mark]:
    """Return a mark for every method; no defence and the drop-columns baseline are grey, and the same in all reports.

    >>> marks(["none", "adversarial"])["none"].symbol, marks(["none", "adversarial"])["adversarial"].symbol
    ('x', 'circle')
    """
    by_method: dict[str, Mark] = {}
    baselines = others = 0
    for method in methods:
        if method == "none":
            by_method[method] = Mark(*_NONE)
        elif method.startswith("drop-columns"):
            by_method[method] = Mark(*_BASELINES[baselines % len(_BASELINES)])
            baselines += 1
        else:
            by_method[method] = Mark(*COLOURS[others % len(COLOURS)], *_SHAPES[others % len(_SHAPES)])
            others += 1
    return by_method


VALUE_MARKS = tuple(marks([f"value {k}" for k in range(12)]).values())
"""The marks of an attribute's values, or of attackers, in charts where methods have none."""
