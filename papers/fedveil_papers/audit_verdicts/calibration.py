"""Classifiers with their verdicts, and the limits midway between standard and curious classifiers.

The limits of `fedveil.audit.verdict` were chosen by `midway` on the calibration half of the preset curious/audit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedveil.audit import Audit
from fedveil.audit.explained import Explained
from fedveil.audit.verdict import Limits, Verdict, decide
from fedveil.core.figures import Estimate

LABELS = ("standard", "curious", "failed attempt")
VERDICTS: tuple[Verdict, ...] = ("standard", "correlated", "undecided", "curious")
HALVES = ("calibration", "report")


@dataclass(frozen=True)
class AuditFigures:
    """The figures that a verdict is based on, stored so that other limits can be tried without new measurements.

    Attributes:
        rows: how many records the audit saw.
        information: the bits about s that the panel reads in the scores.
        explained: what y and ŷ explain.
        unexplained, share: the unexplained excess in bits, and as a share of H(s | y, ŷ).
        curiosity: balanced accuracy of the strongest attacker.
        verdict: the audit's verdict.
        limit: the limit on `share`.
    """

    rows: int
    information: Estimate
    explained: Explained
    unexplained: Estimate
    share: Estimate
    curiosity: Estimate
    verdict: Verdict
    limit: float

    @classmethod
    def of(cls, stored: Mapping[str, Any], limits: Limits) -> AuditFigures:
        """Read the JSON of `kept_of`, and decide."""
        labels = stored["explained"]
        bits = {name: Estimate(**labels[f"{name}_bits"]) for name in ("by_target", "by_predicted", "by_both")}
        explained = Explained(labels["entropy_bits"], labels["left_bits"], labels["target_values"], **bits)
        rows, information = stored["rows"], Estimate(**stored["told"])
        unexplained = Estimate(**stored["excess"]["unexplained"])
        return cls(
            rows=rows,
            information=information,
            explained=explained,
            unexplained=unexplained,
            share=Estimate(**stored["excess"]["share"]),
            curiosity=Estimate(**stored["curiosity"]),
            verdict=decide(rows, information, explained, unexplained, limits),
            limit=limits.share(explained),
        )

    @property
    def correlation(self) -> float:
        """ρ = I(s; y)/H(s)."""
        return self.explained.by_target.estimate / self.explained.entropy


def kept_of(audit: Audit) -> dict[str, Any]:
    """Return an audit's figures as JSON."""
    return {
        "rows": audit.n,
        "told": audit.judgement.mutual_information_bits.as_dict(),
        "explained": audit.explained.as_dict(),
        "excess": audit.beyond.as_dict(),
        "curiosity": audit.judgement.worst.balanced_accuracy.as_dict(),
    }


@dataclass(frozen=True)
class Member:
    """A classifier of the zoo with its audits.

    Attributes:
        case, recipe, half, seed: which classifier it is.
        label: "standard", "curious", or "failed attempt" if its maker reads hardly more than from a standard network.
        curious: whether it was trained to carry s.
        beta_x: the weight of compression.
        honesty: accuracy on y.
        prior: the share of s's most frequent value.
        read: accuracy of the maker's attack on test records; None if the maker has no attack.
        gain: for a curious classifier, the maker's accuracy on validation records above the case's standard network.
        audits: the first with the main number of rows, the others with fewer or more.
    """

    case: str
    recipe: str
    half: str
    seed: int
    label: str
    curious: bool
    beta_x: float
    honesty: Estimate
    prior: float
    read: float | None
    gain: float | None
    audits: list[AuditFigures]

    @property
    def audit(self) -> AuditFigures:
        """The audit with the main number of rows."""
        return self.audits[0]

    @property
    def is_wrong(self) -> bool:
        """Whether the verdict is not what the classifier is; failed attempts cannot be wrong."""
        if self.label == "curious":
            return self.audit.verdict != "curious"
        return self.label == "standard" and self.audit.verdict in ("curious", "undecided")


@dataclass(frozen=True)
class VerdictCount:
    """How many classifiers of one label got each verdict.

    Attributes:
        half: "calibration", "report" or "all".
        rows: how many records the audits saw; None: the main number.
        label: what the classifiers are.
        members: the number of classifiers.
        standard, correlated, undecided, curious: how many got this verdict.
    """

    half: str
    rows: int | None
    label: str
    members: int
    standard: int
    correlated: int
    undecided: int
    curious: int

    @classmethod
    def of(cls, half: str, rows: int | None, label: str, verdicts: Sequence[Verdict]) -> VerdictCount:
        """Count verdicts."""
        return cls(half, rows, label, len(verdicts), *(verdicts.count(verdict) for verdict in VERDICTS))


def counts(members: Sequence[Member]) -> list[VerdictCount]:
    """Count verdicts at the main number of rows, by half and by label."""
    return [
        VerdictCount.of(
            half,
            None,
            label,
            [member.audit.verdict for member in members if member.label == label and half in ("all", member.half)],
        )
        for half in (*HALVES, "all")
        for label in LABELS
    ]


def counts_by_rows(members: Sequence[Member]) -> list[VerdictCount]:
    """Count verdicts by number of rows, for the classifiers that were audited with several numbers."""
    several = [member for member in members if len(member.audits) > 1]
    sizes = sorted({audit.rows for member in several for audit in member.audits})
    return [
        VerdictCount.of(
            "all",
            rows,
            label,
            [
                audit.verdict
                for member in several
                if member.label == label
                for audit in member.audits
                if audit.rows == rows
            ],
        )
        for rows in sizes
        for label in LABELS
    ]


@dataclass(frozen=True)
class Midway:
    """Limits midway between standard and curious classifiers, with the ends that they lie between.

    Attributes:
        standard, curious: the highest upper end of a standard classifier's interval and the lowest lower end of a
            curious one's, of the share of H(s | y, ŷ).
        share: their geometric mean (as many times above the one as below the other).
        ruled_out_standard, ruled_out_curious, ruled_out: the same for (end − share)/ρ, of classifiers whose score can
            rule out values of a correlated y (three or more values, and ρ = I(s; y)/H(s) not small).
    """

    standard: float | None
    curious: float | None
    share: float | None
    ruled_out_standard: float | None = None
    ruled_out_curious: float | None = None
    ruled_out: float | None = None


def midway(members: Sequence[Member], tells: float) -> Midway:
    """Return the limits that follow from these classifiers; None if there are no such classifiers.

    Failed attempts are left out. y counts as correlated with s if ρ is at least `tells`.
    """
    others = [member for member in members if not _can_rule_out(member.audit, tells)]
    correlated = [member for member in members if _can_rule_out(member.audit, tells)]
    standard = max((member.audit.share.high for member in others if member.label == "standard"), default=None)
    curious = min((member.audit.share.low for member in others if member.label == "curious"), default=None)
    share = _geometric_mean(standard, curious)
    if share is None:
        return Midway(standard, curious, None)
    low = max(
        ((m.audit.share.high - share) / m.audit.correlation for m in correlated if m.label == "standard"), default=None
    )
    high = min(
        ((m.audit.share.low - share) / m.audit.correlation for m in correlated if m.label == "curious"), default=None
    )
    return Midway(standard, curious, share, low, high, _geometric_mean(low, high))


def _can_rule_out(audit: AuditFigures, tells: float) -> bool:
    """Return whether a score can rule out values of a y that is correlated with s."""
    return audit.explained.target_values > 2 and audit.correlation >= tells


def _geometric_mean(low: float | None, high: float | None) -> float | None:
    if low is None or high is None:
        return None
    return float((max(low, 0.0) * max(high, 0.0)) ** 0.5)
