"""Task heads on released representations: how much utility a defence leaves, and to which groups.

A head is fitted on training people, stopped or tuned on validation people, and returns log-probabilities of the K
labels; every record counts equally.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax
from threadpoolctl import threadpool_limits

from fedveil.certificates.tappfl_theorems import ClassifierConstants
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.figures import Estimate
from fedveil.core.learning import Recipe, fit_network, log_posterior
from fedveil.core.measures import Predictions, counting_units, figures_of, resampled, smoothed_interval
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.core.standardise import Standardiser
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import Split
from fedveil.federation.release import Releases
from fedveil.federation.utility import Utility
from fedveil.shields.message import Kind

if TYPE_CHECKING:
    from fedveil.federation.run import Run

Posterior = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class Lesson:
    """What a head learns from.

    Attributes:
        train: standardised vectors and codes of training people.
        validation: the same of validation people.
        classes: how many labels there are.
        seed: all randomness of the head derives from it.
        device: the torch device for networks.
    """

    train: tuple[FloatArray, IntArray]
    validation: tuple[FloatArray, IntArray]
    classes: int
    seed: int
    device: str = "auto"


def mlp_head(lesson: Lesson) -> Posterior:
    """One hidden layer of 64 units, the epoch chosen by validation loss."""
    model = fit_network(
        lesson.train, lesson.validation, lesson.classes, Recipe(), even=False, seed=lesson.seed, device=lesson.device
    )
    return lambda vectors: log_posterior(model, vectors)


def boosting_head(lesson: Lesson) -> Posterior:
    """Gradient-boosted trees, stopped when the validation loss no longer improves; ties are broken by the seed."""
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
    )  # takes a second to import

    (vectors, codes), (held_out, truth) = lesson.train, lesson.validation
    usable = np.isin(truth, codes)  # the library refuses labels that it has not seen
    stopping = {"X_val": held_out[usable], "y_val": truth[usable]} if usable.any() else {}
    model = HistGradientBoostingClassifier(
        max_iter=200,
        min_samples_leaf=int(np.clip(len(codes) // 40, 2, 20)),
        learning_rate=0.08,
        early_stopping=bool(stopping),
        n_iter_no_change=10,
        random_state=lesson.seed % 2**32,
    )
    with threadpool_limits(1, user_api="openmp"):  # sums in a fixed order; threads would only wait for each other
        model.fit(vectors, codes, **stopping)
    return _spread(model, lesson.classes)


def logistic_head(lesson: Lesson) -> Posterior:
    """Multinomial logistic regression, the penalty chosen by validation accuracy; ties go to the stronger one."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    held_out, truth = lesson.validation
    best_accuracy, best_model = -1.0, None
    for inverse_penalty in (0.01, 0.3, 10.0):
        model = LogisticRegression(C=inverse_penalty, max_iter=500)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # judged on validation people like any other
            model.fit(*lesson.train)
        accuracy = float((model.predict(held_out) == truth).mean())
        if accuracy > best_accuracy:
            best_accuracy, best_model = accuracy, model
    return _spread(best_model, lesson.classes)


HEADS: dict[str, Callable[[Lesson], Posterior]] = {
    "mlp": mlp_head,
    "boosting": boosting_head,
    "logistic": logistic_head,
}


def fit_kind(kind: str, lesson: Lesson) -> Posterior:
    """Fit one kind of head; if training people have only one label, that label is always the answer."""
    labels = np.unique(lesson.train[1])
    if len(labels) == 1:
        certain = np.full(lesson.classes, np.log(1e-9))
        certain[labels[0]] = 0.0
        return lambda vectors: np.tile(certain, (len(vectors), 1))
    return HEADS[kind](lesson)


def _spread(model: Any, classes: int) -> Posterior:
    """Return a posterior with a column for every label, even for labels that no training person has."""

    def posterior(vectors: FloatArray) -> FloatArray:
        with threadpool_limits(1, user_api="openmp"):
            known_probabilities = model.predict_proba(vectors)
        probabilities = np.zeros((len(vectors), classes))
        probabilities[:, model.classes_] = known_probabilities
        return np.asarray(np.log(np.clip(probabilities, 1e-9, 1)), dtype=np.float64)

    return posterior


def fit_heads(
    run: Run,
    tasks: Sequence[str],
    *,
    seed: int = 0,
    heads: Sequence[str] = ("mlp",),
    draws: int = 1000,
    releases: Releases | None = None,
) -> list[Utility]:
    """Train heads of these kinds for each task on training people's representations; score the best on test people.

    The best head has the highest accuracy on validation people; ties go to the kind named first. A task is the data's
    target or any of its attributes: the representation is released once and serves all tasks. `releases` are the
    run's, if they have been computed.
    """
    kinds = tuple(dict.fromkeys(heads))
    for kind in kinds:
        if kind not in HEADS:
            raise InputError(f"no head {kind!r}: {nearest(kind, HEADS)}")
    if not kinds:
        raise InputError(f"no head is named; choose some of {', '.join(HEADS)}")
    labels = [_Task.of(run, task, seed, draws) for task in tasks]
    releases = releases or Releases(run)
    scale = Standardiser.fit(releases.of(Split.TRAIN))
    vectors = {split: scale.apply(releases.of(split)).astype(np.float64) for split in Split}
    return [_fit(task, vectors, kinds, releases.of(Split.TEST)) for task in labels]


def score_outputs(run: Run, *, seed: int = 0, draws: int = 1000, releases: Releases | None = None) -> Utility:
    """Score the outputs of the game, as released, on the data's target: the figures of a head, for the model itself."""
    target = run.federation.data.y
    if target is None:
        raise InputError("outputs are scored on the data's target, but it has none; load it with target=…")
    task = _Task.of(run, target.name, seed, draws)
    releases = releases or Releases(run)
    scores = {split: releases.of(split, Kind.OUTPUT) for split in (Split.VALIDATION, Split.TEST)}
    if scores[Split.TEST].shape[1:] != (len(target.values),):
        raise InputError(
            f"{run.game.name} returns outputs of shape {scores[Split.TEST].shape[1:]} for {len(target.values)} values "
            f"of {target.name!r}; it must return one score per value"
        )
    posteriors = {split: log_softmax(values[task.labelled[split]], axis=1) for split, values in scores.items()}
    right = posteriors[Split.VALIDATION].argmax(axis=1) == task.codes[Split.VALIDATION]
    return task.score(posteriors[Split.TEST], scores[Split.TEST], "model", {"model": float(right.mean())})


@dataclass(frozen=True, eq=False)
class _Task:
    """A label to be predicted.

    Attributes:
        run: the run whose releases are read.
        label: the label of all records.
        labelled: by split, which of its records have the label.
        codes: by split, the codes of those records.
        seed: all randomness of the task's heads and scores derives from it.
        draws: how many bootstrap draws.
    """

    run: Run
    label: Attribute
    labelled: Mapping[Split, npt.NDArray[np.bool_]]
    codes: Mapping[Split, IntArray]
    seed: int
    draws: int

    @classmethod
    def of(cls, run: Run, task: str, seed: int, draws: int) -> _Task:
        data = run.federation.data
        label = data.label(task)
        labelled = {split: label.take(data.rows(split)).known for split in Split}
        codes = {split: label.codes[data.rows(split)][labelled[split]] for split in Split}
        for split in Split:
            if not len(codes[split]):
                raise InputError(f"task {task!r}: no labelled records in {split.name.lower()}; choose another task")
        return cls(run, label, labelled, codes, child_seed(seed, "head", task), draws)

    def score(self, posterior: FloatArray, released: FloatArray, head: str, validation: dict[str, float]) -> Utility:
        """Score log-probabilities for the test people who have the label; `released` is of all test people."""
        data, classes = self.run.federation.data, len(self.label.values)
        guesses, truth = posterior.argmax(axis=1), self.codes[Split.TEST]
        prior = np.bincount(self.codes[Split.TRAIN], minlength=classes) / len(self.codes[Split.TRAIN])
        rows = data.rows(Split.TEST)[self.labelled[Split.TEST]]
        groups = None if data.groups is None else data.groups[rows]
        predictions = Predictions(truth, guesses, guesses, posterior, np.clip(prior, 1e-9, 1))
        draws = resampled(predictions, groups, self.draws, numpy_generator(self.seed, "bootstrap"))
        figures = figures_of(draws, predictions.recalls[0], counting_units(truth, classes, groups), 0.95)
        return Utility(
            task=self.label.name,
            accuracy=figures["accuracy"],
            balanced_accuracy=figures["balanced_accuracy"],
            prior=float(np.bincount(truth).max() / len(truth)),
            by_group={
                name: _by_value(attribute.take(rows), guesses == truth, groups)
                for name, attribute in data.attributes.items()
            },
            head=head,
            validation_accuracy=validation[head],
            heads=validation,
            constants=ClassifierConstants.of(_rows(released)[self.labelled[Split.TEST]], guesses)
            if classes == 2
            else None,
            draws=draws["accuracy"],
        )


def _rows(released: FloatArray) -> FloatArray:
    return released.reshape(len(released), -1)


def _fit(task: _Task, vectors: Mapping[Split, FloatArray], kinds: Sequence[str], released: FloatArray) -> Utility:
    labelled_vectors = {split: vectors[split][task.labelled[split]] for split in Split}
    train, validation = ((labelled_vectors[split], task.codes[split]) for split in (Split.TRAIN, Split.VALIDATION))
    lesson = Lesson(train, validation, len(task.label.values), task.seed, task.run.federation.device)
    fitted = {kind: fit_kind(kind, lesson) for kind in kinds}
    right = {kind: float((head(validation[0]).argmax(axis=1) == validation[1]).mean()) for kind, head in fitted.items()}
    best = max(kinds, key=lambda kind: right[kind])
    return task.score(fitted[best](labelled_vectors[Split.TEST]), released, best, right)


def _by_value(attribute: Attribute, right: npt.NDArray[np.bool_], groups: IntArray | None) -> dict[str, Estimate]:
    """Return the share of correct answers among the people of each value."""
    shares = {}
    for code, value in enumerate(attribute.values):
        members = attribute.codes == code
        if members.any():
            share = float(right[members].mean())
            units = int(members.sum()) if groups is None else len(np.unique(groups[members]))
            low, high = smoothed_interval(np.array([share]), np.array([units]), 0.95)
            shares[value] = Estimate(share, min(low, share), max(high, share))
    return shares
