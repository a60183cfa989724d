"""A table with many columns, which stays readable on a narrow terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table

_WIDEST_KEY = 26
"""If the table is divided, texts of the key columns are broken into lines of this length."""


class WideTable(Table):
    """A table that is divided if it is too wide: groups of columns follow below each other, each with the key columns.

    Rich would cut numbers off to fit all columns beside each other.

    Args:
        title: the title above the table.
        headings: the columns' headings.
        left: headings whose columns are aligned left; others are aligned right.
        keys: how many of the first columns identify a row.
    """

    def __init__(self, title: str, headings: Sequence[str], left: Collection[str], keys: int = 1) -> None:
        super().__init__(title=title)
        self.keys = keys
        for heading in headings:
            self.add_column(heading, justify="left" if heading in left else "right")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield the whole table if it fits, otherwise its parts."""
        groups = self._groups(options.max_width)
        if len(groups) == 1:
            yield from super().__rich_console__(console, options)
            return
        for number, group in enumerate(groups):
            part = Table(
                title=self.title if number == 0 else None, caption=self.caption if number == len(groups) - 1 else None
            )
            for index, width in zip(group, self._widths(group, options.max_width), strict=True):
                column = self.columns[index]
                part.add_column(column.header, justify=column.justify, overflow="fold", width=width)
            for cells in zip(*(self.columns[index].cells for index in group), strict=True):
                part.add_row(*cells)
            yield part

    def _groups(self, width: int) -> list[list[int]]:
        """Return the indices of the columns of each part."""
        keys = list(range(self.keys))
        groups = [list(keys)]
        for index in range(self.keys, len(self.columns)):
            if len(groups[-1]) > self.keys and self._total([*groups[-1], index]) > width:
                groups.append(list(keys))
            groups[-1].append(index)
        return groups

    def _total(self, indices: Sequence[int]) -> int:
        return 1 + sum(self._least_width(index) + 3 for index in indices)  # a space on either side, and a border

    def _widths(self, indices: Sequence[int], width: int) -> list[int]:
        """Return the columns' widths: the least that each needs, plus remaining space for headings in one line."""
        left, widths = width - self._total(indices), []
        for index in indices:
            least = self._least_width(index)
            further = max(0, min(left, cell_len(str(self.columns[index].header)) - least))
            widths.append(least + further)
            left -= further
        return widths

    def _least_width(self, index: int) -> int:
        """Return how wide a column must be: headings may be broken between words, figures may not."""
        column = self.columns[index]
        words = [cell_len(word) for word in str(column.header).split()]
        cells = [cell_len(line) for cell in column.cells for line in str(cell).splitlines()]
        widest = max([*words, *cells], default=0)
        return min(widest, _WIDEST_KEY) if index < self.keys else widest
