"""Parts of experiments: measured once, kept one by one in a directory that nothing else uses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fedveil_papers.cli import reproduce_preset
from fedveil_papers.experiment import Experiment, ExperimentStore, Measured, Part, measure
from fedveil_papers.preset import Preset
from fedveil_papers.rows import PaperFigures, Row
from filelock import FileLock
from rich.console import Console
from rich.table import Table

from fedveil.core.errors import InputError
from fedveil.studies.runner import Listener
from fedveil.studies.store import Store

KIND = "small"


def store(folder: Path, kind: str = KIND) -> ExperimentStore:
    return ExperimentStore(folder, kind)


def parts(*numbers: int, reused: bool = True) -> list[Part]:
    return [Part({"number": n}, "small_parts:measured", f"part {n}", reused=reused) for n in numbers]


@pytest.mark.parametrize("workers", [0, 2], ids=["in-process", "workers"])
def test_parts_are_measured_once_and_kept(tmp_path: Path, workers: int) -> None:
    finished: list[str] = []
    listener = Listener(finished=lambda unit: finished.append(unit.name))
    measured = measure(parts(3, 1, 2, 1), store(tmp_path), workers=workers, listener=listener)
    assert [measured[part]["number"] for part in parts(3, 1, 2)] == [3, 1, 2]
    assert sorted(finished) == ["part 1", "part 2", "part 3"]
    again = measure(parts(2, 3), store(tmp_path), workers=workers, listener=listener)
    assert [again[part] for part in parts(2, 3)] == [measured[part] for part in parts(2, 3)]
    assert len(finished) == 3
    measure(parts(2), store(tmp_path), workers=workers, fresh=True, listener=listener)
    measure(parts(2, reused=False), store(tmp_path), workers=workers, listener=listener)
    assert finished[3:] == ["part 2", "part 2"]
    assert [path.stem for path in (tmp_path / "parts").iterdir()] == [parts(2)[0].key]  # the others were discarded


def test_a_file_that_is_damaged_or_of_other_settings_is_not_read(tmp_path: Path) -> None:
    (part,) = parts(1)
    measure([part], store(tmp_path))
    file = store(tmp_path).file(part)
    kept = json.loads(file.read_text())
    assert kept["settings"] == part.identity
    for content in ("{", "[]", json.dumps({**kept, "settings": {}}), json.dumps({**kept, "figures": None})):
        file.write_text(content)
        assert store(tmp_path).figures(part) is None
        assert measure([part], store(tmp_path))[part]["number"] == 1
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
    measured = measure(parts(1, -1, 2), store(tmp_path), workers=workers)
    assert measured.failed == {"part -1": "a part that cannot be measured"}
    assert {part.name for part in parts(1, -1, 2) if store(tmp_path).figures(part)} == {"part 1", "part 2"}


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; name a directory"):
        measure(parts(1), store(tmp_path / "file"))


def refused(folder: Path, why: str, *, kind: str = KIND, fresh: bool = False) -> None:
    """Check that an experiment is refused in one line, and that the directory is left as it was."""
    before = sorted(folder.rglob("*"))
    with pytest.raises(InputError, match=why) as caught:
        measure(parts(1), store(folder, kind), fresh=fresh)
    assert "\n" not in str(caught.value)
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("fresh", [False, True])
def test_a_directory_that_belongs_to_something_else_is_refused(tmp_path: Path, fresh: bool) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "wheel.json").write_text("{}")
    refused(tmp_path, r"holds other files \(parts, …\) and no experiment", fresh=fresh)
    (tmp_path / "study.json").write_text("{}")
    refused(tmp_path, "holds a study; name another directory", fresh=fresh)


def test_a_study_is_refused_in_a_directory_of_an_experiment(tmp_path: Path) -> None:
    measure(parts(1), store(tmp_path))
    with pytest.raises(InputError, match="holds an experiment; name another directory"):
        Store(tmp_path).check_place()


def test_another_kind_of_experiment_is_refused_unless_the_directory_is_renewed(tmp_path: Path) -> None:
    measure(parts(1), store(tmp_path))
    (tmp_path / "notes.txt").write_text("mine")
    refused(tmp_path, "holds another experiment: kind was 'small', is 'other'; .* --fresh", kind="other")
    measure(parts(2), store(tmp_path, "other"), fresh=True)
    assert [path.stem for path in (tmp_path / "parts").iterdir()] == [parts(2)[0].key]
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_a_second_run_on_one_directory_is_refused(tmp_path: Path) -> None:
    with FileLock(tmp_path / ".lock"):
        refused(tmp_path, "another run is writing here")


def test_parts_measured_by_other_code_are_kept_with_a_warning(tmp_path: Path) -> None:
    warnings: list[str] = []
    listener = Listener(warned=warnings.append, finished=lambda unit: pytest.fail(f"measured {unit}"))
    for part in parts(1, 2, 3, 4):
        measure([part], store(tmp_path))
    measure(parts(1, 2), store(tmp_path), listener=listener)
    assert warnings == []
    for part in parts(1, 2, 3, 4):
        file = store(tmp_path).file(part)
        content = json.loads(file.read_text())
        file.write_text(json.dumps({**content, "code": {"digest": "0", "version": "0.0.7", "revision": "abc"}}))
    measure(parts(1, 2, 3, 4), store(tmp_path), listener=listener)
    assert (
        warnings[0] == "part 1: was computed by other code, fedveil 0.0.7 (abc), and is kept; --fresh computes it again"
    )
    assert warnings[3:] == ["… and 1 more parts of other code"]


def test_a_directory_of_an_older_version_is_read(tmp_path: Path) -> None:
    """It has no experiment.json, and its parts do not state the code that measured them."""
    (part,) = parts(1)
    (tmp_path / "parts").mkdir()
    store(tmp_path).file(part).write_text(json.dumps({"settings": part.identity, "figures": {"number": 7}}))
    warnings: list[str] = []
    measured = measure([part], store(tmp_path), listener=Listener(warned=warnings.append))
    assert measured[part] == {"number": 7}
    assert [warning.partition(", ")[0] for warning in warnings] == ["part 1: was computed by other code"]
    # An experiment whose parts are not reused has left its results alone.
    shows = tmp_path / "times" / "reproduced.json"
    shows.parent.mkdir()
    shows.write_text(json.dumps({"shows": {"kind": KIND}}))
    assert measure(parts(1, reused=False), store(shows.parent))[part]["number"] == 1
