"""Honest-but-curious classifiers (Malekzadeh, Borovykh and Gündüz, CCS 2021): outputs that secretly carry a secret."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from fedveil.core.errors import InputError, nearest
from fedveil.games import curious_networks as networks
from fedveil.games.entropy_threshold import best_threshold
from fedveil.games.fedavg import task_classes
from fedveil.games.game import DataShape, Game, Move, Player, Stage
from fedveil.games.losses import counting, cross_entropy, mean_over
from fedveil.games.optimisers import Adam, Optimiser
from fedveil.games.play import Play

TINY = 1e-16
"""What the paper adds to a probability before its logarithm."""


@dataclass(frozen=True)
class Curious(Game):
    """A classifier F for y whose outputs ŷ = F(x) also tell s to G, an attack that only the server knows.

    Parameterised: on every batch G descends CE(s | G(ŷ)), then F descends
    β_x·H(ŷ) + β_y·CE(y | ŷ) + β_s·CE(s | G(ŷ)), H the entropy of each record's probabilities. G reads raw scores or
    probabilities (`output`). While one steps, the other is in evaluation mode.
    Regularised (binary s, probabilities): F descends
    β_x·H(ŷ) + β_y·CE(y | ŷ) + β_s·(mean H over s = 0 − mean H over s = 1); G is a threshold on H(ŷ), chosen on
    validation over the whole range [0, log Y].
    With β_s = 0 F is a standard classifier, and G reads what it tells by itself ("overlearning").
    Several secrets have a G each; the mean of their terms counts.

    Honesty δ_y is F's accuracy, curiosity δ_s is G's. The round kept maximises (β_y·δ_y + β_s·δ_s)/(β_y + β_s) on
    validation records. Guarantee: none; what others than this G read of ŷ is for the panel to say.

    In federated training there are two forms. "devices": every device runs the server's loss, and F and G are averaged
    (people's devices would have to hold s). "server": devices train F honestly, reading x and y alone, and the server
    fine-tunes it afterwards on data of its own (`fedveil_papers.curious.fine_tune`). Central training by the server
    alone is `fedveil_papers.curious.train`.

    Attributes:
        secrets: the attributes that outputs shall carry.
        attack: "parameterised" or "regularised".
        output: what is released: "raw" scores or "soft" probabilities.
        beta_x, beta_y, beta_s: weights of compression, honesty and curiosity.
        network: F: "auto" (the paper's convolutions on images, fully connected layers on tables), or "table": fully
            connected on images, too.
        widths: F's layers; () for the paper's on images, 128-64 on tables.
        form: who is curious: "devices" or "server".
        optimiser: how both descend.
    """

    secrets: str | tuple[str, ...] = "sex"
    attack: Literal["parameterised", "regularised"] = "parameterised"
    output: Literal["raw", "soft"] = "raw"
    beta_x: float = 0.0
    beta_y: float = 0.7
    beta_s: float = 0.3
    network: Literal["auto", "table"] = "auto"
    widths: tuple[int, ...] = ()
    form: Literal["devices", "server"] = "devices"
    optimiser: Optimiser = Adam(1e-3)
    local_epochs: int = 1
    batch_size: int = 100
    name = "curious"

    def __post_init__(self) -> None:
        for setting, known in (
            ("attack", ("parameterised", "regularised")),
            ("output", ("raw", "soft")),
            ("network", ("auto", "table")),
            ("form", ("devices", "server")),
        ):
            if getattr(self, setting) not in known:
                raise InputError(
                    f"curious: {setting} {getattr(self, setting)!r} is not known: choose {' or '.join(known)}"
                )
        if min(self.beta_x, self.beta_y, self.beta_s) < 0 or not self.beta_y + self.beta_s > 0:
            raise InputError("curious: beta_x, beta_y and beta_s must not be negative, and beta_y + beta_s above 0")
        if not self.names or len(set(self.names)) < len(self.names):
            raise InputError("curious: name at least one secret, and each once")
        if self.attack == "regularised" and self.output == "raw":
            raise InputError("curious: the regularised attack reads the entropy of probabilities; choose output soft")

    @property
    def names(self) -> tuple[str, ...]:
        """The secrets' names."""
        return (self.secrets,) if isinstance(self.secrets, str) else tuple(self.secrets)

    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """F, and a G for each secret where G is a network."""
        for name in self.names:
            if name not in shape.attributes:
                raise InputError(f"curious: no attribute {name!r}: {nearest(name, shape.attributes)}")
            if self.attack == "regularised" and shape.attributes[name] != 2:
                raise InputError(
                    f"curious: the regularised attack hides one of two values in the entropy, {name!r} has "
                    f"{shape.attributes[name]}; choose attack parameterised"
                )
        classes = task_classes(shape)
        built = networks.classifier(shape.features, classes, self.widths, flat=self.network == "table")
        seated = {"classifier": Player(built, self.optimiser)}
        if self.attack == "parameterised":
            for name in self.names:
                seated[_attacker(name)] = Player(networks.attack(classes, shape.attributes[name]), self.optimiser)
        return seated

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """What devices do: the server's whole loss, or the honest part of it alone."""
        if self.form == "devices":
            return (self.curious_stage(),)
        honest = Move(("classifier",), self._honest, name="classifier")
        return (
            Stage(
                moves=(honest,),
                shared=frozenset({"classifier"}),
                reads=frozenset({"x", "y"}),
                name="honest",
                local_epochs=self.local_epochs,
                batch_size=self.batch_size,
                whole_batches=True,
                validation=self._honest,
            ),
        )

    def curious_stage(self) -> Stage:
        """G and F by turns, as whoever trains with s at hand plays it."""
        moves: tuple[Move, ...] = (
            Move(("classifier",), self._serve_and_tell, name="classifier", others_evaluate=True),
        )
        if self.attack == "parameterised":
            attackers = tuple(_attacker(name) for name in self.names)
            moves = (Move(attackers, self._read, name="attack", others_evaluate=True), *moves)
        return Stage(
            moves=moves,
            shared=frozenset(player for move in moves for player in move.players),
            reads=frozenset({"x", "y", *(f"u:{name}" for name in self.names)}),
            local_epochs=self.local_epochs,
            batch_size=self.batch_size,
            whole_batches=True,
            validation=self._shortfall,
        )

    def released(self, scores: Tensor) -> Tensor:
        """Return what the server sees of F's scores: themselves, or their softmax."""
        return scores if self.output == "raw" else scores.softmax(dim=-1)

    def _log_probabilities(self, scores: Tensor) -> Tensor:
        # Soft classifiers have the softmax inside, as the paper's code has it.
        return scores.log_softmax(dim=-1) if self.output == "raw" else (scores.softmax(dim=-1) + TINY).log()

    def _read(self, play: Play) -> Tensor:
        seen = self.released(play("classifier", play.x).detach())
        return _mean([cross_entropy(play(_attacker(name), seen), play.u(name)) for name in self.names])

    def _honest(self, play: Play) -> Tensor:
        return _surprise(self._log_probabilities(play("classifier", play.x)), play.y)

    def _serve_and_tell(self, play: Play) -> Tensor:
        scores = play("classifier", play.x)
        logs = self._log_probabilities(scores)
        loss = self.beta_y * _surprise(logs, play.y)
        entropy = -(logs.exp() * logs).sum(dim=-1) if self.beta_x or self.attack == "regularised" else None
        if self.beta_x and entropy is not None:
            loss = loss + self.beta_x * entropy
        if not self.beta_s:
            return loss
        told = []
        for name in self.names:
            if self.attack == "parameterised":
                told.append(cross_entropy(play(_attacker(name), self.released(scores)), play.u(name)))
                continue
            assert entropy is not None
            low, high = (counting(play.u(name) == code, play.weights) for code in (0, 1))
            told.append(mean_over(entropy, low, play.weights) - mean_over(entropy, high, play.weights))
        return loss + self.beta_s * _mean(told)

    def _shortfall(self, play: Play) -> Tensor:
        """Return for each record 1 less its share of (β_y·δ_y + β_s·δ_s)/(β_y + β_s): what selects the round."""
        scores = play("classifier", play.x)
        right = (scores.argmax(dim=-1) == play.y).to(scores.dtype) * self.beta_y
        for name in self.names if self.beta_s else ():
            read = self._guess(play, scores, name) == play.u(name)
            right = right + read.to(scores.dtype) * (self.beta_s / len(self.names))
        return 1 - right / (self.beta_y + self.beta_s)

    def _guess(self, play: Play, scores: Tensor, name: str) -> Tensor:
        if self.attack == "parameterised":
            return play(_attacker(name), self.released(scores)).argmax(dim=-1)
        entropy = entropies(scores)
        return (entropy > best_threshold(entropy, play.u(name), scores.shape[-1])).long()

    def outputs(self, play: Play) -> Tensor:
        """F's scores."""
        return play("classifier", play.x)

    def adversary(self, play: Play, attribute: str) -> Tensor:
        """The logits of G, the accomplice that F was trained to tell: of outputs, not of a fooled encoder."""
        if attribute not in self.names or self.attack == "regularised":
            return super().adversary(play, attribute)
        return play(_attacker(attribute), self.released(play("classifier", play.x)))


def entropies(scores: Tensor) -> Tensor:
    """Return the entropy of each record's softmax, in nats."""
    logs = scores.log_softmax(dim=-1)
    return -(logs.exp() * logs).sum(dim=-1)


def _attacker(secret: str) -> str:
    return f"attack:{secret}"


def _surprise(logs: Tensor, codes: Tensor) -> Tensor:
    """Return −log p of each record's label; 0 where it has none."""
    taken = logs.gather(-1, codes.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    return -torch.where(codes >= 0, taken, torch.zeros_like(taken))


def _mean(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.stack(parts).mean(dim=0)
