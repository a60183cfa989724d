"""`engine: flower`: train a study's cell with a SuperLink and one SuperNode per device on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedveil.config.study import Method, PartSettings, Study
from fedveil.federation.run import Run, data_shape
from fedveil.flower import protocol
from fedveil.flower.loopback import Loopback
from fedveil.flower.new_app import write_app

if TYPE_CHECKING:
    from fedveil.federation.federation import Federation
    from fedveil.games.game import Game

_SECONDS_PER_ANSWER = 60
"""How many seconds one node may take for one round, including its start, before the cell is given up."""


def play_cell(
    study: Study, method: Method, strength: float | None, federation: Federation, game: Game, folder: Path
) -> Run:
    """Train a cell on Flower and return the run as if it had been trained in this process, including local players.

    Nodes of such a study reveal their local players at the end, since all of them run on this machine.
    """
    shutil.rmtree(folder, ignore_errors=True)  # left by a cell that was killed
    folder.mkdir(parents=True)
    count = len(federation.partition)
    write_app(folder / "app", single_cell(study, method, strength, federation.seed, count))
    nodes = [{protocol.PARTITION: device, protocol.PARTITIONS: count, protocol.REVEAL: True} for device in range(count)]
    default = method.rounds or study.federation.rounds
    rounds = sum(stage.rounds or default for stage in game.stages(data_shape(federation)))
    out = folder / "out"
    with Loopback(folder / "processes", nodes) as loopback:
        timeout = _SECONDS_PER_ANSWER * (rounds + 2) * count
        loopback.run_app(folder / "app", {"out": str(out), "reveal": True, "every-answer": True}, timeout=timeout)
    run = Run.load(out / "checkpoint", federation, game)
    shutil.rmtree(folder, ignore_errors=True)
    return run


def single_cell(study: Study, method: Method, strength: float | None, seed: int, devices: int) -> Study:
    """Return the study with only this cell and with absolute paths, since nodes work in folders of their own.

    `write_app` does the same for the path of a policy.
    """
    changes = {point: {name: _file(value) for name, value in settings.items()} for point, settings in method.at.items()}
    parts = {"game": _with_files(method.game), "shield": None if method.shield is None else _with_files(method.shield)}
    strengths = None if strength is None else [strength]
    only = method.model_copy(update={**parts, "strengths": strengths, "at": changes})
    options = {name: _absolute(value) for name, value in study.data.options.items()}
    data = study.data.model_copy(update={"options": options})
    section = study.federation.model_copy(update={"devices": devices})
    return study.model_copy(update={"methods": [only], "seeds": [seed], "data": data, "federation": section})


def _with_files(part: PartSettings) -> PartSettings:
    return part.model_copy(update={name: _file(value) for name, value in part.settings.items()})


def _file(value: Any) -> Any:
    """Return the absolute path of a value that names a file; other values stay as they are."""
    if isinstance(value, list):
        return [_file(item) for item in value]
    is_file = isinstance(value, str) and Path(value).suffix and Path(value).is_file()
    return str(Path(value).resolve()) if is_file else value


def _absolute(value: Any) -> Any:
    return str(Path(value).resolve()) if isinstance(value, str) and Path(value).exists() else value
