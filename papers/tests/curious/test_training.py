"""Central and federated training of curious classifiers, on data whose truth is known."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from fedveil_papers.curious import fine_tune, from_run, train
from fedveil_papers.curious.training import QuickDropout, with_quick_dropout
from torch import nn

from fedveil.core.errors import InputError
from fedveil.data import Attribute, AttributeData, Split
from fedveil.federation import Federation, begin
from fedveil.games import Adam, Curious, FedAvg

QUICK = {"batch_size": 50, "optimiser": Adam(5e-3), "widths": (32, 16)}


def records(n: int = 1500, seed: int = 0) -> AttributeData:
    """y and s are independent, each encoded in one direction of x with a little noise."""
    rng = np.random.default_rng(seed)
    y, s = rng.integers(0, 2, (2, n))
    x = rng.normal(0, 0.4, (n, 4)).astype(np.float32)
    x[:, 0] += 2 * y - 1
    x[:, 1] += 2 * s - 1
    split = np.repeat([0, 1, 2], [n * 3 // 5, n // 5, n - n * 3 // 5 - n // 5]).astype(np.int8)
    return AttributeData(
        x, {"s": Attribute("s", s, ("a", "b"))}, split, y=Attribute("y", y, ("no", "yes")), name="made"
    )


def honesty_and_curiosity(classifier, data, split=Split.TEST):
    outputs = classifier.outputs(data, split)
    read = classifier.guesses(outputs, "s") == outputs.secrets["s"].codes
    return float((outputs.predicted == outputs.y.codes).mean()), float(read.mean())


def test_a_standard_classifier_is_honest_and_hardly_curious():
    honest, curious = honesty_and_curiosity(
        train(Curious("s", beta_y=1.0, beta_s=0.0, **QUICK), records(), epochs=8), records()
    )
    assert honest > 0.97
    assert curious < 0.62


@pytest.mark.parametrize(
    "settings",
    [
        {"output": "raw"},
        {"attack": "regularised", "output": "soft", "beta_y": 0.5, "beta_s": 0.5},
    ],
)
def test_curious_classifiers_are_honest_and_curious(settings):
    classifier = train(Curious("s", **settings, **QUICK), records(), epochs=12)
    honest, curious = honesty_and_curiosity(classifier, records())
    assert honest > 0.95
    assert curious > 0.93
    assert classifier.outputs(records(), Split.TEST).raw == (settings["output"] == "raw")


def test_soft_outputs_of_three_classes_carry_the_secret_too():
    data = records(2000)
    three = np.clip(np.round(data.x[:, 2] * 2).astype(np.int64) + 1, 0, 2)
    wide = replace(data, y=Attribute("y", three, ("low", "middle", "high")))
    classifier = train(Curious("s", output="soft", beta_y=0.5, beta_s=0.5, **QUICK), wide, epochs=15)
    honest, curious = honesty_and_curiosity(classifier, wide)
    assert honest > 0.8
    assert curious > 0.9
    assert np.allclose(classifier.outputs(wide, Split.TEST).scores.sum(axis=1), 1)


def test_the_same_seed_gives_the_same_bits_and_leaves_torch_alone():
    before = torch.get_rng_state()
    first, second = (train(Curious("s", **QUICK), records(400), epochs=3, seed=4) for _ in range(2))
    assert torch.equal(before, torch.get_rng_state())
    for a, b in zip(first.network.parameters(), second.network.parameters(), strict=True):
        assert torch.equal(a, b)
    other = train(Curious("s", **QUICK), records(400), epochs=3, seed=5)
    assert not torch.equal(next(first.network.parameters()), next(other.network.parameters()))


def test_the_kept_epoch_is_the_best_on_validation_records():
    classifier = train(Curious("s", **QUICK), records(600), epochs=6)
    scores = [0.7 * epoch["honesty"] + 0.3 * epoch["curiosity"] for epoch in classifier.history]
    assert classifier.kept == 1 + int(np.argmax(scores))
    honest, curious = honesty_and_curiosity(classifier, records(600), Split.VALIDATION)
    epoch = classifier.history[classifier.kept - 1]
    assert (honest, curious) == pytest.approx((epoch["honesty"], epoch["curiosity"]))


def test_several_secrets_have_an_attack_each():
    data = records()
    other = Attribute("t", (data.x[:, 2] > 0).astype(np.int64), ("low", "high"))
    both = replace(data, attributes={**data.attributes, "t": other})
    classifier = train(Curious(("s", "t"), beta_y=0.4, beta_s=0.6, **QUICK), both, epochs=15)
    outputs = classifier.outputs(both, Split.TEST)
    read = [float((classifier.guesses(outputs, name) == outputs.secrets[name].codes).mean()) for name in ("s", "t")]
    assert min(read) > 0.65
    assert (outputs.predicted == outputs.y.codes).mean() > 0.9
    with pytest.raises(InputError, match="no attack on 'u'"):
        classifier.guesses(outputs, "u")


def test_devices_that_run_the_servers_loss_train_a_curious_classifier():
    game = Curious("s", local_epochs=3, **QUICK)
    run = begin(Federation(records(), devices=5, device="cpu"), game).play(8)
    honest, curious = honesty_and_curiosity(from_run(run), records())
    assert honest > 0.95
    assert curious > 0.9
    with pytest.raises(InputError, match="for form server"):
        fine_tune(run, records())


def test_a_server_makes_an_honest_federations_classifier_curious_by_itself():
    game = Curious("s", form="server", local_epochs=3, **QUICK)
    run = begin(Federation(records(), devices=5, device="cpu"), game).play(4)
    with pytest.raises(InputError, match="trained honestly"):
        from_run(run)
    auxiliary = records(600, seed=9)
    honest, curious = honesty_and_curiosity(fine_tune(run, auxiliary, epochs=15), records())
    assert honest > 0.95
    assert curious > 0.9
    # It starts from the federation's weights: from random ones, one epoch would not be enough.
    soon = fine_tune(run, auxiliary, epochs=1)
    assert honesty_and_curiosity(soon, records())[0] > 0.95


def test_a_regularised_federation_gets_its_threshold_from_validation_records():
    game = Curious("s", attack="regularised", output="soft", beta_y=0.5, beta_s=0.5, local_epochs=3, **QUICK)
    run = begin(Federation(records(), devices=5, device="cpu"), game).play(10)
    classifier = from_run(run)
    assert 0 <= classifier.thresholds["s"] <= np.log(2)
    assert honesty_and_curiosity(classifier, records())[1] > 0.9


def test_runs_of_other_games_are_refused():
    with pytest.raises(InputError, match="the run played fedavg"):
        from_run(begin(Federation(records(200), devices=2, device="cpu"), FedAvg(hidden=(3,))))


def test_bad_input_is_refused_in_one_line():
    with pytest.raises(InputError, match="epochs must be at least 1"):
        train(Curious("s"), records(200), epochs=0)
    with pytest.raises(InputError, match="no attribute 'z'"):
        train(Curious("z"), records(200), epochs=1)
    without = replace(records(200), split=np.zeros(200, dtype=np.int8))
    with pytest.raises(InputError, match="both training and validation records"):
        train(Curious("s"), without, epochs=1)


@pytest.mark.parametrize("split", [Split.TRAIN, Split.VALIDATION])
def test_a_secret_without_a_known_value_is_refused(split):
    data = records(200)
    codes = np.where(data.split == split, -1, data.attributes["s"].codes)
    unlabelled = replace(data, attributes={"s": Attribute("s", codes, ("a", "b"))})
    for beta_s in (0.3, 0.0):
        with pytest.raises(InputError, match="'s' is missing in all training or in all validation records"):
            train(Curious("s", beta_s=beta_s, **QUICK), unlabelled, epochs=1)


def test_auxiliary_data_of_another_shape_is_refused():
    data = records(300)
    run = Federation(data, devices=3).play(Curious("s", form="server", **QUICK), rounds=1)
    with pytest.raises(InputError, match=r"made: its features or classes .* encode them in the same way"):
        fine_tune(run, replace(data, x=data.x[:, :3].copy(), feature_names=()), epochs=1)


def test_quick_dropout_drops_its_share_and_keeps_the_mean():
    layer = with_quick_dropout(nn.Sequential(nn.Dropout(0.2)))
    assert isinstance(layer[0], QuickDropout)
    torch.manual_seed(0)
    for x in (torch.ones(33, 7), torch.ones(20, 8, 6, 6).to(memory_format=torch.channels_last), torch.ones(40, 9).T):
        many = torch.stack([layer(x) for _ in range(200)])
        assert abs(float((many == 0).float().mean()) - 0.2) < 0.01
        assert abs(float(many.mean()) - 1) < 0.02
        assert many.max() == pytest.approx(1.25, abs=1e-3)
    layer.eval()
    assert torch.equal(layer(x), x)


def test_quick_dropout_gives_every_entry_its_own_chance():
    torch.manual_seed(1)
    dropped = (torch.stack([QuickDropout(0.5)(torch.ones(64)) for _ in range(4000)]) == 0).float()
    assert (dropped.mean(dim=0) - 0.5).abs().max() < 0.04
    correlation = torch.corrcoef(dropped.T) - torch.eye(64)
    assert correlation.abs().max() < 0.08


def test_records_of_another_shape_are_refused_in_one_line():
    classifier = train(Curious("s", **QUICK), records(200), epochs=1)
    with pytest.raises(InputError, match="do not fit this classifier"):
        classifier.scores(np.zeros((3, 9), dtype=np.float32))
