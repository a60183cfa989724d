"""Adversarial training: min over encoder and head, max over adversary (after DeepObfuscator, Li et al. 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.core.models import mlp
from fedveil.games.game import Build, DataShape, Game, Move, Player, Stage, attribute_values
from fedveil.games.losses import cross_entropy
from fedveil.games.optimisers import SGD, Optimiser
from fedveil.games.play import Play
from fedveil.games.undefended import encoder_and_head


@dataclass(frozen=True)
class AdversarialTraining(Game):
    """min_{f,c} max_g CE(y | c(f(x))) − λ·CE(u | g(f(x))).

    Symbols: f the encoder, c the task's head, g the adversary, λ the strength (λ_i per device through the
    federation's setting "strength"). The encoder and the head are shared; the adversary stays on its device unless
    `share_adversary`. Task-aware: it reads y. Guarantee: none. The encoder learns to fool this one adversary; the panel
    measures what an attacker trained afterwards still reads.

    Attributes:
        attribute: the sensitive attribute to hide; "own" for the attribute that each device protects.
        strength: the weight λ of hiding the attribute relative to the task; 0 hides nothing.
        hidden: sizes of the encoder's hidden layers.
        width: how many numbers the representation has.
        adversary_hidden: sizes of the adversary's hidden layers.
        encoder: builds another encoder from a generator; it must return `width` numbers.
        adversary_steps: steps of the adversary for each step of encoder and head.
        share_adversary: whether the server averages the adversary as well; otherwise each device keeps its own.
        optimiser: how all three players descend their losses.
        local_epochs: passes over its records that a device makes in a round.
        batch_size: records in one step.
    """

    attribute: str
    strength: float = 1.0
    hidden: tuple[int, ...] = (64,)
    width: int = 64
    adversary_hidden: tuple[int, ...] = (64,)
    encoder: Build | None = None
    adversary_steps: int = 1
    share_adversary: bool = False
    optimiser: Optimiser = SGD(0.05)
    local_epochs: int = 1
    batch_size: int = 32
    name = "adversarial training"

    def __post_init__(self) -> None:
        if self.strength < 0:
            raise InputError(f"adversarial training: strength must not be negative, got {self.strength}")

    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """Encoder, head and adversary."""
        sizes = [self.width, *self.adversary_hidden, attribute_values(shape, self.attribute, self.name)]
        return {
            **encoder_and_head(shape, self.hidden, self.width, self.encoder, self.optimiser),
            "adversary": Player(lambda generator: mlp(sizes, generator), self.optimiser),
        }

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """On every batch the adversary steps first, then encoder and head against it."""
        return (
            Stage(
                moves=(
                    Move(("adversary",), self._read, repeat=self.adversary_steps),
                    Move(("encoder", "head"), self._serve_and_hide),
                ),
                shared=frozenset({"encoder", "head"} | ({"adversary"} if self.share_adversary else set())),
                reads=frozenset({"x", "y", f"u:{self.attribute}"}),
                local_epochs=self.local_epochs,
                batch_size=self.batch_size,
            ),
        )

    def _read(self, play: Play) -> Tensor:
        representation = play("encoder", play.x).detach()
        return cross_entropy(play("adversary", representation), play.u(self.attribute))

    def _serve_and_hide(self, play: Play) -> Tensor:
        representation = play("encoder", play.x)
        task_loss = cross_entropy(play("head", representation), play.y)
        adversary_loss = cross_entropy(play("adversary", representation), play.u(self.attribute))
        strength = play.setting("strength") if "strength" in play.settings else self.strength
        return task_loss - strength * adversary_loss

    def represent(self, play: Play) -> Tensor:
        """The encoder's output for x."""
        return play("encoder", play.x)

    def outputs(self, play: Play) -> Tensor:
        """The task's logits."""
        return play("head", play("encoder", play.x))

    def adversary(self, play: Play, attribute: str) -> Tensor:
        """The logits of the adversary that the encoder was trained to fool."""
        if attribute != self.attribute:
            return super().adversary(play, attribute)
        return play("adversary", play("encoder", play.x))
