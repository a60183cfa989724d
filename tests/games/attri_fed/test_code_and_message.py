"""The code of rounded representations: bytes are counted as sent, decoded exactly, and refused when damaged."""

import struct
import zlib

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedveil.core.errors import InputError
from fedveil.games.attri_fed.code import CODED, FAR, RAW, RateCode
from fedveil.games.attri_fed.message import HEADER_BYTES, MOST_RECORDS, pack, unpack, verbatim_bytes
from fedveil.games.attri_fed.prior import FactorisedPrior


def values(n: int = 4000, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.round(rng.normal(0, 1.2, (n, 6)) * [1, 0.01, 0.3, 2, 0, 4]).astype(np.int64)


def code() -> RateCode:
    return RateCode.fit(values(), low=-7, high=7)


@given(arrays(np.int64, st.tuples(st.integers(0, 40), st.just(6)), elements=st.integers(-(2**31) + 1, 2**31 - 1)))
def test_whatever_is_sent_arrives(sent):
    packed = pack(sent, code())
    assert np.array_equal(unpack(packed.data, code()), sent)
    assert packed.escaped == int((~code().within(sent)).sum())


def test_a_hundred_records_take_what_was_promised():
    for start in range(0, 1000, 100):
        packed = pack(values(2000, seed=1)[start : start + 100], code())
        promised = packed.estimated_bits / 8
        assert abs(packed.payload_bytes - promised) <= 0.05 * promised + 8
        assert packed.payload_bytes < verbatim_bytes(100, 6) / 4


def test_lengths_obey_kraft_so_that_their_mean_bounds_the_entropy():
    small = RateCode.fit(np.array([[0, 1], [1, 1], [0, 0]]), low=0, high=2)
    everything = np.array([[a, b] for a in range(3) for b in range(3)])
    # Each record has a way to be sent; verbatim ones take up the far share.
    assert (2.0 ** -small.bits(everything)).sum() + small.far_share <= 1 + 1e-9


def test_unlikely_records_are_sent_raw_and_far_ones_verbatim():
    steep = RateCode(np.zeros(30, dtype=np.int64), (np.array([1 - 1e-9, 1e-9]),) * 30)
    ways, bits = steep.ways_and_bits(np.array([[0] * 30, [1] * 30, [5] * 30]))
    assert ways.tolist() == [CODED, RAW, FAR]
    assert bits[1] == pytest.approx(steep.cap) == pytest.approx(30 + 7)
    assert bits[2] == 30 * 32 + 14


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda data: data[: HEADER_BYTES - 1], "less than its header"),
        (lambda data: data[:-1], "cut short or altered"),
        (lambda data: data + b"x", "cut short or altered"),
        (lambda data: b"zzzz" + data[4:], "the expected header"),
        (lambda data: data[:-3] + bytes([data[-3] ^ 1]) + data[-2:], "cut short or altered"),
        (lambda data: data[:12] + bytes([data[12] ^ 1]) + data[13:], "cut short or altered"),
        (lambda data: b"", "less than its header"),
    ],
)
def test_damaged_messages_are_refused(change, error):
    whole = pack(values()[:50], code()).data
    with pytest.raises(InputError, match=error):
        unpack(change(whole), code())


@pytest.mark.parametrize("count", [1_000_000, 2**32 - 1])
def test_a_forged_count_that_its_payload_cannot_hold_is_refused(count):
    whole = pack(values()[:50], code()).data
    head, payload = whole[:12] + struct.pack("<IH", count, 6), whole[HEADER_BYTES:]
    check = zlib.crc32(payload, zlib.crc32(head + b"\0\0\0\0"))
    with pytest.raises(InputError, match="forged"):
        unpack(head + struct.pack("<I", check) + payload, code())


def test_more_records_than_a_message_holds_are_refused():
    with pytest.raises(InputError, match="several messages"):
        pack(np.zeros((MOST_RECORDS + 1, 6), dtype=np.int64), code())


def test_another_priors_message_is_refused():
    other = RateCode.fit(values(seed=3), low=-7, high=7)
    assert other.digest != code().digest
    with pytest.raises(InputError, match="another code"):
        unpack(pack(values()[:5], code()).data, other)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (np.array([[0.5] * 6]), "whole numbers"),
        (np.array([[np.nan] * 6]), "whole numbers"),
        (np.array([[2.0**33] * 6]), "more than 32 bits"),
        (np.array([[2**40] * 6]), "more than 32 bits"),
        (np.zeros((2, 5), dtype=np.int64), "made for 6 dimensions"),
        (np.zeros(6), "records, dimensions"),
    ],
)
def test_what_cannot_be_sent_is_refused_and_never_sent_wrongly(wrong, error):
    with pytest.raises(InputError, match=error):
        pack(wrong, code())


@pytest.mark.parametrize(
    ("tables", "error"),
    [
        ((), "every dimension"),
        ((np.array([0.5, 0.6]),), "sum to 1"),
        ((np.array([0.0, 1.0]),), "positive"),
        ((np.array([]),), "1 to"),
    ],
)
def test_invalid_tables_are_refused(tables, error):
    with pytest.raises(InputError, match=error):
        RateCode(np.zeros(len(tables), dtype=np.int64), tables)


def test_the_prior_gives_whole_numbers_probabilities_that_sum_to_one():
    prior = FactorisedPrior(3).double()
    with torch.no_grad():
        prior.centres.copy_(torch.randn(3, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3)
    numbers = torch.arange(-200, 201, dtype=torch.float64)[:, None].expand(-1, 3)
    assert torch.allclose(prior.probabilities(numbers).sum(dim=0), torch.ones(3, dtype=torch.float64), atol=1e-9)


def test_a_fitted_prior_comes_near_to_the_entropy():
    sent = torch.from_numpy(values()[:, [0, 3]]).float()
    prior = FactorisedPrior(2)
    optimiser = torch.optim.Adam(prior.parameters(), 0.05)
    for _ in range(150):
        optimiser.zero_grad()
        loss = prior(sent).sum(dim=1).mean()
        loss.backward()
        optimiser.step()
    entropy = sum(
        float(-(p * np.log2(p)).sum())
        for column in sent.numpy().T
        for p in [np.unique(column, return_counts=True)[1] / len(column)]
    )
    assert entropy <= float(loss.detach()) <= entropy + 0.1
