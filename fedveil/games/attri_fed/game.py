"""Attri-Fed (Saz, Saidutta, Fekri, Akdeniz, Edwards and Himayat): compressed codes that forget an attribute."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from fedveil.core.errors import InputError, nearest
from fedveil.games.attri_fed import networks
from fedveil.games.attri_fed.code import FARTHEST
from fedveil.games.attri_fed.prior import all_cells
from fedveil.games.game import DataShape, Game, Move, Player, Stage, task_classes
from fedveil.games.losses import counting, cross_entropy, mean_over, one_hot
from fedveil.games.optimisers import Adam, Optimiser
from fedveil.games.play import Play


@dataclass(frozen=True)
class AttriFed(Game):
    """min over encoder, head, helper and rate of CE(v|ŷ) + (λ+β)·R(ŷ) + β·CE(v|ŷ,u) − γ·CE(u|ŷ); the privatiser
    descends CE(u|ŷ).

    Symbols: v the task, u the private attribute, ŷ the encoder's output, d numbers with uniform noise in training and
    rounded at release; R(ŷ) = −log₂ q(ŷ)·ln 2 under a learned factorised prior. The helper reads ŷ and u. Three stages:
    1 initialisation (encoder and head on the task, then privatiser, helper and prior on the still encoder), 2
    privatisation (on every batch an encoder step, then `privatiser_steps` of the privatiser; all extra terms grow by
    `growth` until they count in full), 3 federated training of the head on rounded representations.

    Variants: "none" (task alone, ŷ sent as floats), "eco" (encouragement: γ = 0), "eeo" (both bounds), and ours,
    "bound": no privatiser, β·(R + CE(v|ŷ,u)) in full bits, the rate certificate itself (fedveil.certificates.rate).
    As printed, equations 13 to 20 maximise the rate and leave the helper's weights out: slips.

    Guarantee: none by training. What holds against every attacker is the rate certificate, measured on held-out
    records; Corollary 1 of the paper holds for every mechanism, unprotected ones included, and guarantees nothing.

    Attributes:
        attribute: u: one attribute or several, which have a privatiser each.
        variant: "none", "eco", "eeo" or "bound".
        lam, beta, gamma: λ, β and γ.
        width: d, the numbers that are sent.
        reach: every number is squashed into (−reach, reach) by a tanh before it is rounded: 2·reach + 1 levels.
        encoders: "own" (one per device, as in the paper), "shared-start" (stage 1 is federated), "shared" (one for
            all).
        networks: "paper" (1024-1024) or "light" (256-128).
        prior: q in training, "factorised" (as in the paper) or "joint", for few numbers of few levels.
        rounding: weight μ of the rate: sent are the whole numbers c with the least ‖ŷ − c‖² + μ·bits(c), by the prior
            that stage 3 fits to them (Chou et al. 1989); 0: the nearest.
        rate_per_input: divide the bits by the number of inputs, as the authors did; never with "bound".
        start, growth, steps: the extra terms' weights are start·growth^k, at most 1, over so many steps.
        initial_rounds, private_rounds, federated_rounds: of the three stages.
    """

    attribute: str | tuple[str, ...] = "colour"
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
        for setting, known in (
            ("variant", ("none", "eco", "eeo", "bound")),
            ("encoders", ("own", "shared-start", "shared")),
            ("networks", ("paper", "light")),
            ("prior", ("factorised", "joint")),
        ):
            if getattr(self, setting) not in known:
                choices = ", ".join(known)
                raise InputError(f"attri-fed: {setting} {getattr(self, setting)!r} is not known: choose {choices}")
        for symbol in ("lam", "beta", "gamma", "rounding"):
            weight = getattr(self, symbol)
            if not (weight >= 0 and math.isfinite(weight)):
                raise InputError(f"attri-fed: {symbol} must not be negative, got {weight}")
        rounds = (self.initial_rounds, self.private_rounds, self.federated_rounds)
        if min(self.width, self.reach, self.steps, self.privatiser_steps, *rounds) < 1:
            raise InputError("attri-fed: width, reach, steps and rounds must be at least 1")
        if self.compresses and self.reach > FARTHEST:
            raise InputError(f"attri-fed: reach must be at most {FARTHEST}, or no table codes what is sent")
        if not (0 < self.start <= 1 and self.growth >= 1):
            raise InputError("attri-fed: start must lie in (0, 1], growth must be at least 1")
        if not self.names or len(set(self.names)) < len(self.names):
            raise InputError("attri-fed: name at least one attribute, and each once")
        if self._joint or self._by_rate:
            all_cells(self.width, self.reach)  # refuses more cells than can be gone through

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
        """Encoder and head; helper and rate unless nothing is asked of them; a privatiser per attribute."""
        for name in self.names:
            if name not in shape.attributes:
                raise InputError(f"attri-fed: no attribute {name!r}: {nearest(name, shape.attributes)}")
        classes = task_classes(shape)
        values = {name: shape.attributes[name] for name in self.names}
        made = networks.attri_fed_networks(
            self.networks, shape.features, self.width, self.reach if self._joint else None
        )
        seated = {"encoder": made.encoder, "head": made.head(classes), "rate": made.rate}
        seated["helper"] = made.helper(sum(values.values()), classes)
        seated |= {_privatiser(name): made.privatiser(many) for name, many in values.items()}
        return {name: Player(build, self.optimiser) for name, build in seated.items()}

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """Initialisation, privatisation at growing weights, federated training of the head."""
        counts = {name: shape.attributes.get(name, 0) for name in self.names}
        inputs = math.prod(shape.features)
        first, second, third = self.initial_rounds, self.private_rounds, self.federated_rounds
        common: dict[str, Any] = {"local_epochs": self.local_epochs, "batch_size": self.batch_size}
        everything = frozenset({"x", "y", *(f"u:{name}" for name in self.names)})
        everywhere = frozenset({"encoder", "head"})
        initial = everywhere if self.encoders != "own" else frozenset[str]()
        middle = everywhere | {"rate", "helper"} if self.encoders == "shared" else frozenset[str]()
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
            watchers = (Move(("helper", "rate"), lambda play: self._describe(play, counts), name="helper and rate"),)
            fighters = (Move(tuple(map(_privatiser, self.names)), self._read, name="privatiser"),)
            more = watchers + (fighters if self._enforces else ())
            stages.append(
                Stage(
                    more, shared=middle & {"rate", "helper"}, reads=everything, name="opponents", rounds=first, **common
                )
            )
            for step, rounds in enumerate(_shares(second, self.steps)):
                weight = min(1.0, self.start * self.growth**step) if step < self.steps - 1 else 1.0

                def loss(play: Play, weight: float = weight) -> Tensor:
                    return self._privatise(play, counts, weight, inputs)

                moves: tuple[Move, ...] = (Move(("encoder", "head", "helper", "rate"), loss, name="encoder"),)
                if self._enforces:
                    fighting = Move(fighters[0].players, self._read, repeat=self.privatiser_steps, name="privatiser")
                    moves = (*moves, fighting)
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
        """ŷ in training: uniform noise in place of rounding."""
        if not self.compresses:
            return play("encoder", play.x)
        return self._squashed(play("encoder", play.x)) + play.uniform(self.width) - 0.5

    def _squashed(self, values: Tensor) -> Tensor:
        # Not a clamp: behind one a number that has gone too far gets no gradient to come back.
        return self.reach * torch.tanh(values / self.reach)

    def _serve(self, play: Play) -> Tensor:
        return cross_entropy(play("head", self._noisy(play)), play.y)

    def _serve_rounded(self, play: Play) -> Tensor:
        return cross_entropy(play("head", self.represent(play).detach()), play.y)

    def _price(self, play: Play) -> Tensor:
        return play("rate", self.represent(play).detach()).sum(dim=-1)

    def _read(self, play: Play) -> Tensor:
        seen = self._noisy(play).detach()
        return torch.stack([self._reading(play, name, seen) for name in self.names]).mean(dim=0)

    def _reading(self, play: Play, name: str, seen: Tensor) -> Tensor:
        codes = play.u(name)
        known = counting(codes >= 0, play.weights)
        return mean_over(cross_entropy(play(_privatiser(name), seen), codes), known, play.weights)

    def _helped(self, play: Play, counts: Mapping[str, int], seen: Tensor) -> Tensor:
        told = [one_hot(play.u(name), many, seen) for name, many in counts.items()]
        return cross_entropy(play("helper", torch.cat([seen, *told], dim=-1)), play.y)

    def _describe(self, play: Play, counts: Mapping[str, int]) -> Tensor:
        seen = self._noisy(play).detach()
        return self._helped(play, counts, seen) + play("rate", seen).sum(dim=-1) * math.log(2)

    def _privatise(self, play: Play, counts: Mapping[str, int], weight: float, inputs: int) -> Tensor:
        seen = self._noisy(play)
        rate = play("rate", seen).sum(dim=-1) * math.log(2)
        if self.variant == "bound":
            extra = self.beta * (rate + self._helped(play, counts, seen))
        else:
            scaled = rate / inputs if self.rate_per_input else rate
            extra = (self.lam + self.beta) * scaled + self.beta * self._helped(play, counts, seen)
        if self._enforces:
            read = torch.stack([self._reading(play, name, seen) for name in self.names]).mean(dim=0)
            extra = extra - self.gamma * read
        return cross_entropy(play("head", seen), play.y) + weight * extra

    def represent(self, play: Play) -> Tensor:
        """ŷ as it is sent: squashed and rounded, where anything is compressed."""
        encoded = play("encoder", play.x)
        if not self.compresses:
            return encoded
        squashed = self._squashed(encoded)
        if not self._by_rate:
            return squashed.round()
        cells = all_cells(self.width, self.reach).to(squashed)
        # Engines that play several devices at once have a dimension for them before the records.
        bits = play("rate", cells.expand(*squashed.shape[:-2], *cells.shape)).sum(dim=-1)
        away = (squashed.unsqueeze(-2) - cells).square().sum(dim=-1)
        return cells[(away + self.rounding * bits.unsqueeze(-2)).argmin(dim=-1)]

    def outputs(self, play: Play) -> Tensor:
        """The task's logits, from what is sent."""
        return play("head", self.represent(play))

    def adversary(self, play: Play, attribute: str) -> Tensor:
        """The logits of the privatiser, which the encoder was trained to fool."""
        if attribute not in self.names or not self._enforces:
            return super().adversary(play, attribute)
        return play(_privatiser(attribute), self.represent(play))


def _privatiser(attribute: str) -> str:
    return f"privatiser:{attribute}"


def _shares(rounds: int, steps: int) -> list[int]:
    """Deal rounds to steps, as evenly as can be, later ones first; steps without any are left out.

    >>> _shares(7, 3), _shares(2, 5)
    ([2, 2, 3], [1, 1])
    """
    steps = min(rounds, steps)
    return [(rounds + step) // steps for step in range(steps)]
