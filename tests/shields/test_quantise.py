"""Quantisation is unbiased, stays within a step, and sends as few bits as it says."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.data import load
from fedveil.federation import Federation
from fedveil.games import FedAvg
from fedveil.shields import Chain, Context, Kind, Message, Quantise, ShieldError, Sparsify
from fedveil.updates import Segment


def apply(shield, rows, segments=(), seed=0, kind=Kind.UPDATE):
    context = Context(0, 1, torch_generator(seed, "shield"), segments=segments)
    message, damage = shield.apply(Message(kind, rows), context)
    return message.values, damage


@given(
    st.integers(2, 16),
    st.integers(1, 60),
    st.integers(1, 3),
    st.sampled_from(["float32", "float64"]),
    st.floats(-30, 30),
)
def test_every_number_lies_on_the_grid_within_a_step(bits, length, count, dtype, power):
    rows = torch.randn(count, length, generator=torch_generator(length, "rows"), dtype=torch.float64) * 10**power
    rows = rows.to(getattr(torch, dtype))
    sent, damage = apply(Quantise(bits), rows)
    assert sent.dtype == rows.dtype
    largest, levels = rows.double().abs().amax(dim=1, keepdim=True), 2 ** (bits - 1) - 1
    codes = sent.double() / largest * levels
    torch.testing.assert_close(codes, codes.round(), atol=levels * 1e-6, rtol=0)
    assert codes.abs().max() <= levels * (1 + 1e-6)
    assert ((sent.double() - rows.double()).abs() <= largest / levels * (1 + 1e-4)).all()
    at_largest = rows.abs().double() == largest
    assert torch.equal(sent[at_largest], rows[at_largest])
    assert damage.linf <= float((largest / levels).mean()) * (1 + 1e-4)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_it_is_unbiased_with_the_variance_of_random_rounding(bits):
    draws, values = 40_000, torch.tensor([1.0, -0.8, 0.5, 0.13, -0.01, 0.0], dtype=torch.float64)
    sent, _ = apply(Quantise(bits), values.repeat(draws, 1))
    step = 1 / (2 ** (bits - 1) - 1)
    share = (values / step) % 1
    variance = step**2 * share * (1 - share)
    assert (variance <= step**2 / 4 + 1e-12).all()
    error = (sent.mean(dim=0) - values).abs()
    assert (error <= 4.5 * (variance / draws).sqrt() + 1e-12).all()
    torch.testing.assert_close(sent.var(dim=0), variance, atol=0.02 * step**2, rtol=0)
    assert not sent[:, -1].any()  # 0 stays 0


@pytest.mark.parametrize(("bits", "length"), [(2, 9), (5, 33), (8, 100), (12, 7), (16, 50)])
def test_the_bytes_counted_hold_the_whole_message(bits, length):
    """Pack codes and scale into that many bytes, and read the update back from them."""
    rows = torch.randn(1, length, generator=torch_generator(bits, "rows")) + 3  # nothing near 0
    shield = Quantise(bits)
    sent, damage = apply(shield, rows)
    scale = rows.abs().amax().numpy()
    codes = (sent[0].double().numpy() / float(scale) * shield.levels).round().astype(np.int64)
    binary = ((codes + shield.levels)[:, None] >> np.arange(bits)) & 1
    packed = np.packbits(binary.astype(np.uint8).ravel()).tobytes() + scale.tobytes()
    assert damage.bytes == min(len(packed), 4 * length)
    read = np.unpackbits(np.frombuffer(packed[:-4], dtype=np.uint8))[: length * bits].reshape(length, bits)
    decoded = (read.astype(np.int64) << np.arange(bits)).sum(axis=1) - shield.levels
    value = decoded / shield.levels * float(np.frombuffer(packed[-4:], dtype=np.float32)[0])
    np.testing.assert_array_equal(value.astype(np.float32), sent[0].numpy())


def test_where_most_are_zero_only_the_others_are_sent():
    rows = torch.zeros(2, 1000)
    rows[0, :10] = 1.0
    assert apply(Quantise(8), rows)[1].bytes == 10 * (1 + 4) + 2 * 4  # and a scale for each row


def test_every_layer_has_its_own_scale():
    segments = (Segment("model", "weight", (2, 3), 0), Segment("model", "bias", (2,), 6))
    rows = torch.tensor([[100.0, 50, 0, -100, 0, 0, 0.001, -0.001]])
    together, _ = apply(Quantise(2), rows)
    assert set(together.unique().tolist()) <= {-100.0, 0.0, 100.0}
    apart, damage = apply(Quantise(2, "layer"), rows, segments)
    assert apart[0, 6:].tolist() == rows[0, 6:].tolist()
    assert damage.bytes == 2 + 2 * 4  # 8 numbers of 2 bits and two scales
    with pytest.raises(ShieldError, match="names none"):
        apply(Quantise(2, "layer"), rows)


def test_randomness_is_the_device_s_own():
    rows = torch.randn(1, 200, generator=torch_generator(5, "rows"))
    assert torch.equal(apply(Quantise(3), rows)[0], apply(Quantise(3), rows)[0])
    assert not torch.equal(apply(Quantise(3), rows)[0], apply(Quantise(3), rows, seed=1)[0])


def test_extreme_and_other_messages_pass():
    rows = torch.tensor([[3e38, -3e38, 1e-45], [1e-45, 0.0, 0.0]])
    sent, _ = apply(Quantise(8), rows)
    assert sent.isfinite().all()
    assert sent[0, :2].tolist() == rows[0, :2].tolist()
    released = torch.randn(3, 4)
    assert torch.equal(apply(Quantise(2), released, kind=Kind.REPRESENTATION)[0], released)
    assert not Quantise(2).certifies


@pytest.mark.parametrize("bits", [1, 0, 17, 2.5, float("nan"), True])
def test_bad_bits_are_refused(bits):
    with pytest.raises(InputError, match=r"^quantise: bits is a whole number from 2 .* to 16; got .*$"):
        Quantise(bits)


def test_a_bad_part_is_refused():
    with pytest.raises(InputError, match="over must be 'update'"):
        Quantise(4, "tensor")


@pytest.mark.parametrize("over", ["update", "layer"])
def test_both_engines_send_the_same(over):
    """The grids are bit-identical; a number on the edge between two codes may fall to either."""
    data = load("synthetic", target="y", sensitive="u", n=200, bits=0.5)
    plain, stacked = (
        Federation(data, devices=4, shield=Quantise(4, over), engine=engine, dtype="float64").play(
            FedAvg(hidden=(5,)), rounds=2
        )
        for engine in ("plain", "stacked")
    )
    torch.testing.assert_close(plain.shared["model"], stacked.shared["model"], atol=1e-8, rtol=0)
    assert plain.history[-1].bytes_up == stacked.history[-1].bytes_up < plain.shared["model"].numel() * 8 * 4 / 8


def test_it_is_found_by_name():
    assert plugins.load("fedveil.shields", "quantise") is Quantise
    assert repr(Chain([Sparsify(0.5), Quantise(4)])).endswith("Quantise(bits=4, over='update')])")
