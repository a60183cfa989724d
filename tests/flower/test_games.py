"""Games on Flower give what the local engine gives; local players and secrets stay on their node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from direct_grid import DirectGrid
from flower_games import GAMES, on_grid, played_locally, study_file
from flwr.app import Message
from flwr.supercore.constant import SUPERLINK_DEFAULT_CLIENT_ADDRESS

from fedveil.config.cells import load_data
from fedveil.config.study import read_study
from fedveil.core.errors import InputError
from fedveil.data.attribute_data import Split
from fedveil.federation.exchange import segments_of
from fedveil.flower import protocol
from fedveil.flower.mod import shield_mod
from fedveil.flower.new_app import METRICS, write_app
from fedveil.flower.node import client_app
from fedveil.flower.protocol import Setup
from fedveil.flower.server import FlowerFleet
from fedveil.flower.study_cell import single_cell
from fedveil.shields.unread import Unread, save_unreading


@pytest.mark.parametrize("name", GAMES)
def test_the_local_engines_results(name: str, tmp_path: Path) -> None:
    local_run = played_locally(tmp_path, GAMES[name])
    grid, setup, fleet, _ = on_grid(study_file(tmp_path, GAMES[name]))
    run = setup.run(fleet=fleet).play(setup.rounds)
    fleet.reveal(run)
    moved = any(not torch.equal(local_run.shared[player], setup.run().shared[player]) for player in local_run.shared)
    assert moved
    for player in local_run.shared:
        torch.testing.assert_close(run.shared[player], local_run.shared[player], atol=1e-9, rtol=0)
    everyone = np.arange(2)
    assert set(run.local) == set(local_run.local)
    for player in local_run.local:
        torch.testing.assert_close(
            run.local[player].get(everyone), local_run.local[player].get(everyone), atol=1e-9, rtol=0
        )
    for mine, theirs in zip(run.history, local_run.history, strict=True):
        assert mine.losses == pytest.approx(theirs.losses, abs=1e-9)
    np.testing.assert_allclose(run.release(Split.TEST), local_run.release(Split.TEST), atol=1e-6)
    assert grid.seen


def test_the_studys_shield_works_on_the_node(tmp_path: Path) -> None:
    shield = {"shield": {"kind": "dp-gaussian", "sigma": 0.5, "clip": 0.1}}
    local_run = played_locally(tmp_path, GAMES["adversarial"], **shield)
    _, setup, fleet, _ = on_grid(study_file(tmp_path, GAMES["adversarial"], **shield))
    run = setup.run(fleet=fleet).play(setup.rounds)
    for player in local_run.shared:
        torch.testing.assert_close(run.shared[player], local_run.shared[player], atol=1e-9, rtol=0)
    assert run.history[0].damage == pytest.approx(local_run.history[0].damage)


@pytest.mark.parametrize(
    "shield", [{"kind": "dp-gaussian", "sigma": 0.5, "clip": 0.1}, {"kind": "quantise", "bits": 2}]
)
def test_noise_of_a_site_that_reveals_nothing_cannot_be_predicted_from_the_studys_seed(
    shield: dict, tmp_path: Path
) -> None:
    _, setup, fleet, _ = on_grid(study_file(tmp_path, GAMES["adversarial"], shield=shield), reveal=False)
    first, second = (setup.run(fleet=fleet).play(1, record=[1]).recorded[0][2] for _ in range(2))
    server = Setup.read(study_file(tmp_path, GAMES["adversarial"], engine="stacked", shield=shield), {}).run()
    predicted = server.play(1, record=[1]).recorded[0][2]
    assert predicted.shape == first.shape
    assert not torch.allclose(first, predicted, atol=1e-6)
    assert not torch.allclose(first, second, atol=1e-6)


def test_a_shields_secret_is_kept_between_messages(tmp_path: Path) -> None:
    first = Setup.read(study_file(tmp_path, GAMES["adversarial"], engine="stacked", devices=20), {}).run()
    first.play(1, record=[1])
    updates = first.recorded[0][2]
    codes = {"u": np.arange(len(updates)) % 2}
    shield = Unread(0.3, noise="means").fitted(updates, codes, segments_of(first, first.stages[-1]))
    assert shield.fit_ is not None
    save_unreading(shield.fit_, tmp_path / "fit.safetensors")
    shield = {"kind": "unread", "relative": 0.3, "noise": "means", "fit": str(tmp_path / "fit.safetensors")}
    runs = []
    for sticky in (True, False):
        more = {"shield": {**shield, "sticky": sticky}}
        local_run = played_locally(tmp_path, GAMES["adversarial"], **more)
        _, setup, fleet, _ = on_grid(study_file(tmp_path, GAMES["adversarial"], **more))
        run = setup.run(fleet=fleet).play(setup.rounds)
        assert [record.silent for record in run.history] == [0, 0]
        for player in local_run.shared:
            torch.testing.assert_close(run.shared[player], local_run.shared[player], atol=1e-9, rtol=0)
        runs.append(local_run.shared)
    assert any(not torch.equal(runs[0][player], runs[1][player]) for player in runs[0])


def test_damage_is_reported_only_by_nodes_that_reveal_it(tmp_path: Path) -> None:
    shield = {"shield": {"kind": "sparsify", "p": 0.9}}
    _, setup, fleet, _ = on_grid(study_file(tmp_path, GAMES["adversarial"], **shield), reveal=False)
    assert setup.run(fleet=fleet).play(1).history[0].damage == {}


def test_players_that_are_restarted_are_forgotten_by_nodes(tmp_path: Path) -> None:
    game = {"kind": "hardened", "attribute": "u", "restarts": 2}
    setup = Setup.read(study_file(tmp_path, game), {})
    restarting = [stage for stage in setup.run().stages if stage.restarts]
    assert restarting, "the game of this test must restart a player"
    rounds = 1 + max(rounds for stage in restarting for rounds in stage.restarts.values())
    local_setup = Setup.read(study_file(tmp_path, game, engine="stacked"), {})
    local_run = local_setup.run()
    local_run.stages = tuple(replace(stage, rounds=rounds) for stage in local_run.stages)
    local_run.play(rounds)
    _, setup, fleet, _ = on_grid(study_file(tmp_path, game))
    run = setup.run(fleet=fleet)
    run.stages = tuple(replace(stage, rounds=rounds) for stage in run.stages)
    run.play(rounds)
    assert sum(run.restarted.values())
    for player in local_run.shared:
        torch.testing.assert_close(run.shared[player], local_run.shared[player], atol=1e-9, rtol=0)


def test_local_players_never_travel(tmp_path: Path) -> None:
    grid, setup, fleet, _ = on_grid(study_file(tmp_path, GAMES["tappfl"]), reveal=False)
    run = setup.run(fleet=fleet).play(setup.rounds)
    assert run.local
    arrays = [name for reply in grid.seen for record in reply.content.array_records.values() for name in record]
    assert arrays
    assert not [name for name in arrays if name.partition(".")[0] in run.local]
    with pytest.raises(InputError, match=r"does not reveal its local players.*fedveil-reveal"):
        fleet.reveal(run)


def test_files_that_a_study_names_are_found_by_nodes_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "u").mkdir()  # a folder with the attribute's name
    for name in ("one.safetensors", "two.safetensors"):
        (tmp_path / name).touch()
    more = {"shield": {"kind": "recup", "zoos": ["one.safetensors"]}, "strengths": [0.1, 0.2]}
    more |= {"varies": "shield.budget", "at": {0.2: {"shield.zoos": "two.safetensors"}}}
    study = Setup.read(study_file(tmp_path, GAMES["adversarial"], **more), {}).study
    write_app(tmp_path / "app", single_cell(study, study.methods[0], 0.2, 3, 2))
    setup = Setup.read(tmp_path / "app" / "fedveil_app" / "study.yaml", {})
    assert (setup.strength, setup.seed) == (0.2, 3)
    assert setup.method.shield.settings["zoos"] == [str(tmp_path / "one.safetensors")]
    assert setup.method.at[0.2]["shield.zoos"] == str(tmp_path / "two.safetensors")
    assert setup.method.game.settings["attribute"] == "u"


def test_a_nodes_own_records(tmp_path: Path) -> None:
    path = study_file(tmp_path, GAMES["adversarial"])
    setup = Setup.read(path, {})
    whole = load_data(setup.study, 0)
    local_run = setup.run()
    grid = DirectGrid()
    for device in range(2):
        rows = np.sort(np.concatenate([local_run.federation.partition.device(device), whole.rows(Split.VALIDATION)]))
        grid.join(client_app(path, data=lambda context, rows=rows: whole.take(rows)), {protocol.PARTITION: device})
    fleet = FlowerFleet(grid, least=2, seconds=0.1, report=[].append)
    run = setup.run(fleet=fleet).play(1)
    assert run.history[0].devices == 2
    assert any(not torch.equal(run.shared[name], local_run.shared[name]) for name in local_run.shared)


def test_a_server_that_asks_for_a_missing_stage_gets_an_error(tmp_path: Path) -> None:
    path = study_file(tmp_path, GAMES["adversarial"])
    grid, setup, _, _ = on_grid(path)
    run = setup.run()
    order = protocol.order(run, run.stages[0], 1)
    order.config_records[protocol.ORDER]["stage"] = 9
    node = next(iter(grid.nodes))
    (reply,) = grid.send_and_receive([Message(order, dst_node_id=node, message_type="train")])
    assert reply.has_error()
    assert "round 1 of stage 9" in reply.error.reason


def test_flower_cannot_be_the_engine_of_a_local_run(tmp_path: Path) -> None:
    setup = Setup.read(study_file(tmp_path, GAMES["adversarial"]), {})
    with pytest.raises(InputError, match="its own machines"):
        setup.run().play(1)


def test_run_configs_name_a_cell(tmp_path: Path) -> None:
    path = study_file(tmp_path, {"kind": "adversarial", "attribute": "u"}, strengths=[0.5, 2.0])
    assert Setup.read(path, {"method": "", "strength": "", "seed": ""}).strength == 0.5
    assert Setup.read(path, {"strength": 2.0, "seed": 3}).seed == 3
    with pytest.raises(InputError, match=r"no method 'methud'.*method"):
        Setup.read(path, {"method": "methud"})
    with pytest.raises(InputError, match=r"0\.001 is not one of the study's strengths for 'method': 0\.5, 2"):
        Setup.read(path, {"strength": 0.001})
    with pytest.raises(InputError, match=r"0\.5 is not one of the study's strengths for 'method': none"):
        Setup.read(study_file(tmp_path, GAMES["adversarial"]), {"strength": 0.5})


def test_a_sites_policy_holds_for_games_too(tmp_path: Path) -> None:
    path = study_file(tmp_path, GAMES["adversarial"])
    grid, setup, fleet, lines = on_grid(path, reveal=False)
    listed = ", ".join(f'"{name}"' for name in METRICS)
    policy = tmp_path / "policy.toml"
    policy.write_text(f'shield = {{kind = "sparsify", p = 0.9}}\nmetrics = [{listed}]\n[budget]\nmessages = 1\n')
    node = next(iter(grid.nodes))
    _, context = grid.nodes[node]
    context.node_config["fedveil-policy"] = str(policy)
    grid.nodes[node] = (client_app(path, mods=[shield_mod(seed=0)]), context)
    run = setup.run(fleet=fleet)
    run.play(2, record=[1])
    ((_, devices, updates),) = run.recorded
    shares = {
        int(device): float((update != 0).double().mean()) for device, update in zip(devices, updates, strict=True)
    }
    assert shares[0] == pytest.approx(0.1, abs=0.01)
    assert shares[1] > 0.9
    assert run.history[1].silent == 1
    assert "device 0 sent nothing in round 2: fedveil: nothing was sent: the site's budget is spent" in lines


def test_a_new_app_names_a_policy_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    study = Setup.read(study_file(tmp_path, GAMES["adversarial"]), {}).study
    (method,) = study.methods
    write_app(
        tmp_path / "app",
        study.model_copy(update={"methods": [method.model_copy(update={"policy": "policy.toml", "shield": None})]}),
    )
    (path,) = (tmp_path / "app").rglob("study.yaml")
    assert read_study(path).methods[0].policy == str(tmp_path / "policy.toml")


@pytest.mark.parametrize(("devices", "commands"), [(2, 2), (5, 3)])
def test_a_new_apps_page_names_flowers_own_addresses_and_a_port_for_every_node(
    devices: int, commands: int, tmp_path: Path
) -> None:
    study = Setup.read(study_file(tmp_path, GAMES["adversarial"], devices=devices), {}).study
    write_app(tmp_path / "app", study)
    page = (tmp_path / "app" / "README.md").read_text()
    started = [line for line in page.splitlines() if "flower-supernode" in line]
    assert len(started) == commands
    assert all(f"--superlink {SUPERLINK_DEFAULT_CLIENT_ADDRESS}" in line for line in started)
    assert len({line.partition("--port ")[2].split()[0] for line in started}) == commands
    assert f"partition-id=1 num-partitions={devices}" in started[1]
    assert f'address = "{SUPERLINK_DEFAULT_CLIENT_ADDRESS}"' in page
    shields = Path(__file__).parents[2] / "docs" / "flower.md"
    assert f"--superlink {SUPERLINK_DEFAULT_CLIENT_ADDRESS} " in shields.read_text(encoding="utf-8")
