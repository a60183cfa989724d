"""Classifiers with their verdicts, and the ends between which the limits were chosen.

The limits of `fedveil.audit.verdict` were chosen from `ends_of` the calibration half of the preset curious/audit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedveil.audit import Audit
from fedveil.audit.excess import Excess
from fedveil.audit.explained import Explained
from fedveil.audit.verdict import Limits, Reason, Verdict, decide
from fedveil.core.figures import Estimate

LABELS = ("standard", "curious", "digit code", "failed attempt")
VERDICTS: tuple[Verdict, ...] = ("standard", "correlated", "undecided", "curious")
HALVES = ("calibration", "report")
_MARGIN = 1.2


@dataclass(frozen=True)
class AuditFigures:
    """The figures that a verdict is based on, stored so that other limits can be tried without new measurements.

    Attributes:
        rows: how many records the audit saw.
        information: the bits about s that the panel reads in the scores.
        explained: what y and ŷ explain.
        unexplained, share: the unexplained excess in bits, and as a share of H(s | y, ŷ).
        curiosity: balanced accuracy of the strongest attacker.
        code: the bits that only readings below two decimals add.
        finer: whether scores differ below two decimals.
        verdict, reason: the audit's verdict, and what decided.
        limit: the limit on `share`.
    """

    rows: int
    information: Estimate
    explained: Explained
    unexplained: Estimate
    share: Estimate
    curiosity: Estimate
    code: Estimate
    finer: bool
    verdict: Verdict
    reason: Reason
    limit: float

    @classmethod
    def of(cls, stored: Mapping[str, Any], limits: Limits) -> AuditFigures:
        """Read the JSON of `kept_of`, and decide."""
        labels = stored["explained"]
        bits = {name: Estimate(**labels[f"{name}_bits"]) for name in ("by_target", "by_predicted", "by_both")}
        explained = Explained(labels["entropy_bits"], labels["left_bits"], labels["target_values"], **bits)
        rows, information, finer = stored["rows"], Estimate(**stored["told"]), stored["finer"]
        beyond = Excess.of(stored["excess"])
        decision = decide(rows, information, explained, beyond, finer, limits)
        return cls(
            rows=rows,
            information=information,
            explained=explained,
            unexplained=beyond.unexplained,
            share=beyond.share,
            curiosity=Estimate(**stored["curiosity"]),
            code=beyond.code,
            finer=finer,
            verdict=decision.verdict,
            reason=decision.reason,
            limit=limits.share(explained, finer),
        )

    @property
    def correlation(self) -> float:
        """ρ = I(s; y)/H(s)."""
        return self.explained.by_target.estimate / self.explained.entropy


def kept_of(audit: Audit) -> dict[str, Any]:
    """Return an audit's figures as JSON."""
    return {
        "rows": audit.n,
        "finer": audit.finer,
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
        label: "standard", "curious", "digit code", or "failed attempt" if its maker reads hardly more than from a
            standard network.
        curious: whether it was trained to carry s.
        beta_x: the weight of compression.
        honesty: accuracy on y.
        prior: the share of s's most frequent value.
        read: accuracy of the maker's attack on test records; None if the maker has no attack.
        gain: for a curious classifier, the maker's accuracy on validation records above the case's standard network.
        audits: the first with the main number of rows, the others with fewer or more.
        rounded: the audit with the main number of rows and probabilities rounded to two decimals; None if it was
            trained to be curious.
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
    rounded: AuditFigures | None

    @property
    def audit(self) -> AuditFigures:
        """The audit with the main number of rows."""
        return self.audits[0]

    @property
    def is_caught(self) -> bool:
        """Whether it is called curious as released, or rounded to two decimals."""
        return "curious" in (self.audit.verdict, None if self.rounded is None else self.rounded.verdict)

    @property
    def is_wrong(self) -> bool:
        """Whether the verdict is not what the classifier is; failed attempts cannot be wrong."""
        if self.label in ("curious", "digit code"):
            return not self.is_caught and self.audit.reason != "order"
        return self.label == "standard" and (
            self.audit.verdict == "curious"
            or (self.rounded is not None and self.rounded.verdict in ("curious", "undecided"))
        )


@dataclass(frozen=True)
class VerdictCount:
    """How many classifiers of one label got each verdict.

    Attributes:
        half: "calibration", "report" or "all".
        rows: how many records the audits saw; None: the main number.
        rounded: whether probabilities were rounded to two decimals.
        label: what the classifiers are.
        members: the number of classifiers.
        standard, correlated, undecided, curious: how many got this verdict.
    """

    half: str
    rows: int | None
    rounded: bool
    label: str
    members: int
    standard: int
    correlated: int
    undecided: int
    curious: int

    @classmethod
    def of(
        cls, half: str, rows: int | None, label: str, verdicts: Sequence[Verdict], *, rounded: bool = False
    ) -> VerdictCount:
        """Count verdicts."""
        return cls(half, rows, rounded, label, len(verdicts), *(verdicts.count(verdict) for verdict in VERDICTS))


def counts(members: Sequence[Member]) -> list[VerdictCount]:
    """Count verdicts at the main number of rows, on scores as released and rounded, by half and by label."""
    return [
        VerdictCount.of(
            half,
            None,
            label,
            [
                audited.verdict
                for member in members
                if member.label == label and half in ("all", member.half)
                for audited in [member.rounded if rounded else member.audit]
                if audited is not None
            ],
            rounded=rounded,
        )
        for rounded in (False, True)
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
class Ends:
    """What the limits were chosen from; each is None if there are no such classifiers.

    Shares are of H(s | y, ŷ); ρ = I(s; y)/H(s), and y is said to reveal s if ρ is not small.

    Attributes:
        rounded_standard: the highest upper end of a standard classifier's interval, rounded to two decimals, of those
            whose y has at most three values or does not reveal s.
        further_class: what each class beyond two must add to `excess_share`, so that the limit is 1.2 times the highest
            estimate of a standard classifier among the same; as released.
        ruled_out_standard, ruled_out_curious: (end − share without ruling out)/((Y − 3)·ρ), the highest upper end of a
            standard classifier and the lowest lower end of a curious one, of those whose y has more than three values
            and reveals s; as released.
        code_standard: the highest upper end of a code that was read in a standard classifier's scores, in bits.
        curious: the lowest lower end of a curious classifier, as a multiple of its limit; as released.
    """

    rounded_standard: float | None
    further_class: float | None
    ruled_out_standard: float | None
    ruled_out_curious: float | None
    code_standard: float | None
    curious: float | None


def ends_of(members: Sequence[Member], limits: Limits) -> Ends:
    """Return the ends for some classifiers; failed attempts and digit codes are left out."""
    standard = [member for member in members if member.label == "standard"]
    curious = [member for member in members if member.label == "curious"]

    def free(audit: AuditFigures) -> float:
        reveals = audit.correlation >= limits.tells
        return max(0, audit.explained.target_values - 3) * audit.correlation * reveals

    def beyond(audit: AuditFigures, end: float) -> float:
        return (end - limits.overlearning_share(audit.explained, audit.finer)) / free(audit)

    several = [
        member.audit for member in standard if not free(member.audit) and member.audit.explained.target_values > 2
    ]
    further = [
        (_MARGIN * audit.share.estimate - limits.excess_share) / (audit.explained.target_values - 2)
        for audit in several
    ]
    return Ends(
        rounded_standard=max((m.rounded.share.high for m in standard if m.rounded and not free(m.audit)), default=None),
        further_class=max(further, default=None),
        ruled_out_standard=max((beyond(m.audit, m.audit.share.high) for m in standard if free(m.audit)), default=None),
        ruled_out_curious=min((beyond(m.audit, m.audit.share.low) for m in curious if free(m.audit)), default=None),
        code_standard=max((m.audit.code.high for m in standard), default=None),
        curious=min((m.audit.share.low / m.audit.limit for m in curious), default=None),
    )
