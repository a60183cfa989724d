"""RecUP-FL's two networks that read updates (Cui et al. 2023, §5.4)."""

from __future__ import annotations

from fedveil.attacks.mlp import SmallMLP
from fedveil.core.learning import Recipe


class StructureKnown(SmallMLP):
    """Stru-NN: three fully connected layers, as the defender's zoo has them.

    The paper trains it by plain SGD at .01 for 80 epochs, unweighted; here by Adam on the class-weighted cross-entropy,
    stopped on validation: an attacker that learns more, and does not look harmless on an uneven attribute.
    """

    name = "stru-nn"
    recipe = Recipe(hidden=(512, 256), learning_rate=5e-4, most_epochs=30, patience=4)


class StructureUnknown(SmallMLP):
    """Unkwn-NN: hidden layers of 1024, 1024, 512 and 128, which no member of the zoo has."""

    name = "unkwn-nn"
    recipe = Recipe(hidden=(1024, 1024, 512, 128), learning_rate=3e-4, most_epochs=30, patience=4)
