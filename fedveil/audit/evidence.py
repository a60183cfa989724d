"""The sentences that justify a verdict, and what a verdict means in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.audit.verdict import LEAST_ROWS, Decision, Verdict
from fedveil.core.figures import Estimate

if TYPE_CHECKING:
    from fedveil.attacks.judgement import Judgement
    from fedveil.audit.excess import Excess
    from fedveil.audit.explained import Explained
    from fedveil.audit.output_entropy import OutputEntropy

_WORTH_SAYING = 0.0005
"""Fewer bits than this are shown as none."""

_MEANING: dict[Verdict, str] = {
    "curious": "The scores carry far more about {s} than {y} and the predicted {y} explain, and far more than "
    "classifiers trained for {y} alone leave behind.",
    "correlated": "The scores reveal {s}, but {y} and the predicted {y} explain it: the two attributes are related in "
    "these records.",
    "standard": "The scores reveal little about {s} beyond {y} and the predicted {y}: no more than the traces that "
    "classifiers trained for {y} alone leave behind.",
    "undecided": "These rows do not settle whether the scores carry more about {s} than {y} and the predicted {y} "
    "explain.",
}

_MEANING_BY_REASON: dict[str, str] = {
    "correlation": "The scores reveal {s}, and {y} and the predicted {y} explain only a part of it. Classifiers that "
    "are trained for {y} alone may leave the rest as well if {y} has several values that are correlated with {s}: this "
    "audit cannot decide.",
    "order": "No attacker read more about {s} in the scores than classifiers trained for {y} alone leave behind, but "
    "the order of the records in the file reveals {s}.",
    "precision": "No attacker read more about {s} than classifiers trained for {y} alone leave behind. But the scores "
    "have more than two decimals, and what lies below could carry a code for {s} that no search can rule out.",
    "code": "The scores carry {s} below their second decimal or in the order of the file, where a classifier trained "
    "for {y} alone leaves nothing.",
}


def meaning_of(decision: Decision, attribute: str, target: str) -> str:
    """Return a verdict in words."""
    words = _MEANING_BY_REASON.get(decision.reason, _MEANING[decision.verdict])
    return words.format(s=attribute, y=target)


def evidence_for(
    decision: Decision,
    rows: int,
    target: str,
    honesty: tuple[Estimate, float],
    judgement: Judgement,
    explained: Explained,
    beyond: Excess,
    entropy: OutputEntropy,
    bounds: tuple[float, float],
) -> tuple[str, ...]:
    """Return the evidence for the verdict, one or two sentences per figure.

    `honesty` comes with the prior of y; `bounds` are the most that overlearning leaves, and the limit, in bits.
    """
    s, worst = judgement.attribute, judgement.worst
    share = 100 * beyond.share.estimate
    return (
        _reason(decision, rows, beyond, bounds),
        f"Excess: whoever knows {target} and the predicted {target} learns {beyond.bits} bits more about {s} from the "
        f"scores ({beyond.attacker}); balanced accuracy changes by {_points(beyond.balanced_accuracy)} points. "
        f"{_parts(beyond, target)}{beyond.unexplained} bits are unexplained, {share:.1f}% of what both labels leave "
        "open.",
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


def _reason(decision: Decision, rows: int, beyond: Excess, bounds: tuple[float, float]) -> str:
    """Say what decided."""
    (base, limit), bits = bounds, beyond.unexplained
    span = f"the interval of what is unexplained, {bits.low:.3f} to {bits.high:.3f} bits,"
    match decision.reason:
        case "few rows":
            return f"No verdict: {rows} rows are too few, at least {LEAST_ROWS} are needed. The figures are estimates."
        case "code":
            return (
                f"A code was found in {' and '.join(beyond.code_in[:2])}: it adds {beyond.code} bits to what a "
                "smooth reading of the scores and their first two decimals reveal. Rounding scores before they are "
                "released would remove it."
            )
        case "correlation":
            return (
                f"No verdict: {span} lies above {base:.3f}, the most that overlearning leaves, and below {limit:.3f}, "
                "the most that a target of several values correlated with the attribute can explain; more rows would "
                "not help."
            )
        case "contains the limit":
            return f"No verdict: {span} contains the limit of {limit:.3f}; more rows would narrow it."
        case "order":
            return (
                "No verdict: whoever ordered the rows ordered them by the attribute, at least among equal scores. Sort "
                "them as they were when you sent them, shuffled, and repeat; --round leaves their order out."
            )
        case "precision":
            return (
                f"No verdict: {span} lies below the limit of {limit:.3f}, but scores with more than two decimals can "
                "hide what no attacker tried can read. Repeat the audit with --round 2: it judges what is left if "
                "probabilities are released with two decimals."
            )
    side = "above" if decision.verdict == "curious" else "below"
    return f"{span[0].upper()}{span[1:]} lies {side} the limit of {limit:.3f}."


def _parts(beyond: Excess, target: str) -> str:
    """Say which part of the excess is honest, and what predictions add to it."""
    sentences = ""
    if beyond.graded.estimate >= _WORTH_SAYING:
        sentences += f"Of these, {beyond.graded} come from how likely an honest score rates a correlated {target}. "
    if beyond.amplified.estimate >= _WORTH_SAYING:
        sentences += f"The predicted {target} reveals {beyond.amplified} bits more than twice what {target} does. "
    return sentences


def _points(figure: Estimate) -> str:
    return f"{100 * figure.estimate:+.1f} [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"


def percent(figure: Estimate) -> str:
    """Return a share with its interval in per cent."""
    return f"{100 * figure.estimate:.1f}% [{100 * figure.low:.1f}, {100 * figure.high:.1f}]"
