"""One method of an Attri-Fed study: trained on participants, judged on test people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fedveil.attacks.cotrained import judge_cotrained
from fedveil.attacks.judgement import AttackerFigures
from fedveil.config import parts
from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError
from fedveil.data import AttributeData, Split
from fedveil.federation import Federation
from fedveil.federation.release import release, senders
from fedveil.federation.run import Run
from fedveil.games.attri_fed import AttriFed
from fedveil.rate.measuring import WEAK, Measured, Released, measure, server_panel
from fedveil.shields.message import Kind
from fedveil.shields.shield import Identity, Shield
from fedveil_papers.rate.dp_training import DPTraining, accuracy_of, released_by

if TYPE_CHECKING:
    from fedveil_papers.attri_fed import Method

_ROUNDS = 30
"""Rounds of games that name none themselves."""


@dataclass(frozen=True, eq=False)
class Trained:
    """A method after training.

    Attributes:
        released: what people send.
        networks: the sizes that the method's players have.
        outputs: what one head for all makes of exactly this, by split; None where there is none: with a shield between,
            or with a head for every participant.
        shield: on what is sent.
        privatiser: what the game's own adversary reads: weak, for the encoder was trained to fool it.
        spent: ε by accountant, of DP-SGD.
    """

    released: Released
    networks: str
    outputs: dict[Split, FloatArray] | None
    shield: Shield
    privatiser: AttackerFigures | None = None
    spent: dict[str, float] | None = None


def measure_method(
    made: Any, method: Method, data: AttributeData, attribute: str, many: int, panel: str, seed: int
) -> dict[str, Any]:
    """Return a method's figures as plain values."""
    trained = train_method(made, method, data, attribute, many, seed)
    return row_of(trained, measure_trained(trained, data, attribute, panel, seed), data)


def train_method(made: Any, method: Method, data: AttributeData, attribute: str, many: int, seed: int) -> Trained:
    """Train a method on so many participants."""
    shield = shield_of(method)
    federation = Federation(data, devices=many, seed=seed, shield=shield)
    if isinstance(made, DPTraining):
        owned = [federation.partition.device(place) for place in range(many)]
        values, owners, logits = released_by(made, data, owned, seed)
        released = Released(values, owners, accuracy_of(logits, data), made.reach, dealt_at_random=True)
        return Trained(released, made.networks, None, shield, spent=made.spent(len(owned[0])))
    run = federation.play(made, rounds=_ROUNDS)
    outputs = None
    if isinstance(made, AttriFed) and method.shield is None:
        released = Released.of_run(run, made.reach if made.compresses else None, seed=seed)
        outputs = {split: release(run, split, Kind.OUTPUT) for split in Split}
    else:
        # A shield makes numbers that no code was made for, and that the game's own head never met: they go as floats,
        # and a head is trained on what really leaves.
        assert data.y is not None
        (utility,) = run.fit_head(data.y.name, seed=seed)
        values = {split: run.release(split) for split in Split}
        released = Released(values, {split: senders(run, split) for split in Split}, utility.accuracy, None)
    networks = made.networks if isinstance(made, AttriFed) else "light"
    return Trained(released, networks, outputs, shield, _privatiser(run, attribute))


def measure_trained(trained: Trained, data: AttributeData, attribute: str, panel: str, seed: int) -> Measured:
    """Judge a trained method by the server's attackers."""
    attackers = server_panel(panel, trained.networks)
    return measure(trained.released, data, attribute, attackers=attackers, seed=seed)


def row_of(trained: Trained, found: Measured, data: AttributeData) -> dict[str, Any]:
    """Return a method's figures as plain values; "weak" is what the paper's way would say, never the headline."""
    network = next(one for one in found.stranger.attackers if one.name == WEAK)
    weak = {"network": _shown(network), "privatiser": trained.privatiser and _shown(trained.privatiser)}
    spent = {} if trained.spent is None else {"spent": trained.spent}
    return {"facts": dict(data.facts), **found.as_dict(), "weak": weak, **spent}


def shield_of(method: Method) -> Shield:
    """Return a method's shield on representations, checked."""
    if method.shield is None:
        return Identity()
    settings = {name: value for name, value in method.shield.items() if name != "kind"}
    made: Shield = parts.make(
        parts.shield_class(str(method.shield["kind"])), settings, f"experiment: method {method.name!r}: shield"
    )
    return made


def _privatiser(run: Run, attribute: str) -> AttackerFigures | None:
    try:
        return judge_cotrained(run, attribute)
    except InputError:  # this game trains no adversary
        return None


def _shown(one: AttackerFigures) -> dict[str, Any]:
    accuracies = {"accuracy": one.accuracy.as_dict(), "balanced_accuracy": one.balanced_accuracy.as_dict()}
    return {"attacker": one.name, **accuracies}
