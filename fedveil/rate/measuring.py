"""What compressed representations cost in bytes, what attackers read from them, and what no attacker can exceed.

Symbols: ŷ the rounded representation, u the private attribute, d the sender. Everything is measured on test people;
codes, attackers and the certificate's helper are fitted on training and validation people.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedveil.attacks import Judgement, panel
from fedveil.certificates.certificate import Certificate
from fedveil.certificates.rate import certify_information
from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.federation.heads import score_outputs
from fedveil.federation.release import Releases, released_records
from fedveil.federation.run import Run
from fedveil.games.attri_fed.certifying import fit_code, held_out_terms, sender_columns
from fedveil.games.attri_fed.code import RateCode
from fedveil.games.attri_fed.message import HEADER_BYTES, pack, unpack, verbatim_bytes
from fedveil.games.game import ReleasedRecords
from fedveil.view import Pool, View

_BATCH = 100
"""Records in one message."""

_ALPHA = 0.05
"""The observers' certificates share it, so that the smaller of the two may be chosen."""


@dataclass(frozen=True)
class Sent:
    """What sending cost, in messages of a hundred test records each.

    Attributes:
        bits: estimated bits per record, by the code's probabilities.
        bytes: payload bytes per record, really coded and decoded again.
        header: header bytes per message.
        escaped: records with a number outside the code's tables.
        joint: whether numbers are coded together.
        ratio_float32, ratio_float16: payload relative to the same numbers as plain floats of that size.
        ratio_input: payload relative to x, with one byte for each input.
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
        accuracy: the task's accuracy, by the game's own head.
        stranger: the panel's judgement of u from ŷ, for an observer who does not know the sender.
        server: the same for an observer who knows the sender; equal to `stranger` if there is only one sender.
        sent: what sending cost.
        certificates: upper bounds on I(u; ŷ) and I(u; ŷ, d) by observer, in bits; both hold together at 95%. No
            attacker is involved.
    """

    accuracy: Estimate
    stranger: Judgement
    server: Judgement
    sent: Sent
    certificates: dict[str, Certificate]

    def as_dict(self) -> dict[str, Any]:
        """Return the figures in the form that presets store."""
        return {
            "accuracy": self.accuracy.as_dict(),
            "prior": self.stranger.prior.as_dict(),
            "stranger": _worst(self.stranger),
            "server": _worst(self.server),
            "sent": vars(self.sent),
            "bytes_ratio": self.sent.ratio_float32,
            "certificates": {observer: certificate.as_dict() for observer, certificate in self.certificates.items()},
        }


@dataclass(frozen=True, eq=False)
class Released(ReleasedRecords):
    """What people send after training, by split, with its senders, the task's accuracy and the range of its numbers.

    Attributes:
        accuracy: the task's accuracy, by the head that goes with the representations.
        reach: values are whole numbers in [−reach, reach] and are coded; None if they are sent as floats.
    """

    accuracy: Estimate
    reach: int | None

    @classmethod
    def of_run(
        cls, run: Run, reach: int | None, *, draws: int = 1000, seed: int = 0, releases: Releases | None = None
    ) -> Released:
        """Return what a run's people send, with the accuracy of the game's own head."""
        releases = releases or Releases(run)
        records = released_records(run, releases)
        accuracy = score_outputs(run, seed=seed, draws=draws, releases=releases).accuracy
        return cls(records.values, records.senders, accuracy, reach, dealt_at_random=records.dealt_at_random)


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
    """Measure what test people send: what attackers read from it, its bytes, and what no attacker can exceed.

    Args:
        released: what people send.
        data: the same people's labels.
        attribute: u.
        attackers: a panel's name, or attackers' names.
        draws: bootstrap draws for the attackers' intervals.
        seed: all randomness derives from it.
        progress: receives a line about each attacker.
    """
    if data.y is None:
        raise InputError("rate: the certificate needs the task's label; load the data with a target")
    judges = panel(attackers, seed=seed, draws=draws, progress=progress)
    stranger = judges.judge(server_view(released, data, attribute, known=False), attribute)
    server = stranger
    if released.several_senders:
        server = judges.judge(server_view(released, data, attribute, known=True), attribute)
    if released.reach is None:
        as_floats = verbatim(released.values[Split.TEST].shape[1], data.x[0].size)
        return Measured(released.accuracy, stranger, server, as_floats, {})
    code = fit_code(released, released.reach)
    by_observer = held_out_terms(released, data, attribute, code, seed)
    return Measured(
        released.accuracy,
        stranger,
        server,
        sent(released.values[Split.TEST], code, data.x[0].size),
        {
            observer: certify_information(terms, observer=observer, confidence=1 - _ALPHA / len(by_observer))
            for observer, terms in by_observer.items()
        },
    )


def verbatim(width: int, inputs: int) -> Sent:
    """Return what it costs to send numbers as float32."""
    return Sent(32.0 * width, 4.0 * width, 0, 0, False, 1.0, 2.0, 4.0 * width / inputs)


def sent(values: FloatArray, code: RateCode, inputs: int) -> Sent:
    """Encode records in messages of a hundred, decode every message, and return what sending cost."""
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
    """Return what an observer sees, with a column for each device if the sender is known."""
    pools = []
    for split in Split:
        rows, values = data.rows(split), released.values[split]
        pools.append(
            Pool(
                np.hstack([values, sender_columns(released, split)]) if known else values,
                {attribute: data.attribute(attribute).take(rows)},
                None if data.groups is None else data.groups[rows],
            )
        )
    return View.apart(*pools, fitted=True)


def _worst(judgement: Judgement) -> dict[str, Any]:
    worst = judgement.worst
    return {
        "attacker": worst.name,
        "accuracy": worst.accuracy.as_dict(),
        "balanced_accuracy": worst.balanced_accuracy.as_dict(),
        "bits": judgement.mutual_information_bits.as_dict(),
    }
