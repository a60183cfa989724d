"""MLflow: one run per cell in a local store, DIR/mlflow, which needs no server; read it with `mlflow ui`.

The store is MLflow's file store: the database that newer versions prefer needs packages that mlflow-skinny leaves out.
A run of the same result that exists already is left alone, with any notes that people added to it. Runs of cells that
the study no longer has, or whose result has changed, are deleted in MLflow's way: they can be restored.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from fedveil.studies.results import CellResult, StudyResults
from fedveil.studies.sinks.figures import at_the_end, by_round, settings

FOLDER = "mlflow"
CELL, DIGEST = "fedveil.cell", "fedveil.result"
_MOST_METRICS, _MOST_PARAMS, _LONGEST = 1000, 100, 500


def write(results: StudyResults) -> None:
    """Write all finished cells as runs of an experiment of the study's name."""
    with _local_only():
        client = import_module("mlflow").MlflowClient((results.folder / FOLDER).resolve().as_uri())
        existing = client.get_experiment_by_name(results.name)
        experiment = client.create_experiment(results.name) if existing is None else existing.experiment_id
        wanted = {cell.id: cell for cell in results.cells}
        for run in _runs(client, experiment):
            cell = wanted.get(run.data.tags.get(CELL, ""))
            current = run.info.status == "FINISHED" and cell is not None and run.data.tags.get(DIGEST) == _digest(cell)
            if current and cell is not None:
                del wanted[cell.id]
            elif CELL in run.data.tags:
                client.delete_run(run.info.run_id)
        for cell in wanted.values():
            _write_cell(client, experiment, cell)


def _write_cell(client: Any, experiment: str, cell: CellResult) -> None:
    entities = import_module("mlflow.entities")
    now = int(time.time() * 1000)
    run = client.create_run(experiment, run_name=cell.id, tags={CELL: cell.id, DIGEST: _digest(cell)})
    params = [entities.Param(_plain(name), str(value)[:_LONGEST]) for name, value in settings(cell).items()]
    figures = [*by_round(cell), *((name, value, max(1, len(cell.metrics))) for name, value in at_the_end(cell).items())]
    metrics = [entities.Metric(_plain(name), value, now, step) for name, value, step in figures]
    for start in range(0, len(params), _MOST_PARAMS):
        client.log_batch(run.info.run_id, params=params[start : start + _MOST_PARAMS])
    for start in range(0, len(metrics), _MOST_METRICS):
        client.log_batch(run.info.run_id, metrics=metrics[start : start + _MOST_METRICS])
    client.log_artifact(run.info.run_id, str(cell.folder / "result.json"))
    client.set_terminated(run.info.run_id)


def _runs(client: Any, experiment: str) -> list[Any]:
    token = None
    runs: list[Any] = []
    while True:
        page = client.search_runs([experiment], page_token=token)
        runs += page
        token = page.token
        if not token:
            return runs


def _digest(cell: CellResult) -> str:
    return hashlib.sha256((cell.folder / "result.json").read_bytes()).hexdigest()[:16]


def _plain(name: str) -> str:
    """Return a name that MLflow accepts; it refuses the plus that joins the players of a joint move."""
    return re.sub(r"[^\w\-. :/]", "_", name)


@contextmanager
def _local_only() -> Iterator[None]:
    """Allow the file store inside the block; turn telemetry off, permanently, before the library is first loaded."""
    os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
    before = os.environ.get("MLFLOW_ALLOW_FILE_STORE")
    os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
    try:
        yield
    finally:
        if before is None:
            del os.environ["MLFLOW_ALLOW_FILE_STORE"]
        else:
            os.environ["MLFLOW_ALLOW_FILE_STORE"] = before
