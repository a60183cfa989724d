"""Audit one classifier from its outputs: honesty, curiosity, what labels explain, the excess, and a verdict.

Honesty δ_y is the accuracy of ŷ; curiosity δ_s is how well attackers trained for it read s from the scores (Malekzadeh,
Borovykh and Gündüz 2021, who call for such a test and leave it open). Guarantee: none. Every figure is an estimate
against the attackers tried, for the records seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedveil.attacks.fresh import LEAST
from fedveil.attacks.judgement import Judgement
from fedveil.attacks.panel import panel as panel_of
from fedveil.audit.evidence import evidence_for, meaning_of
from fedveil.audit.excess import Excess, excess
from fedveil.audit.explained import Explained, explained
from fedveil.audit.output_entropy import OutputEntropy, output_entropy
from fedveil.audit.outputs import Outputs, visible_columns
from fedveil.audit.percent import warning_if_percent
from fedveil.audit.readings import finer_than_kept
from fedveil.audit.verdict import LIMITS, WORST_FIRST, Decision, Limits, Reason, Verdict, decide
from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.figures import Estimate
from fedveil.core.measures import counting_units, share_right
from fedveil.data.attribute import Attribute
from fedveil.view import View

_NOT_FOR_EXCESS = ("rbf-svm", "forest", "look-up")
"""Attackers that do not take part in measuring the excess: they are slow, or their posteriors are coarse; what a
look-up table could add is what the search for codes reads."""


@dataclass(frozen=True, eq=False)
class Audit:
    """The result of an audit for one attribute.

    Attributes:
        attribute, target: names of s and y.
        classes: y's values.
        n: records audited.
        unlabelled: further records, which lack s.
        raw: whether raw scores were audited.
        decimals: to how many decimals probabilities were rounded for the audit; None if they were not.
        finer: whether records differ in scores that would be equal if rounded to two decimals.
        honesty: accuracy of ŷ.
        target_prior: share of y's most frequent value.
        judgement: how well the panel reads s from the scores.
        explained: bits about s in y and ŷ.
        beyond: the excess, bits about s beyond (y, ŷ), and the part of it that is unexplained.
        entropy: how certain the outputs are, by value of s.
        verdict: "standard", "correlated", "curious" or "undecided".
        reason: what decided.
        evidence: sentences, the decisive one first.
        limits: the limits that the verdict applied.
        confidence: the level of the intervals.
        seed: the seed of splits, attackers and intervals.
    """

    attribute: str
    target: str
    classes: tuple[str, ...]
    n: int
    unlabelled: int
    raw: bool
    decimals: int | None
    finer: bool
    honesty: Estimate
    target_prior: float
    judgement: Judgement
    explained: Explained
    beyond: Excess
    entropy: OutputEntropy
    verdict: Verdict
    reason: Reason
    evidence: tuple[str, ...]
    limits: Limits
    confidence: float
    seed: int

    @property
    def meaning(self) -> str:
        """The verdict in words."""
        return meaning_of(Decision(self.verdict, self.reason), self.attribute, self.target)

    @property
    def limit(self) -> float:
        """The limit in bits that the unexplained excess was compared with."""
        return self.limits.excess(self.explained, self.finer)

    def as_dict(self) -> dict[str, Any]:
        """Return the form that `--json` prints."""
        return {
            "verdict": self.verdict,
            "reason": self.reason,
            "in_words": self.meaning,
            "evidence": list(self.evidence),
            "attribute": self.attribute,
            "target": self.target,
            "classes": list(self.classes),
            "n": self.n,
            "unlabelled": self.unlabelled,
            "raw": self.raw,
            "rounded_to_decimals": self.decimals,
            "more_than_two_decimals": self.finer,
            "honesty": {**self.honesty.as_dict(), "prior": self.target_prior},
            "curiosity": self.judgement.as_dict(),
            "explained": self.explained.as_dict(),
            "excess": {**self.beyond.as_dict(), "limit_bits": self.limit},
            "output_entropy": self.entropy.as_dict(),
            "limits": vars(self.limits),
            "confidence": self.confidence,
            "seed": self.seed,
            "kind": "estimate, against the attackers tried",
        }

    def __str__(self) -> str:
        return f"{self.attribute}: {self.verdict}; {self.beyond.unexplained} bits unexplained, limit {self.limit:.3f}"


def audit(
    outputs: Outputs,
    secret: str | None = None,
    *,
    panel: str = "full",
    seed: int = 0,
    confidence: float = 0.95,
    limits: Limits = LIMITS,
    device: str = "auto",
    progress: Callable[[str], None] | None = None,
) -> Audit:
    """Audit one attribute.

    Args:
        outputs: the classifier's answers and the truth.
        secret: name of s; not needed if the outputs have only one attribute.
        panel: "full", "quick", or attackers by name, "a,b".
        seed: the seed of splits, attackers and intervals.
        confidence: the level of the intervals.
        limits: the limits that the verdict applies.
        device: where attackers' networks are trained.
        progress: called with a line whenever an attacker starts.
    """
    name = _named(outputs, secret)
    labelled = outputs.secrets[name].known
    audited, s = outputs.take(labelled), _occurring(outputs.secrets[name].take(labelled))
    _check_enough(s, audited.groups)
    y = audited.y
    if len(np.unique(y.codes)) < 2:
        raise InputError(
            f"audit: target {y.name!r} is {y.values[y.codes[0]]!r} in all rows: neither honesty nor what the target "
            "explains can be measured; add rows with other values"
        )
    judges = panel_of(panel, seed=seed, confidence=confidence, device=device, progress=progress)
    judgement = judges.judge(View.of_vectors(visible_columns(audited), {name: s}, groups=audited.groups, seed=seed))
    attackers = [attacker for attacker in judges.attackers if attacker not in _NOT_FOR_EXCESS] or judges.attackers
    beyond = excess(audited, s, attackers, confidence=confidence, seed=seed, device=device, progress=progress)
    by_labels = explained(audited, s, confidence, seed)
    entropy = output_entropy(audited, s, confidence, seed)
    honesty = share_right(audited.predicted == y.codes, audited.groups, confidence=confidence, seed=seed)
    finer = finer_than_kept(audited)
    decision = decide(len(audited), judgement.mutual_information_bits, by_labels, beyond, finer, limits)
    evidence = evidence_for(
        decision,
        len(audited),
        y.name,
        (honesty, y.prior),
        judgement,
        by_labels,
        beyond,
        entropy,
        (limits.overlearning(by_labels, finer), limits.excess(by_labels, finer)),
    )
    warning = warning_if_percent(audited)
    return Audit(
        attribute=name,
        target=y.name,
        classes=y.values,
        n=len(audited),
        unlabelled=len(outputs) - len(audited),
        raw=audited.raw,
        decimals=audited.decimals,
        finer=finer,
        honesty=honesty,
        target_prior=y.prior,
        judgement=judgement,
        explained=by_labels,
        beyond=beyond,
        entropy=entropy,
        verdict=decision.verdict,
        reason=decision.reason,
        evidence=evidence if warning is None else (*evidence, warning),
        limits=limits,
        confidence=confidence,
        seed=seed,
    )


def audit_all(
    outputs: Outputs,
    *,
    panel: str = "full",
    seed: int = 0,
    confidence: float = 0.95,
    limits: Limits = LIMITS,
    device: str = "auto",
    progress: Callable[[str], None] | None = None,
) -> list[Audit]:
    """Audit every attribute, the worst first; the intervals hold jointly (Bonferroni)."""
    if not outputs.secrets:
        raise InputError("audit: no sensitive attribute is given; name at least one")
    for secret in outputs.secrets.values():  # refuse what cannot be audited before time is spent on the rest
        _check_enough(_occurring(secret.take(secret.known)), None)
    level = 1 - (1 - confidence) / len(outputs.secrets)
    audits = [
        audit(outputs, name, panel=panel, seed=seed, confidence=level, limits=limits, device=device, progress=progress)
        for name in outputs.secrets
    ]
    return sorted(audits, key=_badness)


def _badness(result: Audit) -> tuple[float, ...]:
    from_scores = result.judgement.mutual_information_bits.estimate
    return (WORST_FIRST.index(result.verdict), -result.beyond.unexplained.estimate, -from_scores)


def _named(outputs: Outputs, secret: str | None) -> str:
    if secret is None:
        if len(outputs.secrets) != 1:
            raise InputError(f"audit: name the attribute to audit, one of: {', '.join(outputs.secrets) or 'none'}")
        return next(iter(outputs.secrets))
    if secret not in outputs.secrets:
        raise InputError(f"audit: no attribute {secret!r}: {nearest(secret, outputs.secrets)}")
    return secret


def _occurring(secret: Attribute) -> Attribute:
    """Drop values that no record carries; refuse an attribute with fewer than two."""
    occurring = np.flatnonzero(secret.counts)
    if len(occurring) < 2:
        only = f"only one value ({secret.values[occurring[0]]!r})" if len(occurring) else "no value at all"
        raise InputError(f"attribute {secret.name!r} has {only}: there is nothing to infer; choose another")
    codes = np.searchsorted(occurring, secret.codes)
    return Attribute(secret.name, codes, tuple(secret.values[code] for code in occurring))


def _check_enough(secret: Attribute, groups: IntArray | None) -> None:
    """Refuse a value that is too rare for attackers to learn from one half of the rows and be tried on the other."""
    units = counting_units(secret.codes, len(secret.values), groups)
    rare = int(units.argmin())
    if units[rare] < LEAST:
        what = "rows" if groups is None else "groups of rows"
        raise InputError(
            f"attribute {secret.name!r}: value {secret.values[rare]!r} has {units[rare]} {what}, at least {LEAST} are "
            "needed; merge it with another value, or leave those rows out"
        )
