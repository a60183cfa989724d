"""The shield at a Flower site: the one that the site's policy asks for, if it can work on an update alone."""

from __future__ import annotations

import logging
import warnings

import torch

from fedveil.config.policy import shield_for, shield_kind
from fedveil.core.errors import InputError
from fedveil.core.policy import RECOMMENDED, Policy
from fedveil.flower.spending import check_budget, costs_of
from fedveil.shields.message import Kind
from fedveil.shields.recup.zoo import Zoo
from fedveil.shields.shield import Chain, Shield, members

ON_UPDATES = "dp-gaussian, dp-laplace, compression, sparsify, quantise, recup or none"
"""Our shields that work on an update alone."""

_log = logging.getLogger("fedveil.flower")


def site_shield(policy: Policy) -> Shield:
    """Build the shield that a site's policy asks for.

    Shields that need more than an update are refused, and so is an ε that the shield cannot guarantee.
    """
    where = f"{policy.where}: shield"
    for choice in policy.chosen:
        if choice.kind == RECOMMENDED:
            raise InputError(
                f"{where}: {RECOMMENDED} changes records before training, but a mod sees only the update; name a "
                f"shield that works on updates: {ON_UPDATES}"
            )
        _check_place(choice.kind, shield_kind(choice.kind, where), where)
    shield = _with_warnings_logged(policy) if policy.zoo else shield_for(policy)
    made = shield.shields if isinstance(shield, Chain) else (shield,)
    for choice, member in zip(policy.chosen, made, strict=True):
        _check_place(choice.kind, member, where)  # what it acts on may depend on its settings
    _check_own_values(policy, shield)
    check_budget(policy.budget, costs_of(shield), policy.where)
    return shield


def own_values(policy: Policy, shield: Shield) -> dict[str, torch.Tensor]:
    """Return the site's values of hidden attributes in the form in which a shield reads them."""
    return {f"u:{name}": torch.tensor([zoo.values.index(policy.own[name])]) for name, zoo in zoos_in(shield).items()}


def zoos_in(shield: Shield) -> dict[str, Zoo]:
    """Return the zoos of all members of a shield, by attribute."""
    zoos: dict[str, Zoo] = {}
    for member in members(shield):
        zoos |= getattr(member, "zoos", {})
    return zoos


def _check_place(kind: str, shield: type[Shield] | Shield, where: str) -> None:
    """Refuse a shield that needs more than an update, and say where it belongs."""
    if shield.by_record:
        raise InputError(
            f"{where}.kind: {kind} needs the records behind an update, one by one, but a mod sees only the update: it "
            "belongs in the training code, or in a study"
        )
    class_ = shield if isinstance(shield, type) else type(shield)
    if Kind.UPDATE in shield.acts_on and class_.prepared is not Shield.prepared:
        raise InputError(
            f"{where}.kind: {kind} learns from all devices' records beforehand, which a site does not have: it belongs "
            "in a study"
        )
    if Kind.UPDATE in shield.acts_on:
        return
    if Kind.INPUT in shield.acts_on:
        raise InputError(
            f"{where}.kind: {kind} changes records before training, but a mod sees only the update: it belongs where "
            "the app loads its data"
        )
    raise InputError(
        f"{where}.kind: {kind} works on {', '.join(sorted(shield.acts_on))}, but a mod sees only the update: it "
        "belongs where those leave"
    )


def _check_own_values(policy: Policy, shield: Shield) -> None:
    """Refuse a policy that does not name, for each attribute hidden by a zoo, a value that the zoo knows."""
    for name, zoo in zoos_in(shield).items():
        values = ", ".join(zoo.values)
        if name not in policy.own:
            raise InputError(
                f"{policy.where}: own.{name}: is missing; write under [own] the site's most frequent value, one of: "
                f"{values}"
            )
        if policy.own[name] not in zoo.values:
            raise InputError(
                f"{policy.where}: own.{name}: {policy.own[name]!r} is not a value of {name}; its zoo has: {values}"
            )


def _with_warnings_logged(policy: Policy) -> Shield:
    """Build a shield with zoos; its warnings go to the site's log, where the person at the site can read them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        shield = shield_for(policy)
    for warning in caught:
        _log.warning("%s: shield: %s", policy.where, warning.message)
    return shield
