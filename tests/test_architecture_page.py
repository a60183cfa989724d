"""The pages on architecture and terms agree with the code."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
ARCHITECTURE = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
GLOSSARY = (REPOSITORY / "docs" / "glossary.md").read_text(encoding="utf-8")


def test_the_page_lists_all_packages_in_their_order() -> None:
    order = runpy.run_path(str(REPOSITORY / "tests" / "test_floor_plan.py"))["ORDER"]
    listed = re.findall(r"^\| `fedveil\.(\w+)` \|", ARCHITECTURE, re.MULTILINE)
    assert listed == [name for name in order if name not in ("__main__", "fedveil_papers")]


def test_the_page_names_every_group_of_entry_points() -> None:
    groups: set[str] = set()
    for file in ("pyproject.toml", "papers/pyproject.toml"):
        project = tomllib.loads((REPOSITORY / file).read_text(encoding="utf-8"))["project"]
        groups |= set(project["entry-points"])
    assert groups == set(re.findall(r'`"(fedveil\.\w+)"`', ARCHITECTURE))


def test_the_glossary_explains_each_word_once() -> None:
    words = re.findall(r"^\| ([a-z][a-z ]*) \| ([A-Z].*?\.) \|", GLOSSARY, re.MULTILINE)
    names = [word for word, _ in words]
    assert len(names) == len(set(names))
    expected = (
        "attribute record device site observer attacker view release leakage utility game stage player shield policy "
        "ledger certificate estimate study method strength cell preset experiment unit zoo code"
    )
    assert set(expected.split()) <= set(names)
