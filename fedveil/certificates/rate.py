"""The rate certificate: how much a compressed representation ŷ can reveal about u, from held-out averages alone.

No attacker is involved. For quantised ŷ, a task label v and *any* coder and helper fixed beforehand,

    I(U;Ŷ) = I(Ŷ;U,V) − I(Ŷ;V|U) ≤ E[bits] + CE(v | ŷ,u) − H(V|U)                     sender unknown
    I(U;Ŷ,D) ≤ I(U;D) + E[bits] + CE(v | ŷ,u,d) − H(V|U,D)                            sender D known

because E[bits] ≥ H(Ŷ) for every code that can be decoded (H(Ŷ|D) where the code may depend on D) and
CE ≥ H(V | what the helper reads). The second form is needed if the server knows who sent ŷ and encoders differ:
with V = D and Ŷ = D⊕U the first is 0 bits, which is right for a stranger, but the server reads U exactly.
If people are dealt to senders at random, D is independent of (U, V), and the second form loses the terms that are
hardest to measure with many senders: I(U;D) = 0 and H(V|U,D) = H(V|U), whatever the encoders do with D
(`dealt_at_random`, an assumption that the certificate then names).

Equivalently H(U|Ŷ) ≥ H(U,V) − E[bits] − CE, and H(U|Ŷ,D) ≥ H(U,V|D) − E[bits] − CE; Fano's inequality then bounds
every attacker's accuracy. The argument is our own, from the chain rule.

All averages are of variables that are really bounded, not trimmed:
* bits ≤ cap, because the coder has an escape code (`with_escape`); bits above the cap are refused, since cutting
  them would understate the rate;
* the helper is mixed with the uniform law, (1−η)q + η/K_v, which is again a helper, so its loss is ≤ log₂(K_v/η).
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fedveil.certificates import confidence as bounds
from fedveil.certificates.certificate import Certificate, at_shares
from fedveil.certificates.equivocation import KnownEquivocation, certify_accuracy
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError

Observer = Literal["sender unknown", "sender known"]


def rate_information_bound(
    mean_bits: float, helper_cross_entropy: float, label_entropy: float, sender_information: float = 0.0
) -> float:
    """Return I(U;D) + E[bits] + CE − H(V|U[,D]) of known averages, in bits, as a plain number; never below 0.

    >>> rate_information_bound(mean_bits=1.0, helper_cross_entropy=0.0, label_entropy=1.0)
    0.0
    """
    return max(0.0, sender_information + mean_bits + helper_cross_entropy - label_entropy)


def with_escape(bits: npt.ArrayLike, raw_bits: float, escape_probability: float = 1e-3) -> FloatArray:
    """Return the lengths of the code that sends one flag and then either the coder's word or ŷ verbatim.

    The flag has probabilities (1−η, η); the shorter of the two is sent. Raw words of `raw_bits` must really exist: ŷ is
    clamped to 2^raw_bits possible values. Kraft's inequality holds, and no length exceeds raw_bits − log₂ η.
    """
    if not 0.0 < escape_probability < 1.0:
        raise InputError(f"escape code: its probability must lie strictly between 0 and 1, got {escape_probability}")
    coded = np.asarray(bits, dtype=np.float64) - math.log2(1.0 - escape_probability)
    return np.minimum(coded, raw_bits - math.log2(escape_probability))


@dataclass(frozen=True, eq=False)
class HeldOutRate:
    """Held-out records, drawn independently and seen by neither coder nor helper while they were fitted.

    Attributes:
        bits: each record's code length under the coder that is really used.
        bits_cap: the length that the coder never exceeds; see `with_escape`.
        helper_log_probabilities: natural logarithms of the helper's q(· | ŷ, u[, d]), one row per record.
        task: v, codes 0 … K_v−1, the columns of the helper's rows.
        attribute: u, codes 0 … K_u−1.
        attribute_values: K_u.
        sender: d, one code per record; needed if the observer knows the sender.
        uses_sender: whether the coder or the helper depends on the sender (one per device, or d as an input).
        dealt_at_random: whether people are dealt to senders at random, by design or by assumption: D is then
            independent of (U, V).
        helper_floor: η, the share of the uniform law mixed into the helper.
    """

    bits: FloatArray
    bits_cap: float
    helper_log_probabilities: FloatArray
    task: IntArray
    attribute: IntArray
    attribute_values: int
    sender: IntArray | None = None
    uses_sender: bool = False
    dealt_at_random: bool = False
    helper_floor: float = 1e-3

    def __post_init__(self) -> None:
        bits = np.asarray(self.bits, dtype=np.float64)
        helper = np.asarray(self.helper_log_probabilities, dtype=np.float64)
        if bits.ndim != 1 or len(bits) < 2 or helper.ndim != 2 or len(helper) != len(bits):
            raise InputError("rate: needs at least two records, one code length and one row of the helper for each")
        if not (bits.min() >= 0.0 and bits.max() <= self.bits_cap + 1e-9 and math.isfinite(self.bits_cap)):
            raise InputError(
                f"rate: code lengths must lie in [0, bits_cap = {self.bits_cap}], got up to {bits.max():.4g}; "
                "give the coder an escape code (with_escape) instead of cutting lengths"
            )
        if not np.allclose(np.exp(helper).sum(axis=1), 1.0, atol=1e-4):
            raise InputError("rate: the helper's rows must be natural log-probabilities that sum to 1; use log_softmax")
        if not 0.0 < self.helper_floor < 1.0:
            raise InputError(f"rate: helper_floor must lie strictly between 0 and 1, got {self.helper_floor}")
        for name, most in (("task", helper.shape[1]), ("attribute", self.attribute_values), ("sender", None)):
            codes = getattr(self, name)
            if codes is None:
                continue
            codes = np.asarray(codes, dtype=np.int64)
            if codes.shape != bits.shape or codes.min() < 0 or (most is not None and codes.max() >= most):
                allowed = "0 or above" if most is None else f"0 … {most - 1}"
                raise InputError(f"rate: {name} must be one code per record, {allowed}")
            object.__setattr__(self, name, codes)
        object.__setattr__(self, "bits", bits)
        object.__setattr__(self, "helper_log_probabilities", helper)

    def __len__(self) -> int:
        return len(self.bits)

    def __repr__(self) -> str:
        return f"HeldOutRate(n={len(self)}, mean {self.bits.mean():.4g} bits, at most {self.bits_cap:.4g})"

    def cost(self) -> tuple[FloatArray, float]:
        """Return for every record its bits plus the mixed helper's loss in bits, and the largest possible sum."""
        q = np.exp(self.helper_log_probabilities)
        labels = q.shape[1]
        at_label = q[np.arange(len(q)), self.task] / q.sum(axis=1)
        loss = -np.log2((1.0 - self.helper_floor) * at_label + self.helper_floor / labels)
        return np.asarray(self.bits + loss), self.bits_cap + math.log2(labels / self.helper_floor)


def certify_information(held_out: HeldOutRate, *, observer: Observer, confidence: float = 0.95) -> Certificate:
    """Certify, at the confidence, an upper bound on I(U;Ŷ) (sender unknown) or I(U;Ŷ,D) (sender known)."""
    _check_observer(held_out, observer)
    return at_shares(lambda level: _information_at(held_out, observer, level), confidence)


def _information_at(held_out: HeldOutRate, observer: Observer, confidence: float) -> Certificate:
    task_values = held_out.helper_log_probabilities.shape[1]
    if _sender_is_uninformative(held_out, observer):
        share = (1.0 - confidence) / 2.0
        entropy = bounds.conditional_entropy_lower_bound(held_out.task, held_out.attribute, task_values, share)
        information = _mean_cost(held_out, share) - entropy
    else:
        # I(U;D) − H(V|U,D) = H(U) − H(U,V|D): one conditional entropy to bound instead of two.
        share = (1.0 - confidence) / 3.0
        information = (
            bounds.entropy_upper_bound(held_out.attribute, held_out.attribute_values, share)
            + _mean_cost(held_out, share)
            - _joint_entropy(held_out, observer, share)
        )
    most = math.log2(held_out.attribute_values)
    return Certificate(
        quantity="information (bits)",
        bound=min(most, max(0.0, information)),
        direction="upper",
        assumptions=_assumptions(held_out, observer),
        does_not_cover=_DOES_NOT_COVER,
        method=f"rate certificate, {observer}",
        citation=_CITATION,
        confidence=confidence,
    )


def known_equivocation(held_out: HeldOutRate, *, observer: Observer, confidence: float = 0.95) -> KnownEquivocation:
    """Return a lower confidence bound on H(U|Ŷ), or on H(U|Ŷ,D) if the sender is known."""
    _check_observer(held_out, observer)
    share = (1.0 - confidence) / 2.0
    bits = _joint_entropy(held_out, observer, share) - _mean_cost(held_out, share)
    return KnownEquivocation(
        bits=min(math.log2(held_out.attribute_values), max(0.0, bits)),
        values=held_out.attribute_values,
        source="lower confidence bound",
        basis=f"rate certificate, {observer}, {len(held_out)} held-out records",
        confidence=confidence,
    )


def certify_rate_accuracy(held_out: HeldOutRate, *, observer: Observer, confidence: float = 0.95) -> Certificate:
    """Certify, at the confidence, a ceiling on every attacker's accuracy, by Fano's inequality."""
    return at_shares(lambda level: _rate_accuracy_at(held_out, observer, level), confidence)


def _rate_accuracy_at(held_out: HeldOutRate, observer: Observer, confidence: float) -> Certificate:
    certificate = certify_accuracy(known_equivocation(held_out, observer=observer, confidence=confidence))
    return dataclasses.replace(
        certificate,
        assumptions={**certificate.assumptions, **_assumptions(held_out, observer)},
        does_not_cover=(*certificate.does_not_cover, *_DOES_NOT_COVER),
        method=f"rate certificate, {observer}, then Fano's inequality",
        citation=f"{certificate.citation}; {_CITATION}",
    )


_DOES_NOT_COVER = ("parameters and updates", "further releases about the same person", "another population")
_CITATION = "chain rule, see fedveil.certificates.rate; Maurer and Pontil 2009; Reeb and Wolf 2015"


def _mean_cost(held_out: HeldOutRate, alpha: float) -> float:
    cost, most = held_out.cost()
    return bounds.mean_upper_bound(cost, 0.0, most, alpha)


def _joint_entropy(held_out: HeldOutRate, observer: Observer, alpha: float) -> float:
    """Return a lower bound on H(U,V), or on H(U,V|D) if the observer knows D and D may be informative."""
    task_values = held_out.helper_log_probabilities.shape[1]
    pairs = held_out.attribute * task_values + held_out.task
    condition = None if _sender_is_uninformative(held_out, observer) else held_out.sender
    return bounds.conditional_entropy_lower_bound(pairs, condition, held_out.attribute_values * task_values, alpha)


def _sender_is_uninformative(held_out: HeldOutRate, observer: Observer) -> bool:
    """Whether this observer learns nothing about (U, V) from the sender alone."""
    return observer == "sender unknown" or held_out.dealt_at_random


def _check_observer(held_out: HeldOutRate, observer: Observer) -> None:
    if observer not in ("sender unknown", "sender known"):
        raise InputError(f"rate: observer must be 'sender unknown' or 'sender known', got {observer!r}")
    if observer == "sender known" and held_out.sender is None and not held_out.dealt_at_random:
        raise InputError("rate: an observer who knows the sender needs `sender`, one code per record")
    if observer == "sender unknown" and held_out.uses_sender:
        raise InputError(
            "rate: a coder or helper that depends on the sender says nothing about a stranger's view; "
            "use one coder and helper for all, or observer='sender known'"
        )


def _assumptions(held_out: HeldOutRate, observer: Observer) -> dict[str, object]:
    dealt = {"people dealt to senders at random": True} if held_out.dealt_at_random else {}
    return {
        "observer": observer,
        **(dealt if observer == "sender known" else {}),
        "held-out records": len(held_out),
        "records drawn independently": True,
        "coder and helper fixed before the held-out records were seen": True,
        "longest code word (bits)": float(held_out.bits_cap),
        "helper floor": float(held_out.helper_floor),
        "releases per person": 1,
    }
