"""Small games, played on an in-process grid and on the local engine."""

from __future__ import annotations

from pathlib import Path

import yaml
from direct_grid import DirectGrid

from fedveil.federation.run import Run
from fedveil.flower import protocol
from fedveil.flower.node import client_app
from fedveil.flower.protocol import Setup
from fedveil.flower.server import FlowerFleet

GAMES = {
    "tappfl": {"kind": "tappfl", "attribute": "u", "strength": 0.5},
    "adversarial": {"kind": "adversarial", "attribute": "u", "strength": 1.0},
    "attri-fed": {"kind": "attri-fed", "attribute": "u", "width": 2, "initial_rounds": 1, "private_rounds": 2}
    | {"federated_rounds": 2, "steps": 2, "encoders": "own"},
    "attri-fed, shared start": {"kind": "attri-fed", "attribute": "u", "width": 2, "initial_rounds": 1}
    | {"private_rounds": 1, "federated_rounds": 1, "steps": 1, "encoders": "shared-start"},
}


def study_file(folder: Path, game: dict, *, engine: str = "flower", devices: int = 2, **more: object) -> Path:
    """Write a small study with one method."""
    values = {
        "name": "small",
        "data": {"source": "synthetic", "target": "y", "sensitive": ["u"], "options": {"n": 300}},
        "federation": {"devices": devices, "rounds": 2, "engine": engine, "dtype": "float64"},
        "methods": [{"name": "method", "game": game, **more}],
    }
    path = folder / f"{engine}.yaml"
    path.write_text(yaml.safe_dump(values))
    return path


def on_grid(path: Path, *, reveal: bool = True, **named: object) -> tuple[DirectGrid, Setup, FlowerFleet, list[str]]:
    """Let every device of a study join a grid; return the grid, the set-up, a fleet and the fleet's messages."""
    grid, lines = DirectGrid(), []
    setup = Setup.read(path, {})
    count = setup.study.federation.devices
    for device in range(count):
        config = {protocol.PARTITION: device, protocol.PARTITIONS: count, **({protocol.REVEAL: True} if reveal else {})}
        grid.join(client_app(path), config)
    fleet = FlowerFleet(grid, least=count, seconds=0.1, report=lines.append, **named)
    return grid, setup, fleet, lines


def played_locally(folder: Path, game: dict, **more: object) -> Run:
    setup = Setup.read(study_file(folder, game, engine="stacked", **more), {})
    return setup.run().play(setup.rounds)
