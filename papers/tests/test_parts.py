"""Parts of experiments: measured once, kept one by one, read where the settings are the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fedveil_papers.cli import reproduce_preset
from fedveil_papers.experiment import Experiment, Measured, Part, measure
from fedveil_papers.preset import Preset
from fedveil_papers.rows import PaperFigures, Row
from rich.console import Console
from rich.table import Table

from fedveil.core.errors import InputError
from fedveil.studies.runner import Listener


def parts(*numbers: int, reused: bool = True) -> list[Part]:
    return [Part({"number": n}, "small_parts:measured", f"part {n}", reused=reused) for n in numbers]


@pytest.mark.parametrize("workers", [0, 2], ids=["in-process", "workers"])
def test_parts_are_measured_once_and_kept(tmp_path: Path, workers: int) -> None:
    finished: list[str] = []
    listener = Listener(finished=lambda unit: finished.append(unit.name))
    measured = measure(parts(3, 1, 2, 1), tmp_path, workers=workers, listener=listener)
    assert [measured[part]["number"] for part in parts(3, 1, 2)] == [3, 1, 2]
    assert sorted(finished) == ["part 1", "part 2", "part 3"]
    again = measure(parts(2, 3), tmp_path, workers=workers, listener=listener)
    assert [again[part] for part in parts(2, 3)] == [measured[part] for part in parts(2, 3)]
    assert len(finished) == 3
    measure(parts(2), tmp_path, workers=workers, fresh=True, listener=listener)
    measure(parts(2, reused=False), tmp_path, workers=workers, listener=listener)
    assert finished[3:] == ["part 2", "part 2"]


def test_a_file_that_is_damaged_or_of_other_settings_is_not_read(tmp_path: Path) -> None:
    (part,) = parts(1)
    measure([part], tmp_path)
    file = part.file(tmp_path)
    kept = json.loads(file.read_text())
    assert kept["settings"] == part.identity
    for content in ("{", "[]", json.dumps({**kept, "settings": {}}), json.dumps({**kept, "figures": None})):
        file.write_text(content)
        assert part.read(tmp_path) is None
        assert measure([part], tmp_path)[part]["number"] == 1
        assert json.loads(file.read_text())["settings"] == part.identity


@dataclass(frozen=True)
class Numbers(Experiment[dict[str, Any]]):
    """An experiment whose parts are numbers; a negative one cannot be measured."""

    numbers: tuple[int, ...]
    kind: ClassVar[str] = "numbers"

    def check(self) -> None: ...

    def parts(self) -> list[Part]:
        return parts(*self.numbers)

    def gather(self, measured: Measured, paper: PaperFigures) -> dict[str, Any]:
        return {"numbers": [measured[part]["number"] for part in self.parts()]}

    def rows(self, results: dict[str, Any]) -> list[Row]:
        return []

    def tables(self, results: dict[str, Any]) -> list[Table]:
        return []

    def notes(self, results: dict[str, Any]) -> list[str]:
        return []

    def draw(self, results: dict[str, Any], canvas: Any) -> None: ...


@pytest.mark.parametrize("workers", [0, 1], ids=["in-process", "workers"])
def test_an_experiment_with_a_part_that_fails_is_refused_and_the_others_are_kept(tmp_path: Path, workers: int) -> None:
    message = "1 parts could not be measured, part -1 first: a part that cannot be measured"
    with pytest.raises(InputError, match=message):
        Numbers((1, -1)).run(tmp_path, workers=workers)
    kept = Numbers((1,)).run(tmp_path, workers=workers, listener=Listener(finished=pytest.fail))
    assert kept == {"numbers": [1]}


def test_a_preset_with_a_part_that_fails_is_incomplete(tmp_path: Path) -> None:
    preset = Preset("ours/numbers", "numbers", [], [], experiment=Numbers((1, -1)))
    reproduced = reproduce_preset(preset, "quick", tmp_path, workers=1, console=Console(quiet=True))
    assert reproduced.failed == {"part -1": "a part that cannot be measured"}
    assert not reproduced.values["complete"]
    assert json.loads((tmp_path / "reproduced.json").read_text("utf-8")) == reproduced.values
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.parametrize("workers", [0, 1], ids=["in-process", "workers"])
def test_a_part_that_fails_is_reported_and_the_others_are_kept(tmp_path: Path, workers: int) -> None:
    measured = measure(parts(1, -1, 2), tmp_path, workers=workers)
    assert measured.failed == {"part -1": "a part that cannot be measured"}
    assert {part.name for part in parts(1, -1, 2) if part.read(tmp_path)} == {"part 1", "part 2"}


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; name a directory"):
        measure(parts(1), tmp_path / "file")
