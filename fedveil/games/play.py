"""What a loss may touch during one move: the declared data of a batch, and the players' networks.

The same loss runs on one device, where x is (batch, …), and on a stack of devices, where x is
(devices, batch, …). What a stage has not declared to read is withheld here, so that "task-agnostic"
is enforced, not promised.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from fedveil.errors import InputError, nearest


class WithheldError(InputError):
    """A loss asked for data that its stage has not declared to read."""


@dataclass
class Play:
    """One batch of one move.

    Attributes:
        data: "x", "y" and "u:<name>" for what the stage reads; nothing else.
        weights: 1 for records, 0 for padding, as (…, batch); None where no record is padding.
        settings: per-device hyper-parameters, shaped to multiply per-record losses.
        networks: calls a player's network.
        calls: the shapes that went through each player in this move, for error messages.
    """

    data: Mapping[str, Tensor]
    weights: Tensor | None
    settings: Mapping[str, Tensor]
    networks: Callable[[str, Tensor], Tensor]
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

    def setting(self, name: str) -> Tensor:
        """A hyper-parameter that may differ per device."""
        if name not in self.settings:
            raise InputError(f"no setting {name!r}: {nearest(name, self.settings)}")
        return self.settings[name]

    def _read(self, name: str) -> Tensor:
        if name not in self.data:
            readable = ", ".join(self.data) or "nothing"
            raise WithheldError(
                f"a loss asked for {name!r}, but its stage reads {readable}: declare it in the stage's reads"
            )
        return self.data[name]
