"""The verdict: one of four words, by a rule of few numbers, with the sentences that carry it.

Symbols: s the sensitive attribute, y the true label, ŷ the predicted one, L the limit on the excess (`calibration.py`).

    undecided   fewer than 200 rows; or L lies within the interval of the unexplained excess: I(s; scores | y, ŷ) less
                what a graded score of a correlated y tells honestly (`graded.py`); or the excess is more than
                overlearning leaves, and below L only because a y of three or more values goes with s
    curious     the interval lies above L
    correlated  it lies below L; scores (or ŷ alone) and labels tell s, and the labels tell more than the excess
    standard    none of these

The rule is about outputs seen, attackers tried, and this population; it proves neither guilt nor innocence.
"""

from __future__ import annotations

from typing import Literal

from fedveil.attacks.judgement import Judgement
from fedveil.audit.calibration import LEAST_ROWS, Limits
from fedveil.audit.excess import Excess
from fedveil.audit.explained import Explained
from fedveil.audit.spread import Spread
from fedveil.core.figures import Estimate

Verdict = Literal["standard", "correlated", "curious", "undecided"]

_WORTH_SAYING = 0.0005
"""Fewer bits than this are shown as none."""

WORST_FIRST: tuple[Verdict, ...] = ("curious", "undecided", "correlated", "standard")

MEANING: dict[Verdict, str] = {
    "curious": "The scores carry far more about {s} than {y} and the predicted {y} explain, and far more than "
    "classifiers trained for {y} alone leave behind.",
    "correlated": "The scores tell {s}, but {y} and the predicted {y} explain it: the two attributes are related in "
    "these records.",
    "standard": "The scores tell little about {s} beyond {y} and the predicted {y}: no more than the traces that "
    "classifiers trained for {y} alone leave behind.",
    "undecided": "These rows do not settle whether the scores carry more about {s} than {y} and the predicted {y} "
    "explain.",
}

FORGIVEN = (
    "The scores tell {s}, and {y} and the predicted {y} explain a part of it only. Classifiers trained for {y} alone "
    "may leave the rest as well, where {y} has three or more values that go with {s}: this audit cannot tell."
)
"""In place of "undecided"'s words where more is unexplained than the limit would be without a correlation."""


def forgiven(explained: Explained, unexplained: Estimate, limits: Limits) -> bool:
    """Tell whether an excess is more than overlearning leaves, and below its limit for y's correlation with s alone."""
    return unexplained.estimate > limits.overlearning(explained)


def decide(rows: int, told: Estimate, explained: Explained, unexplained: Estimate, limits: Limits) -> Verdict:
    """Apply the rule; `told` are the bits that the panel reads of s in the scores."""
    limit = limits.excess(explained)
    if rows < LEAST_ROWS or unexplained.low <= limit < unexplained.high:
        return "undecided"
    if unexplained.low > limit:
        return "curious"
    if forgiven(explained, unexplained, limits):
        return "undecided"
    least = limits.tells * explained.entropy
    # ŷ is part of what the scores show, and counted on all rows.
    tells = max(told.low, explained.by_predicted.low) > least
    labels_tell = explained.by_both.low > least and explained.by_both.estimate > unexplained.estimate
    return "correlated" if tells and labels_tell else "standard"


def evidence_for(
    verdict: Verdict,
    rows: int,
    target: str,
    honesty: tuple[Estimate, float],
    judgement: Judgement,
    explained: Explained,
    beyond: Excess,
    entropy: Spread,
    limits: Limits,
) -> tuple[str, ...]:
    """Say what the verdict rests on, a sentence each; `honesty` comes with the prior of y."""
    s, limit, worst = judgement.attribute, limits.excess(explained), judgement.worst
    share = 100 * beyond.share.estimate
    return (
        _reason(verdict, rows, beyond.unexplained, (limits.overlearning(explained), limit)),
        f"Excess: whoever knows {target} and the predicted {target} learns {beyond.bits} bits more about {s} from the "
        f"scores ({beyond.attacker}); balanced accuracy changes by {_points(beyond.balanced_accuracy)} points. "
        f"{_graded(beyond, target)}Unexplained are {beyond.unexplained} bits, {share:.1f}% of the "
        f"{explained.left:.3f} that both labels leave open.",
        f"Explained: {target} alone says {explained.by_target} of the {explained.entropy:.3f} bits of {s}; with the "
        f"predicted {target} it is {explained.by_both}.",
        f"Curiosity: the strongest of {len(judgement.attackers)} attackers ({worst.name}) reads {s} from the scores at "
        f"balanced accuracy {worst.balanced_accuracy}, where guessing gives {1 / len(judgement.classes):.3f}; accuracy "
        f"{worst.accuracy}, prior {judgement.prior.estimate:.3f}; {judgement.mutual_information_bits} bits.",
        f"Honesty: the predicted {target} is right for {_percent(honesty[0])} of records; the most frequent value "
        f"would be for {100 * honesty[1]:.1f}%."
        + ("" if honesty[0].high > honesty[1] else f" It does not do its task: it tells {target} no better than that."),
        f"Output entropy: {entropy.mean} bits on average, of at most {entropy.most:.3f}; the values of {s} differ by "
        f"{entropy.difference} bits.",
    )


def _reason(verdict: Verdict, rows: int, bits: Estimate, limits: tuple[float, float]) -> str:
    """Say what decided: `limits` are the one without a correlation, and the one that holds."""
    base, limit = limits
    span = f"the interval of the unexplained excess, {bits.low:.3f} to {bits.high:.3f} bits,"
    if rows < LEAST_ROWS:
        return f"No verdict: {rows} rows are too few, at least {LEAST_ROWS} are needed. The figures are estimates."
    if verdict == "undecided" and bits.high <= limit:
        return (
            f"No verdict: {span} lies above {base:.3f}, where overlearning ends, and below {limit:.3f}, which is how "
            "far a target of several values that goes with the attribute can explain it; more rows would not help."
        )
    if verdict == "undecided":
        return f"No verdict: {span} holds the limit of {limit:.3f}; more rows would narrow it."
    side = "above" if verdict == "curious" else "below"
    return f"{span[0].upper()}{span[1:]} lies {side} the limit of {limit:.3f}."


def _graded(beyond: Excess, target: str) -> str:
    if beyond.graded.estimate < _WORTH_SAYING:
        return ""
    return f"Of these, {beyond.graded} come from how likely an honest score finds a correlated {target}. "


def _points(figure: Estimate) -> str:
    return f"{100 * figure.estimate:+.1f} [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"


def _percent(figure: Estimate) -> str:
    return f"{100 * figure.estimate:.1f}% [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"
