"""Attri-Fed (Saz, Saidutta, Fekri, Akdeniz, Edwards and Himayat): compressed codes that forget an attribute."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import torch
from torch import Tensor, nn

from fedveil.certificates.certificate import Certificate
from fedveil.core.errors import InputError, nearest
from fedveil.core.models import drawn_by_torch
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.games.attri_fed.certifying import rate_certificates
from fedveil.games.attri_fed.code import FARTHEST
from fedveil.games.attri_fed.prior import FactorisedPrior, JointPrior, all_cells
from fedveil.games.game import Build, DataShape, Game, Move, Player, ReleasedRecords, Stage, task_classes
from fedveil.games.losses import counting, cross_entropy, mean_over, one_hot
from fedveil.games.optimisers import Adam, Optimiser
from fedveil.games.play import Play


@dataclass(frozen=True)
class AttriFed(Game):
    """Learn short codes that serve a task and forget an attribute.

    min over encoder, head, helper and rate of CE(v|ŷ) + (λ+β)·R(ŷ) + β·CE(v|ŷ,u) − γ·CE(u|ŷ); the privatiser descends
    CE(u|ŷ).

    Symbols: v is the task, u the private attribute, ŷ the encoder's output: d numbers, with uniform noise in training
    and rounded at release. R(ŷ) = −log₂ q(ŷ)·ln 2 under a learned prior q. The helper reads ŷ and u. Training has
    three stages: 1. initialisation (encoder and head on the task; then privatiser, helper and prior, while the encoder
    is fixed); 2. privatisation (on every batch one step of the encoder, then `privatiser_steps` of the privatiser;
    the weight of all extra terms grows by `growth` until they count in full); 3. federated training of the head on
    rounded representations and, if `rounding` is above 0, of the prior by which they are rounded.

    Variants: "none" (the task alone; ŷ is sent as floats), "eco" (encouragement: γ = 0), "eeo" (both bounds), and our
    own "bound": no privatiser, β·(R + CE(v|ŷ,u)) in full bits, which is the rate certificate itself
    (fedveil.certificates.rate). As printed, equations 13 to 20 maximise the rate and leave out the helper's weights;
    both are misprints.

    Guarantee: none by training. What holds against every attacker is the rate certificate, measured on held-out
    records (`certificates_on`). Corollary 1 of the paper holds for every mechanism, unprotected ones included, and
    so guarantees nothing.

    Attributes:
        attribute: the private attribute u, or several with a privatiser each.
        variant: which terms are trained: "none", "eco", "eeo" or "bound".
        lam: the weight λ of the rate alone.
        beta: the weight β of the rate and of the helper's loss.
        gamma: the weight γ of the privatiser's loss.
        width: how many numbers are sent, d.
        reach: every number is squashed into (−reach, reach) by a tanh before it is rounded: 2·reach + 1 levels.
        encoders: "own" (one per device, as in the paper), "shared-start" (one per device, after a federated stage 1)
            or "shared" (one for all devices).
        networks: sizes of the encoder's hidden layers, "paper" (1024-1024) or "light" (256-128).
        prior: the form of q in training, "factorised" (as in the paper) or "joint", for few numbers of few levels.
        rounding: the weight μ of the rate in rounding: the whole numbers c that minimise ‖ŷ − c‖² + μ·bits(c) are
            sent (Chou et al. 1989); with 0, the nearest ones.
        rate_per_input: whether to divide the bits by the number of inputs, as the authors did; "bound" never does.
        start: the weight of the extra terms in the first step of stage 2.
        growth: the factor by which that weight grows from step to step, up to 1.
        steps: how many steps stage 2 is divided into; in the last one the extra terms count in full.
        privatiser_steps: steps of the privatiser on every batch of stage 2.
        initial_rounds: rounds of each half of stage 1; in the second half the encoder is fixed.
        private_rounds: rounds of stage 2.
        federated_rounds: rounds of stage 3.
        optimiser: how every player descends its loss.
        local_epochs: passes that a device makes over its records in a round.
        batch_size: records in a step.
    """

    attribute: str | tuple[str, ...]
    variant: Literal["none", "eco", "eeo", "bound"] = "eeo"
    lam: float = 1.5
    beta: float = 1.5
    gamma: float = 1.5
    width: int = 50
    reach: int = 15
    encoders: Literal["own", "shared-start", "shared"] = "own"
    networks: Literal["paper", "light"] = "light"
    prior: Literal["factorised", "joint"] = "factorised"
    rounding: float = 0.0
    rate_per_input: bool = True
    start: float = 1e-3
    growth: float = 1.5
    steps: int = 18
    privatiser_steps: int = 5
    initial_rounds: int = 10
    private_rounds: int = 36
    federated_rounds: int = 10
    optimiser: Optimiser = Adam(1e-3)
    local_epochs: int = 1
    batch_size: int = 100
    name = "attri-fed"

    def __post_init__(self) -> None:
        for setting, choices in (
            ("variant", ("none", "eco", "eeo", "bound")),
            ("encoders", ("own", "shared-start", "shared")),
            ("networks", ("paper", "light")),
            ("prior", ("factorised", "joint")),
        ):
            if (value := getattr(self, setting)) not in choices:
                raise InputError(f"attri-fed: {setting} {value!r} is not known: choose {', '.join(choices)}")
        for symbol in ("lam", "beta", "gamma", "rounding"):
            weight = getattr(self, symbol)
            if not (weight >= 0 and math.isfinite(weight)):
                raise InputError(f"attri-fed: {symbol} must not be negative, got {weight}")
        rounds = (self.initial_rounds, self.private_rounds, self.federated_rounds)
        if min(self.width, self.reach, self.steps, self.privatiser_steps, *rounds) < 1:
            raise InputError("attri-fed: width, reach, steps and rounds must be at least 1")
        if self.compresses and self.reach > FARTHEST:
            raise InputError(f"attri-fed: reach must be at most {FARTHEST}, the most that the code's tables hold")
        if not (0 < self.start <= 1 and self.growth >= 1):
            raise InputError("attri-fed: start must lie in (0, 1], growth must be at least 1")
        if not self.names or len(set(self.names)) < len(self.names):
            raise InputError("attri-fed: name at least one attribute, and each once")
        if self._joint or self._by_rate:
            all_cells(self.width, self.reach)  # refuses more cells than can be enumerated

    @property
    def names(self) -> tuple[str, ...]:
        """The private attributes' names."""
        return (self.attribute,) if isinstance(self.attribute, str) else tuple(self.attribute)

    @property
    def _enforces(self) -> bool:
        return self.variant == "eeo" and self.gamma > 0

    @property
    def _joint(self) -> bool:
        return self.compresses and self.prior == "joint"

    @property
    def _by_rate(self) -> bool:
        return self.compresses and self.rounding > 0

    @property
    def compresses(self) -> bool:
        """Whether ŷ is rounded and coded."""
        return self.variant != "none"

    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """Return encoder, head, rate and helper, and a privatiser per attribute."""
        for name in self.names:
            if name not in shape.attributes:
                raise InputError(f"attri-fed: no attribute {name!r}: {nearest(name, shape.attributes)}")
        classes = task_classes(shape)
        values = {name: shape.attributes[name] for name in self.names}
        networks = attri_fed_networks(self.networks, shape.features, self.width, self.reach if self._joint else None)
        builders = {"encoder": networks.encoder, "head": networks.head(classes), "rate": networks.rate}
        builders["helper"] = networks.helper(sum(values.values()), classes)
        builders |= {_privatiser(name): networks.privatiser(count) for name, count in values.items()}
        return {name: Player(build, self.optimiser) for name, build in builders.items()}

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """Return initialisation, privatisation at growing weights, and federated training of the head."""
        counts = {name: shape.attributes.get(name, 0) for name in self.names}
        inputs = math.prod(shape.features)
        first, second, third = self.initial_rounds, self.private_rounds, self.federated_rounds
        common: dict[str, Any] = {"local_epochs": self.local_epochs, "batch_size": self.batch_size}
        everything = frozenset({"x", "y", *(f"u:{name}" for name in self.names)})
        task_players = frozenset({"encoder", "head"})
        initial = task_players if self.encoders != "own" else frozenset[str]()
        middle = task_players | {"rate", "helper"} if self.encoders == "shared" else frozenset[str]()
        stages = [
            Stage(
                (Move(("encoder", "head"), self._serve, name="task"),),
                shared=initial,
                reads=frozenset({"x", "y"}),
                name="initialise",
                rounds=first,
                **common,
            )
        ]
        if self.compresses:
            helper_moves = (
                Move(("helper", "rate"), lambda play: self._describe(play, counts), name="helper and rate"),
            )
            privatiser_moves = (Move(tuple(map(_privatiser, self.names)), self._read, name="privatiser"),)
            stages.append(
                Stage(
                    helper_moves + (privatiser_moves if self._enforces else ()),
                    shared=middle & {"rate", "helper"},
                    reads=everything,
                    name="opponents",
                    rounds=first,
                    **common,
                )
            )
            for step, rounds in enumerate(_shares(second, self.steps)):
                weight = min(1.0, self.start * self.growth**step) if step < self.steps - 1 else 1.0

                def loss(play: Play, weight: float = weight) -> Tensor:
                    return self._privatise(play, counts, weight, inputs)

                moves: tuple[Move, ...] = (Move(("encoder", "head", "helper", "rate"), loss, name="encoder"),)
                if self._enforces:
                    repeated = Move(
                        privatiser_moves[0].players, self._read, repeat=self.privatiser_steps, name="privatiser"
                    )
                    moves = (*moves, repeated)
                stages.append(
                    Stage(moves, shared=middle, reads=everything, name=f"privatise {step + 1}", rounds=rounds, **common)
                )
        last: tuple[Move, ...] = (Move(("head",), self._serve_rounded, name="head"),)
        if self._by_rate:
            last = (Move(("rate",), self._price, name="rate"), *last)
        stages.append(
            Stage(
                last,
                shared=frozenset({"head"}) | (middle & {"rate"} if self._by_rate else frozenset()),
                reads=frozenset({"x", "y"}),
                name="federate",
                rounds=third,
                **common,
            )
        )
        return tuple(stages)

    def _noisy(self, play: Play) -> Tensor:
        """Return ŷ in training, with uniform noise in place of rounding."""
        if not self.compresses:
            return play("encoder", play.x)
        return self._squashed(play("encoder", play.x)) + play.uniform(self.width) - 0.5

    def _squashed(self, values: Tensor) -> Tensor:
        # Not a clamp: a number beyond the range would get no gradient that brings it back.
        return self.reach * torch.tanh(values / self.reach)

    def _serve(self, play: Play) -> Tensor:
        return cross_entropy(play("head", self._noisy(play)), play.y)

    def _serve_rounded(self, play: Play) -> Tensor:
        return cross_entropy(play("head", self.represent(play).detach()), play.y)

    def _price(self, play: Play) -> Tensor:
        return play("rate", self.represent(play).detach()).sum(dim=-1)

    def _read(self, play: Play) -> Tensor:
        noisy = self._noisy(play).detach()
        return torch.stack([self._reading(play, name, noisy) for name in self.names]).mean(dim=0)

    def _reading(self, play: Play, name: str, noisy: Tensor) -> Tensor:
        codes = play.u(name)
        counted = counting(codes >= 0, play.weights)
        return mean_over(cross_entropy(play(_privatiser(name), noisy), codes), counted, play.weights)

    def _helped(self, play: Play, counts: Mapping[str, int], noisy: Tensor) -> Tensor:
        attributes = [one_hot(play.u(name), count, noisy) for name, count in counts.items()]
        return cross_entropy(play("helper", torch.cat([noisy, *attributes], dim=-1)), play.y)

    def _describe(self, play: Play, counts: Mapping[str, int]) -> Tensor:
        noisy = self._noisy(play).detach()
        return self._helped(play, counts, noisy) + play("rate", noisy).sum(dim=-1) * math.log(2)

    def _privatise(self, play: Play, counts: Mapping[str, int], weight: float, inputs: int) -> Tensor:
        noisy = self._noisy(play)
        rate = play("rate", noisy).sum(dim=-1) * math.log(2)
        if self.variant == "bound":
            extra = self.beta * (rate + self._helped(play, counts, noisy))
        else:
            scaled = rate / inputs if self.rate_per_input else rate
            extra = (self.lam + self.beta) * scaled + self.beta * self._helped(play, counts, noisy)
        if self._enforces:
            read = torch.stack([self._reading(play, name, noisy) for name in self.names]).mean(dim=0)
            extra = extra - self.gamma * read
        return cross_entropy(play("head", noisy), play.y) + weight * extra

    def represent(self, play: Play) -> Tensor:
        """Return ŷ as it is sent: squashed and rounded, unless the variant is "none"."""
        encoded = play("encoder", play.x)
        if not self.compresses:
            return encoded
        squashed = self._squashed(encoded)
        if not self._by_rate:
            return squashed.round()
        cells = all_cells(self.width, self.reach).to(squashed)
        # Engines that play several devices at once have a dimension for them before the records.
        bits = play("rate", cells.expand(*squashed.shape[:-2], *cells.shape)).sum(dim=-1)
        squared_distances = (squashed.unsqueeze(-2) - cells).square().sum(dim=-1)
        return cells[(squared_distances + self.rounding * bits.unsqueeze(-2)).argmin(dim=-1)]

    def outputs(self, play: Play) -> Tensor:
        """Return the task's logits, computed from what is sent."""
        return play("head", self.represent(play))

    def adversary(self, play: Play, attribute: str) -> Tensor:
        """Return the logits of the privatiser, which the encoder was trained to fool."""
        if attribute not in self.names or not self._enforces:
            return super().adversary(play, attribute)
        return play(_privatiser(attribute), self.represent(play))

    def certificates_on(
        self, data: AttributeData, released: Callable[[], ReleasedRecords], attribute: str, seed: int
    ) -> tuple[Certificate, ...]:
        """Return the rate certificates; none if nothing is coded, or if some person's u or v is missing.

        People without a label cannot be left out: those who remain would not be a random sample.
        """
        if not self.compresses or data.y is None:
            return ()
        labels = [column.take(data.rows(split)) for column in (data.y, data.attribute(attribute)) for split in Split]
        if not all(column.known.all() for column in labels):
            return ()
        return rate_certificates(data, released(), attribute, self.reach, seed)


def _privatiser(attribute: str) -> str:
    return f"privatiser:{attribute}"


def _shares(rounds: int, steps: int) -> list[int]:
    """Distribute rounds over steps as evenly as possible, any extra rounds last; steps without a round are left out.

    >>> _shares(7, 3), _shares(2, 5)
    ([2, 2, 3], [1, 1])
    """
    steps = min(rounds, steps)
    return [(rounds + step) // steps for step in range(steps)]


READING = {"paper": (1024, 32), "light": (128, 32)}
"""Hidden layers of privatiser and helper; a server's attackers should be no smaller."""


@dataclass(frozen=True)
class AttriFedNetworks:
    """Builders of all players' networks: layer norm after each ReLU; the paper's sizes, or lighter ones."""

    encoder: Build
    rate: Build
    head: Callable[[int], Build]
    privatiser: Callable[[int], Build]
    helper: Callable[[int, int], Build]


def attri_fed_networks(
    name: Literal["paper", "light"], features: Sequence[int], width: int, joint_reach: int | None = None
) -> AttriFedNetworks:
    """Return the builders for x of a shape and ŷ of a width; with `joint_reach` the prior is joint, over that reach.

    >>> networks = attri_fed_networks("paper", (3, 28, 28), 50)
    >>> [tuple(p.shape) for p in networks.encoder(torch.Generator()).parameters() if p.dim() > 1]
    [(1024, 2352), (1024, 1024), (50, 1024)]
    """
    inner, reading = (1024, 1024) if name == "paper" else (256, 128), READING[name]
    return AttriFedNetworks(
        encoder=_normed([math.prod(features), *inner, width], flatten=len(features) > 1),
        rate=lambda generator: FactorisedPrior(width) if joint_reach is None else JointPrior(width, joint_reach),
        head=lambda classes: _normed([width, 32, classes]),
        privatiser=lambda values: _normed([width, *reading, values]),
        helper=lambda attribute_values, classes: _normed([width + attribute_values, *reading, classes]),
    )


def _normed(sizes: Sequence[int], *, flatten: bool = False) -> Build:
    def build() -> nn.Sequential:
        stack: list[nn.Module] = [nn.Flatten()] if flatten else []
        for fan_in, fan_out in pairwise(sizes[:-1]):
            stack += [nn.Linear(fan_in, fan_out), nn.ReLU(), nn.LayerNorm(fan_out)]
        return nn.Sequential(*stack, nn.Linear(sizes[-2], sizes[-1]))

    return lambda generator: drawn_by_torch(build, generator)
