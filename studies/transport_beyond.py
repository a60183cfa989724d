"""Transport beyond Adult's single attribute: images, two attributes, a budget for the counts, attacks on them.

Prints every figure of docs/transport-beyond.md: twenty minutes on two cores that much other work shared.
All is by retrained attackers
(panel `quick`: logistic, small network, boosting; the strongest on validation is reported) on test people they have
not seen; heads and attackers learn from training people and are chosen on validation people.
`python studies/transport_beyond.py budget` (or digits, cifar, attributes, attacks) makes one part.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from collections.abc import Iterator

import numpy as np
from scipy.optimize import linprog

from fedveil.attacks import panel
from fedveil.attacks.polls import attack_devices, attack_target
from fedveil.core.randomness import numpy_generator, torch_generator
from fedveil.core.standardise import Standardiser
from fedveil.data import AttributeData, Split, intersect, load
from fedveil.federation.heads import Lesson, fit_kind
from fedveil.federation.records import prepare_shield
from fedveil.shields.drop_columns import table_columns
from fedveil.shields.transport import Transport
from fedveil.shields.transport.columns import learn_columns
from fedveil.shields.transport.federated import People, Plan, learn_table
from fedveil.shields.transport.poll import Poll, budget
from fedveil.shields.transport.settings import MapSettings
from fedveil.view import View

WEIGHTS = {
    "age": 1.0,
    "hours-per-week": 1.0,
    "occupation": 1.0,
    "marital-status": 1.0,
    "relationship": 1.0,
    "workclass": 0.5,
    "race": 0.2,
    "native-country": 0.0,
    "fnlwgt": 0.0,
}
KEEP = {"education": 1.0, "capital-gain": 1.0, "capital-loss": 1.0}


def shown(shield: Transport, data: AttributeData, seed: int) -> np.ndarray:
    """Return what is shown of everybody, as rows of numbers."""
    u = [data.attribute(name).codes for name in shield.hidden]
    moved = shield._moved(data.x.astype(np.float64), u, torch_generator(seed, "shown"))
    if data.x.ndim == 2:
        return moved.x
    # A picture is given by its coordinates: attackers and heads need no other numbers.
    embedding = shield.chart_.embedding
    mean, deviation = embedding.common
    channel = int(deviation.argmax())
    grey = (moved.x[:, channel].reshape(len(data), -1) - mean[channel]) / deviation[channel]
    return embedding.coordinates(grey)


def head(vectors: np.ndarray, data: AttributeData, kind: str, seed: int) -> float:
    """Return the test accuracy of a head for the data's target."""
    scale = Standardiser.fit(vectors[data.rows(Split.TRAIN)])
    parts = [(scale.apply(vectors[rows]), data.y.codes[rows]) for rows in map(data.rows, Split)]
    fitted = fit_kind(kind, Lesson(parts[0], parts[1], len(data.y.values), seed))
    return float((fitted(parts[2][0]).argmax(axis=1) == parts[2][1]).mean())


def judged(vectors: np.ndarray, data: AttributeData, seed: int) -> str:
    """Return the panel's worst attacker on each attribute, in words."""
    plain = dataclasses.replace(data, x=vectors.astype(np.float32), feature_names=(), columns=())
    words = []
    for name, attribute in data.attributes.items():
        judgement = panel("quick", seed=seed, draws=300).judge(View.of_data(plain), name)
        accuracy = judgement.worst.balanced_accuracy
        words.append(
            f"{name} {accuracy.estimate:.3f} [{accuracy.low:.3f}, {accuracy.high:.3f}] by {judgement.worst.name} "
            f"(guessing {1 / len(attribute.values):.3f}; accuracy {judgement.worst.accuracy.estimate:.3f}, "
            f"prior {judgement.prior.estimate:.3f})"
        )
    return "; ".join(words)


def ceiling(data: AttributeData, name: str) -> float:
    """Return the accuracy that no answer independent of u can exceed: max over laws P of Σ_u p(u) Σ_k min(P_k, p(k|u)).

    An answer has one law P whatever u is, so among people of u at most min(P_k, p(k|u)) are rightly called k.
    """
    u, y = data.attribute(name).codes, data.y.codes
    joint = np.zeros((u.max() + 1, y.max() + 1))
    np.add.at(joint, (u, y), 1 / len(u))
    of_u = joint.sum(axis=1)
    values, kinds = joint.shape
    gain = np.concatenate([np.zeros(kinds), -np.repeat(of_u, kinds)])
    below = np.hstack([-np.tile(np.eye(kinds), (values, 1)), np.eye(values * kinds)])
    total = np.concatenate([np.ones(kinds), np.zeros(values * kinds)])[None]
    limits = [(0, 1)] * kinds + [(0, share) for share in (joint / of_u[:, None]).ravel()]
    return -float(linprog(gain, below, np.zeros(values * kinds), total, [1.0], limits).fun)


def digits() -> Iterator[str]:
    """Coloured digits, 10,000 of them: the digit is the task, its colour hidden."""
    for correlation in (0.0, 1.0):
        data = load(
            "coloured_digits", target="digit", sensitive="colour", limit=10_000, correlation=correlation, seed=0
        )
        floor = data.facts["floor"]
        yield f"digits, correlation {correlation:g}: ceiling {ceiling(data, 'colour'):.3f}, floor {floor:.3f}"
        yield from images(data, "colour", (("codes", 1.0), ("moments", 0.0), ("moments", 1.0)))


def cifar() -> Iterator[str]:
    """CIFAR-10: the class is the task; whether it is an animal is hidden."""
    data = load("cifar10", target="class", sensitive="animal", seed=0)
    yield f"cifar10: {len(data)} pictures, ceiling {ceiling(data, 'animal'):.3f}"
    yield from images(data, "animal", (("codes", 1.0), ("moments", 0.0), ("moments", 1.0)))


def images(data: AttributeData, name: str, forms: tuple[tuple[str, float], ...]) -> Iterator[str]:
    """Measure each form and strength."""
    for form, strength in forms:
        transport = Transport(name, codes=100, strength=strength, questions=60, images=form)
        shield = prepare_shield(transport, data, 0)
        vectors = shown(shield, data, 0)
        certified = ""
        if form == "codes":
            certified = f"; certified ≤ {shield.certify(data, data.rows(Split.TEST), 0).bound:.3f}"
        task = head(vectors, data, "mlp", 0)
        yield f"  {form}, strength {strength:g}: {data.y.name} {task:.3f}; {judged(vectors, data, 0)}{certified}"


def attributes() -> Iterator[str]:
    """Adult, sex and race hidden together."""
    data = load("adult", target="income", sensitive=["sex", "race"], seed=0)
    joint = intersect([data.attribute("sex"), data.attribute("race")])
    data = dataclasses.replace(data, attributes={**data.attributes, "sex × race": joint})
    weights = {name: weight for name, weight in WEIGHTS.items() if name in table_columns(data)}
    for hidden, keep, strength in ((["sex", "race"], {}, 1.0), (["sex", "race"], KEEP, 0.99), (["sex"], KEEP, 0.99)):
        transport = Transport(
            hidden,
            keep,
            strength,
            codes=40,
            temperature=0.2,
            weights=weights,
            epsilon=math.inf,
            questions=60,
            least=400 if len(hidden) == 1 else 30,
        )
        shield = prepare_shield(transport, data, 0)
        vectors = shown(shield, data, 0)
        bound = shield.certify(data, data.rows(Split.TEST), 0).bound
        yield (
            f"{' × '.join(hidden)} hidden, {'education, gain, loss kept' if keep else 'nothing kept'}: "
            f"income {head(vectors, data, 'boosting', 0):.4f}; {judged(vectors, data, 0)}; codes certified ≤ "
            f"{bound:.3f} for {shield.hidden_.count} values"
        )


def spending() -> Iterator[str]:
    """Adult, sex: what ε costs."""
    data = load("adult", target="income", sensitive="sex", seed=0)
    for keep, strength, codes, seeds in (({}, 1.0, 40, 1), (KEEP, 0.99, 30, 3)):
        for epsilon in (math.inf, 8.0, 2.0):
            for seed in range(seeds):
                transport = Transport(
                    "sex",
                    keep,
                    strength,
                    codes,
                    temperature=0.2,
                    least=400,
                    questions=30,
                    weights=WEIGHTS,
                    epsilon=epsilon,
                )
                shield = prepare_shield(transport, data, seed)
                vectors = shown(shield, data, seed)
                bound = shield.certify(data, data.rows(Split.TEST), seed).bound
                yield (
                    f"ε {epsilon:g}, seed {seed}, {'education, gain, loss kept' if keep else 'nothing kept'}: income "
                    f"{head(vectors, data, 'boosting', seed):.4f}; {judged(vectors, data, seed)}; codes certified ≤ "
                    f"{bound:.3f}; spent {shield.chart_.epsilon:.2f} in {shield.chart_.releases} questions"
                )


def attacks() -> Iterator[str]:
    """Measure what the answers of such a fit reveal about one person and about one device, on Adult."""
    data = load("adult", target="income", sensitive="sex", seed=0)
    train = data.rows(Split.TRAIN)
    x, u = data.x[train], data.attribute("sex").codes[train]
    columns = learn_columns(x, table_columns(data), numpy_generator(0, "columns"))
    recipe = MapSettings(codes=10, temperature=0.2, weights=WEIGHTS)
    few = numpy_generator(0, "few").choice(len(u), 300, replace=False)
    others = People(x[few[1:]], u[few[1:]])
    worlds = People(x[few[:1]], np.array([0])), People(x[few[:1]], np.array([1]))
    for epsilon in (8.0, 2.0, 0.5):

        def hold(target: People, number: int, epsilon: float = epsilon) -> Poll:
            poll = Poll([others, target], budget(epsilon), numpy_generator(number, "noise"))
            learn_table(poll, columns, 2, recipe, Plan(questions=10), numpy_generator(0, "start"))
            return poll

        attack = attack_target(hold, [others], worlds, repetitions=600)
        yield (
            f"one person's sex, ε {epsilon:g}: advantage {attack.advantage.estimate:.3f} [{attack.advantage.low:.3f}, "
            f"{attack.advantage.high:.3f}] in {attack.repetitions} fits; this target's exact {attack.reached:.3f}; "
            f"nobody's exceeds {attack.bound:.3f}"
        )
    order = np.argsort(u + numpy_generator(0, "devices").normal(0, 1, len(u)))  # devices differ in their share of men
    parts = np.array_split(order, 100)
    devices = [People(x[rows], u[rows]) for rows in parts]
    recipe = MapSettings(codes=40, temperature=0.2, weights=WEIGHTS)
    for epsilon, local in ((math.inf, False), (8.0, False), (2.0, False), (8.0, True), (2.0, True)):
        poll = Poll(devices, budget(epsilon), numpy_generator(0, "noise"), local=local, listen=True)
        learn_table(poll, columns, 2, recipe, Plan(questions=30), numpy_generator(0, "start"))
        read = attack_devices(poll, [u[rows] for rows in parts])
        yield (
            f"each device's majority, ε {epsilon:g}{', noise of its own' if local else ''}: "
            f"{read.accuracy.estimate:.2f} [{read.accuracy.low:.2f}, {read.accuracy.high:.2f}] "
            f"(prior {read.prior:.2f}), counts off by {read.error:.1f} people of {len(u) / 100:.0f}; "
            f"{len(poll.heard)} questions, {poll.upload:,} bytes each"
        )


PARTS = {"digits": digits, "cifar": cifar, "attributes": attributes, "budget": spending, "attacks": attacks}


def main() -> None:
    """Print the parts asked for, all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], default=[])
    for name in parser.parse_args().parts or PARTS:
        for line in PARTS[name]():
            print(line, flush=True)


if __name__ == "__main__":
    main()
