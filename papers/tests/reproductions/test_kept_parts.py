"""Parts that are measured side by side: the same figures, each kept when it is done."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fedveil_papers import Kept
from small_parts import measured

from fedveil.core.errors import InputError


def asked(*numbers: int) -> list[tuple[str, dict[str, Any], Any]]:
    return [(f"part {number}", {"number": number}, partial(measured, number)) for number in numbers]


def test_parts_come_in_order_and_are_kept(tmp_path: Path) -> None:
    said: list[str] = []
    found = Kept(tmp_path, workers=2).parts(asked(3, 1, 2), said.append)
    assert [one["number"] for one in found] == [3, 1, 2]
    assert {one["threads"] for one in found} == {1}
    assert sorted(said) == ["part 1 is measured", "part 2 is measured", "part 3 is measured"]
    again = Kept(tmp_path, workers=2).parts(asked(2, 3), said.append)
    assert again == [found[2], found[0]]
    assert len(said) == 3


def test_one_that_fails_is_told_and_the_others_stay(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be measured"):
        Kept(tmp_path, workers=1).parts(asked(1, -1), lambda _: None)
    (figures,) = Kept(tmp_path).parts(asked(1), pytest.fail)
    assert figures["number"] == 1


def test_without_workers_they_are_measured_here(tmp_path: Path) -> None:
    import os

    said: list[str] = []
    found = Kept(tmp_path).parts(asked(1, 2), said.append)
    assert {one["process"] for one in found} == {os.getpid()}
    assert said == ["part 1", "part 2"]
