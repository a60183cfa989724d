"""One cell from start to finish: train (or continue), judge, write. After a kill it continues to the same bits."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock
from safetensors.numpy import save as safetensors_bytes

from fedveil.config.cells import Cell, determines, load_data, make_federation, make_game
from fedveil.config.shadows import number_of_shadows
from fedveil.config.study import Method, Study
from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.files import plain, write_atomically
from fedveil.federation.progress import RoundRecord
from fedveil.federation.run import Run, begin
from fedveil.federation.work import ENGINES
from fedveil.studies.judging import judge_run
from fedveil.studies.model import FORMAT
from fedveil.studies.provenance import revision, versions
from fedveil.studies.reading import sound_result
from fedveil.studies.sampling import sampled_inputs
from fedveil.studies.units import Report
from fedveil.view import UPDATE_VIEWS

TRAINING_SHARE = 0.4


def compute_cell(payload: Mapping[str, Any], report: Report) -> None:
    """Compute a cell into its directory, or leave a finished one alone: the task of `running.cell_unit`."""
    study, method = Study.model_validate(payload["study"]), Method.model_validate(payload["method"])
    cell, folder = Cell(**payload["cell"]), Path(payload["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / ".lock", timeout=60):  # a worker of a killed run may hold the lock for a moment
        if sound_result(folder, cell.id) is not None:
            return
        if (folder / "result.json").exists():
            report.warning(f"{cell.id}: its result is damaged; the cell is computed again")
        _compute(study, method, cell, folder, report)


def _compute(study: Study, method: Method, cell: Cell, folder: Path, report: Report) -> None:
    started = time.perf_counter()
    report.progress(0.0, "data")
    federation = make_federation(study, method, cell.strength, cell.seed, load_data(study, cell.seed))
    game = make_game(method, cell.strength)
    config = {
        "cell": cell.as_dict(),
        "study": determines(study, method, cell.strength, cell.seed),
        "versions": versions(),
        "revision": revision(),
        "threads": study.threads,
    }
    write_json(folder / "config.json", config)
    run = _continued(federation, game, folder, cell, report) or begin(federation, game)
    if federation.engine not in ENGINES and run.stages:
        play_cell = plugins.load("fedveil.engines", federation.engine)
        report.progress(0.0, f"training on {federation.engine}")
        run = play_cell(study, method, cell.strength, federation, game, folder / federation.engine)
    else:
        _train(study, method, run, folder, report)
    trained = time.perf_counter()
    write_metrics(folder / "metrics.jsonl", run.history)
    write_tensors(folder / "weights.safetensors", {name: state.cpu().numpy() for name, state in run.shared.items()})

    def judging(share: float, what: str) -> None:
        report.progress(TRAINING_SHARE + (1 - TRAINING_SHARE) * share, what)

    figures, draws, sample = judge_run(study, run, judging)
    write_tensors(folder / "draws.safetensors", draws)
    write_tensors(folder / "sample.safetensors", sample)
    inputs = folder.parents[1] / f"inputs-seed{cell.seed}.safetensors"
    if not inputs.exists():
        write_tensors(inputs, sampled_inputs(study, run))
    write_json(folder / "timing.json", {"seconds": time.perf_counter() - started, "training": trained - started})
    write_json(folder / "result.json", {"format": FORMAT, "cell": cell.as_dict(), **figures.as_dict()})
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)


def _continued(federation: Any, game: Any, folder: Path, cell: Cell, report: Report) -> Run | None:
    """Return the run as it was last saved; None if there is no checkpoint that can be used."""
    checkpoint = folder / "checkpoint"
    if not checkpoint.exists() and not folder.joinpath(".checkpoint.old").exists():
        return None
    try:
        return Run.load(checkpoint, federation, game)
    except InputError as fault:
        report.warning(f"{cell.id}: the checkpoint cannot be used ({fault}); the cell is computed from the start")
        return None


def _train(study: Study, method: Method, run: Run, folder: Path, report: Report) -> None:
    planned = method.rounds or study.federation.rounds
    total = sum(stage.rounds or planned for stage in run.stages) or 1
    saved = time.monotonic()
    metrics = folder / "metrics.jsonl"
    write_metrics(metrics, run.history)

    def after_round(record: RoundRecord) -> None:
        nonlocal saved
        with metrics.open("a", encoding="utf-8") as lines:
            lines.write(json.dumps(record.as_dict()) + "\n")
        report.progress(TRAINING_SHARE * len(run.history) / total, f"round {len(run.history)} of {total}")
        if time.monotonic() - saved >= study.checkpoint_seconds:
            run.save(folder / "checkpoint")
            saved = time.monotonic()

    play(study, method, run, [after_round])


def play(study: Study, method: Method, run: Run, callbacks: Sequence[Callable[[RoundRecord], None]]) -> None:
    """Play as many rounds as the study plans for a method, and record those that its attackers watch."""
    watched = study.attacks.view in UPDATE_VIEWS
    run.play(
        method.rounds or study.federation.rounds,
        callbacks=callbacks,
        record=study.attacks.rounds if watched else (),
        shadows=number_of_shadows(study, run) if watched and not run.shadow_rows else 0,
    )


def write_json(path: Path, values: dict[str, Any]) -> None:
    """Write one JSON object, atomically; a figure that is not a number becomes null."""
    write_atomically(path, json.dumps(plain(values), indent=1, allow_nan=False))


def write_metrics(path: Path, history: list[RoundRecord]) -> None:
    """Write one line per round, atomically."""
    write_atomically(path, "".join(json.dumps(record.as_dict()) + "\n" for record in history))


def write_tensors(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Write arrays as safetensors, atomically."""
    write_atomically(path, safetensors_bytes({name: np.ascontiguousarray(array) for name, array in arrays.items()}))
