"""What rows show beyond the frontier, in plain sentences: at the end of the terminal's output, and in the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from fedveil.core.figures import Estimate
from fedveil.studies.model import SpentOnUpdates
from fedveil.studies.rows import Row

Label = Callable[[Row], str]
Key = tuple[str, float | None, str, str]


def notes(rows: Sequence[Row], label: Label | None = None) -> dict[str, str]:
    """Return sentences by topic, for each topic that the rows have something about; `label` names a row's setting."""
    name_of = label or setting_of
    sentences = {
        "decensoring": decensoring(rows, name_of),
        "spent": spent(rows, name_of),
        "idle": utility_only(rows, name_of),
    }
    return {about: text for about, text in sentences.items() if text}


def setting_of(row: Row) -> str:
    """Name a row's setting: its method, at its strength."""
    return row.method if row.strength is None else f"{row.method} at {row.strength:g}"


def decensoring(rows: Sequence[Row], label: Label) -> str:
    """Say whether de-censoring or its control reads more than the panel, in the setting where it does so most."""
    panel = {_key(row): row for row in rows if row.attacker == "retrained"}
    tried = [row for row in rows if row.attacker in ("decensoring", "decensoring-control")]
    if not tried:
        return ""
    worst = max(tried, key=lambda row: _beyond(row, panel))
    gain = next(row.leakage.gain for row in tried if row.leakage.gain is not None and _key(row) == _key(worst))
    name, before = worst.attacker_name, panel[_key(worst)]
    compared = (
        f"{name[:1].upper()}{name[1:]} reads {worst.attribute} from {label(worst)} at "
        f"{_shown(worst.leakage.balanced_accuracy)}, the panel's strongest attacker ({before.attacker_name}) at "
        f"{_shown(before.leakage.balanced_accuracy)}"
    )
    control = (
        f"Compared with its control, a network of the same size without that step, de-censoring gains {_shown(gain)} "
        "there"
    )
    clear = ", so undoing the censoring itself helps" if gain.low > 0 else ": no gain is shown"
    if _beyond(worst, panel) <= 0:
        return f"{compared}: in no setting does de-censoring read more than the panel. {control}{clear}."
    more = len({(row.method, row.strength, row.attribute) for row in tried if _beyond(row, panel) > 0}) - 1
    others = f" (likewise in {more} more)" if more else ""
    return (
        f"{compared}: WORSE than the leakage on the frontier, which is the panel's; the larger figure is what leaks "
        f"there{others}. {control}{clear}."
    )


def spent(rows: Sequence[Row], label: Label) -> str:
    """Say what noise on updates has spent, and that this covers updates alone."""
    by_setting = {label(row): epsilon_in_words(row.spent) for row in rows if row.spent is not None}
    if not by_setting:
        return ""
    listed = [f"{name}: {epsilon}" for name, epsilon in by_setting.items()]
    shown = "; ".join(listed[:6]) + (f"; and {len(listed) - 6} more" if len(listed) > 6 else "")
    return (
        f"Noise on updates has spent, on the device that sent most often, {shown}. This covers updates, not the "
        "representations or outputs that are released afterwards."
    )


def epsilon_in_words(spent: SpentOnUpdates) -> str:
    """Return what was spent on updates."""
    if math.isinf(spent.epsilon):
        return "ε = ∞ (nothing is clipped, so nothing is guaranteed)"
    delta = f", δ = {spent.delta:g}" if spent.delta else ""
    times = f" in {spent.releases} updates" if spent.releases else ""
    return f"ε = {spent.epsilon:.3g}{delta}{times}"


def utility_only(rows: Sequence[Row], label: Label) -> str:
    """Say how many devices lack what the game hides, or hold one value of it: they trained for utility alone."""
    settings_by_count: dict[tuple[str, int, int], dict[str, None]] = {}
    for row in rows:
        for attribute, idle in row.utility_only.items():
            if idle:
                settings_by_count.setdefault((attribute, idle, row.devices), {})[label(row)] = None
    parts = []
    for (attribute, idle, devices), settings in settings_by_count.items():
        listed = list(settings)
        where = ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")
        parts.append(
            f"{idle} of {devices} devices lack {attribute} or hold one value of it and train for utility only ({where})"
        )
    return "; ".join(parts) + "." if parts else ""


def _beyond(row: Row, panel: Mapping[Key, Row]) -> float:
    return row.leakage.balanced_accuracy.estimate - panel[_key(row)].leakage.balanced_accuracy.estimate


def _key(row: Row) -> Key:
    return row.method, row.strength, row.task, row.attribute


def _shown(figure: Estimate) -> str:
    return f"{figure.estimate:.2f} [{figure.low:.2f}, {figure.high:.2f}]"
