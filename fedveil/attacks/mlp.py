"""Multi-layer perceptrons of three sizes."""

from __future__ import annotations

from fedveil.attacks.attack import Attack, Labelled
from fedveil.core.arrays import FloatArray
from fedveil.core.learning import Recipe, fit_network, log_posterior


class SmallMLP(Attack):
    """One hidden layer of 64 units; Adam on the class-weighted cross-entropy, stopped on validation."""

    name = "mlp-small"
    recipe = Recipe(hidden=(64,), learning_rate=2e-3)

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Train until the validation loss stalls; the best epoch is kept."""
        self.model_ = fit_network(
            (auxiliary.vectors, auxiliary.codes),
            (validation.vectors, validation.codes),
            classes,
            self.recipe,
            even=True,
            seed=self.seed,
            device=self.device,
        )

    def scores(self, vectors: FloatArray) -> FloatArray:
        """Return log-probabilities."""
        return log_posterior(self.model_, vectors)


class LargeMLP(SmallMLP):
    """Hidden layers of 256 and 128 units."""

    name = "mlp-large"
    recipe = Recipe(hidden=(256, 128), learning_rate=1e-3)


class WideMLP(SmallMLP):
    """Hidden layers of 1,024 and 64 units: no layer is smaller than in the largest adversary of our games."""

    name = "mlp-wide"
    recipe = Recipe(hidden=(1024, 64), learning_rate=1e-3)
