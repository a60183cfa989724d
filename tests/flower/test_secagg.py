"""SecAgg+ around a shield: the server gets masked vectors and their sum, and the sum is of shielded updates."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedveil.flower.captured import Captured
from fedveil.flower.ledger import Ledger
from fedveil.flower.loopback import Loopback

SUMMED = Path(__file__).parent / "apps" / "summed"


def _shielded(number: int) -> np.ndarray:
    """What the shield lets out of node `number`'s step: the tenth with the largest magnitudes."""
    step = np.random.default_rng(number).normal(size=100).astype(np.float32)
    return np.where(np.abs(step) >= np.sort(np.abs(step))[-10], step, 0)


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict], Captured]:
    folder = tmp_path_factory.mktemp("secagg")
    (folder / "received").mkdir()
    nodes: list[dict[str, str | int]] = []
    for number in range(3):
        site = folder / f"site-{number}"
        site.mkdir()
        (site / "policy.toml").write_text(
            'shield = {kind = "sparsify", p = 0.9}\nledger = "ledger.jsonl"\n[budget]\nmessages = 3\n'
        )
        nodes.append({"partition-id": number, "fedveil-policy": str(site / "policy.toml")})
    with Loopback(folder / "loopback", nodes=nodes) as loopback:
        settings = {"capture": str(folder / "captured"), "received": str(folder / "received")}
        run = loopback.run_app(SUMMED, settings, timeout=500)
    assert "the rounds are over" in run.log
    replies = [json.loads(file.read_text()) for file in sorted((folder / "received").glob("*.json"))]
    return folder, replies, Captured.load(folder / "captured")


def _the_server_learns_the_sum_of_shielded_updates(received: tuple[Path, list[dict], Captured]) -> None:
    folder, _, seen = received
    expected = np.mean([_shielded(number) for number in range(3)], axis=0)
    assert len(seen.updates) == 3
    for row in seen.updates:  # a strategy is given the mean in place of every node's update
        np.testing.assert_allclose(row, expected, atol=1e-4)
    assert np.count_nonzero(np.abs(expected) > 1e-4) <= 30 < 100
    for number in range(3):
        assert Ledger(folder / f"site-{number}" / "ledger.jsonl", 1.0).read().count("update") >= 1


def _no_single_update_reaches_the_server(received: tuple[Path, list[dict], Captured]) -> None:
    replies = received[1]
    assert not [reply for reply in replies if reply["arrays"]]  # no reply carries plain arrays
    assert not [reply for reply in replies if "error" in reply]
    masked = [reply for reply in replies if "masked" in reply]
    assert len({reply["node"] for reply in masked}) == 3
    vectors = [np.array(reply["masked"][-1], dtype=np.float64) for reply in masked]
    for vector in vectors:
        assert vector.shape == (100,)
        # 90 of 100 shielded entries are the same number; masked, almost all differ and cover the whole range.
        assert len(np.unique(vector)) > 95
        assert vector.max() - vector.min() > 0.8 * 2**32
        for number in range(3):
            assert abs(np.corrcoef(vector, _shielded(number))[0, 1]) < 0.4  # p < 1e-4 each if unrelated


@pytest.mark.slow  # a minute and a half of real processes; test_deployment.py has a deployment of its own
def test_secagg_around_a_shield(received: tuple[Path, list[dict], Captured]) -> None:
    # One test: pytest-xdist would start a deployment on every worker that is given one of several.
    _the_server_learns_the_sum_of_shielded_updates(received)
    _no_single_update_reaches_the_server(received)
