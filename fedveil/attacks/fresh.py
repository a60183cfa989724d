"""Attackers that learn from fresh people: those on whom the defence was never fitted.

A panel's attackers learn from the people on whom the defence was trained. A defence that balances exactly these people,
such as a map fitted on their counts, is slightly off on others, and an attacker who has other labelled people can
exploit that. So people on whom no defence was fitted are split into two halves, whole groups at a time: an attacker
learns from one half (and is calibrated on a part of it that it did not learn from) and guesses the other half, and then
the other way round. Every person is scored once, by an attacker that never saw that person.

Which of several fresh attackers counts is decided on the parts used for calibration. These are test people, so their
figure must not influence the choice between defences, which uses the panel's figure on validation people.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fedveil.attacks.attack import Attack
from fedveil.attacks.judgement import FRESH
from fedveil.attacks.trial import Question, Trial, tried
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.measures import Predictions, counting_units
from fedveil.core.randomness import child_seed
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import Split
from fedveil.data.splits import random_split
from fedveil.view import Pool, View

LEAST = 8
"""The least number of people (or groups) with each value, so that halves, and parts of halves, have all values."""

_CALIBRATES = 0.25
"""The share of a half that is used for calibration."""


@dataclass(frozen=True)
class CrossTrial:
    """Trials in which an attacker learns from one half of the victims and guesses the other.

    Attributes:
        seed: for the halves.
        draws: how many bootstrap draws.
        bootstrap: returns the generator of the draws; the same for all attackers, so that differences are paired.
    """

    seed: int
    draws: int
    bootstrap: Callable[[], np.random.Generator]

    def run(
        self, name: str, make: Callable[[], Attack], view: View, attribute: str, look: Callable[[Pool], FloatArray]
    ) -> Trial:
        """Return the trial of an attacker on all victims; it is ranked by its guesses on the calibration parts."""
        calibrating, victims = self.predictions(name, make, view, attribute, look)
        return Trial.of(name + FRESH, calibrating, victims, view.victims.groups, self.draws, self.bootstrap())

    def predictions(
        self, name: str, make: Callable[[], Attack], view: View, attribute: str, look: Callable[[Pool], FloatArray]
    ) -> tuple[Predictions, Predictions]:
        """Return the guesses about the calibration parts, and about all victims in their original order."""
        people = view.victims
        half = halves(people.attributes[attribute].codes, people.groups, child_seed(self.seed, "halves", attribute))
        on_calibrating, on_victims = [], []
        for side in (0, 1):
            learning_half, other_half = people.take(half == side), people.take(half != side)
            part = random_split(
                len(learning_half),
                seed=child_seed(self.seed, "calibration", attribute, side),
                validation=_CALIBRATES,
                test=0.0,
                strata=learning_half.attributes[attribute].codes,
                groups=learning_half.groups,
            )
            halved = replace(
                view,
                auxiliary=learning_half.take(part == Split.TRAIN),
                validation=learning_half.take(part == Split.VALIDATION),
                victims=other_half,
            )
            _check_values(halved, attribute)
            calibrating, victims = tried(name, make(), Question.ask(halved, attribute, look))
            on_calibrating.append(calibrating)
            on_victims.append(victims)
        order = np.concatenate([np.flatnonzero(half != side) for side in (0, 1)])
        return _joined(on_calibrating), _joined(on_victims, np.argsort(order))


def halves(codes: IntArray, groups: IntArray | None, seed: int) -> IntArray:
    """Return 0 or 1 for every record, so that every value is halved and groups stay whole."""
    split = random_split(len(codes), seed=seed, validation=0.5, test=0.0, strata=codes, groups=groups)
    return np.asarray(split == Split.VALIDATION, dtype=np.int64)


def enough(labels: Attribute, groups: IntArray | None) -> bool:
    """Whether every value has enough people (or groups of them) for halves."""
    return bool((counting_units(labels.codes, len(labels.values), groups) >= LEAST).all())


def check_enough(people: Pool, attribute: str) -> None:
    """Refuse people if a value is too rare among them for halves."""
    labels = people.attributes[attribute]
    units = counting_units(labels.codes, len(labels.values), people.groups)
    if not enough(labels, people.groups):
        rare, what = int(units.argmin()), "people" if people.groups is None else "groups of people"
        raise InputError(
            f"fresh attackers: {labels.values[rare]!r} of {attribute!r} has {units[rare]} test {what}, but halves need "
            f"{LEAST}; merge it with another value, or leave fresh attackers out"
        )


def _check_values(view: View, attribute: str) -> None:
    """Refuse halves that lack a value because groups stay whole."""
    for pool in (view.auxiliary, view.validation, view.victims):
        labels = pool.attributes[attribute]
        if (labels.counts == 0).any():
            missing = labels.values[int(labels.counts.argmin())]
            raise InputError(
                f"fresh attackers: whole groups cannot be halved so that {missing!r} of {attribute!r} is in every part;"
                " leave fresh attackers out"
            )


def _joined(parts: Sequence[Predictions], order: IntArray | None = None) -> Predictions:
    """Concatenate predictions about several sets of people; priors are averaged."""
    rows = np.arange(sum(len(part.codes) for part in parts)) if order is None else order
    return Predictions(
        codes=np.concatenate([part.codes for part in parts])[rows],
        balanced=np.concatenate([part.balanced for part in parts])[rows],
        plain=np.concatenate([part.plain for part in parts])[rows],
        log_posterior=np.concatenate([part.log_posterior for part in parts])[rows],
        prior=np.mean([part.prior for part in parts], axis=0),
    )
