"""Classifiers to try audits on: standard ones, as vendors train them, and every kind of curious one trained here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from fedveil.audit.outputs import Outputs
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.data import AttributeData, Split, find_source
from fedveil.data.attribute import MISSING, Attribute
from fedveil.federation import Federation
from fedveil.games.curious import Curious
from fedveil_papers.audit_verdicts.digit_codes import KINDS, write_code
from fedveil_papers.curious.classifier import Classifier
from fedveil_papers.curious.distillation import dealt, distil
from fedveil_papers.curious.experiments.cases import load_once
from fedveil_papers.curious.federated import fine_tune, from_run
from fedveil_papers.curious.mixture import Mixture
from fedveil_papers.curious.training import train

CURIOUS = ("parameterised", "regularised", "hard-mixture", "normal-mixture", "devices", "server", "distilled")
MOST_AUDITED = 10_000
"""The maximum number of test records of a case."""

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
class CaseData:
    """The data that classifiers are trained on: one source with a target and an attribute.

    Attributes:
        name: what the case is called.
        source, options: the data source and its options.
        target: y, a target of the source, another of its tasks, or an attribute (the inputs then lack it).
        joined: another label; y is then the pair of both.
        secret: s, which is audited.
        further: other attributes that outputs may carry as well.
        records: the maximum number of training records; validation has at most a third of that.
        merge: coarser values of s.
        merge_target: coarser values of y.
        seed: a number added to the experiment's seed.
    """

    name: str
    source: str
    target: str
    secret: str
    options: dict[str, Any] = field(default_factory=dict)
    further: list[str] = field(default_factory=list)
    records: int = 6000
    merge: dict[str, str] = field(default_factory=dict)
    merge_target: dict[str, str] = field(default_factory=dict)
    joined: str = ""
    seed: int = 0

    @property
    def secrets(self) -> tuple[str, ...]:
        """All attributes that outputs may carry, the audited one first."""
        return (self.secret, *self.further)

    def load(self, seed: int) -> AttributeData:
        """Load the data with this target, s merged, and at most as many records of each split as allowed."""
        seed += self.seed
        source = find_source(self.source)
        target = self.target if not source.targets or self.target in source.targets else source.targets[0]
        is_attribute = target != self.target and self.target in source.attributes
        hidden = (*self.secrets, self.target) if is_attribute else self.secrets
        data = load_once(self.source, target=target, sensitive=hidden, options=self.options, seed=seed)
        y = data.attribute(self.target) if is_attribute else data.label(self.target)
        if self.joined:
            y = _pair(y, data.label(self.joined))
        if self.merge_target:
            y = y.merge(y.name, self.merge_target)
        kept = {name: data.attribute(name) for name in self.secrets}
        if self.merge:
            kept[self.secret] = kept[self.secret].merge(self.secret, self.merge)
        data = replace(data, y=y, attributes=kept, tasks={})
        data = data.take(y.known & np.logical_and.reduce([data.attribute(name).known for name in self.secrets]))
        rng = numpy_generator(seed, "audit case")
        most = {Split.TRAIN: self.records, Split.VALIDATION: self.records // 3, Split.TEST: MOST_AUDITED}
        rows = np.concatenate([rng.permutation(data.rows(split))[:count] for split, count in most.items()])
        data = data.take(rows)  # test records stay shuffled: an audit of fewer takes the first of them
        if len(data.rows(Split.TEST)) < 200:
            raise InputError(f"case {self.name!r}: has fewer than 200 test records; take more")
        return data


@dataclass(frozen=True, kw_only=True)
class AuditCase(CaseData):
    """A case of the experiment: its data, and what is done with it.

    Attributes:
        half: whether it is used to choose limits ("calibration") or to report on them ("report").
        recipes: the classifiers trained, by the recipes' names.
        curve: the recipes that are also audited with fewer and with more rows.
    """

    half: Literal["calibration", "report"]
    recipes: list[str]
    curve: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Recipe:
    """How one classifier is trained.

    Attributes:
        maker: who trains it. Standard: "network" (F alone), scikit-learn's "logistic", "boosting", "forest". Curious:
            "parameterised", "regularised", a mixture of two networks, a federation whose "devices" run the server's
            loss or whose "server" fine-tunes it afterwards on half of the validation records, or a network "distilled"
            from a parameterised one by a user who has 30% of the training records and no labels.
        output: what is released.
        beta_x, beta_y, beta_s: weights of compression, honesty and curiosity; a mixture's β_y.
        widths: F's layers; default: the game's.
        epochs: passes, or a federation's rounds.
        records: the maximum number of training records; default: all of the case's.
        overfitted: whether the epoch that does best on the training records is chosen.
        secrets: how many of the case's attributes the outputs are trained to carry; the first is audited.
        code: the kind of code (`digit_codes.KINDS`) that is written into the finished classifier's probabilities.
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
    code: str = ""

    def __post_init__(self) -> None:
        if self.code and (self.code not in KINDS or self.curious):
            raise InputError(f"a recipe's code goes with a standard maker: {nearest(self.code, KINDS)}")
        if self.epochs < 1 or self.secrets < 1:
            raise InputError("a recipe needs at least 1 epoch and 1 secret")
        self.game(("s",))

    @property
    def curious(self) -> bool:
        """Whether it is trained to carry the secret."""
        return self.maker in CURIOUS

    def game(self, secrets: tuple[str, ...]) -> Curious:
        """Return the game by which a network is trained."""
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
class ZooClassifier:
    """A classifier as an auditor meets it.

    Attributes:
        outputs: what it releases of a split's records.
        guesses: what its maker reads in outputs; None if the maker has no attack.
    """

    outputs: Callable[[Split], Outputs]
    guesses: Callable[[Outputs], IntArray] | None


def make(recipe: Recipe, data: AttributeData, secrets: tuple[str, ...], seed: int) -> ZooClassifier:
    """Train a classifier; the maker reads the first secret."""
    hidden = secrets[: recipe.secrets]
    if len(hidden) < recipe.secrets:
        raise InputError(f"a recipe hides {recipe.secrets} attributes, and the case has {len(secrets)}: name more")
    data = _fewer(data, recipe.records, seed)
    if recipe.code:
        plain = make(replace(recipe, code=""), data, secrets, seed)

        def coded(split: Split) -> Outputs:
            rng = numpy_generator(seed, "digit code", recipe.code, int(split))
            return write_code(recipe.code, plain.outputs(split), hidden[0], rng)

        return ZooClassifier(coded, None)
    if recipe.maker in ("logistic", "boosting", "forest"):
        return ZooClassifier(_by_scikit_learn(recipe.maker, recipe.output == "raw", data, seed), None)
    if recipe.maker in ("hard-mixture", "normal-mixture"):
        return _mixture(recipe, data, hidden[0], seed)
    game = recipe.game(hidden)
    training = _chosen_on_training(data) if recipe.overfitted else data
    classifier = _trained(recipe, game, training, seed)
    return ZooClassifier(
        lambda split: classifier.outputs(data, split), lambda outputs: classifier.guesses(outputs, hidden[0])
    )


def _trained(recipe: Recipe, game: Curious, data: AttributeData, seed: int) -> Classifier:
    if recipe.maker in ("devices", "server"):
        return _federated(recipe, game, data, seed)
    if recipe.maker == "distilled":
        server, user = dealt(data, 0.3, seed)
        teacher = train(game, server, epochs=recipe.epochs, seed=seed)
        return distil(teacher, user, epochs=2 * recipe.epochs, seed=seed)
    return train(game, data, epochs=recipe.epochs, seed=seed)


def _federated(recipe: Recipe, game: Curious, data: AttributeData, seed: int) -> Classifier:
    run = Federation(data, devices=10, seed=seed).play(game, rounds=recipe.epochs)
    if recipe.maker == "devices":
        return from_run(run)
    # The server holds the validation records: it trains on one half, and the other half chooses the epoch.
    rows = data.rows(Split.VALIDATION)
    split = np.where(np.arange(len(rows)) % 2, Split.VALIDATION, Split.TRAIN).astype(np.int8)
    return fine_tune(run, replace(data.take(rows), split=split), epochs=2 * recipe.epochs, seed=seed)


def _mixture(recipe: Recipe, data: AttributeData, secret: str, seed: int) -> ZooClassifier:
    """Train one network for y and one for s, and mix their outputs."""
    y, s = data.y, data.attribute(secret)
    assert y is not None
    trained = []
    for index, (target, other) in enumerate(((y, s), (s, y))):
        game = replace(recipe.game((other.name,)), beta_y=1.0, beta_s=0.0, output="soft")
        labelled = replace(data, y=target, attributes={other.name: other}, tasks={})
        network = train(game, labelled, epochs=recipe.epochs, seed=child_seed(seed, "mixture", str(index)))
        trained.append((network, labelled))
    mixture = Mixture(recipe.beta_y, recipe.maker == "hard-mixture")

    def outputs(split: Split) -> Outputs:
        rows = data.rows(split)
        z_y, z_s = (network.outputs(labelled, split).scores for network, labelled in trained)
        return mixture.outputs(z_y, z_s, y.take(rows), s.take(rows), None if data.groups is None else data.groups[rows])

    return ZooClassifier(outputs, lambda mixed: mixture.read(mixed.scores, len(s.values))[1])


def _by_scikit_learn(maker: str, raw: bool, data: AttributeData, seed: int) -> Callable[[Split], Outputs]:
    """Fit a classifier of scikit-learn with its default settings, as vendors use it; raw scores are log p."""
    kinds: dict[str, Any] = {
        "logistic": lambda: LogisticRegression(max_iter=500),
        "boosting": lambda: HistGradientBoostingClassifier(random_state=seed),
        "forest": lambda: RandomForestClassifier(random_state=seed),
    }
    assert data.y is not None
    y = data.y
    training = data.rows(Split.TRAIN)
    if len(np.unique(y.codes[training])) < len(y.values):
        raise InputError(f"{data.name}: a value of {y.name!r} has no training record; take more records")
    flat = data.x.reshape(len(data.x), -1)
    fitted = kinds[maker]().fit(flat[training], y.codes[training])

    def outputs(split: Split) -> Outputs:
        rows = data.rows(split)
        scores: FloatArray = fitted.predict_proba(flat[rows]).astype(np.float64)
        if raw:
            scores = np.log(np.maximum(scores, 1e-12))
        secrets = {name: attribute.take(rows) for name, attribute in data.attributes.items()}
        groups = None if data.groups is None else data.groups[rows]
        return Outputs.checked(scores, raw, y.take(rows), secrets, groups)

    return outputs


def _pair(first: Attribute, second: Attribute) -> Attribute:
    """Return the attribute whose values are the pairs of two attributes' values."""
    known = first.known & second.known
    codes = np.where(known, first.codes * len(second.values) + second.codes, MISSING)
    values = tuple(f"{a}, {b}" for a in first.values for b in second.values)
    return Attribute(f"{first.name} and {second.name}", codes, values)


def _fewer(data: AttributeData, records: int | None, seed: int) -> AttributeData:
    """Return the data with at most this many training records."""
    rows = data.rows(Split.TRAIN)
    if records is None or records >= len(rows):
        return data
    drawn = numpy_generator(seed, "audit zoo", "records").choice(rows, size=records, replace=False)
    return data.take(np.sort(np.concatenate([drawn, np.flatnonzero(data.split != Split.TRAIN)])))


def _chosen_on_training(data: AttributeData) -> AttributeData:
    """Return the training records twice, once as validation records: choosing an epoch on them overfits."""
    rows = data.rows(Split.TRAIN)
    split = np.repeat(np.array([Split.TRAIN, Split.VALIDATION], dtype=np.int8), len(rows))
    return replace(data.take(np.concatenate([rows, rows])), split=split)
