"""One attacker's trial: fitted on auxiliary vectors, calibrated on validation, scored on victims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from fedveil.attacks.attack import Attack, Labelled
from fedveil.attacks.calibration import Calibration, calibrate
from fedveil.attacks.judgement import AttackerFigures
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.measures import Predictions, counting_units, figures_of, resampled
from fedveil.core.standardise import Standardiser
from fedveil.view import Pool, View


@dataclass(frozen=True, eq=False)
class Question:
    """Standardised vectors and codes of the three pools, and what was known of the classes beforehand."""

    auxiliary: Labelled
    validation: Labelled
    victims: Labelled
    groups: IntArray | None
    classes: int

    @property
    def prior(self) -> FloatArray:
        """Class frequencies in the attacker's own data."""
        codes = np.concatenate([self.auxiliary.codes, self.validation.codes])
        return np.bincount(codes, minlength=self.classes) / len(codes)

    @classmethod
    def ask(cls, view: View, attribute: str, look: Callable[[Pool], FloatArray]) -> Question:
        """Pose the question about what `look` shows of each vector, standardised by the attacker's own data."""
        scale = Standardiser.fit(look(view.auxiliary))

        def labelled(pool: Pool) -> Labelled:
            return Labelled(scale.apply(look(pool)), pool.attributes[attribute].codes)

        return cls(
            auxiliary=labelled(view.auxiliary),
            validation=labelled(view.validation),
            victims=labelled(view.victims),
            groups=view.victims.groups,
            classes=len(view.victims.attributes[attribute].values),
        )


@dataclass(frozen=True, eq=False)
class Trial:
    """An attacker's measures under every bootstrap draw (entry 0: the sample itself), and its rank on validation."""

    name: str
    draws: dict[str, FloatArray]
    recalls: FloatArray
    units: IntArray
    validation_balanced_accuracy: float
    validation_information: float

    @classmethod
    def run(cls, name: str, attack: Attack, question: Question, draws: int, rng: np.random.Generator) -> Trial:
        """Fit, calibrate and score one attacker."""
        seen, made = tried(name, attack, question)
        return cls.of(name, seen, made, question.groups, draws, rng)

    @classmethod
    def of(
        cls,
        name: str,
        seen: Predictions,
        made: Predictions,
        groups: IntArray | None,
        draws: int,
        rng: np.random.Generator,
    ) -> Trial:
        """Measure what an attacker says of validation records, by which it is ranked, and of victims."""
        return cls(
            name=name,
            draws=resampled(made, groups, draws, rng),
            recalls=made.recalls[0],
            units=counting_units(made.codes, len(made.prior), groups),
            validation_balanced_accuracy=float(seen.recalls[0].mean()),
            validation_information=-float(seen.surprise.mean()),
        )

    def figures(self, confidence: float) -> AttackerFigures:
        """Summarise the draws at a level of confidence."""
        found = figures_of(self.draws, self.recalls, self.units, confidence)
        names = ("accuracy", "gap", "balanced_accuracy", "auc", "advantage", "mutual_information_bits")
        return AttackerFigures(
            name=self.name,
            **{name: found[name] for name in names},
            validation_balanced_accuracy=self.validation_balanced_accuracy,
        )


@dataclass(frozen=True, eq=False)
class Fitted:
    """An attacker that has learned, with the calibration that its validation records gave it."""

    name: str
    attack: Attack
    calibration: tuple[Calibration, Calibration]
    prior: FloatArray

    @classmethod
    def on(cls, name: str, attack: Attack, question: Question) -> Fitted:
        """Fit an attacker, and calibrate it on validation."""
        attack.fit(question.auxiliary, question.validation, question.classes)
        scores = _checked(name, attack.scores(question.validation.vectors), question.validation, question.classes)
        return cls(name, attack, calibrate(scores, question.validation.codes, question.prior), question.prior)

    def says(self, of: Labelled) -> Predictions:
        """Return what it says of some vectors."""
        scores = _checked(self.name, self.attack.scores(of.vectors), of, len(self.prior))
        return _predict(scores, of.codes, self.calibration, self.prior)


def tried(name: str, attack: Attack, question: Question) -> tuple[Predictions, Predictions]:
    """Fit an attacker, calibrate it on validation, and return what it says of validation records and of victims."""
    fitted = Fitted.on(name, attack, question)
    return fitted.says(question.validation), fitted.says(question.victims)


def _checked(name: str, scores: FloatArray, of: Labelled, classes: int) -> FloatArray:
    """Refuse scores that would pass for harmless: a broken attacker must not look like a safe release."""
    made = np.asarray(scores, dtype=np.float64)
    if made.shape != (len(of), classes) or not np.isfinite(made).all():
        raise InputError(
            f"attacker {name!r} gave scores of shape {made.shape} for {len(of)} vectors and {classes} values"
            f"{'' if np.isfinite(made).all() else ', some of them NaN or infinite'}; it must give one finite score each"
        )
    return made


def _predict(
    scores: FloatArray, codes: IntArray, calibration: tuple[Calibration, Calibration], prior: FloatArray
) -> Predictions:
    balanced, natural = (one.log_posterior(scores) for one in calibration)
    return Predictions(codes, balanced.argmax(axis=1), natural.argmax(axis=1), natural, prior)
