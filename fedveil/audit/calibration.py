"""The limits behind a verdict, and where they come from.

Overlearning leaves traces of s in any classifier's scores: significant, and usually .01 to .1 bits beyond (y, ŷ) for
a binary s. A classifier trained to carry s shows .3 bits and more. The limit lies between the two. It is a share of
what the labels leave open, H(s | y, ŷ), so that it means the same for rare and for many-valued s. The lower end of the
unexplained excess's interval must exceed it before anything is called curious.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedveil.errors import InputError

LEAST_ROWS = 200
"""Below this there is an estimate, and no verdict."""


@dataclass(frozen=True)
class Limits:
    """What a verdict compares with.

    Attributes:
        excess_share: an unexplained excess above this share of H(s | y, ŷ) is what a plot leaves, below it what
            overlearning does.
        excess_bits: and it must be at least so many bits.
        tells: scores, and labels, tell s from this share of H(s) on; below it correlation is not worth a word.
        provenance: where the numbers come from.
    """

    excess_share: float
    excess_bits: float
    tells: float
    provenance: str

    def __post_init__(self) -> None:
        if not (0 < self.excess_share < 1 and self.excess_bits >= 0 and 0 < self.tells < 1):
            raise InputError("audit limits: shares must lie between 0 and 1, bits must not be negative")

    def excess(self, left: float) -> float:
        """Return the limit in bits, where the labels leave so many bits open.

        >>> round(LIMITS.excess(1.0), 3) == LIMITS.excess_share
        True
        """
        return max(self.excess_bits, self.excess_share * left)


LIMITS = Limits(
    excess_share=0.15,
    excess_bits=0.03,
    tells=0.02,
    provenance="by judgement, between the traces of overlearning (.01 to .1 bits) and a plot (.3 bits and more)",
)
