"""Compression keeps exactly the largest share of an update, unchanged, and nothing else."""

import pytest
import torch

from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.data import load
from fedveil.federation import Federation
from fedveil.games import FedAvg
from fedveil.shields import Context, Kind, Message, ShieldError
from fedveil.shields.compression import Compression


def apply(shield, rows, kind=Kind.UPDATE):
    message, damage = shield.apply(Message(kind, rows), Context(0, 1, torch_generator(0, "shield")))
    return message.values, damage


@pytest.mark.parametrize(("keep", "length", "kept"), [(0.1, 1000, 100), (0.07, 100, 7), (0.5, 3, 2), (1e-6, 50, 1)])
def test_exactly_k_are_kept_and_they_are_the_largest(keep, length, kept):
    rows = torch.randn(4, length, generator=torch_generator(3, "rows"))
    sent, damage = apply(Compression(keep), rows)
    assert ((sent != 0).sum(dim=1) == kept).all()
    assert torch.equal(sent[sent != 0], rows[sent != 0])
    naive = torch.stack([torch.where(row.abs() >= row.abs().sort().values[-kept], row, 0.0) for row in rows])
    assert torch.equal(sent, naive)
    assert damage.l2 == pytest.approx(float((rows - sent).norm(dim=1).mean()))


def test_ties_do_not_let_more_through():
    sent, _ = apply(Compression(0.25), torch.ones(2, 8))
    assert ((sent != 0).sum(dim=1) == 2).all()


def test_everything_kept_is_the_identity_and_bytes_are_those_sent():
    rows = torch.randn(1, 40)
    sent, damage = apply(Compression(1.0), rows)
    assert torch.equal(sent, rows)
    assert damage.bytes == 160
    assert apply(Compression(0.1), rows)[1].bytes == 4 * (4 + 4)


def test_other_messages_pass_and_nothing_is_certified():
    rows = torch.randn(3, 5)
    sent, damage = apply(Compression(0.2), rows, Kind.REPRESENTATION)
    assert torch.equal(sent, rows)
    assert damage.bytes == 60
    assert Compression(0.2).certificates(2, (0.5, 0.5)) == ()
    assert not Compression(0.2).certifies


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_it_fails_closed(bad):
    """Even where the bad number would not be among those kept."""
    with pytest.raises(ShieldError, match="nothing is sent"):
        apply(Compression(0.5), torch.tensor([[1.0, bad, 2.0, 3.0]]))


@pytest.mark.parametrize("keep", [0.0, -0.1, 1.1, float("nan"), True])
def test_a_bad_share_is_refused(keep):
    with pytest.raises(InputError, match=r"in \(0, 1\]"):
        Compression(keep)


def test_a_federation_sends_less_and_still_learns():
    data = load("synthetic", target="y", sensitive="u", n=600, bits=0.5)
    whole = Federation(data, devices=6).play(FedAvg(hidden=(8,)), rounds=2)
    part = Federation(data, devices=6, shield=Compression(0.1)).play(FedAvg(hidden=(8,)), rounds=2)
    assert part.history[-1].bytes_up < 0.25 * whole.history[-1].bytes_up
    assert 0 < part.history[-1].damage["cosine"] < 1
    assert plugins.load("fedveil.shields", "compression") is Compression
