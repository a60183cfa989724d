from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fedveil.certificates import (
    AgainstAttackersTried,
    AttackerCrossEntropy,
    Certificate,
    KnownEquivocation,
    certify_accuracy,
    estimate_accuracy,
)
from fedveil.core.errors import InputError


def test_a_known_law_is_certified_and_no_attacker_beats_it(random_joint: Callable[..., np.ndarray]) -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        joint = random_joint(rng)
        equivocation = KnownEquivocation.from_joint(joint, "synthetic")
        certificate = certify_accuracy(equivocation, largest_prior=float(joint.sum(axis=1).max()))
        assert isinstance(certificate, Certificate)
        assert certificate.confidence is None
        assert certificate.assumptions["source of H(u|r)"] == "exact joint law"
        assert joint.max(axis=0).sum() <= certificate.bound + 1e-9


def test_an_attackers_cross_entropy_yields_an_estimate_that_a_better_attacker_beats() -> None:
    # u is sent in the clear; a poor attacker that sees nothing has cross-entropy 1 bit.
    poor = estimate_accuracy(AttackerCrossEntropy(1.0, 2, ("constant",)))
    assert isinstance(poor, AgainstAttackersTried)
    assert poor.value == 0.5
    leaky = np.array([[0.5, 0.0], [0.0, 0.5]])
    assert leaky.max(axis=0).sum() > poor.value
    assert certify_accuracy(KnownEquivocation.from_joint(leaky, "sent in the clear")).bound == 1.0


@pytest.mark.parametrize("wrong", [AttackerCrossEntropy(0.9, 2, ("mlp",)), 0.9])
def test_nothing_but_a_known_equivocation_can_be_certified(wrong: Any) -> None:
    with pytest.raises(InputError, match="certifies nothing"):
        certify_accuracy(wrong)


def test_estimates_refuse_what_is_not_an_attackers() -> None:
    with pytest.raises(InputError, match="names the attackers"):
        estimate_accuracy(0.9)  # type: ignore[arg-type]
    assert estimate_accuracy(AttackerCrossEntropy(7.0, 2, ("bad",))).value == 0.5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ((0.9, 2, "an attacker", "mlp"), "AttackerCrossEntropy"),
        ((0.9, 2, "known channel", ""), "basis"),
        ((0.9, 2, "lower confidence bound", "held out"), "confidence"),
        ((0.9, 2, "known channel", "noise", 0.95), "confidence"),
        ((1.1, 2, "known channel", "noise"), "bits"),
        ((math.nan, 2, "known channel", "noise"), "bits"),
    ],
)
def test_an_equivocation_must_say_why_it_may_be_relied_upon(fields: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        KnownEquivocation(*fields)


def test_a_lower_confidence_bound_passes_its_confidence_on() -> None:
    equivocation = KnownEquivocation(0.9, 2, "lower confidence bound", "held out", 0.9)
    assert certify_accuracy(equivocation).confidence == 0.9
