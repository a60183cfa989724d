"""One method of an Attri-Fed study: trained on participants, judged on test people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedveil.data import AttributeData, Split
from fedveil.federation import Federation
from fedveil.federation.release import senders
from fedveil.games.attri_fed import AttriFed
from fedveil.rate.dp_training import DPTraining, accuracy_of, released_by
from fedveil.rate.measuring import Released, measure
from fedveil.shields.shield import Identity, Shield
from fedveil.studies import parts

if TYPE_CHECKING:
    from fedveil.reproductions.attri_fed import Method

_ROUNDS = 30
"""Rounds of games that name none themselves."""


def measure_method(
    made: Any, method: Method, data: AttributeData, attribute: str, many: int, panel: str, seed: int
) -> dict[str, Any]:
    """Return a method's figures as plain values."""
    about = {"facts": dict(data.facts)}
    federation = Federation(data, devices=many, seed=seed, shield=_shield(method))
    if isinstance(made, DPTraining):
        owned = [federation.partition.device(place) for place in range(many)]
        values, owners, logits = released_by(made, data, owned, seed)
        released = Released(values, owners, accuracy_of(logits, data), made.reach)
        found = measure(released, data, attribute, attackers=panel, seed=seed).as_dict()
        return {**about, **found, "spent": made.spent(len(owned[0]))}
    run = federation.play(made, rounds=_ROUNDS)
    if isinstance(made, AttriFed) and method.shield is None:
        released = Released.of_run(run, made.reach if made.compresses else None, seed=seed)
    else:
        # A shield makes numbers that no code was made for, and that the game's own head never met: they go as floats,
        # and a head is trained on what really leaves.
        assert data.y is not None
        (utility,) = run.fit_head(data.y.name, seed=seed)
        values = {split: run.release(split) for split in Split}
        released = Released(values, {split: senders(run, split) for split in Split}, utility.accuracy, None)
    return {**about, **measure(released, data, attribute, attackers=panel, seed=seed).as_dict()}


def _shield(method: Method) -> Shield:
    if method.shield is None:
        return Identity()
    settings = {name: value for name, value in method.shield.items() if name != "kind"}
    made: Shield = parts.make(
        parts.shield_class(str(method.shield["kind"])), settings, f"experiment: method {method.name!r}: shield"
    )
    return made
