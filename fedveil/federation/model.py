"""The players' networks with given weights, in evaluation mode, on plain batches of records."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping

import numpy.typing as npt
import torch
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.federation.dice import fixed_dice
from fedveil.federation.layout import Layout
from fedveil.federation.work import Seat
from fedveil.games.play import Play, no_dice

_BATCH = 4096


class Model:
    """Runs functions of a `Play` over records, without gradients."""

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
        """Return what a function of a `Play` gives for some records, one row each; with a seed, it may draw numbers."""
        parts = []
        place = data["x"].device
        dice = None if seed is None else fixed_dice(seed, place)
        with torch.no_grad():
            for step, batch in enumerate(torch.split(torch.from_numpy(rows).to(place), _BATCH)):
                seen = {name: column[batch] for name, column in data.items()}
                if dice is not None:
                    dice.turn(step, batch.shape)
                parts.append(function(Play(seen, None, settings or {}, self._send, dice or no_dice)))
        return torch.cat(parts)

    def _send(self, player: str, x: Tensor) -> Tensor:
        return torch.as_tensor(self.modules[player](x))

    def of_x(self, function: Callable[[Play], Tensor], x: Tensor, rows: npt.NDArray) -> Tensor:  # type: ignore[type-arg]
        """Return what a function of x alone gives for some records: nothing else can be read."""
        return self.loss(function, {"x": x}, rows)
