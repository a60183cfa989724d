"""Multi-layer perceptrons of three sizes."""

from __future__ import annotations

from dataclasses import replace

from fedveil.attacks.attack import Attack, Labelled, evenly
from fedveil.core.arrays import FloatArray, FloatingArray
from fedveil.core.learning import Recipe, fit_network, log_posterior
from fedveil.core.randomness import numpy_generator

_MOST_PER_BATCH = 1_024


class SmallMLP(Attack):
    """One hidden layer of 64 units; Adam on the class-weighted cross-entropy, stopped on validation.

    It learns from at most 200,000 vectors: about two hundred steps per epoch, in larger batches if there are many.
    """

    name = "mlp-small"
    recipe = Recipe(hidden=(64,), learning_rate=2e-3, batch=512, fused=True)
    most_vectors = 200_000

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Train until the validation loss stalls; the best epoch is kept."""
        self.notes = ()
        part = self.capped(auxiliary, self.most_vectors, classes)
        held_out = evenly(validation, self.most_vectors // 4, classes, numpy_generator(self.seed, "validation"))
        batch = max(self.recipe.batch, min(_MOST_PER_BATCH, len(part) // 200))
        self.model_ = fit_network(
            (part.vectors, part.codes),
            (held_out.vectors, held_out.codes),
            classes,
            replace(self.recipe, batch=batch),
            even=True,
            seed=self.seed,
            device=self.device,
        )

    def scores(self, vectors: FloatingArray) -> FloatArray:
        """Return log-probabilities."""
        return log_posterior(self.model_, vectors)


class LargeMLP(SmallMLP):
    """Hidden layers of 256 and 128 units."""

    name = "mlp-large"
    recipe = Recipe(hidden=(256, 128), learning_rate=1e-3, batch=512, fused=True)


class WideMLP(SmallMLP):
    """Hidden layers of 1,024 and 64 units: no layer is smaller than in the largest adversary of our games."""

    name = "mlp-wide"
    recipe = Recipe(hidden=(1024, 64), learning_rate=1e-3, fused=True)
