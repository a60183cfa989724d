"""The shield that a policy asks for: the recommended one, and whether a given shield is what it asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.policy import RECOMMENDED, Policy
from fedveil.shields.mingle import Mingle
from fedveil.shields.shield import Shield, members

CHANGE = 0.1
"""The mean relative change of a record, if a policy names none."""


def recommended(policy: Policy, change: float = CHANGE) -> list[Shield]:
    """Return the recommended shields: one `Mingle` for each hidden attribute.

    `Mingle` changes records by a map that does not read the true value. The mean relative change of a record is divided
    among the attributes by their levels γ.
    """
    return [Mingle(**settings) for settings in _recommended_settings(policy, change)]


def _recommended_settings(policy: Policy, change: float = CHANGE) -> list[dict[str, Any]]:
    if isinstance(change, bool) or not isinstance(change, int | float) or not 0 < change < float("inf"):
        raise InputError(f"{policy.where}: shield.change: must be above 0 and finite; got {change!r}")
    return [{"attribute": name, "budget": change * level} for name, level in policy.hide.items() if level > 0]


def unmet(policy: Policy, shield: Shield) -> str | None:
    """Return why a shield is not the one that a policy asks for; None if it is.

    Kinds are compared one by one, and so are all settings that the policy names and the shield has as attributes,
    except those that a shield reads from each device's policy (`Shield.by_device`).
    """
    wanted: list[tuple[str, type, Mapping[str, Any]]] = []
    for choice in policy.chosen:
        if choice.kind == RECOMMENDED:
            rows = _recommended_settings(policy, **choice.settings)
            wanted += [(f"{RECOMMENDED} ({Mingle.name})", Mingle, settings) for settings in rows]
        else:
            wanted.append((choice.kind, plugins.load("fedveil.shields", choice.kind, Shield), choice.settings))
    present = list(members(shield))
    if [kind for _, kind, _ in wanted] != [type(member) for member in present]:
        return f"ask for the shield {', '.join(name for name, _, _ in wanted)}, but the shield is {shield.name!r}"
    for (name, _, settings), member in zip(wanted, present, strict=True):
        for setting, value in settings.items():
            if setting not in member.by_device and getattr(member, setting, value) != value:
                return (
                    f"ask for {name} with {setting} = {value!r}, but the shield, one map for all devices, has "
                    f"{getattr(member, setting)!r}"
                )
    return None
