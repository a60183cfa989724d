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

from fedveil.core.errors import InputError, nearest
from fedveil.games.game import DataShape, Game, Move, Player, Stage
from fedveil.games.losses import counting, cross_entropy, mean_over, one_hot
from fedveil.games.networks import Name, joined, tappfl_networks
from fedveil.games.optimisers import SGD, Optimiser
from fedveil.games.play import Play


@dataclass(frozen=True)
class TAPPFL(Game):
    """min_f −λ·CE(u | g(r)) + (1 − λ)·JSD(x; r | u), r = f(x); g minimises CE, and h minimises JSD.

    Symbols: f the extractor (shared), g the privacy network r → u and h the utility network, a critic on (x, r, u);
    g and h stay on their device and persist. λ the strength in [0, 1], λ_i per device through the federation's setting
    "strength". JSD = E sp(−h(x, r, u)) + E sp(h(x̄, r, u)), sp(z) = log(1 + eᶻ), whose minimum over h falls as r tells
    more about x; x̄ another record. On every batch g descends CE, then h descends JSD, both on detached r, then f
    descends its loss, each recomputed. It reads x and u, never y. Weighted or plain mean is the federation's choice.

    Guarantee: none. CE is an upper bound on H(u | r) that holds for this g alone: an attacker who is trained
    afterwards may read what g no longer can, and the panel says how much.

    Printed errors. Algorithm 1 prints signs by which h maximises its loss and f ascends JSD. Equation 4 drops CLUB's
    negative term, and what is left, plus H(u), is a *lower* bound on I(r; u) (Barber and Agakov), not an upper one:
    `bound="ce"` is that form, `bound="club"` keeps both terms, E log q(u | r) − E log q(u' | r), with u' from the
    batch's marginal and q fitted by likelihood in several steps. x̄ drawn from the batch at large targets I(x; r, u),
    which h can win by x and u alone: `negatives="conditional"` draws it among records of equal u, as equation 1 asks,
    and leaves out records without such a partner; `"marginal"` is the printed form.

    A device that lacks the attribute, or holds one value of it, trains with λ = 0; `Run.utility_only` counts them. A
    batch of one has no x̄: only g and the privacy term learn from it. Several attributes have a g each, the mean of
    their CE counts, and x̄ agrees with x in all of them.

    Attributes:
        attribute: what is hidden: one attribute, several, or "own" for each device's own choice.
        strength: the trade-off λ: 0 keeps x, 1 hides u.
        bound: what f descends of u: "ce" (printed) or "club".
        negatives: where x̄ comes from: "conditional" (equal u) or "marginal" (printed).
        networks: "paper" (Table 3) or "light" (a critic of two layers).
        width: dimensions of r, for tables.
        privacy_steps: steps of g per batch; 1 by default, 5 with "club".
        utility_steps: steps of h per batch.
        pretraining: rounds in which f and h alone learn (λ = 0) before g joins.
        optimiser: how all three descend.
    """

    attribute: str | tuple[str, ...] = "sex"
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
        for setting, known in (("bound", self.bounds), ("negatives", ("conditional", "marginal"))):
            if getattr(self, setting) not in known:
                raise InputError(
                    f"TAPPFL: {setting} {getattr(self, setting)!r} is not known: choose {' or '.join(known)}"
                )
        if self.networks not in ("paper", "light"):
            raise InputError(f"TAPPFL: networks {self.networks!r} are not known: choose paper or light")
        steps = 1 if self.privacy_steps is None else self.privacy_steps
        if min(self.width, self.utility_steps, steps) < 1 or self.pretraining < 0:
            raise InputError("TAPPFL: width and steps must be at least 1, pretraining not negative")
        if not self.attributes or len(set(self.attributes)) < len(self.attributes):
            raise InputError("TAPPFL: name at least one attribute, and each once")

    def check_settings(self, settings: Mapping[str, float | npt.ArrayLike]) -> None:
        """Every device's λ must lie in [0, 1], too."""
        _refuse_outside(settings.get("strength", self.strength))

    @property
    def attributes(self) -> tuple[str, ...]:
        """The hidden attributes' names."""
        return (self.attribute,) if isinstance(self.attribute, str) else tuple(self.attribute)

    def _reader(self, attribute: str) -> str:
        return "privacy" if len(self.attributes) == 1 else f"privacy:{attribute}"

    @property
    def _readers(self) -> tuple[str, ...]:
        return tuple(self._reader(name) for name in self.attributes)

    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """Extractor, critic, and an adversary per attribute."""
        for name in self.attributes:
            if name not in shape.attributes:
                raise InputError(f"TAPPFL: no attribute {name!r}: {nearest(name, shape.attributes)}")
        values = {name: shape.attributes[name] for name in self.attributes}
        built = tappfl_networks(self.networks, shape, sum(values.values()), self.width)
        return {
            "extractor": Player(built.extractor, self.optimiser),
            "utility": Player(built.critic, self.optimiser),
            **{self._reader(name): Player(built.adversary(k), self.optimiser) for name, k in values.items()},
        }

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """Pre-training where wanted, then all three by turns."""
        reads = frozenset({"x"} | {f"{what}:{name}" for what in ("u", "varies") for name in self.attributes})
        counts = {name: shape.attributes.get(name, 0) for name in self.attributes}
        steps = self.privacy_steps or (5 if self.bound == "club" else 1)
        readers = self._readers

        def tell(play: Play) -> Tensor:
            return self._jsd(play, self.encoded(play).detach(), counts)

        def keep(play: Play) -> Tensor:
            return self._jsd(play, self.encoded(play), counts)

        def hide(play: Play) -> Tensor:
            return self._hide(play, counts)

        utility = Move(("utility",), tell, repeat=self.utility_steps, name="JSD")
        alone = Move(("extractor",), keep, name="extractor")
        privacy = Move(readers, self._read, repeat=steps, name="CE")
        common = {"shared": frozenset({"extractor"}), "reads": reads}
        work = {"local_epochs": self.local_epochs, "batch_size": self.batch_size}
        main = Stage((privacy, utility, Move(("extractor",), hide, name="extractor")), **common, **work)  # type: ignore[arg-type]
        if not self.pretraining:
            return (main,)
        first = Stage((utility, alone), name="pretraining", rounds=self.pretraining, **common, **work)  # type: ignore[arg-type]
        return (first, main)

    def _read(self, play: Play) -> Tensor:
        r = self.encoded(play).detach()
        return self._mean([self._cross_entropy(play, name, play(self._reader(name), r)) for name in self.attributes])

    def _hide(self, play: Play, counts: Mapping[str, int]) -> Tensor:
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
        hidden = self._mean([part * leak for part, leak in zip(share, leaks, strict=True)])
        return hidden + (1 - self._mean(share)) * self._jsd(play, r, counts)

    def _leak(self, play: Play, name: str, r: Tensor) -> Tensor:
        """Return what f descends of an attribute."""
        return self._bounded(play, name, play(self._reader(name), r))

    def _bounded(self, play: Play, name: str, logits: Tensor) -> Tensor:
        """Return what f descends of an attribute by one g's logits."""
        leak = -self._cross_entropy(play, name, logits)
        return leak + self._cross_entropy(play, name, logits, elsewhere=True) if self.bound == "club" else leak

    def _cross_entropy(self, play: Play, name: str, logits: Tensor, elsewhere: bool = False) -> Tensor:
        """Return CE of u, or of a u' of the batch's other records (all pairs), on records that count."""
        codes = play.u(name)
        counted = counting((codes >= 0) & play.varies(name), play.weights)
        if not elsewhere:
            return mean_over(cross_entropy(logits, torch.where(counted, codes, -1)), counted, play.weights)
        rows = one_hot(codes, logits.shape[-1], logits) * counted.unsqueeze(-1)
        marginal = rows.sum(dim=-2, keepdim=True) / counted.sum(dim=-1).clamp_min(1).to(rows.dtype)[..., None, None]
        return mean_over(-(marginal * logits.log_softmax(dim=-1)).sum(dim=-1), counted, play.weights)

    def _jsd(self, play: Play, r: Tensor, counts: Mapping[str, int]) -> Tensor:
        rows = [one_hot(play.u(name), k, play.x) for name, k in counts.items()]
        joint = torch.zeros_like(play.u(self.attributes[0]))
        for name, k in counts.items():
            joint = joint * (k + 1) + play.u(name) + 1  # no label is a value, too
        places, found = play.partners(joint if self.negatives == "conditional" else None)
        u = torch.cat(rows, dim=-1)
        fold = self.networks == "light"
        pairs = [joined(x, r, u, fold) for x in (play.x, play.pick(play.x, places))]
        both = torch.cat(pairs, dim=places.dim() - 1)
        true, false = play("utility", both).squeeze(-1).chunk(2, dim=-1)  # one pass: the critic may step inside it
        return mean_over(softplus(-true) + softplus(false), found, play.weights)

    @staticmethod
    def _mean(parts: list[Tensor]) -> Tensor:
        return parts[0] if len(parts) == 1 else torch.stack(parts).mean(dim=0)

    def encoded(self, play: Play) -> Tensor:
        """Return r as the players see it while they learn; what a hardened form changes."""
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
