"""Who reads updates: attackers on features of them, static (trained on clean ones) and retrained on defended ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedveil.attacks.attack import Attack, Labelled
from fedveil.attacks.trial import Fitted, Question, Trial
from fedveil.core import plugins
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.measures import interval
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.core.standardise import Standardiser
from fedveil.data.attribute import MISSING, Attribute
from fedveil.view import Pool, View

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
"""The same, retrained, and features that no zoo ever saw."""


@dataclass(frozen=True, eq=False)
class Features:
    """Features of three pools of clients by their name: auxiliary, validation and victims."""

    pools: tuple[dict[str, FloatArray], dict[str, FloatArray], dict[str, FloatArray]]
    labels: tuple[dict[str, Attribute], dict[str, Attribute], dict[str, Attribute]]
    groups: tuple[IntArray | None, IntArray | None, IntArray | None]

    def view(self, how: str, attribute: str, victims: Features | None = None) -> View:
        """Let an attacker learn from these clients, and attack these victims or others' features of them.

        Clients with a value that fewer than two people of some pool have are left out: nobody can learn or judge it.
        """
        sources = [self, self, self if victims is None else victims]
        labels = [own.labels[place][attribute] for place, own in enumerate(sources)]
        common = np.flatnonzero(np.min([one.counts for one in labels], axis=0) > 1)
        made = []
        for place, (own, label) in enumerate(zip(sources, labels, strict=True)):
            kept = Attribute(attribute, np.where(np.isin(label.codes, common), label.codes, MISSING), label.values)
            made.append(Pool(own.pools[place][how], {attribute: kept}, own.groups[place]))
        return View.apart(*made).about(attribute)


@dataclass(eq=False)
class Readers:
    """Attackers on features; those trained on clean updates are trained once, and tried on every defence."""

    clean: Features
    seed: int = 0
    draws: int = 400
    confidence: float = 0.95
    _static: dict[tuple[str, str, str], tuple[Standardiser, Fitted, Question]] = field(default_factory=dict)

    def static(self, victims: Features, attribute: str, reads: Sequence[Read]) -> list[dict[str, Any]]:
        """Try attackers who know clean updates only."""
        return [self._try_static(victims, attribute, how, name) for how, name in reads]

    def retrained(self, defended: Features, attribute: str, reads: Sequence[Read]) -> list[dict[str, Any]]:
        """Try attackers who learned from updates that went through the same shield."""
        found = []
        for how, name in reads:
            question = Question.ask(defended.view(how, attribute), attribute, _vectors)
            trial = Trial.run(name, self._attack(attribute, how, name), question, self.draws, self._rng(attribute))
            found.append(self._row(trial, how))
        return found

    def _try_static(self, victims: Features, attribute: str, how: str, name: str) -> dict[str, Any]:
        key = (attribute, how, name)
        view = self.clean.view(how, attribute, victims)
        if key not in self._static:
            question = Question.ask(view, attribute, _vectors)
            fitted = Fitted.on(name, self._attack(attribute, how, name), question)
            self._static[key] = Standardiser.fit(view.auxiliary.vectors), fitted, question
        scale, fitted, question = self._static[key]
        attacked = Labelled(scale.apply(view.victims.vectors), view.victims.attributes[attribute].codes)
        seen, made = fitted.says(question.validation), fitted.says(attacked)
        trial = Trial.of(name, seen, made, view.victims.groups, self.draws, self._rng(attribute))
        return self._row(trial, how)

    def _attack(self, attribute: str, how: str, name: str) -> Attack:
        kind = plugins.load("fedveil.attacks", name, Attack)
        made: Attack = kind(seed=child_seed(self.seed, "reader", attribute, how, name), device="auto")
        return made

    def _rng(self, attribute: str) -> np.random.Generator:
        return numpy_generator(self.seed, "bootstrap", attribute)  # the same draws for all: differences are paired

    def _row(self, trial: Trial, how: str) -> dict[str, Any]:
        figures = trial.figures(self.confidence).as_dict()
        kept = {name: figures[name] for name in ("accuracy", "balanced_accuracy", "auc")}
        prior = interval(trial.draws["prior"], self.confidence).as_dict()
        return {
            "attacker": trial.name,
            "features": how,
            **kept,
            "prior": prior,
            "validation": trial.validation_balanced_accuracy,
        }


def strongest(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the attacker that counts: the best by validation people, never by the victims."""
    return max(rows, key=lambda row: float(row["validation"]))


def _vectors(pool: Pool) -> FloatArray:
    return pool.vectors
