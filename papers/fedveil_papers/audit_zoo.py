"""Classifiers for audits to be tried on: standard ones as vendors train them, curious ones of every kind made here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from fedveil.audit.outputs import Outputs
from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.games.curious import Curious
from fedveil_papers.audit_vendors import by_scikit_learn
from fedveil_papers.curious.classifier import Classifier
from fedveil_papers.curious.distillation import dealt, distil
from fedveil_papers.curious.federated import fine_tune, from_run
from fedveil_papers.curious.mixture import Mixture
from fedveil_papers.curious.training import train

STANDARD = ("network", "logistic", "boosting", "forest")
CURIOUS = ("parameterised", "regularised", "hard-mixture", "normal-mixture", "devices", "server", "distilled")

Maker = Literal[
    "network",
    "logistic",
    "boosting",
    "forest",
    "parameterised",
    "regularised",
    "hard-mixture",
    "normal-mixture",
    "devices",
    "server",
    "distilled",
]


@dataclass(frozen=True)
class Recipe:
    """How one classifier is made.

    Attributes:
        maker: who trains it. Standard: "network" (F alone), scikit-learn's "logistic", "boosting", "forest". Curious:
            "parameterised", "regularised", a mixture of two networks, a federation whose "devices" run the server's
            loss or whose "server" fine-tunes it afterwards on half of the validation people, or a network "distilled"
            from a parameterised one by a user who has 30% of the training people and no labels.
        output: what is released.
        beta_x, beta_y, beta_s: weights of compression, honesty and curiosity; a mixture's β_y.
        widths: F's layers; the game's own where none.
        epochs: passes, or a federation's rounds.
        records: at most so many training records.
        overfitted: keep the epoch that does best on the training records themselves.
        secrets: how many of the case's attributes the outputs shall carry; the first is audited.
    """

    maker: Maker
    output: Literal["raw", "soft"] = "raw"
    beta_x: float = 0.0
    beta_y: float = 0.7
    beta_s: float = 0.3
    widths: list[int] = field(default_factory=list)
    epochs: int = 8
    records: int | None = None
    overfitted: bool = False
    secrets: int = 1

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.secrets < 1:
            raise InputError("a recipe needs at least 1 epoch and 1 secret")
        self.game(("s",))

    @property
    def curious(self) -> bool:
        """Whether it is trained to carry the secret."""
        return self.maker in CURIOUS

    def game(self, secrets: tuple[str, ...]) -> Curious:
        """Return the game of whoever trains a network."""
        betas = (self.beta_x, self.beta_y, self.beta_s) if self.curious else (0.0, 1.0, 0.0)
        return Curious(
            secrets,
            "regularised" if self.maker == "regularised" else "parameterised",
            self.output,
            *betas,
            widths=tuple(self.widths),
            form="server" if self.maker == "server" else "devices",
        )


@dataclass(frozen=True, eq=False)
class Made:
    """A classifier as others meet it: what it answers of a split's people, and what its maker reads in that."""

    outputs: Callable[[Split], Outputs]
    guesses: Callable[[Outputs], IntArray] | None


def make(recipe: Recipe, data: AttributeData, secrets: tuple[str, ...], seed: int) -> Made:
    """Train a classifier; the first secret is the one that its maker is asked to read."""
    asked = secrets[: recipe.secrets]
    if len(asked) < recipe.secrets:
        raise InputError(f"a recipe hides {recipe.secrets} attributes, and the case has {len(secrets)}: name more")
    data = _fewer(data, recipe.records, seed)
    if recipe.maker in ("logistic", "boosting", "forest"):
        return Made(by_scikit_learn(recipe.maker, recipe.output == "raw", data, seed), None)
    if recipe.maker in ("hard-mixture", "normal-mixture"):
        return _mixture(recipe, data, asked[0], seed)
    game = recipe.game(asked)
    learnt = _chosen_on_training(data) if recipe.overfitted else data
    if recipe.maker in ("devices", "server"):
        found = _federated(recipe, game, learnt, seed)
    elif recipe.maker == "distilled":
        server, user = dealt(learnt, 0.3, seed)
        teacher = train(game, server, epochs=recipe.epochs, seed=seed)
        found = distil(teacher, user, epochs=2 * recipe.epochs, seed=seed)
    else:
        found = train(game, learnt, epochs=recipe.epochs, seed=seed)
    return _of_network(found, data, asked[0])


def _of_network(found: Classifier, data: AttributeData, secret: str) -> Made:
    return Made(lambda split: found.outputs(data, split), lambda outputs: found.guesses(outputs, secret))


def _federated(recipe: Recipe, game: Curious, data: AttributeData, seed: int) -> Classifier:
    from fedveil.federation import Federation

    run = Federation(data, devices=10, seed=seed).play(game, rounds=recipe.epochs)
    if recipe.maker == "devices":
        return from_run(run)
    # The server's own people: one half of the validation records is trained on, the other chooses the epoch.
    rows = data.rows(Split.VALIDATION)
    own = data.take(rows)
    split = np.where(np.arange(len(rows)) % 2, Split.VALIDATION, Split.TRAIN).astype(np.int8)
    return fine_tune(run, replace(own, split=split), epochs=2 * recipe.epochs, seed=seed)


def _mixture(recipe: Recipe, data: AttributeData, secret: str, seed: int) -> Made:
    """Train one network for y, one for s, and mix what they say."""
    y, s = data.y, data.attribute(secret)
    assert y is not None
    reads = {y.name: replace(data, attributes={secret: s}), secret: replace(data, y=s, attributes={y.name: y})}
    soft = []
    for place, (own, other) in enumerate(((y.name, secret), (secret, y.name))):
        game = replace(recipe.game((other,)), beta_y=1.0, beta_s=0.0, output="soft")
        plain = replace(reads[own], tasks={})
        found = train(game, plain, epochs=recipe.epochs, seed=child_seed(seed, "mixture", str(place)))
        soft.append((found, plain))
    mixture = Mixture(recipe.beta_y, recipe.maker == "hard-mixture")

    def outputs(split: Split) -> Outputs:
        rows = data.rows(split)
        z_y, z_s = (found.outputs(own, split).scores for found, own in soft)
        return mixture.outputs(z_y, z_s, y.take(rows), s.take(rows), None if data.groups is None else data.groups[rows])

    return Made(outputs, lambda held: mixture.read(held.scores, len(s.values))[1])


def _fewer(data: AttributeData, records: int | None, seed: int) -> AttributeData:
    """Return the data with at most so many training records."""
    rows = data.rows(Split.TRAIN)
    if records is None or records >= len(rows):
        return data
    drawn = numpy_generator(seed, "audit zoo", "records").choice(rows, size=records, replace=False)
    return data.take(np.sort(np.concatenate([drawn, np.flatnonzero(data.split != Split.TRAIN)])))


def _chosen_on_training(data: AttributeData) -> AttributeData:
    """Return training records twice, once in place of the validation records: who selects by them overfits."""
    rows = data.rows(Split.TRAIN)
    split = np.repeat(np.array([Split.TRAIN, Split.VALIDATION], dtype=np.int8), len(rows))
    return replace(data.take(np.concatenate([rows, rows])), split=split)
