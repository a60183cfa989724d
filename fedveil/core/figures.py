"""A measured figure with its uncertainty.

An `Estimate` says what was measured, against the attackers that were tried. It is deliberately not
related by inheritance to `fedveil.certificates.Certificate`, which says what no attacker can beat.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Estimate:
    """A point estimate with a confidence interval [low, high] at the given level.

    >>> print(Estimate(0.8123, 0.8, 0.8251))
    0.812 [0.800, 0.825]
    """

    estimate: float
    low: float
    high: float
    confidence: float = 0.95

    def __str__(self) -> str:
        return f"{self.estimate:.3f} [{self.low:.3f}, {self.high:.3f}]"

    def __repr__(self) -> str:
        return f"Estimate({self!s} at {self.confidence:.4g})"

    def columns(self, name: str) -> dict[str, float]:
        """Return the estimate and the ends of its interval under the names of a table's columns.

        >>> Estimate(0.5, 0.4, 0.7).columns("accuracy")
        {'accuracy': 0.5, 'accuracy_low': 0.4, 'accuracy_high': 0.7}
        """
        return {name: self.estimate, f"{name}_low": self.low, f"{name}_high": self.high}

    def as_dict(self) -> dict[str, float]:
        """Return the estimate in the form of every `--json` output."""
        return {"estimate": self.estimate, "low": self.low, "high": self.high}
