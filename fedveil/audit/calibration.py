"""The limits behind a verdict, and where they come from.

Overlearning leaves traces of s in any classifier's scores. The unexplained excess is held against a limit between what
standard classifiers were seen to leave and what curious ones were: a share of what the labels leave open, H(s | y, ŷ),
so that it means the same for rare and for many-valued s. The lower end of its interval must exceed the limit before
anything is called curious.

Where y has three or more values and s is correlated with it, a standard score tells more: the values that it rules out
are those which go with other values of s, or of what s stands for. (A digit's classifier that met red sevens only rules
seven out for what is blue.) No table of s and y shows how much more, so the limit grows with ρ = I(s; y)/H(s).

The numbers were chosen on one half of the classifiers of the preset curious/audit: each is the geometric mean of the
highest upper end of an interval of a standard classifier and the lowest lower end of a curious one, rounded.
docs/audit.md has the figures, and how the other half fared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fedveil.core.errors import InputError

if TYPE_CHECKING:
    from fedveil.audit.explained import Explained

LEAST_ROWS = 200
"""Below this there is an estimate, and no verdict."""

_MOST_SHARE = 0.9
"""The limit stays below all that there is to tell."""


@dataclass(frozen=True)
class Limits:
    """What a verdict compares with.

    Attributes:
        excess_share: an unexplained excess above this share of H(s | y, ŷ) is what a plot leaves, below it what
            overlearning does.
        ruled_out: where y has three or more values and tells s, so many times I(s; y)/H(s) are added to that share.
        excess_bits: and it must be at least so many bits.
        tells: scores, and labels, tell s from this share of H(s) on; below it correlation is not worth a word.
        provenance: where the numbers come from.
    """

    excess_share: float
    ruled_out: float
    excess_bits: float
    tells: float
    provenance: str

    def __post_init__(self) -> None:
        if not (0 < self.excess_share < 1 and min(self.excess_bits, self.ruled_out) >= 0 and 0 < self.tells < 1):
            raise InputError("audit limits: shares must lie between 0 and 1, bits and ruled_out must not be negative")

    def share(self, labels: Explained) -> float:
        """Return the limit as a share of H(s | y, ŷ)."""
        told = labels.by_target.estimate / labels.entropy if labels.target_values > 2 and labels.entropy else 0.0
        if told < self.tells:
            return self.excess_share
        return max(self.excess_share, min(_MOST_SHARE, self.excess_share + self.ruled_out * told))

    def overlearning(self, labels: Explained) -> float:
        """Return in bits what overlearning may leave, were s not correlated with a y of three or more values."""
        return max(self.excess_bits, self.excess_share * labels.left)

    def excess(self, labels: Explained) -> float:
        """Return the limit in bits."""
        return max(self.excess_bits, self.share(labels) * labels.left)


LIMITS = Limits(
    excess_share=0.085,
    ruled_out=3.5,
    excess_bits=0.03,
    tells=0.02,
    provenance="between standard and curious classifiers in the calibration half of the preset curious/audit",
)
