"""Games on real SuperLinks and SuperNodes: `engine: flower`, and an app as `fedveil flower new` writes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml

from fedveil import studies
from fedveil.federation.run import Run
from fedveil.flower import protocol
from fedveil.flower.loopback import Loopback
from fedveil.flower.protocol import Setup

STUDY = {
    "name": "deployed",
    "data": {"source": "synthetic", "target": "y", "sensitive": ["u"], "options": {"n": 300}},
    "federation": {"devices": 2, "rounds": 2},
    "drop_columns": [0],
    "methods": [{"name": "tappfl", "game": {"kind": "tappfl", "attribute": "u", "strength": 0.5}}],
    "attacks": {"panel": ["logistic"], "draws": 100},
}

ATTRI_FED = {"kind": "attri-fed", "attribute": "u", "width": 2, "encoders": "own", "steps": 1}
ATTRI_FED |= {"initial_rounds": 1, "private_rounds": 1, "federated_rounds": 1, "privatiser_steps": 1}
GAMES = [
    {"name": "adversarial", "rounds": 1, "game": {"kind": "adversarial", "attribute": "u", "strength": 1.0}},
    {"name": "attri-fed", "game": ATTRI_FED},
]


def written(folder: Path, **changes: object) -> Path:
    path = folder / f"{len(list(folder.glob('*.yaml')))}.yaml"
    path.write_text(yaml.safe_dump({**STUDY, **changes}))
    return path


@pytest.mark.slow  # a minute and a half of real processes; test_games.py plays the same on an in-process grid
def test_a_study_on_flower_has_the_local_engines_results(tmp_path: Path) -> None:
    figures = {}
    for engine in ("flower", "stacked"):
        path = written(tmp_path, federation={**STUDY["federation"], "engine": engine})
        results = studies.run(path, tmp_path / engine)
        (cell,) = [cell for cell in results.cells if cell.method == "tappfl"]
        figures[engine] = cell.result.as_dict()
        assert not (cell.folder / "flower").exists()
    assert _numbers(figures["flower"]) == pytest.approx(_numbers(figures["stacked"]), abs=1e-4, nan_ok=True)
    assert len(_numbers(figures["flower"])) > 50


@pytest.mark.slow  # a minute for each; the same games are played on an in-process grid in test_games.py
@pytest.mark.parametrize("method", ["attri-fed", "adversarial"])
def test_an_app_that_was_written_plays_a_method(method: str, tmp_path: Path) -> None:
    study = written(tmp_path, methods=GAMES)
    app = tmp_path / "my app"
    done = subprocess.run(
        [sys.executable, "-m", "fedveil", "flower", "new", str(app), "--study", str(study)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(app / "pyproject.toml") in done.stdout
    nodes = [{protocol.PARTITION: device, protocol.PARTITIONS: 2, protocol.REVEAL: True} for device in range(2)]
    out = tmp_path / "out"
    with Loopback(tmp_path / "processes", nodes) as loopback:
        loopback.run_app(app, {"method": method, "out": str(out), "reveal": True}, timeout=400)
    setup = Setup.read(app / "fedveil_app" / "study.yaml", {"method": method})
    fresh = setup.run()
    run = Run.load(out / "checkpoint", fresh.federation, fresh.game)
    home = Setup.read(study, {"method": method}).run().play(setup.rounds)
    for player in home.shared:
        torch.testing.assert_close(run.shared[player], home.shared[player], atol=1e-4, rtol=0)
    assert any(not torch.equal(run.shared[player], fresh.shared[player]) for player in home.shared)
    assert [record.losses for record in run.history] == [
        pytest.approx(record.losses, abs=1e-4) for record in home.history
    ]


def _numbers(value: object) -> list[float]:
    """Return all numbers of a nested result, in order."""
    if isinstance(value, dict):
        return [number for name in sorted(value) if name != "cell" for number in _numbers(value[name])]
    if isinstance(value, list):
        return [number for item in value for number in _numbers(item)]
    return [float(value)] if isinstance(value, int | float) and not isinstance(value, bool) else []
