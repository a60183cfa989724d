"""Parts of experiments: measured once, kept one by one, read where the settings are the same."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fedveil_papers.experiment import Part, measure

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


def test_a_part_that_fails_is_reported_and_the_others_are_kept(tmp_path: Path) -> None:
    measured = measure(parts(1, -1, 2), tmp_path)
    assert measured.failed == {"part -1": "a part that cannot be measured"}
    assert {part.name for part in parts(1, -1, 2) if part.read(tmp_path)} == {"part 1", "part 2"}


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; name a directory"):
        measure(parts(1), tmp_path / "file")
