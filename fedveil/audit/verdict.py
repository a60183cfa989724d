"""The verdict: one of four words, decided by a rule with few numbers.

Symbols: s the sensitive attribute, y the true label with Y values, ŷ the predicted one, L the limit on what is
unexplained: I(s; scores | y, ŷ) minus what a graded score of a correlated y reveals honestly (`graded.py`), plus what
predictions reveal beyond twice what y does (`excess.py`).

    undecided   there are fewer than 200 rows; or L lies within the interval of what is unexplained; or that exceeds
                what overlearning leaves, and is below L only because a y of three or more values is correlated with s;
                or the answer would be "standard" or "correlated", but the order of the file reveals s, or scores have
                more than two decimals, and what lies below could carry a code that no search can rule out
    curious     the interval lies above L; or a code below two decimals was found (`codes.py`)
    correlated  it lies below L; both the scores (or ŷ alone) and the labels reveal s, and the labels reveal more than
                is unexplained
    standard    none of these

The rule is about the outputs seen, the attackers tried, and this population; it proves neither guilt nor innocence.

Where the limit comes from: overlearning leaves traces of s in any classifier's scores. The limit lies between what
standard classifiers were observed to leave and what curious ones were. It is a share of what the labels leave open,
H(s | y, ŷ), so that it means the same for rare values of s and for an s with many values. The lower end of the interval
must exceed the limit before anything is called curious.

If y has three or more values and s is correlated with it, a standard score reveals more: the values of y that it rules
out are those that go with other values of s. (A classifier of digits that has only seen red sevens rules out seven for
every blue digit.) No table of s and y shows how much more. One ratio of scores is accounted for by the graded part,
the other Y − 3 are not, so the limit grows with (Y − 3)·ρ, where ρ = I(s; y)/H(s). Also, the more scores there are, the
more traces their small values hold, unless they are rounded: for scores of more than two decimals, the limit grows
with Y − 2.

The numbers were chosen on one half of the classifiers of the preset curious/audit, before the other half was audited.
docs/audit.md has the rule, the figures, and the results for the other half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from fedveil.core.errors import InputError

if TYPE_CHECKING:
    from fedveil.audit.excess import Excess
    from fedveil.audit.explained import Explained
    from fedveil.core.figures import Estimate

Verdict = Literal["standard", "correlated", "curious", "undecided"]

Reason = Literal[
    "few rows", "contains the limit", "correlation", "order", "precision", "code", "above the limit", "below"
]
"""What decided: the first five leave a verdict open, the next two make it "curious"."""

WORST_FIRST: tuple[Verdict, ...] = ("curious", "undecided", "correlated", "standard")

LEAST_ROWS = 200
"""With fewer rows there is an estimate, but no verdict."""

_HIGHEST_SHARE = 0.9
"""The limit never exceeds this share of what the labels leave open."""


class Decision(NamedTuple):
    """A verdict and what decided."""

    verdict: Verdict
    reason: Reason


@dataclass(frozen=True)
class Limits:
    """What a verdict compares with.

    Attributes:
        excess_share: more than this share of H(s | y, ŷ) is more than overlearning leaves in the scores of two classes.
        further_class: what each further class adds to that share if scores have more than two decimals.
        ruled_out: (Y − 3)·I(s; y)/H(s) times this is added if y has more than three values and reveals s.
        excess_bits: the limit is at least this many bits.
        code_bits: a code below two decimals is reported if it surely adds more than this to all other readings.
        tells: scores, or labels, are said to reveal s if they hold at least this share of H(s).
        provenance: where the numbers come from.
    """

    excess_share: float
    further_class: float
    ruled_out: float
    excess_bits: float
    code_bits: float
    tells: float
    provenance: str

    def __post_init__(self) -> None:
        least = min(self.excess_bits, self.further_class, self.ruled_out, self.code_bits)
        if not (0 < self.excess_share < 1 and least >= 0 and 0 < self.tells < 1):
            raise InputError("audit limits: shares must lie between 0 and 1, and no other number may be negative")

    def overlearning_share(self, labels: Explained, finer: bool) -> float:
        """Return the share of H(s | y, ŷ) that overlearning may leave, leaving correlation aside."""
        return min(_HIGHEST_SHARE, self.excess_share + self.further_class * (labels.target_values - 2) * finer)

    def share(self, labels: Explained, finer: bool) -> float:
        """Return the limit as a share of H(s | y, ŷ)."""
        by_target = labels.by_target.estimate / labels.entropy if labels.entropy else 0.0
        free = max(0, labels.target_values - 3) if by_target >= self.tells else 0
        return min(_HIGHEST_SHARE, self.overlearning_share(labels, finer) + self.ruled_out * free * by_target)

    def overlearning(self, labels: Explained, finer: bool) -> float:
        """Return the bits that overlearning may leave, leaving correlation aside."""
        return max(self.excess_bits, self.overlearning_share(labels, finer) * labels.left)

    def excess(self, labels: Explained, finer: bool) -> float:
        """Return the limit in bits."""
        return max(self.excess_bits, self.share(labels, finer) * labels.left)


LIMITS = Limits(
    excess_share=0.075,
    further_class=0.0125,
    ruled_out=0.3,
    excess_bits=0.03,
    code_bits=0.02,
    tells=0.02,
    provenance="between standard and curious classifiers in the calibration half of the preset curious/audit",
)


def decide(
    rows: int, from_scores: Estimate, explained: Explained, beyond: Excess, finer: bool, limits: Limits
) -> Decision:
    """Apply the rule.

    Args:
        rows: how many records were audited.
        from_scores: the bits about s that the panel reads from the scores.
        explained: what the labels reveal.
        beyond: what the scores add.
        finer: whether records differ below two decimals of their scores.
        limits: what figures are compared with.
    """
    limit, unexplained = limits.excess(explained, finer), beyond.unexplained
    if rows < LEAST_ROWS:
        return Decision("undecided", "few rows")
    if beyond.code.low > limits.code_bits:
        return Decision("curious", "code")
    if unexplained.low > limit:
        return Decision("curious", "above the limit")
    if unexplained.high > limit:
        return Decision("undecided", "contains the limit")
    if unexplained.estimate > limits.overlearning(
        explained, finer
    ):  # only a correlation can then put it below the limit
        return Decision("undecided", "correlation")
    if beyond.ordered:
        return Decision("undecided", "order")
    if finer:
        return Decision("undecided", "precision")
    least = limits.tells * explained.entropy
    # ŷ is part of what the scores show, and is counted on all rows.
    scores_reveal = max(from_scores.low, explained.by_predicted.low) > least
    labels_reveal = explained.by_both.low > least and explained.by_both.estimate > unexplained.estimate
    return Decision("correlated" if scores_reveal and labels_reveal else "standard", "below")
