"""Players' weights as flat vectors: what travels, what is averaged, what is kept on disk.

`Layout` says where each tensor of a network lies in its vector, `Model` holds the networks with given vectors in
evaluation mode, and `LocalPlayer` keeps the vectors of a player that never leaves its device.
"""

from __future__ import annotations

import copy
import math
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.federation.counted_random import fixed_dice
from fedveil.games.game import Player
from fedveil.games.play import Play, no_dice

if TYPE_CHECKING:
    from fedveil.federation.run import Run

_BATCH = 4096
_ROWS_PER_BLOCK = 64


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
        parameters, stop = _entries(list(module.named_parameters()), 0)
        floating = [(name, buffer) for name, buffer in module.named_buffers() if buffer.is_floating_point()]
        buffers, _ = _entries(floating, stop)
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


def _entries(named: list[tuple[str, Tensor]], start: int) -> tuple[tuple[Entry, ...], int]:
    entries = []
    for name, tensor in named:
        entries.append(Entry(name, tuple(tensor.shape), start))
        start += tensor.numel()
    return tuple(entries), start


@dataclass(frozen=True)
class Seat:
    """A player in a run: its template network and how it learns."""

    template: nn.Module
    player: Player


class Model:
    """The players' networks with given weights, in evaluation mode: functions of a `Play` run without gradients."""

    def __init__(self, seats: Mapping[str, Seat], layouts: Mapping[str, Layout], states: Mapping[str, Tensor]) -> None:
        self.modules = {}
        for name, seat in seats.items():
            module = copy.deepcopy(seat.template).to(states[name].device, states[name].dtype)
            layouts[name].load(module, states[name])
            self.modules[name] = module.eval().requires_grad_(False)

    def loss(
        self,
        function: Callable[[Play], Tensor],
        data: Mapping[str, Tensor],
        rows: IntArray,
        settings: Mapping[str, Tensor] | None = None,
        seed: int | None = None,
    ) -> Tensor:
        """Return the values of a function of a `Play` for some records, one row each; with a seed it may draw."""
        parts = []
        device = data["x"].device
        dice = None if seed is None else fixed_dice(seed, device)
        with torch.no_grad():
            for step, batch in enumerate(torch.split(torch.from_numpy(rows).to(device), _BATCH)):
                columns = {name: column[batch] for name, column in data.items()}
                if dice is not None:
                    dice.turn(step, batch.shape)
                parts.append(function(Play(columns, None, settings or {}, self._send, dice or no_dice)))
        return torch.cat(parts)

    def _send(self, player: str, x: Tensor) -> Tensor:
        return torch.as_tensor(self.modules[player](x))

    def of_x(self, function: Callable[[Play], Tensor], x: Tensor, rows: npt.NDArray) -> Tensor:  # type: ignore[type-arg]
        """Return the values of a function of x alone for some records: nothing else can be read."""
        return self.loss(function, {"x": x}, rows)


def model_of(run: Run, device: int | None = None) -> Model:
    """Return the networks with the server's weights; with a device, with that device's local players as well."""
    states = dict(run.shared)
    if device is not None:
        for name, player in run.local.items():
            state = player.get(np.array([device]))[0, : run.layouts[name].size]
            states[name] = state.to(run.federation.torch_device)
    return Model(run.seats, run.layouts, states)


class LocalPlayer:
    """One local player's flat state (weights, buffers, optimiser memory) on every device that has played.

    A device that has not played yet has the common start, and takes no memory. Blocks beyond `limit` bytes
    are memory-mapped files in a temporary folder, which the operating system pages in and out.
    """

    def __init__(self, start: Tensor, limit: int) -> None:
        self.start = start
        self.limit = limit
        self.slot_of: dict[int, int] = {}
        self.blocks: list[Tensor] = []
        self._folder: Path | None = None

    @property
    def spilled(self) -> int:
        """How many blocks lie on disk."""
        return 0 if self._folder is None else len(list(self._folder.iterdir()))

    def get(self, devices: IntArray) -> Tensor:
        """Return the devices' states, (devices, size), as a copy."""
        states = self.start.expand(len(devices), -1).clone()
        for row, device in enumerate(devices):
            slot = self.slot_of.get(int(device))
            if slot is not None:
                states[row] = self.blocks[slot // _ROWS_PER_BLOCK][slot % _ROWS_PER_BLOCK].to(states.device)
        return states

    def put(self, devices: IntArray, states: Tensor) -> None:
        """Keep the devices' states."""
        for row, device in enumerate(devices):
            slot = self.slot_of.setdefault(int(device), len(self.slot_of))
            if slot // _ROWS_PER_BLOCK >= len(self.blocks):
                self.blocks.append(self._block())
            self.blocks[slot // _ROWS_PER_BLOCK][slot % _ROWS_PER_BLOCK] = states[row].cpu()

    def _block(self) -> Tensor:
        shape = (_ROWS_PER_BLOCK, len(self.start))
        size = shape[0] * shape[1] * self.start.element_size()
        if (len(self.blocks) + 1) * size <= self.limit:
            return torch.zeros(shape, dtype=self.start.dtype)
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="fedveil-local-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        file = self._folder / f"{len(self.blocks)}.bin"
        mapped = torch.from_file(str(file), shared=True, size=shape[0] * shape[1], dtype=self.start.dtype)
        return mapped.view(shape)
