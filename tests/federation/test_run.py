"""Rounds, stages and records of a run."""

import copy
from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
import torch
from torch import nn

from fedveil.core.models import mlp
from fedveil.data.partition import Dirichlet
from fedveil.federation import Federation, Run, begin
from fedveil.federation.rounds import play_round
from fedveil.federation.work import work_of
from fedveil.games import SGD, Adam, AdversarialTraining, Autoencoder, FedAvg, Game, Move, Player, Stage, cross_entropy

ENGINES = pytest.mark.parametrize("engine", ["plain", "stacked"])


@dataclass(frozen=True)
class Roles(Game):
    """A player may be local in one stage and shared in the next, or never leave its device."""

    shared: tuple[frozenset, ...]
    optimiser: object = Adam(0.05)
    name = "roles"

    def players(self, shape):
        return {
            "encoder": Player(lambda g: mlp([4, 3], g), self.optimiser),
            "head": Player(lambda g: mlp([3, 3], g), self.optimiser),
        }

    def stages(self, shape):
        return tuple(
            Stage(
                (Move(("encoder", "head"), self._loss),),
                shared,
                frozenset({"x", "y"}),
                f"stage {i}",
                rounds=2,
                batch_size=4,
            )
            for i, shared in enumerate(self.shared)
        )

    def _loss(self, play):
        return cross_entropy(play("head", play("encoder", play.x)), play.y)


@pytest.mark.parametrize(
    "shared",
    [
        (frozenset(), frozenset({"encoder", "head"})),
        (frozenset({"encoder"}), frozenset({"encoder", "head"})),
        (frozenset({"encoder", "head"}), frozenset({"encoder"})),
        (frozenset({"head"}), frozenset({"encoder"})),
    ],
)
@pytest.mark.parametrize("optimiser", [SGD(0.1), SGD(0.1, momentum=0.5), Adam(0.05)])
def test_players_may_change_roles_between_stages(make_data, play_both, gap, shared, optimiser):
    assert gap(*play_both(make_data(), Roles(shared, optimiser), devices=3)) < 1e-9


@ENGINES
def test_a_game_that_shares_nothing_sends_nothing_and_nobody_is_silent(make_data, engine):
    run = begin(Federation(make_data(), 3, engine=engine), Roles((frozenset(),)))
    before = {name: state.clone() for name, state in run.shared.items()}
    run.play()
    assert [(record.devices, record.silent, record.bytes_up) for record in run.history] == [(3, 0, 0)] * 2
    assert all(torch.equal(before[name], run.shared[name]) for name in before)
    assert set(run.local) == {"encoder", "head"}


@ENGINES
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (SGD(0.1, momentum=0.9), lambda weights: torch.optim.SGD(weights, 0.1, momentum=0.9)),
        (Adam(0.05, weight_decay=0.1), lambda weights: torch.optim.Adam(weights, 0.05, weight_decay=0.1)),
    ],
)
def test_a_local_player_trains_on_as_if_rounds_did_not_exist(make_data, sizes, engine, ours, theirs):
    data = make_data(10)
    federation = Federation(data, sizes((10,)), engine=engine, dtype="float64")
    run = begin(federation, Roles((frozenset(), frozenset(), frozenset()), ours))
    model = nn.Sequential(*(run.seats[name].template for name in ("encoder", "head")))
    model = copy.deepcopy(model).double()
    optimiser = theirs(model.parameters())
    for stage in run.stages:
        for number in (1, 2):
            for rows in work_of(run, stage, number, np.arange(1)).batches(0):
                rows = rows[rows >= 0]
                optimiser.zero_grad()
                x, y = torch.from_numpy(data.x[rows]).double(), torch.from_numpy(data.y.codes[rows])
                nn.functional.cross_entropy(model(x), y).backward()
                optimiser.step()
    run.play()
    for name, part in zip(("encoder", "head"), model, strict=True):
        expected = torch.cat([weight.detach().flatten() for weight in part.parameters()])
        weights = run.local[name].get(np.arange(1))[0, : len(expected)]
        torch.testing.assert_close(weights, expected, rtol=0, atol=1e-12)


@ENGINES
def test_records_and_callbacks(make_data, engine):
    records = []
    run = Federation(make_data(), 4, engine=engine).play(
        AdversarialTraining("sex", hidden=(3,), width=2, batch_size=5), 3, callbacks=[records.append]
    )
    assert records == run.history
    assert [record.round for record in records] == [1, 2, 3]
    assert set(records[0].losses) == {"adversary", "encoder+head"}
    sent = run.layouts["encoder"].size + run.layouts["head"].size
    assert records[0].bytes_up == 4 * sent * 4
    assert records[0].as_dict()["stage"] == "main"


@ENGINES
def test_recorded_updates_are_what_moved_the_server(make_data, engine):
    run = begin(Federation(make_data(), 4, engine=engine, dtype="float64"), Roles((frozenset({"encoder", "head"}),)))
    before = {name: state.clone() for name, state in run.shared.items()}
    run.play(record=[1])
    ((number, devices, updates),) = run.recorded
    assert number == 1
    assert devices.tolist() == [0, 1, 2, 3]
    weights = torch.tensor(run.federation.partition.sizes / 40)
    one_round = begin(run.federation, run.game)
    play_round(one_round, run.stages[0])
    moved = torch.cat([one_round.shared[name] - before[name] for name in before])
    torch.testing.assert_close(weights @ updates, moved)


def test_devices_without_records_take_no_part(make_data, play_both, gap):
    game = FedAvg(hidden=(3,), batch_size=4)
    plain, stacked = play_both(make_data(12), game, devices=Dirichlet(10, 0.1, minimum=0))
    empty = int((plain.federation.partition.sizes == 0).sum())
    assert empty > 0
    assert plain.history[0].devices == 10 - empty
    assert gap(plain, stacked) < 1e-9


@pytest.mark.parametrize(
    "game", [FedAvg(hidden=(8,), optimiser=SGD(0.3)), Autoencoder(hidden=(8,), width=3, optimiser=Adam(0.01))]
)
def test_games_learn(make_data, game):
    run = begin(Federation(make_data(200), 5), game).play(15)
    first, last = (next(iter(run.history[i].losses.values())) for i in (0, -1))
    assert last < 0.95 * first


def test_batches_are_shuffled_anew_for_every_epoch_round_device_and_stage(make_data, sizes):
    federation = Federation(make_data(40), sizes((20, 20)), local_epochs=[2, 2])
    run = begin(federation, Roles((frozenset(), frozenset())))
    orders = {
        (i, number, device, epoch): tuple(
            (work_of(run, stage, number, np.arange(2)).batches(device).reshape(2, -1)[epoch] - 20 * device).tolist()
        )
        for i, stage in enumerate(run.stages)
        for number in (1, 2)
        for device in (0, 1)
        for epoch in (0, 1)
    }
    assert all(sorted(order) == list(range(20)) for order in orders.values())
    assert len(set(orders.values())) == 16


def test_a_huge_batch_size_costs_no_memory(make_data):
    run = begin(Federation(make_data(), 4), FedAvg(hidden=(3,), batch_size=10**12))
    assert work_of(run, run.stages[0], 1, np.arange(4)).batches(0).shape == (1, 10)
    run.play(1)


def test_arrays_that_torch_cannot_share_are_copied(make_data):
    data = make_data()
    x = data.x.copy()
    x.flags.writeable = False
    data = replace(data, x=x, y=replace(data.y, codes=data.y.codes[::-1]))
    run = begin(Federation(data, 3), FedAvg(hidden=(3,))).play(1)
    np.testing.assert_array_equal(run.tensors["x"].numpy(), x)
    np.testing.assert_array_equal(run.tensors["y"].numpy(), data.y.codes)


def test_a_run_only_stores_what_begin_has_made(make_data):
    """The constructor calls nothing: the state of another run makes an equal run, without a shield or a rehearsal."""
    run = begin(Federation(make_data(), 4), FedAvg(hidden=(3,)))
    state = {each.name: getattr(run, each.name) for each in fields(Run)}
    copied = Run(**state)
    assert all(getattr(copied, name) is value for name, value in state.items())


def test_reprs_take_one_line(make_data):
    federation = Federation(make_data(), 4, fraction=0.5, seed=3)
    assert repr(federation) == (
        "Federation('data', records=48, devices=4, fraction=0.5, shield='none', engine='stacked', seed=3)"
    )
    run = federation.begin(FedAvg(hidden=(3,)))
    assert repr(run) == "Run('fedavg', data='data', devices=4, rounds=0, shield='none')"
    assert repr(run.play(2)) == "Run('fedavg', data='data', devices=4, rounds=2, shield='none')"
