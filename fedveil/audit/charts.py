"""Charts of an audit as inline SVG: no script, colours from the page's style, lengths in per cent so that they fit."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

from fedveil.audit.spread import Spread
from fedveil.core.figures import Estimate

_TICKS = (0, 25, 50, 75, 100)
_HEIGHT = 84


class Bar(NamedTuple):
    """One line of the chart of shares: a figure with its interval, and a mark to hold it against."""

    label: str
    note: str
    share: Estimate
    shown: str
    mark: float
    mark_name: str
    kind: str


def shares(bars: Sequence[Bar]) -> str:
    """Draw figures between 0 and 1 below each other, each with its interval and its mark."""
    rows = [
        f'<div class="bar"><p class="bar-label">{html.escape(bar.label)}<span>{html.escape(bar.note)}</span></p>'
        f'<div class="bar-track">{_track(bar)}</div><p class="bar-figure">{html.escape(bar.shown)}</p></div>'
        for bar in bars
    ]
    ticks = "".join(f'<text x="{tick}%" y="11" text-anchor="{_anchor(tick)}">{tick}%</text>' for tick in _TICKS)
    axis = (
        '<div class="bar axis"><p class="bar-label"></p><div class="bar-track">'
        f'<svg width="100%" height="14" aria-hidden="true">{ticks}</svg></div><p class="bar-figure"></p></div>'
    )
    return f'<div class="bars" role="group" aria-label="Shares with intervals">{"".join(rows)}{axis}</div>'


def _track(bar: Bar) -> str:
    low, point, high, mark = (
        100 * min(1.0, max(0.0, x)) for x in (bar.share.low, bar.share.estimate, bar.share.high, bar.mark)
    )
    told = html.escape(f"{bar.label}: {bar.shown}; {bar.mark_name} {100 * bar.mark:.1f}%")
    grid = "".join(f'<line class="grid" x1="{tick}%" x2="{tick}%" y1="0" y2="30"/>' for tick in _TICKS)
    return (
        f'<svg width="100%" height="46" role="img" aria-label="{told}">{grid}'
        f'<rect class="fill {bar.kind}" x="0" y="9" width="{point:.3f}%" height="12"/>'
        f'<line class="whisker" x1="{low:.3f}%" x2="{high:.3f}%" y1="15" y2="15"/>'
        f'<line class="whisker" x1="{low:.3f}%" x2="{low:.3f}%" y1="10" y2="20"/>'
        f'<line class="whisker" x1="{high:.3f}%" x2="{high:.3f}%" y1="10" y2="20"/>'
        f'<line class="mark-line" x1="{mark:.3f}%" x2="{mark:.3f}%" y1="2" y2="30"/>'
        f'<text x="{mark:.3f}%" y="42" text-anchor="{_anchor(mark)}">{html.escape(bar.mark_name)}</text></svg>'
    )


def _anchor(place: float) -> str:
    return "start" if place < 12 else "end" if place > 88 else "middle"


def histograms(spread: Spread, colours: int) -> str:
    """Draw how certain the classifier is, one histogram of output entropy per value of s, all to one scale."""
    totals = [max(1, sum(row)) for row in spread.counts]
    top = max(count / total for row, total in zip(spread.counts, totals, strict=True) for count in row)
    parts = []
    for k, (value, mean) in enumerate(spread.by_value.items()):
        width = 100 / len(spread.counts[k])
        bars = "".join(
            f'<rect class="fill value{k % colours}" x="{place * width + 0.2:.3f}%" width="{width - 0.4:.3f}%" '
            f'y="{_HEIGHT * (1 - count / totals[k] / top):.2f}" height="{_HEIGHT * count / totals[k] / top:.2f}"/>'
            for place, count in enumerate(spread.counts[k])
        )
        where = 100 * mean.estimate / spread.most
        told = f"{value}: {totals[k]:,} records, mean {mean} bits"
        parts.append(
            f'<figure class="histogram"><figcaption><bdi>{html.escape(value)}</bdi>: {totals[k]:,} records, mean '
            f"{html.escape(str(mean))} bits</figcaption>"
            f'<svg width="100%" height="{_HEIGHT + 18}" role="img" aria-label="{html.escape(told)}">{bars}'
            f'<line class="rule" x1="0" x2="100%" y1="{_HEIGHT}" y2="{_HEIGHT}"/>'
            f'<line class="mark-line" x1="{where:.3f}%" x2="{where:.3f}%" y1="0" y2="{_HEIGHT}"/>'
            f'<text x="0" y="{_HEIGHT + 14}">0 (certain)</text>'
            f'<text x="100%" y="{_HEIGHT + 14}" text-anchor="end">{spread.most:.2f} bits</text></svg></figure>'
        )
    return f'<div class="histograms">{"".join(parts)}</div>'
