"""A study of updates, end to end: shadows resemble the victims, validation records fill them, devices stay apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tiny_study import TINY, fedveil_here

from fedveil.config.study import make_study
from fedveil.core.errors import InputError
from fedveil.data import ByGroup, Dirichlet, OneEach, Shards, Split, load
from fedveil.federation import Federation
from fedveil.federation.recording import shadow_rows
from fedveil.federation.run import Run, begin
from fedveil.games import FedAvg
from fedveil.studies.check import checked
from fedveil.studies.results import open_study

DATA = {"source": "synthetic", "target": "y", "sensitive": ["u"]}
OPTIONS = {"n": 6000, "bits": 0.7, "overlap": 0.9, "validation": 0.4, "test": 0.1}
UNEVEN = {"kind": "dirichlet", "alpha": 0.1, "by": "u"}
WATCHED = {"panel": ["updates"], "draws": 100, "view": "updates", "rounds": [1, 2]}
STUDY: dict[str, Any] = {
    **TINY,
    "data": {**DATA, "options": OPTIONS},
    "federation": {"devices": 60, "rounds": 2, "partition": UNEVEN},
    "methods": [{"name": "none", "game": {"kind": "fedavg", "hidden": [8]}}],
    "attacks": WATCHED,
}


def test_a_server_reads_a_device_s_majority_from_its_update(tmp_path: Path) -> None:
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(STUDY))
    done = fedveil_here("run", path, "--out", tmp_path / "out", "--workers", "1")
    assert done.returncode == 0, done.stderr
    results = open_study(tmp_path / "out")
    cell = next(cell for cell in results.cells if cell.method == "none")
    judged = cell.result.leakage["u"]
    assert judged.groups == 60  # every device is attacked; its two updates are one device
    assert judged.n[0] + judged.n[1] == 2 * 48  # 2,400 records, 50 to a device
    assert judged.worst.balanced_accuracy.estimate > 0.75
    assert judged.worst.balanced_accuracy.low > 0.6
    assert cell.result.decensoring == {}


def run_of(dealer: Any, **options: Any) -> Run:
    data = load("synthetic", target="y", sensitive=["u"], n=1500, validation=0.4, test=0.1, **options)
    return begin(Federation(data, dealer), FedAvg(hidden=(4,)))


@pytest.mark.parametrize("dealer", [Dirichlet(20, 0.05, "u"), Shards(20, 1, "u")])
def test_shadows_are_as_uneven_as_the_victims(dealer: Any) -> None:
    run = run_of(dealer)
    u = run.federation.data.attribute("u").codes
    shadows = shadow_rows(run, 15)
    rows = np.concatenate(shadows)
    assert sorted(rows) == sorted(run.federation.data.rows(Split.VALIDATION))
    far = [np.mean([abs(u[rows].mean() - 0.5) for rows in devices]) for devices in (run.federation.partition, shadows)]
    assert far[1] > 0.25
    assert far[1] == pytest.approx(far[0], abs=0.15)
    even = run_of(20)
    assert np.mean([abs(u[rows].mean() - 0.5) for rows in shadow_rows(even, 15)]) < 0.15
    assert all(np.array_equal(shadow, other) for shadow, other in zip(shadows, shadow_rows(run, 15), strict=True))


def test_shadows_of_one_group_or_one_record_each_are_drawn_in_the_number_asked_for() -> None:
    run = run_of(ByGroup(), groups=100)
    groups = run.federation.data.groups
    shadows = shadow_rows(run, 12)
    assert len(shadows) == 12
    assert all(len(np.unique(groups[rows])) == 1 for rows in shadows)
    assert [len(rows) for rows in shadow_rows(run_of(OneEach()), 30)] == [1] * 30
    with pytest.raises(InputError, match="600 validation records"):
        shadow_rows(run_of(OneEach()), 601)


def test_devices_that_are_all_alike_are_refused_before_anything_is_trained() -> None:
    study = {**STUDY, "federation": {"devices": 60, "rounds": 2}}
    study["data"] = {**DATA, "options": {**OPTIONS, "prior": 0.85, "bits": 0.3}}
    with pytest.raises(
        InputError, match=r"attacks.view: the most frequent value of 'u' is '.*' at every device.*by: u}"
    ):
        checked(make_study(study))
