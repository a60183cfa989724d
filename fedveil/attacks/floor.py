"""The floor: what a task's label alone gives away about an attribute."""

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
    """Estimate how well u is guessed from y: "balanced_accuracy" and "accuracy", on test people.

    Symbols: y the task's label (the data's target or one of its attributes), u the attribute. Balanced accuracy is
    served best by guessing argmax_u P(y | u), accuracy by argmax_u P(u, y); both tables are counted on training and
    validation people. Ties go to the first value. Records that lack either label are left out.

    Meaning: whoever can do the task perfectly with a release can guess u at least so well. A release on which the
    task is done worse may lie below the floor. It is an estimate, with a bootstrap interval over test people; a task
    that is the attribute itself gives all of it away, 1.
    """
    label, secret = data.label(task), data.attribute(attribute)
    if task == attribute:
        certain = Estimate(1.0, 1.0, 1.0, confidence)
        return {"balanced_accuracy": certain, "accuracy": certain}
    known = label.known & secret.known
    fitted = np.flatnonzero(known & (data.split != Split.TEST))
    rows = np.flatnonzero(known & (data.split == Split.TEST))
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
    unseen = joint.sum(axis=0) == 0  # of a label that nobody carried before, only the prior is left
    joint[:, unseen] = of_u
    y, u = label.codes[rows], secret.codes[rows]
    posterior = np.log(np.clip(joint / joint.sum(axis=0), 1e-9, 1)).T
    made = Predictions(u, given_u.argmax(axis=0)[y], joint.argmax(axis=0)[y], posterior[y], np.clip(prior, 1e-9, 1))
    groups = None if data.groups is None else data.groups[rows]
    drawn = resampled(made, groups, draws, numpy_generator(seed, "floor", task, attribute))
    found = figures_of(drawn, made.recalls[0], counting_units(u, classes, groups), confidence)
    return {name: found[name] for name in ("balanced_accuracy", "accuracy")}
