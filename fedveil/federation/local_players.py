"""Players that never leave their device: kept from round to round, on disk once they outgrow a limit."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path

import torch
from torch import Tensor

from fedveil.core.arrays import IntArray

_ROWS_PER_BLOCK = 64


class LocalPlayer:
    """One local player's flat state (weights, buffers, optimiser memory) on every device that has played.

    A device that has not played yet has the common start, and takes no memory. Blocks beyond `limit` bytes
    lie in memory-mapped files of a temporary folder, which the operating system pages in and out.
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
