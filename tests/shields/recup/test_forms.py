"""What a policy gets by default: a form whose map does not depend on the true value."""

import numpy as np
import pytest
import torch
from fedveil_papers.recup.laboratory import Laboratory, Task
from small_task import small_data

from fedveil.core.errors import InputError
from fedveil.core.policy import Policy
from fedveil.data import Split
from fedveil.shields import (
    Chain,
    Context,
    DPGaussian,
    DPLaplace,
    Identity,
    Kind,
    Message,
    Mingle,
    Quantise,
    ShieldError,
    Sparsify,
)
from fedveil.shields.forms import CHANGE, shield_for
from fedveil.updates import Segment


def test_a_policy_of_two_lines_gets_the_hardened_form_without_a_zoo():
    shield = shield_for(Policy.parse("[hide]\nsex = 1.0"))
    assert isinstance(shield, Mingle)
    assert shield.budget == CHANGE
    both = shield_for(Policy.parse("budget = 0.2\n[hide]\nsex = 0.25\nrace = 0.75\nage = 0.0"))
    assert isinstance(both, Chain)
    assert {own.attribute: own.budget for own in both.shields} == {"sex": 0.05, "race": pytest.approx(0.15)}


def test_minimal_is_the_printed_forms():
    with pytest.raises(InputError, match="minimal: is for"):
        shield_for(Policy.parse("minimal = true\n[hide]\nsex = 1.0"))


def test_what_the_default_shows_does_not_depend_on_the_true_value_and_is_read_less():
    data = small_data()
    task = Task(data, "adult", rate=1.0, momentum=0.5, clients=60)
    shield = shield_for(Policy(hide={"u": 1.0}, budget=0.5))
    ready = shield.prepared(data.take(data.rows(Split.TRAIN)), 0)
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y.codes)
    sent = []
    for u in (0, 1):
        own = {"x": x, "y": y, "u:u": torch.full((len(x),), u)}
        context = Context(0, 0, torch.Generator().manual_seed(0), data=own)
        sent.append(ready.apply(Message(Kind.INPUT, x), context)[0].values)
    assert torch.equal(*sent)
    assert not torch.equal(sent[0], x)
    lab = Laboratory(task, static=(), adaptive=[("recovered", "logistic")], draws=100)
    bare, defended = lab.measure("none"), lab.measure("hardened", shield)
    read = [point.worst("u").balanced_accuracy.estimate for point in (bare, defended)]
    assert read[1] < read[0] - 0.05
    assert np.isfinite(defended.kept)


def test_a_federation_refuses_policies_that_its_shield_does_not_meet():
    from fedveil.federation import Federation

    data, policy = small_data(), Policy(hide={"u": 1.0})
    for shield in (Identity(), DPGaussian(sigma=1.0)):
        with pytest.raises(InputError, match="ask for the form 'hardened'"):
            Federation(data, devices=5, shield=shield, policies=policy)
    with pytest.raises(InputError, match="ask for the form 'as-printed'"):
        Federation(data, devices=5, shield=shield_for(policy), policies=Policy(hide={"u": 1.0}, shield="as-printed"))
    others = [policy] * 4 + [Policy(hide={"u": 0.5})]
    with pytest.raises(InputError, match="one map for all devices"):
        Federation(data, devices=5, shield=shield_for(policy), policies=others)
    with pytest.raises(InputError, match="is no policy"):
        Federation(data, devices=5, shield=shield_for(policy), policies=[{"hide": {"u": 1}}] * 5)
    Federation(data, devices=5, shield=shield_for(policy), policies=policy)


def test_a_policy_that_hides_nothing_or_has_no_budget_is_refused():
    with pytest.raises(InputError, match="every level is 0"):
        shield_for(Policy(hide={"u": 0.0}))
    with pytest.raises(InputError, match="budget"):
        shield_for(Policy(hide={"u": 1.0}), budget=0.0)


def test_no_shield_sends_an_update_of_another_length():
    segments = (Segment("model", "weight", (3, 4), 0),)
    context = Context(0, 1, torch.Generator(), segments=segments)
    for shield in (DPGaussian(sigma=1.0), DPLaplace(scale=1.0), Sparsify(0.5), Quantise(4), Identity()):
        with pytest.raises(ShieldError, match="5 numbers where the model has 12"):
            shield.apply(Message(Kind.UPDATE, torch.ones(1, 5)), context)
        (answer,) = shield.apply_all(torch.ones(1, 5), [context])
        assert isinstance(answer, ShieldError)
