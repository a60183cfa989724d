"""What is proved about a cell, what noise on updates has spent, and devices with nothing to hide, as reported."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tiny_study import fedveil_here

from fedveil.certificates import gaussian_epsilon
from fedveil.config.cells import load_data, make_federation, make_game
from fedveil.config.study import make_study
from fedveil.data import Split, load
from fedveil.studies.check import checked
from fedveil.studies.notes import notes
from fedveil.studies.proving import certificates_of, theory_facts
from fedveil.studies.results import open_study

NOISY = {"name": "noisy", "game": "undefended", "shield": {"kind": "dp-gaussian", "sigma": 4.0, "clip": 1.0}}
UNCLIPPED = {"name": "unclipped", "game": "undefended", "shield": {"kind": "dp-gaussian", "sigma": 4.0, "clip": None}}
TAPPFL = {"name": "tappfl", "game": {"kind": "tappfl", "attribute": "u", "networks": "light", "local_epochs": 1}}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A study of noise on updates, clipped and not, and of a game in which some devices hold one value of u."""
    import yaml
    from tiny_study import TINY

    folder = tmp_path_factory.mktemp("proving")
    federation = {
        "devices": 6,
        "fraction": 0.5,
        "rounds": 4,
        "partition": {"kind": "shards", "per_device": 1, "by": "u"},
    }
    study = {**TINY, "methods": [NOISY, UNCLIPPED, TAPPFL], "federation": federation}
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    done = fedveil_here("run", folder / "study.yaml", "--out", folder / "out", "--workers", "1")
    assert done.returncode == 0, done.stderr
    return folder / "out", done.stdout + done.stderr


def test_what_noise_on_updates_has_spent_is_counted_over_the_busiest_device(ran: tuple[Path, str]) -> None:
    results = open_study(ran[0])
    by_method = {cell.method: cell for cell in results.cells}
    (spent,) = by_method["noisy"].result.spent
    assert spent.releases is not None
    assert 2 <= spent.releases <= 4  # half of six devices in each of four rounds
    assert spent.epsilon == pytest.approx(gaussian_epsilon(4.0 / 2.0, 1e-5, spent.releases))
    assert spent.covers == "updates, not representations"
    assert by_method["noisy"].result.certificates["u"] == ()  # nothing is proved about what is released
    assert by_method["drop-columns"].result.spent == ()
    rows = {row.method: row.as_dict() for row in results.rows if row.attacker == "retrained"}
    assert rows["noisy"]["spent"]["epsilon"] == pytest.approx(spent.epsilon)
    assert rows["drop-columns"]["spent"] is None
    table = pd.read_csv(ran[0] / "results.csv").groupby("method").first()
    assert table.loc["noisy", "update_epsilon"] == pytest.approx(spent.epsilon)
    assert math.isnan(table.loc["drop-columns", "update_epsilon"])


def test_unclipped_noise_has_an_infinite_epsilon(ran: tuple[Path, str]) -> None:
    results = open_study(ran[0])
    cell = next(cell for cell in results.cells if cell.method == "unclipped")
    (spent,) = cell.result.spent
    assert math.isinf(spent.epsilon)
    (written,) = json.loads((cell.folder / "result.json").read_text())["spent"]
    assert written["infinite"]
    assert written["bound"] is None
    row = next(row for row in results.rows if row.method == "unclipped")
    assert row.as_dict()["spent"]["epsilon"] is None
    assert pd.read_csv(ran[0] / "results.csv").groupby("method").first().loc["unclipped", "update_epsilon"] == math.inf
    sentence = notes(results.rows)["spent"]
    assert "unclipped: ε = ∞ (nothing is clipped, so nothing is guaranteed)" in sentence
    assert "This covers updates, not the representations" in sentence


def test_devices_with_nothing_to_hide_are_counted_and_reported(ran: tuple[Path, str]) -> None:
    results = open_study(ran[0])
    cell = next(cell for cell in results.cells if cell.method == "tappfl")
    study = make_study({**results.study, "name": "tiny"})
    federation = make_federation(study, study.methods[2], None, 0, load_data(study, 0))
    u = federation.data.attribute("u").codes
    alike = sum(len(np.unique(u[rows])) < 2 for rows in federation.partition)
    assert 4 <= alike <= 6  # sorted by u: at most one shard holds both
    assert cell.result.utility_only == {"u": alike}
    row = next(row for row in results.rows if row.method == "tappfl")
    assert row.as_dict()["utility_only"] == {"u": {"devices": alike, "of": 6}}
    sentence = f"{alike} of 6 devices lack u or hold one value of it"
    assert sentence in notes(results.rows)["idle"]
    assert sentence in " ".join(ran[1].split())


def played(shield: dict[str, Any], **data: Any) -> tuple[Any, Any]:
    study = make_study(
        {
            "name": "t",
            "data": {"source": "adult", "target": "income", "sensitive": ["sex", "race"], "records": 3000, **data},
            "federation": {"devices": 3},
            "methods": [{"name": "m", "game": "raw", "shield": shield}],
            "attacks": {"attributes": ["sex"]},
        }
    )
    federation = make_federation(study, study.methods[0], None, 0, load_data(study, 0))
    return study, federation.play(make_game(study.methods[0], None))


def test_a_certificate_that_needs_people_counts_people_the_map_never_saw(published: Any) -> None:
    published("adult")
    kind = {"kind": "transport", "attribute": "sex", "codes": 8}
    study, run = played(kind)
    (certificate,) = certificates_of(study, run)["sex"]
    tested = len(run.federation.data.rows(Split.TEST))
    assert (certificate.quantity, certificate.direction, certificate.confidence) == ("balanced accuracy", "upper", 0.95)
    assert certificate.assumptions["people counted"] == tested
    assert 0.5 < certificate.bound < 0.75
    assert "people from another population" in certificate.does_not_cover
    study, run = played({**kind, "keep": {"education": 1.0}})
    (certificate,) = certificates_of(study, run)["sex"]
    assert certificate.quantity == "balanced accuracy from the code and its stratum alone"  # not of all that is shown
    assert any("education" in text for text in certificate.does_not_cover)


def test_it_is_about_attributes_that_are_hidden_and_for_single_shields(published: Any) -> None:
    published("adult")
    from fedveil.shields.shield import Chain, Identity

    kind = {"kind": "transport", "attribute": ["sex", "race"], "codes": 8, "least": 5}
    _, run = played(kind)
    data, rows = run.federation.data, run.federation.data.rows(Split.TEST)
    (certificate,) = run.shield.certificates_on(data, rows, "sex", 0)
    assert certificate.assumptions["values"] == 2  # of sex alone, though combinations are hidden
    assert run.shield.certificates_on(data, rows, "income", 0) == ()
    assert Chain([run.shield]).certificates_on(data, rows, "sex", 0) == ()
    assert Identity().certificates_on(data, rows, "sex", 0) == ()


def test_facts_for_theorems_are_those_of_the_test_people() -> None:
    study = make_study(
        {
            "name": "t",
            "data": {"source": "synthetic", "target": "y", "sensitive": ["u"], "options": {"n": 900}},
            "methods": [{"name": "none", "game": "raw"}],
            "federation": {"devices": 3},
        }
    )
    plan = checked(study)
    run = make_federation(study, plan.methods[0], None, 0, load_data(study, 0)).play(make_game(plan.methods[0], None))
    data = load("synthetic", target="y", sensitive=["u"], seed=0, n=900)
    rows = data.rows(Split.TEST)
    y, u = data.y.codes[rows], data.attribute("u").codes[rows]
    facts = theory_facts(study, run)["u"]
    assert facts.gap["y"] == pytest.approx(abs(y[u == 1].mean() - y[u == 0].mean()))
    p = u.mean()
    assert facts.entropy_bits == pytest.approx(-p * math.log2(p) - (1 - p) * math.log2(1 - p))
