"""Inputs are shielded once per device, before everything else; nothing later sees them unshielded."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedveil.attacks import panel
from fedveil.attacks.cotrained import judge_cotrained
from fedveil.core.errors import InputError
from fedveil.data import Split
from fedveil.federation import Federation, Run, begin
from fedveil.federation.records import prepare_shield
from fedveil.games import SGD, AdversarialTraining, Autoencoder, FedAvg, Raw
from fedveil.shields import CertifiedChannel, Chain, Kind, Message, Shield, ShieldError


class OnInputs(Shield):
    """Applies a given function to inputs."""

    name = "on inputs"
    acts_on = frozenset({Kind.INPUT})

    def __init__(self, function):
        self.function = function

    def change(self, message, context):
        return message.with_values(self.function(message.values, context))


def noise(values, context):
    return values + torch.randn(values.shape, generator=context.generator).to(values)


@pytest.fixture(scope="module")
def data(make_data):
    base = make_data(60, held_out=60)
    split = base.split.copy()
    split[90:] = Split.TEST
    return replace(base, split=split, groups=None)


def bare(data, x):
    return replace(data, x=np.asarray(x, dtype=np.float32))


@pytest.mark.parametrize("engine", ["plain", "stacked"])
@pytest.mark.parametrize(
    "game", [FedAvg(hidden=(5,)), AdversarialTraining("sex", hidden=(5,), width=3, optimiser=SGD(0.1)), Autoencoder()]
)
def test_a_run_on_shielded_inputs_equals_a_run_on_data_changed_beforehand(data, engine, game):
    """Every later use: training, validation, releases, heads, views, the co-trained attacker, recorded updates."""
    halve = OnInputs(lambda values, _: values / 2)
    shielded = Federation(data, 4, engine=engine, shield=halve).play(game, 2, record=[2], shadows=4)
    from_start = Federation(bare(data, data.x / 2), 4, engine=engine).play(game, 2, record=[2], shadows=4)
    for name in shielded.shared:
        assert torch.equal(shielded.shared[name], from_start.shared[name])
    assert [r.validation for r in shielded.history] == [r.validation for r in from_start.history]
    for (_, _, first), (_, _, other) in zip(shielded.shadows, from_start.shadows, strict=True):
        assert torch.equal(first, other)
    if not isinstance(game, FedAvg):
        for split in Split:
            np.testing.assert_array_equal(shielded.release(split), from_start.release(split))
        assert shielded.fit_head("y", draws=100) == from_start.fit_head("y", draws=100)
        judged = [panel(["logistic"], draws=100).judge(run.view(), "sex") for run in (shielded, from_start)]
        assert judged[0] == judged[1]
    if not isinstance(game, Autoencoder):
        outputs = [run.release(Split.TEST, Kind.OUTPUT) for run in (shielded, from_start)]
        np.testing.assert_array_equal(*outputs)
        assert shielded.score_outputs(draws=100) == from_start.score_outputs(draws=100)
    if isinstance(game, AdversarialTraining):
        weak = [judge_cotrained(run, "sex", draws=100) for run in (shielded, from_start)]
        assert weak[0].accuracy == weak[1].accuracy


def test_no_later_shield_sees_unshielded_inputs_and_the_data_stay_unchanged(data):
    seen = []

    class Looks(Shield):
        name = "looks"

        def change(self, message, context):
            seen.append((message.kind, context.data["x"].clone()))
            return message

    before = data.x.copy()
    chain = Chain([OnInputs(lambda values, _: values.mul_(0).add_(7)), Looks()])  # in place, on purpose
    run = Federation(data, 4, shield=chain).play(AdversarialTraining("sex", width=3), 1)
    run.view("representations")
    run.view("outputs")
    assert {kind for kind, _ in seen} == {Kind.UPDATE, Kind.REPRESENTATION, Kind.OUTPUT}
    assert all((x == 7).all() for _, x in seen)
    np.testing.assert_array_equal(data.x, before)


def test_each_device_shields_its_own_records_once_and_knows_their_labels(data):
    seen = []

    def look(values, context):
        seen.append((context, values.clone()))
        return values

    federation = Federation(data, 4, shield=OnInputs(look))
    run = federation.play(FedAvg(hidden=(3,)), 3)
    run.view("outputs")
    assert [context.device for context, _ in seen] == [0, 1, 2, 3, -1, -1]
    rows = [federation.partition.device(d) for d in range(4)] + [data.rows(s) for s in Split][1:]
    for (context, values), expected_rows in zip(seen, rows, strict=True):
        np.testing.assert_array_equal(values.numpy(), data.x[expected_rows])
        np.testing.assert_array_equal(context.data["y"].numpy(), data.y.codes[expected_rows])
        for name in ("sex", "race"):
            np.testing.assert_array_equal(context.data[f"u:{name}"].numpy(), data.attributes[name].codes[expected_rows])
    states = {tuple(context.generator.initial_seed() for context, _ in seen)}
    assert len(next(iter(states))) == len(set(next(iter(states)))) == 6


def test_records_that_no_device_holds_are_shielded_too(data, sizes):
    run = Federation(data, sizes((10, 20)), shield=OnInputs(lambda values, _: values * 0 + 3)).play(Raw())
    for split in Split:
        assert (run.release(split) == 3).all()


def test_noise_on_inputs_is_repeatable_drawn_once_and_differs_by_seed_and_device(data):
    first, second, other = (Federation(data, 4, shield=OnInputs(noise), seed=seed).play(Raw()) for seed in (0, 0, 1))
    released = [run.release(Split.TRAIN) for run in (first, second, first, other)]
    np.testing.assert_array_equal(released[0], released[1])
    np.testing.assert_array_equal(released[0], released[2])
    assert not np.isclose(released[0], released[3]).any()
    drawn = released[0] - data.x[data.rows(Split.TRAIN)]
    assert len(np.unique(drawn.round(5))) == drawn.size  # no device repeats another's


def test_saved_runs_with_shielded_inputs_continue_and_check_their_shield(data, tmp_path):
    def federation(shield):
        return Federation(data, 4, shield=shield)

    class Noise(OnInputs):
        def __init__(self, size):
            self.size = size

        def change(self, message, context):
            drawn = torch.randn(message.values.shape, generator=context.generator)
            return message.with_values(message.values + self.size * drawn)

    game = FedAvg(hidden=(3,))
    undisturbed = begin(federation(Noise(1.0)), game).play(4)
    begin(federation(Noise(1.0)), game).play(2).save(tmp_path / "run")
    resumed = Run.load(tmp_path / "run", federation(Noise(1.0)), game).play(4)
    assert torch.equal(undisturbed.shared["model"], resumed.shared["model"])
    with pytest.raises(InputError, match="another run: shield"):
        Run.load(tmp_path / "run", federation(Noise(2.0)), game)


@pytest.mark.parametrize("device", [2, -1])
def test_a_run_is_refused_when_the_shield_on_inputs_fails(data, device):
    def fail(values, context):
        if context.device == device:
            raise RuntimeError("no battery")
        return values

    where = "device 2" if device == 2 else "validation people"
    with pytest.raises(ShieldError, match=f"inputs of {where}: .*no battery") as fault:
        begin(Federation(data, 4, shield=OnInputs(fail)), FedAvg(hidden=(3,)))
    assert "\n" not in str(fault.value)
    for wrong in (lambda values, _: values * float("nan"), lambda values, _: values[:, :1]):
        with pytest.raises(ShieldError, match="unusable"):
            begin(Federation(data, 4, shield=OnInputs(wrong)), FedAvg(hidden=(3,)))


def test_images_keep_their_shape_on_the_way(make_data):
    images = make_data(20, (1, 3, 3))
    shapes = []
    shield = OnInputs(lambda values, _: shapes.append(tuple(values.shape[1:])) or values + 1)
    run = Federation(images, 2, shield=shield).play(Raw())
    assert set(shapes) == {(1, 3, 3)}
    np.testing.assert_allclose(run.release(Split.TRAIN), images.x[:20].reshape(20, 9) + 1, rtol=1e-6)


def test_a_shield_learns_from_training_people_and_no_others(data):
    class Centring(Shield):
        name = "centring"
        acts_on = frozenset({Kind.INPUT})

        def prepared(self, data, seed):
            shield = Centring()
            shield.seen_, shield.seed_ = data, seed
            return shield

        def change(self, message, context):
            return message.with_values(message.values - float(self.seen_.x.mean()))

    shield = Centring()
    chain = Chain([shield, Centring(), CertifiedChannel(1.0)])
    run = Federation(data, 4, seed=7, shield=chain).play(FedAvg(hidden=(3,)), 1)
    first, second, channel = run.shield.shields
    assert not hasattr(shield, "seen_")  # the shield that was given stays as it was
    assert isinstance(channel, CertifiedChannel)
    assert first.seed_ != second.seed_
    alone = begin(Federation(data, 4, seed=7, shield=shield), FedAvg(hidden=(3,))).shield
    assert alone.seed_ == 7  # the federation's
    for prepared in (first, second, alone, prepare_shield(shield, data, 0)):
        assert (prepared.seen_.split == Split.TRAIN).all()
        np.testing.assert_array_equal(prepared.seen_.x, data.x[data.rows(Split.TRAIN)])


def test_inputs_pass_other_shields_unchanged():
    channel = CertifiedChannel(1.0)
    assert Kind.INPUT not in channel.acts_on
    assert Kind.INPUT not in Chain([channel]).acts_on
    assert Kind.INPUT not in Shield.acts_on
    assert Message(Kind.INPUT, torch.ones(1, 1)).kind == "input"
