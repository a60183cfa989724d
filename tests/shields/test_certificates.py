"""A chain keeps its members' certificates and ensures that they stay true."""

import numpy as np
import pytest
import torch

from fedveil.certificates import Certificate
from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.shields import CertifiedChannel, Chain, Context, DropColumns, Identity, Kind, Message, Shield, ShieldError


class Later(Shield):
    """Applies a given function to representations."""

    name = "later"
    acts_on = frozenset({Kind.REPRESENTATION})

    def __init__(self, function):
        self.function = function

    def change(self, message, context):
        return message.with_values(self.function(message.values, context))


def context(n=4):
    data = {"x": torch.ones(n, 3), "u:sex": torch.arange(n) % 2}
    return Context(5, 2, torch_generator(0, "shield"), data, {"encoder": torch.ones(7)}, {"strength": 1})


@pytest.mark.parametrize(("values", "priors"), [(2, (0.7, 0.3)), (3, (0.5, 0.3, 0.2)), (5, [0.2] * 5)])
def test_the_channel_certifies_all_three_figures(values, priors):
    channel = CertifiedChannel(2.0, 1.5)
    certificates = channel.certificates(values, priors)
    release = channel.release
    assert certificates == (
        release.certify_advantage(values),
        release.certify_balanced_accuracy(values),
        release.certify_accuracy(priors),
    )
    assert [certificate.quantity for certificate in certificates] == ["advantage", "balanced accuracy", "accuracy"]
    assert all(
        isinstance(certificate, Certificate) and certificate.direction == "upper" for certificate in certificates
    )
    advantage, balanced, accuracy = (certificate.bound for certificate in certificates)
    assert 0 < advantage < 1
    assert balanced == pytest.approx((1 + (values - 1) * advantage) / values)
    assert accuracy >= max(priors)


def test_priors_must_fit_the_values():
    with pytest.raises(InputError, match="3 priors for 2 values"):
        CertifiedChannel(1.0).certificates(2, (0.5, 0.3, 0.2))


def test_shields_without_a_proof_certify_nothing():
    for shield in (Identity(), DropColumns(1, "u"), Chain([]), Chain([Identity(), DropColumns(1, "u")])):
        assert shield.certificates(2, (0.5, 0.5)) == ()
        assert not shield.certifies


def test_a_chain_has_its_members_certificates_in_any_position():
    channel, other = CertifiedChannel(2.0), CertifiedChannel(5.0)
    alone = channel.certificates(2, (0.6, 0.4))
    for chain in (
        Chain([channel]),
        Chain([DropColumns(1, "u"), channel]),
        Chain([channel, Identity()]),
        Chain([Identity(), Chain([Identity(), channel]), Identity()]),
    ):
        assert chain.certificates(2, (0.6, 0.4)) == alone
        assert chain.certifies == {Kind.REPRESENTATION}
    assert Chain([channel, other]).certificates(2, (0.6, 0.4)) == alone + other.certificates(2, (0.6, 0.4))


def test_shields_after_a_certified_one_get_the_message_and_nothing_else():
    seen = []

    def look(values, context):
        seen.append(context)
        return values

    rows = Message(Kind.REPRESENTATION, torch.zeros(4, 3))
    for chain in (
        Chain([Later(look), CertifiedChannel(1.0), Later(look)]),
        Chain([Later(look), Chain([Identity(), CertifiedChannel(1.0)]), Later(look)]),
    ):
        seen.clear()
        chain.apply(rows, context())
        before, behind = seen
        assert set(before.data) == {"x", "u:sex"}
        assert (behind.data, behind.model, behind.policy) == ({}, {}, None)
        assert (behind.device, behind.round) == (5, 2)
    leak = Later(lambda values, context: values + 100 * context.data["u:sex"][:, None])
    with pytest.raises(ShieldError, match="nothing is sent"):
        Chain([CertifiedChannel(1.0), leak]).apply(rows, context())


def test_the_noise_cannot_be_drawn_again_behind_the_channel():
    true = torch.full((4, 3), 0.1)

    def undo(values, context):
        again = torch.Generator().manual_seed(context.generator.initial_seed())
        return values - torch.randn(values.shape, generator=again, dtype=torch.float64).to(values)

    sent, _ = Chain([CertifiedChannel(1.0, 10.0), Later(undo)]).apply(Message(Kind.REPRESENTATION, true), context())
    assert (sent.values - true).abs().mean() > 0.5
    ends = [
        Chain([CertifiedChannel(1.0), Later(lambda v, c: v + torch.randn(v.shape, generator=c.generator))]).apply(
            Message(Kind.REPRESENTATION, true), context()
        )[0]
        for _ in range(2)
    ]
    assert torch.equal(ends[0].values, ends[1].values)  # and still repeatable


def test_other_kinds_pass_a_chain_with_their_context_whole():
    seen = []

    class Look(Shield):
        name = "look"

        def change(self, message, context):
            seen.append(set(context.data))
            return message

    Chain([CertifiedChannel(1.0), Look()]).apply(Message(Kind.UPDATE, torch.zeros(1, 3)), context())
    assert seen == [{"x", "u:sex"}]


def test_the_bound_holds_behind_the_best_processing():
    """The likelihood ratio of two opposite points, thresholded on the device, is as good as elsewhere."""
    n = 40_000
    codes = np.arange(n) % 2
    rows = torch.from_numpy((2.0 * codes - 1)[:, None] * np.array([[3.0, 0.0]]))
    decide = Later(lambda values, _: (values[:, :1] > 0).double().expand(values.shape))
    chain = Chain([CertifiedChannel(1.5), decide])
    sent, _ = chain.apply(Message(Kind.REPRESENTATION, rows), context(n))
    advantage = 2 * float(((sent.values[:, 0].numpy() > 0.5) == codes).mean()) - 1
    bound = chain.certificates(2, (0.5, 0.5))[0].bound
    assert abs(advantage - bound) < 4.5 / np.sqrt(n)
