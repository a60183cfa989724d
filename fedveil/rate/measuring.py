"""What a run's compressed representations cost, tell, and can tell at most.

Symbols: ŷ the rounded representation, u the private attribute, v the task, d the sender. The code and the helper are
fitted on training and validation people, fixed, and then judged on test people: the certificate's terms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedveil.attacks import Judgement, panel
from fedveil.certificates.certificate import Certificate
from fedveil.certificates.rate import HeldOutRate, Observer, certify_information
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.federation.heads import score_outputs
from fedveil.federation.release import Releases, senders
from fedveil.federation.run import Run
from fedveil.games.attri_fed.code import RateCode
from fedveil.games.attri_fed.message import HEADER_BYTES, pack, unpack, verbatim_bytes
from fedveil.rate.helper import fit_helper
from fedveil.view import Pool, View

_BATCH = 100
"""Records of one message."""

WEAK = "mlp-small"
"""One small non-linear network on pooled representations, the sender ignored: as the paper's server reads."""

_LARGER = {"light": "mlp-large", "paper": "mlp-wide"}
"""By the game's networks, an attacker that is in no layer smaller than the privatiser."""


@dataclass(frozen=True)
class Sent:
    """What sending took, over messages of a hundred test records each.

    Attributes:
        bits: estimated bits per record, by the code's probabilities.
        bytes: payload bytes per record, really coded and decoded again.
        header: header bytes per message.
        escaped: records with a number outside of the code's tables.
        joint: whether numbers are coded together.
        ratio_float32, ratio_float16, ratio_input: payload over the same numbers as plain floats, and over x in bytes.
    """

    bits: float
    bytes: float
    header: int
    escaped: int
    joint: bool
    ratio_float32: float
    ratio_float16: float
    ratio_input: float


@dataclass(frozen=True)
class Measured:
    """A run's figures on test people.

    Attributes:
        accuracy: of the task, by the game's own head.
        stranger: the panel's judgement of u from ŷ, for a server that does not know who sent it.
        server: the same with the sender known; the stranger's where all encode alike.
        sent: what sending took.
        certificates: upper bounds on I(u; ŷ) and I(u; ŷ, d) by observer, in bits, at 95%; they need no attacker.
    """

    accuracy: Estimate
    stranger: Judgement
    server: Judgement
    sent: Sent
    certificates: dict[str, Certificate]

    def as_dict(self) -> dict[str, Any]:
        """Return the form that presets keep."""
        return {
            "accuracy": self.accuracy.as_dict(),
            "prior": self.stranger.prior.as_dict(),
            "stranger": _told(self.stranger),
            "server": _told(self.server),
            "sent": vars(self.sent),
            "bytes_ratio": self.sent.ratio_float32,
            "certificates": {name: one.as_dict() for name, one in self.certificates.items()},
        }


@dataclass(frozen=True, eq=False)
class Released:
    """What people send after training, by split, and which device sent each record.

    Attributes:
        values: representations; whole numbers where there is a reach.
        senders: device numbers.
        accuracy: of the task, by the head that goes with them.
        reach: values lie in [−reach, reach] and are coded; None: they are sent as floats.
        dealt_at_random: who sends a record was drawn at random, so that the sender says nothing about u and v.
    """

    values: dict[Split, FloatArray]
    senders: dict[Split, IntArray]
    accuracy: Estimate
    reach: int | None
    dealt_at_random: bool = False

    @classmethod
    def of_run(
        cls, run: Run, reach: int | None, *, draws: int = 1000, seed: int = 0, releases: Releases | None = None
    ) -> Released:
        """Return what a run's people send, with the accuracy of the game's own head."""
        releases = releases or Releases(run)
        return cls(
            {split: releases.of(split) for split in Split},
            {split: senders(run, split) for split in Split},
            score_outputs(run, seed=seed, draws=draws, releases=releases).accuracy,
            reach,
            dealt_at_random=True,
        )

    @property
    def several(self) -> bool:
        """Whether records come from encoders that may differ."""
        return len(np.unique(self.senders[Split.TRAIN])) > 1


def measure(
    released: Released,
    data: AttributeData,
    attribute: str,
    *,
    attackers: str | Sequence[str] = "quick",
    draws: int = 1000,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Measured:
    """Judge what was released, on test people: attackers, bytes, and what no attacker can exceed."""
    if data.y is None:
        raise InputError("rate: the certificate needs the task's label; load the data with a target")
    judges = panel(attackers, seed=seed, draws=draws, progress=progress)
    stranger = judges.judge(server_view(released, data, attribute, known=False), attribute)
    server = (
        judges.judge(server_view(released, data, attribute, known=True), attribute) if released.several else stranger
    )
    if released.reach is None:
        plain = verbatim(released.values[Split.TEST].shape[1], data.x[0].size)
        return Measured(released.accuracy, stranger, server, plain, {})
    code = fitted_code(released)
    return Measured(
        released.accuracy,
        stranger,
        server,
        sent(released.values[Split.TEST], code, data.x[0].size),
        {
            observer: certify_information(terms, observer=observer)
            for observer, terms in held_out_terms(released, data, attribute, code, seed).items()
        },
    )


def fitted_code(released: Released) -> RateCode:
    """Return the code of what is sent, chosen on training and validation people, that all test records fit."""
    assert released.reach is not None
    code = RateCode.choose(
        *(released.values[split] for split in (Split.TRAIN, Split.VALIDATION)), low=-released.reach, high=released.reach
    )
    if not code.within(released.values[Split.TEST]).all():
        raise InputError("rate: test records leave the code's tables; clamp representations to reach")
    return code


def server_panel(attackers: str, networks: str) -> tuple[str, ...]:
    """Return a panel's attackers, the paper's weak one and one at least as large as the privatiser among them."""
    return tuple(dict.fromkeys([*panel(attackers).attackers, WEAK, _LARGER[networks]]))


def held_out_terms(
    released: Released, data: AttributeData, attribute: str, code: RateCode, seed: int = 0
) -> dict[Observer, HeldOutRate]:
    """Return the certificate's terms by observer; where all encode alike, both have the same."""
    stranger = held_out(released, data, attribute, code, "sender unknown", seed)
    known = held_out(released, data, attribute, code, "sender known", seed) if released.several else stranger
    return {"sender unknown": stranger, "sender known": known}


def held_out(
    released: Released, data: AttributeData, attribute: str, code: RateCode, observer: Observer, seed: int = 0
) -> HeldOutRate:
    """Return the certificate's terms on test people, by a helper fitted on training and validation people.

    A run deals records to senders at random (`fedveil.federation.release`): there the sender says nothing of u and v.
    """
    assert data.y is not None
    secret, y = data.attribute(attribute), data.y
    uses = released.several and observer == "sender known"

    def seen(split: Split) -> FloatArray:
        parts = [released.values[split], _unit(secret.codes[data.rows(split)], len(secret.values))]
        return np.hstack([*parts, _senders(released, split)] if uses else parts)

    train, validation = ((seen(split), y.codes[data.rows(split)]) for split in (Split.TRAIN, Split.VALIDATION))
    helper = fit_helper(train, validation, len(y.values), seed)
    rows = data.rows(Split.TEST)
    one = _one_each(None if data.groups is None else data.groups[rows], seed)
    test = rows[one]
    return HeldOutRate(
        bits=code.bits(released.values[Split.TEST][one]),
        bits_cap=code.cap,
        helper_log_probabilities=helper(seen(Split.TEST)[one]),
        task=y.codes[test],
        attribute=secret.codes[test],
        attribute_values=len(secret.values),
        sender=released.senders[Split.TEST][one],
        uses_sender=uses,
        dealt_at_random=released.dealt_at_random,
    )


def _one_each(groups: IntArray | None, seed: int) -> IntArray | slice:
    """Return the place of one record of every group, drawn at random: only those are independent of each other."""
    if groups is None:
        return slice(None)
    mixed = numpy_generator(seed, "one of each group").permutation(len(groups))
    return np.asarray(np.sort(mixed[np.unique(groups[mixed], return_index=True)[1]]))


def verbatim(width: int, inputs: int) -> Sent:
    """Return what numbers take that are sent as float32."""
    return Sent(32.0 * width, 4.0 * width, 0, 0, False, 1.0, 2.0, 4.0 * width / inputs)


def sent(values: FloatArray, code: RateCode, inputs: int) -> Sent:
    """Send records in messages of a hundred, decode every one, and count."""
    whole = values.astype(np.int64)
    messages = [pack(part, code) for part in np.split(whole, range(_BATCH, len(whole), _BATCH))]
    received = np.concatenate([unpack(message.data, code) for message in messages])
    if not np.array_equal(received, whole):
        raise AssertionError("a message was not decoded exactly")
    payload = sum(message.payload_bytes for message in messages)
    return Sent(
        bits=sum(message.estimated_bits for message in messages) / len(whole),
        bytes=payload / len(whole),
        header=HEADER_BYTES,
        escaped=sum(message.escaped for message in messages),
        joint=code.joint,
        ratio_float32=payload / verbatim_bytes(len(whole), code.width),
        ratio_float16=payload / verbatim_bytes(len(whole), code.width, bits=16),
        ratio_input=payload / (len(whole) * inputs),
    )


def server_view(released: Released, data: AttributeData, attribute: str, *, known: bool) -> View:
    """Return what a server sees; one that knows the sender has a column for each device."""
    pools = []
    for split in Split:
        rows, values = data.rows(split), released.values[split]
        pools.append(
            Pool(
                np.hstack([values, _senders(released, split)]) if known else values,
                {attribute: data.attribute(attribute).take(rows)},
                None if data.groups is None else data.groups[rows],
            )
        )
    return View.apart(*pools)


def _senders(released: Released, split: Split) -> FloatArray:
    many = int(max(owner.max() for owner in released.senders.values())) + 1
    return _unit(released.senders[split], many)


def _unit(codes: IntArray, many: int) -> FloatArray:
    return np.eye(many)[codes]


def _told(judgement: Judgement) -> dict[str, Any]:
    worst = judgement.worst
    return {
        "attacker": worst.name,
        "accuracy": worst.accuracy.as_dict(),
        "balanced_accuracy": worst.balanced_accuracy.as_dict(),
        "bits": judgement.mutual_information_bits.as_dict(),
    }
