"""Mixtures: the outputs of two classifiers, one for y and one for s, combined so that they look like y's alone.

Malekzadeh, Borovykh and Gündüz, "Honest-but-Curious Nets", CCS 2021, §3.2, eq. 1 and 2, Figures 3 and 4. Symbols: z^y
(n, Y) and z^s (n, S) the two classifiers' probabilities, S ≤ Y; β_y > ½, β_s = 1 − β_y;

    ŷ = β_y·z^y + β_s·[z^s, 0, … 0]        (normal), or of both rounded to one-hot vectors (hard).

ŷ is a probability vector. A hard mixture's argmax is z^y's, and both guesses can be read back without error, so its
honesty and curiosity are the two classifiers' accuracies. A normal mixture loses where z^y is uncertain.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedveil.audit.outputs import Outputs, not_probabilities
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.data.attribute import Attribute


@dataclass(frozen=True)
class Mixture:
    """How two classifiers' outputs are mixed, and how the server reads the mixture (its G).

    Attributes:
        beta_y: the weight of z^y, above ½ and below 1; z^s has weight 1 − beta_y.
        hard: whether one-hot vectors are mixed in place of probabilities.

    >>> five, three = np.eye(5)[[3]], np.eye(3)[[1]]  # the paper's example: y = 3 of 5, s = 1 of 3
    >>> Mixture().mix(five, three).round(3).tolist()
    [[0.0, 0.2, 0.0, 0.8, 0.0]]
    >>> [guess.tolist() for guess in Mixture().read(Mixture().mix(five, three), 3)]
    [[3], [1]]
    """

    beta_y: float = 0.8
    hard: bool = True

    def __post_init__(self) -> None:
        if not 0.5 < self.beta_y < 1:
            raise InputError(f"mixture: beta_y must lie in (0.5, 1), so that ŷ still predicts y; got {self.beta_y}")

    @property
    def beta_s(self) -> float:
        """The weight of z^s."""
        return 1 - self.beta_y

    def mix(self, z_y: npt.ArrayLike, z_s: npt.ArrayLike) -> FloatArray:
        """Return ŷ, (n, Y), of z^y (n, Y) and z^s (n, S)."""
        target, secret = _probabilities(z_y, "z_y"), _probabilities(z_s, "z_s")
        if len(target) != len(secret):
            raise InputError(f"mixture: z_y has {len(target)} rows, z_s has {len(secret)}; they must match row by row")
        if secret.shape[1] > target.shape[1]:
            raise InputError(
                f"mixture: s has {secret.shape[1]} values and y only {target.shape[1]}, but ŷ has no room for S > Y; "
                "merge values of s or use the parameterised attack"
            )
        if self.hard:
            target, secret = (np.eye(z.shape[1])[z.argmax(axis=1)] for z in (target, secret))
        padded = np.pad(secret, ((0, 0), (0, target.shape[1] - secret.shape[1])))
        return np.asarray(self.beta_y * target + self.beta_s * padded, dtype=np.float64)

    def read(self, scores: npt.ArrayLike, values: int) -> tuple[IntArray, IntArray]:
        """Return the guesses of y and of s, which has `values` values.

        ȳ is the argmax. After β_y is subtracted from its entry, s̄ is the largest of the first S entries. For Y = S = 2
        these are the four sub-ranges of eq. 2 with τ' = β_s/2.
        """
        mixed = np.asarray(scores, dtype=np.float64)
        if mixed.ndim != 2 or not 2 <= values <= mixed.shape[1]:
            raise InputError(f"mixture: scores must be (n, Y) and 2 ≤ S ≤ Y, got {mixed.shape} and S = {values}")
        y = mixed.argmax(axis=1)
        remaining = mixed - self.beta_y * np.eye(mixed.shape[1])[y]
        return y.astype(np.int64), remaining[:, :values].argmax(axis=1).astype(np.int64)

    def outputs(
        self, z_y: npt.ArrayLike, z_s: npt.ArrayLike, y: Attribute, s: Attribute, groups: IntArray | None = None
    ) -> Outputs:
        """Return the mixture with the true labels, in the form that an audit reads."""
        return Outputs.checked(self.mix(z_y, z_s), False, y, {s.name: s}, groups)

    def mix_scalar(self, z_y: npt.ArrayLike, z_s: npt.ArrayLike) -> FloatArray:
        """Return ŷ ∈ [0, 1] of the probabilities of y = 1 and of s = 1 (Y = S = 2); hard mixtures take eq. 1's values.

        >>> Mixture().mix_scalar([0.1, 0.2, 0.7, 0.9], [0.3, 0.8, 0.4, 0.6]).round(3).tolist()
        [0.0, 0.2, 0.8, 1.0]
        """
        pairs = (np.asarray(z, dtype=np.float64) for z in (z_y, z_s))
        return self.mix(*(np.stack([1 - z, z], axis=-1) for z in pairs))[:, 1]

    def read_scalar(self, scores: npt.ArrayLike, threshold: float | None = None) -> tuple[IntArray, IntArray]:
        """Return the guesses of y and of s by eq. 2's four sub-ranges, which meet at τ', ½ and 1 − τ'.

        [0, τ') → (0, 0), [τ', ½) → (0, 1), [½, 1 − τ') → (1, 0), [1 − τ', 1] → (1, 1). Default τ':
        β_s/2, halfway between eq. 1's values, which is the paper's .1 at β_s = .2.
        """
        cut = self.beta_s / 2 if threshold is None else threshold
        if not 0 < cut < 0.5:
            raise InputError(f"mixture: the threshold τ' must lie in (0, 0.5), got {cut}")
        ranges = np.digitize(np.asarray(scores, dtype=np.float64), [cut, 0.5, 1 - cut])
        return (ranges // 2).astype(np.int64), (ranges % 2).astype(np.int64)


def _probabilities(z: npt.ArrayLike, name: str) -> FloatArray:
    probabilities = np.asarray(z, dtype=np.float64)
    if probabilities.ndim != 2 or probabilities.shape[1] < 2 or not np.isfinite(probabilities).all():
        raise InputError(
            f"mixture: {name} must be (n, values) of finite probabilities, got shape {probabilities.shape}"
        )
    fault = not_probabilities(probabilities)
    if fault is not None:
        raise InputError(f"mixture: {name}: {fault}; pass a classifier's probabilities, not its raw scores")
    return probabilities
