"""What a policy's `shield = "…"` stands for: a registry of forms, and the shield that a policy gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fedveil.core.errors import InputError, nearest
from fedveil.core.policy import Policy
from fedveil.shields.recup import Zoo
from fedveil.shields.shield import Shield

STEP = 1e-3
"""The step ε of the printed form where neither policy nor caller names a budget; the paper tries 5e-5 to 0.5."""

CHANGE = 0.1
"""How much of a record the hardened form changes on average where nobody names a budget."""

Make = Callable[[Policy, Mapping[str, Zoo], float | None], Shield]
"""(policy, zoos by attribute, budget or None) → shield."""


@dataclass(frozen=True)
class Form:
    """How a form is made, and whether it needs a zoo for every attribute that is hidden."""

    make: Make
    needs_zoos: bool


FORMS: dict[str, Form] = {}
"""The forms by the names that policies use."""


def register(name: str, *, needs_zoos: bool = True) -> Callable[[Make], Make]:
    """Return a decorator that adds a form."""

    def add(make: Make) -> Make:
        FORMS[name] = Form(make, needs_zoos)
        return make

    return add


def shield_for(policy: Policy, zoos: Mapping[str, Zoo] | None = None, budget: float | None = None) -> Shield:
    """Return the shield that a policy asks for.

    Args:
        policy: the person's choice.
        zoos: by attribute; those that the policy names as files are loaded where they are not given.
        budget: where the policy names none.
    """
    if policy.shield not in FORMS:
        raise InputError(f"policy: shield: no form {policy.shield!r}: {nearest(policy.shield, FORMS)}")
    form = FORMS[policy.shield]
    if not any(level > 0 for level in policy.hide.values()):
        raise InputError("policy: hide: every level is 0, so nothing would be hidden; raise one, or use no shield")
    return form.make(policy, _zoos(policy, dict(zoos or {})) if form.needs_zoos else {}, budget)


def _zoos(policy: Policy, found: dict[str, Zoo]) -> dict[str, Zoo]:
    """Return a zoo for each attribute that is hidden."""
    for name, level in policy.hide.items():
        if level > 0 and name not in found:
            if name not in policy.zoo:
                raise InputError(
                    f"policy: hide.{name}: there is no zoo for it; build one, and write under [zoo]: "
                    f'{name} = "its file"; zoos at hand: {", ".join(found) or "none"}'
                )
            found[name] = Zoo.load(policy.zoo[name])
    for name in found:
        if found[name].attribute != name:
            raise InputError(f"policy: zoo.{name}: is a zoo for {found[name].attribute!r}; name the one for {name!r}")
    return {name: found[name] for name in policy.hide if name in found}


@register("hardened", needs_zoos=False)
def hardened(policy: Policy, zoos: Mapping[str, Zoo], budget: float | None) -> Shield:
    """Build the form whose map does not depend on the true value: records are mingled, each attribute by its level.

    The budget is the mean relative change of a record, shared among the attributes by their levels γ.
    """
    from fedveil.shields.mingle import Mingle
    from fedveil.shields.shield import Chain

    if policy.minimal:
        raise InputError('policy: minimal: is for shield = "as-printed"; the hardened form fools no zoo; leave it out')
    total = next(one for one in (policy.budget, budget, CHANGE) if one is not None)
    made = [Mingle(name, total * level) for name, level in policy.hide.items() if level > 0]
    return made[0] if len(made) == 1 else Chain(made)


@register("as-printed")
def as_printed(policy: Policy, zoos: Mapping[str, Zoo], budget: float | None) -> Shield:
    """Build RecUP-FL's own form, which publishes what it hides, and warns so."""
    from fedveil.shields.recup import RecUP

    total = budget if policy.budget is None else policy.budget
    return RecUP(
        list(zoos.values()),
        {name: level for name, level in policy.hide.items() if name in zoos},
        epsilon=STEP if total is None else None,
        budget=total,
        minimal=policy.minimal or False,
    )
