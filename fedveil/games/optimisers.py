"""How a player descends its loss: frozen settings; the engines hold the state."""

from __future__ import annotations

from dataclasses import dataclass

from fedveil.core.errors import InputError


@dataclass(frozen=True)
class SGD:
    """w ← w − η·v with v ← μ·v + g: stochastic gradient descent, optionally with momentum.

    Attributes:
        learning_rate: the step size η.
        momentum: the share μ of the last step that is added to the next; 0 for none.
        weight_decay: how strongly weights are pulled towards 0 at every step.
    """

    learning_rate: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check(self.learning_rate, self.weight_decay)
        if not 0 <= self.momentum < 1:
            raise InputError(f"SGD: momentum must lie in [0, 1), got {self.momentum}")


@dataclass(frozen=True)
class Adam:
    """Adam (Kingma and Ba 2015) with bias correction.

    Attributes:
        learning_rate: the step size.
        beta1: how slowly the running mean of gradients forgets.
        beta2: how slowly the running mean of squared gradients forgets.
        epsilon: added to the root of the mean squared gradient, to avoid division by 0.
        weight_decay: how strongly weights are pulled towards 0 at every step.
    """

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        _check(self.learning_rate, self.weight_decay)
        if not (0 <= self.beta1 < 1 and 0 <= self.beta2 < 1 and self.epsilon > 0):
            raise InputError(f"Adam: betas must lie in [0, 1) and epsilon above 0, got {self}")


Optimiser = SGD | Adam


def _check(learning_rate: float, weight_decay: float) -> None:
    if not (0 < learning_rate < 1e38 and 0 <= weight_decay < 1e38):
        raise InputError(
            f"optimiser: learning rate {learning_rate} must be above 0, weight decay {weight_decay} not negative, and "
            "both below 1e38, which single precision can hold"
        )
