"""What a policy gets by default: a shield whose map does not depend on the true value; and who keeps a policy."""

import pytest
import torch
from small_task import small_data

from fedveil.config import Policy, shield_for
from fedveil.core.errors import InputError
from fedveil.data import Split
from fedveil.federation import Federation
from fedveil.shields import (
    Context,
    DPGaussian,
    DPLaplace,
    Identity,
    Kind,
    Message,
    Quantise,
    ShieldError,
    Sparsify,
)
from fedveil.updates import Segment


def test_what_the_default_shows_does_not_depend_on_the_true_value():
    data = small_data()
    shield = shield_for(Policy(hide={"u": 1.0}, shield={"kind": "recommended", "change": 0.5}))
    ready = shield.prepared(data.take(data.rows(Split.TRAIN)), 0)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y.codes)
    sent = []
    for u in (0, 1):
        device_data = {"x": x, "y": y, "u:u": torch.full((len(x),), u)}
        context = Context(0, 0, torch.Generator().manual_seed(0), data=device_data)
        sent.append(ready.apply(Message(Kind.INPUT, x), context)[0].values)
    assert torch.equal(*sent)
    assert not torch.equal(sent[0], x)


def test_a_federation_refuses_policies_that_its_shield_does_not_meet():
    data, policy = small_data(), Policy(hide={"u": 1.0})
    for shield in (Identity(), DPGaussian(sigma=1.0)):
        with pytest.raises(InputError, match=r"ask for the shield recommended \(mingle\), but the shield is '"):
            Federation(data, devices=5, shield=shield, policies=policy)
    with pytest.raises(InputError, match="ask for the shield recup, but the shield is 'mingle'; make it by fedveil"):
        Federation(data, devices=5, shield=shield_for(policy), policies=Policy(hide={"u": 1.0}, shield="recup"))
    others = [policy] * 4 + [Policy(hide={"u": 0.5})]
    with pytest.raises(InputError, match=r"with budget = 0\.05, but the shield, one map for all devices, has 0\.1"):
        Federation(data, devices=5, shield=shield_for(policy), policies=others)
    with pytest.raises(InputError, match=r"is not a policy; read one by fedveil\.config\.read_policy"):
        Federation(data, devices=5, shield=shield_for(policy), policies=[{"hide": {"u": 1}}] * 5)
    Federation(data, devices=5, shield=shield_for(policy), policies=policy)
    noise = Policy(shield={"kind": "dp-gaussian", "sigma": 4.0})
    Federation(data, devices=5, shield=shield_for(noise), policies=noise)
    with pytest.raises(InputError, match=r"sigma = 4\.0"):
        Federation(data, devices=5, shield=DPGaussian(sigma=1.0), policies=noise)


def test_no_shield_sends_an_update_of_another_length():
    segments = (Segment("model", "weight", (3, 4), 0),)
    context = Context(0, 1, torch.Generator(), segments=segments)
    for shield in (DPGaussian(sigma=1.0), DPLaplace(scale=1.0), Sparsify(0.5), Quantise(4), Identity()):
        with pytest.raises(ShieldError, match="5 numbers, but the model has 12"):
            shield.apply(Message(Kind.UPDATE, torch.ones(1, 5)), context)
        (answer,) = shield.apply_all(torch.ones(1, 5), [context])
        assert isinstance(answer, ShieldError)
