"""Attackers that learn from fresh people: those on whom the defence was never fitted.

A panel's attackers learn from the people on whom the defence was trained. A defence that balances exactly these people,
such as a map fitted on their counts, is slightly off on others, and an attacker who has other labelled people can
exploit that. So people on whom no defence was fitted are split into two halves, whole groups at a time: an attacker
learns from one half (and is calibrated on a part of it that it did not learn from) and guesses the other half, and then
the other way round. Every person is scored once, by an attacker that never saw that person.

The figures of fresh attackers come from test people, so they must not influence the choice between defences, which
uses the panel's figure on validation people.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fedveil.attacks.attack import Attack
from fedveil.attacks.judgement import FRESH
from fedveil.attacks.trial import Attempt, Question, attempted
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

WORTHWHILE = 40
"""The least number of people (or groups) with each value if nobody asked for fresh attackers: with fewer, they learn
from so few that trying them adds luck rather than strength."""

_CALIBRATES = 0.2
"""The share of a half that is used for calibration."""


@dataclass(frozen=True, eq=False)
class Halves:
    """The two questions that halves of the victims ask each other: one learns, the other is attacked.

    Attributes:
        half: 0 or 1 for each victim.
        questions: entry i is asked by half i about the other half.
    """

    half: IntArray
    questions: tuple[Question, Question]

    @classmethod
    def of(
        cls, view: View, attribute: str, look: Callable[[Pool], FloatArray], seed: int, share: float = 1.0
    ) -> Halves:
        """Halve a view's victims.

        Args:
            view: its victims are halved; its other pools are ignored.
            attribute: what attackers infer.
            look: which part of each vector they see.
            seed: for the halves.
            share: which part of a half's learning people attackers get, whole groups at a time.
        """
        people = view.victims
        half = halves(people.attributes[attribute].codes, people.groups, child_seed(seed, "halves", attribute))
        first, second = (
            Question.ask(_halved(view, attribute, half == side, side, seed, share), attribute, look) for side in (0, 1)
        )
        return cls(half, (first, second))

    def attempt(self, name: str, make: Callable[[], Attack]) -> Attempt:
        """Return an attacker's guesses about the calibration parts, and about all victims in their original order."""
        guessed = [attempted(name, make(), question) for question in self.questions]
        order = np.concatenate([np.flatnonzero(self.half != side) for side in (0, 1)])
        return Attempt(
            name + FRESH,
            _joined([attempt.validation for attempt in guessed]),
            _joined([attempt.victims for attempt in guessed], np.argsort(order)),
            learned_from=round(sum(attempt.learned_from for attempt in guessed) / 2),
            notes=tuple(dict.fromkeys(note for attempt in guessed for note in attempt.notes)),
            parts=self.half,
        )


def _halved(view: View, attribute: str, learning: npt.NDArray[np.bool_], side: int, seed: int, share: float) -> View:
    """Return the view in which one half learns and is calibrated, and the other is attacked."""
    half = view.victims.take(learning)
    part = random_split(
        len(half),
        seed=child_seed(seed, "calibration", attribute, side),
        validation=_CALIBRATES,
        test=0.0,
        strata=half.attributes[attribute].codes,
        groups=half.groups,
    )
    auxiliary = half.take(part == Split.TRAIN)
    if share < 1:
        auxiliary = some_people(auxiliary, attribute, share, child_seed(seed, "fewer", attribute, side))
    halved = replace(
        view,
        auxiliary=auxiliary,
        validation=half.take(part == Split.VALIDATION),
        victims=view.victims.take(~learning),
    )
    _check_values(halved, attribute)
    return halved


def some_people(pool: Pool, attribute: str, share: float, seed: int) -> Pool:
    """Return a share of the people, evenly over the values, whole groups at a time."""
    codes = pool.attributes[attribute].codes
    split = random_split(len(pool), seed=seed, validation=1 - share, test=0.0, strata=codes, groups=pool.groups)
    return pool.take(split == Split.TRAIN)


def halves(codes: IntArray, groups: IntArray | None, seed: int) -> IntArray:
    """Return 0 or 1 for every record, so that every value is halved and groups stay whole."""
    split = random_split(len(codes), seed=seed, validation=0.5, test=0.0, strata=codes, groups=groups)
    return np.asarray(split == Split.VALIDATION, dtype=np.int64)


def enough(labels: Attribute, groups: IntArray | None, least: int = LEAST) -> bool:
    """Whether every value has enough people (or groups of them) for halves."""
    return bool((counting_units(labels.codes, len(labels.values), groups) >= least).all())


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
