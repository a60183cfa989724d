"""How Attri-Fed's accounting is laid out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedveil_papers.attri_fed_layout import weak_reading
from fedveil_papers.shown import with_interval

if TYPE_CHECKING:
    from rich.table import Table


def tables(found: Mapping[str, Any]) -> list[Table]:
    """Return two tables: accounting, and what the head's outputs tell beside what is sent."""
    from rich.table import Table

    one = Table(title=f"What is sent about {found['attribute']}: accounting")
    headings = ["method", found["task"], "attackers", "weak: small network", "weak: privatiser"]
    headings += ["ε of attribute DP ≥", "ε of information privacy ≥", "leakage at that ε, corrected", "printed"]
    headings += ["Corollary 1: ε", "refuted", "rate certificate, sender known", "CERTIFIED accuracy ≤"]
    two = Table(title=f"Post-processing: {found['attribute']} from the head's outputs, beside what is sent")
    after = ["method", "sent, balanced", "outputs, balanced", "outputs − sent", "bits, sent", "bits, outputs"]
    after += ["counted bits, sent", f"counted bits, predicted {found['task']}"]
    for table, names in ((one, headings), (two, after)):
        for name in names:
            table.add_column(name, justify="left" if name == "method" else "right")
    for row in found["rows"]:
        told, leaks = row["accounting"], row["accounting"]["leakage_at_that_epsilon"]
        one.add_row(
            row["method"],
            with_interval(row["accuracy"]),
            with_interval(row["stranger"]["accuracy"]),
            *(weak_reading(row, name) for name in ("network", "privatiser")),
            *(f"{told[name]['epsilon_at_least']:.3f}" for name in ("attribute_dp", "information_privacy")),
            *(f"{leaks[name]:.2f}" for name in ("corrected", "printed")),
            f"{told['corollary1']['epsilon']:.3f}",
            "yes" if told["corollary1"]["refuted"] else "no",
            f"{row['certificates']['sender known']['bound']:.2f}" if row["certificates"] else "–",
            next((f"{c['bound']:.3f}" for c in row["guarantees"] if c["quantity"] == "accuracy"), "–"),
        )
        made = row["post_processing"]
        if made is None:
            continue
        counted = made["counted_bits"] or {}
        two.add_row(
            row["method"],
            with_interval(row["stranger"]["balanced_accuracy"]),
            with_interval(made["balanced_accuracy"]),
            with_interval(made["difference"]),
            with_interval(made["bits_sent"]),
            with_interval(made["bits_outputs"]),
            *(f"{counted[name]:.3f}" if counted else "–" for name in ("sent", "prediction")),
        )
    return [one, two]


def notes(found: Mapping[str, Any]) -> list[str]:
    """Say what may be concluded, and what not."""
    same = len({round(row["accounting"]["corollary1"]["epsilon"], 9) for row in found["rows"]}) == 1
    held = "the same number for every method here, no protection included" if same else "computed from the prior alone"
    return [
        "ε is bounded from below by counting (chosen on validation people, counted on test people, 95%): it may be "
        "larger, and no sample can say how much.",
        "The leakage bound needs ε from above. At a bound from below it is the least that the theorem could promise "
        "here: no upper bound on what leaks. As printed, with e^+ε, it may even fall below 0.",
        f"Corollary 1's ε = ln(1/T) holds for every mechanism: {held}; it guarantees nothing.",
        "Outputs are computed from what is sent: no attacker can gain by them (post-processing). Where a difference "
        "lies above 0, the attackers on what is sent were too weak, and the larger reading counts for both.",
        *(str(one["note"]) for one in found["paper"] if "note" in one),
    ]


def draw(found: Mapping[str, Any], canvas: Any) -> None:
    """Draw each method's proved ε beside Corollary 1's, and attackers' readings before and after the head."""
    left, right = canvas.subplots(1, 2)
    canvas.set_size_inches(9, 3.2)
    names = [row["method"] for row in found["rows"]]
    proved = [row["accounting"]["information_privacy"]["epsilon_at_least"] for row in found["rows"]]
    left.barh(names, proved, color="steelblue")
    left.axvline(found["rows"][0]["accounting"]["corollary1"]["epsilon"], color="grey", linestyle=":", linewidth=1)
    left.set_title("ε of information privacy, at least (dotted: Corollary 1)")
    for row in found["rows"]:
        read = [row["stranger"]["balanced_accuracy"]["estimate"]]
        read += [row["post_processing"]["balanced_accuracy"]["estimate"]] if row["post_processing"] else []
        right.plot(read, [row["method"]] * len(read), marker="o", markersize=3, linewidth=1)
    right.set_title(f"{found['attribute']} read from what is sent, from outputs (balanced)")
