"""YAML read safely, and changes to it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fedveil.config.reading import MOST_BYTES, changed, parse_yaml, read_yaml, with_changes
from fedveil.core.errors import InputError

LAUGHS = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 10)}]\n" for before, name in zip("abcde", "bcdef", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- 1", "is a list, not a mapping"),
        ("just words", "is text, not a mapping"),
        ("", "is empty, not a mapping"),
        ("a: 1\nb: 2\na: 3", "line 3: 'a' is given twice (first in line 1)"),
        ("a: &x [*x]", "recursive"),
        ("a: &x {b: *x}", "recursive"),
        ("a: [1,", "line 1: is not YAML"),
        ("a: " + "[" * 3000, "nested too deeply"),
        ("a: " + "[" * 40 + "]" * 40, "nested too deeply"),
        (LAUGHS, "more than 20,000 values"),
        ("? [1, 2]\n: 3", "must be plain text"),
        ("a: 2026-99-99", "cannot be read"),
        ("a: !!python/object/apply:os.system [true]", "is not YAML"),
        ("a: \x07", "is not YAML"),
    ],
)
def test_text_that_is_not_a_study_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_yaml(text, "my.yaml")
    assert message in str(caught.value)
    assert str(caught.value).startswith("my.yaml")
    assert "\n" not in str(caught.value)


def test_scientific_notation_gives_numbers_and_merge_keys_work() -> None:
    values = parse_yaml("a: 1e-3\nb: -2E5\nc: .5\nd: 1e5x\nbase: &base {x: 1}\ne: {<<: *base, y: 2}", "f")
    assert values == {"a": 1e-3, "b": -2e5, "c": 0.5, "d": "1e5x", "base": {"x": 1}, "e": {"x": 1, "y": 2}}


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    (tmp_path / "huge.yaml").write_text("a: " + "x" * MOST_BYTES)
    (tmp_path / "latin.yaml").write_bytes(b"a: \xff\xfe\xfa")
    for name, message in (
        ("huge.yaml", "more than any study needs"),
        ("latin.yaml", "not UTF-8"),
        ("none.yaml", "no such file"),
        (".", "is a folder"),
    ):
        with pytest.raises(InputError, match=message):
            read_yaml(tmp_path / name)


def test_changes_walk_down_by_name_and_by_index() -> None:
    values = {"seeds": [0], "methods": [{"name": "a", "x": {"y": 1}}, {"name": "b"}]}
    assert with_changes(values, ["methods.b.strengths=[1, 2]"])["methods"][1] == {"name": "b", "strengths": [1, 2]}
    assert with_changes(values, ["methods.0.x.y=null"])["methods"][0]["x"] == {"y": None}
    assert with_changes(values, ["new.deep=1e-3"])["new"] == {"deep": 1e-3}
    assert changed(values, "seeds", 3)["seeds"] == 3
    assert values == {
        "seeds": [0],
        "methods": [{"name": "a", "x": {"y": 1}}, {"name": "b"}],
    }  # the original is not changed


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("seeds", "write key=value"),
        ("=3", "write key=value"),
        ("methods.c.x=1", "no item 'c'; choose from: a, b"),
        ("methods.7=1", "no item '7'"),
        ("seeds.0.x=1", "inside a plain value"),
        ("seeds=[1", "is not YAML"),
    ],
)
def test_changes_that_cannot_be_made_are_refused(change: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        with_changes({"seeds": [0], "methods": [{"name": "a"}, {"name": "b"}]}, [change])
    assert message in str(caught.value)
