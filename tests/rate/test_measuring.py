"""Measurements of hand-made codes whose information is known exactly, also with an encoder per sender."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedveil.certificates import certify_information
from fedveil.core.figures import Estimate
from fedveil.data import Attribute, AttributeData, Split
from fedveil.games.attri_fed.certifying import fit_code, held_out
from fedveil.rate.measuring import Measured, Released, measure


def sent_by_two(n: int = 6000, *, sender_is_task: bool, seed: int = 0) -> tuple[Released, AttributeData]:
    """Ŷ = D⊕U with a fair coin U; either V = D, or V is an independent coin sent alongside and D is random."""
    rng = np.random.default_rng(seed)
    u, v, d = rng.integers(0, 2, (3, n))
    d = v if sender_is_task else d
    sent = np.stack([d ^ u] if sender_is_task else [d ^ u, v], axis=1).astype(float)
    split = np.repeat([0, 1, 2], [n // 3, n // 3, n - 2 * (n // 3)]).astype(np.int8)
    data = AttributeData(
        rng.normal(size=(n, 2)).astype(np.float32),
        {"u": Attribute("u", u, ("a", "b"))},
        split,
        y=Attribute("v", v, ("0", "1")),
    )
    rows = {part: data.rows(part) for part in Split}
    released = Released(
        {part: sent[rows[part]] for part in Split},
        {part: d[rows[part]] for part in Split},
        Estimate(1.0, 1.0, 1.0),
        reach=1,
        dealt_at_random=not sender_is_task,
    )
    return released, data


def judged(released: Released, data: AttributeData) -> Measured:
    return measure(released, data, "u", attackers=("mlp-small",), draws=200)


def test_who_knows_the_sender_reads_all_and_is_not_bounded_by_the_strangers_certificate() -> None:
    measured = judged(*sent_by_two(sender_is_task=True))
    stranger, server = measured.certificates["sender unknown"], measured.certificates["sender known"]
    assert measured.stranger.worst.balanced_accuracy.estimate < 0.55
    assert measured.server.worst.balanced_accuracy.estimate > 0.99
    # I(U;Ŷ) = 0 and I(U;Ŷ,D) = 1: the form for a stranger, given to this server, would be broken by what it reads.
    assert stranger.bound < 0.3 < measured.server.mutual_information_bits.low
    assert server.bound == 1.0
    assert measured.stranger.mutual_information_bits.high <= stranger.bound


def test_taking_senders_for_random_where_they_are_not_is_what_breaks_it_and_is_named() -> None:
    released, data = sent_by_two(2400, sender_is_task=True)
    right, wrong = (
        certify_information(
            held_out(records, data, "u", fit_code(records, 1), "sender known"),
            observer="sender known",
        )
        for records in (released, replace(released, dealt_at_random=True))
    )
    assert right.bound == 1.0
    assert wrong.bound < 0.5  # wrong: one bit is read
    assert wrong.assumptions["people dealt to senders at random"] is True
    assert "people dealt to senders at random" not in right.assumptions


def test_with_people_dealt_at_random_every_bound_lies_above_what_is_read() -> None:
    measured = judged(*sent_by_two(sender_is_task=False))
    assert measured.server.worst.balanced_accuracy.estimate > 0.99  # I(U;Ŷ,D) = 1
    assert measured.certificates["sender known"].bound == 1.0
    assert measured.certificates["sender unknown"].bound >= measured.stranger.mutual_information_bits.low
