"""Presets: a table or figure of a paper (or a comparison of ours) as studies, or as an experiment.

A preset is a YAML file in the folder `presets`, with these fields: `study` (or `studies`); `scales`, the changes for
quick and paper; `paper`, the figures that the paper prints, each with the row that it belongs to; and `shows`, the
table or figure to make of the studies if their rows are not enough. In place of studies it may have an `experiment`;
the scales then change the experiment's settings.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedveil.config.reading import changed, read_yaml
from fedveil.config.study import Study, make_study
from fedveil.core.errors import InputError, nearest

if TYPE_CHECKING:
    from fedveil_papers.experiment import Experiment
    from fedveil_papers.rows import PaperFigures
    from fedveil_papers.shown import Shown

FOLDER = Path(__file__).with_name("presets")
SCALES = ("quick", "paper")


@dataclass(frozen=True)
class Preset:
    """What a preset holds at one scale."""

    name: str
    title: str
    studies: list[Study]
    paper: PaperFigures
    shows: Shown[Any] | None = None
    experiment: Experiment[Any] | None = None


def available() -> dict[str, str]:
    """Return all presets' names and titles."""
    files = {path.relative_to(FOLDER).with_suffix("").as_posix(): path for path in sorted(FOLDER.rglob("*.yaml"))}
    return {name: str(read_yaml(path).get("title", "")) for name, path in files.items()}


def read_preset(name: str, scale: str) -> Preset:
    """Read a preset at a scale."""
    if scale not in SCALES:
        raise InputError(f"--scale {scale!r} is not known: {nearest(scale, SCALES)}")
    content = _file(name)
    title, paper = str(content.get("title", "")), content.get("paper") or []
    changes = content.get("scales", {}).get(scale) or {}
    if content.get("experiment") is not None:
        from fedveil_papers.kinds import make_experiment

        values = content["experiment"]
        for key, value in changes.items():
            values = changed(values, key, value)
        return Preset(name, title, [], paper, experiment=make_experiment(values, f"preset {name}: experiment"))
    studies = []
    for values in content.get("studies") or [content["study"]]:
        for key, value in changes.items():
            values = changed(values, key, value)
        studies.append(make_study(values, f"preset {name}"))
    shows = None
    if content.get("shows") is not None:
        from fedveil_papers.kinds import make_shown

        shows = make_shown(content["shows"], f"preset {name}: shows")
    return Preset(name, title, studies, paper, shows)


def _file(name: str) -> dict[str, Any]:
    names = available()
    if name not in names:
        raise InputError(f"no preset {name!r}: {nearest(name, names)}")
    return read_yaml(FOLDER / f"{name}.yaml")
