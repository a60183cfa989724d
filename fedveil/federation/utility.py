"""How well a task can be solved with what was released: the figures of a task head, or of the model's own outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fedveil.certificates.tappfl_theorems import ClassifierConstants
from fedveil.core.arrays import FloatArray
from fedveil.core.figures import Estimate


@dataclass(frozen=True)
class Utility:
    """How well a task can be solved with what was released.

    Attributes:
        task: the label that the head predicts.
        accuracy: on test people, with an interval.
        balanced_accuracy: the same, with all labels counting equally.
        prior: accuracy of always guessing the most frequent label.
        by_group: accuracy for each value of each sensitive attribute: what a defence costs each group.
        head: the kind of head that was chosen on validation people; "model" if the outputs of the game were scored.
        validation_accuracy: the accuracy on validation people by which it was chosen.
        heads: validation accuracy of every kind that was tried.
        constants: R and C_L of TAPPFL's printed Theorem 1 for the chosen head, on what test people released; None if
            the task has more than two labels, or if an earlier version computed the figures.
        draws: accuracy on the test people (entry 0) and on each bootstrap draw of them. For one seed and task the
            draws are the same people in every run, so differences between runs are paired. Empty if the figures
            were read from a file.
    """

    task: str
    accuracy: Estimate
    balanced_accuracy: Estimate
    prior: float
    by_group: dict[str, dict[str, Estimate]]
    head: str
    validation_accuracy: float
    heads: dict[str, float]
    constants: ClassifierConstants | None = None
    draws: FloatArray = field(default_factory=lambda: np.empty(0), repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "task": self.task,
            "head": self.head,
            "accuracy": self.accuracy.as_dict(),
            "balanced_accuracy": self.balanced_accuracy.as_dict(),
            "prior": self.prior,
            "validation_accuracy": self.validation_accuracy,
            "by_group": {
                attribute: {value: figure.as_dict() for value, figure in values.items()}
                for attribute, values in self.by_group.items()
            },
            "heads": dict(self.heads),
            "constants": None if self.constants is None else self.constants.as_dict(),
        }
