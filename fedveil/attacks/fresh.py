"""Attackers who learn from fresh people: those whom the defence was never fitted on.

A panel's attackers learn from the people who trained the defence. A defence that balances exactly these people, as a
map fitted on their counts does, is a little off on others; whoever has labelled people of his own can read that. So
people whom no defence was fitted on are cut in two halves, whole groups at a time: an attacker learns from one half
(and calibrates its decision on a part of that half that it did not learn from), says what it reads of the other half,
and then the other way round. Every person is scored once, by an attacker that never saw that person.

Which of several fresh attackers counts is decided by what each says of the parts that calibrate. These are test
people, so no choice between defences may look at that figure: it stays with the panel's figure on validation people.
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
"""People (or groups) of every value below which halves, and parts of halves, would lack some value."""

_CALIBRATES = 0.25
"""The share of a half that calibrates."""


@dataclass(frozen=True)
class CrossTrial:
    """How an attacker's trial on victims is made of its work on halves.

    Attributes:
        seed: the halves derive from it.
        draws: bootstrap draws.
        bootstrap: makes the generator behind them; the same for all attackers, so that differences are paired.
    """

    seed: int
    draws: int
    bootstrap: Callable[[], np.random.Generator]

    def run(
        self, name: str, make: Callable[[], Attack], view: View, attribute: str, look: Callable[[Pool], FloatArray]
    ) -> Trial:
        """Return the trial of an attacker on all victims; what it says of the parts that calibrate ranks it."""
        seen, made = self.predictions(name, make, view, attribute, look)
        return Trial.of(name + FRESH, seen, made, view.victims.groups, self.draws, self.bootstrap())

    def predictions(
        self, name: str, make: Callable[[], Attack], view: View, attribute: str, look: Callable[[Pool], FloatArray]
    ) -> tuple[Predictions, Predictions]:
        """Return what is said of the parts that calibrate, and of all victims in their own order."""
        people = view.victims
        half = halves(people.attributes[attribute].codes, people.groups, child_seed(self.seed, "halves", attribute))
        seen, found = [], []
        for side in (0, 1):
            own, other = people.take(half == side), people.take(half != side)
            part = random_split(
                len(own),
                seed=child_seed(self.seed, "calibration", attribute, side),
                validation=_CALIBRATES,
                test=0.0,
                strata=own.attributes[attribute].codes,
                groups=own.groups,
            )
            asked = replace(
                view,
                auxiliary=own.take(part == Split.TRAIN),
                validation=own.take(part == Split.VALIDATION),
                victims=other,
            )
            _check_values(asked, attribute)
            inner, outer = tried(name, make(), Question.ask(asked, attribute, look))
            seen.append(inner)
            found.append(outer)
        order = np.concatenate([np.flatnonzero(half != side) for side in (0, 1)])
        return _joined(seen), _joined(found, np.argsort(order))


def halves(codes: IntArray, groups: IntArray | None, seed: int) -> IntArray:
    """Return 0 or 1 for every record: halves of every value, whole groups at a time."""
    split = random_split(len(codes), seed=seed, validation=0.5, test=0.0, strata=codes, groups=groups)
    return np.asarray(split == Split.VALIDATION, dtype=np.int64)


def enough(labels: Attribute, groups: IntArray | None) -> bool:
    """Whether every value has people enough (or groups of them) for halves."""
    return bool((counting_units(labels.codes, len(labels.values), groups) >= LEAST).all())


def check_enough(people: Pool, attribute: str) -> None:
    """Refuse people among whom a value is too rare for halves."""
    labels = people.attributes[attribute]
    units = counting_units(labels.codes, len(labels.values), people.groups)
    if not enough(labels, people.groups):
        rare, what = int(units.argmin()), "people" if people.groups is None else "groups of people"
        raise InputError(
            f"fresh attackers: {labels.values[rare]!r} of {attribute!r} has {units[rare]} test {what}, and halves need "
            f"{LEAST}; merge it with another value, or leave fresh attackers out"
        )


def _check_values(view: View, attribute: str) -> None:
    """Refuse halves in which grouped people left a value out."""
    for pool in (view.auxiliary, view.validation, view.victims):
        labels = pool.attributes[attribute]
        if (labels.counts == 0).any():
            lost = labels.values[int(labels.counts.argmin())]
            raise InputError(
                f"fresh attackers: whole groups cannot be halved so that {lost!r} of {attribute!r} is in every part; "
                "leave fresh attackers out"
            )


def _joined(parts: Sequence[Predictions], order: IntArray | None = None) -> Predictions:
    """Put predictions about several sets of people behind each other; priors are averaged."""
    place = np.arange(sum(len(one.codes) for one in parts)) if order is None else order
    return Predictions(
        codes=np.concatenate([one.codes for one in parts])[place],
        balanced=np.concatenate([one.balanced for one in parts])[place],
        plain=np.concatenate([one.plain for one in parts])[place],
        log_posterior=np.concatenate([one.log_posterior for one in parts])[place],
        prior=np.mean([one.prior for one in parts], axis=0),
    )
