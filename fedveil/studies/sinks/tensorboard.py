"""TensorBoard: one run per cell under DIR/tensorboard, its settings as hparams; the whole folder is rewritten."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path
from typing import Any

from fedveil.studies.results import CellResult, StudyResults
from fedveil.studies.sinks.figures import at_the_end, by_round, settings

FOLDER = "tensorboard"


def write(results: StudyResults) -> None:
    """Write all finished cells; until all are written, the old folder stays."""
    final, fresh = results.folder / FOLDER, results.folder / f".{FOLDER}.new"
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    try:
        for cell in results.cells:
            _write_cell(cell, fresh / cell.id)
        if final.exists():
            shutil.rmtree(final)
        fresh.rename(final)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _write_cell(cell: CellResult, folder: Path) -> None:
    tools: Any = import_module("torch.utils.tensorboard")
    summaries: Any = import_module("torch.utils.tensorboard.summary")
    last = max(1, len(cell.metrics))
    figures = at_the_end(cell)
    with tools.SummaryWriter(str(folder)) as writer:
        for name, value, step in by_round(cell):
            writer.add_scalar(name, value, step)
        for name, value in figures.items():
            writer.add_scalar(name, value, last)
        hparams = {
            name: value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)
            for name, value in settings(cell).items()
        }
        for summary in summaries.hparams(hparams, figures):
            writer.file_writer.add_summary(summary)
