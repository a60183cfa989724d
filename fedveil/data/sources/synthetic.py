"""Synthetic data with a chosen leakage I(U; X) in bits; the best possible attacker's accuracy is known as well."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import ndtr

from fedveil.core.arrays import IntArray
from fedveil.core.entropy import binary_entropy, entropy, mutual_information
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData
from fedveil.data.source import Source
from fedveil.data.splits import random_split

Floats = npt.NDArray[np.float64]


class Synthetic(Source):
    """Features that carry a chosen number of bits about a sensitive attribute u.

    Binary u (`channel="gaussian"`): x = ±δ/2 along one direction plus standard normal noise in all
    dimensions; δ is solved by quadrature so that I(U; X) = `bits`. K-valued u (`channel="confusion"`): a symbol
    v equals u, or with probability e one of the other values, all equally likely. x holds v as a one-hot vector plus
    uniform noise that is too small to confuse two symbols, so that I(U; X) = I(U; V), a finite sum, which is solved
    for e. Finally x is rotated at random, which changes no information.

    The task's label y is the sign of a coordinate that is independent of u, except that with probability
    `overlap` it says whether u is in the upper half of its values. x does not depend on y, so `bits` remains correct.

    `facts`: `bits` = I(U; X), `bayes_accuracy` (no attacker on x does better, on average over draws), `prior`,
    `entropy` = H(U), and with a target `target_bits` = I(U; Y).
    """

    name = "synthetic"
    description = "synthetic data with a known leakage in bits"
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
            seed: for all draws.
            n: how many records.
            bits: I(U; X), from 0 to H(U) ("gaussian": below H(U)).
            values: K, how many values u has.
            prior: P(u = 1) of a binary u, or K probabilities (default: uniform).
            dimension: the number of features.
            channel: "gaussian" (the default for binary u, and only for it) or "confusion" (the default for K > 2).
            overlap: the probability that y is a function of u instead of x.
            groups: how many groups to deal the records to; splits keep them whole (default: no groups).
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
        most_bits = entropy(probabilities)
        _refuse(
            not (0.0 <= bits < most_bits or (channel == "confusion" and bits <= most_bits)),
            f"bits must lie between 0 and H(U) = {most_bits:.4f}, got {bits}",
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
            feature_names=tuple(f"x{index}" for index in range(x.shape[1])),
            name=self.name,
            facts={
                "prior": float(probabilities.max()),
                "entropy": most_bits,
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
    probabilities = np.array([1.0 - prior, prior] if isinstance(prior, float | int) else prior, dtype=np.float64)
    fits = (
        probabilities.shape == (values,)
        and bool((probabilities > 0).all())
        and abs(float(probabilities.sum()) - 1.0) < 1e-9
    )
    _refuse(
        not fits, f"prior must be {values} probabilities above 0 that sum to 1 (or, for 2 values, one), got {prior}"
    )
    return probabilities


def _refuse(condition: bool, message: str) -> None:
    if condition:
        raise InputError(f"synthetic: {message}")


def gaussian_bits(distance: float, prior: float) -> float:
    """Return I(U; R) in bits of a binary U, P(U = 1) = prior, and R = ±distance/2 + N(0, 1).

    I = H(U) − E[H₂(P(U = 1 | R))]. The integrand is smooth and its tails are those of the normal density,
    so the trapezoidal rule converges faster than any power of the step.

    >>> round(gaussian_bits(2.0, 0.5), 5)
    0.48594
    """
    r = np.linspace(-distance / 2 - 12.0, distance / 2 + 12.0, 20_001)
    log_1 = np.log(prior) - 0.5 * (r - distance / 2) ** 2
    log_0 = np.log1p(-prior) - 0.5 * (r + distance / 2) ** 2
    density = (np.exp(log_1) + np.exp(log_0)) / np.sqrt(2 * np.pi)
    posterior = 1.0 / (1.0 + np.exp(np.clip(log_0 - log_1, -700.0, 700.0)))
    remaining = np.trapezoid(density * binary_entropy(posterior), r)
    return max(0.0, float(binary_entropy(prior)) - float(remaining))


def gaussian_for_bits(bits: float, prior: float) -> float:
    """Return the distance between the two means at which I(U; R) = bits."""
    if bits <= gaussian_bits(0.0, prior):  # 0, up to rounding
        return 0.0
    farthest = 40.0
    if gaussian_bits(farthest, prior) < bits:
        raise InputError(f"synthetic: {bits} bits are too close to H(U) for two Gaussians; choose fewer")
    return float(brentq(lambda distance: gaussian_bits(distance, prior) - bits, 0.0, farthest, xtol=1e-12))


def gaussian_bayes_accuracy(distance: float, prior: float) -> float:
    """Return the accuracy of the best guess of U from R: the posterior's threshold is ln((1−p)/p)/distance.

    >>> gaussian_bayes_accuracy(0.0, 0.7)
    0.7
    """
    if distance == 0.0:
        return max(prior, 1.0 - prior)
    threshold = np.log((1.0 - prior) / prior) / distance
    right_given_1, right_given_0 = ndtr(distance / 2 - threshold), ndtr(threshold + distance / 2)
    return float(prior * right_given_1 + (1.0 - prior) * right_given_0)


def confusion_table(error: float, values: int) -> Floats:
    """Return p(v | u): v = u with probability 1 − error, and each other value with probability error/(K − 1)."""
    return np.full((values, values), error / (values - 1)) + np.eye(values) * (1.0 - error - error / (values - 1))


def confusion_bits(error: float, prior: Floats) -> float:
    """Return I(U; V) of the confusion channel, exactly.

    >>> confusion_bits(0.0, np.full(4, 0.25)), confusion_bits(0.75, np.full(4, 0.25))
    (2.0, 0.0)
    """
    return mutual_information(prior[:, None] * confusion_table(error, len(prior)))


def confusion_for_bits(bits: float, prior: Floats) -> float:
    """Return the error at which I(U; V) = bits; the information falls from H(U) at error 0 to 0 at (K−1)/K."""
    uninformative = (len(prior) - 1) / len(prior)
    if bits >= confusion_bits(0.0, prior):
        return 0.0
    if bits <= confusion_bits(uninformative, prior):  # 0, up to rounding
        return uninformative
    return float(brentq(lambda error: confusion_bits(error, prior) - bits, 0.0, uninformative, xtol=1e-14))
