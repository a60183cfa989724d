"""What a loss may use during one move: the declared data of a batch, and the players' networks.

The same loss runs on one device, where x is (batch, …), and on a stack of devices, where x is
(devices, batch, …). What a stage has not declared to read is withheld here, so that "task-agnostic"
is enforced, not promised.

Losses that pair records (`Play.permutation`, `Play.partners`) do so from uniform numbers. Padding (weight 0) is never
paired with a record, so a device draws in a padded stack what it would draw alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from fedveil.core.errors import InputError, nearest

_BELOW_ONE = 1 - 2.0**-20  # so that adding a uniform number never carries into the next code


class WithheldError(InputError):
    """A loss asked for data that its stage has not declared to read."""


def no_dice(shape: tuple[int, ...]) -> Tensor:
    """Refuse to draw: what is released is a function of x alone, and noise at release is added by a shield."""
    raise InputError("nothing random can be drawn here: a release is a function of x alone; add noise by a shield")


@dataclass
class Play:
    """One batch of one move.

    Attributes:
        data: "x", "y" and "u:<name>" for what the stage reads; nothing else.
        weights: 1 for records, 0 for padding, as (…, batch); None if no record is padding.
        settings: per-device hyper-parameters, shaped to multiply per-record losses.
        networks: calls a player's network.
        dice: uniform numbers in [0, 1) for every record, (…, batch, *shape). A device's numbers are the same on every
            engine and after a resume, and differ between rounds, steps and calls.
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
        """The batch's codes of a sensitive attribute; "own" is the attribute that each device protects."""
        return self._read(f"u:{name}")

    def varies(self, name: str) -> Tensor:
        """Whether each record's device has at least two values of an attribute; otherwise it has nothing to hide."""
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
        """The positions of each device's records in a random order, (…, batch); `pick` takes them."""
        return permutation(self.dice(()), self.weights)

    def partners(self, codes: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """For each record the position of another record of its batch (with equal code), and whether one exists."""
        return partners(self.dice(()), codes, self.weights)

    @staticmethod
    def pick(values: Tensor, positions: Tensor) -> Tensor:
        """Return the values of other records of the batch: values (…, batch, …) at positions (…, batch)."""
        return pick(values, positions)

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


def permutation(uniform: Tensor, weights: Tensor | None) -> Tensor:
    """Return the positions of each batch's records in a random order; padding stays at the end.

    >>> permutation(torch.tensor([[0.3, 0.1, 0.2], [0.9, 0.5, 0.0]]), torch.tensor([[1, 1, 1], [1, 1, 0]])).tolist()
    [[1, 2, 0], [1, 0, 2]]
    """
    keys = uniform if weights is None else torch.where(weights > 0, uniform, 2.0)
    return keys.argsort(dim=-1, stable=True)


def partners(uniform: Tensor, codes: Tensor | None, weights: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return for each record the position of another record of equal code, drawn evenly, and whether one exists.

    The records of a code form a random cycle, each pointing at the next: never at itself, and every record is the
    partner of exactly one other. A code of −1 (no label) has no partner; without codes, any other record can be the
    partner. A record without a partner gets its own position.

    >>> positions, exists = partners(torch.tensor([0.3, 0.1, 0.2, 0.5]), torch.tensor([0, 1, 0, 2]), None)
    >>> positions.tolist(), exists.tolist()
    ([2, 1, 0, 3], [True, False, True, False])
    """
    codes = torch.zeros(uniform.shape, dtype=torch.int64, device=uniform.device) if codes is None else codes
    codes = codes if weights is None else torch.where(weights > 0, codes, -1)
    order = (codes + uniform * _BELOW_ONE).argsort(dim=-1, stable=True)
    sorted_codes = codes.gather(-1, order)
    index = torch.arange(codes.shape[-1], device=codes.device).expand_as(codes)
    changes = sorted_codes[..., 1:] != sorted_codes[..., :-1]
    edge = torch.ones_like(changes[..., :1]) if codes.shape[-1] > 1 else torch.ones_like(codes, dtype=torch.bool)
    first, last = torch.cat([edge, changes], dim=-1), torch.cat([changes, edge], dim=-1)
    start = torch.where(first, index, 0).cummax(dim=-1).values
    following = torch.where(last, start, index + 1)
    following = torch.where(sorted_codes >= 0, following, index)
    positions = torch.empty_like(codes).scatter_(-1, order, order.gather(-1, following))
    return positions, positions != index


def pick(values: Tensor, positions: Tensor) -> Tensor:
    """Return the values (…, batch, …) of the records at some positions (…, batch) of their device's batch."""
    trailing = values.dim() - positions.dim()
    if not trailing:
        return values.gather(-1, positions)
    return values.gather(positions.dim() - 1, positions.view(*positions.shape, *[1] * trailing).expand_as(values))
