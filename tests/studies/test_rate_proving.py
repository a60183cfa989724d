"""Studies that play Attri-Fed: the rate certificate for both observers, several attributes, bad weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from tiny_study import TINY, fedveil_here

from fedveil.data import Attribute, AttributeData, Split
from fedveil.data.partition import Shards
from fedveil.federation import Federation
from fedveil.games import AttriFed
from fedveil.rate.measuring import Released, measure
from fedveil.report import in_words
from fedveil.shields import CertifiedChannel
from fedveil.studies.proving import game_certificates
from fedveil.studies.results import open_study

SMALL = {"width": 2, "reach": 1, "initial_rounds": 2, "private_rounds": 2, "federated_rounds": 1, "steps": 2}


def game(**changed: Any) -> dict[str, Any]:
    return {"kind": "attri-fed", "attribute": "u", **SMALL, **changed}


def written(folder: Path, *methods: dict[str, Any]) -> Path:
    study = {**TINY, "methods": list(methods), "drop_columns": [0], "federation": {"devices": 3, "rounds": 2}}
    (folder / "study.yaml").write_text(yaml.safe_dump(study))
    return folder / "study.yaml"


def test_cells_have_the_certificate_for_both_observers_and_the_report_says_what_it_is_worth(tmp_path: Path) -> None:
    methods = [{"name": "none", "game": game(variant="none")}, {"name": "eeo", "game": game()}]
    done = fedveil_here("run", written(tmp_path, *methods), "--out", tmp_path / "out", "--workers", "1")
    assert done.returncode == 0, done.stderr
    results = open_study(tmp_path / "out")
    cells = {cell.method: cell.result.certificates["u"] for cell in results.cells}
    assert cells["none"] == ()
    certificates = {certificate.quantity: certificate for certificate in cells["eeo"]}
    assert set(certificates) == {
        "information (bits)",
        "accuracy",
        "information (bits), sender unknown",
        "accuracy, sender unknown",
    }
    for name, certificate in certificates.items():
        # A quantity without a qualifier in its name holds for a server that knows the sender.
        assert certificate.assumptions["observer"] == ("sender unknown" if "unknown" in name else "sender known")
        assert certificate.assumptions["held-out records"] == 120
        assert certificate.confidence == 0.95
    (text,) = [sentence.text for sentence in in_words(results, "y", "u") if sentence.about == "rate"]
    assert "Corollary 1 (ε = ln 1/T, T the least prior) guarantees nothing" in text
    assert "by Fano's inequality" in text
    assert "bits say little about accuracy" in text
    assert text.count(". ") == 0  # one sentence
    assert [sentence.text for sentence in in_words(results, "y", "u") if sentence.about == "certified"] == [
        "No bound on the balanced accuracy of reading u is proved."
    ]


def people(n: int = 600) -> AttributeData:
    """Task v in the first columns, two attributes in others; some labels of a third are missing."""
    rng = np.random.default_rng(0)
    v, a, b = rng.integers(0, 2, n), rng.integers(0, 2, n), rng.integers(0, 3, n)
    x = rng.normal(0, 0.3, (n, 5)).astype(np.float32)
    x[:, 0] += 2 * v
    x[:, 1] += 2 * a
    x[:, 2] += 2 * b
    split = np.repeat([0, 1, 2], [n // 3, n // 3, n - 2 * (n // 3)]).astype(np.int8)
    labels = {
        "a": Attribute("a", a, ("0", "1")),
        "b": Attribute("b", b, ("0", "1", "2")),
        "c": Attribute("c", np.where(rng.random(n) < 0.1, -1, a), ("0", "1")),
    }
    return AttributeData(x, labels, split, y=Attribute("v", v, ("0", "1")))


def test_several_attributes_are_hidden_measured_and_certified_each() -> None:
    data = people()
    settings: dict[str, Any] = {**SMALL, "batch_size": 50}
    rounds = AttriFed(("a", "b"), encoders="shared", **settings)
    run = Federation(data, devices=2, device="cpu").play(rounds)
    assert {"privatiser:a", "privatiser:b"} <= set(run.local) | set(run.shared)
    for name, values in (("a", 2), ("b", 3)):
        measured = measure(Released.of_run(run, 1, draws=100), data, name, attackers=("logistic",), draws=100)
        assert measured.stranger.attribute == name
        assert len(measured.stranger.classes) == values
        proved = {certificate.quantity: certificate.bound for certificate in game_certificates(run, name)}
        assert measured.stranger.mutual_information_bits.low <= proved["information (bits), sender unknown"]
        assert proved["information (bits)"] <= np.log2(values)
    assert game_certificates(run, "c") == ()  # people without a label are no random sample
    shielded = Federation(data, devices=2, device="cpu", shield=CertifiedChannel(1.0)).play(rounds)
    assert game_certificates(shielded, "a") == ()  # the numbers that leave are not those that were coded


def test_a_study_may_hide_a_list(tmp_path: Path) -> None:
    study = written(tmp_path, {"name": "eeo", "game": game(attribute=["u", "z"])})
    done = fedveil_here("run", study, "--out", tmp_path / "out", "--workers", "1")
    assert done.returncode == 2
    assert "no attribute 'z'" in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_participant_with_one_class_only_takes_part() -> None:
    data = people()
    assert data.y is not None
    run = Federation(data, devices=Shards(3, per_device=1), device="cpu").play(AttriFed("a", **SMALL))
    assert any(len(np.unique(data.y.codes[rows])) == 1 for rows in run.federation.partition)
    released = Released.of_run(run, 1, draws=100)
    assert np.isfinite(released.values[Split.TEST]).all()
    measured = measure(released, data, "a", attackers=("logistic",), draws=100)
    assert 0 < measured.certificates["sender known"].bound <= 1


@pytest.mark.parametrize("symbol", ["lam", "beta", "gamma"])
def test_negative_weights_are_refused_in_one_line(symbol: str, tmp_path: Path) -> None:
    study = written(tmp_path, {"name": "eeo", "game": game(**{symbol: -0.5})})
    done = fedveil_here("run", study, "--out", tmp_path / "out", "--workers", "1")
    assert done.returncode == 2
    assert f"{symbol} must not be negative" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "out").exists()
