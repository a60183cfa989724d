"""TAPPFL's losses against closed forms, which player moves what, and devices whose attribute does not vary."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from small_games import Dealt, make_data, play_both
from torch.nn.functional import cross_entropy as torch_cross_entropy
from torch.nn.functional import softplus

from fedveil.attacks.cotrained import judge_cotrained
from fedveil.core.errors import InputError
from fedveil.data import AttributeData, load
from fedveil.federation import Federation, Mean, begin
from fedveil.games import SGD, TAPPFL, Adam, DataShape, Play, WithheldError
from fedveil.games.tappfl_networks import tappfl_networks


@settings(max_examples=12)
@given(
    bound=st.sampled_from(["ce", "club"]),
    negatives=st.sampled_from(["conditional", "marginal"]),
    attribute=st.sampled_from(["sex", "race", ("sex", "race"), "own"]),
    batch_size=st.sampled_from([1, 3, 500]),
    optimiser=st.sampled_from([SGD(0.1), Adam(0.01)]),
    pretraining=st.integers(0, 1),
    seed=st.integers(0, 1000),
)
def test_both_engines_agree(bound, negatives, attribute, batch_size, optimiser, pretraining, seed):
    rows = np.arange(30)
    dealt = Dealt(rows[:1], rows[1:9], rows[9:14], rows[14:30])
    game = TAPPFL(attribute, 0.5, bound, negatives, width=3, optimiser=optimiser, pretraining=pretraining,
                  privacy_steps=2, local_epochs=1, batch_size=batch_size)  # fmt: skip
    options = {"own_attribute": ["sex", "race", "sex", "race"]} if attribute == "own" else {}
    strengths = {"strength": [0.0, 0.3, 0.7, 1.0]}
    _, gap = play_both(make_data(30, seed=seed), game, devices=dealt, settings=strengths, seed=seed, **options)
    assert gap < 1e-9


@pytest.mark.parametrize("networks", ["light", "paper"])
def test_both_engines_agree_on_images(networks, monkeypatch):
    if networks == "paper":  # the same shape at a hundredth of the width
        from fedveil.games import tappfl_networks as module

        for name in ("EXTRACTOR", "ADVERSARY", "CRITIC"):
            plan = getattr(module, f"PAPER_{name}_OF_IMAGES")
            slim = tuple(layer if layer == "pool" else max(layer // 64, 2) for layer in plan)
            monkeypatch.setattr(module, f"PAPER_{name}_OF_IMAGES", slim)
        monkeypatch.setattr(module, "PAPER_ADVERSARY_BEHIND", (8, 8))
        monkeypatch.setattr(module, "PAPER_CRITIC_BEHIND", (8, 4))
    game = TAPPFL("race", 0.5, networks=networks, optimiser=SGD(0.1), local_epochs=1, batch_size=4)
    run, gap = play_both(make_data(14, features=(3, 8, 8)), game, rounds=1, devices=3)
    assert gap < 1e-9
    assert run.release(2).shape[1] == {"light": 32 * 1 * 1, "paper": 2 * 2 * 2}[networks]


def _game_and_play(data, game, rows):
    run = begin(Federation(data, 4, dtype="float64"), game)
    modules = run.model().modules
    seen = {name: column[torch.from_numpy(rows)] for name, column in run.tensors.items() if name != "y"}
    uniform = torch.rand(len(rows), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return run, modules, Play(seen, None, {}, lambda player, x: modules[player](x), lambda shape: uniform)


@pytest.mark.parametrize("negatives", ["conditional", "marginal"])
def test_the_losses_are_the_corrected_formulas(negatives):
    """Written out record by record: signs, one-hot u, x̄ with equal u, records without a partner left out."""
    data = make_data(40, seed=3)
    rows = np.array([0, 5, 6, 7, 11, 20])
    strength = 0.3
    game = TAPPFL("race", strength, negatives=negatives, width=3)
    run, modules, play = _game_and_play(data, game, rows)
    x = run.tensors["x"][rows]
    u = run.tensors["u:race"][rows]
    r = modules["extractor"](x)
    partner_index, exists = play.partners(u if negatives == "conditional" else None)
    assert bool(exists.all()) == (negatives == "marginal")  # some value occurs once in this batch
    terms = []
    for i in np.flatnonzero(exists.numpy()):
        hot = torch.nn.functional.one_hot(u[i], 3).double()
        true = modules["utility"](torch.cat([x[i], r[i], hot]))
        false = modules["utility"](torch.cat([x[partner_index[i]], r[i], hot]))
        terms.append(softplus(-true) + softplus(false))
    jsd = torch.stack(terms).mean()
    ce = torch_cross_entropy(modules["privacy"](r), u)
    (stage,) = run.stages
    losses = {move.title: move.loss(play).mean() for move in stage.moves}
    torch.testing.assert_close(losses["JSD"], jsd)
    torch.testing.assert_close(losses["CE"], ce)
    torch.testing.assert_close(losses["extractor"], -strength * ce + (1 - strength) * jsd)
    assert [(move.players, move.repeat) for move in stage.moves] == [
        (("privacy",), 1), (("utility",), 1), (("extractor",), 1),
    ]  # fmt: skip


def test_club_has_both_terms():
    data, rows = make_data(40, seed=4), np.arange(8)
    run, modules, play = _game_and_play(data, TAPPFL("race", 1.0, bound="club", width=3), rows)
    u = run.tensors["u:race"][rows]
    log_q = modules["privacy"](modules["extractor"](run.tensors["x"][rows])).log_softmax(dim=-1)
    positive = log_q[torch.arange(8), u].mean()
    negative = log_q[:, u].mean()  # all pairs of r and u
    extractor = run.stages[0].moves[2].loss(play).mean()
    torch.testing.assert_close(extractor, positive - negative)
    assert run.stages[0].moves[0].repeat == 5


def test_who_moves_who_is_shared_and_what_is_read():
    game = TAPPFL(("sex", "race"), pretraining=3)
    first, main = game.stages(DataShape((4,), 2, {"sex": 2, "race": 3}))
    assert first.rounds == 3
    assert first.players == ("utility", "extractor")
    assert main.players == ("privacy:sex", "privacy:race", "utility", "extractor")
    for stage in (first, main):
        assert stage.shared == {"extractor"}
        assert stage.reads == {"x", "u:sex", "u:race", "varies:sex", "varies:race"}  # no y
        assert (stage.batch_size, stage.local_epochs) == (10, 10)


def test_no_task_label_is_ever_read():
    data = make_data()
    with_labels, without = (
        begin(Federation(records, 4), TAPPFL("sex", width=3, pretraining=1, local_epochs=1)).play(2)
        for records in (data, data.without_labels())
    )
    assert all(torch.equal(with_labels.shared[name], without.shared[name]) for name in without.shared)

    class Cheating(TAPPFL):
        def _read(self, play):
            return super()._read(play) + play.y

    with pytest.raises(WithheldError):
        begin(Federation(data, 4), Cheating("sex", width=3))


def test_adversaries_learn_without_moving_the_extractor():
    """At λ = 0 the extractor does not depend on g, and at λ = 1 not on h."""
    data = make_data()
    for strength, idle in ((0.0, "privacy_steps"), (1.0, "utility_steps")):
        first, other = (
            begin(Federation(data, 2), TAPPFL("sex", strength, width=3, local_epochs=1, **{idle: steps})).play(2)
            for steps in (1, 3)
        )
        assert torch.equal(first.shared["extractor"], other.shared["extractor"])


@pytest.mark.parametrize("strength", [-0.1, 1.5, math.nan])
def test_a_strength_outside_0_1_is_refused(strength):
    with pytest.raises(InputError, match=r"λ must lie in \[0, 1\]"):
        TAPPFL("sex", strength)
    if not math.isnan(strength):  # the federation itself refuses NaN
        with pytest.raises(InputError, match=r"λ must lie in \[0, 1\]"):
            begin(Federation(make_data(), 4, settings={"strength": [0.5, 0.5, strength, 0.5]}), TAPPFL("sex"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"attribute": "sxe"}, "did you mean 'sex'"),
        ({"attribute": ()}, "at least one attribute"),
        ({"attribute": ("sex", "sex")}, "each once"),
        ({"bound": "upper"}, "choose ce or club"),
        ({"negatives": "none"}, "choose conditional or marginal"),
        ({"networks": "heavy"}, "choose paper or light"),
        ({"width": 0}, "at least 1"),
        ({"privacy_steps": 0}, "at least 1"),
        ({"strength": "half"}, "must be a number in .0, 1., got 'half'"),
        ({"pretraining": -1}, "not negative"),
    ],
)
def test_bad_settings_are_reported(wrong, message):
    with pytest.raises(InputError, match=message) as fault:
        begin(Federation(make_data(), 4), TAPPFL(**{"attribute": "sex", **wrong}))
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize("engine", ["plain", "stacked"])
@pytest.mark.parametrize("code", [1, -1])
def test_a_device_without_variety_trains_utility_only_and_is_counted(engine, code):
    """Constant or missing: the same extractor as with λ = 0, and its g stays unchanged."""
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, 64)
    sex[:10] = code
    data = make_data(40, sex=sex)
    rows = np.arange(40)
    bare = Federation(data, Dealt(rows[:10]), engine=engine)
    full = begin(bare, TAPPFL("sex", 0.9, width=3, local_epochs=1, batch_size=4)).play(2)
    none = begin(bare, TAPPFL("sex", 0.0, width=3, local_epochs=1, batch_size=4)).play(2)
    torch.testing.assert_close(full.shared["extractor"], none.shared["extractor"])
    assert torch.equal(full.local["privacy"].get(np.array([0]))[0], full.local["privacy"].start)
    assert not torch.equal(full.local["utility"].get(np.array([0]))[0], full.local["utility"].start)
    run = begin(Federation(data, Dealt(rows[:10], rows[10:25], rows[25:]), engine=engine), TAPPFL("sex", width=3)).play(
        1
    )
    assert run.utility_only == {"sex": 1}
    assert run.history[0].utility_only == {"sex": 1}
    assert run.history[0].as_dict()["utility_only"] == {"sex": 1}


@pytest.mark.parametrize("engine", ["plain", "stacked"])
def test_a_batch_of_one_teaches_the_critic_nothing(engine):
    data = make_data(12)
    run = begin(Federation(data, 2, engine=engine), TAPPFL("sex", 0.5, width=3, batch_size=1)).play(1)
    assert run.history[0].losses["JSD"] == 0
    for device in range(2):
        assert torch.equal(run.local["utility"].get(np.array([device]))[0], run.local["utility"].start)
        assert not torch.equal(run.local["privacy"].get(np.array([device]))[0], run.local["privacy"].start)


def test_several_and_missing_attributes_are_conditioned_on_together():
    data = make_data(40, seed=5)
    sex = data.attributes["sex"].codes.copy()
    sex[:3] = -1
    data = make_data(40, seed=5, sex=sex)
    run, _, play = _game_and_play(data, TAPPFL(("sex", "race"), width=3), np.arange(40))
    codes_seen = []
    partners = play.partners
    play.partners = lambda codes=None: (codes_seen.append(codes), partners(codes))[1]
    run.stages[0].moves[1].loss(play)
    (joint,) = codes_seen
    race = data.attributes["race"].codes[:40]
    pairs = {(int(s), int(r)): set() for s, r in zip(sex[:40], race, strict=True)}
    for row, (s, r) in enumerate(zip(sex[:40], race, strict=True)):
        pairs[int(s), int(r)].add(int(joint[row]))
    assert all(len(codes) == 1 for codes in pairs.values())
    assert len(set.union(*pairs.values())) == len(pairs)
    assert int(joint.min()) >= 0  # those without a label are partners of each other


def test_it_hides_from_its_own_adversary_and_keeps_x():
    """sex is a column of x: with λ the co-trained adversary loses it; the critic distinguishes x from x̄ by r."""
    rng = np.random.default_rng(0)
    data = make_data(200, 100, sex=rng.integers(0, 2, 400))
    x = data.x.copy()
    x[:, 0] = 2.0 * data.attributes["sex"].codes - 1
    readable = AttributeData(x, data.attributes, data.split, data.y)
    figures = {}
    for strength in (0.0, 0.7):
        game = TAPPFL("sex", strength, width=6, optimiser=Adam(0.003), local_epochs=4, batch_size=20)
        run = begin(Federation(readable, 2, aggregation=Mean()), game).play(30)
        cotrained = judge_cotrained(run, "sex", draws=100).balanced_accuracy.estimate
        figures[strength] = (cotrained, run.history[-1].losses["JSD"])
    assert figures[0.0][0] > 0.9
    assert figures[0.7][0] < 0.75
    assert figures[0.0][1] < 0.9 < 2 * math.log(2)  # 2 ln 2: the critic distinguishes nothing


@pytest.mark.parametrize(
    ("features", "sizes"),
    [
        ((106,), {"extractor": [64, 128], "adversary": [64, 128, 4, 7]}),
        ((3, 32, 32), {"extractor": [64, 64, 128, 128], "adversary": [256] * 3 + [512] * 6 + [4096, 4096, 7]}),
    ],
)
def test_the_paper_s_networks_are_table_3(features, sizes):
    built = tappfl_networks("paper", DataShape(features, None, {}), 7)
    generator = torch.Generator().manual_seed(0)
    f, g, h = built.extractor(generator), built.adversary(7)(generator), built.critic(generator)
    outs = [[len(part.bias) for part in net.modules() if hasattr(part, "bias")] for net in (f, g, h)]
    assert outs[0] == sizes["extractor"]
    assert outs[1] == sizes["adversary"]
    deep = [16, 32] + [128] * 2 + [256] * 3 + [512] * 6 + [4096, 512, 1]
    assert outs[2] == deep
    x = torch.zeros(2, *features)
    r = f(x)
    assert g(r).shape == (2, 7)
    if len(features) == 1:
        assert sum(p.numel() for p in h.parameters()) == pytest.approx(5.8e6, rel=0.05)


def test_it_plays_on_adult(published):
    published("adult")
    data = load("adult", target="income", sensitive=["sex", "marital-status"])
    few = data.take(np.arange(0, len(data), 40))
    run = begin(Federation(few, 5), TAPPFL("marital-status", 0.5, local_epochs=1)).play(1)
    assert run.release(2).shape[1] == 128
    assert run.paths == dict.fromkeys(("extractor", "utility", "privacy"), "hand-written")
