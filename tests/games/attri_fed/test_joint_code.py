"""Numbers coded together: fewer bits where they are related, and every guarantee of the plain code."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedveil.core.errors import InputError
from fedveil.games.attri_fed.code import MOST_CELLS, RateCode
from fedveil.games.attri_fed.message import pack, unpack
from fedveil.games.attri_fed.prior import JointPrior


def clusters(n: int = 3000, seed: int = 0) -> np.ndarray:
    """Ten clusters in three numbers, one record in twenty astray: log₂ 10 bits and little more."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(7).choice(125, 10, replace=False)
    cells = np.where(rng.random(n) < 0.05, rng.integers(0, 125, n), centres[rng.integers(0, 10, n)])
    return np.stack(np.unravel_index(cells, (5, 5, 5)), axis=1) - 2


def joint() -> RateCode:
    return RateCode.fit(clusters(), low=-2, high=2, most_cells=125)


def test_it_takes_the_joint_entropy_and_not_the_sum_of_three():
    held_out = clusters(4000, seed=1)
    apart = RateCode.fit(clusters(), low=-2, high=2)
    counts = np.unique(held_out, axis=0, return_counts=True)[1] / len(held_out)
    entropy = float(-(counts * np.log2(counts)).sum())
    assert joint().joint
    assert not apart.joint
    assert joint().bits(held_out).mean() == pytest.approx(entropy, abs=0.15)
    assert joint().bits(held_out).mean() < apart.bits(held_out).mean() - 0.8


@pytest.mark.parametrize(("width", "most_cells"), [(3, 125), (3, 25), (4, 25), (2, 1)])
def test_lengths_obey_kraft(width, most_cells):
    code = RateCode.fit(np.resize(clusters(200), (200, width)), low=-2, high=2, most_cells=most_cells)
    everything = np.array(list(product(range(-2, 3), repeat=width)))
    # Each record has one way to be sent; verbatim ones take up the far share.
    assert (2.0 ** -code.bits(everything)).sum() + code.far_share <= 1 + 1e-9
    assert code.bits(everything).max() <= code.cap + 1e-12


@given(arrays(np.int64, st.tuples(st.integers(0, 30), st.just(3)), elements=st.integers(-4, 4)))
def test_whatever_is_sent_arrives(sent):
    packed = pack(sent, joint())
    assert np.array_equal(unpack(packed.data, joint()), sent)
    assert packed.escaped == int((np.abs(sent) > 2).any(axis=1).sum())


def test_a_hundred_records_take_what_was_promised():
    for start in range(0, 1000, 100):
        packed = pack(clusters(1000, seed=1)[start : start + 100], joint())
        promised = packed.estimated_bits / 8
        assert abs(packed.payload_bytes - promised) <= 0.05 * promised + 8
        assert packed.payload_bytes < 0.05 * 100 * 3 * 4


def test_cut_altered_and_foreign_messages_are_refused():
    data = pack(clusters()[:100], joint()).data
    for wrong in (data[:-1], data + b"\1", data[:-4] + bytes([data[-4] ^ 8]) + data[-3:]):
        with pytest.raises(InputError, match="cut short or altered"):
            unpack(wrong, joint())
    with pytest.raises(InputError, match="another code"):
        unpack(data, RateCode.fit(clusters(), low=-2, high=2))


def test_the_shape_of_a_table_counts_for_the_digest():
    table = np.full(6, 1 / 6)
    low = np.zeros(2, dtype=np.int64)
    assert RateCode(low, (table.reshape(2, 3),)).digest != RateCode(low, (table.reshape(3, 2),)).digest


def test_many_numbers_share_tables_as_far_as_cells_reach():
    wide = RateCode.fit(np.hstack([clusters()] * 3), low=-2, high=2, most_cells=MOST_CELLS)
    assert [table.shape for table in wide.tables] == [(5,) * 5, (5,) * 4]
    assert np.array_equal(
        unpack(pack(np.hstack([clusters(50, seed=2)] * 3), wide).data, wide), np.hstack([clusters(50, seed=2)] * 3)
    )


def test_joint_tables_are_chosen_where_they_pay_on_validation_records():
    rng = np.random.default_rng(0)
    assert RateCode.choose(clusters(), clusters(500, seed=3), low=-2, high=2).joint
    apart = [rng.integers(-2, 3, (many, 3)) for many in (60, 2000)]
    assert not RateCode.choose(*apart, low=-2, high=2).joint


def test_a_joint_prior_is_a_law_and_interpolates_between_cells():
    prior = JointPrior(2, reach=1).double()
    with torch.no_grad():
        prior.scores.copy_(torch.randn(9, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 0.1)
    cells = torch.tensor(list(product((-1.0, 0.0, 1.0), repeat=2)), dtype=torch.float64)
    bits = prior(cells).detach()
    assert bits.shape == (9, 1)
    assert float((2**-bits).sum()) == pytest.approx(1.0)
    between = prior(torch.tensor([[-0.75, 0.0]], dtype=torch.float64)).detach()
    assert float(between) == pytest.approx(0.75 * float(bits[1]) + 0.25 * float(bits[4]))


def test_a_joint_prior_with_too_many_cells_is_refused():
    with pytest.raises(InputError, match="send fewer"):
        JointPrior(50, reach=2)
