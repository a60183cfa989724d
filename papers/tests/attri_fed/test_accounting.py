"""Accounting of what is sent: counted on people unused in any choice, Corollary 1 for all, post-processing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from fedveil_papers.attri_fed.accounting import account, post_processed

from fedveil.attacks import panel
from fedveil.certificates import attribute_dp_epsilon, information_privacy_epsilon
from fedveil.core.figures import Estimate
from fedveil.data import Attribute, AttributeData, Split
from fedveil.rate.measuring import Released, server_view

CHANNEL = np.array([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5], [0.25, 0.5, 0.25]])
PRIOR = np.array([0.5, 0.3, 0.2])


def release_and_data(n: int = 6000, *, protected: bool, seed: int = 0) -> tuple[Released, AttributeData]:
    """Ŷ is U through a known channel, or U itself."""
    rng = np.random.default_rng(seed)
    u = rng.choice(3, n, p=PRIOR)
    y = (rng.random(n)[:, None] > CHANNEL.cumsum(axis=1)[u]).sum(axis=1) if protected else u
    split = np.repeat([0, 1, 2], [n // 3, n // 3, n - 2 * (n // 3)]).astype(np.int8)
    data = AttributeData(
        rng.normal(size=(n, 2)).astype(np.float32),
        {"u": Attribute("u", u, ("a", "b", "c"))},
        split,
        y=Attribute("v", rng.integers(0, 2, n), ("0", "1")),
    )
    rows = {split: data.rows(split) for split in Split}
    values = {split: y[rows[split], None].astype(float) for split in Split}
    return Released(
        values, {split: np.zeros(len(rows[split]), int) for split in Split}, Estimate(1, 1, 1), reach=2
    ), data


def test_epsilon_is_bounded_from_below_and_corollary_1_is_the_same_for_every_mechanism() -> None:
    hidden = account(*release_and_data(protected=True), "u")
    plain = account(*release_and_data(protected=False), "u")
    assert 0.7 < hidden.attribute_dp.epsilon <= attribute_dp_epsilon(CHANNEL)
    assert 0.2 < hidden.information_privacy.epsilon <= information_privacy_epsilon(PRIOR[:, None] * CHANNEL)
    assert hidden.attribute_dp.records == 2000  # the test people alone
    assert plain.attribute_dp.epsilon > 4
    # The same number for ŷ = u: it means nothing, and for that mechanism counting even proves it false.
    assert hidden.corollary1 == plain.corollary1 == pytest.approx(math.log(1 / 0.2), abs=0.1)
    assert plain.refutes_corollary1
    assert not hidden.refutes_corollary1
    summary = plain.as_dict()
    assert summary["corollary1"] == {"epsilon": plain.corollary1, "refuted": True, "guarantees": "nothing"}
    assert summary["leakage_at_that_epsilon"]["upper_bound"] is False
    assert summary["attribute_dp"]["certified"] is False


def test_the_corrected_leakage_grows_with_epsilon_and_the_printed_one_may_fall_below_zero() -> None:
    hidden = account(*release_and_data(protected=True), "u")
    assert 0 < hidden.corrected_leakage <= hidden.attribute_entropy
    assert hidden.printed_leakage < hidden.corrected_leakage


def test_the_heads_outputs_reveal_no_more_than_what_is_sent() -> None:
    released, data = release_and_data(protected=True)
    # A head that merges two of the three codes.
    outputs = {split: np.eye(2)[(values[:, 0] > 0).astype(int)] for split, values in released.values.items()}
    sent = panel(["logistic"], seed=3, draws=200).judge(server_view(released, data, "u", known=False), "u")
    result = post_processed(released, outputs, sent, data)
    assert result.difference.high < 0  # here information is lost
    assert result.bits_outputs.estimate < result.bits_sent.estimate
    assert result.counted is not None
    assert result.counted[1] < result.counted[0]
    # A head that keeps all loses nothing, and gains nothing.
    same = post_processed(released, {s: np.eye(3)[v[:, 0].astype(int)] for s, v in released.values.items()}, sent, data)
    assert same.difference.low <= 0 <= same.difference.high
    assert same.counted is not None
    assert same.counted[1] == pytest.approx(same.counted[0])
