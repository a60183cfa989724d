"""What a policy's `shield = "…"` stands for: a registry of forms, and the shield that a policy gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fedveil.errors import InputError, nearest
from fedveil.policy import Policy
from fedveil.shields.shield import Shield
from fedveil.zoo import Zoo

STEP = 1e-3
"""The step ε of the printed form where neither policy nor caller names a budget; the paper tries 5e-5 to 0.5."""

Form = Callable[[Policy, Mapping[str, Zoo], float | None], Shield]
"""(policy, zoos by attribute, budget or None) → shield."""

FORMS: dict[str, Form] = {}
"""The forms by the names that policies use."""


def register(name: str) -> Callable[[Form], Form]:
    """Return a decorator that adds a form."""

    def add(form: Form) -> Form:
        FORMS[name] = form
        return form

    return add


def shield_for(policy: Policy, zoos: Mapping[str, Zoo] | None = None, budget: float | None = None) -> Shield:
    """Return the shield that a policy asks for.

    Args:
        policy: the person's choice.
        zoos: by attribute; those that the policy names as files are loaded where they are not given.
        budget: in L∞, where the policy names none.
    """
    if policy.shield not in FORMS:
        raise InputError(f"policy: shield: no form {policy.shield!r}: {nearest(policy.shield, FORMS)}")
    found = dict(zoos or {})
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
    return FORMS[policy.shield](policy, {name: found[name] for name in policy.hide if name in found}, budget)


@register("as-printed")
def as_printed(policy: Policy, zoos: Mapping[str, Zoo], budget: float | None) -> Shield:
    """Build RecUP-FL's own form, which publishes what it hides, and warns so."""
    from fedveil.shields.recup import RecUP

    total = policy.budget or budget
    return RecUP(
        list(zoos.values()),
        {name: level for name, level in policy.hide.items() if name in zoos},
        epsilon=STEP if total is None else None,
        budget=total,
        minimal=policy.minimal or False,
    )
