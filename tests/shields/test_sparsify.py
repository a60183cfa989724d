"""Sparsification is compression with RecUP-FL's setting; by layer, each tensor keeps its own largest entries."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.data import load
from fedveil.federation import Federation, begin
from fedveil.federation.exchange import segments_of
from fedveil.games import FedAvg
from fedveil.shields import Chain, Compression, Context, DPGaussian, Kind, Message, ShieldError, Sparsify
from fedveil.updates import Segment


def apply(shield, rows, segments=()):
    message, damage = shield.apply(Message(Kind.UPDATE, rows), Context(0, 1, torch_generator(0), segments=segments))
    return message.values, damage


def segments_with(shapes):
    starts = np.cumsum([0, *(math.prod(shape) for shape in shapes)])
    return tuple(Segment("model", str(n), shape, int(starts[n])) for n, shape in enumerate(shapes))


@given(
    st.lists(st.lists(st.integers(1, 4), min_size=1, max_size=3).map(tuple), min_size=1, max_size=4),
    st.sampled_from([0.0, 0.1, 0.5, 0.9, 0.99]),
    st.integers(1, 3),
)
def test_every_tensor_keeps_its_own_largest(shapes, p, count):
    segments = segments_with(shapes)
    rows = torch.randn(count, segments[-1].stop, generator=torch_generator(4, "rows"))
    sent, damage = apply(Sparsify(p, "layer"), rows, segments)
    kept = 0
    for segment in segments:
        original, left = rows[:, segment.start : segment.stop], sent[:, segment.start : segment.stop]
        number = max(1, math.ceil(round((1 - p) * original.shape[1], 9)))
        threshold = original.abs().sort(dim=1).values[:, -number, None]
        assert torch.equal(left, torch.where(original.abs() >= threshold, original, 0.0))
        kept += number
    assert damage.bytes == min(rows.numel() * 4, count * kept * 8)


@given(st.integers(1, 200), st.sampled_from([0.0, 0.25, 0.9, 0.999]))
def test_over_the_whole_update_it_is_compression(length, p):
    rows = torch.randn(2, length, generator=torch_generator(length, "rows"))
    sent, damage = apply(Sparsify(p), rows)
    same, as_much = apply(Compression(1 - p), rows)
    assert torch.equal(sent, same)
    assert damage == as_much
    assert ((sent != 0).sum(dim=1) == max(1, math.ceil(round((1 - p) * length, 9)))).all()


def test_the_damage_has_its_closed_form():
    sent, damage = apply(Sparsify(0.5), torch.tensor([[4.0, -3.0, 2.0, 1.0]]))
    assert sent.tolist() == [[4, -3, 0, 0]]
    assert damage.l2 == pytest.approx(math.sqrt(5))
    assert damage.linf == 2
    assert damage.cosine == pytest.approx(5 / math.sqrt(30))


@pytest.mark.parametrize("p", [1.0, -0.1, 1.5, float("nan"), True])
def test_a_bad_share_is_refused(p):
    with pytest.raises(InputError, match=r"^sparsify: p is the share .* in \[0, 1\); got .*$"):
        Sparsify(p)


@pytest.mark.parametrize("shield", [Sparsify, Compression])
def test_a_bad_part_is_refused(shield):
    with pytest.raises(InputError, match="over must be 'update'"):
        shield(0.5, "layers")


def test_unknown_or_other_layers_fail_closed():
    with pytest.raises(ShieldError, match="names none"):
        apply(Sparsify(0.5, "layer"), torch.ones(1, 4))
    with pytest.raises(ShieldError, match="4 numbers, but the model has 6"):
        apply(Sparsify(0.5, "layer"), torch.ones(1, 4), segments_with([(2, 3)]))


@pytest.mark.parametrize("shield", [Sparsify(0.7, "layer"), Chain([DPGaussian(0.1), Sparsify(0.7, "layer")])])
@pytest.mark.parametrize("engine", ["plain", "stacked"])
def test_a_device_knows_its_layers_even_behind_a_certificate(engine, shield):
    data = load("synthetic", target="y", sensitive="u", n=200, bits=0.5)
    run = begin(Federation(data, devices=4, shield=shield, engine=engine), FedAvg(hidden=(5,)))
    segments = segments_of(run)
    run.play(1, record=[1])
    assert run.history[0].silent == 0
    updates = run.recorded[0][2]
    assert len(segments) == 4
    for segment in segments:
        filled = (segment.of(updates).flatten(1) != 0).sum(dim=1)
        assert (filled <= Sparsify(0.7).kept(segment.stop - segment.start)).all()
        assert filled.sum() > 0


def test_both_engines_agree():
    data = load("synthetic", target="y", sensitive="u", n=200, bits=0.5)
    plain, stacked = (
        Federation(data, devices=4, shield=Sparsify(0.6, "layer"), engine=engine, dtype="float64").play(
            FedAvg(hidden=(5,)), rounds=2
        )
        for engine in ("plain", "stacked")
    )
    torch.testing.assert_close(plain.shared["model"], stacked.shared["model"], atol=1e-8, rtol=0)


def test_it_is_found_by_name():
    assert plugins.load("fedveil.shields", "sparsify") is Sparsify
