"""What theory says: TAPPFL's two theorems, printed and corrected, beside what was measured.

Both need what nobody knows, the best attacker's advantage and H(u|r). The attackers' figures stand in for them, so what
comes out is an estimate against the attackers tried; where a certificate bounds the quantity, that bound is shown too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from fedveil.certificates.equivocation import AttackerCrossEntropy, estimate_accuracy
from fedveil.certificates.tappfl_theorems import (
    corrected_theorem1_error_bound,
    printed_theorem1_error_bound,
    printed_theorem2_accuracy_bound,
)
from fedveil.report.figures import inside, known_certificates, mean_figure, number
from fedveil.report.settings import Setting
from fedveil.studies.results import CellResult
from fedveil.studies.rows import CHANCES

MIN_PRODUCT = (0.5, 1.0)
"""R and C_L at which the printed Theorem 1 is at its best: 2R·C_L is 1 at least for a classifier that says 0 or 1."""

_CERTIFIED: dict[str, Callable[[list[float]], float]] = {"error_certified": min, "accuracy_certified": max}
"""What a proof says, and which of several seeds' bounds holds for all of them: the weakest, never their mean."""


def theory(settings: Sequence[Setting], task: str, attribute: str) -> dict[str, Any] | None:
    """Return the theorems' figures of every setting, for one task and attribute; None where cells lack the facts.

    `gap` is Δ, None where the task or the attribute has more than two values, and Theorem 1 says nothing.
    """
    facts = [
        (gap, bits, len(values))
        for setting in settings
        for cell in setting.cells
        for gap in [number(inside(cell.result, "theory", attribute, "gap", task))]
        for bits in [number(inside(cell.result, "theory", attribute, "entropy_bits"))]
        for values in [inside(cell.result, "leakage", attribute, "classes")]
        if bits is not None and isinstance(values, list) and len(values) > 1
    ]
    if not facts:
        return None
    gaps = [gap for gap, _, _ in facts if gap is not None]
    return {
        "gap": number(float(np.mean(gaps))) if len(gaps) == len(facts) else None,
        "entropy": number(float(np.mean([bits for _, bits, _ in facts]))),
        "values": facts[0][2],
        "settings": [_setting(setting, task, attribute) for setting in settings],
    }


def _setting(setting: Setting, task: str, attribute: str) -> dict[str, Any] | None:
    """Return one setting's figures: means over the cells that have them, and of what is certified the weakest."""
    found = [one for one in (_cell(cell, task, attribute) for cell in setting.cells) if one is not None]
    if not found:
        return None
    judged = [inside(cell.result, "leakage", attribute, "worst") for cell in setting.cells]
    means = {name: _mean([one[name] for one in found]) for name in found[0]}
    means |= {name: _weakest([one[name] for one in found], of) for name, of in _CERTIFIED.items()}
    return {
        **means,
        "advantage": mean_figure(inside(one, "advantage") for one in judged),
        "accuracy": mean_figure((inside(one, "accuracy") for one in judged), CHANCES),
    }


def _cell(cell: CellResult, task: str, attribute: str) -> dict[str, float | None] | None:
    judged = inside(cell.result, "leakage", attribute)
    facts, classes = inside(cell.result, "theory", attribute), inside(judged, "classes")
    advantage = number(inside(judged, "worst", "advantage", "estimate"))
    entropy, bits = number(inside(facts, "entropy_bits")), number(inside(judged, "mutual_information_bits", "estimate"))
    if advantage is None or entropy is None or bits is None or not isinstance(classes, list) or len(classes) < 2:
        return None
    left = max(0.0, entropy - max(0.0, bits))  # no attacker's cross-entropy lies below H(u|r): this is from above
    tried = AttackerCrossEntropy(left, len(classes), (str(inside(judged, "mutual_information_attacker")),))
    gap, advantage = number(inside(facts, "gap", task)), min(1.0, max(0.0, advantage))
    proved: dict[str, float] = {}
    for one in known_certificates(cell.result, attribute):
        if one["direction"] == "upper":  # each of them holds, so the least does
            name, bound = str(one["quantity"]), float(one["bound"])
            proved[name] = min(bound, proved.get(name, bound))
    most = min(1.0, proved["advantage"]) if "advantage" in proved else None
    return {
        "error": _summed_error(cell.result, task, attribute, len(classes)),
        "error_corrected": None if gap is None else corrected_theorem1_error_bound(gap, advantage),
        "error_printed": None if gap is None else printed_theorem1_error_bound(gap, advantage, *MIN_PRODUCT),
        "error_certified": None if gap is None or most is None else corrected_theorem1_error_bound(gap, most),
        "equivocation": left,
        "accuracy_corrected": estimate_accuracy(tried).value,
        "accuracy_printed": printed_theorem2_accuracy_bound(left) if len(classes) == 2 else None,
        "accuracy_certified": proved.get("accuracy"),
    }


def _summed_error(result: Mapping[str, Any], task: str, attribute: str, values: int) -> float | None:
    """Return the task's error among u = 0 plus that among u = 1."""
    groups = inside(result, "utility", task, "by_group", attribute)
    each = [number(inside(one, "estimate")) for one in groups.values()] if isinstance(groups, Mapping) else []
    known = [one for one in each if one is not None]
    return sum(1 - one for one in known) if values == 2 and len(known) == len(each) == 2 else None


def _mean(values: Sequence[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return number(float(np.mean(known))) if known and len(known) == len(values) else None


def _weakest(values: Sequence[float | None], of: Callable[[list[float]], float]) -> float | None:
    known = [one for one in values if one is not None]
    return number(of(known)) if known and len(known) == len(values) else None
