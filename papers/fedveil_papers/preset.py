"""Presets: a table or figure of a paper (or a comparison of ours) as studies over the same parts.

A preset is a YAML file in fedveil/presets/: `study` (or `studies`), `scales` (changes for quick and paper), `paper`,
the figures that the paper prints, each with the row that it belongs to, and `shows`, the table or figure that is made
of the studies (fedveil/reproductions), where their rows alone do not show it. In place of studies it may have an
`experiment`, a measurement of its own kind; the scales then change its settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedveil.config.reading import changed, read_yaml
from fedveil.config.study import Study, make_study
from fedveil.core.errors import InputError, nearest

if TYPE_CHECKING:
    from fedveil_papers import Experiment, Shown

FOLDER = Path(__file__).with_name("presets")
SCALES = ("quick", "paper")
ROW = ("method", "strength", "task", "attribute", "attacker")


@dataclass(frozen=True)
class Preset:
    """What a preset holds at one scale."""

    name: str
    title: str
    studies: list[Study]
    paper: list[dict[str, Any]]
    shows: Shown | None = None
    experiment: Experiment | None = None


def available() -> dict[str, str]:
    """Return all presets' names and titles."""
    found = {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in sorted(FOLDER.rglob("*.yaml"))}
    return {name: str(read_yaml(path).get("title", "")) for name, path in found.items()}


def read_preset(name: str, scale: str) -> Preset:
    """Read a preset at a scale."""
    if scale not in SCALES:
        raise InputError(f"--scale {scale!r} is not known: {nearest(scale, SCALES)}")
    found = _file(name)
    title, paper = str(found.get("title", "")), found.get("paper") or []
    changes = found.get("scales", {}).get(scale) or {}
    if found.get("experiment") is not None:
        from fedveil_papers import make_experiment

        values = found["experiment"]
        for key, value in changes.items():
            values = changed(values, key, value)
        return Preset(name, title, [], paper, experiment=make_experiment(values, f"preset {name}: experiment"))
    studies = []
    for values in found.get("studies") or [found["study"]]:
        for key, value in changes.items():
            values = changed(values, key, value)
        studies.append(make_study(values, f"preset {name}"))
    shows = None
    if found.get("shows") is not None:
        from fedveil_papers import make_shown

        shows = make_shown(found["shows"], f"preset {name}: shows")
    return Preset(name, title, studies, paper, shows)


def _file(name: str) -> dict[str, Any]:
    known = available()
    if name not in known:
        raise InputError(f"no preset {name!r}: {nearest(name, known)}")
    return read_yaml(FOLDER / f"{name}.yaml")


def beside_paper(rows: list[dict[str, Any]], paper: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows, each with what the paper prints for it; several sources stand beside each other."""
    joined = []
    for row in rows:
        printed = [one for one in paper if all(one.get(key, row[key]) == row[key] for key in ROW)]
        figures = [{key: value for key, value in one.items() if key not in ROW} for one in printed]
        found = {str(one.pop("source", place)): one for place, one in enumerate(figures)}
        joined.append({**row, "paper": found})
    return joined
