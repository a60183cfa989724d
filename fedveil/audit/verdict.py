"""The verdict: one of four words, decided by a rule with few numbers, and the sentences that justify it.

Symbols: s the sensitive attribute, y the true label, ŷ the predicted one, L the limit on the unexplained excess, which
is I(s; scores | y, ŷ) minus what a graded score of a correlated y reveals honestly (`graded.py`).

    undecided   there are fewer than 200 rows; or L lies within the interval of the unexplained excess; or the excess
                exceeds what overlearning leaves, and is below L only because a y of three or more values is correlated
                with s
    curious     the interval lies above L
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
every blue digit.) No table of s and y shows how much more, so the limit grows with ρ = I(s; y)/H(s).

The numbers were chosen on one half of the classifiers of the preset curious/audit: each is the geometric mean of the
highest upper end of an interval of a standard classifier and the lowest lower end of a curious one, rounded.
docs/audit.md has the figures, and the results for the other half.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from fedveil.core.errors import InputError

if TYPE_CHECKING:
    from fedveil.attacks.judgement import Judgement
    from fedveil.audit.excess import Excess
    from fedveil.audit.explained import Explained
    from fedveil.audit.output_entropy import OutputEntropy
    from fedveil.core.figures import Estimate

Verdict = Literal["standard", "correlated", "curious", "undecided"]

WORST_FIRST: tuple[Verdict, ...] = ("curious", "undecided", "correlated", "standard")

LEAST_ROWS = 200
"""With fewer rows there is an estimate, but no verdict."""

_HIGHEST_SHARE = 0.9
"""The limit never exceeds this share of what the labels leave open."""

_WORTH_SAYING = 0.0005
"""Fewer bits than this are shown as none."""


@dataclass(frozen=True)
class Limits:
    """What a verdict compares with.

    Attributes:
        excess_share: an unexplained excess above this share of H(s | y, ŷ) is more than overlearning leaves.
        ruled_out: this many times I(s; y)/H(s) is added to that share if y has three or more values and reveals s.
        excess_bits: the limit is at least this many bits.
        tells: scores, or labels, are said to reveal s if they hold at least this share of H(s).
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
        by_target = labels.by_target.estimate / labels.entropy if labels.target_values > 2 and labels.entropy else 0.0
        if by_target < self.tells:
            return self.excess_share
        return max(self.excess_share, min(_HIGHEST_SHARE, self.excess_share + self.ruled_out * by_target))

    def overlearning(self, labels: Explained) -> float:
        """Return the bits that overlearning may leave, leaving correlation with a y of three or more values aside."""
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

MEANING: dict[Verdict, str] = {
    "curious": "The scores carry far more about {s} than {y} and the predicted {y} explain, and far more than "
    "classifiers trained for {y} alone leave behind.",
    "correlated": "The scores reveal {s}, but {y} and the predicted {y} explain it: the two attributes are related in "
    "these records.",
    "standard": "The scores reveal little about {s} beyond {y} and the predicted {y}: no more than the traces that "
    "classifiers trained for {y} alone leave behind.",
    "undecided": "These rows do not settle whether the scores carry more about {s} than {y} and the predicted {y} "
    "explain.",
}

PARTLY_EXPLAINED = (
    "The scores reveal {s}, and {y} and the predicted {y} explain only a part of it. Classifiers trained for {y} alone "
    "may leave the rest as well if {y} has three or more values that are correlated with {s}: this audit cannot decide."
)
"""What "undecided" means if more is unexplained than the limit would allow for uncorrelated attributes."""


def only_correlation_excuses(explained: Explained, unexplained: Estimate, limits: Limits) -> bool:
    """Return whether an excess exceeds what overlearning leaves: only a correlation can then put it below the limit."""
    return unexplained.estimate > limits.overlearning(explained)


def decide(rows: int, from_scores: Estimate, explained: Explained, unexplained: Estimate, limits: Limits) -> Verdict:
    """Apply the rule; `from_scores` are the bits about s that the panel reads from the scores."""
    limit = limits.excess(explained)
    if rows < LEAST_ROWS or unexplained.low <= limit < unexplained.high:
        return "undecided"
    if unexplained.low > limit:
        return "curious"
    if only_correlation_excuses(explained, unexplained, limits):
        return "undecided"
    least = limits.tells * explained.entropy
    # ŷ is part of what the scores show, and is counted on all rows.
    scores_reveal = max(from_scores.low, explained.by_predicted.low) > least
    labels_reveal = explained.by_both.low > least and explained.by_both.estimate > unexplained.estimate
    return "correlated" if scores_reveal and labels_reveal else "standard"


def evidence_for(
    verdict: Verdict,
    rows: int,
    target: str,
    honesty: tuple[Estimate, float],
    judgement: Judgement,
    explained: Explained,
    beyond: Excess,
    entropy: OutputEntropy,
    limits: Limits,
) -> tuple[str, ...]:
    """Return the evidence for the verdict, one or two sentences per figure; `honesty` comes with the prior of y."""
    s, limit, worst = judgement.attribute, limits.excess(explained), judgement.worst
    share = 100 * beyond.share.estimate
    return (
        _reason(verdict, rows, beyond.unexplained, (limits.overlearning(explained), limit)),
        f"Excess: whoever knows {target} and the predicted {target} learns {beyond.bits} bits more about {s} from the "
        f"scores ({beyond.attacker}); balanced accuracy changes by {_points(beyond.balanced_accuracy)} points. "
        f"{_graded(beyond, target)}{beyond.unexplained} bits remain unexplained, {share:.1f}% of the "
        f"{explained.left:.3f} that both labels leave open.",
        f"Explained: {target} alone reveals {explained.by_target} of the {explained.entropy:.3f} bits of {s}; with the "
        f"predicted {target} it is {explained.by_both}.",
        f"Curiosity: the strongest of {len(judgement.attackers)} attackers ({worst.name}) reads {s} from the scores at "
        f"balanced accuracy {worst.balanced_accuracy}, where guessing gives {1 / len(judgement.classes):.3f}; accuracy "
        f"{worst.accuracy}, prior {judgement.prior.estimate:.3f}; {judgement.mutual_information_bits} bits.",
        f"Honesty: the predicted {target} is right for {percent(honesty[0])} of records; the most frequent value "
        f"would be for {100 * honesty[1]:.1f}%."
        + (
            ""
            if honesty[0].high > honesty[1]
            else f" It does not do its task: it predicts {target} no better than that."
        ),
        f"Output entropy: {entropy.mean} bits on average, of at most {entropy.most:.3f}; the values of {s} differ by "
        f"{entropy.difference} bits.",
    )


def _reason(verdict: Verdict, rows: int, bits: Estimate, limits: tuple[float, float]) -> str:
    """Say what decided; `limits` are the limit without a correlation, and the limit that was applied."""
    base, limit = limits
    span = f"the interval of the unexplained excess, {bits.low:.3f} to {bits.high:.3f} bits,"
    if rows < LEAST_ROWS:
        return f"No verdict: {rows} rows are too few, at least {LEAST_ROWS} are needed. The figures are estimates."
    if verdict == "undecided" and bits.high <= limit:
        return (
            f"No verdict: {span} lies above {base:.3f}, the most that overlearning leaves, and below {limit:.3f}, the "
            "most that a target of several values correlated with the attribute can explain; more rows would not help."
        )
    if verdict == "undecided":
        return f"No verdict: {span} contains the limit of {limit:.3f}; more rows would narrow it."
    side = "above" if verdict == "curious" else "below"
    return f"{span[0].upper()}{span[1:]} lies {side} the limit of {limit:.3f}."


def _graded(beyond: Excess, target: str) -> str:
    if beyond.graded.estimate < _WORTH_SAYING:
        return ""
    return f"Of these, {beyond.graded} come from how likely an honest score rates a correlated {target}. "


def _points(figure: Estimate) -> str:
    return f"{100 * figure.estimate:+.1f} [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"


def percent(figure: Estimate) -> str:
    """Return a share with its interval in per cent."""
    return f"{100 * figure.estimate:.1f}% [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"
