from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from fedveil.certificates import (
    HeldOutRate,
    certify_information,
    certify_rate_accuracy,
    known_equivocation,
    rate_information_bound,
    with_escape,
)
from fedveil.certificates import confidence as bounds
from fedveil.core.entropy import conditional_entropy, entropy, mutual_information
from fedveil.core.errors import InputError


def draw_law(rng: np.random.Generator) -> np.ndarray:
    """Draw p(d, u, v, y): senders with their own encoders, from deterministic to nearly useless."""
    senders, values, labels, outputs = (int(rng.integers(low, 4)) for low in (1, 2, 2, 2))
    labelled = rng.dirichlet(np.full(senders * values * labels, rng.choice([0.2, 1.0]))).reshape(
        senders, values, labels
    )
    encoder = rng.dirichlet(np.full(outputs, rng.choice([0.02, 0.3, 1.0])), size=(senders, values, labels))
    return np.asarray(labelled[..., None] * encoder)


def noisy(rng: np.random.Generator, law: np.ndarray) -> np.ndarray:
    """Blend conditional laws along the last axis with random ones: a coder or helper that is not the best."""
    other = rng.dirichlet(np.ones(law.shape[-1]), size=law.shape[:-1])
    share = rng.choice([0.0, 0.05, 0.5])
    return np.asarray((1.0 - share) * law + share * other)


def conditional(joint: np.ndarray) -> np.ndarray:
    """Normalise along the last axis; uniform where all entries are zero."""
    total = joint.sum(axis=-1, keepdims=True)
    return np.where(total > 0.0, joint / np.where(total > 0.0, total, 1.0), 1.0 / joint.shape[-1])


def cross_entropy(joint: np.ndarray, law: np.ndarray) -> float:
    """Return −Σ joint·log₂ law where the joint is positive."""
    law = np.broadcast_to(law, joint.shape)
    return float(-(joint[joint > 0.0] * np.log2(law[joint > 0.0])).sum())


def both_forms(law: np.ndarray, rng: np.random.Generator | None = None) -> tuple[float, float]:
    """Return the exact bound for a stranger and for a server that knows the sender; ideal coders without an rng."""
    blend = (lambda table: table) if rng is None else (lambda table: noisy(rng, table))
    duv, uvy, dy = law.sum(axis=3), law.sum(axis=0), law.sum(axis=(1, 2))
    labels = duv.shape[2]
    stranger = rate_information_bound(
        cross_entropy(dy.sum(axis=0), blend(dy.sum(axis=0))),
        cross_entropy(uvy.transpose(0, 2, 1), blend(conditional(uvy.transpose(0, 2, 1)))),
        conditional_entropy(duv.sum(axis=0).T),
    )
    server = rate_information_bound(
        cross_entropy(dy, blend(conditional(dy))),
        cross_entropy(law.transpose(0, 1, 3, 2), blend(conditional(law.transpose(0, 1, 3, 2)))),
        conditional_entropy(duv.reshape(-1, labels).T),
        sender_information=mutual_information(duv.sum(axis=2)),
    )
    return stranger, server


def truths(law: np.ndarray) -> tuple[float, float]:
    """Return I(U;Y) and I(U;Y,D)."""
    duy = law.sum(axis=2)
    return mutual_information(duy.sum(axis=0)), mutual_information(duy.transpose(1, 0, 2).reshape(duy.shape[1], -1))


def xor_law() -> np.ndarray:
    """V = D, Ŷ = D⊕U with fair coins D and U: nothing for a stranger, everything for whoever knows the sender."""
    law = np.zeros((2, 2, 2, 2))
    for d in (0, 1):
        for u in (0, 1):
            law[d, u, d, d ^ u] = 0.25
    return law


def test_both_forms_hold_on_thousands_of_laws_and_the_first_is_not_enough_for_a_server_that_knows_the_sender() -> None:
    rng = np.random.default_rng(0)
    misused = informative = 0
    for _ in range(3000):
        law = draw_law(rng)
        stranger, server = both_forms(law, rng)
        to_stranger, to_server = truths(law)
        assert to_stranger <= stranger + 1e-9
        assert to_server <= server + 1e-9
        misused += to_server > stranger + 1e-6
        informative += server < entropy(law.sum(axis=(0, 2, 3))) - 1e-3
    assert misused > 30
    assert informative > 300


@st.composite
def laws(draw: st.DrawFn) -> np.ndarray:
    """Any law p(d, u, v, y) of up to three values each: y may follow from d, u and v in whatever way."""
    shape = draw(array_shapes(min_dims=4, max_dims=4, min_side=1, max_side=3))
    counts = draw(arrays(np.int64, shape, elements=st.integers(0, 6)).filter(lambda table: table.sum() > 0))
    return np.asarray(counts / counts.sum())


@settings(max_examples=200)
@given(laws(), st.integers(0, 2**32 - 1))
def test_no_attacker_on_any_law_reads_more_than_the_form_for_its_observer(law: np.ndarray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    stranger, server = both_forms(law, rng)
    to_stranger, to_server = truths(law)
    assert to_stranger <= stranger + 1e-9
    assert to_server <= server + 1e-9
    duy = law.sum(axis=2)
    prior = entropy(duy.sum(axis=(0, 2)))
    # An attacker is any q(u | what it sees): the best one, and one that is off.
    for seen, limit in ((duy.sum(axis=0).T, stranger), (duy.transpose(0, 2, 1).reshape(-1, duy.shape[1]), server)):
        for attacker in (conditional(seen), noisy(rng, conditional(seen))):
            assert prior - cross_entropy(seen, attacker) <= limit + 1e-9


@settings(max_examples=100)
@given(laws(), st.integers(0, 2**32 - 1))
def test_what_is_computed_from_the_code_reveals_no_more(law: np.ndarray, seed: int) -> None:
    kernel = np.random.default_rng(seed).dirichlet(np.ones(2), size=law.shape[3])
    for after, before in zip(truths(law @ kernel), truths(law), strict=True):
        assert after <= before + 1e-9


@settings(max_examples=100)
@given(laws(), st.integers(0, 2**32 - 1))
def test_where_people_are_dealt_at_random_the_sender_costs_nothing(law: np.ndarray, seed: int) -> None:
    # D independent of (U, V), encoders of their own: I(U;D) = 0, H(V|U,D) = H(V|U).
    uv, senders = law.sum(axis=(0, 3)), law.shape[0]
    encoder = conditional(law)
    dealt = uv[None, :, :, None] * encoder / senders
    assert mutual_information(dealt.sum(axis=(2, 3))) == pytest.approx(0.0, abs=1e-9)
    duv, dy = dealt.sum(axis=3), dealt.sum(axis=(1, 2))
    bound = rate_information_bound(
        cross_entropy(dy, conditional(dy)),
        cross_entropy(dealt.transpose(0, 1, 3, 2), conditional(dealt.transpose(0, 1, 3, 2))),
        conditional_entropy(duv.sum(axis=0).T),
    )
    assert truths(dealt)[1] <= bound + 1e-9


def test_the_exclusive_or_of_sender_and_attribute() -> None:
    stranger, server = both_forms(xor_law())
    assert truths(xor_law()) == pytest.approx((0.0, 1.0), abs=1e-12)
    assert stranger == pytest.approx(0.0, abs=1e-12)  # right for a stranger, wrong for a server that knows D
    assert server == pytest.approx(1.0, abs=1e-12)


def test_at_the_ideal_it_is_the_information_between_attribute_and_task() -> None:
    rng = np.random.default_rng(1)
    for _ in range(50):
        uv = rng.dirichlet(np.ones(6)).reshape(2, 3)
        law = np.zeros((1, 2, 3, 3))
        law[0, :, np.arange(3), np.arange(3)] = uv.T
        assert both_forms(law) == pytest.approx([mutual_information(uv)] * 2, abs=1e-9)


def sample(law: np.ndarray, n: int, rng: np.random.Generator, *, by_sender: bool, escape: float = 0.01) -> HeldOutRate:
    """Draw held-out records with ideal coder and helper, capped by an escape code."""
    d, u, v, y = np.unravel_index(rng.choice(law.size, size=n, p=law.ravel()), law.shape)
    dy = law.sum(axis=(1, 2))
    if by_sender:
        code, helper = conditional(dy)[d, y], conditional(law.transpose(0, 1, 3, 2))[d, u, y]
    else:
        code, helper = dy.sum(axis=0)[y], conditional(law.sum(axis=0).transpose(0, 2, 1))[u, y]
    raw = math.ceil(math.log2(law.shape[3]))
    with np.errstate(divide="ignore"):
        logs = np.log(helper)
    return HeldOutRate(
        bits=with_escape(-np.log2(code), raw, escape),
        bits_cap=raw - math.log2(escape),
        helper_log_probabilities=logs,
        task=v,
        attribute=u,
        attribute_values=law.shape[1],
        sender=d,
        uses_sender=by_sender,
        helper_floor=1e-3,
    )


def leaky_law() -> np.ndarray:
    """Ŷ = V, with V correlated with U: the bound is tight at I(U;V)."""
    uv = np.array([[0.32, 0.08, 0.10], [0.06, 0.34, 0.10]])
    law = np.zeros((1, 2, 3, 3))
    law[0, :, np.arange(3), np.arange(3)] = uv.T
    return law


def test_certificates_cover_the_truth_where_the_bound_is_tight() -> None:
    rng = np.random.default_rng(2)
    law, trials, confidence = leaky_law(), 200, 0.8
    truth = truths(law)[0]
    best = float(law.sum(axis=(0, 2)).max(axis=0).sum())
    under = under_accuracy = under_server = naive_under = 0
    for _ in range(trials):
        held = sample(law, 400, rng, by_sender=False, escape=1e-6)
        under += certify_information(held, observer="sender unknown", confidence=confidence).bound < truth
        under_server += certify_information(held, observer="sender known", confidence=confidence).bound < truth
        under_accuracy += certify_rate_accuracy(held, observer="sender unknown", confidence=confidence).bound < best
        table = np.zeros((3, 2))
        np.add.at(table, (held.task, held.attribute), 1 / 400)
        naive_under += held.cost()[0].mean() - conditional_entropy(table) < truth
    assert max(under, under_server, under_accuracy) <= (1.0 - confidence) * trials
    # Plain averages fall short of the truth in a large share of draws: the slack is needed.
    assert naive_under > 0.3 * trials


def noisy_law() -> np.ndarray:
    """Ŷ is V through noise, so that the helper cannot know V: its loss is part of the bound."""
    uv = np.array([[0.4, 0.1], [0.15, 0.35]])
    return np.asarray(uv[None, :, :, None] * np.array([[0.8, 0.2], [0.2, 0.8]]))


def test_the_helpers_loss_counts_in_full() -> None:
    held = sample(noisy_law(), 50, np.random.default_rng(6), by_sender=False)
    q = np.exp(held.helper_log_probabilities)
    naive = [
        b - math.log2(0.999 * q[i, v] + 0.001 / 2) for i, (b, v) in enumerate(zip(held.bits, held.task, strict=True))
    ]
    cost, most = held.cost()
    assert cost == pytest.approx(np.array(naive))
    assert most == pytest.approx(held.bits_cap + math.log2(2 / 0.001))
    # A helper that rules the truth out entirely costs the most, and stays within it.
    wrong = dataclasses.replace(held, helper_log_probabilities=np.log(np.eye(2)[1 - held.task].clip(1e-300)))
    assert wrong.cost()[0].max() <= most + 1e-9
    assert (wrong.cost()[0] - wrong.bits) == pytest.approx(math.log2(2 / 0.001))


def test_the_certificates_are_the_confidence_bounds_put_together() -> None:
    held = sample(noisy_law(), 5000, np.random.default_rng(7), by_sender=False)
    cost, most = held.cost()
    pairs = 2 * held.attribute + held.task
    mean = bounds.mean_upper_bound(cost, 0.0, most, 0.025)
    expected = mean - bounds.conditional_entropy_lower_bound(held.task, held.attribute, 2, 0.025)
    assert certify_information(held, observer="sender unknown").bound == pytest.approx(min(1.0, expected))
    left = bounds.conditional_entropy_lower_bound(pairs, None, 4, 0.025) - mean
    assert known_equivocation(held, observer="sender unknown").bits == pytest.approx(max(0.0, left))
    share = 0.05 / 3
    bound = (
        bounds.entropy_upper_bound(held.attribute, 2, share)
        + bounds.mean_upper_bound(cost, 0.0, most, share)
        - bounds.conditional_entropy_lower_bound(pairs, held.sender, 4, share)
    )
    assert certify_information(held, observer="sender known").bound == pytest.approx(min(1.0, bound))
    assert 0.0 < expected < 1.0


def test_with_enough_records_the_certificate_is_close_to_the_exact_bound() -> None:
    rng = np.random.default_rng(3)
    held = sample(leaky_law(), 100_000, rng, by_sender=False)
    certificate = certify_information(held, observer="sender unknown")
    assert truths(leaky_law())[0] < certificate.bound < truths(leaky_law())[0] + 0.1
    assert certificate.confidence == 0.95
    assert {"observer", "held-out records", "longest code word (bits)"} <= set(certificate.assumptions)
    accuracy = certify_rate_accuracy(held, observer="sender unknown")
    best = float(leaky_law().sum(axis=(0, 2)).max(axis=0).sum())
    assert best < accuracy.bound < 0.9
    assert accuracy.assumptions["observer"] == "sender unknown"
    assert known_equivocation(held, observer="sender unknown").source == "lower confidence bound"


def test_for_a_server_that_knows_the_sender_the_exclusive_or_is_not_called_private() -> None:
    rng = np.random.default_rng(4)
    stranger = certify_information(sample(xor_law(), 20_000, rng, by_sender=False), observer="sender unknown")
    assert stranger.bound < 0.15
    shared = sample(xor_law(), 20_000, rng, by_sender=False)
    by_sender = sample(xor_law(), 20_000, rng, by_sender=True)
    for held in (shared, by_sender):
        assert certify_information(held, observer="sender known").bound == 1.0
        assert certify_rate_accuracy(held, observer="sender known").bound == 1.0
    with pytest.raises(InputError, match="depends on the sender"):
        certify_information(by_sender, observer="sender unknown")


def test_the_escape_code_can_be_decoded_and_is_capped() -> None:
    rng = np.random.default_rng(5)
    law = rng.dirichlet(np.full(16, 0.05)).clip(1e-30)
    bits = with_escape(-np.log2(law / law.sum()), raw_bits=4.0, escape_probability=0.01)
    assert (2.0**-bits).sum() <= 1.0 + 1e-12
    assert bits.max() <= 4.0 - math.log2(0.01) + 1e-12
    assert bits.max() < -np.log2(law.min())
    with pytest.raises(InputError, match="strictly"):
        with_escape([1.0], 4.0, 0.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bits": [1.0, 9.0, 1.0]}, "escape code"),
        ({"bits": [1.0, -1.0, 1.0]}, "code lengths"),
        ({"helper_log_probabilities": np.full((3, 2), 0.5)}, "log_softmax"),
        ({"helper_log_probabilities": np.log(np.full((2, 2), 0.5))}, "one row"),
        ({"task": [0, 1, 2]}, "task"),
        ({"attribute": [0, 1, 2]}, "attribute"),
        ({"helper_floor": 0.0}, "helper_floor"),
    ],
)
def test_records_that_cannot_be_certified_are_refused(change: dict[str, Any], message: str) -> None:
    fields: dict[str, Any] = {
        "bits": [1.0, 2.0, 3.0],
        "bits_cap": 4.0,
        "helper_log_probabilities": np.log(np.full((3, 2), 0.5)),
        "task": [0, 1, 0],
        "attribute": [0, 1, 1],
        "attribute_values": 2,
    }
    held = HeldOutRate(**fields)
    with pytest.raises(InputError, match="needs `sender`"):
        certify_information(held, observer="sender known")
    with pytest.raises(InputError, match="observer"):
        certify_information(held, observer="anyone")  # type: ignore[arg-type]
    with pytest.raises(InputError, match=message):
        HeldOutRate(**{**fields, **change})


def test_people_dealt_at_random_need_no_entropy_per_sender_whatever_the_encoders() -> None:
    rng = np.random.default_rng(8)
    for _ in range(300):
        drawn = draw_law(rng)
        labelled = drawn.sum(axis=3)
        dealt = labelled.sum(axis=(1, 2))[:, None, None] * labelled.sum(axis=0)  # D independent of (U, V)
        law = dealt[..., None] * conditional(drawn)
        by_sender = cross_entropy(law.sum(axis=(1, 2)), noisy(rng, conditional(law.sum(axis=(1, 2)))))
        helped = cross_entropy(law.transpose(0, 1, 3, 2), noisy(rng, conditional(law.transpose(0, 1, 3, 2))))
        bound = rate_information_bound(by_sender, helped, conditional_entropy(dealt.sum(axis=0).T))
        assert bound >= truths(law)[1] - 1e-9


def test_with_people_dealt_at_random_the_server_gets_the_strangers_form_and_the_assumption_is_named() -> None:
    held = sample(noisy_law(), 5000, np.random.default_rng(7), by_sender=False)
    dealt = dataclasses.replace(held, dealt_at_random=True)
    certificate = certify_information(dealt, observer="sender known")
    assert certificate.bound == certify_information(held, observer="sender unknown").bound
    assert certificate.bound < certify_information(held, observer="sender known").bound
    assert certificate.assumptions["people dealt to senders at random"] is True
    assert "people dealt to senders at random" not in certify_information(held, observer="sender known").assumptions
    equivocation = known_equivocation(dealt, observer="sender known").bits
    assert equivocation == known_equivocation(held, observer="sender unknown").bits
    # Where it does not hold the figure is worthless: the exclusive or, read exactly, is called private.
    wrong = dataclasses.replace(
        sample(xor_law(), 20_000, np.random.default_rng(4), by_sender=False), dealt_at_random=True
    )
    assert certify_information(wrong, observer="sender known").bound < 0.15
