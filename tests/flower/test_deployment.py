"""Real processes with TLS and node authentication: which nodes are admitted, die or join late, and what was sent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedveil.core.errors import InputError
from fedveil.flower.captured import Captured
from fedveil.flower.ledger import Ledger
from fedveil.flower.loopback import Loopback, Node, read_log

GUARDED = Path(__file__).parent / "apps" / "guarded"
SPARSIFY = 'shield = {kind = "sparsify", p = 0.9}'
QUANTISE = 'shield = {kind = "quantise", bits = 2}'


def _site(folder: Path, shield: str | None, **more: str | int) -> dict[str, str | int]:
    """Make a site's folder with its policy; without a shield the policy that the node config names is missing."""
    folder.mkdir(parents=True)
    if shield is not None:
        (folder / "policy.toml").write_text(f'{shield}\nledger = "ledger.jsonl"\n[budget]\nmessages = 10\n')
    return {"fedveil-policy": str(folder / "policy.toml"), **more}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("deployment")


@pytest.fixture(scope="module")
def deployment(folder: Path) -> Iterator[Loopback]:
    sites = folder / "sites"
    nodes = [
        _site(sites / "steady", SPARSIFY),
        _site(sites / "doomed", SPARSIFY, **{"stop-in-round": 2, "marker": str(folder / "busy")}),
        _site(sites / "careless", None),
    ]
    with Loopback(folder / "loopback", nodes=nodes, authenticate=True) as loopback:
        yield loopback


@pytest.fixture(scope="module")
def names(deployment: Loopback) -> dict[str, Node]:
    return dict(zip(("steady", "doomed", "careless"), deployment.started, strict=False))


@pytest.fixture(scope="module")
def seen(deployment: Loopback, names: dict[str, Node], folder: Path) -> Captured:
    """Three rounds: in the second a node is killed and another one joins; a stranger asks to be let in before."""
    stranger = deployment.start_node(_site(folder / "sites" / "stranger", SPARSIFY), wait=False, authenticated=False)
    names["stranger"] = stranger
    run = deployment.start_app(GUARDED, {"capture": str(folder / "captured"), "gone": str(folder / "gone")})
    end = time.monotonic() + 400  # bounded, and long enough for a busy machine
    while not (folder / "busy").exists():
        assert time.monotonic() < end, run.log
        time.sleep(0.05)
    deployment.kill_node(names["doomed"])
    names["late"] = deployment.start_node(_site(folder / "sites" / "late", QUANTISE))
    (folder / "gone").write_text(str(names["doomed"].id))
    ended = run.wait(400)
    assert "all rounds are over" in ended.log
    return Captured.load(folder / "captured")


def _of(seen: Captured, node: Node) -> dict[int, np.ndarray]:
    return {
        int(number): update
        for number, sender, update in zip(seen.rounds, seen.nodes, seen.updates, strict=True)
        if sender == str(node.id)
    }


def _training_goes_on_without_dead_nodes_and_with_late_ones(seen: Captured, names: dict[str, Node]) -> None:
    assert set(_of(seen, names["steady"])) == {1, 2, 3}
    assert set(_of(seen, names["doomed"])) == {1}  # killed in the middle of its second round
    assert names["doomed"].process.returncode == -9
    assert 3 in _of(seen, names["late"])
    assert 1 not in _of(seen, names["late"])


def _nothing_unshielded_was_sent(seen: Captured, names: dict[str, Node]) -> None:
    for name in ("steady", "doomed"):
        for update in _of(seen, names[name]).values():
            assert np.count_nonzero(update) == 10  # 90 of the 100 weights that the app moved are not sent
    for update in _of(seen, names["late"]).values():
        sizes = np.unique(np.abs(update).round(6))
        assert len(sizes) <= 2  # two bits: −m, 0, m
        assert len(np.unique(np.sign(update))) >= 2
    expected = {str(names[name].id) for name in ("steady", "doomed", "late")}
    assert set(seen.nodes) <= expected


def _a_node_without_a_policy_sends_a_fixed_sentence_and_nothing_else(seen: Captured, names: dict[str, Node]) -> None:
    replies = [reply for reply in seen.replies if reply["node"] == str(names["careless"].id)]
    assert replies
    for reply in replies:
        assert reply["row"] is None
        assert reply["figures"] == {}
        assert reply["error"].endswith("fedveil: nothing was sent: the site's policy is missing or cannot be used")


def _every_update_that_left_is_in_its_site_s_ledger(seen: Captured, names: dict[str, Node], folder: Path) -> None:
    for name in ("steady", "doomed", "late"):
        reading = Ledger(folder / "sites" / name / "ledger.jsonl", 1.0).read()
        # On a busy machine Flower starts an app's process twice for one message: paid twice, sent once.
        assert reading.count("update") >= len(_of(seen, names[name]))


def _a_node_whose_key_is_not_registered_is_not_admitted(
    seen: Captured, names: dict[str, Node], deployment: Loopback
) -> None:
    stranger = names["stranger"]
    assert stranger.id is None
    assert stranger.process.poll() not in (None, 0)
    assert "Failed to activate SuperNode" in read_log(stranger.log)
    recipients = {node for nodes in seen.recipients.values() for node in nodes}
    assert recipients == {str(names[name].id) for name in ("steady", "doomed", "careless", "late")}
    with pytest.raises(InputError, match="was not admitted"):
        deployment.wait_for(stranger)


def _a_node_that_does_not_trust_the_certificate_does_not_connect(deployment: Loopback) -> None:
    import socket
    import ssl

    host, _, port = deployment.address.partition(":")
    with (
        socket.create_connection((host, int(port)), timeout=10) as plain,
        pytest.raises(ssl.SSLCertVerificationError),
        ssl.create_default_context().wrap_socket(plain, server_hostname="localhost"),
    ):
        pass


def test_a_deployment_with_keys_in_which_a_node_dies_and_another_joins_late(
    seen: Captured, names: dict[str, Node], deployment: Loopback, folder: Path
) -> None:
    # One test: pytest-xdist would start a deployment on every worker that is given one of several.
    _training_goes_on_without_dead_nodes_and_with_late_ones(seen, names)
    _nothing_unshielded_was_sent(seen, names)
    _a_node_without_a_policy_sends_a_fixed_sentence_and_nothing_else(seen, names)
    _every_update_that_left_is_in_its_site_s_ledger(seen, names, folder)
    _a_node_whose_key_is_not_registered_is_not_admitted(seen, names, deployment)
    _a_node_that_does_not_trust_the_certificate_does_not_connect(deployment)
