"""What a run's compressed representations cost, tell, and can tell at most.

Symbols: ŷ the rounded representation, u the private attribute, v the task, d the sender. The code and the helper are
fitted on training people, fixed, and then judged on test people: the certificate's terms.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fedveil.attacks import Judgement, panel
from fedveil.certificates.certificate import Certificate
from fedveil.certificates.rate import HeldOutRate, certify_information
from fedveil.data.attribute import IntArray
from fedveil.data.attribute_data import Split
from fedveil.errors import InputError
from fedveil.federation.release import release, senders
from fedveil.federation.run import Run
from fedveil.federation.view import FloatArray, Pool, View
from fedveil.figures import Estimate
from fedveil.learning import Recipe, fit_network, log_posterior
from fedveil.rate.code import RateCode
from fedveil.rate.message import HEADER_BYTES, pack, unpack, verbatim_bytes
from fedveil.standardise import Standardiser

_BATCH = 100
"""Records of one message."""

_HELPER = Recipe(hidden=(64,), most_epochs=30)


@dataclass(frozen=True)
class Sent:
    """What sending took, over messages of a hundred test records each.

    Attributes:
        bits: estimated bits per record, by the code's probabilities.
        bytes: payload bytes per record, really coded and decoded again.
        header: header bytes per message.
        escaped: records with a number outside of the code's tables.
        ratio_float32, ratio_float16, ratio_input: payload over the same numbers as plain floats, and over x in bytes.
    """

    bits: float
    bytes: float
    header: int
    escaped: int
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


def measure(
    run: Run, attribute: str, reach: int, *, attackers: str = "quick", draws: int = 1000, seed: int = 0
) -> Measured:
    """Judge what a run's people send after training: whole numbers in [−reach, reach]."""
    data = run.federation.data
    if data.y is None:
        raise InputError("rate: the certificate needs the task's label; load the data with a target")
    values = {split: release(run, split) for split in Split}
    owners = {split: senders(run, split) for split in Split}
    codes = {split: data.attribute(attribute).codes[data.rows(split)] for split in Split}
    labels = {split: data.y.codes[data.rows(split)] for split in Split}
    code = RateCode.fit(values[Split.TRAIN].astype(np.int64), low=-reach, high=reach)
    several = len(np.unique(owners[Split.TEST])) > 1
    stranger = _judge(run, attribute, values, None, attackers, draws, seed)
    server = _judge(run, attribute, values, owners, attackers, draws, seed) if several else stranger
    certificates = {}
    for observer in ("sender unknown", "sender known"):
        told = owners if observer == "sender known" and several else None
        helper = _helper(values, codes, labels, told, len(data.attribute(attribute).values), len(data.y.values), seed)
        test = values[Split.TEST].astype(np.int64)
        if not code.within(test).all():
            raise InputError("rate: test records leave the code's tables; clamp representations (reach)")
        held = HeldOutRate(
            bits=code.bits(test),
            bits_cap=code.cap,
            helper_log_probabilities=helper,
            task=labels[Split.TEST],
            attribute=codes[Split.TEST],
            attribute_values=len(data.attribute(attribute).values),
            sender=owners[Split.TEST],
            uses_sender=told is not None,
        )
        certificates[observer] = certify_information(held, observer=observer)
    accuracy = run.score_outputs(seed=seed, draws=draws).accuracy
    return Measured(accuracy, stranger, server, sent(values[Split.TEST], code, data.x[0].size), certificates)


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
        ratio_float32=payload / verbatim_bytes(len(whole), code.width),
        ratio_float16=payload / verbatim_bytes(len(whole), code.width, bits=16),
        ratio_input=payload / (len(whole) * inputs),
    )


def _judge(
    run: Run,
    attribute: str,
    values: dict[Split, FloatArray],
    owners: dict[Split, IntArray] | None,
    attackers: str,
    draws: int,
    seed: int,
) -> Judgement:
    data = run.federation.data
    pools = []
    for split in Split:
        rows = data.rows(split)
        seen = (
            values[split]
            if owners is None
            else np.hstack([values[split], _unit(owners[split], len(run.federation.partition))])
        )
        pools.append(
            Pool(
                seen,
                {attribute: data.attribute(attribute).take(rows)},
                None if data.groups is None else data.groups[rows],
            )
        )
    return panel(attackers, seed=seed, draws=draws).judge(View.apart(*pools), attribute)


def _helper(
    values: dict[Split, FloatArray],
    codes: dict[Split, IntArray],
    labels: dict[Split, IntArray],
    owners: dict[Split, IntArray] | None,
    many: int,
    classes: int,
    seed: int,
) -> FloatArray:
    """Fit q(v | ŷ, u[, d]) on training people, and return what it says of test people."""

    def seen(split: Split) -> FloatArray:
        parts = [values[split], _unit(codes[split], many)]
        if owners is not None:
            parts.append(_unit(owners[split], int(max(o.max() for o in owners.values())) + 1))
        return np.hstack(parts)

    scale = Standardiser.fit(seen(Split.TRAIN))
    train, validation = ((scale.apply(seen(split)), labels[split]) for split in (Split.TRAIN, Split.VALIDATION))
    network = fit_network(train, validation, classes, _HELPER, even=False, seed=seed)
    return log_posterior(network, scale.apply(seen(Split.TEST)))


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
