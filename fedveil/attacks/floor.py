"""The floor: how well an attribute can be guessed from a task's label alone."""

from __future__ import annotations

import numpy as np

from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.measures import Predictions, counting_units, figures_of, resampled
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute_data import AttributeData, Split


def floor(
    data: AttributeData, task: str, attribute: str, seed: int = 0, draws: int = 1000, confidence: float = 0.95
) -> dict[str, Estimate]:
    """Estimate how well u can be guessed from y: "balanced_accuracy" and "accuracy", on test people.

    Symbols: y the task's label (the data's target or one of its attributes), u the attribute. Guessing
    argmax_u P(y | u) is best for balanced accuracy, argmax_u P(u, y) for accuracy; both tables are counted on training
    and validation people. Of equally likely values the first is guessed. Records that lack either label are left out.

    Meaning: whoever can solve the task perfectly from a release can guess u at least this well. If the task is solved
    less well from a release, leakage may be below the floor. It is an estimate, with a bootstrap interval over test
    people; for a task that is the attribute itself it is 1.
    """
    label, secret = data.label(task), data.attribute(attribute)
    if task == attribute:
        certain = Estimate(1.0, 1.0, 1.0, confidence)
        return {"balanced_accuracy": certain, "accuracy": certain}
    both = label.known & secret.known
    fitted = np.flatnonzero(both & (data.split != Split.TEST))
    rows = np.flatnonzero(both & (data.split == Split.TEST))
    if not len(fitted) or len(np.unique(secret.codes[rows])) < 2:
        raise InputError(
            f"floor of {task!r} on {attribute!r}: needs labelled records to count, and test people with at least two "
            f"values of {attribute!r}; choose another attribute"
        )
    classes = len(secret.values)
    joint = np.zeros((classes, len(label.values)))
    np.add.at(joint, (secret.codes[fitted], label.codes[fitted]), 1)
    of_u = joint.sum(axis=1, keepdims=True)
    given_u = joint / np.maximum(of_u, 1)
    prior = of_u[:, 0] / of_u.sum()
    unseen = joint.sum(axis=0) == 0  # for a label that never occurred before, only the prior is left
    joint[:, unseen] = of_u
    y, u = label.codes[rows], secret.codes[rows]
    posterior = np.log(np.clip(joint / joint.sum(axis=0), 1e-9, 1)).T
    guesses = (given_u.argmax(axis=0)[y], joint.argmax(axis=0)[y])
    predictions = Predictions(u, *guesses, posterior[y], np.clip(prior, 1e-9, 1))
    groups = None if data.groups is None else data.groups[rows]
    resamples = resampled(predictions, groups, draws, numpy_generator(seed, "floor", task, attribute))
    figures = figures_of(resamples, predictions.recalls[0], counting_units(u, classes, groups), confidence)
    return {name: figures[name] for name in ("balanced_accuracy", "accuracy")}
