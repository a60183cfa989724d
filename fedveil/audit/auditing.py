"""Audit one classifier from its outputs: honesty, curiosity, what labels explain, the excess, and a verdict.

Honesty δ_y is the accuracy of ŷ; curiosity δ_s is how well s is read from the scores by attackers trained for it
(Malekzadeh, Borovykh and Gündüz 2021, who ask for such a test and leave it open). Guarantee: none. Every figure is an
estimate against the attackers tried, for the records seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedveil.attacks.fresh import LEAST
from fedveil.attacks.judgement import Judgement
from fedveil.attacks.panel import panel as panel_of
from fedveil.audit.calibration import LEAST_ROWS, LIMITS, Limits
from fedveil.audit.excess import Excess, excess
from fedveil.audit.explained import Explained, explained
from fedveil.audit.outputs import Outputs
from fedveil.audit.seen import seen
from fedveil.audit.spread import Spread, spread
from fedveil.audit.verdict import FORGIVEN, MEANING, WORST_FIRST, Verdict, decide, evidence_for, forgiven
from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.figures import Estimate
from fedveil.core.measures import counting_units, share_right
from fedveil.data.attribute import Attribute
from fedveil.view import View

_DRAWS = 1000

_ASKED_ONCE = ("rbf-svm", "forest")
"""Read the scores like the others, but are not asked again beyond the labels: slow, and their posteriors are coarse."""


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found about one attribute.

    Attributes:
        attribute, target: names of s and y.
        classes: y's values.
        n: records audited; `unlabelled` others lack s.
        raw: whether raw scores were given.
        honesty: accuracy of ŷ.
        target_prior: share of y's most frequent value.
        judgement: the panel's, of s from the scores.
        explained: bits about s in y and ŷ.
        beyond: the excess, bits about s beyond (y, ŷ), and the part of it that is unexplained.
        entropy: output entropy and its shape.
        verdict: "standard", "correlated", "curious" or "undecided".
        evidence: sentences, the decisive one first.
        limits: what the verdict compared with.
    """

    attribute: str
    target: str
    classes: tuple[str, ...]
    n: int
    unlabelled: int
    raw: bool
    honesty: Estimate
    target_prior: float
    judgement: Judgement
    explained: Explained
    beyond: Excess
    entropy: Spread
    verdict: Verdict
    evidence: tuple[str, ...]
    limits: Limits
    confidence: float
    seed: int

    @property
    def meaning(self) -> str:
        """The verdict in words."""
        words = MEANING[self.verdict]
        settled = self.beyond.unexplained.high <= self.limit and self.n >= LEAST_ROWS
        if self.verdict == "undecided" and settled and forgiven(self.explained, self.beyond.unexplained, self.limits):
            words = FORGIVEN
        return words.format(s=self.attribute, y=self.target)

    @property
    def limit(self) -> float:
        """Bits that the unexplained excess was held against."""
        return self.limits.excess(self.explained)

    def as_dict(self) -> dict[str, Any]:
        """Return the form that `--json` prints."""
        return {
            "verdict": self.verdict,
            "in_words": self.meaning,
            "evidence": list(self.evidence),
            "attribute": self.attribute,
            "target": self.target,
            "classes": list(self.classes),
            "n": self.n,
            "unlabelled": self.unlabelled,
            "raw": self.raw,
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
    """Audit one attribute; the only one where none is named.

    Args:
        outputs: the classifier's answers and the truth.
        secret: name of s.
        panel: "full", "quick", or attackers by name, "a,b".
        seed: of splits, attackers and intervals.
        confidence: level of the intervals.
        limits: what the verdict compares with.
        device: where attackers' networks are trained.
        progress: called with a line whenever an attacker starts.
    """
    name = _named(outputs, secret)
    known = outputs.secrets[name].known
    about, s = outputs.take(known), _occurring(outputs.secrets[name].take(known))
    _check_enough(s, about.groups)
    if len(np.unique(about.y.codes)) < 2:
        raise InputError(
            f"audit: target {about.y.name!r} is {about.y.values[about.y.codes[0]]!r} in all rows: neither honesty nor "
            "what it explains can be told; add rows of other values"
        )
    judges = panel_of(panel, seed=seed, confidence=confidence, device=device, progress=progress)
    judgement = judges.judge(View.of_vectors(seen(about), {name: s}, groups=about.groups, seed=seed))
    again = [one for one in judges.attackers if one not in _ASKED_ONCE] or judges.attackers
    beyond = excess(about, s, again, confidence=confidence, seed=seed, device=device, progress=progress)
    told = explained(about, s, confidence, seed)
    shape = spread(about, s, confidence, seed)
    honesty = share_right(about.predicted == about.y.codes, about.groups, confidence=confidence, seed=seed)
    verdict = decide(len(about), judgement.mutual_information_bits, told, beyond.unexplained, limits)
    return Audit(
        attribute=name,
        target=about.y.name,
        classes=about.y.values,
        n=len(about),
        unlabelled=len(outputs) - len(about),
        raw=about.raw,
        honesty=honesty,
        target_prior=about.y.prior,
        judgement=judgement,
        explained=told,
        beyond=beyond,
        entropy=shape,
        verdict=verdict,
        evidence=evidence_for(
            verdict, len(about), about.y.name, (honesty, about.y.prior), judgement, told, beyond, shape, limits
        ),
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
    """Audit every attribute, the worst first; the intervals hold together (Bonferroni)."""
    if not outputs.secrets:
        raise InputError("audit: no sensitive attribute is given; name at least one")
    for secret in outputs.secrets.values():  # refuse what cannot be audited before time is spent on the rest
        _check_enough(_occurring(secret.take(secret.known)), None)
    level = 1 - (1 - confidence) / len(outputs.secrets)
    found = [
        audit(outputs, name, panel=panel, seed=seed, confidence=level, limits=limits, device=device, progress=progress)
        for name in outputs.secrets
    ]
    return sorted(found, key=_badness)


def _badness(one: Audit) -> tuple[float, ...]:
    told = one.judgement.mutual_information_bits.estimate
    return (WORST_FIRST.index(one.verdict), -one.beyond.unexplained.estimate, -told)


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
    there = np.flatnonzero(secret.counts)
    if len(there) < 2:
        only = f"one value ({secret.values[there[0]]!r}) only" if len(there) else "no value at all"
        raise InputError(f"attribute {secret.name!r} has {only}: there is nothing to infer; choose another")
    codes = np.searchsorted(there, secret.codes)
    return Attribute(secret.name, codes, tuple(secret.values[code] for code in there))


def _check_enough(secret: Attribute, groups: IntArray | None) -> None:
    """Refuse a value so rare that attackers cannot learn from one half of the rows and be tried on the other."""
    units = counting_units(secret.codes, len(secret.values), groups)
    rare = int(units.argmin())
    if units[rare] < LEAST:
        what = "rows" if groups is None else "groups of rows"
        raise InputError(
            f"attribute {secret.name!r}: value {secret.values[rare]!r} has {units[rare]} {what}, at least {LEAST} are "
            "needed; merge it with another value, or leave those rows out"
        )
