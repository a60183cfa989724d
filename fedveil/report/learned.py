"""From how many people a study's strongest attackers learned, whether more would help, and what they left out."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.attacks.judgement import Judgement
from fedveil.report.settings import Setting


def learned_in_words(settings: Sequence[Setting], attribute: str) -> str:
    """Return a sentence about all settings; empty for results of versions that did not record it."""
    judged = [(setting, found) for setting in settings for found in _judgements(setting, attribute)]
    numbers = [found.learned_from for _, found in judged if found.learned_from is not None]
    if not numbers:
        return ""
    least, most = min(numbers), max(numbers)
    who = "groups of people" if any(found.groups is not None for _, found in judged) else "people"
    count = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    sentence = f"The strongest attackers on {attribute} learned from {count} {who}"
    rising = list(dict.fromkeys(setting.label for setting, found in judged if found.still_rises))
    if not rising:
        sentence += "; from half as many they read at most a point less, so more people would hardly read more"
    else:
        shown = ", ".join(rising[:4]) + (" and others" if len(rising) > 4 else "")
        sentence += f"; on {shown} half as many read over a point less: still rising, so more people would read more"
    notes = list(dict.fromkeys(note for _, found in judged for note in found.notes))
    left_out = f" Left out: {'; '.join(notes[:6])}." if notes else ""
    return f"{sentence}.{left_out}"


def _judgements(setting: Setting, attribute: str) -> list[Judgement]:
    results = [cell.result.leakage.get(attribute) for cell in setting.cells]
    return [judgement for judgement in results if judgement is not None]
