"""DPFE (Osia, Taheri, Shamsabadi, Katevas, Haddadi and Rabiee 2018): features for a task that reveal little of u."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from fedveil.core.errors import InputError
from fedveil.games.game import Build, DataShape, Game, Move, Player, Stage, attribute_values
from fedveil.games.losses import counting, cross_entropy
from fedveil.games.optimisers import SGD, Optimiser
from fedveil.games.play import Play
from fedveil.games.undefended import encoder_and_head


@dataclass(frozen=True)
class DPFE(Game):
    """min_{f,c} CE(y | c(r + σz)) + β·(1/2σ²N²) Σ_{u_k ≠ u_l} ‖r_k − r_l‖², r = f(x)/‖f(x)‖, z ~ N(0, I).

    Symbols: f the encoder, c the task's head, both shared; r the normalised bottleneck; β the strength (β_i per device
    through the federation's setting "strength"); σ the noise that is added at release; N the number of records of a
    batch that have u; the sum runs over ordered pairs. Task-aware: it reads y.

    The second term bounds I(r + σz; u) from above, in nats, for a record drawn uniformly from the batch: by convexity
    the divergence between two classes' Gaussian mixtures is at most the mean over their pairs of ‖r_k − r_l‖²/2σ². It
    holds for the batch it was computed on, and only if the noise is really added: release through the shield
    `CertifiedChannel(radius=1, sigma=σ)`, which does not clip a normalised r. Guarantee for other people: none from
    this game; the channel has its own certificate.

    Attributes:
        attribute: the sensitive attribute to hide; "own" for the attribute that each device protects.
        strength: the weight β of the bound on I(r + σz; u); 0 hides nothing.
        sigma: the noise σ, in training and in the bound.
        hidden: sizes of the encoder's hidden layers.
        width: how many numbers the representation has.
        encoder: builds another encoder from a generator; it must return `width` numbers.
        optimiser: how encoder and head descend their loss.
        local_epochs: passes over its records that a device makes in a round.
        batch_size: records in one step.
    """

    attribute: str
    strength: float = 1.0
    sigma: float = 0.3
    hidden: tuple[int, ...] = (64,)
    width: int = 64
    encoder: Build | None = None
    optimiser: Optimiser = SGD(0.05)
    local_epochs: int = 1
    batch_size: int = 32
    name = "dpfe"

    def __post_init__(self) -> None:
        if not self.strength >= 0 or not self.sigma > 0:
            raise InputError(
                f"DPFE: strength {self.strength} must not be negative, and sigma {self.sigma} must be above 0"
            )

    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """Encoder and head."""
        attribute_values(shape, self.attribute, "DPFE")
        return encoder_and_head(shape, self.hidden, self.width, self.encoder, self.optimiser, last=nn.Identity())

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """Both descend the task's cross-entropy and the bound."""
        both = ("encoder", "head")
        return (
            Stage(
                moves=(Move(both, self._serve_and_hide),),
                shared=frozenset(both),
                reads=frozenset({"x", "y", f"u:{self.attribute}"}),
                local_epochs=self.local_epochs,
                batch_size=self.batch_size,
            ),
        )

    def _serve_and_hide(self, play: Play) -> Tensor:
        r = self.represent(play)
        served = cross_entropy(play("head", r + self.sigma * play.noise(r.shape[-1])), play.y)
        strength = play.setting("strength") if "strength" in play.settings else self.strength
        return served + strength * kernel_bound(r, play.u(self.attribute), self.sigma, play.weights)

    def represent(self, play: Play) -> Tensor:
        """The normalised bottleneck; the shield adds the noise."""
        return normalize(play("encoder", play.x), dim=-1)

    def outputs(self, play: Play) -> Tensor:
        """The task's logits, without noise."""
        return play("head", self.represent(play))


def kernel_bound(r: Tensor, codes: Tensor, sigma: float, weights: Tensor | None = None) -> Tensor:
    """Return a loss per record whose mean over the batch is (1/2σ²N²) Σ_{u_k ≠ u_l} ‖r_k − r_l‖², in nats.

    Records without a label, and padding, are in no pair.
    """
    labelled = counting(codes >= 0, weights)
    pairs = labelled.unsqueeze(-1) & labelled.unsqueeze(-2) & (codes.unsqueeze(-1) != codes.unsqueeze(-2))
    squared_norms = r.square().sum(dim=-1)
    distances = squared_norms.unsqueeze(-1) + squared_norms.unsqueeze(-2) - 2 * r @ r.transpose(-1, -2)
    count = labelled.sum(dim=-1, keepdim=True).clamp_min(1).to(r.dtype)
    size = float(codes.shape[-1]) if weights is None else weights.sum(dim=-1, keepdim=True)
    return torch.where(pairs, distances, 0).sum(dim=-1) * size / (2 * sigma**2 * count.square())
