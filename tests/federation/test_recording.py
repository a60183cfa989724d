from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from fedveil.attacks import panel
from fedveil.core.errors import InputError
from fedveil.data import ByGroup, load
from fedveil.federation import Federation, Run, begin
from fedveil.games import SGD, AdversarialTraining, FedAvg
from fedveil.shields import Kind, Shield
from fedveil.view import Capability


def batch_normed(generator):
    return nn.Sequential(nn.Linear(16, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 2))


@pytest.fixture
def data():
    return load("synthetic", target="y", sensitive="u", n=1200, bits=0.5, validation=0.3, test=0.2)


class Halve(Shield):
    name = "halve"
    acts_on = frozenset({Kind.UPDATE})

    def change(self, message, context):
        return message.with_values(message.values / 2)


def test_shadow_devices_go_through_the_same_pipeline_and_change_no_weights(data):
    game = FedAvg(network=batch_normed, batch_size=8)
    alone = Federation(data, devices=12).play(game, rounds=0)
    alone.play(2, record=[2])
    watched = Federation(data, devices=12).play(game, rounds=0)
    watched.play(2, record=[2], shadows=9)
    assert torch.equal(alone.shared["model"], watched.shared["model"])
    ((number, devices, updates),) = watched.shadows
    assert number == 2
    assert devices.tolist() == list(range(12, 21))
    assert updates.shape == (9, watched.layouts["model"].size)
    shielded = Federation(data, devices=12, shield=Halve()).play(game, rounds=0)
    shielded.play(1, record=[1], shadows=9)
    bare = Federation(data, devices=12).play(game, rounds=0)
    bare.play(1, record=[1], shadows=9)
    torch.testing.assert_close(shielded.shadows[0][2] * 2, bare.shadows[0][2])


def test_the_attacker_learns_from_shadows_and_attacks_the_devices(data):
    run = Federation(data, devices=12).play(FedAvg(network=batch_normed, batch_size=8), rounds=0)
    run.play(3, record=[1, 3], shadows=10)
    view = run.view("updates")
    assert set(view.victims.groups) == set(range(12))
    assert set(view.auxiliary.groups) | set(view.validation.groups) == set(range(12, 22))
    assert not set(view.auxiliary.groups) & set(view.validation.groups)
    assert sorted(set(view.victims.rounds)) == [1, 3]
    assert {Capability.SENDERS, Capability.ROUNDS} <= view.grants
    rows = run.shadow_rows[int(view.auxiliary.groups[0]) - 12]
    counts = data.attributes["u"].take(rows).counts
    assert view.auxiliary.attributes["u"].codes[0] == counts.argmax()


def test_shadows_protect_the_own_attribute_of_the_device_they_stand_for(data):
    game = AdversarialTraining(attribute="own", width=4, share_adversary=True, optimiser=SGD(0.1))
    federation = Federation(data, devices=6, own_attribute=["u"] * 6)
    run = federation.play(game, rounds=1, record=[1], shadows=4)
    adversary = run.layouts["encoder"].size + run.layouts["head"].size
    assert (run.shadows[0][2][:, adversary:].norm(dim=1) > 1e-4).all()


def test_rounds_of_an_earlier_stage_are_not_mistaken_for_the_last_one_s(data):
    class Twice(FedAvg):
        def stages(self, shape):
            (stage,) = super().stages(shape)
            return (replace(stage, name="first", rounds=1), replace(stage, name="second", rounds=1))

    run = Federation(data, devices=6).play(Twice(hidden=(4,)), record=[1])
    assert [number for number, _, _ in run.recorded] == [1]
    assert run.view("parameters").victims.rounds is not None


def test_parameters_and_statistics_are_what_the_device_ended_with(data):
    run = Federation(data, devices=6).play(FedAvg(network=batch_normed, batch_size=8), rounds=0)
    run.play(1, record=[1])
    ((_, _, updates),) = run.recorded
    parameters = torch.tensor(_all(run.view("parameters")))
    ends = (updates + run.started_from[1]).double()
    torch.testing.assert_close(parameters.sort(dim=0).values, ends.sort(dim=0).values)
    statistics = _all(run.view("statistics"))
    assert statistics.shape == (6, 12)  # running mean and variance of six channels
    buffers = ends[:, run.layouts["model"].trained :].numpy()
    np.testing.assert_allclose(np.sort(statistics, axis=0), np.sort(buffers, axis=0))


def test_shadows_survive_a_checkpoint(data, tmp_path):
    game, federation = FedAvg(hidden=(4,), batch_size=16), Federation(data, devices=6)
    run = begin(federation, game).play(2, record=[1, 2], shadows=5, checkpoint=tmp_path / "run")
    again = Run.load(tmp_path / "run", federation, game)
    for first, other in zip(run.shadows, again.shadows, strict=True):
        assert torch.equal(first[2], other[2])
    view = again.view("parameters")
    np.testing.assert_array_equal(view.victims.vectors, run.view("parameters").victims.vectors)


def test_updates_of_devices_with_one_person_each_give_the_attribute_away():
    data = load(
        "synthetic", target="y", sensitive="u", n=1500, bits=0.9, overlap=0.9, validation=0.4, test=0.1, groups=300
    )
    run = Federation(data, ByGroup()).play(FedAvg(hidden=(8,), optimiser=SGD(0.1)), rounds=0)
    run.play(1, record=[1], shadows=120)
    judgement = panel(["logistic"], draws=100).judge(run.view("updates"))
    assert judgement.worst.balanced_accuracy.estimate > 0.7


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda run: run.view("updates"), "no updates were recorded"),
        (lambda run: run.view("update"), "did you mean 'updates'"),
        (lambda run: run.play(1, record=[1], shadows=10_000), "ask for fewer"),
        (lambda run: run.play(1, record=[1]).view("statistics"), "no batch norm"),
    ],
)
def test_unavailable_views_are_refused_in_one_line(data, ask, message):
    run = Federation(data, devices=6).play(FedAvg(hidden=(4,)), rounds=0)
    with pytest.raises(InputError, match=message):
        ask(run)


def _all(view):
    return np.concatenate([view.auxiliary.vectors, view.validation.vectors, view.victims.vectors])
