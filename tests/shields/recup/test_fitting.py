"""Members read the attribute, and nothing else, from updates that they have never seen."""

import numpy as np
import pytest
import torch
from torch import nn
from zoo_updates import balanced_accuracy, gradients

from fedveil.core.errors import InputError
from fedveil.shields.recup import Fitting, Zoo, fit_zoo, hidden_sizes, refit, spread_widths
from fedveil.updates import features
from fedveil.updates.segments import Segment

WIDTHS = (16, 32)
LEARNED = 600


@pytest.fixture(scope="module")
def sent():
    return gradients()


@pytest.fixture(scope="module")
def zoo(sent):
    return fit_zoo(sent.updates[:LEARNED], sent.codes[:LEARNED], sent.values, "u", sent.segments, widths=WIDTHS, seed=1)


def read(zoo, updates, codes):
    """Return each member's balanced accuracy on updates."""
    with torch.no_grad():
        return [balanced_accuracy(logits.argmax(dim=1).numpy(), codes) for logits in zoo.read(updates)]


def test_members_read_the_attribute_of_senders_whom_they_never_saw(zoo, sent):
    assert min(read(zoo, sent.updates[LEARNED:], sent.codes[LEARNED:])) > 0.7


def test_the_written_figures_hold_on_unseen_updates(zoo, sent):
    for member, unseen in zip(
        zoo.facts["members"], read(zoo, sent.updates[LEARNED:], sent.codes[LEARNED:]), strict=True
    ):
        figure = member["balanced_accuracy"]
        assert figure["low"] <= figure["estimate"] <= figure["high"]
        assert unseen == pytest.approx(figure["estimate"], abs=0.12)


def test_shuffled_codes_are_not_read(sent):
    codes = np.random.default_rng(0).permutation(sent.codes)
    zoo = fit_zoo(sent.updates[:LEARNED], codes[:LEARNED], sent.values, "u", sent.segments, widths=WIDTHS)
    for accuracy in read(zoo, sent.updates[LEARNED:], codes[LEARNED:]):
        assert accuracy == pytest.approx(0.5, abs=0.1)


def test_values_weigh_the_same_however_rare(sent):
    common = np.flatnonzero(sent.codes[:LEARNED] == 0)
    rare = np.flatnonzero(sent.codes[:LEARNED] == 1)[:40]
    rows = np.concatenate([common, rare])
    zoo = fit_zoo(sent.updates[rows], sent.codes[rows], sent.values, "u", sent.segments, widths=(32,))
    assert float(zoo.prior[1]) == pytest.approx(40 / len(rows))
    guesses = zoo.read(sent.updates[LEARNED:])[0].argmax(dim=1).numpy()
    recall = (guesses[sent.codes[LEARNED:] == 1] == 1).mean()
    assert recall > 0.5  # unweighted, one in nine would rarely be guessed


def test_the_same_seed_gives_the_same_members_and_another_others(zoo, sent):
    again, other = (
        fit_zoo(sent.updates[:LEARNED], sent.codes[:LEARNED], sent.values, "u", sent.segments, widths=WIDTHS, seed=seed)
        for seed in (1, 2)
    )
    x = sent.updates[:5]
    assert torch.equal(zoo.read(x), again.read(x))
    assert not torch.equal(zoo.read(x), other.read(x))


def test_global_randomness_is_left_alone(sent):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    fit_zoo(
        sent.updates[:100],
        sent.codes[:100],
        sent.values,
        "u",
        sent.segments,
        widths=(8,),
        fitting=Fitting(directions=4, most_epochs=1),
    )
    assert torch.equal(before, torch.get_rng_state())


def test_precomputed_features_are_the_same_as_updates(zoo, sent):
    ready = features(sent.updates[:LEARNED], sent.segments, "max")
    again = fit_zoo(
        ready, sent.codes[:LEARNED], sent.values, "u", sent.segments, widths=WIDTHS, seed=1, precomputed=True
    )
    assert torch.equal(zoo.read(sent.updates[:5]), again.read(sent.updates[:5]))


def test_members_learn_on_leading_directions_and_read_features(sent):
    few = fit_zoo(
        sent.updates[:LEARNED],
        sent.codes[:LEARNED],
        sent.values,
        "u",
        sent.segments,
        widths=WIDTHS,
        fitting=Fitting(directions=40),
    )
    first = few.members[0][0]
    assert first.weight.shape[1] == len(few.mean) > 40
    assert torch.linalg.matrix_rank(few.members[1][0].weight) <= 40
    assert min(read(few, sent.updates[LEARNED:], sent.codes[LEARNED:])) > 0.65


def test_features_that_never_vary_are_ignored(sent):
    ready = features(sent.updates[:LEARNED], sent.segments, "max").clone()
    ready[:, 3] = 7.0
    for directions in (40, 10_000):
        zoo = fit_zoo(
            ready,
            sent.codes[:LEARNED],
            sent.values,
            "u",
            sent.segments,
            widths=(16,),
            precomputed=True,
            fitting=Fitting(directions=directions),
        )
        moved = ready.clone()
        moved[:, 3] = 1000.0
        assert torch.allclose(zoo.logits(0, ready), zoo.logits(0, moved), atol=1e-3)


def test_all_updates_of_a_sender_are_held_out_together_and_unknown_senders_left_out(sent):
    groups = np.arange(LEARNED) // 3
    codes = sent.codes[: LEARNED // 3].repeat(3)
    codes[:30] = -1
    zoo = fit_zoo(
        sent.updates[:LEARNED],
        codes,
        sent.values,
        "u",
        sent.segments,
        widths=(8,),
        groups=groups,
        fitting=Fitting(most_epochs=1),
    )
    held = zoo.facts["validation"]
    assert held["updates"] == 3 * held["senders"]
    assert zoo.facts["updates"] + held["updates"] == LEARNED - 30


def test_given_validation_updates_are_used(sent):
    held = (sent.updates[700:], sent.codes[700:])
    zoo = fit_zoo(
        sent.updates[:LEARNED],
        sent.codes[:LEARNED],
        sent.values,
        "u",
        sent.segments,
        widths=(16,),
        validation=held,
    )
    assert zoo.facts["updates"] == LEARNED
    assert zoo.facts["validation"]["updates"] == len(sent.codes) - 700
    accuracies = read(zoo, *held)
    assert zoo.facts["members"][0]["balanced_accuracy"]["estimate"] == pytest.approx(accuracies[0])


def test_gradients_flow_to_updates_and_not_to_members(zoo, sent):
    updates = sent.updates[:4].clone().requires_grad_()
    zoo.read(updates).sum().backward()
    assert float(updates.grad.abs().sum()) > 0
    assert all(parameter.grad is None for member in zoo.members for parameter in member.parameters())


@pytest.mark.parametrize("fresh", [True, False])
def test_refitted_members_read_defended_updates_that_the_old_ones_do_not(zoo, sent, fresh):
    """A fixed map that hides nothing: magnitudes doubled or halved at fixed places, as a printed shield might."""
    factors = torch.where(
        torch.rand(sent.updates.shape[1], generator=torch.Generator().manual_seed(2)) > 0.5, 4.0, -0.2
    )
    defended = sent.updates * factors + 0.3
    again = refit(zoo, defended[:LEARNED], sent.codes[:LEARNED], fresh=fresh)
    assert again.attribute == zoo.attribute
    assert again.sizes == zoo.sizes
    assert again.seen == zoo.seen
    old = read(zoo, defended[LEARNED:], sent.codes[LEARNED:])
    new = read(again, defended[LEARNED:], sent.codes[LEARNED:])
    assert np.mean(new) > np.mean(old) + 0.05
    assert np.mean(new) > 0.65


def test_continuing_for_no_time_changes_almost_nothing(zoo, sent):
    still = Fitting(most_epochs=1, learning_rate=0.0)
    again = refit(zoo, sent.updates[:LEARNED], sent.codes[:LEARNED], fresh=False, fitting=still)
    assert torch.allclose(zoo.read(sent.updates[:5]), again.read(sent.updates[:5]))


@pytest.mark.parametrize("depth", [2, 3, 4, 5])
def test_every_depth_is_fitted(sent, depth):
    zoo = fit_zoo(
        sent.updates[:200],
        sent.codes[:200],
        sent.values,
        "u",
        sent.segments,
        widths=(16,),
        depth=depth,
        fitting=Fitting(most_epochs=1),
    )
    assert sum(isinstance(layer, nn.Linear) for layer in zoo.members[0]) == depth


def test_default_widths_are_twenty_from_128_to_2048():
    widths = spread_widths()
    assert len(widths) == len(set(widths)) == 20
    assert (widths[0], widths[-1]) == (128, 2048)
    assert list(widths) == sorted(widths)
    assert all(128 <= size <= 2048 for width in widths for size in hidden_sizes(width))


def fitted(sent, **changes) -> Zoo:
    arguments = {
        "updates": sent.updates[:100],
        "codes": sent.codes[:100],
        "values": sent.values,
        "attribute": "u",
        "segments": sent.segments,
        "widths": (8,),
        "fitting": Fitting(most_epochs=1),
    }
    return fit_zoo(**{**arguments, **changes})


def test_bad_input_is_refused_in_one_line(sent):
    bad = sent.updates[:100].clone()
    bad[3, 5] = torch.nan
    first = sent.codes[:100]
    faults = {
        "not finite": {"updates": bad},
        "rows of": {"updates": sent.updates[:100, :-1]},
        "one row, one code": {"codes": first[:-1]},
        "codes must be": {"codes": first + 1},
        "too few shadows: 0": {"codes": np.full(100, -1)},
        "too few shadows": {"codes": np.zeros(100, dtype=np.int64)},
        "one sender each": {"groups": np.arange(9)},
        "share to validate": {"validation": 1.0},
        "at least one width": {"widths": ()},
        "width is": {"widths": (0,)},
        "depth is": {"depth": 6},
        "no features": {"how": "maxx"},
        "features of each update, but 'max' has": {"precomputed": True},
    }
    for message, changes in faults.items():
        with pytest.raises(InputError, match=message):
            fitted(sent, **changes)
    with pytest.raises(InputError, match="share between 0 and 1"):
        Fitting(share=0)
    with pytest.raises(InputError, match="in 8 bits and cannot learn"):
        refit(fitted(sent).quantised(8), sent.updates[:100], first)


def test_a_layout_of_one_tensor_of_biases_has_nothing_for_max(sent):
    with pytest.raises(InputError, match="no tensors that 'max' reads"):
        fitted(sent, updates=sent.updates[:100, :8], segments=(Segment("model", "bias", (8,), 0),))
