"""How strongly each feature of a network depends on its input: ‖∂rᵢ/∂x‖₂ for many records and features at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

Features = Callable[[Tensor], Tensor]
"""Records (n, …) → features (n, l), each row of its own record alone."""

_NUMBERS = 2**17
"""How many numbers of input gradients are held at once: what fits a core's cache is twice as fast as what does not."""

_TOGETHER = 16
"""How many features are at least differentiated in one pass; fewer would leave batched products idle."""


def exact_norms(features: Features, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the features r and the norms of their gradients, both (n, l); 0 where a feature is 0.

    Cost: one forward pass, then batched backward passes over those features alone that are not 0. Every record has its
    own list of them, so a pass takes the first few of every record's list, whichever they are. Parameters get no
    gradients.
    """
    each = max(1, x[:1].numel())
    found = [_exact(features, part, each) for part in torch.split(x, max(1, _NUMBERS // (each * _TOGETHER)))]
    return torch.cat([r for r, _ in found]), torch.cat([norms for _, norms in found])


def _exact(features: Features, x: Tensor, each: int) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        inputs = x.detach().clone().requires_grad_()
        r = features(inputs)
    live = r.detach() != 0
    most = int(live.sum(dim=1).max()) if live.numel() else 0
    listed = torch.sort((~live).to(torch.uint8), dim=1, stable=True).indices[:, :most]
    norms = torch.zeros_like(r, requires_grad=False)
    for part in torch.split(listed, max(1, _NUMBERS // (each * len(x))), dim=1) if most else ():
        chosen = torch.zeros(part.shape[1], *r.shape, dtype=r.dtype, device=r.device)
        chosen.scatter_(2, part.T[:, :, None], 1.0)
        (slopes,) = torch.autograd.grad(
            r, inputs, chosen, retain_graph=True, is_grads_batched=True, allow_unused=True, materialize_grads=True
        )
        norms.scatter_(1, part, torch.linalg.vector_norm(slopes.flatten(2), dim=2).T)
    return r.detach(), norms * live


def estimated_norms(features: Features, x: Tensor, probes: Iterable[Tensor]) -> tuple[Tensor, Tensor]:
    """Return the features and estimates of the norms, from random directions v with E vvᵀ = I, each of x's shape.

    E (∂rᵢ/∂x · v)² = ‖∂rᵢ/∂x‖², so the mean over k directions is an unbiased estimate of the square, with relative
    deviation at most √(2/k) (Hutchinson 1990); the norm's is about 1/√(2k). One forward-mode pass gives all features at
    once, however many there are, so that wide layers cost no more than narrow ones.
    """
    total, count = torch.zeros(()), 0
    with torch.no_grad(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="`torch.jit", category=DeprecationWarning)  # torch's own use of it
        for probe in probes:
            r, slope = torch.func.jvp(features, (x,), (probe,))[:2]
            total, count = slope.square() + total, count + 1
    return r, (total / count).sqrt() * (r != 0)


def signs(shape: torch.Size, generator: torch.Generator, like: Tensor) -> Tensor:
    """Draw ±1 for each number: of all directions with E vvᵀ = I those with the least deviation."""
    drawn = torch.randint(2, shape, generator=generator, device=generator.device)
    return drawn.to(like).mul_(2).sub_(1)
