"""A study's results on one page, in figures for print, and in a notebook."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.report.build import write_report as write_report
    from fedveil.report.charts import plot_frontier as plot_frontier
    from fedveil.report.words import in_words as in_words

__all__ = lazy(__name__)
