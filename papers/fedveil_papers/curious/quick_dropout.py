"""Dropout whose random numbers cost a quarter: fifteen bits each."""

from __future__ import annotations

import torch
from torch import Tensor, nn

_LEVELS = 2**15


class QuickDropout(nn.Dropout):
    """Dropout with p rounded to a multiple of 2⁻¹⁵: one draw of 63 bits serves four entries.

    Torch draws a number for every entry, which takes a quarter of a step of the paper's classifier on a CPU. It draws
    from torch's global state: whoever trains must have seeded it.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Drop entries in training."""
        if not self.training or self.p == 0:
            return x
        dropped = round(self.p * _LEVELS)
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device).random_()
        bits = words.view(torch.int16)[: x.numel()].bitwise_and(_LEVELS - 1)  # the sign is 0 in every fourth
        mask = (bits >= dropped).to(x.dtype).mul_(_LEVELS / (_LEVELS - dropped))
        # The mask lies in memory as x does, whatever the order of its axes, so that the product runs straight through.
        filled = x.is_contiguous() or (x.dim() == 4 and x.is_contiguous(memory_format=torch.channels_last))
        return x * (mask.as_strided(x.shape, x.stride()) if filled else mask.view(x.shape))


def quicken(module: nn.Module) -> nn.Module:
    """Let a freshly built network's dropouts draw quickly."""
    for part in module.modules():
        if type(part) is nn.Dropout:
            part.__class__ = QuickDropout
    return module
