"""Honest-but-curious classifiers (Malekzadeh, Borovykh and Gündüz, CCS 2021): outputs that secretly carry an attribute.

Networks (Tables 12 and 13 of the paper). F for images: four convolutions of 2 × 2 pixels with stride 2, batch norm,
LeakyReLU and dropout 0.2 after each, a hidden layer with dropout 0.5, and the scores. Its five widths are those of
Table 7; "128-128-64-64-128" is the paper's default. F for tables is ours: two hidden layers with LeakyReLU and
dropout 0.2. G reads the Y scores: 20·Y and 10·Y units.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from fedveil.core.errors import InputError
from fedveil.core.models import drawn_by_torch
from fedveil.games.game import Build, DataShape, Game, Move, Player, Stage, attribute_values, task_classes
from fedveil.games.losses import counting, cross_entropy, mean_of, mean_over
from fedveil.games.optimisers import Adam, Optimiser
from fedveil.games.play import Play

TINY = 1e-16
"""What the paper adds to a probability before its logarithm."""

PAPER_WIDTHS = (128, 128, 64, 64, 128)
TABLE_WIDTHS = (128, 64)
_SLOPE = 0.01


@dataclass(frozen=True)
class Curious(Game):
    """A classifier F for y whose outputs ŷ = F(x) also reveal s to G, an attack that only the server knows.

    * Parameterised: on every batch G descends CE(s | G(ŷ)), then F descends
      β_x·H(ŷ) + β_y·CE(y | ŷ) + β_s·CE(s | G(ŷ)), where H is the entropy of each record's probabilities. G reads raw
      scores or probabilities (`output`). While one steps, the other is in evaluation mode.
    * Regularised (binary s, probabilities): F descends
      β_x·H(ŷ) + β_y·CE(y | ŷ) + β_s·(mean H over s = 0 − mean H over s = 1); G is a threshold on H(ŷ), chosen on
      validation over the whole range [0, log Y].

    With β_s = 0 F is a standard classifier, and G reads what F reveals without being trained to ("overlearning").
    With several secrets, each has its own G, and F descends the mean of their terms.

    Honesty δ_y is F's accuracy, curiosity δ_s is G's. The round that is kept maximises (β_y·δ_y + β_s·δ_s)/(β_y + β_s)
    on validation records. Guarantee: none; the panel measures what attackers other than this G read from ŷ.

    In federated training there are two forms. "devices": every device runs the server's loss, and F and G are averaged
    (people's devices would have to hold s). "server": devices train F honestly, reading x and y alone, and the server
    fine-tunes it afterwards on its own data.

    Attributes:
        secrets: the attributes that outputs are trained to carry: one or several.
        attack: "parameterised" or "regularised".
        output: what is released: "raw" scores or "soft" probabilities.
        beta_x: the weight of compression.
        beta_y: the weight of honesty.
        beta_s: the weight of curiosity.
        network: F: "auto" (the paper's convolutions on images, fully connected layers on tables), or "table" (fully
            connected layers on images as well).
        widths: sizes of F's layers; if empty, the paper's on images and 128-64 on tables.
        form: who is curious: "devices" or "server".
        optimiser: how F and G descend their losses.
        local_epochs: passes over its records that a device makes in a round.
        batch_size: records in one step; an incomplete last batch is left out.
    """

    secrets: str | tuple[str, ...]
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
        for setting, choices in (
            ("attack", ("parameterised", "regularised")),
            ("output", ("raw", "soft")),
            ("network", ("auto", "table")),
            ("form", ("devices", "server")),
        ):
            if getattr(self, setting) not in choices:
                raise InputError(
                    f"curious: {setting} {getattr(self, setting)!r} is not known: choose {' or '.join(choices)}"
                )
        if min(self.beta_x, self.beta_y, self.beta_s) < 0 or not self.beta_y + self.beta_s > 0:
            raise InputError(
                "curious: beta_x, beta_y and beta_s must not be negative, and beta_y + beta_s must be above 0"
            )
        if not self.names or len(set(self.names)) < len(self.names):
            raise InputError("curious: name at least one secret, and each once")
        if self.attack == "regularised" and self.output == "raw":
            raise InputError("curious: the regularised attack reads the entropy of probabilities; choose output soft")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the secrets."""
        return (self.secrets,) if isinstance(self.secrets, str) else tuple(self.secrets)

    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """F, and a G for each secret if G is a network."""
        for name in self.names:
            if attribute_values(shape, name, self.name) != 2 and self.attack == "regularised":
                raise InputError(
                    f"curious: the regularised attack hides one of two values in the entropy, {name!r} has "
                    f"{shape.attributes[name]}; choose attack parameterised"
                )
        classes = task_classes(shape)
        build = classifier_network(shape.features, classes, self.widths, flat=self.network == "table")
        players = {"classifier": Player(build, self.optimiser)}
        if self.attack == "parameterised":
            for name in self.names:
                players[_attacker(name)] = Player(attack_network(classes, shape.attributes[name]), self.optimiser)
        return players

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """Devices descend the server's whole loss, or only the honest part of it."""
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
        """G and F in turn, for a party that trains with known s."""
        moves: tuple[Move, ...] = (
            Move(("classifier",), self._serve_and_reveal, name="classifier", others_evaluate=True),
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
        # A soft classifier contains the softmax, as in the paper's code.
        return scores.log_softmax(dim=-1) if self.output == "raw" else (scores.softmax(dim=-1) + TINY).log()

    def _read(self, play: Play) -> Tensor:
        seen = self.released(play("classifier", play.x).detach())
        return mean_of([cross_entropy(play(_attacker(name), seen), play.u(name)) for name in self.names])

    def _honest(self, play: Play) -> Tensor:
        return _surprise(self._log_probabilities(play("classifier", play.x)), play.y)

    def _serve_and_reveal(self, play: Play) -> Tensor:
        scores = play("classifier", play.x)
        logs = self._log_probabilities(scores)
        loss = self.beta_y * _surprise(logs, play.y)
        entropy = -(logs.exp() * logs).sum(dim=-1) if self.beta_x or self.attack == "regularised" else None
        if self.beta_x and entropy is not None:
            loss = loss + self.beta_x * entropy
        if not self.beta_s:
            return loss
        revealed = []
        for name in self.names:
            if self.attack == "parameterised":
                revealed.append(cross_entropy(play(_attacker(name), self.released(scores)), play.u(name)))
                continue
            assert entropy is not None
            low, high = (counting(play.u(name) == code, play.weights) for code in (0, 1))
            revealed.append(mean_over(entropy, low, play.weights) - mean_over(entropy, high, play.weights))
        return loss + self.beta_s * mean_of(revealed)

    def _shortfall(self, play: Play) -> Tensor:
        """Return for each record 1 minus its share of (β_y·δ_y + β_s·δ_s)/(β_y + β_s), which selects the round."""
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
        """The logits of G, the accomplice to which F was trained to reveal s; it reads outputs."""
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
    """Return −log p of each record's label; 0 for a record without one."""
    at_label = logs.gather(-1, codes.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    return -torch.where(codes >= 0, at_label, torch.zeros_like(at_label))


def best_threshold(entropies: Tensor, codes: Tensor, classes: int) -> float:
    """Return the τ in [0, log Y] for which "s = 1 where H(ŷ) > τ" is right most often: the G of the regularised attack.

    Records without s do not count.

    Candidates lie halfway between neighbouring entropies, and at both ends. The paper searches [0, 1] alone, which
    does not cover [0, log Y] for Y ≥ 3.

    >>> best_threshold(torch.tensor([0.1, 0.2, 0.9, 1.0]), torch.tensor([0, 0, 1, 1]), 3)
    0.5499...
    """
    labelled = codes >= 0
    values, secrets = entropies[labelled].double(), codes[labelled]
    order = values.argsort()
    values, secrets = values[order], secrets[order]
    if not len(values):
        return math.log(classes) / 2
    # With i entropies at or below τ, the zeros among them and the ones above are right.
    zeros = torch.cat([secrets.new_zeros(1), (secrets == 0).cumsum(0)])
    ones_above = (secrets == 1).sum() - torch.cat([secrets.new_zeros(1), (secrets == 1).cumsum(0)])
    right = zeros + ones_above
    # Slightly below 0, so that "all are 1" stays possible if some entropies are 0.
    ends = values.new_tensor([-1e-9]), values.new_tensor([math.log(classes)])
    edges = torch.cat([ends[0].minimum(values[:1]), values, ends[1].maximum(values[-1:])])
    separable = edges[1:] > edges[:-1]  # a threshold cannot separate equal entropies
    separable[0] = separable[-1] = True
    best = int(torch.where(separable, right, -torch.ones_like(right)).argmax())
    return float((edges[best] + edges[best + 1]) / 2)


def classifier_network(shape: Sequence[int], classes: int, widths: Sequence[int] = (), *, flat: bool = False) -> Build:
    """Return F's builder for images (channels, height, width) or tables (features,); `flat` reads images as tables.

    >>> f = classifier_network((3, 64, 64), 3)(torch.Generator())
    >>> sum(p.numel() for p in f.parameters())
    248963
    >>> classifier_network((9,), 2)(torch.Generator()).eval()(torch.zeros(5, 9)).shape
    torch.Size([5, 2])
    """
    shape = tuple(shape)
    if any(width < 1 for width in widths):
        raise InputError(f"curious: widths must be at least 1, got {tuple(widths)}")
    if len(shape) == 1 or flat:
        return lambda generator: drawn_by_torch(lambda: _of_table(shape, classes, widths or TABLE_WIDTHS), generator)
    layers = tuple(widths) or PAPER_WIDTHS
    if len(shape) != 3 or min(shape[1:]) < 16:
        raise InputError(f"curious: its classifier takes tables, or images of at least 16 × 16; x has shape {shape}")
    if len(layers) != len(PAPER_WIDTHS):
        raise InputError(
            f"curious: a classifier of images has five widths, four of convolutions and one hidden layer, got {layers}"
        )
    return lambda generator: drawn_by_torch(lambda: _of_images(shape, classes, layers), generator)


def attack_network(classes: int, values: int) -> Build:
    """Return G's builder: from a classifier's Y scores to S values.

    >>> sum(p.numel() for p in attack_network(3, 3)(torch.Generator()).parameters())
    2163
    """

    def build() -> nn.Sequential:
        stack: list[nn.Module] = []
        sizes = (classes, 20 * classes, 10 * classes)
        for fan_in, fan_out in pairwise(sizes):
            stack += [nn.Linear(fan_in, fan_out), nn.LeakyReLU(_SLOPE), nn.Dropout(0.25)]
        return nn.Sequential(*stack, nn.Linear(sizes[-1], values))

    return lambda generator: drawn_by_torch(build, generator)


def _of_images(shape: tuple[int, ...], classes: int, widths: Sequence[int]) -> nn.Sequential:
    channels, high, wide = shape
    stack: list[nn.Module] = []
    for width in widths[:4]:
        stack += [nn.Conv2d(channels, width, 2, 2), nn.BatchNorm2d(width), nn.LeakyReLU(_SLOPE), nn.Dropout(0.2)]
        channels, high, wide = width, high // 2, wide // 2
    stack += [nn.Flatten(), nn.Linear(channels * high * wide, widths[4]), nn.LeakyReLU(_SLOPE), nn.Dropout(0.5)]
    return nn.Sequential(*stack, nn.Linear(widths[4], classes))


def _of_table(shape: tuple[int, ...], classes: int, widths: Sequence[int]) -> nn.Sequential:
    stack: list[nn.Module] = [nn.Flatten()] if len(shape) > 1 else []
    features = math.prod(shape)
    for width in widths:
        stack += [nn.Linear(features, width), nn.LeakyReLU(_SLOPE), nn.Dropout(0.2)]
        features = width
    return nn.Sequential(*stack, nn.Linear(features, classes))
