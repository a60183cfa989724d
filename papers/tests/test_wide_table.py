"""Tables on narrow terminals: nothing is cut off, and every part says which rows it shows."""

from __future__ import annotations

import io

import pytest
from fedveil_papers.wide_table import WideTable
from rich.console import Console

FIGURE = "0.954 [0.948, 0.960]"


def printed(width: int) -> str:
    table = WideTable(
        "A table", ("case", "β", "first figure", "second, balanced", "attacker", "bits about s"), ("case",), keys=2
    )
    for case in ("digits", "income, sex and race at once, of all people"):
        table.add_row(case, "0.5", FIGURE, FIGURE, "mlp-small", "0.123")
    table.caption = "What it means."
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(table)
    return console.export_text()


@pytest.mark.parametrize("width", [60, 66, 72, 80, 100, 140])
def test_no_figure_is_cut_off_and_no_line_is_too_long(width: int) -> None:
    text = printed(width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    assert text.count(FIGURE) == 4
    assert text.count("mlp-small") == 2
    assert text.count("A table") == text.count("What it means.") == 1


def test_where_there_is_room_it_is_one_table() -> None:
    assert printed(200).count("┏") == 1
    assert printed(200).count("digits") == 1


def test_parts_repeat_the_key_columns_alone() -> None:
    text = printed(66)
    parts = text.count("┏")
    assert parts > 1
    assert text.count("digits") == parts
    assert text.count("0.123") == 2
