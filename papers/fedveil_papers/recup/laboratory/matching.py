"""The strength at which a shield changes updates by a given share of their norm."""

from __future__ import annotations

from collections.abc import Callable

from fedveil.core.errors import InputError
from fedveil.data import Split
from fedveil.shields.shield import Shield
from fedveil_papers.recup.laboratory.point import Laboratory
from fedveil_papers.recup.laboratory.sending import Sender, Tally

NUMBERS = 2**26
"""On how many numbers of updates a norm is measured; they come from 64 to 1,024 clients."""

_PROPORTIONAL = 4
"""This many first tries scale the strength by the ratio of the norms, which is immediately right for noise and steps;
further tries bisect."""


def relative_norm(lab: Laboratory, shield: Shield, number: int) -> float:
    """Return the mean norm of the change over that of the update, for training clients at a round's weights."""
    sender, tally = Sender.prepare(lab.task, shield), Tally()
    clients = min(1024, max(64, NUMBERS // lab.task.segments[-1].stop))
    model = lab.task.model(lab.undefended.weights[number])
    for part in sender.parts(lab.task.people(Split.TRAIN)[:clients]):
        tally.add(sender.send(model, part, number))
    return tally.as_dict()["relative_l2"]


def at_norm(
    lab: Laboratory,
    make: Callable[[float], Shield],
    target: float,
    span: tuple[float, float],
    number: int,
    tries: int = 14,
) -> tuple[float, Shield] | None:
    """Return the strength whose changes have this relative norm, and the shield; None if there is no such strength."""
    strength = strength_at(lambda tried: relative_norm(lab, make(tried), number), target, span, tries)
    return None if strength is None else (strength, make(strength))


def strength_at(
    norm_of: Callable[[float], float], target: float, span: tuple[float, float], tries: int = 14
) -> float | None:
    """Return the strength that has this norm; None if no strength in the span has it.

    The norm must grow with the strength. It is reached within 2%, or within 10% if a shield has no finer steps.
    """
    if not target > 0 or not span[0] < span[1]:
        raise InputError(f"norm {target} over strengths {span[0]} to {span[1]}: give a norm above 0 and a rising range")
    low, high = span
    tried = (low * high) ** 0.5 if low > 0 else (low + high) / 2
    nearest: tuple[float, float] = (float("inf"), tried)
    for turn in range(tries):
        norm = norm_of(tried)
        nearest = min(nearest, (abs(norm / target - 1), tried))
        if nearest[0] < 0.02:
            break
        low, high = (tried, high) if norm < target else (low, tried)
        scaled = tried * target / norm if turn < _PROPORTIONAL and norm > 0 else 0.0
        tried = scaled if low < scaled < high else (low * high) ** 0.5 if low > 0 else (low + high) / 2
    return nearest[1] if nearest[0] < 0.1 else None
