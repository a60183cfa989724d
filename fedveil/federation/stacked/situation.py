"""What layers need to know beside their input."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass
class Situation:
    """Training or not, which rows are padding, and whose randomness it is.

    Attributes:
        training: whether dropout drops and batch norm uses the batch.
        weights: (devices, batch), 0 for padding; None where there is none.
        seeds: one seed per device for counted randomness.
        step: the device's step in this round.
        call: how many random draws were made in this step.
        second_order: whether the network at work must stay differentiable twice.
    """

    training: bool
    weights: Tensor | None = None
    seeds: Tensor | None = None
    step: int = 0
    call: int = 0
    second_order: bool = False
