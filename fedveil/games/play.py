"""What a loss may touch during one move: the declared data of a batch, and the players' networks.

The same loss runs on one device, where x is (batch, …), and on a stack of devices, where x is
(devices, batch, …). What a stage has not declared to read is withheld here, so that "task-agnostic"
is enforced, not promised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedveil.core.errors import InputError, nearest
from fedveil.games import pairing


class WithheldError(InputError):
    """A loss asked for data that its stage has not declared to read."""


def no_dice(shape: tuple[int, ...]) -> Tensor:
    """Refuse: what is released is a function of x alone; noise at release is a shield's."""
    raise InputError("nothing random can be drawn here: a release is a function of x; give its noise to a shield")


@dataclass
class Play:
    """One batch of one move.

    Attributes:
        data: "x", "y" and "u:<name>" for what the stage reads; nothing else.
        weights: 1 for records, 0 for padding, as (…, batch); None where no record is padding.
        settings: per-device hyper-parameters, shaped to multiply per-record losses.
        networks: calls a player's network.
        dice: uniform numbers in [0, 1) for every record, (…, batch, *shape): a device's numbers are the same on every
            engine and after a resume, and others at every round, step and call.
        calls: the shapes that went through each player in this move, for error messages.
    """

    data: Mapping[str, Tensor]
    weights: Tensor | None
    settings: Mapping[str, Tensor]
    networks: Callable[[str, Tensor], Tensor]
    dice: Callable[[tuple[int, ...]], Tensor] = no_dice
    calls: list[tuple[str, tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)

    def __call__(self, player: str, inputs: Tensor) -> Tensor:
        """Send inputs through a player's network. Only the moving players' weights receive gradients."""
        output = self.networks(player, inputs)
        self.calls.append((player, tuple(inputs.shape), tuple(output.shape)))
        return output

    @property
    def x(self) -> Tensor:
        """The batch's features."""
        return self._read("x")

    @property
    def y(self) -> Tensor:
        """The batch's task labels, as codes."""
        return self._read("y")

    def u(self, name: str) -> Tensor:
        """The batch's codes of a sensitive attribute; "own" is the attribute each device chose for itself."""
        return self._read(f"u:{name}")

    def varies(self, name: str) -> Tensor:
        """Whether each record's device has at least two values of an attribute: else there is nothing to hide there."""
        return self._read(f"varies:{name}")

    def setting(self, name: str) -> Tensor:
        """A hyper-parameter that may differ per device."""
        if name not in self.settings:
            raise InputError(f"no setting {name!r}: {nearest(name, self.settings)}")
        return self.settings[name]

    def uniform(self, *shape: int) -> Tensor:
        """Random numbers in [0, 1) for every record, (…, batch, *shape)."""
        return self.dice(shape).to(self._like.dtype)

    def noise(self, *shape: int) -> Tensor:
        """Standard normal numbers for every record, (…, batch, *shape); for training, not for privacy."""
        normal: Tensor = torch.special.ndtri(self.dice(shape) + 2.0**-54)
        return normal.to(self._like.dtype)

    def permutation(self) -> Tensor:
        """The places of each device's records in a random order, (…, batch); `pick` takes them."""
        return pairing.permutation(self.dice(()), self.weights)

    def partners(self, codes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """For each record the place of another one of its batch (with equal code), and whether there is one."""
        return pairing.partners(self.dice(()), codes, self.weights)

    @staticmethod
    def pick(values: Tensor, places: Tensor) -> Tensor:
        """Return what other records of the batch have: values (…, batch, …) at places (…, batch)."""
        return pairing.pick(values, places)

    @property
    def _like(self) -> Tensor:
        return next((column for column in self.data.values() if column.is_floating_point()), torch.empty(0))

    def _read(self, name: str) -> Tensor:
        if name not in self.data:
            readable = ", ".join(self.data) or "nothing"
            raise WithheldError(
                f"a loss asked for {name!r}, but its stage reads {readable}: declare it in the stage's reads"
            )
        return self.data[name]
