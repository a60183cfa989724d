"""games.Curious: its losses by hand, its bad settings, and its modes on both engines."""

import math

import numpy as np
import pytest
import torch

from fedveil.core.errors import InputError
from fedveil.data import Attribute, AttributeData
from fedveil.federation import Federation, begin
from fedveil.federation.work import work_of
from fedveil.games import SGD, Curious, DataShape, Play
from fedveil.games.curious import attack_network, best_threshold, classifier_network

SCORES = torch.tensor([[2.0, 0.0, -1.0], [0.0, 1.0, 0.5], [0.3, 0.2, 3.0], [1.0, 1.0, 1.0]], dtype=torch.float64)
Y = torch.tensor([0, 1, 2, 1])
S = torch.tensor([0, 1, 1, 0])


def play(game: Curious, attack: torch.Tensor | None = None, u: torch.Tensor = S) -> Play:
    """F gives the scores above, G what is handed in."""
    answers = {"classifier": SCORES, "attack:sex": attack}
    return Play({"x": torch.zeros(4, 5), "y": Y, "u:sex": u}, None, {}, lambda player, inputs: answers[player])


def data(n: int = 30, features: tuple[int, ...] = (5,), values: int = 2) -> AttributeData:
    rng = np.random.default_rng(0)
    y, s = (np.concatenate([np.arange(k), rng.integers(0, k, n - k)]) for k in (3, values))
    return AttributeData(
        rng.normal(size=(n, *features)).astype(np.float32),
        {"sex": Attribute("sex", s, tuple("abcd"[:values]))},
        np.array([0] * (n - 8) + [1] * 8, dtype=np.int8),
        y=Attribute("y", y, ("0", "1", "2")),
    )


def last_loss(game: Curious, **options) -> torch.Tensor:
    return game.curious_stage().moves[-1].loss(play(game, **options))


def test_the_parameterised_loss_is_the_papers():
    attack = torch.tensor([[0.0, 1.0], [0.5, 0.5], [2.0, 0.0], [0.0, 0.0]], dtype=torch.float64)
    p = SCORES.softmax(dim=1)
    entropy = -(p * p.log()).sum(dim=1)
    honest = -p.log()[range(4), Y]
    curious = -attack.log_softmax(dim=1)[range(4), S]
    for output in ("raw", "soft"):
        game = Curious("sex", output=output, beta_x=0.2, beta_y=0.5, beta_s=0.3)
        assert torch.allclose(last_loss(game, attack=attack), 0.2 * entropy + 0.5 * honest + 0.3 * curious)


def test_the_regularised_loss_is_the_difference_of_the_classes_means():
    game = Curious("sex", attack="regularised", output="soft", beta_y=0.4, beta_s=0.6)
    p = SCORES.softmax(dim=1)
    entropy = -(p * p.log()).sum(dim=1)
    honest = -p.log()[range(4), Y]
    wanted = 0.4 * honest.mean() + 0.6 * (entropy[S == 0].mean() - entropy[S == 1].mean())
    assert torch.allclose(last_loss(game).mean(), wanted)
    unlabelled = torch.tensor([0, 1, 1, -1])
    wanted = 0.4 * honest.mean() + 0.6 * (entropy[0] - entropy[1:3].mean())
    assert torch.allclose(last_loss(game, u=unlabelled).mean(), wanted)


def test_without_curiosity_f_never_feels_g():
    seen = []
    game = Curious("sex", beta_y=1.0, beta_s=0.0)
    play = Play({"x": torch.zeros(4, 5), "y": Y, "u:sex": S}, None, {}, lambda who, x: (seen.append(who), SCORES)[1])
    game.curious_stage().moves[-1].loss(play)
    assert seen == ["classifier"]


def test_what_selects_a_round_is_the_weighted_accuracy_of_both():
    attack = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], dtype=torch.float64)  # wrong once
    game = Curious("sex", beta_y=0.7, beta_s=0.3)
    stage = game.curious_stage()
    y_right = torch.tensor([1.0, 1.0, 1.0, 0.0])  # among equal scores the first counts
    s_right = torch.tensor([1.0, 1.0, 0.0, 1.0])
    assert torch.allclose(stage.validation(play(game, attack)), 1 - (0.7 * y_right + 0.3 * s_right).double())


def test_networks_have_the_papers_sizes():
    f = classifier_network((3, 64, 64), 3)(torch.Generator())
    sizes = [sum(p.numel() for p in layer.parameters()) for layer in f]
    assert [size for size in sizes if size] == [1664, 256, 65664, 256, 32832, 128, 16448, 128, 131200, 387]
    g = attack_network(4, 5)(torch.Generator())
    assert [layer.out_features for layer in g if hasattr(layer, "out_features")] == [80, 40, 5]
    small = classifier_network((1, 28, 28), 10, (8, 8, 4, 4, 8))(torch.Generator())
    assert small.eval()(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


def test_images_may_be_read_as_tables():
    game = Curious("sex", network="table", widths=(7,))
    f = game.players(DataShape((3, 4, 5), 3, {"sex": 2}))["classifier"].build(torch.Generator())
    assert [tuple(p.shape) for p in f.parameters()] == [(7, 60), (7,), (3, 7), (3,)]
    assert f.eval()(torch.zeros(2, 3, 4, 5)).shape == (2, 3)


def test_the_best_threshold_beats_every_other_one():
    rng = torch.Generator().manual_seed(0)
    for _ in range(20):
        held = (torch.rand(60, generator=rng) * 8).round() / 8 * math.log(4)  # many ties
        codes = torch.randint(-1, 2, (60,), generator=rng)
        labelled = codes >= 0
        tau = best_threshold(held, codes, 4)
        right = ((held > tau).long() == codes)[labelled].sum()
        others = [((held > t).long() == codes)[labelled].sum() for t in torch.linspace(-0.01, 1.4, 200)]
        assert right == max(others)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"attack": "mixed"}, "attack 'mixed' is not known"),
        ({"output": "hard"}, "output 'hard' is not known"),
        ({"form": "both"}, "form 'both' is not known"),
        ({"network": "deep"}, "network 'deep' is not known"),
        ({"beta_s": -0.1}, "must not be negative"),
        ({"beta_y": 0.0, "beta_s": 0.0}, "above 0"),
        ({"secrets": ()}, "at least one secret"),
        ({"secrets": ("sex", "sex")}, "each once"),
        ({"attack": "regularised", "output": "raw"}, "choose output soft"),
    ],
)
def test_bad_settings_are_reported_in_one_line(settings, message):
    with pytest.raises(InputError, match=message):
        Curious(**{"secrets": "sex", **settings})


@pytest.mark.parametrize(
    ("game", "shape", "message"),
    [
        (Curious("sxe"), DataShape((5,), 3, {"sex": 2}), "sex"),
        (Curious("sex", attack="regularised", output="soft"), DataShape((5,), 3, {"sex": 3}), "has 3"),
        (Curious("sex"), DataShape((5,), None, {"sex": 2}), "no target"),
        (Curious("sex"), DataShape((3, 8, 8), 3, {"sex": 2}), "at least 16 × 16"),
        (Curious("sex", widths=(4, 4)), DataShape((3, 32, 32), 3, {"sex": 2}), "five widths"),
        (Curious("sex", widths=(0,)), DataShape((5,), 3, {"sex": 2}), "at least 1"),
    ],
)
def test_data_that_do_not_fit_are_reported_in_one_line(game, shape, message):
    with pytest.raises(InputError, match=message):
        game.players(shape)


@pytest.mark.parametrize(
    "game",
    [
        Curious("sex", batch_size=4, optimiser=SGD(0.05)),
        Curious("sex", attack="regularised", output="soft", beta_x=0.1, batch_size=4),
        Curious("sex", form="server", batch_size=5),
    ],
)
def test_both_engines_play_it_alike(game):
    runs = [
        begin(Federation(data(), devices=3, engine=engine, dtype="float64", device="cpu"), game).play(3)
        for engine in ("plain", "stacked")
    ]
    for name in runs[0].shared:
        assert torch.allclose(runs[0].shared[name], runs[1].shared[name], atol=1e-9, rtol=0)


def test_both_engines_agree_on_batch_norm_in_evaluation_mode():
    game = Curious("sex", batch_size=4, widths=(3, 3, 2, 2, 4), optimiser=SGD(0.05))
    small = data(22, (1, 16, 16))
    runs = [
        begin(Federation(small, devices=2, engine=engine, dtype="float64", device="cpu"), game).play(2)
        for engine in ("plain", "stacked")
    ]
    for name in runs[0].shared:
        assert torch.allclose(runs[0].shared[name], runs[1].shared[name], atol=1e-9, rtol=0)


def test_f_is_in_evaluation_mode_while_g_steps():
    game = Curious("sex")
    attack, classifier = game.curious_stage().moves
    assert attack.trains("attack:sex")
    assert not attack.trains("classifier")
    assert classifier.trains("classifier")
    assert not classifier.trains("attack:sex")


def test_devices_of_the_server_form_read_no_secret():
    (stage,) = Curious("sex", form="server").stages(DataShape((5,), 3, {"sex": 2}))
    assert stage.reads == {"x", "y"}
    assert stage.shared == {"classifier"}


def test_partial_batches_are_left_out_where_asked():
    run = begin(Federation(data(30), devices=1, device="cpu"), Curious("sex", batch_size=8))
    plan = work_of(run, run.stages[0], 1, np.array([0])).batches(0)
    assert plan.shape == (2, 8)
    assert (plan >= 0).all()
    few = begin(Federation(data(30), devices=1, device="cpu"), Curious("sex", batch_size=100))
    assert work_of(few, few.stages[0], 1, np.array([0])).batches(0).shape == (1, 22)
