"""A network's weights as one flat vector: what travels, what is averaged, what is kept on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.updates.segments import Segment

if TYPE_CHECKING:
    from fedveil.federation.run import Run
    from fedveil.games.game import Stage

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fedveil.core.errors import InputError


@dataclass(frozen=True)
class Entry:
    """Where one tensor lies in the flat vector."""

    name: str
    shape: tuple[int, ...]
    start: int

    @property
    def stop(self) -> int:
        """One past its last position."""
        return self.start + math.prod(self.shape)


@dataclass(frozen=True)
class Layout:
    """Parameters first, then floating buffers (batch-norm statistics); counters are left out."""

    parameters: tuple[Entry, ...]
    buffers: tuple[Entry, ...]

    @property
    def trained(self) -> int:
        """How many positions are parameters."""
        return self.parameters[-1].stop if self.parameters else 0

    @property
    def size(self) -> int:
        """Length of the vector."""
        return self.buffers[-1].stop if self.buffers else self.trained

    @classmethod
    def of(cls, module: nn.Module) -> Layout:
        """Lay out a module's state."""
        for name, part in module.named_modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.track_running_stats and part.momentum is None:
                raise InputError(f"layer {name!r}: batch norm with momentum=None is not supported; give it a momentum")
        parameters, place = _entries(list(module.named_parameters()), 0)
        floating = [(name, buffer) for name, buffer in module.named_buffers() if buffer.is_floating_point()]
        buffers, _ = _entries(floating, place)
        return cls(parameters, buffers)

    def flatten(self, module: nn.Module, dtype: torch.dtype = torch.float32) -> Tensor:
        """Copy a module's state into one vector."""
        state = dict(module.named_parameters()) | dict(module.named_buffers())
        flat = torch.empty(self.size, dtype=dtype)
        for entry in self.parameters + self.buffers:
            flat[entry.start : entry.stop] = state[entry.name].detach().reshape(-1)
        return flat

    def load(self, module: nn.Module, flat: Tensor) -> None:
        """Copy one vector into a module's state."""
        state = dict(module.named_parameters()) | dict(module.named_buffers())
        with torch.no_grad():
            for entry in self.parameters + self.buffers:
                state[entry.name].copy_(flat[entry.start : entry.stop].view(entry.shape))

    def views(self, stack: Tensor, entries: tuple[Entry, ...]) -> list[Tensor]:
        """Return each tensor of a stack (devices, size) as a view (devices, *shape)."""
        return [stack[:, entry.start : entry.stop].view(len(stack), *entry.shape) for entry in entries]


def _entries(named: list[tuple[str, Tensor]], place: int) -> tuple[tuple[Entry, ...], int]:
    entries = []
    for name, tensor in named:
        entries.append(Entry(name, tuple(tensor.shape), place))
        place += tensor.numel()
    return tuple(entries), place


def segments_of(run: Run, stage: Stage | None = None) -> tuple[Segment, ...]:
    """Return the tensors of an update in the order in which a device sends them, in a stage or in the present one."""
    if not run.stages:
        return ()
    if stage is None:
        stage = run.stages[min(run.progress.stage, len(run.stages) - 1)]
    found: list[Segment] = []
    place = 0
    for player in run.seats:
        if player in stage.shared and player in stage.players:
            layout = run.layouts[player]
            for entry in layout.parameters + layout.buffers:
                statistic = entry.start >= layout.trained
                found.append(Segment(player, entry.name, entry.shape, place + entry.start, statistic))
            place += layout.size
    return tuple(found)
