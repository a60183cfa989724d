"""A shield's damage is measured in one way for all shields and chains: norms, direction and bytes sent."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core.randomness import torch_generator
from fedveil.data import load
from fedveil.federation import Federation
from fedveil.games import FedAvg
from fedveil.shields import (
    CertifiedChannel,
    Chain,
    Compression,
    Context,
    Damage,
    DPGaussian,
    DPLaplace,
    Identity,
    Kind,
    Message,
    Quantise,
    Shield,
    ShieldError,
    Sparsify,
)

ON_UPDATES = [DPGaussian(0.1), DPLaplace(0.1), Compression(0.2), Sparsify(0.8), Quantise(4)]
ON_UPDATES += [Identity(), Chain([Sparsify(0.5), Quantise(4)])]


def apply(shield, rows, kind=Kind.UPDATE):
    return shield.apply(Message(kind, rows), Context(0, 1, torch_generator(0, "shield")))


@pytest.mark.parametrize("shield", ON_UPDATES, ids=lambda shield: shield.name)
def test_norms_and_direction_are_those_of_the_message_that_leaves(shield):
    rows = torch.randn(3, 50, generator=torch_generator(1, "rows"))
    sent, damage = apply(shield, rows.clone())
    true, left = rows.double().numpy(), sent.values.double().numpy()
    assert damage.l2 == pytest.approx(np.linalg.norm(left - true, axis=1).mean())
    assert damage.linf == pytest.approx(np.abs(left - true).max(axis=1).mean())
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(true, axis=1)
    assert damage.cosine == pytest.approx(((left * true).sum(axis=1) / lengths).mean())
    assert damage.bytes == sent.bytes <= rows.numel() * 4


@pytest.mark.parametrize("shield", ON_UPDATES, ids=lambda shield: shield.name)
@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_updates_that_are_not_finite_are_not_sent(shield, bad):
    with pytest.raises(ShieldError, match="NaN or infinite numbers, so nothing is sent"):
        apply(shield, torch.tensor([[1.0, 2.0, bad, 3.0, 0.5]]))


@pytest.mark.parametrize("shield", [Identity(), Sparsify(0.5), Quantise(3), Chain([Sparsify(0.5), Quantise(3)])])
def test_a_zero_update_passes_unharmed(shield):
    sent, damage = apply(shield, torch.zeros(2, 6))
    assert not sent.values.any()
    assert (damage.l2, damage.linf, damage.cosine) == (0, 0, 1)


def test_a_message_that_is_lost_or_turned_has_no_direction_or_the_opposite_one():
    rows = torch.tensor([[3.0, 4.0]])
    assert Damage.between(rows, 0 * rows).cosine == 0
    assert Damage.between(0 * rows, rows).cosine == 0
    assert Damage.between(rows, -2 * rows).cosine == pytest.approx(-1)


@given(st.floats(-37, 37), st.integers(1, 30))
def test_the_direction_does_not_depend_on_the_size(power, length):
    """In float32 the squares of such numbers are 0 or infinite."""
    rows = torch.randn(1, length, generator=torch_generator(length, "rows"))
    other = rows + torch.randn(1, length, generator=torch_generator(length, "others"))
    size = 10.0**power
    scaled = Damage.between((rows * size).float(), (other * size).float())
    assert scaled.cosine == pytest.approx(Damage.between(rows, other).cosine, abs=1e-4)


@pytest.mark.parametrize("size", [1e300, 1e-300, 2.0**-1040])
def test_damage_in_double_precision_neither_overflows_nor_vanishes(size):
    rows = torch.tensor([[3.0, 4.0]], dtype=torch.float64) * size
    damage = Damage.between(rows, rows * torch.tensor([1.0, 0.0]))
    assert damage.l2 / size == pytest.approx(4)
    assert damage.linf / size == pytest.approx(4)
    assert damage.cosine == pytest.approx(0.6)


def test_a_chain_s_bytes_are_its_last_message_s():
    rows = torch.randn(1, 1000, generator=torch_generator(2, "rows"))
    thinned = 100 * (4 + 4)
    assert apply(Sparsify(0.9), rows)[1].bytes == thinned
    assert apply(Chain([DPGaussian(0.1), Sparsify(0.9)]), rows)[1].bytes == thinned
    assert apply(Chain([Sparsify(0.9), Identity(), CertifiedChannel(1.0)]), rows)[1].bytes == thinned  # both pass it on
    assert apply(Chain([Sparsify(0.9), DPGaussian(0.1)]), rows)[1].bytes == 4000  # noise fills it again
    sent, damage = apply(Chain([Sparsify(0.9), Quantise(8)]), rows)
    assert damage.bytes == int((sent.values != 0).sum()) * (1 + 4) + 4


def test_numbers_changed_in_place_have_no_shorter_form():
    class InPlace(Shield):
        def change(self, message, context):
            message.values.add_(1)
            return message

    assert apply(Chain([Sparsify(0.9), InPlace()]), torch.randn(1, 1000))[1].bytes == 4000


@pytest.mark.parametrize("engine", ["plain", "stacked"])
def test_every_round_records_the_damage_and_the_bytes(engine):
    data = load("synthetic", target="y", sensitive="u", n=200, bits=0.5)
    chain = Chain([Sparsify(0.5, "layer"), Quantise(6, "layer")])
    run = Federation(data, devices=5, shield=chain, engine=engine).play(FedAvg(hidden=(4,)), rounds=2)
    for record in run.history:
        assert set(record.damage) == {"l2", "linf", "cosine", "bytes"}
        assert record.damage["bytes"] * (record.devices - record.silent) == pytest.approx(record.bytes_up)
        assert 0 < record.damage["linf"] < record.damage["l2"]
        assert 0.5 < record.damage["cosine"] < 1
