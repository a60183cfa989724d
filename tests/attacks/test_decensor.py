"""De-censoring restores what was hidden, is compared at equal capacity, and finds nothing in pure noise."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedveil.attacks import Labelled
from fedveil.attacks.decensor import Decensor, EqualCapacity, Informed, fit_map, judge_decensoring
from fedveil.core.errors import InputError
from fedveil.data import Attribute, load
from fedveil.federation import Federation
from fedveil.federation.release import released_view
from fedveil.games import AdversarialTraining, Raw
from fedveil.shields.dp.gaussian import DPGaussian
from fedveil.view import Capability, Pool, View


def make_view(represent, n=6000, inputs=True, seed=0):
    """u is the sign of a product of two inputs: no linear map of x reads it, a network does."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 6))
    u = (x[:, 0] * x[:, 1] > 0).astype(np.int64)
    r = represent(x, u, rng)
    pools = []
    for part, rows in enumerate((slice(0, n // 2), slice(n // 2, 2 * n // 3), slice(2 * n // 3, n))):
        has = inputs and part < 2
        pools.append(Pool(r[rows], {"u": Attribute("u", u[rows], ("a", "b"))}, inputs=x[rows] if has else None))
    view = View(*pools)
    return replace(view, grants=view.grants | {Capability.INPUTS}) if inputs else view


def test_the_map_learns_to_restore_what_can_be_restored():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(3000, 5))
    r = np.tanh(x @ rng.normal(size=(5, 5)))
    back = fit_map((r[:2000], x[:2000]), (r[2000:], x[2000:]), seed=0)
    with torch.no_grad():
        error = float(((back(torch.as_tensor(r[2000:], dtype=torch.float32)).numpy() - x[2000:]) ** 2).mean())
    assert error < 0.5


def test_the_attack_and_its_control_both_read_the_attribute():
    result = judge_decensoring(
        make_view(lambda x, u, rng: x @ np.linalg.qr(rng.normal(size=(6, 6)))[0]), "u", draws=200
    )
    assert result.attack.balanced_accuracy.estimate > 0.9
    assert result.control.balanced_accuracy.estimate > 0.9
    assert result.gain.low <= result.gain.estimate <= result.gain.high
    assert result.gain.estimate == pytest.approx(
        result.attack.balanced_accuracy.estimate - result.control.balanced_accuracy.estimate
    )


def test_nothing_is_read_from_vectors_of_noise():
    """The attacker has the auxiliary people's inputs and still learns nothing about victims whose vector is noise."""
    result = judge_decensoring(make_view(lambda x, u, rng: rng.normal(size=(len(x), 4))), "u", draws=200)
    assert abs(result.attack.balanced_accuracy.estimate - 0.5) < 0.05
    assert abs(result.control.balanced_accuracy.estimate - 0.5) < 0.05
    assert result.gain.low <= 0 <= result.gain.high


def test_capacity_is_equal():
    view = make_view(lambda x, u, rng: x, n=600)
    pools = judge_pools(view)
    decensor, control = Decensor(seed=1), EqualCapacity(seed=1)
    decensor.fit(*pools, 2)
    control.fit(*pools, 2)

    def weights(*models):
        return sum(p.numel() for model in models for p in model.parameters())

    assert weights(decensor.back_, decensor.model_) == weights(control.model_)


def judge_pools(view):
    return [
        Informed(pool.vectors, pool.attributes["u"].codes, pool.inputs) for pool in (view.auxiliary, view.validation)
    ]


def test_it_is_refused_where_the_observer_has_no_inputs():
    view = make_view(lambda x, u, rng: x, n=300, inputs=False)
    with pytest.raises(InputError, match="needs the auxiliary people's own inputs, which this view does not grant"):
        judge_decensoring(view, "u")
    bare = replace(view, grants=view.grants | {Capability.INPUTS})
    with pytest.raises(InputError, match="have no inputs"):
        judge_decensoring(bare, "u")
    pool = Labelled(view.auxiliary.vectors, view.auxiliary.attributes["u"].codes)
    with pytest.raises(InputError, match="have no inputs"):
        Decensor().fit(pool, pool, 2)


def test_the_same_seed_gives_the_same_figures():
    view = make_view(lambda x, u, rng: x[:, :3], n=900)
    assert judge_decensoring(view, "u", seed=3, draws=100) == judge_decensoring(view, "u", seed=3, draws=100)


def test_a_run_gives_the_attacker_the_inputs_of_auxiliary_people_only():
    data = load("synthetic", target="y", sensitive="u", n=600, bits=0.5)
    run = Federation(data, devices=5, shield=DPGaussian(1.0, place="input")).play(Raw())
    view = released_view(run, inputs=True)
    assert view.victims.inputs is None
    for pool in (view.auxiliary, view.validation):
        assert len(pool.inputs) == len(pool)
        assert not np.allclose(pool.inputs, pool.vectors)  # uncensored: no shield has changed them
    assert released_view(run).auxiliary.inputs is None
    assert Capability.INPUTS not in released_view(run).grants
    narrowed = view.about("u")
    assert len(narrowed.auxiliary.inputs) == len(narrowed.auxiliary)


def test_on_a_censored_encoder_it_is_judged_beside_its_control():
    data = load("synthetic", target="y", sensitive="u", n=2000, bits=0.3, overlap=0.5)
    run = Federation(data, devices=10).play(AdversarialTraining(attribute="u", strength=1.0), rounds=2)
    result = judge_decensoring(released_view(run, inputs=True), "u", draws=100)
    assert 0.4 < result.attack.balanced_accuracy.estimate < 1
    assert set(result.as_dict()) == {"attribute", "attack", "control", "gain"}
