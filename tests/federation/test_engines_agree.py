"""The stacked engine against the plain one, and the plain one against a loop written out by hand."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import nn

from fedveil.core.models import mlp
from fedveil.data.partition import IID, ByGroup, Dirichlet, OneEach
from fedveil.federation import Federation, Mean, begin
from fedveil.federation.work import work_of
from fedveil.games import (
    SGD,
    Adam,
    AdversarialTraining,
    Autoencoder,
    FedAvg,
    Game,
    Move,
    Player,
    Stage,
    cross_entropy,
    squared_error,
)

CLOSE = 1e-9  # 1e-5 is required; a rounding to float32 anywhere must show
RELAXED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

optimisers = st.one_of(
    st.builds(
        SGD,
        learning_rate=st.sampled_from([0.01, 0.1, 0.3]),
        momentum=st.sampled_from([0.0, 0.0, 0.5, 0.9]),
        weight_decay=st.sampled_from([0.0, 0.0, 0.05]),
    ),
    st.builds(
        Adam,
        learning_rate=st.sampled_from([0.001, 0.02]),
        beta1=st.sampled_from([0.0, 0.9]),
        epsilon=st.sampled_from([1e-8, 1e-2]),
        weight_decay=st.sampled_from([0.0, 0.05]),
    ),
)
devices = st.integers(1, 6)
partitions = st.one_of(
    st.builds(IID, devices),
    st.builds(Dirichlet, devices, alpha=st.sampled_from([0.1, 1.0]), minimum=st.sampled_from([0, 1])),
    st.builds(ByGroup),
    st.builds(OneEach),
)
work = st.fixed_dictionaries({"batch_size": st.sampled_from([1, 2, 3, 7, 500]), "local_epochs": st.integers(1, 2)})


@st.composite
def federations(draw):
    """Return options of a federation; those that are per device as functions of the number of devices."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    per_device = {
        "batch_sizes": lambda n: rng.integers(1, 6, n).tolist(),
        "local_epochs": lambda n: rng.integers(1, 4, n).tolist(),
        "rate_scales": lambda n: rng.uniform(0.2, 2, n).tolist(),
        "own_attribute": lambda n: rng.choice(["sex", "race"], n).tolist(),
    }
    chosen = draw(st.sets(st.sampled_from(sorted(per_device))))
    return {
        "devices": draw(partitions),
        "fraction": draw(st.sampled_from([0.05, 0.5, 1.0])),
        "unreliable": draw(st.sampled_from([0.0, 0.0, 0.6])),
        "seed": seed,
        "per device": {name: per_device[name] for name in per_device if name in chosen},
        "strength": draw(st.sampled_from([None, "one", "each"])),
        "rows": draw(st.integers(8, 20)),
    }


def options_of(data, drawn, reads_strength=True):
    options = {name: drawn[name] for name in ("devices", "fraction", "unreliable", "seed")}
    count = len(drawn["devices"].deal(data, drawn["seed"]))
    options |= {name: make(count) for name, make in drawn["per device"].items()}
    if drawn["strength"] and reads_strength:  # a setting that a game never reads is refused
        options["settings"] = {"strength": 0.5 if drawn["strength"] == "one" else np.linspace(0, 2, count)}
    return options


@settings(max_examples=25, **RELAXED)
@given(drawn=federations(), optimiser=optimisers, work=work)
def test_fedavg(make_data, play_both, gap, drawn, optimiser, work):
    data = make_data(drawn["rows"])
    game = FedAvg(hidden=(3,), optimiser=optimiser, **work)
    assert gap(*play_both(data, game, **options_of(data, drawn, reads_strength=False))) < CLOSE


@settings(max_examples=35, **RELAXED)
@given(drawn=federations(), optimiser=optimisers, work=work, steps=st.integers(1, 2), share=st.booleans())
def test_adversarial_training(make_data, play_both, gap, drawn, optimiser, work, steps, share):
    data = make_data(drawn["rows"])
    attribute = "own" if "own_attribute" in drawn["per device"] else "race"
    game = AdversarialTraining(
        attribute,
        hidden=(3,),
        width=2,
        adversary_hidden=(3,),
        adversary_steps=steps,
        share_adversary=share,
        optimiser=optimiser,
        **work,
    )
    plain, stacked = play_both(data, game, **options_of(data, drawn))
    assert ("adversary" in plain.local) == (not share and any(record.devices for record in plain.history))
    assert gap(plain, stacked) < CLOSE


@settings(max_examples=25, **RELAXED)
@given(drawn=federations(), optimiser=optimisers, work=work)
def test_autoencoder(make_data, play_both, gap, drawn, optimiser, work):
    data = make_data(drawn["rows"])
    game = Autoencoder(hidden=(3,), width=2, optimiser=optimiser, **work)
    assert gap(*play_both(data, game, **options_of(data, drawn, reads_strength=False))) < CLOSE


@dataclass(frozen=True)
class Everything(Game):
    """Two stages, local and shared players with an optimiser each, batch norm and dropout, a loss per device."""

    batch_size: int = 3
    name = "everything"

    def players(self, shape):
        def normed(g):
            return nn.Sequential(mlp([4, 3], g), nn.BatchNorm1d(3), nn.Dropout(0.3), nn.Tanh())

        return {
            "encoder": Player(normed, SGD(0.1, momentum=0.5)),
            "decoder": Player(lambda g: mlp([3, 4], g), Adam(0.01)),
            "head": Player(lambda g: mlp([3, 3], g), SGD(0.1)),
            "reader": Player(lambda g: mlp([3, 4, 2], g), Adam(0.02, weight_decay=0.01)),
        }

    def stages(self, shape):
        rebuild = Move(("encoder", "decoder"), self._rebuild, name="rebuild")
        read = Move(("reader",), self._read, repeat=2)
        serve = Move(("encoder", "head"), self._serve)
        return (
            Stage((rebuild,), frozenset({"encoder"}), frozenset({"x"}), "first", rounds=2, batch_size=self.batch_size),
            Stage(
                (read, serve, rebuild),
                frozenset({"encoder", "head"}),
                frozenset({"x", "y", "u"}),
                "second",
                local_epochs=2,
                batch_size=self.batch_size,
            ),
        )

    def _rebuild(self, play):
        error = squared_error(play("decoder", play("encoder", play.x)), play.x)
        if play.weights is None:
            return error.mean(dim=-1)
        return (error * play.weights).sum(dim=-1) / play.weights.sum(dim=-1)

    def _read(self, play):
        return cross_entropy(play("reader", play("encoder", play.x).detach()), play.u("sex"))

    def _serve(self, play):
        inside = play("encoder", play.x)
        again = play("encoder", play.x + 0.1)  # a network used twice in one move
        spread = (inside - again).square().mean(dim=-1)
        hidden = cross_entropy(play("reader", inside), play.u("sex"))
        return cross_entropy(play("head", inside), play.y) + spread - play.setting("strength") * hidden


@settings(max_examples=12, **RELAXED)
@given(drawn=federations(), batch_size=st.sampled_from([1, 2, 3, 500]))
def test_a_game_with_everything(make_data, play_both, gap, drawn, batch_size):
    data = make_data(drawn["rows"])
    options = options_of(data, {**drawn, "strength": drawn["strength"] or "one"})
    plain, stacked = play_both(data, Everything(batch_size), **options)
    # Where a batch has two values per channel, batch norm divides by their difference, and rounding grows.
    assert gap(plain, stacked) < 1e-5


@pytest.mark.slow
@settings(max_examples=600, **RELAXED)
@given(drawn=federations(), optimiser=optimisers, work=work)
def test_many_random_federations(make_data, play_both, gap, drawn, optimiser, work):
    data = make_data(drawn["rows"])
    game = AdversarialTraining("sex", hidden=(3,), width=2, adversary_hidden=(3,), optimiser=optimiser, **work)
    assert gap(*play_both(data, game, **options_of(data, drawn))) < CLOSE


def test_the_plain_engine_is_federated_averaging_written_out(make_data, sizes):
    data = make_data(20)
    federation = Federation(data, sizes((7, 9, 4)), fraction=1.0, engine="plain", dtype="float64", seed=3)
    game = FedAvg(hidden=(5,), optimiser=SGD(0.2, momentum=0.5), batch_size=4, local_epochs=2)
    run = begin(federation, game)
    weights = {name: value.double() for name, value in run.seats["model"].template.state_dict().items()}
    for number in (1, 2, 3):
        plan = work_of(run, run.stages[0], number, np.arange(3))
        total = {name: torch.zeros_like(value) for name, value in weights.items()}
        for device in range(3):
            model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)).double()
            model.load_state_dict(weights)
            optimiser = torch.optim.SGD(model.parameters(), 0.2, momentum=0.5)
            seen = []
            for rows in plan.batches(device):
                rows = rows[rows >= 0]
                seen.extend(rows.tolist())
                x, y = torch.from_numpy(data.x[rows]).double(), torch.from_numpy(data.y.codes[rows])
                optimiser.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimiser.step()
            held = federation.partition.device(device)
            assert sorted(seen) == sorted(np.tile(held, 2).tolist())  # every record once per epoch
            for name, value in model.state_dict().items():
                total[name] += value * len(held) / 20
        weights = total
    run.play(3)
    final = run.shared if run.last_shared is None else run.last_shared
    expected = torch.cat([value.flatten() for value in weights.values()])
    torch.testing.assert_close(final["model"], expected, rtol=0, atol=1e-12)


@dataclass(frozen=True)
class Twice(Game):
    """Networks that are used more than once in a move: side by side, and one after another."""

    build: object
    optimiser: object
    name = "twice"

    def players(self, shape):
        return {"model": Player(lambda g: self.build(g), self.optimiser)}

    def stages(self, shape):
        return (Stage((Move(("model",), self._loss, repeat=2),), frozenset({"model"}), frozenset({"x"}), batch_size=3),)

    def _loss(self, play):
        aside = play("model", -play.x).detach() + play("model", 2 * play.x)
        return squared_error(play("model", play("model", play.x)), aside)


class Dropping(nn.Module):
    """A user-defined module with dropout inside."""

    def __init__(self, g):
        super().__init__()
        self.inner, self.drop = mlp([4, 4], g), nn.Dropout(0.5)

    def forward(self, x):
        return x + self.drop(self.inner(x))


@pytest.mark.parametrize("optimiser", [SGD(0.1), SGD(0.1, momentum=0.5), Adam(0.01)])
@pytest.mark.parametrize(
    ("build", "path"),
    [
        (lambda g: mlp([4, 3, 4], g), "hand-written"),
        (lambda g: mlp([4, 3, 4], g, last=nn.Dropout(0.5)), "stacked"),
        (Dropping, "one by one"),
    ],
)
def test_a_network_used_more_than_once_in_a_move(make_data, play_both, gap, sizes, build, path, optimiser):
    plain, stacked = play_both(make_data(16), Twice(build, optimiser), devices=sizes((7, 1, 5, 3)))
    assert stacked.paths == {"model": path}
    assert gap(plain, stacked) < CLOSE


@pytest.mark.parametrize("engine", ["plain", "stacked"])
def test_empty_rounds_leave_everything_as_it_was(make_data, engine):
    federation = Federation(make_data(), 3, unreliable=0.999, engine=engine, aggregation=Mean())
    run = begin(federation, AdversarialTraining("sex", hidden=(3,), width=2))
    start = {name: state.clone() for name, state in run.shared.items()}
    run.play(4)
    assert [record.devices for record in run.history] == [0] * 4
    assert [record.losses for record in run.history] == [{}] * 4
    assert all(torch.equal(start[name], run.shared[name]) for name in start)
    assert not run.local


@pytest.mark.parametrize("engine", ["plain", "stacked"])
def test_a_loss_may_take_gradients_of_its_own(make_data, engine):
    """As an adversarial example does; that gradient must not update any player."""

    class Perturbed(FedAvg):
        def stages(self, shape):
            (stage,) = super().stages(shape)
            return (Stage((Move(("model",), self._loss),), stage.shared, stage.reads, batch_size=4),)

        def _loss(self, play):
            x = play.x.detach().requires_grad_()
            loss = cross_entropy(play("model", x), play.y)
            (slope,) = torch.autograd.grad(loss.sum(), x, retain_graph=True)
            return loss + 0 * slope.sum(dim=-1)

    def final(game):
        run = begin(Federation(make_data(), 3, engine=engine, dtype="float64"), game).play(2)
        return (run.shared if run.last_shared is None else run.last_shared)["model"]

    optimiser = SGD(0.3)
    with_own, without = (final(kind(hidden=(3,), optimiser=optimiser, batch_size=4)) for kind in (Perturbed, FedAvg))
    torch.testing.assert_close(with_own, without, rtol=0, atol=1e-12)
