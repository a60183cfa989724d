"""`engine: flower`: a study's cell, trained by a SuperLink and one SuperNode per device on this machine."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedveil.config.study import Method, PartSettings, Study
from fedveil.flower import wire
from fedveil.flower.loopback import Loopback
from fedveil.flower.new_app import write_app

if TYPE_CHECKING:
    from fedveil.federation.federation import Federation
    from fedveil.federation.run import Run
    from fedveil.games.game import Game

_SECONDS_PER_ANSWER = 60
"""How long one node may take for one round, its start included, before the whole is given up."""


def play_cell(
    study: Study, method: Method, strength: float | None, federation: Federation, game: Game, folder: Path
) -> Run:
    """Train a cell on Flower and return the run as if it had been trained here, local players and all.

    Nodes of such a study reveal their local players at the end, since all of them are this machine's own.
    """
    from fedveil.federation.run import Run

    shutil.rmtree(folder, ignore_errors=True)  # of a cell that was killed
    folder.mkdir(parents=True)
    count = len(federation.partition)
    write_app(folder / "app", _alone(study, method, strength, federation.seed, count))
    nodes = [{wire.PARTITION: place, wire.PARTITIONS: count, wire.REVEAL: True} for place in range(count)]
    planned = method.rounds or study.federation.rounds
    rounds = sum(stage.rounds or planned for stage in Run(federation, game).stages)
    out = folder / "out"
    with Loopback(folder / "processes", nodes) as loopback:
        timeout = _SECONDS_PER_ANSWER * (rounds + 2) * count
        loopback.run_app(folder / "app", {"out": str(out), "reveal": True, "every-answer": True}, timeout=timeout)
    run = Run.load(out / "checkpoint", federation, game)
    shutil.rmtree(folder, ignore_errors=True)
    return run


def _alone(study: Study, method: Method, strength: float | None, seed: int, devices: int) -> Study:
    """Return the study with this one cell, its files found from anywhere."""
    changes = {place: {name: _file(value) for name, value in own.items()} for place, own in method.at.items()}
    found = {"game": _found(method.game), "shield": None if method.shield is None else _found(method.shield)}
    strengths = None if strength is None else [strength]
    one = method.model_copy(update={**found, "policy": _file(method.policy), "strengths": strengths, "at": changes})
    options = {name: _absolute(value) for name, value in study.data.options.items()}
    data = study.data.model_copy(update={"options": options})
    section = study.federation.model_copy(update={"devices": devices})
    return study.model_copy(update={"methods": [one], "seeds": [seed], "data": data, "federation": section})


def _found(part: PartSettings) -> PartSettings:
    return part.model_copy(update={name: _file(value) for name, value in part.settings.items()})


def _file(value: Any) -> Any:
    """Return a file's path from the root: nodes work in folders of their own."""
    if isinstance(value, list):
        return [_file(own) for own in value]
    named = isinstance(value, str) and Path(value).suffix and Path(value).is_file()
    return str(Path(value).resolve()) if named else value


def _absolute(value: Any) -> Any:
    return str(Path(value).resolve()) if isinstance(value, str) and Path(value).exists() else value
