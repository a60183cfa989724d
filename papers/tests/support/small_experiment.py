"""An experiment run as the command does it, and once more from what it has kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fedveil_papers.cli import reproduce_preset
from fedveil_papers.kinds import make_experiment
from fedveil_papers.preset import Preset
from rich.console import Console

from fedveil.core.files import plain
from fedveil.studies.runner import Listener


@dataclass(frozen=True)
class Reproduction:
    """The rows and everything else shown, as JSON; the results; and the printed text."""

    rows: list[dict[str, Any]]
    shows: dict[str, Any]
    results: Any
    text: str


def reproduced_once(settings: Mapping[str, Any], paper: Sequence[dict[str, Any]], folder: Path) -> Reproduction:
    """Run an experiment, check that its picture is drawn and its parts are kept, and return what it gives."""
    experiment = make_experiment(dict(settings), "preset x: experiment")
    preset = Preset("curious/tiny", "A tiny one", [], paper, experiment=experiment)
    console = Console(record=True, width=260)
    values = reproduce_preset(preset, "quick", folder, console=console, workers=0).values
    assert values["complete"]
    assert (folder / values["shows"]["picture"]).stat().st_size > 20_000
    # Nothing is measured a second time, and kept figures give the same results.
    results = experiment.run(folder, paper, listener=Listener(finished=lambda unit: pytest.fail(f"measured {unit}")))
    again = {**experiment.shows(results), "picture": "tiny.png"}
    assert plain(again) == values["shows"]
    assert [row.as_dict() for row in experiment.rows(results)] == values["rows"]
    return Reproduction(values["rows"], values["shows"], results, console.export_text())
