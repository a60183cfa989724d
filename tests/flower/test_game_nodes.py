"""Nodes of a game that come, go, fall silent or misbehave."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from flower_games import GAMES, on_grid, study_file
from flwr.app import Array, ArrayRecord, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

from fedveil.core.errors import InputError
from fedveil.flower import protocol
from fedveil.flower.mod import shield_mod
from fedveil.flower.node import client_app


def test_a_node_that_joins_late_and_one_that_leaves(tmp_path: Path) -> None:
    path = study_file(tmp_path, GAMES["adversarial"], devices=3)
    grid, setup, fleet, lines = on_grid(path)
    third = list(grid.nodes)[2]
    later = grid.nodes.pop(third)
    fleet.least = 2
    run = setup.run(fleet=fleet)

    def after_round(record: object) -> None:
        if len(run.history) == 1:
            grid.nodes[third] = later
        if len(run.history) == 2:
            grid.leave(next(iter(grid.nodes)))

    run.play(3, callbacks=[after_round])
    assert [record.devices for record in run.history] == [2, 3, 2]
    assert "device 0 has disconnected" in lines
    assert "device 2 is connected" in lines


def test_a_node_that_does_not_answer_is_left_out(tmp_path: Path) -> None:
    grid, setup, fleet, lines = on_grid(study_file(tmp_path, GAMES["adversarial"]))
    run = setup.run(fleet=fleet)
    run.play(1)
    grid.mute = {list(grid.nodes)[1]}
    before = {name: state.clone() for name, state in run.shared.items()}
    run.play(2)
    assert run.history[-1].silent == 1
    assert "device 1 did not answer in round 2" in lines
    assert any(not torch.equal(before[name], run.shared[name]) for name in before)


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda arrays, metrics: arrays.popitem(), "were expected"),
        (lambda arrays, metrics: arrays.update({next(iter(arrays)): Array(np.zeros(3))}), "another shape"),
        (lambda arrays, metrics: arrays.update(_nan(arrays)), "not finite"),
        (lambda arrays, metrics: metrics.pop("losses"), "losses"),
        (lambda arrays, metrics: metrics.update({"losses": [float("nan")]}), "losses must be"),
        (lambda arrays, metrics: metrics.update({"num-examples": -5}), "whole numbers"),
    ],
)
def test_answers_that_cannot_be_used_are_left_out(spoil: object, why: str, tmp_path: Path) -> None:
    grid, setup, fleet, lines = on_grid(study_file(tmp_path, GAMES["adversarial"]))
    node = next(iter(grid.nodes))
    app, context = grid.nodes[node]

    class Spoiling(ClientApp):
        def __call__(self, message: Message, context: object) -> Message:
            reply = app(message, context)
            if protocol.SHARED in reply.content.array_records:
                arrays, metrics = dict(reply.content[protocol.SHARED]), dict(reply.content[protocol.METRICS])
                spoil(arrays, metrics)
                reply.content = RecordDict(
                    {protocol.SHARED: ArrayRecord(arrays), protocol.METRICS: MetricRecord(metrics)}
                )
            return reply

    grid.nodes[node] = (Spoiling(), context)
    run = setup.run(fleet=fleet).play(1)
    assert [line for line in lines if line.startswith("device 0: its answer in round 1 cannot be used") and why in line]
    assert run.history[0].silent == 1
    assert all(bool(torch.isfinite(state).all()) for state in run.shared.values())


def _nan(arrays: dict) -> dict:
    name = next(iter(arrays))
    return {name: Array(np.full(arrays[name].shape, np.nan))}


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({protocol.PARTITION: 7}, "device 7"),
        ({}, "partition-id must be the device's number"),
        ({protocol.PARTITION: "0"}, "partition-id must be the device's number"),
        ({protocol.PARTITION: 0, protocol.PARTITIONS: 9}, "device 0 of 9"),
        ({protocol.PARTITION: 0, protocol.PARTITIONS: 2}, "another node"),
    ],
)
def test_nodes_that_are_not_devices_take_no_part(config: dict, why: str, tmp_path: Path) -> None:
    path = study_file(tmp_path, GAMES["adversarial"])
    grid, setup, fleet, lines = on_grid(path)
    grid.join(client_app(path), config)
    run = setup.run(fleet=fleet).play(1)
    assert [line for line in lines if "takes no part" in line and why in line]
    assert run.history[0].devices == 2


def test_a_restarted_machine_takes_its_device_back(tmp_path: Path) -> None:
    path = study_file(tmp_path, GAMES["adversarial"])
    grid, setup, fleet, lines = on_grid(path)
    dead = next(iter(grid.nodes))
    run = setup.run(fleet=fleet)

    def after_round(record: object) -> None:
        if len(run.history) == 1:  # a new node with a new id, while the SuperLink still counts the dead one
            grid.mute = {dead}
            grid.join(client_app(path), {protocol.PARTITION: 0, protocol.PARTITIONS: 2})
        if len(run.history) == 2:
            grid.leave(dead)

    run.play(3, callbacks=[after_round])
    assert [record.silent for record in run.history] == [0, 1, 0]
    assert lines.count("device 0 is connected") == 2


def test_a_node_that_cannot_name_its_device_reports_why(tmp_path: Path) -> None:
    path = study_file(tmp_path, GAMES["adversarial"])
    grid, setup, fleet, lines = on_grid(path)
    grid.join(client_app(path, mods=[shield_mod()]), {protocol.PARTITION: 0, protocol.PARTITIONS: 2})
    setup.run(fleet=fleet).play(1)
    assert [line for line in lines if "takes no part" in line and "the site's policy is missing" in line]


@pytest.mark.parametrize("fault", ["error", "mute"])
def test_a_cell_of_a_study_is_not_trained_without_its_nodes(fault: str, tmp_path: Path) -> None:
    grid, setup, fleet, _ = on_grid(study_file(tmp_path, GAMES["adversarial"]), every_answer=True)
    run = setup.run(fleet=fleet).play(1)
    node = next(iter(grid.nodes))
    if fault == "mute":
        grid.mute = {node}
    else:
        grid.nodes[node] = (client_app(tmp_path / "gone.yaml"), grid.nodes[node][1])
    with pytest.raises(InputError, match=r"device 0 (did not answer|sent nothing) in round 2"):
        run.play(2)


def test_too_few_nodes_are_reported(tmp_path: Path) -> None:
    grid, setup, fleet, _ = on_grid(study_file(tmp_path, GAMES["adversarial"]))
    grid.leave(next(iter(grid.nodes)))
    with pytest.raises(InputError, match="1 of the 2 nodes"):
        setup.run(fleet=fleet).play(1)
