"""What is kept of an audit, and the verdict that it leads to: other limits ask for no new measurement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedveil.audit import Audit, Limits


def figures(found: Audit) -> dict[str, Any]:
    """Return what a verdict rests on."""
    return {
        "rows": found.n,
        "told": found.judgement.mutual_information_bits.as_dict(),
        "explained": found.explained.as_dict(),
        "excess": found.beyond.as_dict(),
        "curiosity": found.judgement.worst.balanced_accuracy.as_dict(),
    }


def decided(kept: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
    """Return an audit's figures with the verdict."""
    from fedveil.audit.explained import Explained
    from fedveil.audit.verdict import decide
    from fedveil.core.figures import Estimate

    told = kept["explained"]
    by = {name: Estimate(**told[f"{name}_bits"]) for name in ("by_target", "by_predicted", "by_both")}
    labels = Explained(told["entropy_bits"], told["left_bits"], told["target_values"], **by)
    unexplained = Estimate(**kept["excess"]["unexplained"])
    verdict = decide(kept["rows"], Estimate(**kept["told"]), labels, unexplained, limits)
    return {**kept, "verdict": verdict, "limit": limits.share(labels), "share": kept["excess"]["share"]}
