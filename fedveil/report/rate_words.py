"""One sentence on compressed representations: what is certified in bits, and why Corollary 1 guarantees nothing."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.report.contradictions import contradictions
from fedveil.report.figures import inside, known_certificates
from fedveil.report.phrases import bound
from fedveil.report.settings import Setting
from fedveil.studies.results import StudyResults

BITS, FANO = "information (bits)", "accuracy"
"""What a rate certificate bounds for every observer, one who knows the sender included."""


_DEALT = "people dealt to senders at random"
_IF_DEALT = " (if people come to senders at random, so that who sends says nothing by itself)"


def rate_sentence(results: StudyResults, settings: Sequence[Setting], attribute: str) -> str:
    """Return the sentence where a study plays Attri-Fed or has a rate certificate, and nothing elsewhere."""
    told = certified_rates(settings, attribute)
    playing = any(inside(method, "game", "kind") == "attri-fed" for method in results.study.get("methods") or [])
    if not (told or playing):
        return ""
    nothing = (
        "Attri-Fed's Corollary 1 (ε = ln 1/T, T the least prior) guarantees nothing, since it bounds what no mechanism "
        "can exceed, no defence included"
    )
    if not told:
        return f"{nothing}."
    setting, bits, accuracy, dealt = min(told, key=lambda one: one[1])
    little = "does not even exclude an attacker who is always right"
    if accuracy < 0.995:
        little = f"only excludes accuracies above {bound(accuracy)}"
    return (
        f"{nothing}; what is certified is that {setting.label} tells at most {bound(bits)} bits about {attribute}, "
        f"also to a server that knows the sender{_IF_DEALT if dealt else ''}, which by Fano's inequality {little}: "
        "bits say little about accuracy."
    )


def certified_rates(settings: Sequence[Setting], attribute: str) -> list[tuple[Setting, float, float, bool]]:
    """Return settings all of whose cells have a rate certificate, with the loosest bits and accuracy over them.

    The last part says whether any of them assumes that people are dealt to senders at random.
    """
    found = []
    for setting in settings:
        each = []
        for cell in setting.cells:
            proved = {
                str(one["quantity"]): one
                for one in known_certificates(cell.result, attribute)
                if one["direction"] == "upper" and str(one["method"]).startswith("rate certificate")
            }
            if BITS in proved:
                accuracy = float(proved[FANO]["bound"]) if FANO in proved else 1.0
                each.append((float(proved[BITS]["bound"]), accuracy, bool(proved[BITS]["assumptions"].get(_DEALT))))
        if each and len(each) == len(setting.cells) and not contradictions(setting, attribute):
            bits, accuracies, dealt = zip(*each, strict=True)
            found.append((setting, max(bits), max(accuracies), any(dealt)))
    return found
