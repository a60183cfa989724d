"""A study's results on one page, in figures for print, and in a notebook."""

from fedveil.report.build import write_report
from fedveil.report.words import in_words

__all__ = ["in_words", "write_report"]
