"""Attackers on features of updates: static (trained on clean updates) and retrained on defended updates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from fedveil.attacks.attack import Attack, Labelled
from fedveil.attacks.strongest import largest
from fedveil.attacks.trial import Attempt, Fitted, Question, Trial
from fedveil.core import plugins
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.figures import Estimate
from fedveil.core.measures import interval
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.core.standardise import Standardiser
from fedveil.data.attribute import MISSING, Attribute
from fedveil.view import Pool, View
from fedveil_papers.rows import Figure

Read = tuple[str, str]
"""Features and an attacker's name."""

STATIC: tuple[Read, ...] = tuple(("max", name) for name in ("stru-nn", "unkwn-nn", "rbf-svm", "forest", "boosting"))
"""The paper's four attackers and boosting, on what its zoo reads."""

ADAPTIVE: tuple[Read, ...] = (
    *STATIC,
    ("recovered", "boosting"),
    ("recovered", "mlp-large"),
    ("means", "boosting"),
    ("biases", "boosting"),
    ("projection", "stru-nn"),
)
"""The same attackers, retrained, and others on features that no zoo ever saw."""


@dataclass(frozen=True)
class Reading:
    """How well one attacker reads an attribute from updates.

    Attributes:
        attribute: what is read.
        round: the updates' round; "all" if one sender's rounds were pooled.
        mode: "static" (the attacker knows only clean updates), "retrained" or "pooled".
        attacker, features: which attacker, and which features of an update it reads.
        accuracy, balanced_accuracy, auc: measured on test people.
        prior: the accuracy of always guessing the most frequent value.
        validation: the balanced accuracy on validation people, by which shields are chosen.
    """

    attribute: str
    round: int | str
    mode: str
    attacker: str
    features: str
    accuracy: Figure | None
    balanced_accuracy: Figure | None
    auc: Figure | None
    prior: Figure | None
    validation: float

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Reading:
        """Return a reading from its JSON values."""
        measures = {name: Figure.of(values[name]) for name in MEASURES}
        return cls(**{**values, **measures})

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        return asdict(self)


MEASURES = ("accuracy", "balanced_accuracy", "auc", "prior")


def strongest(readings: Sequence[Reading]) -> Reading:
    """Return the attacker that reads test people best, with an interval that holds although the largest was taken.

    Its figure on validation people, by which shields are chosen, is the largest of all: no choice sees test people.
    """
    measured = [reading for reading in readings if reading.balanced_accuracy is not None] or list(readings)
    figures = [_estimate(reading.balanced_accuracy) for reading in measured]
    first, read = largest(figures)
    validation = max(reading.validation for reading in readings)
    return replace(measured[first], balanced_accuracy=Figure.of(read), validation=validation)


def _estimate(figure: Figure | None) -> Estimate:
    if figure is None:
        return Estimate(math.nan, math.nan, math.nan)
    return Estimate(
        figure.estimate,
        figure.estimate if figure.low is None else figure.low,
        figure.estimate if figure.high is None else figure.high,
    )


@dataclass(frozen=True, eq=False)
class Features:
    """Features, by name, of three pools of clients: auxiliary, validation and victims."""

    pools: tuple[dict[str, FloatArray], dict[str, FloatArray], dict[str, FloatArray]]
    labels: tuple[dict[str, Attribute], dict[str, Attribute], dict[str, Attribute]]
    groups: tuple[IntArray | None, IntArray | None, IntArray | None]

    def view(self, how: str, attribute: str, victims: Features | None = None) -> View:
        """Return the view of an attacker that learns from these clients and attacks their victims, or other features'.

        Clients with a value that fewer than two people of some pool have are left out: it can neither be learned nor
        judged.
        """
        sources = [self, self, self if victims is None else victims]
        labels = [source.labels[index][attribute] for index, source in enumerate(sources)]
        common = np.flatnonzero(np.min([label.counts for label in labels], axis=0) > 1)
        pools = []
        for index, (source, label) in enumerate(zip(sources, labels, strict=True)):
            codes = np.where(np.isin(label.codes, common), label.codes, MISSING)
            labels_in_common = {attribute: Attribute(attribute, codes, label.values)}
            pools.append(Pool(source.pools[index][how], labels_in_common, source.groups[index]))
        return View.apart(*pools).about(attribute)


@dataclass(eq=False)
class Readers:
    """Attackers on features; attackers on clean updates are trained once, and tried on every defence."""

    clean: Features
    seed: int = 0
    draws: int = 400
    confidence: float = 0.95
    _static: dict[tuple[str, str, str], tuple[Standardiser, Fitted, Question]] = field(default_factory=dict)

    def static(self, victims: Features, attribute: str, reads: Sequence[Read], round: int | str) -> list[Reading]:
        """Try attackers that know only clean updates."""
        return [
            self._reading(self._try_static(victims, attribute, how, name), attribute, round, "static", how)
            for how, name in reads
        ]

    def retrained(
        self, defended: Features, attribute: str, reads: Sequence[Read], round: int | str, mode: str = "retrained"
    ) -> list[Reading]:
        """Try attackers that learned from updates that went through the same shield."""
        readings = []
        for how, name in reads:
            question = Question.ask(defended.view(how, attribute), attribute, _vectors)
            trial = Trial.run(name, self._attack(attribute, how, name), question, self.draws, self._rng(attribute))
            readings.append(self._reading(trial, attribute, round, mode, how))
        return readings

    def _try_static(self, victims: Features, attribute: str, how: str, name: str) -> Trial:
        key = (attribute, how, name)
        view = self.clean.view(how, attribute, victims)
        if key not in self._static:
            question = Question.ask(view, attribute, _vectors)
            fitted = Fitted.on(name, self._attack(attribute, how, name), question)
            self._static[key] = Standardiser.fit(view.auxiliary.vectors), fitted, question
        scale, fitted, question = self._static[key]
        attacked = Labelled(scale.apply(view.victims.vectors), view.victims.attributes[attribute].codes)
        on_validation, on_victims = fitted.says(question.validation), fitted.says(attacked)
        attempt = Attempt(name, on_validation, on_victims, question.learned_from)
        return Trial.of(attempt, view.victims.groups, self.draws, self._rng(attribute))

    def _attack(self, attribute: str, how: str, name: str) -> Attack:
        kind = plugins.load("fedveil.attacks", name, Attack)
        attack: Attack = kind(seed=child_seed(self.seed, "reader", attribute, how, name), device="auto")
        return attack

    def _rng(self, attribute: str) -> np.random.Generator:
        return numpy_generator(self.seed, "bootstrap", attribute)  # the same draws for all: differences are paired

    def _reading(self, trial: Trial, attribute: str, round: int | str, mode: str, how: str) -> Reading:
        figures = trial.figures(self.confidence)
        return Reading(
            attribute=attribute,
            round=round,
            mode=mode,
            attacker=trial.name,
            features=how,
            accuracy=Figure.of(figures.accuracy),
            balanced_accuracy=Figure.of(figures.balanced_accuracy),
            auc=Figure.of(figures.auc),
            prior=Figure.of(interval(trial.draws["prior"], self.confidence)),
            validation=trial.validation_balanced_accuracy,
        )


def _vectors(pool: Pool) -> FloatArray:
    return pool.vectors
