"""Many devices as one batch: the same as one by one, and each fails by itself."""

import pytest
import torch

from fedveil.core.errors import InputError
from fedveil.core.policy import Policy
from fedveil.core.randomness import torch_generator
from fedveil.data import load
from fedveil.federation import Federation
from fedveil.games import FedAvg
from fedveil.shields import (
    Chain,
    Compression,
    Context,
    Damage,
    DPGaussian,
    Identity,
    Kind,
    Message,
    Shield,
    ShieldError,
    Sparsify,
)
from fedveil.updates import Segment

SEGMENTS = (Segment("net", "weight", (3, 4), 0),)


def context(device):
    return Context(device, 1, torch_generator(0, device), data={"u:sex": torch.tensor([device % 2])}, segments=SEGMENTS)


def rows(count=5, seed=0):
    return torch.randn(count, 12, generator=torch.Generator().manual_seed(seed))


class Doubling(Shield):
    """Treats many devices together; device 3 has no value, and batches that hold it are refused."""

    name = "doubling"
    acts_on = frozenset({Kind.UPDATE})

    def __init__(self, bad=(), unusable=(), in_place=False):
        self.bad, self.unusable, self.in_place, self.sizes = bad, unusable, in_place, []

    def change(self, message, context):
        return message.with_values(self.change_all(message.values, [context]))

    def change_all(self, updates, contexts):
        self.sizes.append(len(updates))
        for context in contexts:
            if context.device in self.bad:
                raise ValueError(f"device {context.device} has no value")
        if self.in_place:
            updates *= 2
            return updates
        sent = 2 * updates
        for index, context in enumerate(contexts):
            if context.device in self.unusable:
                sent[index, 0] = torch.inf
        return sent


def one_by_one(shield, updates):
    answers = []
    for device, row in enumerate(updates):
        try:
            answers.append(shield.apply(Message(Kind.UPDATE, row[None]), context(device)))
        except ShieldError as fault:
            answers.append(fault)
    return answers


def same(left, right):
    for answer, other in zip(left, right, strict=True):
        assert isinstance(answer, ShieldError) == isinstance(other, ShieldError)
        if isinstance(answer, ShieldError):
            assert str(answer) == str(other)
            continue
        assert torch.equal(answer[0].values, other[0].values)
        assert answer[1] == other[1]
        assert (answer[0].kind, answer[0].bytes) == (other[0].kind, other[0].bytes)


SHIELDS = [
    Identity(),
    DPGaussian(0.1),
    Sparsify(0.5),
    Doubling(),
    Doubling(bad=(0, 3)),
    Doubling(unusable=(2,)),
    Chain([DPGaussian(0.1), Doubling()]),
    Chain([Doubling(), Doubling(bad=(4,)), Compression(0.5)]),
    Chain([Chain([Doubling()]), Identity(), Doubling(unusable=(1,)), DPGaussian(0.2)]),
]


@pytest.mark.parametrize("bad", [None, torch.nan, torch.inf, -torch.inf])
@pytest.mark.parametrize("shield", SHIELDS, ids=repr)
def test_a_batch_gives_what_its_devices_give_alone(shield, bad):
    updates = rows()
    if bad is not None:
        updates[1, 5] = bad
    kept = updates.clone()
    answers = shield.apply_all(updates, [context(device) for device in range(5)])
    assert torch.equal(updates.nan_to_num(), kept.nan_to_num())
    same(answers, one_by_one(shield, updates))
    assert isinstance(answers[1], ShieldError) or bad is None


def test_all_devices_are_one_batch_and_a_failing_device_costs_few_more():
    shield = Doubling()
    shield.apply_all(rows(64), [context(device) for device in range(64)])
    assert shield.sizes == [64]
    failing = Doubling(bad=(7,))
    answers = failing.apply_all(rows(64), [context(device) for device in range(64)])
    assert [index for index, answer in enumerate(answers) if isinstance(answer, ShieldError)] == [7]
    assert "device 7 has no value" in str(answers[7])
    assert "nothing is sent" in str(answers[7])
    assert len(failing.sizes) == 13
    chain = Chain([Doubling(), Doubling()])
    chain.apply_all(rows(64), [context(device) for device in range(64)])
    assert [member.sizes for member in chain.shields] == [[64], [64]]


def test_a_shield_that_writes_to_its_input_sends_nothing():
    answers = Doubling(in_place=True).apply_all(rows(), [context(device) for device in range(5)])
    assert all(isinstance(answer, ShieldError) for answer in answers)


def test_other_kinds_pass_and_a_wrong_number_of_devices_is_refused():
    updates = rows()
    answers = Doubling().apply_all(updates, [context(device) for device in range(5)], Kind.OUTPUT)
    assert all(torch.equal(answer[0].values[0], row) for answer, row in zip(answers, updates, strict=True))
    with pytest.raises(InputError, match="one row for each"):
        Doubling().apply_all(updates, [context(0)])
    assert Doubling().apply_all(updates[:0], []) == []


def test_behind_a_certificate_a_batch_knows_no_more_than_one_device():
    seen = []

    class Looking(Doubling):
        def change_all(self, updates, contexts):
            seen.extend(contexts)
            return super().change_all(updates, contexts)

    chain = Chain([Looking(), DPGaussian(0.1), Looking()])
    chain.apply_all(rows(3), [context(device) for device in range(3)])
    before, behind = seen[:3], seen[3:]
    assert all("u:sex" in context.data for context in before)
    assert all((context.data, context.model, context.policy) == ({}, {}, None) for context in behind)
    assert [context.device for context in behind] == [0, 1, 2]
    assert len({context.generator.initial_seed() for context in behind}) == 3


def test_damage_by_rows_is_damage_of_each_row():
    true, sent = rows(7), rows(7, 1)
    true[2], sent[2] = 0, 0
    sent[3] = 0
    true[4] *= 1e30
    sent[5] *= 1e-38
    by_rows = Damage.of_rows(true, sent, [48] * 7)
    assert by_rows == [Damage.between(true[i : i + 1], sent[i : i + 1]) for i in range(7)]
    assert by_rows[2] == Damage(0, 0, 1, 48)
    whole = Damage.between(true.double(), sent.double())
    assert whole.l2 == pytest.approx(sum(damage.l2 for damage in by_rows) / 7)
    assert Damage.of_rows(true[:, :0], sent[:, :0], [0] * 7) == [Damage(0, 0, 1, 0)] * 7


def test_policies_reach_the_shield_one_for_all_or_one_each(monkeypatch):
    data = load("synthetic", target="y", sensitive="u", n=240, bits=0.5)
    seen = {}

    class Reading(Shield):
        acts_on = frozenset({Kind.UPDATE})

        def change(self, message, context):
            seen[context.device] = context.policy
            assert set(context.data) >= {"x", "y", "u:u"}
            assert len(context.data["x"]) == len(context.data["u:u"])
            return message

    monkeypatch.setattr("fedveil.core.plugins.load", lambda group, name, base: Reading)
    policies = [Policy(hide={"u": level}, shield="reading") for level in (0.1, 0.2, 0.3)]
    Federation(data, devices=3, shield=Reading(), policies=policies).play(FedAvg(hidden=(2,)), 1, record=[1], shadows=2)
    assert [seen[device].hide["u"] for device in range(5)] == [0.1, 0.2, 0.3, 0.1, 0.2]
    Federation(data, devices=3, shield=Reading(), policies=policies[2]).play(FedAvg(hidden=(2,)), 1)
    assert [seen[device] for device in range(3)] == [policies[2]] * 3
    Federation(data, devices=3, shield=Reading()).play(FedAvg(hidden=(2,)), 1)
    assert seen[0] is None
    with pytest.raises(InputError, match="2 values for 3 devices"):
        Federation(data, devices=3, policies=policies[:2])
    with pytest.raises(InputError, match=r"hide.age: no such attribute; known: u"):
        Federation(data, devices=3, policies=Policy(hide={"age": 1.0}))


def test_noise_in_a_batch_is_the_noise_of_each_device():
    from fedveil.shields import DPGaussian, DPLaplace

    updates = torch.randn(5, 40, generator=torch.Generator().manual_seed(0))
    for shield in (DPGaussian(sigma=0.1, clip=1.0), DPLaplace(scale=0.1, clip=1.0), DPGaussian(sigma=0.1, clip=None)):

        def contexts() -> list[Context]:
            return [Context(device, 1, torch.Generator().manual_seed(device)) for device in range(5)]

        together = [answer[0].values for answer in shield.apply_all(updates, contexts())]
        alone = [
            shield.apply(Message(Kind.UPDATE, updates[index : index + 1]), context)[0].values
            for index, context in enumerate(contexts())
        ]
        assert torch.equal(torch.cat(together), torch.cat(alone))
