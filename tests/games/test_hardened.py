"""Every part of TAPPFL hardened does what it says and nothing else; engines and resumed runs agree."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_games import Dealt, make_data, play_both

from fedveil.attacks.cotrained import judge_cotrained
from fedveil.config.parts import make
from fedveil.core.errors import InputError
from fedveil.core.kernels import hsic, mmd
from fedveil.core.models import mlp
from fedveil.federation import Federation, Run, begin
from fedveil.games import SGD, TAPPFL, Adam, DataShape, Hardened, Move, Play, Player, Stage
from fedveil.games.game import Game
from fedveil.games.losses import cross_entropy
from fedveil.shields import CertifiedChannel

EVERYTHING = {
    "adversaries": 3, "restarts": 1, "privacy_steps": 2, "kernel_weight": 2.0, "sigma": 0.3, "bound": "confusion",
    "width": 3, "local_epochs": 1, "batch_size": 5,
}  # fmt: skip


@pytest.mark.slow
@settings(max_examples=10)
@given(
    attribute=st.sampled_from(["sex", "race", ("sex", "race"), "own"]),
    bound=st.sampled_from(["ce", "club", "confusion"]),
    against=st.sampled_from(["worst", "mean"]),
    kernel=st.sampled_from(["hsic", "mmd"]),
    kernel_weight=st.sampled_from([0.0, 3.0]),
    sigma=st.sampled_from([0.0, 0.5]),
    share=st.booleans(),
    batch_size=st.sampled_from([1, 3, 500]),
    optimiser=st.sampled_from([SGD(0.1), Adam(0.01)]),
    pretraining=st.integers(0, 1),
    seed=st.integers(0, 1000),
)
def test_both_engines_agree(
    attribute, bound, against, kernel, kernel_weight, sigma, share, batch_size, optimiser, pretraining, seed
):
    rows = np.arange(30)
    dealt = Dealt(rows[:1], rows[1:9], rows[9:14], rows[14:30])
    game = Hardened(attribute, 0.5, bound, width=3, optimiser=optimiser, pretraining=pretraining, adversaries=3,
                    against=against, restarts=1, privacy_steps=2, share_adversaries=share, kernel=kernel,
                    kernel_weight=kernel_weight, sigma=sigma, local_epochs=1, batch_size=batch_size)  # fmt: skip
    options = {"own_attribute": ["sex", "race", "sex", "race"]} if attribute == "own" else {}
    strengths = {"strength": [0.0, 0.3, 0.7, 1.0]}
    _, gap = play_both(make_data(30, seed=seed), game, devices=dealt, settings=strengths, seed=seed, **options)
    assert gap < 1e-7


@pytest.mark.parametrize("kernel", ["hsic", "mmd"])
def test_both_engines_agree_on_images(kernel):
    game = Hardened("race", optimiser=SGD(0.1), kernel=kernel, **{**EVERYTHING, "batch_size": 4})
    run, gap = play_both(make_data(14, features=(3, 8, 8)), game, rounds=2, devices=3)
    assert gap < 1e-7
    r = run.model().of_x(game.represent, run.tensors["x"], np.arange(10))
    assert r.dim() == 4
    assert float(r.flatten(1).norm(dim=1).max()) <= 1 + 1e-9


def test_with_every_part_off_it_is_tappfl():
    data = make_data()
    common = {"attribute": "sex", "strength": 0.7, "width": 3, "local_epochs": 2, "pretraining": 1}
    ours, theirs = (begin(Federation(data, 4, fraction=0.5), game(**common)).play(3) for game in (Hardened, TAPPFL))
    assert all(torch.equal(ours.shared[name], theirs.shared[name]) for name in theirs.shared)
    assert set(ours.shared) == set(theirs.shared)
    np.testing.assert_array_equal(ours.release(2), theirs.release(2))


@pytest.mark.parametrize(
    "part",
    [
        {"adversaries": 2},
        {"adversaries": 2, "against": "mean"},
        {"restarts": 1},
        {"privacy_steps": 3},
        {"share_adversaries": True},
        {"kernel_weight": 1.0},
        {"kernel_weight": 1.0, "kernel": "hsic"},
        {"sigma": 0.1},
        {"bound": "confusion"},
        {"critic": (5, 5)},
    ],
)
def test_each_part_changes_what_is_learned(part):
    data = make_data()
    common = {"attribute": "sex", "strength": 0.7, "width": 3, "local_epochs": 3, "optimiser": SGD(0.3)}
    plain, changed = (
        begin(Federation(data, 4), Hardened(**common, **parts)).play(3).shared["extractor"] for parts in ({}, part)
    )
    assert not torch.equal(plain, changed)


@pytest.mark.parametrize("engine", ["plain", "stacked"])
@pytest.mark.parametrize("share", [False, True])
def test_a_run_continues_bit_identically_over_a_restart(engine, share, tmp_path):
    data = make_data()
    game = Hardened("sex", share_adversaries=share, **{**EVERYTHING, "restarts": 2})
    through = begin(Federation(data, 4, fraction=0.5, engine=engine), game).play(5)
    for stop in (2, 3):
        begin(Federation(data, 4, fraction=0.5, engine=engine), game).play(stop, checkpoint=tmp_path / f"{stop}")
        resumed = Run.load(tmp_path / f"{stop}", Federation(data, 4, fraction=0.5, engine=engine), game).play(5)
        assert all(torch.equal(resumed.shared[name], through.shared[name]) for name in through.shared)
        for name, player in through.local.items():
            devices = np.array(sorted(player.slot_of))
            assert sorted(resumed.local[name].slot_of) == devices.tolist()
            assert torch.equal(resumed.local[name].get(devices), player.get(devices))


def test_a_restart_gives_fresh_weights_to_everybody_and_to_no_other_player():
    data = make_data()
    starts = []
    for rounds in (1, 2, 3):
        run = begin(Federation(data, 4, fraction=0.5), Hardened("sex", width=3, restarts=2, local_epochs=1)).play(
            rounds
        )
        starts.append(run.local["privacy"].start.clone())
        kept = set(run.local["utility"].slot_of)
        seen = {int(device) for number in range(1, rounds + 1) for device in run.federation.sample("main", number)}
        assert kept == seen
    assert torch.equal(starts[0], starts[1])
    assert not torch.equal(starts[0], starts[2])
    assert set(run.local["privacy"].slot_of) == {int(device) for device in run.federation.sample("main", 3)}
    memory = starts[2][run.layouts["privacy"].size :]
    assert not memory.any()


def test_a_shared_player_restarts_at_the_server_and_an_interval_has_at_least_one_round():
    class Restarting(Game):
        name = "restarting"

        def players(self, shape):
            return {"model": Player(lambda generator: mlp([4, 2], generator), SGD(1e-12))}

        def stages(self, shape):
            move = Move(("model",), lambda play: cross_entropy(play("model", play.x), play.u("sex")))
            return (Stage((move,), frozenset({"model"}), frozenset({"x", "u:sex"}), restarts={"model": 2}),)

    states = [begin(Federation(make_data(), 4), Restarting()).play(n).shared["model"] for n in (1, 2, 3, 4, 5)]
    for same in ((0, 1), (2, 3)):
        torch.testing.assert_close(states[same[0]], states[same[1]])
    for other in ((1, 2), (3, 4), (0, 4)):
        assert float((states[other[0]] - states[other[1]]).abs().max()) > 0.01
    with pytest.raises(InputError, match="at least 1 round"):
        Stage((Move(("a",), lambda play: play.x),), frozenset(), frozenset(), restarts={"a": 0})


def _losses(game, rows, **codes):
    """The extractor's loss and the parts it is made of, on some records."""
    run = begin(Federation(make_data(40, seed=3, **codes), 4, dtype="float64"), game)
    modules = run.model().modules
    seen = {name: column[torch.from_numpy(rows)] for name, column in run.tensors.items() if name != "y"}
    uniform = torch.rand(len(rows), 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))

    def dice(shape):
        return uniform[:, : math.prod(shape)].reshape(len(rows), *shape)

    play = Play(seen, None, {}, lambda player, x: modules[player](x), dice)
    moves = {move.title: move.loss(play).mean() for move in run.stages[-1].moves}
    return moves, modules, play, game.encoded(play)


ROWS = np.array([0, 5, 6, 7, 11, 20, 21, 22])


@pytest.mark.parametrize("against", ["worst", "mean"])
@pytest.mark.parametrize("bound", ["ce", "confusion"])
def test_the_ensembles_loss(against, bound):
    game = Hardened("race", 0.6, bound, width=3, adversaries=4, against=against)
    moves, modules, play, r = _losses(game, ROWS)
    u = play.u("race")
    logits = [modules[name](r) for name in ("privacy", "privacy/2", "privacy/3", "privacy/4")]
    costs = torch.stack([torch.nn.functional.cross_entropy(answers, u) for answers in logits])
    torch.testing.assert_close(moves["CE"], costs.sum())
    marginal = torch.bincount(u, minlength=3) / len(u)
    leaks = -costs
    if bound == "confusion":
        leaks = torch.stack([-(marginal * answers.log_softmax(dim=1)).sum(dim=1).mean() for answers in logits])
    leak = leaks.mean() if against == "mean" else leaks[costs.argmin()]
    torch.testing.assert_close(moves["extractor"], 0.6 * leak + 0.4 * moves["JSD"])


@pytest.mark.parametrize("kernel", ["hsic", "mmd"])
def test_the_kernels_term(kernel):
    plain, *_ = _losses(Hardened("race", 0.6, width=3), ROWS)
    weighted, _, play, r = _losses(Hardened("race", 0.6, width=3, kernel=kernel, kernel_weight=2.0), ROWS)
    u, everyone = play.u("race"), torch.ones(len(ROWS), dtype=torch.bool)
    dependence = hsic(r, u, everyone) if kernel == "hsic" else mmd(r, u, everyone, 3)
    torch.testing.assert_close(weighted["extractor"] - plain["extractor"], 0.6 * 2.0 * dependence)
    assert float(dependence) != 0


@pytest.mark.parametrize("kernel", ["hsic", "mmd"])
def test_a_batch_with_one_class_has_no_kernel_term(kernel):
    sex = np.tile([0, 1], 32)
    for rows in (np.array([0, 2, 4, 6]), np.array([3])):  # one value; one record
        plain, *_ = _losses(Hardened("sex", 0.6, width=3), rows, sex=sex)
        weighted, *_ = _losses(Hardened("sex", 0.6, width=3, kernel=kernel, kernel_weight=5.0), rows, sex=sex)
        torch.testing.assert_close(weighted["extractor"], plain["extractor"])


def test_the_bottleneck_is_the_certified_channels():
    """Clips as the release does, which then changes nothing, and adds noise of the same size."""
    game = Hardened("sex", width=20, sigma=0.5, radius=0.8)
    _, _, play, noisy = _losses(game, np.arange(40))
    r = game.represent(play)
    assert float(r.norm(dim=1).max()) == pytest.approx(0.8)
    noise = (noisy - r) / 0.5
    assert float(noise.std()) == pytest.approx(1.0, abs=0.1)
    wide = Hardened("sex", width=20, sigma=0.5, radius=100.0)
    torch.testing.assert_close(wide.represent(play), play("extractor", play.x))
    run = begin(Federation(make_data(), 2, shield=CertifiedChannel(sigma=1e-9, radius=0.8)), game).play(1)
    bare = run.model().of_x(game.represent, run.tensors["x"], run.federation.data.rows(2))
    np.testing.assert_allclose(run.release(2), bare.numpy(), atol=1e-6)


@pytest.mark.parametrize("share", [False, True])
def test_who_is_shared_and_what_is_read(share):
    game = Hardened(("sex", "race"), adversaries=2, share_adversaries=share, restarts=3, pretraining=1)
    first, main = game.stages(DataShape((4,), 2, {"sex": 2, "race": 3}))
    readers = {"privacy:sex", "privacy:sex/2", "privacy:race", "privacy:race/2"}
    assert set(main.players) == readers | {"utility", "extractor"}
    assert main.shared == ({"extractor"} | readers if share else {"extractor"})
    assert main.restarts == dict.fromkeys(readers, 3)
    assert first.shared == {"extractor"}
    assert not first.restarts
    assert not {read for read in main.reads | first.reads if read.startswith("y")}


def test_no_task_label_is_ever_read():
    data = make_data()
    with_labels, without = (
        begin(Federation(records, 4), Hardened("sex", **EVERYTHING)).play(2)
        for records in (data, data.without_labels())
    )
    assert all(torch.equal(with_labels.shared[name], without.shared[name]) for name in without.shared)


@pytest.mark.parametrize("engine", ["plain", "stacked"])
def test_a_device_without_variety_trains_utility_only_and_is_counted(engine):
    sex = np.random.default_rng(0).integers(0, 2, 64)
    sex[:10] = 1
    data = make_data(40, sex=sex)
    rows = np.arange(40)
    parts = {**EVERYTHING, "restarts": 0}
    bare = Federation(data, Dealt(rows[:10]), engine=engine)
    full, none = (begin(bare, Hardened("sex", strength, **parts)).play(2) for strength in (0.9, 0.0))
    torch.testing.assert_close(full.shared["extractor"], none.shared["extractor"])
    for name in ("privacy", "privacy/2", "privacy/3"):
        assert torch.equal(full.local[name].get(np.array([0]))[0], full.local[name].start)
    run = begin(Federation(data, Dealt(rows[:10], rows[10:]), engine=engine), Hardened("sex", **parts)).play(1)
    assert run.utility_only == {"sex": 1}


def test_a_strong_game_hides_what_one_column_tells():
    """x_0 is u itself: the printed game at the same number of steps leaves it, all parts together do not."""
    data = make_data(400, held_out=100)
    x = data.x.copy()
    x[:, 0] = 3.0 * data.attributes["sex"].codes - 1.5
    readable = type(data)(x, data.attributes, data.split, data.y)
    gap = {}
    common = {"attribute": "sex", "strength": 0.9, "width": 3, "optimiser": Adam(0.005), "local_epochs": 4,
              "batch_size": 50}  # fmt: skip
    for name, parts in (("printed", {}), ("kernel", {"kernel_weight": 20.0})):
        run = begin(Federation(readable, 2), Hardened(**common, **parts)).play(15)
        r = torch.from_numpy(run.release(2))
        gap[name] = float(mmd(r, run.tensors["u:sex"][-100:], torch.ones(100, dtype=torch.bool), 2))
    assert gap["kernel"] < 0.3 * gap["printed"]
    judge_cotrained(run, "sex", draws=10)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"adversaries": 0}, "at least 1"),
        ({"restarts": -1}, "not negative"),
        ({"against": "best"}, "choose worst or mean"),
        ({"kernel": "rbf"}, "choose hsic or mmd"),
        ({"kernel_weight": -1}, "kernel_weight -1 must be finite and not negative"),
        ({"kernel_weight": math.nan}, "not negative"),
        ({"sigma": -0.1}, "sigma -0.1"),
        ({"radius": 0}, "above 0"),
        ({"critic": (0,)}, "at least 1 unit"),
        ({"strength": 2}, r"\[0, 1\]"),
        ({"bound": "best"}, "choose ce or club or confusion"),
        ({"attribute": "sxe"}, "did you mean 'sex'"),
    ],
)
def test_bad_settings_are_reported(wrong, message):
    with pytest.raises(InputError, match=message) as fault:
        begin(Federation(make_data(), 4), Hardened(**{"attribute": "sex", **wrong}))
    assert "\n" not in str(fault.value)


def test_a_study_resolves_the_types_of_inherited_settings():
    """Annotations of the base class are names of its own module."""
    game = make(
        Hardened, {"attribute": "sex", "optimiser": {"kind": "adam", "learning_rate": 0.5}, "critic": [5]}, "game"
    )
    assert (game.optimiser, game.critic) == (Adam(0.5), (5,))
    with pytest.raises(InputError, match=r"game\.networks: 'heavy' is not allowed"):
        make(Hardened, {"networks": "heavy"}, "game")


def test_the_critic_has_the_layers_that_were_named():
    run = begin(Federation(make_data(), 4), Hardened(("sex", "race"), width=3, critic=(7, 6)))
    shapes = [tuple(weights.shape) for weights in run.model().modules["utility"].parameters()]
    assert shapes[::2] == [(7, 4 + 3 + 5), (6, 7), (1, 6)]
    with pytest.raises(InputError, match="for images leave it out"):
        begin(Federation(make_data(14, features=(3, 8, 8)), 2), Hardened("sex", critic=(7,)))
