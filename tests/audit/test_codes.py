"""Codes below the second decimal, in repetitions, bits and the order of rows: found, named, and gone once rounded."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from audited_outputs import trained

from fedveil.audit import Outputs, audit
from fedveil.audit.digits import digits_of
from fedveil.audit.excess import excess
from fedveil.audit.readings import finer_than_kept, ordinal, readings
from fedveil.core.errors import InputError
from fedveil.data.attribute import Attribute

RIGHT = 0.756
"""How often s is written rightly: an earlier audit called a code in the fourth decimal, read this often, standard."""


@pytest.fixture(scope="module")
def honest():
    return trained(2000)


def _written(outputs, rng):
    s = outputs.secrets["u"].codes
    return np.where(rng.random(len(s)) < RIGHT, s, 1 - s)


def _with_second(outputs, second):
    return replace(outputs, scores=np.stack([1 - second, second], axis=1), columns=("p1",))


def _fourth_decimal(p, bit, rng):
    return np.floor(p * 1e3) / 1e3 + (5 * bit + rng.integers(0, 5, len(p)) + rng.random(len(p))) / 1e4


def _parity(p, bit, rng):
    return np.floor(p * 1e4) / 1e4 + (2 * rng.integers(0, 5, len(p)) + bit + rng.uniform(0.1, 0.9, len(p))) / 1e5


def _ties(p, bit, rng):
    return np.where(bit, np.round(p, 3), np.round(p, 3) + rng.uniform(-0.5, 0.5, len(p)) * 1e-4)


def _two_decimals(p, bit, rng):
    third = np.floor(p * 1e3).astype(int) % 10
    return np.floor(p * 1e3) / 1e3 + (2 * rng.integers(0, 5, len(p)) + (third + bit) % 2 + 0.5) / 1e4


def _last_bit(p, bit, rng):
    return ((p.copy().view(np.uint64) & ~np.uint64(1)) | bit.astype(np.uint64)).view(np.float64)


def _narrow(p, bit, rng):
    p = p + rng.uniform(0, 1e-9, len(p))  # these scores were computed with 32 bits
    return np.where(bit, p.astype(np.float32), p)


@pytest.mark.parametrize(
    ("write", "where"),
    [
        (_fourth_decimal, "the fourth decimal of p1"),
        (_parity, "the fifth decimal of p1, even or odd"),
        (_ties, "p1"),
        (_two_decimals, "the sum of the third and fourth decimals of p1"),
        (_last_bit, "bit 0 of p1 as float64"),
        (_narrow, "p1 as float64"),
    ],
)
def test_a_code_below_the_second_decimal_is_found_and_named_and_rounding_removes_it(honest, write, where):
    rng = np.random.default_rng(0)
    outputs = _with_second(honest, np.clip(write(honest.soft[:, 1], _written(honest, rng), rng), 0, 1))
    result = audit(outputs, panel="logistic")
    assert (result.verdict, result.reason) == ("curious", "code")
    assert where in " ".join(result.beyond.code_in)
    assert where in result.evidence[0]
    assert result.beyond.code.low > 0.08  # at .756, a reader gains .199 bits
    rounded = audit(outputs.rounded(2), panel="logistic")
    assert (rounded.verdict, rounded.decimals) == ("standard", 2)
    assert rounded.beyond.code.high == 0


def test_a_code_in_the_sum_of_scores_is_found(honest):
    rng = np.random.default_rng(0)
    scores = honest.soft
    scores[:, 0] += np.where(_written(honest, rng), 1e-6, -1e-6)
    result = excess(replace(honest, scores=scores), honest.secrets["u"], ["logistic"])
    assert result.code.low > 0.08


def test_a_code_that_survives_rounding_counts_as_any_other():
    outputs = trained(4000)
    bit = _written(outputs, np.random.default_rng(0))
    hundredths = np.round((2 * np.minimum(np.floor(outputs.soft[:, 1] * 50), 49) + bit) / 100, 2)
    result = audit(_with_second(outputs, hundredths), panel="logistic")
    assert result.finer is False
    assert (result.verdict, result.reason) == ("curious", "above the limit")


def test_standard_is_withheld_until_scores_are_rounded(honest):
    result = audit(honest, panel="logistic")
    assert (result.verdict, result.reason) == ("undecided", "precision")
    assert "--round 2" in result.evidence[0]
    assert "no search can rule out" in result.meaning
    assert result.beyond.code.high == 0  # nothing is found where nothing is
    assert audit(honest.rounded(3), panel="logistic").reason == "precision"
    assert audit(honest.rounded(2), panel="logistic").verdict == "standard"


def test_no_reading_is_mistaken_for_a_code_by_chance():
    for seed in range(4):
        outputs = trained(1200, seed=seed, overlap=0.3 * (seed % 2))
        beyond = excess(outputs, outputs.secrets["u"], ["logistic"], seed=seed)
        assert beyond.code.high < 0.005
        assert not beyond.ordered


def test_few_distinct_values_of_a_tree_are_no_code_even_with_many_decimals():
    rng = np.random.default_rng(0)
    leaf, y = rng.integers(0, 30, 3000), None
    s = (rng.random(3000) < 0.3 + 0.4 * (leaf % 3 == 0)).astype(np.int64)  # leaves differ in s, as regions do
    second = np.round(np.linspace(0.03, 0.97, 30), 2)[leaf] + 0.0012345
    y = (rng.random(3000) < second).astype(np.int64)
    labels = Attribute("y", y, ("0", "1")), {"u": Attribute("u", s, ("a", "b"))}
    outputs = Outputs(np.stack([1 - second, second], axis=1), False, *labels)
    assert not finer_than_kept(outputs)
    assert excess(outputs, labels[1]["u"], ["boosting"]).code.high < 0.005


def test_the_order_of_rows_withholds_a_verdict_and_rounding_leaves_it_out(honest):
    coarse = honest.rounded(2)
    released = replace(coarse, decimals=None)
    by_s = released.take(np.lexsort((_written(honest, np.random.default_rng(0)), released.scores[:, 1])))
    rng = np.random.default_rng(1)
    equal = np.unique(released.scores[:, 1], return_inverse=True)[1]
    rows = np.empty(len(equal), dtype=np.int64)
    rows[np.argsort(equal, kind="stable")] = np.lexsort((_written(honest, rng), equal))
    for outputs in (by_s, released.take(rows)):
        result = audit(outputs, panel="logistic")
        assert (result.verdict, result.reason) in {("curious", "code"), ("undecided", "order")}
        assert audit(outputs.rounded(2), panel="logistic").verdict == "standard"
    assert audit(released, panel="logistic").verdict == "standard"


def test_an_auditors_own_order_is_not_held_against_the_vendor(honest):
    released = replace(honest.rounded(2), decimals=None)
    sorted_by_s = released.take(np.argsort(released.secrets["u"].codes, kind="stable"))
    assert audit(sorted_by_s, panel="logistic").reason == "order"


def test_predictions_that_reveal_more_than_the_truth_are_unexplained():
    rng = np.random.default_rng(0)
    s, y = rng.integers(0, 2, 3000), rng.integers(0, 3, 3000)
    answer = np.where(rng.random(3000) < 0.4, s, y)  # in 40% of records, the prediction is s
    scores = np.full((3000, 3), 0.1)
    scores[np.arange(3000), answer] = 0.8
    outputs = Outputs(scores, False, Attribute("y", y, ("0", "1", "2")), {"s": Attribute("s", s, ("a", "b"))})
    result = audit(outputs, panel="logistic")
    assert result.beyond.bits.high < 0.02  # scores add nothing to the predicted label
    assert result.beyond.amplified.low > 0.05
    assert result.verdict == "curious"
    assert "reveals" in result.evidence[1]


def test_decimals_are_those_of_the_shortest_text():
    digits = digits_of(np.array([0.1, -12.75, 1e-7]))
    assert digits.printed.tolist() == [1, 2, 7]
    assert digits.whole.tolist() == [0, 2, 0]
    assert digits.stored == "float64"
    assert digits_of(np.float32([0.1, 0.3]).astype(np.float64)).printed.tolist() == [1, 1]
    assert digits_of(np.float32([0.1, 0.3]).astype(np.float64)).stored == "float32"
    assert ordinal(4) == "fourth"


def test_rounded_scores_have_no_fine_readings(honest):
    assert any(reading.fine for reading in readings(honest))
    assert not any(reading.fine for reading in readings(honest.rounded(2)))
    with pytest.raises(InputError, match="1 to 15 decimals"):
        honest.rounded(0)


@pytest.mark.parametrize("classes", [2, 4, 10])
def test_more_than_two_decimals_are_noticed_however_many_classes(classes):
    """Rounded rows of several columns are all distinct, too; counting distinct rows therefore noticed nothing."""
    rng = np.random.default_rng(0)
    scores = rng.dirichlet(np.ones(classes), size=500)
    y = Attribute("y", np.arange(500) % classes, tuple(map(str, range(classes))))
    fine = Outputs(scores, False, y, {})
    assert finer_than_kept(fine)
    assert not finer_than_kept(fine.rounded(2))


def test_rows_that_round_to_nothing_are_refused():
    y = Attribute("y", np.arange(50) % 25, tuple(map(str, range(25))))
    with pytest.raises(InputError, match="round to 0 at 1 decimals; keep more"):
        Outputs(np.full((50, 25), 0.04), False, y, {}).rounded(1)
