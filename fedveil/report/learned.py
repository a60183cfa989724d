"""From how many people a study's strongest attackers learned, whether more would help, and what they left out."""

from __future__ import annotations

from collections.abc import Sequence

from fedveil.attacks.judgement import Judgement
from fedveil.report.settings import Setting


def learned_in_words(settings: Sequence[Setting], attribute: str) -> str:
    """Return a sentence about all settings; empty for results of versions that did not record it."""
    judged = [(setting, found) for setting in settings for found in _judgements(setting, attribute)]
    numbers = [found.learned_from for _, found in judged if found.learned_from is not None]
    older = "Some figures are of an older version, which counted the attacker that was strongest on validation people."
    before = older if any(found.chosen is None for _, found in judged) else ""
    if not numbers:
        return before
    least, most = min(numbers), max(numbers)
    who = "groups of people" if any(found.groups is not None for _, found in judged) else "people"
    count = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    sentence = f"The strongest attackers on {attribute} learned from {count} {who}"
    rising = list(dict.fromkeys(setting.label for setting, found in judged if found.still_rises))
    if any(found.from_half is None for _, found in judged) and not rising:
        sentence += "; fewer were not tried everywhere"
    elif not rising:
        sentence += "; from half as many they read at most a point less, so more people would hardly read more"
    else:
        shown = ", ".join(rising[:4]) + (" and others" if len(rising) > 4 else "")
        sentence += f"; on {shown} half as many read over a point less: still rising, so more people would read more"
    sentence += _pointed_elsewhere([found for _, found in judged])
    notes = list(dict.fromkeys(note for _, found in judged for note in found.notes))
    left_out = f" Left out: {'; '.join(notes[:6])}." if notes else ""
    return f"{sentence}.{left_out} {before}".rstrip()


def _pointed_elsewhere(judged: Sequence[Judgement]) -> str:
    """Say where validation people pointed to another attacker than the strongest, and how much less it reads."""
    losses = [
        found.worst.balanced_accuracy.estimate - found.chosen.balanced_accuracy.estimate
        for found in judged
        if found.chosen is not None and found.chosen.name != found.worst.name
    ]
    if not losses:
        return ""
    what = "release" if len(judged) == 1 else "releases"
    return (
        f". In {len(losses)} of {len(judged)} {what} validation people point to another attacker, "
        f"which reads up to {max(losses):.3f} less than the strongest"
    )


def _judgements(setting: Setting, attribute: str) -> list[Judgement]:
    results = [cell.result.leakage.get(attribute) for cell in setting.cells]
    return [judgement for judgement in results if judgement is not None]
