"""TAPPFL hardened: the same game against adversaries that are harder to fool."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from fedveil.core.errors import InputError
from fedveil.core.kernels import hsic, mmd
from fedveil.core.models import mlp
from fedveil.games.game import Build, DataShape, Player, Stage
from fedveil.games.losses import counting
from fedveil.games.play import Play
from fedveil.games.tappfl import TAPPFL
from fedveil.games.tappfl_networks import tappfl_networks

OTHER_SHAPES: tuple[tuple[int, ...], ...] = ((128,), (64, 64), (256, 128), ())
"""Hidden layers of the second and later adversaries, in a cycle; the first adversary is that of `networks`."""


@dataclass(frozen=True)
class Hardened(TAPPFL):
    """min_f λ·(L(g_1 … g_E; r) + κ·D(r, u)) + (1 − λ)·JSD(x; r | u), r = clip_R(f(x)) + σz, z ~ N(0, I).

    TAPPFL's f learns to fool one small g that sees a device's few records; if g then reads nothing, u need not be
    gone. Each part below closes one way of fooling g, and each can be turned off; with all of them off this is
    TAPPFL. It reads x and u, never y.

    Symbols: g_1 … g_E adversaries of several shapes, each fitted by likelihood on its own cross-entropy; L the privacy
    term of the adversary that reads best on the batch, or the mean over all; D a kernel measure of dependence (HSIC,
    MMD) computed on the batch, which needs no adversary; κ its weight; R the bottleneck's radius and σ its noise, in
    training. All players see the noisy r. `bound="confusion"` lets f descend −E log q(u' | r) with u' from the batch's
    marginal (Tzeng, Hoffman, Darrell and Saenko 2015), which is least if g answers with its prior; −CE, in contrast, is
    least if g is confidently wrong, which another attacker can invert.

    Guarantee: none from this game. What is learned resists only what it was trained against, and the panel measures
    what other attackers read. The noise guarantees nothing unless it is added at release: the shield
    `CertifiedChannel(radius=R, sigma=σ)` does so, and certifies a balanced accuracy of at most Φ(R/σ) for two values.

    What sharing adversaries gives away: their updates go to the server together with f's. They are gradients of
    log q(u | r) on a device's records, so they reveal more about u than f's updates do. A shield on updates covers
    both.

    Attributes:
        attribute: what is hidden: one attribute, several, or "own" for the attribute that each device protects.
        strength: the trade-off λ: 0 keeps x, 1 hides u.
        bound: the privacy term that f descends: "ce" (printed), "club" or "confusion".
        negatives: where x̄ comes from: "conditional" (equal u) or "marginal" (printed).
        networks: "paper" (Table 3) or "light" (a critic of two layers).
        width: how many numbers r has, for tables.
        privacy_steps: steps of the adversaries per batch; by default 1, or 5 with "club".
        utility_steps: steps of h per batch.
        pretraining: rounds in which only f and h learn (λ = 0) before the adversaries join.
        optimiser: how all players descend their losses.
        local_epochs: passes over its records that a device makes in a round.
        batch_size: records in one step.
        adversaries: the number E of privacy networks; the first is that of `networks`, the others differ in shape.
        against: which of them f descends: the "worst" on the batch, or the "mean" of all.
        restarts: all adversaries restart from fresh weights after this many rounds; 0 for never.
        share_adversaries: whether the server averages the adversaries as it does f, so that they learn from all
            devices.
        kernel: the measure of dependence D: "hsic" or "mmd".
        kernel_weight: its weight κ; 0 for none.
        radius: the norm R to which r is clipped if there is noise.
        sigma: the noise σ on r in training; 0 for neither noise nor clipping.
        critic: hidden layers of h on tables; if empty, those of `networks`.
    """

    bound: Literal["ce", "club", "confusion"] = "ce"  # type: ignore[assignment]
    adversaries: int = 1
    against: Literal["worst", "mean"] = "worst"
    restarts: int = 0
    share_adversaries: bool = False
    kernel: Literal["hsic", "mmd"] = "mmd"
    kernel_weight: float = 0.0
    radius: float = 1.0
    sigma: float = 0.0
    critic: tuple[int, ...] = ()
    name = "hardened"
    bounds = (*TAPPFL.bounds, "confusion")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.adversaries < 1 or self.restarts < 0:
            raise InputError(
                f"hardened: adversaries {self.adversaries} must be at least 1, restarts {self.restarts} not negative"
            )
        if self.against not in ("worst", "mean"):
            raise InputError(f"hardened: against {self.against!r} is not known: choose worst or mean")
        if self.kernel not in ("hsic", "mmd"):
            raise InputError(f"hardened: kernel {self.kernel!r} is not known: choose hsic or mmd")
        for setting in ("kernel_weight", "sigma"):
            if not 0 <= getattr(self, setting) < float("inf"):
                raise InputError(f"hardened: {setting} {getattr(self, setting)} must be finite and not negative")
        if not 0 < self.radius < float("inf"):
            raise InputError(f"hardened: radius {self.radius} must be above 0 and finite")
        if any(units < 1 for units in self.critic):
            raise InputError(f"hardened: critic {list(self.critic)} must have at least 1 unit in every layer")

    def _panel(self, attribute: str) -> tuple[str, ...]:
        """Return the names of the adversaries that read an attribute."""
        first = self._reader(attribute)
        return (first, *(f"{first}/{member}" for member in range(2, self.adversaries + 1)))

    @property
    def _readers(self) -> tuple[str, ...]:
        return tuple(reader for name in self.attributes for reader in self._panel(name))

    def players(self, shape: DataShape) -> Mapping[str, Player]:
        """TAPPFL's players, the other adversaries, and another critic if `critic` chooses one."""
        players = dict(super().players(shape))
        built = tappfl_networks(self.networks, shape, 0, self.width)
        with torch.no_grad():
            size = built.extractor(torch.Generator())(torch.zeros(1, *shape.features)).numel()  # of r
        if self.critic and len(shape.features) > 1:
            raise InputError("hardened: critic chooses layers for tables; for images leave it out")
        if self.critic:
            read = shape.features[0] + self.width + sum(shape.attributes[name] for name in self.attributes)
            players["utility"] = Player(_reading((read, *self.critic, 1), flat=True), self.optimiser)
        for name in self.attributes:
            for member, reader in enumerate(self._panel(name)[1:]):
                hidden = OTHER_SHAPES[member % len(OTHER_SHAPES)]
                sizes = (size, *hidden, shape.attributes[name])
                players[reader] = Player(_reading(sizes, flat=len(shape.features) == 1), self.optimiser)
        return players

    def stages(self, shape: DataShape) -> tuple[Stage, ...]:
        """TAPPFL's stages, with adversaries that restart or are shared if so chosen."""
        *before, main = super().stages(shape)
        shared = main.shared | (set(self._readers) if self.share_adversaries else set())
        restarts = dict.fromkeys(self._readers, self.restarts) if self.restarts else {}
        return (*before, replace(main, shared=shared, restarts=restarts))

    def encoded(self, play: Play) -> Tensor:
        """Return r as it will be released: with the noise that the shield adds."""
        r = self.represent(play)
        return r + self.sigma * play.noise(*r.shape[_records(r) :]) if self.sigma else r

    def represent(self, play: Play) -> Tensor:
        """f(x), clipped to the radius if there is a bottleneck; at release the shield adds the noise."""
        r = super().represent(play)
        if not self.sigma:
            return r
        norm = r.flatten(_records(r)).norm(dim=-1).clamp_min(1e-12)
        factor: Tensor = (self.radius / norm).clamp_max(1.0)
        return r * factor.view(*norm.shape, *[1] * (r.dim() - norm.dim()))

    def _read(self, play: Play) -> Tensor:
        """Return the sum of all adversaries' cross-entropies: each descends only its own term."""
        r = self.encoded(play).detach()
        losses = [self._cross_entropy(play, name, play(g, r)) for name in self.attributes for g in self._panel(name)]
        return torch.stack(losses).sum(dim=0)

    def _leak(self, play: Play, name: str, r: Tensor) -> Tensor:
        answers = [play(g, r) for g in self._panel(name)]
        leaks = torch.stack([self._bounded(play, name, logits) for logits in answers])
        if self.against == "mean":
            leak = leaks.mean(dim=0)
        else:  # the adversary whose cross-entropy over the batch is least
            costs = torch.stack([self._cross_entropy(play, name, logits) for logits in answers]).sum(dim=-1)
            leak = leaks.gather(0, costs.argmin(dim=0)[None, ..., None].expand(1, *leaks.shape[1:]))[0]
        if not self.kernel_weight:
            return leak
        codes = play.u(name)
        counted = counting((codes >= 0) & play.varies(name), play.weights)
        vectors = r.flatten(_records(r))
        values = answers[0].shape[-1]
        dependence = hsic(vectors, codes, counted) if self.kernel == "hsic" else mmd(vectors, codes, counted, values)
        return leak + self.kernel_weight * dependence.unsqueeze(-1)

    def _bounded(self, play: Play, name: str, logits: Tensor) -> Tensor:
        if self.bound == "confusion":
            return self._cross_entropy(play, name, logits, all_pairs=True)
        return super()._bounded(play, name, logits)

    def adversary(self, play: Play, attribute: str) -> Tensor:
        """The logarithm of the mean of all adversaries' probabilities, on r without noise."""
        if attribute not in self.attributes:
            return super().adversary(play, attribute)
        r = self.represent(play)
        return torch.stack([play(g, r).softmax(dim=-1) for g in self._panel(attribute)]).mean(dim=0).log()


def _records(r: Tensor) -> int:
    """Return how many leading axes count records: vectors have one axis more, maps of images three."""
    return r.dim() - (3 if r.dim() > 3 else 1)


def _reading(sizes: tuple[int, ...], flat: bool) -> Build:
    """Return a builder of layers of these sizes; maps are flattened first."""

    def build(generator: torch.Generator) -> nn.Module:
        layers = mlp(sizes, generator)
        return layers if flat else nn.Sequential(nn.Flatten(), layers)

    return build
