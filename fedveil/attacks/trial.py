"""One attacker's trial: fitted on auxiliary vectors, calibrated on validation, scored on victims.

Calibration turns an attacker's scores into a posterior and into its two best decisions. One scale and one shift per
class (vector scaling) are fitted by maximum likelihood on validation records, twice: with the classes weighted evenly,
for the decision that is judged by balanced accuracy, and unweighted, for the decision that is judged by plain accuracy
and for the posterior from which information is computed. A weak prior keeps both fits near the original scores if
validation is small.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax

from fedveil.attacks.attack import Attack, Labelled
from fedveil.attacks.judgement import AttackerFigures
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.measures import Predictions, counting_units, figures_of, resampled_together, smoothed_interval
from fedveil.core.standardise import Standardiser
from fedveil.view import Pool, View

_SCALE_FIRMNESS = 0.05
"""How firmly the prior holds the scale: an attacker that is always right must be able to become certain."""


@dataclass(frozen=True, eq=False)
class Question:
    """Standardised vectors and codes of the three pools: what an attacker learns from, and what it is asked about.

    Attributes:
        auxiliary: what attackers learn from.
        validation: what they are calibrated and ranked on.
        victims: what they are scored on.
        groups: the group that each victim's vector belongs to, or None.
        classes: how many values the attribute has.
        learned_from: how many people (or groups) attackers learn from.
    """

    auxiliary: Labelled
    validation: Labelled
    victims: Labelled
    groups: IntArray | None
    classes: int
    learned_from: int

    @property
    def prior(self) -> FloatArray:
        """Class frequencies in the attacker's data."""
        codes = np.concatenate([self.auxiliary.codes, self.validation.codes])
        return np.bincount(codes, minlength=self.classes) / len(codes)

    @classmethod
    def ask(cls, view: View, attribute: str, look: Callable[[Pool], FloatArray]) -> Question:
        """Return the question about the part of each vector that `look` shows, standardised by the attacker's data."""
        scale = Standardiser.fit(look(view.auxiliary))

        def labelled(pool: Pool) -> Labelled:
            return Labelled(scale.apply(look(pool)), pool.attributes[attribute].codes)

        return cls(
            auxiliary=labelled(view.auxiliary),
            validation=labelled(view.validation),
            victims=labelled(view.victims),
            groups=view.victims.groups,
            classes=len(view.victims.attributes[attribute].values),
            learned_from=view.auxiliary.people,
        )


@dataclass(frozen=True, eq=False)
class Attempt:
    """An attacker's guesses, before they are measured.

    Attributes:
        name: the attacker's name.
        validation: guesses about validation records, by which it is ranked.
        victims: guesses about victims.
        learned_from: how many people (or groups) it learned from.
        notes: what the attacker left out, such as vectors above a cap.
        parts: for each victim, which of several fitted attackers guessed it; None if one guessed all.
    """

    name: str
    validation: Predictions
    victims: Predictions
    learned_from: int = 0
    notes: tuple[str, ...] = ()
    parts: IntArray | None = None


@dataclass(frozen=True, eq=False)
class Trial:
    """An attacker's measures in every bootstrap draw (entry 0 is the sample itself), and its figures on validation."""

    attempt: Attempt
    draws: dict[str, FloatArray]
    recalls: FloatArray
    units: IntArray
    validation_balanced_accuracy: float
    validation_information: float
    validation_units: FloatArray
    validation_recalls: FloatArray

    @property
    def name(self) -> str:
        """The attacker's name."""
        return self.attempt.name

    @classmethod
    def run(cls, name: str, attack: Attack, question: Question, draws: int, rng: np.random.Generator) -> Trial:
        """Fit, calibrate and score one attacker."""
        return cls.of(attempted(name, attack, question), question.groups, draws, rng)

    @classmethod
    def of(cls, attempt: Attempt, groups: IntArray | None, draws: int, rng: np.random.Generator) -> Trial:
        """Measure one attacker's guesses."""
        return measured([attempt], groups, draws, rng)[0]

    def on_validation(self, confidence: float) -> Estimate:
        """Return the balanced accuracy on validation people with its interval, for this attacker alone."""
        point = self.validation_balanced_accuracy
        low, high = smoothed_interval(self.validation_recalls, self.validation_units, confidence)
        return Estimate(point, min(low, point), max(high, point), confidence)

    def figures(self, confidence: float) -> AttackerFigures:
        """Return the figures with intervals at a level of confidence, for this attacker alone."""
        figures = figures_of(self.draws, self.recalls, self.units, confidence)
        names = ("accuracy", "gap", "balanced_accuracy", "auc", "advantage", "mutual_information_bits")
        return AttackerFigures(
            name=self.name,
            **{name: figures[name] for name in names},
            validation_balanced_accuracy=self.validation_balanced_accuracy,
        )


def measured(attempts: Sequence[Attempt], groups: IntArray | None, draws: int, rng: np.random.Generator) -> list[Trial]:
    """Measure several attackers' guesses about the same victims, by the same draws: differences are paired."""
    first = attempts[0].victims
    units = counting_units(first.codes, len(first.prior), groups)
    trials = []
    all_draws = resampled_together([attempt.victims for attempt in attempts], groups, draws, rng)
    for attempt, resamples in zip(attempts, all_draws, strict=True):
        (recalls, counts), (on_validation, validation_counts) = attempt.victims.recalls, attempt.validation.recalls
        trials.append(
            Trial(
                attempt=attempt,
                draws=resamples if attempt.parts is None else _as_of_one_half(resamples),
                recalls=recalls,
                units=units if attempt.parts is None else units // 2,
                validation_balanced_accuracy=float(on_validation.mean()),
                validation_information=-float(attempt.validation.surprise.mean()),
                # validation records come in groups as large as those of victims
                validation_units=validation_counts * units / np.maximum(counts, 1),
                validation_recalls=on_validation,
            )
        )
    return trials


def _as_of_one_half(resamples: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """Stretch the draws about the sample by √2, as if only one half of the victims had been guessed.

    If halves teach each other's attackers, the two halves' figures are not independent: where the vectors say nothing,
    a chance resemblance of the halves raises both. The deviation of their mean is at most that of one half, which is √2
    times what draws of all victims show (`studies/attacker_coverage.py`: without this, 92% instead of 97%).
    """
    entropy = resamples["entropy"]
    highest = {"accuracy": 1.0, "balanced_accuracy": 1.0, "auc": 1.0, "advantage": 1.0}
    stretched = {}
    for name, values in resamples.items():
        if name in ("prior", "entropy"):  # about the victims, whoever guesses
            stretched[name] = values
            continue
        wider = values[0] + np.sqrt(2) * (values - values[0])
        if name == "mutual_information_bits":
            wider = np.clip(wider, 0, entropy)
        elif name in highest:
            wider = np.clip(wider, -1 if name == "advantage" else 0, highest[name])
        stretched[name] = wider
    return stretched


@dataclass(frozen=True, eq=False)
class Calibration:
    """log p(u | r) ∝ scale · (score_u − centre_u) + shift_u."""

    scale: float
    shift: FloatArray
    centre: FloatArray

    def log_posterior(self, scores: FloatArray) -> FloatArray:
        """Return calibrated log-probabilities (natural logarithm)."""
        return np.asarray(log_softmax(self.scale * (scores - self.centre) + self.shift, axis=1), dtype=np.float64)

    @classmethod
    def fit(cls, scores: FloatArray, codes: IntArray, weights: FloatArray, start: FloatArray) -> Calibration:
        """Maximise the weighted likelihood of the codes; the prior pulls the shift towards `start`."""
        n, classes = scores.shape
        centre = scores.mean(axis=0)  # so that scores may have any offset
        scores = scores - centre
        spread = float(scores.std()) or 1.0
        one_hot = np.eye(classes)[codes]
        weights = weights * (n / weights.sum())

        def loss(parameters: FloatArray) -> tuple[float, FloatArray]:
            log_scale, shift = parameters[0], parameters[1:]
            scaled = np.exp(log_scale) * scores / spread
            log_p = log_softmax(scaled + shift, axis=1)
            error = weights[:, None] * (np.exp(log_p) - one_hot)
            pull = firmness * (parameters - origin)
            value = -float((weights * log_p[np.arange(n), codes]).sum()) + 0.5 * float(pull @ (parameters - origin))
            slope = np.concatenate([[float((error * scaled).sum())], error.sum(axis=0)]) + pull
            return value / n, slope / n

        origin = np.concatenate([[np.log(spread)], start])
        firmness = np.array([_SCALE_FIRMNESS] + [1.0] * classes)
        bounds = [(np.log(spread) - 10, np.log(spread) + 10)] + [(-20.0, 20.0)] * classes
        fit = minimize(loss, origin, jac=True, method="L-BFGS-B", bounds=bounds)
        return cls(float(np.exp(fit.x[0]) / spread), np.asarray(fit.x[1:], dtype=np.float64), centre)


def calibrate(scores: FloatArray, codes: IntArray, prior: FloatArray) -> tuple[Calibration, Calibration]:
    """Return the calibration with evenly weighted classes, for balanced decisions, and the unweighted one."""
    classes = scores.shape[1]
    even = 1.0 / (classes * np.bincount(codes, minlength=classes))[codes]
    balanced = Calibration.fit(scores, codes, even, np.zeros(classes))
    natural = Calibration.fit(scores, codes, np.ones(len(codes)), np.log(prior))
    return balanced, natural


@dataclass(frozen=True, eq=False)
class Fitted:
    """A fitted attacker with its calibration."""

    name: str
    attack: Attack
    calibration: tuple[Calibration, Calibration]
    prior: FloatArray

    @classmethod
    def on(cls, name: str, attack: Attack, question: Question) -> Fitted:
        """Fit an attacker and calibrate it on validation."""
        attack.fit(question.auxiliary, question.validation, question.classes)
        scores = _checked(name, attack.scores(question.validation.vectors), question.validation, question.classes)
        return cls(name, attack, calibrate(scores, question.validation.codes, question.prior), question.prior)

    def says(self, about: Labelled) -> Predictions:
        """Return its guesses about some vectors."""
        scores = _checked(self.name, self.attack.scores(about.vectors), about, len(self.prior))
        balanced, natural = (calibration.log_posterior(scores) for calibration in self.calibration)
        return Predictions(about.codes, balanced.argmax(axis=1), natural.argmax(axis=1), natural, self.prior)


def attempted(name: str, attack: Attack, question: Question) -> Attempt:
    """Fit an attacker, calibrate it on validation, and let it guess about validation records and victims."""
    fitted = Fitted.on(name, attack, question)
    return Attempt(
        name, fitted.says(question.validation), fitted.says(question.victims), question.learned_from, attack.notes
    )


def _checked(name: str, scores: FloatArray, about: Labelled, classes: int) -> FloatArray:
    """Refuse broken scores, since a broken attacker must not make a release look safe."""
    values = np.asarray(scores, dtype=np.float64)
    finite = bool(np.isfinite(values).all())
    if values.shape != (len(about), classes) or not finite:
        raise InputError(
            f"attacker {name!r} gave scores of shape {values.shape} for {len(about)} vectors and {classes} values"
            f"{'' if finite else ', some of them NaN or infinite'}; it must return one finite score for each"
        )
    return values
