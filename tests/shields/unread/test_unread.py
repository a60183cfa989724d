import functools
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from small_zoo import SEGMENTS, context, gradients
from torch import nn

from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.shields import Kind, Message, ShieldError, Unread
from fedveil.shields.unread import save_unreading
from fedveil.shields.unread.erasure import inlp, leace
from fedveil.updates.gradients import network_segments

SETTINGS = {
    "leace": {"erase": "leace", "noise": None},
    "inlp": {"erase": "inlp", "noise": None},
    "shaped": {"noise": "shaped", "retrained": 2},
    "means": {"noise": "means"},
    "isotropic": {"noise": "isotropic"},
    "targets": {"noise": None, "targets": True, "retrained": 2},
    "decoys": {"noise": None, "decoys": 3},
    "silence": {"noise": None, "decoys": "silence"},
    "all": {"erase": "leace", "targets": True, "retrained": 2, "spare": True, "decoys": 3, "sticky": True},
}


@functools.cache
def fit(name, relative, attributes):
    updates, codes = gradients()
    labels = np.arange(300) % 2
    shield = Unread(relative, **SETTINGS[name])
    return shield.fitted(
        updates[:300], {attribute: codes[attribute][:300].numpy() for attribute in attributes}, SEGMENTS, labels
    )


def fitted(name="shaped", relative=0.3, attributes=("sex",)):
    shield = fit(name, relative, attributes)
    return shield.with_fit(shield.fit_)  # remembers no device


def sent(shield, updates, people, number=1, codes=None):
    contexts = [context({} if codes is None else {"sex": codes[i]}, i, number) for i in people]
    return torch.cat([message.values for message, _ in shield.apply_all(updates, contexts)])


@pytest.mark.parametrize("name", SETTINGS)
def test_the_true_value_is_never_read_and_a_batch_equals_its_devices_one_by_one(name):
    updates, codes = gradients()
    rows, people = updates[300:308], range(300, 308)
    true_codes = sent(fitted(name), rows, people, codes=codes["sex"])
    other = sent(fitted(name), rows, people, codes=1 - codes["sex"])
    nobody = sent(fitted(name), rows, people)
    assert torch.equal(true_codes, other)
    assert torch.equal(true_codes, nobody)
    shield = fitted(name)
    alone = torch.cat(
        [
            shield.apply(Message(Kind.UPDATE, row[None]), context({}, i))[0].values
            for i, row in zip(people, rows, strict=True)
        ]
    )
    torch.testing.assert_close(alone, true_codes, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", SETTINGS)
def test_gradients_and_deltas_are_treated_alike_and_a_zero_update_stays_zero(name):
    updates, _ = gradients()
    shield, people = fitted(name), range(300, 340)
    if name in ("leace", "inlp", "isotropic"):  # linear in the update; the others are fitted on what is sent
        delta = sent(shield, -0.25 * updates[300:340], people)
        torch.testing.assert_close(delta, -0.25 * sent(shield, updates[300:340], people), rtol=1e-3, atol=1e-6)
    if name not in ("targets", "all"):  # a zoo reads magnitudes: steps through it are for updates as it was fitted on
        shorter = sent(fitted(name), 0.25 * updates[300:340], people)
        torch.testing.assert_close(shorter, 0.25 * sent(fitted(name), updates[300:340], people), rtol=1e-3, atol=1e-6)
    zero = torch.zeros(1, updates.shape[1])
    assert torch.equal(sent(shield, zero, [0]), zero)


@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("relative", [0.1, 0.5])
def test_the_change_keeps_to_its_share_of_the_norm(name, relative):
    updates, _ = gradients()
    rows = updates[300:400]
    change = (sent(fitted(name, relative), rows, range(300, 400)) - rows).norm(dim=1) / rows.norm(dim=1)
    size = float(change.mean() if name in ("decoys", "silence", "all") else change.square().mean().sqrt())
    assert size < 1.3 * relative
    if name not in ("leace", "inlp", "all"):  # erasure takes no more than it needs
        assert size > 0.7 * relative


def test_two_attributes_are_hidden_together():
    updates, codes = gradients()
    shield = fitted("leace", 100.0, ("sex", "race"))
    rows = updates[:300]
    read = shield.sides_.read(sent(shield, rows, range(300))).values
    before = shield.sides_.read(rows).values
    first = shield.sides_.layers[1].inputs  # of a convolution the input is not recovered exactly
    for name in ("sex", "race"):
        for code in range(int(codes[name].max()) + 1):
            holders = codes[name][:300] == code
            gap = (read[holders][:, first].mean(dim=0) - read[:, first].mean(dim=0)).norm()
            clean = (before[holders][:, first].mean(dim=0) - before[:, first].mean(dim=0)).norm()
            assert gap < 0.02 * clean


def test_noise_moves_each_layers_input_alike_for_all_outputs():
    updates, _ = gradients()
    shield = fitted("isotropic")
    rows = updates[300:310]
    before, after = (shield.sides_.read(updates).values for updates in (rows, sent(shield, rows, range(300, 310))))
    layer = shield.sides_.layers[1]
    n = (after - before)[:, layer.inputs]
    expected = layer.weights.of(rows) + torch.einsum("no,ni->noi", layer.biases.of(rows), n)
    torch.testing.assert_close(expected, layer.weights.of(sent(shield, rows, range(300, 310))), rtol=1e-2, atol=1e-4)


def test_sticky_noise_is_the_same_in_every_round_and_other_noise_is_not():
    updates, _ = gradients()
    rows, people = updates[300:304], range(300, 304)
    updating = Unread(0.3, noise="means").fitted(updates[:300], {"sex": gradients()[1]["sex"][:300].numpy()}, SEGMENTS)
    assert not torch.allclose(sent(updating, rows, people, 1), sent(updating, rows, people, 2))
    held = Unread(0.3, noise="means", sticky=True).with_fit(updating.fit_)
    torch.testing.assert_close(sent(held, rows, people, 1), sent(held, rows, people, 2))
    assert not torch.allclose(sent(held, rows, people, 1), sent(held, rows, range(310, 314), 1))


def test_changes_are_kept_off_the_tasks_directions():
    updates, codes = gradients()
    shield = Unread(0.3, noise="means", spare=True)
    shield = shield.fitted(updates[:300], {"sex": codes["sex"][:300].numpy()}, SEGMENTS)
    change = sent(shield, updates[300:310], range(300, 310)) - updates[300:310]
    mean = updates[:300].mean(dim=0)
    assert (change @ mean).abs().max() < 1e-4 * change.norm(dim=1).min() * mean.norm()
    assert change.norm(dim=1).min() > 0


def test_it_fails_closed():
    updates, _ = gradients()
    row = Message(Kind.UPDATE, updates[300:301])
    with pytest.raises(ShieldError, match="not fitted"):
        Unread().apply(row, context({}))
    shield = fitted("means")
    with pytest.raises(ShieldError, match="NaN"):
        shield.apply(row.with_values(row.values * float("nan")), context({}))
    with pytest.raises(ShieldError, match="numbers, but the model has"):
        shield.apply(row, replace(context({}), segments=SEGMENTS[:-1]))
    with pytest.raises(ShieldError):
        shield.apply(row.with_values(row.values[:, 1:]), context({}))
    answers = shield.apply_all(torch.cat([row.values, row.values * float("inf")]), [context({}, 0), context({}, 1)])
    assert isinstance(answers[1], ShieldError)
    assert not isinstance(answers[0], ShieldError)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"relative": 0}, "relative"),
        ({"relative": float("nan")}, "relative"),
        ({"erase": "leece"}, "leace"),
        ({"noise": "white"}, "isotropic"),
        ({"noise": None}, "no ingredient is chosen"),
        ({"retrained": 0}, "retrained"),
        ({"decoys": -1}, "decoys"),
        ({"decoys": "quiet"}, "decoys"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Unread(**settings)


def test_uninformative_shadows_are_refused():
    updates, _ = gradients()
    bare = network_segments(nn.Linear(3, 2, bias=False))
    with pytest.raises(InputError, match="one value"):
        Unread(noise="means").fitted(updates[:9], {"sex": np.zeros(9, dtype=np.int64)}, SEGMENTS)
    with pytest.raises(InputError, match="at least one"):
        Unread(noise="means").fitted(updates[:9], {}, SEGMENTS)
    with pytest.raises(InputError, match="weights and biases"):
        Unread(noise="means").fitted(torch.ones(4, 6), {"sex": np.arange(4) % 2}, bare)


def test_a_fit_is_kept_in_a_file(tmp_path):
    updates, codes = gradients()
    done = {"erase": "leace", "noise": "means", "spare": True, "decoys": 2}
    shield = Unread(0.3, **done).fitted(updates[:300], {"sex": codes["sex"][:300].numpy()}, SEGMENTS)
    path = tmp_path / "fit.safetensors"
    save_unreading(shield.fit_, path)
    again = Unread(0.3, **done, fit=str(path))
    people = range(300, 308)
    assert torch.equal(sent(shield, updates[300:308], people), sent(again, updates[300:308], people))
    with pytest.raises(InputError, match="spare is not requested"):
        Unread(0.3, **(done | {"spare": False}), fit=str(path))
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(InputError, match="cut short"):
        Unread(0.3, **done, fit=str(path))
    with pytest.raises(InputError, match="cannot be read"):
        Unread(0.3, **done, fit=str(tmp_path / "none"))
    with pytest.raises(InputError, match="targets"):
        save_unreading(fitted("targets").fit_, path)


def test_erased_inputs_reveal_nothing_to_a_linear_reader():
    generator = torch_generator(0, "erasure")
    codes = np.arange(600) % 3
    x = torch.randn(600, 8, generator=generator) @ torch.randn(8, 8, generator=generator)
    x[:, :2] += torch.from_numpy(codes)[:, None]
    for erase in (leace, inlp):
        eraser = erase(x, [codes])
        erased = (x + eraser.motion(x)).numpy()
        before, after = (
            LogisticRegression(max_iter=500).fit(inputs, codes).score(inputs, codes) for inputs in (x, erased)
        )
        assert before > 0.6
        assert after < 0.43
    moved = [float(erase(x, [codes]).motion(x).square().sum()) for erase in (leace, inlp)]
    assert moved[0] <= moved[1] * 1.0001  # LEACE is the least change that does it
