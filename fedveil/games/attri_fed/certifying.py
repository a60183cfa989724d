"""The rate certificate of what a trained encoder sends: the code, the helper, and their terms on test people.

Symbols: ŷ the rounded representation, u the private attribute, v the task, d the sender. The code and the helper
q(v | ŷ, u[, d]) are fitted on training and validation people, fixed, and then judged on test people. Any code and any
helper fixed beforehand give a valid certificate (`fedveil.certificates.rate` has the argument); better ones lower it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from fedveil.certificates.certificate import Certificate
from fedveil.certificates.rate import HeldOutRate, Observer, certify_information, certify_rate_accuracy
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.learning import Recipe, fit_network, log_posterior
from fedveil.core.randomness import numpy_generator
from fedveil.core.standardise import Standardiser
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.games.attri_fed.code import RateCode
from fedveil.games.game import ReleasedRecords

_NETWORK = Recipe(hidden=(64,), most_epochs=30)
_TRUST = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
"""Candidates for a in `fit_helper`: how many records the network's prediction counts for."""

Helper = Callable[[FloatArray], FloatArray]
"""Returns the natural log-probabilities of v for rows that hold ŷ, u and, if it is used, d."""


def rate_certificates(
    data: AttributeData, released: ReleasedRecords, attribute: str, reach: int, seed: int
) -> tuple[Certificate, ...]:
    """Return bounds on information and, by Fano, on accuracy, for both observers.

    A quantity without a qualifier holds for every observer, including one who knows the sender. A bound that holds
    only for an observer who does not know the sender says so in its name, so that the two cannot be confused.
    """
    code = fit_code(released, reach)
    certificates: list[Certificate] = []
    for observer, terms in held_out_terms(released, data, attribute, code, seed).items():
        for certify in (certify_information, certify_rate_accuracy):
            certificate = certify(terms, observer=observer)
            quantity = certificate.quantity
            certificates.append(
                replace(certificate, quantity=quantity if observer == "sender known" else f"{quantity}, {observer}")
            )
    return tuple(certificates)


def fit_code(released: ReleasedRecords, reach: int) -> RateCode:
    """Return the code of numbers in [−reach, reach], chosen on training and validation people; test people must fit."""
    code = RateCode.choose(
        *(released.values[split] for split in (Split.TRAIN, Split.VALIDATION)), low=-reach, high=reach
    )
    if not code.within(released.values[Split.TEST]).all():
        raise InputError("rate: some test records lie outside the code's tables; clamp representations to the reach")
    return code


def held_out_terms(
    released: ReleasedRecords, data: AttributeData, attribute: str, code: RateCode, seed: int = 0
) -> dict[Observer, HeldOutRate]:
    """Return the certificate's terms by observer; both are the same if there is only one sender."""
    stranger = held_out(released, data, attribute, code, "sender unknown", seed)
    server = held_out(released, data, attribute, code, "sender known", seed) if released.several_senders else stranger
    return {"sender unknown": stranger, "sender known": server}


def held_out(
    released: ReleasedRecords, data: AttributeData, attribute: str, code: RateCode, observer: Observer, seed: int = 0
) -> HeldOutRate:
    """Return the certificate's terms on test people, by a helper fitted on training and validation people."""
    assert data.y is not None
    secret, task = data.attribute(attribute), data.y
    uses_sender = released.several_senders and observer == "sender known"

    def helper_input(split: Split) -> FloatArray:
        columns = [released.values[split], _one_hot(secret.codes[data.rows(split)], len(secret.values))]
        return np.hstack([*columns, sender_columns(released, split)] if uses_sender else columns)

    train, validation = (
        (helper_input(split), task.codes[data.rows(split)]) for split in (Split.TRAIN, Split.VALIDATION)
    )
    helper = fit_helper(train, validation, len(task.values), seed)
    rows = data.rows(Split.TEST)
    independent = _one_of_each(None if data.groups is None else data.groups[rows], seed)
    test = rows[independent]
    return HeldOutRate(
        bits=code.bits(released.values[Split.TEST][independent]),
        bits_cap=code.cap,
        helper_log_probabilities=helper(helper_input(Split.TEST)[independent]),
        task=task.codes[test],
        attribute=secret.codes[test],
        attribute_values=len(secret.values),
        sender=released.senders[Split.TEST][independent],
        uses_sender=uses_sender,
        dealt_at_random=released.dealt_at_random,
    )


def sender_columns(released: ReleasedRecords, split: Split) -> FloatArray:
    """Return one 0/1 column for each device: which of them sent a record."""
    devices = int(max(senders.max() for senders in released.senders.values())) + 1
    return _one_hot(released.senders[split], devices)


def fit_helper(
    train: tuple[FloatArray, IntArray], validation: tuple[FloatArray, IntArray], classes: int, seed: int = 0
) -> Helper:
    """Return q = (n(row, v) + a·q_network(v | row)) / (n(row) + a) from rows and their v.

    n counts validation people: the encoder was not trained on them, so it reveals no more about their v than about
    anyone else's. a maximises their likelihood when each is predicted from the counts of the others. The network
    learns from training people; it alone predicts v for rows that no validation person has.
    """
    scale = Standardiser.fit(train[0])
    network = fit_network(
        (scale.apply(train[0]), train[1]),
        (scale.apply(validation[0]), validation[1]),
        classes,
        _NETWORK,
        even=False,
        seed=seed,
    )

    def network_probabilities(rows: FloatArray) -> FloatArray:
        return np.exp(log_posterior(network, scale.apply(rows)))

    # Adding 0 turns −0 into 0, whose bytes differ.
    distinct, row_of_person = np.unique(validation[0] + 0.0, axis=0, return_inverse=True)
    row_of_person = row_of_person.reshape(-1)
    index_of = {row.tobytes(): index for index, row in enumerate(distinct)}
    counts = np.zeros((len(distinct) + 1, classes))  # the last row has no counts; it is for rows never seen
    np.add.at(counts, (row_of_person, validation[1]), 1.0)
    counts_of_person = counts[row_of_person]
    at_label = (np.arange(len(counts_of_person)), validation[1])
    at_label_by_network = network_probabilities(validation[0])[at_label]

    def log_likelihood_left_out(trust: float) -> float:
        others_at_label = counts_of_person[at_label] - 1
        others = counts_of_person.sum(axis=1) - 1
        return float(np.log((others_at_label + trust * at_label_by_network) / (others + trust)).sum())

    trust = max(_TRUST, key=log_likelihood_left_out)

    def helper(rows: FloatArray) -> FloatArray:
        indices = [index_of.get(row.tobytes(), len(distinct)) for row in np.ascontiguousarray(rows + 0.0)]
        mixed = counts[indices] + trust * network_probabilities(rows)
        return np.asarray(np.log(mixed / mixed.sum(axis=1, keepdims=True)))

    return helper


def _one_of_each(groups: IntArray | None, seed: int) -> IntArray | slice:
    """Return the position of one record of every group, drawn at random: only those are independent of each other."""
    if groups is None:
        return slice(None)
    order = numpy_generator(seed, "one of each group").permutation(len(groups))
    return np.asarray(np.sort(order[np.unique(groups[order], return_index=True)[1]]))


def _one_hot(codes: IntArray, values: int) -> FloatArray:
    return np.eye(values)[codes]
