"""Attri-Fed's privacy accounting: lower bounds on ε, what the paper's formulas give for them, and post-processing.

Symbols: ŷ is what is sent, u the attribute, v̂ the head's outputs, a function of ŷ; ε in nats, leakage in bits.

* Attribute DP (Attri-Fed, Definition 2, as it must read): P(E|u) ≤ e^ε·P(E|u′) for all events E. The true ε is a
  supremum that no sample of ŷ bounds from above; counting an event proves a *lower* bound. The event is a threshold on
  ŷ, or on the posterior of a network fitted on training people; it is chosen on validation people and counted on test
  people.
* Per-record leakage (Theorem 2) is a function of an *upper* bound on ε. At a lower bound it is only the least that the
  theorem could promise here, not an upper bound on what leaks.
* Corollary 1's ε = ln(1/T) is computed from the prior alone: every mechanism gets the same number, even one without
  protection, and counting may refute it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedveil.attacks import Judgement, panel
from fedveil.attacks.judgement import FRESH
from fedveil.certificates.epsilon_audit import EpsilonLowerBound, audit_attribute_dp, audit_information_privacy
from fedveil.certificates.information_privacy import (
    corrected_leakage_bound,
    printed_corollary1_epsilon,
    printed_leakage_bound,
)
from fedveil.core.arrays import FloatArray
from fedveil.core.entropy import entropy, plug_in_mutual_information
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.learning import Recipe, fit_network, log_posterior
from fedveil.core.measures import interval
from fedveil.core.randomness import numpy_generator
from fedveil.core.standardise import Standardiser
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.rate.measuring import Released, server_view

_READER = Recipe(hidden=(256, 128), learning_rate=1e-3)


@dataclass(frozen=True)
class Account:
    """What counting proved about ε, and what the paper's formulas give for it; none of it guarantees privacy.

    Attributes:
        attribute_dp, information_privacy: lower bounds on ε by event counting.
        attribute_entropy: H(u) of training people, in bits.
        corollary1: ln(1/T), from the prior alone.
    """

    attribute_dp: EpsilonLowerBound
    information_privacy: EpsilonLowerBound
    attribute_entropy: float
    corollary1: float

    @property
    def corrected_leakage(self) -> float:
        """Theorem 2, corrected, at the proved ε: the least that it could promise, not an upper bound on what leaks."""
        return corrected_leakage_bound(self.information_privacy.epsilon, self.attribute_entropy)

    @property
    def printed_leakage(self) -> float:
        """Theorem 2 as printed, at the same ε."""
        return printed_leakage_bound(self.information_privacy.epsilon, self.attribute_entropy)

    @property
    def refutes_corollary1(self) -> bool:
        """Whether the proved ε of information privacy exceeds the one that Corollary 1 states."""
        return self.information_privacy.epsilon > self.corollary1

    def as_dict(self) -> dict[str, Any]:
        """Return the form that presets store."""
        return {
            "attribute_dp": self.attribute_dp.as_dict(),
            "information_privacy": self.information_privacy.as_dict(),
            "attribute_entropy_bits": self.attribute_entropy,
            "leakage_at_that_epsilon": {
                "corrected": self.corrected_leakage,
                "printed": self.printed_leakage,
                "upper_bound": False,
            },
            "corollary1": {"epsilon": self.corollary1, "refuted": self.refutes_corollary1, "guarantees": "nothing"},
        }


def account(
    released: Released, data: AttributeData, attribute: str, *, confidence: float = 0.95, seed: int = 0
) -> Account:
    """Count events in what is sent, for an observer who does not know the sender."""
    secret = data.attribute(attribute)
    codes = {split: secret.codes[data.rows(split)] for split in Split}
    if min(codes[split].min() for split in Split) < 0:
        raise InputError(f"accounting: some records lack {attribute}; leave them out")
    scale = Standardiser.fit(released.values[Split.TRAIN])
    seen = {split: scale.apply(released.values[split]) for split in Split}
    train, validation = ((seen[split], codes[split]) for split in (Split.TRAIN, Split.VALIDATION))
    reader = fit_network(train, validation, len(secret.values), _READER, even=False, seed=seed)
    choosing, counting = (
        (np.hstack([seen[split], log_posterior(reader, seen[split])]), codes[split])
        for split in (Split.VALIDATION, Split.TEST)
    )
    rng = numpy_generator(seed, "accounting", attribute)
    shares = np.bincount(codes[Split.TRAIN], minlength=len(secret.values)) / len(codes[Split.TRAIN])
    return Account(
        audit_attribute_dp(*choosing, rng, confidence=confidence, counted_on=counting),
        audit_information_privacy(*choosing, rng, confidence=confidence, counted_on=counting),
        entropy(shares),
        printed_corollary1_epsilon(shares),
    )


@dataclass(frozen=True)
class PostProcessed:
    """Attackers retrained on the head's outputs, compared with those on ŷ: outputs of ŷ reveal no more than ŷ.

    Attributes:
        outputs: the panel's judgement of u from v̂.
        difference: balanced accuracy from v̂ minus that from ŷ, paired over the same test people.
        bits_sent, bits_outputs: information that attackers read from ŷ and from v̂.
        counted: plug-in I(u; ŷ) and I(u; predicted v) by frequencies of the test people, if ŷ takes few values; the
            second never exceeds the first, since the prediction is a function of ŷ. Both are overestimates.
    """

    outputs: Judgement
    difference: Estimate
    bits_sent: Estimate
    bits_outputs: Estimate
    counted: tuple[float, float] | None

    def as_dict(self) -> dict[str, Any]:
        """Return the form that presets store."""
        worst = self.outputs.worst
        return {
            "attacker": worst.name,
            "accuracy": worst.accuracy.as_dict(),
            "balanced_accuracy": worst.balanced_accuracy.as_dict(),
            "difference": self.difference.as_dict(),
            "bits_sent": self.bits_sent.as_dict(),
            "bits_outputs": self.bits_outputs.as_dict(),
            "counted_bits": self.counted and dict(zip(("sent", "prediction"), self.counted, strict=True)),
        }


def post_processed(
    released: Released, outputs: dict[Split, FloatArray], sent: Judgement, data: AttributeData
) -> PostProcessed:
    """Judge the head's outputs by the same attackers, with the same seed, as what is sent."""
    names = tuple(dict.fromkeys(attacker.name.removesuffix(FRESH) for attacker in sent.attackers))
    draws = len(sent.draws["balanced_accuracy"]) - 1
    judges = panel(names, seed=sent.seed, draws=draws, confidence=sent.confidence)
    view = server_view(replace(released, values=outputs), data, sent.attribute, known=False)
    after = judges.judge(view, sent.attribute)
    difference = after.draws["balanced_accuracy"] - sent.draws["balanced_accuracy"]
    return PostProcessed(
        after,
        interval(difference, sent.confidence),
        sent.mutual_information_bits,
        after.mutual_information_bits,
        _counted(released, outputs, data, sent.attribute),
    )


def _counted(
    released: Released, outputs: dict[Split, FloatArray], data: AttributeData, attribute: str
) -> tuple[float, float] | None:
    values = released.values[Split.TEST]
    codes = np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
    if released.reach is None or codes.max() + 1 > len(values) // 10:
        return None  # nearly every record has a value of its own: frequencies say nothing
    u = data.attribute(attribute).codes[data.rows(Split.TEST)]
    return plug_in_mutual_information(u, codes), plug_in_mutual_information(u, outputs[Split.TEST].argmax(axis=1))
