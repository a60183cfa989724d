"""Pruned classifiers: only the smallest weights are removed, and the outputs on real data show it."""

import numpy as np
import pytest
import torch
from fedveil_papers.curious import Classifier, prune, train
from fedveil_papers.curious.figure2 import figure2
from fedveil_papers.curious.measuring import measure
from fedveil_papers.curious.pruning import zero_share
from torch import nn

from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.data import Split
from fedveil.games.curious import Curious, classifier_network


@pytest.fixture(scope="module")
def data():
    return figure2(1500, 400, 1500, margin=0.1, seed=0)


@pytest.fixture(scope="module")
def curious(data):
    game = Curious("s", output="raw", beta_y=0.5, beta_s=0.5, widths=(32, 16))
    return train(game, data, epochs=25, seed=0)


def weights(classifier):
    return [part.weight for part in classifier.network.modules() if isinstance(part, nn.Linear)]


@pytest.mark.parametrize("scope", ["layer", "network"])
@pytest.mark.parametrize("amount", [0.3, 0.9])
def test_the_smallest_weights_are_zero_and_the_others_untouched(curious, scope, amount):
    pruned = prune(curious, amount, scope=scope)
    before, after = weights(curious), weights(pruned)
    if scope == "network":
        before, after = ([torch.cat([weight.flatten() for weight in layers])] for layers in (before, after))
    for old, new in zip(before, after, strict=True):
        gone = new == 0
        assert int(gone.sum()) == round(amount * old.numel())
        assert old[gone].abs().max() <= old[~gone].abs().min()
        assert torch.equal(old[~gone], new[~gone])
    assert zero_share(pruned) == pytest.approx(amount, abs=0.02)


def test_biases_attack_and_the_classifier_given_stay(curious):
    pruned = prune(curious, 0.8)
    assert zero_share(curious) == 0
    assert pruned.attacks is curious.attacks
    before, after = (dict(classifier.network.named_parameters()) for classifier in (curious, pruned))
    assert before.keys() == after.keys()  # neither masks nor hooks are left behind
    for name in before:
        assert torch.equal(before[name], after[name]) == name.endswith("bias")


def test_convolutions_are_pruned_also_where_they_lie_channels_last():
    built = classifier_network((3, 28, 28), 10, (8, 8, 8, 8, 16))(torch_generator(0))
    laid_out = Classifier(Curious("s"), built.eval().to(memory_format=torch.channels_last))
    x = np.random.default_rng(0).random((5, 3, 28, 28), dtype=np.float32)
    assert np.allclose(prune(laid_out, 0.0).scores(x), laid_out.scores(x), atol=1e-6)
    half = prune(laid_out, 0.5)
    assert zero_share(half) == 0.5
    assert half.scores(x).shape == (5, 10)
    assert not np.allclose(half.scores(x), laid_out.scores(x))


def test_pruning_nothing_changes_no_output(curious, data):
    answers = [classifier.outputs(data, Split.TEST).scores for classifier in (curious, prune(curious, 0.0))]
    assert np.array_equal(*answers)


def test_retrained_attackers_read_what_the_makers_attack_no_longer_does(curious, data):
    """G was trained with the whole classifier; pruning shifts the outputs, and a new attacker follows them."""
    whole, pruned = (
        measure(classifier, data, "s", attackers="mlp-small", draws=100)
        for classifier in (curious, prune(curious, 0.6))
    )
    assert whole.curiosity.estimate > 0.9
    assert whole.judgement.worst.balanced_accuracy.estimate > 0.9
    assert pruned.curiosity.estimate < whole.curiosity.estimate - 0.02
    assert pruned.judgement.worst.accuracy.estimate > pruned.curiosity.estimate + 0.02


@pytest.mark.parametrize(
    ("amount", "scope", "message"), [(1.0, "layer", "amount must lie in"), (0.5, "globe", "choose layer or network")]
)
def test_bad_settings_are_refused(curious, amount, scope, message):
    with pytest.raises(InputError, match=message):
        prune(curious, amount, scope=scope)
