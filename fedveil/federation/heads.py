"""Task heads on released representations: what a defence leaves of the use, and of whose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from fedveil.data.attribute import Attribute, IntArray
from fedveil.data.attribute_data import Split
from fedveil.errors import InputError, nearest
from fedveil.federation.release import release
from fedveil.figures import Estimate
from fedveil.learning import Recipe, fit_network, log_posterior
from fedveil.measures import Predictions, counting_units, figures_of, resampled, smoothed_interval
from fedveil.randomness import child_seed, numpy_generator
from fedveil.standardise import Standardiser

if TYPE_CHECKING:
    from fedveil.federation.run import Run


@dataclass(frozen=True)
class Utility:
    """How well a task can be done with what was released.

    Attributes:
        task: the label that the head predicts.
        accuracy, balanced_accuracy: on test people, with intervals.
        prior: accuracy of always guessing the most frequent label.
        by_group: accuracy for each value of each sensitive attribute: a defence's cost to each group.
    """

    task: str
    accuracy: Estimate
    balanced_accuracy: Estimate
    prior: float
    by_group: dict[str, dict[str, Estimate]]

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "task": self.task,
            "accuracy": self.accuracy.as_dict(),
            "balanced_accuracy": self.balanced_accuracy.as_dict(),
            "prior": self.prior,
            "by_group": {
                attribute: {value: figure.as_dict() for value, figure in values.items()}
                for attribute, values in self.by_group.items()
            },
        }


def fit_heads(run: Run, tasks: list[str], *, seed: int = 0, recipe: Recipe | None = None) -> list[Utility]:
    """Train one head per task on the training people's representations; choose the epoch on validation, score on test.

    A task is the data's target or any of its attributes: the representation is released once and serves them all.
    """
    released = {split: release(run, split) for split in Split}
    scale = Standardiser.fit(released[Split.TRAIN])
    vectors = {split: scale.apply(values) for split, values in released.items()}
    return [_fit(run, _label(run, task), vectors, child_seed(seed, "head", task), recipe or Recipe()) for task in tasks]


def _fit(run: Run, label: Attribute, vectors: dict[Split, Any], seed: int, recipe: Recipe) -> Utility:
    data = run.federation.data
    known = {split: label.take(data.rows(split)).known for split in Split}
    codes = {split: label.take(data.rows(split)).codes[known[split]] for split in Split}
    seen = {split: vectors[split][known[split]] for split in Split}
    classes = len(label.values)
    if not len(codes[Split.TEST]) or not len(codes[Split.VALIDATION]):
        raise InputError(f"task {label.name!r}: no labelled records in validation or test; choose another task")
    model = fit_network(
        (seen[Split.TRAIN], codes[Split.TRAIN]),
        (seen[Split.VALIDATION], codes[Split.VALIDATION]),
        classes,
        recipe,
        even=False,
        seed=seed,
        device=run.federation.device,
    )
    posterior = log_posterior(model, seen[Split.TEST])
    guesses, truth = posterior.argmax(axis=1), codes[Split.TEST]
    prior = np.bincount(codes[Split.TRAIN], minlength=classes) / len(codes[Split.TRAIN])
    rows = data.rows(Split.TEST)[known[Split.TEST]]
    groups = None if data.groups is None else data.groups[rows]
    made = Predictions(truth, guesses, guesses, posterior, np.clip(prior, 1e-9, 1))
    draws = resampled(made, groups, 500, numpy_generator(seed, "bootstrap"))
    found = figures_of(draws, made.recalls[0], counting_units(truth, classes, groups), 0.95)
    by_group = {
        name: {
            value: _share_right(guesses == truth, own.codes == code, groups)
            for code, value in enumerate(own.values)
            if (own.codes == code).any()
        }
        for name, own in ((name, attribute.take(rows)) for name, attribute in data.attributes.items())
    }
    return Utility(
        task=label.name,
        accuracy=found["accuracy"],
        balanced_accuracy=found["balanced_accuracy"],
        prior=float(np.bincount(truth).max() / len(truth)),
        by_group=by_group,
    )


def _share_right(right: Any, whose: Any, groups: IntArray | None) -> Estimate:
    share = float(right[whose].mean())
    units = int(whose.sum()) if groups is None else len(np.unique(groups[whose]))
    low, high = smoothed_interval(np.array([share]), np.array([units]), 0.95)
    return Estimate(share, min(low, share), max(high, share))


def _label(run: Run, task: str) -> Attribute:
    data = run.federation.data
    labels = {**({data.y.name: data.y} if data.y else {}), **data.attributes}
    if task not in labels:
        raise InputError(f"no task {task!r} in {data.name}: {nearest(task, labels)}")
    return labels[task]
