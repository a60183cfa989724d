"""The source of H(u|r), the equivocation, which decides whether a bound computed from it is a certificate.

`KnownEquivocation` is a value, or a lower bound, that no attacker can undercut: computed from a known
discrete law, from a channel whose noise is known, or as a lower confidence bound by `rate`. Only such a value can
be certified. `AttackerCrossEntropy` is the cross-entropy of a trained attacker: an *upper* bound on H(u|r), so that
the same theorem gives only an estimate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy.typing as npt

from fedveil.certificates.certificate import AgainstAttackersTried, Certificate
from fedveil.certificates.fano import fano_accuracy_bound
from fedveil.core.entropy import conditional_entropy
from fedveil.core.errors import InputError

Source = Literal["exact joint law", "known channel", "lower confidence bound"]

_FANO = "Fano 1961; Cover and Thomas, Elements of Information Theory, 2nd ed., §2.10"


@dataclass(frozen=True)
class KnownEquivocation:
    """H(u|r) in bits, exact or bounded from below, with the reason why it is reliable.

    Attributes:
        bits: the value or lower bound.
        values: K, the number of values of u.
        source: what makes it reliable.
        basis: in words, which law, which channel or which held-out records.
        confidence: required for a "lower confidence bound", and only for it.
    """

    bits: float
    values: int
    source: Source
    basis: str
    confidence: float | None = None

    def __post_init__(self) -> None:
        if self.source not in get_args(Source):
            allowed = ", ".join(get_args(Source))
            raise InputError(
                f"equivocation: source {self.source!r} is not one of: {allowed}; "
                "a trained attacker's cross-entropy belongs in AttackerCrossEntropy"
            )
        if not self.basis:
            raise InputError("equivocation: say in `basis` which law, channel or records the value rests on")
        if (self.source == "lower confidence bound") != (self.confidence is not None):
            raise InputError("equivocation: state a confidence for a lower confidence bound, and only for one")
        if not 0.0 <= self.bits <= math.log2(max(self.values, 1)) + 1e-9:
            raise InputError(
                f"equivocation: {self.bits} bits cannot be H(u|r) of {self.values} values; bits, not nats, are needed"
            )

    @classmethod
    def from_joint(cls, joint: npt.ArrayLike, basis: str) -> KnownEquivocation:
        """Compute H(u|r) from a known table p(u, r): u along the first axis, r along the second."""
        bits = conditional_entropy(joint)
        return cls(bits, len(joint), "exact joint law", basis)  # type: ignore[arg-type]


@dataclass(frozen=True)
class AttackerCrossEntropy:
    """The held-out cross-entropy, in bits, of the attackers that were trained; H(u|r) may be smaller.

    Attributes:
        bits: the smallest cross-entropy among them.
        values: K, the number of values of u.
        attackers: their names.
    """

    bits: float
    values: int
    attackers: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.bits >= 0.0 or self.values < 2 or not self.attackers:
            raise InputError("attacker's cross-entropy: needs bits ≥ 0, at least two values, and the attackers' names")
        object.__setattr__(self, "attackers", tuple(self.attackers))


def certify_accuracy(equivocation: KnownEquivocation, *, largest_prior: float | None = None) -> Certificate:
    """Certify a ceiling on every attacker's accuracy by Fano's inequality.

    Guarantee: P(guess = u) ≤ bound for every attacker who sees r and nothing else about the person.
    """
    if not isinstance(equivocation, KnownEquivocation):
        raise InputError(
            "certify_accuracy: needs a KnownEquivocation; a number or a trained attacker's cross-entropy "
            "certifies nothing, use estimate_accuracy"
        )
    return Certificate(
        quantity="accuracy",
        bound=fano_accuracy_bound(equivocation.bits, equivocation.values, largest_prior=largest_prior),
        direction="upper",
        assumptions={
            "H(u|r) at least (bits)": equivocation.bits,
            "values of u": equivocation.values,
            "source of H(u|r)": equivocation.source,
            "basis": equivocation.basis,
        },
        does_not_cover=("what the observer knows besides r", "a single person's risk: it is an average"),
        method="Fano's inequality, inverted numerically",
        citation=_FANO,
        confidence=equivocation.confidence,
    )


def estimate_accuracy(cross_entropy: AttackerCrossEntropy) -> AgainstAttackersTried:
    """Compute Fano's bound from trained attackers' cross-entropy: an estimate, which a better attacker may exceed.

    A cross-entropy above log₂ K is worse than guessing and counts as log₂ K.
    """
    if not isinstance(cross_entropy, AttackerCrossEntropy):
        raise InputError("estimate_accuracy: needs an AttackerCrossEntropy that names the attackers")
    bits = min(cross_entropy.bits, math.log2(cross_entropy.values))
    return AgainstAttackersTried(
        quantity="accuracy",
        value=fano_accuracy_bound(bits, cross_entropy.values),
        method="the form of Fano's inequality, fed with an attacker's cross-entropy (an upper bound on H(u|r))",
        attackers=cross_entropy.attackers,
    )
