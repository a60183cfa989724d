"""Task heads on released representations: what a defence leaves of the use, and of whose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from scipy.special import log_softmax

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.figures import Estimate
from fedveil.core.measures import Predictions, counting_units, figures_of, resampled, smoothed_interval
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.core.standardise import Standardiser
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import Split
from fedveil.federation.head_kinds import HEADS, Lesson, fit_kind
from fedveil.federation.release import Releases
from fedveil.federation.utility import Utility
from fedveil.shields.message import Kind

if TYPE_CHECKING:
    from fedveil.federation.run import Run


def fit_heads(
    run: Run,
    tasks: Sequence[str],
    *,
    seed: int = 0,
    heads: Sequence[str] = ("mlp",),
    draws: int = 1000,
    releases: Releases | None = None,
) -> list[Utility]:
    """Train heads of these kinds per task on the training people's representations, and score the best on test people.

    The best is the one with the highest accuracy on validation people; ties go to the one named first. A task is
    the data's target or any of its attributes: the representation is released once and serves them all. `releases` are
    the run's, where they are computed already.
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
    vectors = {split: scale.apply(releases.of(split)) for split in Split}
    return [_fit(task, vectors, kinds) for task in labels]


def score_outputs(run: Run, *, seed: int = 0, draws: int = 1000, releases: Releases | None = None) -> Utility:
    """Score the game's own outputs, as released, on the data's target: the same figures, of the model itself."""
    target = run.federation.data.y
    if target is None:
        raise InputError("outputs are scored on the data's target, but it has none; load it with target=…")
    task = _Task.of(run, target.name, seed, draws)
    releases = releases or Releases(run)
    scores = {split: releases.of(split, Kind.OUTPUT) for split in (Split.VALIDATION, Split.TEST)}
    if scores[Split.TEST].shape[1:] != (len(target.values),):
        raise InputError(
            f"{run.game.name} gives outputs of shape {scores[Split.TEST].shape[1:]} for {len(target.values)} values of "
            f"{target.name!r}; it must give one score per value"
        )
    posteriors = {split: log_softmax(values[task.known[split]], axis=1) for split, values in scores.items()}
    right = posteriors[Split.VALIDATION].argmax(axis=1) == task.codes[Split.VALIDATION]
    return task.score(posteriors[Split.TEST], "model", {"model": float(right.mean())})


@dataclass(frozen=True, eq=False)
class _Task:
    """A label to be predicted, and who carries it."""

    run: Run
    label: Attribute
    known: Mapping[Split, npt.NDArray[np.bool_]]
    codes: Mapping[Split, IntArray]
    seed: int
    draws: int

    @classmethod
    def of(cls, run: Run, task: str, seed: int, draws: int) -> _Task:
        data = run.federation.data
        label = data.label(task)
        known = {split: label.take(data.rows(split)).known for split in Split}
        codes = {split: label.codes[data.rows(split)][known[split]] for split in Split}
        for split in Split:
            if not len(codes[split]):
                raise InputError(f"task {task!r}: no labelled records in {split.name.lower()}; choose another task")
        return cls(run, label, known, codes, child_seed(seed, "head", task), draws)

    def score(self, posterior: FloatArray, head: str, validation: dict[str, float]) -> Utility:
        """Score log-probabilities for the test people who carry the label."""
        data, classes = self.run.federation.data, len(self.label.values)
        guesses, truth = posterior.argmax(axis=1), self.codes[Split.TEST]
        prior = np.bincount(self.codes[Split.TRAIN], minlength=classes) / len(self.codes[Split.TRAIN])
        rows = data.rows(Split.TEST)[self.known[Split.TEST]]
        groups = None if data.groups is None else data.groups[rows]
        made = Predictions(truth, guesses, guesses, posterior, np.clip(prior, 1e-9, 1))
        draws = resampled(made, groups, self.draws, numpy_generator(self.seed, "bootstrap"))
        found = figures_of(draws, made.recalls[0], counting_units(truth, classes, groups), 0.95)
        return Utility(
            task=self.label.name,
            accuracy=found["accuracy"],
            balanced_accuracy=found["balanced_accuracy"],
            prior=float(np.bincount(truth).max() / len(truth)),
            by_group={
                name: _by_value(attribute.take(rows), guesses == truth, groups)
                for name, attribute in data.attributes.items()
            },
            head=head,
            validation_accuracy=validation[head],
            heads=validation,
            draws=draws["accuracy"],
        )


def _fit(task: _Task, vectors: Mapping[Split, FloatArray], kinds: Sequence[str]) -> Utility:
    seen = {split: vectors[split][task.known[split]] for split in Split}
    train, validation = ((seen[split], task.codes[split]) for split in (Split.TRAIN, Split.VALIDATION))
    lesson = Lesson(train, validation, len(task.label.values), task.seed, task.run.federation.device)
    fitted = {kind: fit_kind(kind, lesson) for kind in kinds}
    right = {kind: float((head(validation[0]).argmax(axis=1) == validation[1]).mean()) for kind, head in fitted.items()}
    best = max(kinds, key=lambda kind: right[kind])
    return task.score(fitted[best](seen[Split.TEST]), best, right)


def _by_value(own: Attribute, right: npt.NDArray[np.bool_], groups: IntArray | None) -> dict[str, Estimate]:
    """Return the share that was right among the people of each value."""
    found = {}
    for code, value in enumerate(own.values):
        whose = own.codes == code
        if whose.any():
            share = float(right[whose].mean())
            units = int(whose.sum()) if groups is None else len(np.unique(groups[whose]))
            low, high = smoothed_interval(np.array([share]), np.array([units]), 0.95)
            found[value] = Estimate(share, min(low, share), max(high, share))
    return found
