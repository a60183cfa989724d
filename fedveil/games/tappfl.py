"""TAPPFL (Arevalo, Noorbakhsh, Dong, Hong and Wang, AAAI 2024): task-agnostic private representations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import softplus

from fedveil.core.errors import InputError
from fedveil.games.game import DataShape, Game, Move, Player, Stage, attribute_values
from fedveil.games.losses import counting, cross_entropy, mean_of, mean_over, one_hot
from fedveil.games.optimisers import SGD, Optimiser
from fedveil.games.play import Play
from fedveil.games.tappfl_networks import Name, joined, tappfl_networks


@dataclass(frozen=True)
class TAPPFL(Game):
    """min_f −λ·CE(u | g(r)) + (1 − λ)·JSD(x; r | u), r = f(x); g minimises CE, and h minimises JSD.

    Symbols: f the extractor (shared), g the privacy network r → u and h the utility network, a critic on (x, r, u);
    g and h stay on their device and persist. λ the strength in [0, 1], λ_i per device through the federation's setting
    "strength". JSD = E sp(−h(x, r, u)) + E sp(h(x̄, r, u)), sp(z) = log(1 + eᶻ), whose minimum over h falls as r reveals
    more about x; x̄ is another record. On every batch g descends CE, then h descends JSD, both on detached r, then f
    descends its loss, each recomputed. It reads x and u, never y. Whether updates are averaged with weights is the
    federation's choice.

    Guarantee: none. CE is an upper bound on H(u | r) that holds for this g alone: an attacker who is trained
    afterwards may read what g no longer can, and the panel measures how much.

    Printed errors. Algorithm 1 prints signs by which h maximises its loss and f ascends JSD. Equation 4 drops CLUB's
    negative term, and what is left, plus H(u), is a *lower* bound on I(r; u) (Barber and Agakov), not an upper one:
    `bound="ce"` is that form, `bound="club"` keeps both terms, E log q(u | r) − E log q(u' | r), with u' from the
    batch's marginal and q fitted by likelihood in several steps. x̄ drawn from the whole batch targets I(x; r, u),
    which h can minimise by x and u alone: `negatives="conditional"` draws it among records of equal u, as equation 1
    requires, and leaves out records without such a partner; `"marginal"` is the printed form.

    A device that lacks the attribute, or holds only one value of it, trains with λ = 0; `Run.utility_only` counts such
    devices. A batch of one has no x̄: only g and the privacy term learn from it. With several attributes, each has its
    own g, f descends the mean of their CE, and x̄ agrees with x in all of them.

    Attributes:
        attribute: what is hidden: one attribute, several, or "own" for the attribute that each device protects.
        strength: the trade-off λ: 0 keeps x, 1 hides u.
        bound: the privacy term that f descends: "ce" (printed) or "club".
        negatives: where x̄ comes from: "conditional" (equal u) or "marginal" (printed).
        networks: "paper" (Table 3) or "light" (a critic of two layers).
        width: how many numbers r has, for tables.
        privacy_steps: steps of g per batch; by default 1, or 5 with "club".
        utility_steps: steps of h per batch.
        pretraining: rounds in which only f and h learn (λ = 0) before g joins.
        optimiser: how all three players descend their losses.
        local_epochs: passes over its records that a device makes in a round.
        batch_size: records in one step.
    """

    attribute: str | tuple[str, ...]
    strength: float = 0.5
    bound: Literal["ce", "club"] = "ce"
    negatives: Literal["conditional", "marginal"] = "conditional"
    networks: Name = "light"
    width: int = 128
    privacy_steps: int | None = None
    utility_steps: int = 1
    pretraining: int = 0
    optimiser: Optimiser = SGD(0.01)
    local_epochs: int = 10
    batch_size: int = 10
    name = "tappfl"
    bounds: ClassVar[tuple[str, ...]] = ("ce", "club")

    def __post_init__(self) -> None:
        _refuse_outside(self.strength)
        for setting, choices in (("bound", self.bounds), ("negatives", ("conditional", "marginal"))):
            if getattr(self, setting) not in choices:
                raise InputError(
                    f"TAPPFL: {setting} {getattr(self, setting)!r} is not known: choose {' or '.join(choices)}"
                )
        if self.networks not in ("paper", "light"):
            raise InputError(f"TAPPFL: networks {self.networks!r} are not known: choose paper or light")
        steps = 1 if self.privacy_steps is None else self.privacy_steps
        if min(self.width, self.utility_steps, steps) < 1 or self.pretraining < 0:
            raise InputError("TAPPFL: width and steps must be at least 1, pretraining not negative")
        if not self.attributes or len(set(self.attributes)) < len(self.attributes):
            raise InputError("TAPPFL: name at least one attribute, and each once")

    def check_settings(self, settings: Mapping[str, float | npt.ArrayLike]) -> None:
        """Refuse devices whose λ lies outside [0, 1]."""
        _refuse_outside(settings.get("strength", self.strength))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the hidden attributes."""
        return (self.attribute,) if isinstance(self.attribute, str) else tuple(self.attribute)

    def _reader(self, attribute: str) -> str:
        return "privacy" if len(self.attributes) == 1 else f"privacy:{attribute}"

    @property
    def _readers(self) -> tuple[str, ...]:
        return tuple(self._reader(name) for name in self.attributes)

    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """Extractor, critic, and an adversary per attribute."""
        values = {name: attribute_values(shape, name, "TAPPFL") for name in self.attributes}
        built = tappfl_networks(self.networks, shape, sum(values.values()), self.width)
        return {
            "extractor": Player(built.extractor, self.optimiser),
            "utility": Player(built.critic, self.optimiser),
            **{self._reader(name): Player(built.adversary(k), self.optimiser) for name, k in values.items()},
        }

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """Pre-training if requested, then all three in turn."""
        reads = frozenset({"x"} | {f"{what}:{name}" for what in ("u", "varies") for name in self.attributes})
        counts = {name: shape.attributes.get(name, 0) for name in self.attributes}
        steps = self.privacy_steps or (5 if self.bound == "club" else 1)
        readers = self._readers

        def critic_loss(play: Play) -> Tensor:
            return self._jsd(play, self.encoded(play).detach(), counts)

        def utility_loss(play: Play) -> Tensor:
            return self._jsd(play, self.encoded(play), counts)

        def trade_off(play: Play) -> Tensor:
            return self._trade_off(play, counts)

        utility = Move(("utility",), critic_loss, repeat=self.utility_steps, name="JSD")
        extractor_alone = Move(("extractor",), utility_loss, name="extractor")
        privacy = Move(readers, self._read, repeat=steps, name="CE")
        common = {"shared": frozenset({"extractor"}), "reads": reads}
        work = {"local_epochs": self.local_epochs, "batch_size": self.batch_size}
        main = Stage((privacy, utility, Move(("extractor",), trade_off, name="extractor")), **common, **work)  # type: ignore[arg-type]
        if not self.pretraining:
            return (main,)
        first = Stage((utility, extractor_alone), name="pretraining", rounds=self.pretraining, **common, **work)  # type: ignore[arg-type]
        return (first, main)

    def _read(self, play: Play) -> Tensor:
        r = self.encoded(play).detach()
        return mean_of([self._cross_entropy(play, name, play(self._reader(name), r)) for name in self.attributes])

    def _trade_off(self, play: Play, counts: Mapping[str, int]) -> Tensor:
        r = self.encoded(play)
        strength = (
            play.setting("strength")
            if "strength" in play.settings
            else torch.tensor(self.strength, dtype=r.dtype, device=r.device)
        )
        leaks, share = [], []
        for name in self.attributes:
            leaks.append(self._leak(play, name, r))
            share.append(strength * play.varies(name).to(r.dtype))
        hidden = mean_of([part * leak for part, leak in zip(share, leaks, strict=True)])
        return hidden + (1 - mean_of(share)) * self._jsd(play, r, counts)

    def _leak(self, play: Play, name: str, r: Tensor) -> Tensor:
        """Return the privacy term of one attribute, which f descends."""
        return self._bounded(play, name, play(self._reader(name), r))

    def _bounded(self, play: Play, name: str, logits: Tensor) -> Tensor:
        """Return the privacy term of one attribute by the logits of one g."""
        leak = -self._cross_entropy(play, name, logits)
        return leak + self._cross_entropy(play, name, logits, all_pairs=True) if self.bound == "club" else leak

    def _cross_entropy(self, play: Play, name: str, logits: Tensor, all_pairs: bool = False) -> Tensor:
        """Return CE of u on records that count; with `all_pairs`, of the u' of every record of the batch."""
        codes = play.u(name)
        counted = counting((codes >= 0) & play.varies(name), play.weights)
        if not all_pairs:
            return mean_over(cross_entropy(logits, torch.where(counted, codes, -1)), counted, play.weights)
        rows = one_hot(codes, logits.shape[-1], logits) * counted.unsqueeze(-1)
        marginal = rows.sum(dim=-2, keepdim=True) / counted.sum(dim=-1).clamp_min(1).to(rows.dtype)[..., None, None]
        return mean_over(-(marginal * logits.log_softmax(dim=-1)).sum(dim=-1), counted, play.weights)

    def _jsd(self, play: Play, r: Tensor, counts: Mapping[str, int]) -> Tensor:
        rows = [one_hot(play.u(name), k, play.x) for name, k in counts.items()]
        joint = torch.zeros_like(play.u(self.attributes[0]))
        for name, k in counts.items():
            joint = joint * (k + 1) + play.u(name) + 1  # a missing label counts as a value
        partner, has_partner = play.partners(joint if self.negatives == "conditional" else None)
        u = torch.cat(rows, dim=-1)
        fold = self.networks == "light"
        pairs = [joined(x, r, u, fold) for x in (play.x, play.pick(play.x, partner))]
        both = torch.cat(pairs, dim=partner.dim() - 1)
        true, false = play("utility", both).squeeze(-1).chunk(2, dim=-1)  # one pass: the critic may step inside it
        return mean_over(softplus(-true) + softplus(false), has_partner, play.weights)

    def encoded(self, play: Play) -> Tensor:
        """Return r as the players see it in training; `Hardened` adds noise here."""
        return self.represent(play)

    def represent(self, play: Play) -> Tensor:
        """f(x)."""
        return play("extractor", play.x)

    def adversary(self, play: Play, attribute: str) -> Tensor:
        """The logits of g, which f was trained to fool."""
        if attribute not in self.attributes:
            return super().adversary(play, attribute)
        return play(self._reader(attribute), self.represent(play))


def _refuse_outside(strength: float | npt.ArrayLike) -> None:
    try:
        values = np.atleast_1d(np.asarray(strength, dtype=np.float64))
    except (TypeError, ValueError):
        raise InputError(f"TAPPFL: strength λ must be a number in [0, 1], got {strength!r}") from None
    if not ((values >= 0) & (values <= 1)).all():
        wrong = float(values[~((values >= 0) & (values <= 1))][0])
        raise InputError(f"TAPPFL: strength λ must lie in [0, 1], got {wrong:g}")
