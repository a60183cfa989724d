"""Made-up data whose leakage is known: I(U; X) in bits is chosen, and the best possible attacker's accuracy stated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import IntArray
from fedveil.core.entropy import entropy, mutual_information
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData, random_split
from fedveil.data.source import Source
from fedveil.data.sources.synthetic_channels import (
    Floats,
    confusion_bits,
    confusion_for_bits,
    confusion_table,
    gaussian_bayes_accuracy,
    gaussian_for_bits,
)


class Synthetic(Source):
    """Features that carry exactly so many bits about a sensitive attribute u, and nothing else about it.

    Binary u (`channel="gaussian"`): x = ±δ/2 along one direction plus standard normal noise in all
    dimensions, δ solved by quadrature so that I(U; X) = `bits`. K-valued u (`channel="confusion"`): a symbol
    v that equals u, or with probability e any other value alike, stands in x as one-hot plus uniform noise
    that never lets two symbols meet; so I(U; X) = I(U; V), a finite sum, solved for e. Everything is then
    rotated at random, which changes no information.

    The task's label y is the sign of a coordinate that is independent of u, except that with probability
    `overlap` it is whether u lies in the upper half of its values. x does not depend on y, so `bits` stays true.

    `facts`: `bits` = I(U; X), `bayes_accuracy` (no attacker on x does better, on average over draws), `prior`,
    `entropy` = H(U), and with a target `target_bits` = I(U; Y).
    """

    name = "synthetic"
    description = "made-up data with a known leakage in bits"
    licence = "none needed"
    attributes = ("u",)
    targets = ("y",)

    def read(
        self,
        target: str | None,
        sensitive: Sequence[str],
        seed: int,
        n: int = 2000,
        bits: float = 0.3,
        values: int = 2,
        prior: float | Sequence[float] | None = None,
        dimension: int = 16,
        channel: str | None = None,
        overlap: float = 0.0,
        groups: int | None = None,
        validation: float = 0.1,
        test: float = 0.2,
    ) -> AttributeData:
        """Draw data.

        Args:
            target: "y" or None.
            sensitive: "u".
            seed: of everything drawn.
            n: how many records.
            bits: I(U; X), from 0 to H(U) ("gaussian": below H(U)).
            values: K, how many values u has.
            prior: P(u = 1) of a binary u, or K probabilities; uniform by default.
            dimension: of x.
            channel: "gaussian" (binary u only; its default) or "confusion" (the default of K > 2).
            overlap: probability that y is a function of u instead of x.
            groups: deal records to so many groups, which splits keep whole.
            validation: share of validation records.
            test: share of test records.
        """
        channel = channel or ("gaussian" if values == 2 else "confusion")
        probabilities = _prior(prior, values)
        _refuse(n < 10, f"n must be at least 10, got {n}")
        _refuse(channel not in ("gaussian", "confusion"), f'channel must be "gaussian" or "confusion", got {channel!r}')
        _refuse(channel == "gaussian" and values != 2, f"the gaussian channel is for 2 values, not {values}")
        _refuse(dimension < (2 if channel == "gaussian" else values + 1), f"dimension {dimension} is too small")
        _refuse(not 0.0 <= overlap <= 1.0, f"overlap must lie between 0 and 1, got {overlap}")
        _refuse(groups is not None and not 3 <= groups <= n, f"groups must lie between 3 and n, got {groups}")
        most = entropy(probabilities)
        _refuse(
            not (0.0 <= bits < most or (channel == "confusion" and bits <= most)),
            f"bits must lie between 0 and H(U) = {most:.4f}, got {bits}",
        )
        rng = numpy_generator(seed, "synthetic")
        u = rng.choice(values, size=n, p=probabilities).astype(np.int64)
        if channel == "gaussian":
            x, facts = _through_gaussian(u, probabilities, bits, dimension, rng)
        else:
            x, facts = _through_confusion(u, probabilities, bits, dimension, rng)
        upper = (np.arange(values) >= values / 2).astype(np.int64)
        y = np.where(rng.random(n) < overlap, upper[u], x[:, -1] > 0).astype(np.int64)
        joint = probabilities[:, None] * ((1 - overlap) / 2 + overlap * np.eye(2)[upper])
        rotation, _ = np.linalg.qr(rng.standard_normal((dimension, dimension)))
        owners: IntArray | None = None if groups is None else rng.permutation(n) % groups
        return AttributeData(
            x=(x @ rotation).astype(np.float32),
            attributes={"u": Attribute("u", u, tuple(str(k) for k in range(values)))},
            split=random_split(n, seed=seed, validation=validation, test=test, strata=u, groups=owners),
            y=Attribute("y", y, ("0", "1")) if target else None,
            groups=owners,
            feature_names=tuple(f"x{place}" for place in range(x.shape[1])),
            name=self.name,
            facts={
                "prior": float(probabilities.max()),
                "entropy": most,
                **facts,
                **({"target_bits": mutual_information(joint)} if target else {}),
            },
        )


def _through_gaussian(
    u: IntArray, prior: Floats, bits: float, dimension: int, rng: np.random.Generator
) -> tuple[Floats, dict[str, object]]:
    distance = gaussian_for_bits(bits, float(prior[1]))
    x = rng.standard_normal((len(u), dimension))
    x[:, 0] += np.where(u == 1, distance / 2, -distance / 2)
    accuracy = gaussian_bayes_accuracy(distance, float(prior[1]))
    return x, {"bits": bits, "bayes_accuracy": accuracy, "channel": "gaussian", "distance": distance}


def _through_confusion(
    u: IntArray, prior: Floats, bits: float, dimension: int, rng: np.random.Generator
) -> tuple[Floats, dict[str, object]]:
    values = len(prior)
    error = confusion_for_bits(bits, prior)
    other = (u + rng.integers(1, values, size=len(u))) % values
    symbol = np.where(rng.random(len(u)) < error, other, u)
    x = rng.standard_normal((len(u), dimension))
    x[:, :values] = 2.0 * np.eye(values)[symbol] + rng.uniform(-0.5, 0.5, size=(len(u), values))
    accuracy = float((prior[:, None] * confusion_table(error, values)).max(axis=0).sum())
    facts = {"bits": confusion_bits(error, prior), "bayes_accuracy": accuracy, "channel": "confusion", "error": error}
    return x, facts


def _prior(prior: float | Sequence[float] | None, values: int) -> npt.NDArray[np.float64]:
    _refuse(values < 2, f"values must be at least 2, got {values}")
    if prior is None:
        return np.full(values, 1.0 / values)
    given = np.array([1.0 - prior, prior] if isinstance(prior, float | int) else prior, dtype=np.float64)
    fits = given.shape == (values,) and bool((given > 0).all()) and abs(float(given.sum()) - 1.0) < 1e-9
    _refuse(
        not fits, f"prior must be {values} probabilities above 0 that sum to 1 (or, for 2 values, one), got {prior}"
    )
    return given


def _refuse(condition: bool, message: str) -> None:
    if condition:
        raise InputError(f"synthetic: {message}")
