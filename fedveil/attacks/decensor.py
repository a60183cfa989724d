"""De-censoring (Song and Shmatikov 2020): undo what an encoder hid, then infer the attribute; with a control."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import nn

from fedveil.attacks.attack import Attack, Labelled
from fedveil.attacks.judgement import Decensoring
from fedveil.attacks.trial import Question, Trial
from fedveil.core.arrays import FloatArray, FloatingArray
from fedveil.core.errors import InputError
from fedveil.core.learning import Recipe, descend, fit_network, log_posterior
from fedveil.core.measures import interval
from fedveil.core.models import mlp, pick_device
from fedveil.core.randomness import child_seed, numpy_generator, torch_generator
from fedveil.core.standardise import Standardiser
from fedveil.view import EVERY_OBSERVER, Capability, Pool, View

WIDTH = 64
"""How many features of the auxiliary encoder a censored representation is mapped back to."""

REACH = 128
"""How many hidden units the map back has."""


@dataclass(frozen=True, eq=False)
class Informed(Labelled):
    """Labelled vectors with the inputs that they were computed from, standardised."""

    inputs: FloatingArray


class Decensor(Attack):
    """Train C∘E for u on auxiliary (x, u); learn T by minimising ‖T(r) − E(x)‖²; then infer u from T(r).

    Symbols: r the censored vector, x its input, E the auxiliary encoder, C its classifier, T the map back.
    Its advantage over an attacker on r alone is the target E(x), which shows where to look. It has no information about
    victims beyond r, so it must be compared with `EqualCapacity`, not with a smaller attacker.
    """

    name = "decensor"
    needs = EVERY_OBSERVER | {Capability.INPUTS}
    recipe = Recipe(hidden=(WIDTH,), learning_rate=1e-3, patience=15)

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Learn E on inputs, T on pairs of vector and input, and the attack on T's outputs."""
        if not isinstance(auxiliary, Informed) or not isinstance(validation, Informed):
            raise InputError("decensor: these vectors have no inputs; call judge_decensoring(view, …), which adds them")
        pools = (auxiliary, validation)
        inputs = [(pool.inputs, pool.codes) for pool in pools]
        encoder = self._network(inputs[0], inputs[1], classes, "encoder")
        features = [_outputs(encoder[:-1], pool.inputs) for pool in pools]
        scale = Standardiser.fit(features[0])
        self.back_ = fit_map(
            (auxiliary.vectors, scale.apply(features[0])),
            (validation.vectors, scale.apply(features[1])),
            seed=child_seed(self.seed, "map back"),
            device=self.device,
        )
        restored = [(_outputs(self.back_, pool.vectors), pool.codes) for pool in pools]
        self.model_ = self._network(restored[0], restored[1], classes, "attack")

    def scores(self, vectors: FloatingArray) -> FloatArray:
        """Return log-probabilities from the restored vectors."""
        return log_posterior(self.model_, _outputs(self.back_, vectors))

    def _network(self, train: Any, validation: Any, classes: int, purpose: str) -> nn.Sequential:
        seed = child_seed(self.seed, purpose)
        fitted = fit_network(train, validation, classes, self.recipe, even=True, seed=seed, device=self.device)
        assert isinstance(fitted, nn.Sequential)
        return fitted


class EqualCapacity(Attack):
    """The control: one network with the layers of T and of the attack, trained on r and u alone.

    It may take as many epochs as T and the attack together; with fewer, the longer training of de-censoring would look
    like a gain.
    """

    name = "equal capacity"
    recipe = Recipe(hidden=(REACH, WIDTH, WIDTH), learning_rate=1e-3, most_epochs=120, patience=15)

    def fit(self, auxiliary: Labelled, validation: Labelled, classes: int) -> None:
        """Train until the validation loss stalls."""
        train, held_out = ((pool.vectors, pool.codes) for pool in (auxiliary, validation))
        self.model_ = fit_network(train, held_out, classes, self.recipe, even=True, seed=self.seed, device=self.device)

    def scores(self, vectors: FloatingArray) -> FloatArray:
        """Return log-probabilities."""
        return log_posterior(self.model_, vectors)


TITLES: dict[type[Attack], str] = {
    Decensor: "de-censoring",
    EqualCapacity: "equal capacity (de-censoring's control)",
}
"""The names under which the two are listed with a panel's attackers."""


def judge_decensoring(
    view: View, attribute: str, *, seed: int = 0, draws: int = 1000, confidence: float = 0.95, device: str = "auto"
) -> Decensoring:
    """Attack with and without de-censoring; the view must include inputs: `released_view(run, inputs=True)`.

    Both attackers are calibrated on validation and scored on the same victims, by the same bootstrap draws. All
    figures are estimates; the gain is in balanced accuracy.
    """
    view.require(Decensor.needs, "de-censoring")
    labelled = view.about(attribute)
    question = Question.ask(labelled, attribute, lambda pool: pool.vectors)
    scale = Standardiser.fit(_inputs(labelled.auxiliary))
    auxiliary, validation = (
        Informed(vectors.vectors, vectors.codes, scale.apply(_inputs(pool)))
        for vectors, pool in ((question.auxiliary, labelled.auxiliary), (question.validation, labelled.validation))
    )
    question = replace(question, auxiliary=auxiliary, validation=validation)
    trials = []
    for kind, title in TITLES.items():
        attacker: Attack = kind(seed=child_seed(seed, kind.name, attribute), device=device)
        trials.append(Trial.run(title, attacker, question, draws, numpy_generator(seed, "bootstrap", attribute)))
    attack, control = trials
    gain = attack.draws["balanced_accuracy"] - control.draws["balanced_accuracy"]
    return Decensoring(attribute, attack.figures(confidence), control.figures(confidence), interval(gain, confidence))


def fit_map(
    train: tuple[FloatingArray, FloatingArray],
    validation: tuple[FloatingArray, FloatingArray],
    *,
    seed: int,
    device: str = "auto",
) -> nn.Module:
    """Learn T by Adam on the squared error; the epoch with the lowest validation error is kept."""
    torch_device, generator, recipe = pick_device(device), torch_generator(seed, "network"), Decensor.recipe

    def tensor(values: FloatingArray) -> torch.Tensor:
        return torch.as_tensor(values, dtype=torch.float32, device=torch_device)

    pairs = [(tensor(r), tensor(features)) for r, features in (train, validation)]
    model = mlp([pairs[0][0].shape[1], REACH, pairs[0][1].shape[1]], generator).to(torch_device)
    return descend(model, pairs[0], pairs[1], nn.MSELoss(), recipe, 2 * recipe.most_epochs, generator)


def _outputs(model: nn.Module, vectors: FloatingArray) -> FloatArray:
    device = next(model.parameters()).device
    with torch.no_grad():
        parts = torch.split(torch.as_tensor(vectors, dtype=torch.float32, device=device), 8192)
        return torch.cat([model(part) for part in parts]).cpu().numpy().astype(np.float64)


def _inputs(pool: Pool) -> FloatArray:
    if pool.inputs is None:
        raise InputError("de-censoring: the attacker's people have no inputs; use released_view(run, inputs=True)")
    return np.asarray(pool.inputs, dtype=np.float64)
