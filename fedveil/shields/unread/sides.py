"""Reading and moving the two sides of each layer in an update: its inputs, and the slopes of its outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.updates.features import recovered_inputs
from fedveil.updates.segments import Segment, checked

_NUMBERS = 2**25
"""How many numbers of updates are read at once."""


@dataclass(frozen=True)
class Layer:
    """A layer with biases: where its weights and biases lie in an update, and its first column in `Sides`."""

    weights: Segment
    biases: Segment
    start: int

    @property
    def inputs(self) -> slice:
        """The columns of its recovered input."""
        return slice(self.start, self.start + _inputs(self.weights))

    @property
    def slopes(self) -> slice:
        """The columns of its outputs' slopes."""
        return slice(self.inputs.stop, self.inputs.stop + self.weights.shape[0])


@dataclass(frozen=True, eq=False)
class Read:
    """What is read from n updates.

    Attributes:
        values: (n, D): for each layer, its input â, then its slopes b/‖b‖.
        sizes: (n, layers): the norms ‖b‖.
        norms: (n,): the norms of the updates.
    """

    values: Tensor
    sizes: Tensor
    norms: Tensor


class Sides:
    """Read and move the inputs and slopes of all layers that have weights and biases.

    One record's gradient of a layer is (G, b) = δ ⊗ (a, 1), with a its input and δ its outputs' slopes. With several
    records or steps it is a sum of these; â is then the input of the nearest matrix of rank one, and all maps here are
    still defined. All of them scale with the update, so that gradients and differences of weights are treated alike.
    """

    def __init__(self, segments: Sequence[Segment]) -> None:
        self.segments = tuple(segments)
        trained = {(segment.player, segment.name): segment for segment in self.segments if not segment.statistic}
        layers: list[Layer] = []
        for (player, name), weights in trained.items():
            biases = trained.get((player, f"{name.removesuffix('weight')}bias"))
            if name.endswith("weight") and len(weights.shape) > 1 and biases is not None:
                layers.append(Layer(weights, biases, layers[-1].slopes.stop if layers else 0))
        if not layers:
            raise InputError("unread: the model has no layer with weights and biases, so nothing can be hidden")
        self.layers = tuple(layers)
        self.width = layers[-1].slopes.stop

    def read(self, updates: Tensor) -> Read:
        """Return what updates reveal about their layers' inputs and slopes."""
        checked(updates, self.segments)
        parts = torch.split(updates, max(1, _NUMBERS // max(1, updates.shape[1])))
        read = [self._read(part) for part in parts] or [self._read(updates)]
        return Read(*(torch.cat([getattr(part, name) for part in read]) for name in ("values", "sizes", "norms")))

    def _read(self, updates: Tensor) -> Read:
        values, sizes = [], []
        for layer in self.layers:
            slopes = layer.biases.of(updates)
            size = torch.linalg.vector_norm(slopes, dim=1, keepdim=True)
            values += [recovered_inputs(updates, (layer.weights, layer.biases)), slopes / _safe(size)]
            sizes.append(size)
        norms: Tensor = torch.linalg.vector_norm(updates, dim=1)
        return Read(torch.cat(values, dim=1), torch.cat(sizes, dim=1), norms)

    def moved(self, updates: Tensor, read: Read, by: Tensor) -> Tensor:
        """Return the updates as if every layer's input and slopes had moved by (n, D).

        First G + b ⊗ n, with the same n for every output, so that no reader can average it away within one update; then
        (G, b) + ‖b‖ e ⊗ (â + n, 1). A layer whose biases are 0 does not change.
        """
        sent = updates.clone()
        for index, layer in enumerate(self.layers):
            size = read.sizes[:, index : index + 1]
            n, e = by[:, layer.inputs], size * by[:, layer.slopes]
            b = layer.biases.of(updates)
            reached = read.values[:, layer.inputs] + n
            weights = torch.einsum("no,ni->noi", b, n) + torch.einsum("no,ni->noi", e, reached)
            sent[:, layer.weights.start : layer.weights.stop] += weights.flatten(1)
            sent[:, layer.biases.start : layer.biases.stop] += e
        return sent

    def prices(self, read: Read) -> Tensor:
        """Return (n, 2·layers) the cost in ‖change‖²/‖update‖² of a unit of squared motion: of inputs, of slopes, …"""
        columns = []
        for index, layer in enumerate(self.layers):
            share = (read.sizes[:, index] / _safe(read.norms)).square()
            columns += [share, share * (1 + read.values[:, layer.inputs].square().sum(dim=1))]
        return torch.stack(columns, dim=1)

    def spread(self, per_side: Tensor) -> Tensor:
        """Return numbers for each side, (…, 2·layers), repeated for all of its columns, (…, D)."""
        return torch.repeat_interleave(per_side, torch.tensor(self.widths, device=per_side.device), dim=-1)

    @property
    def widths(self) -> list[int]:
        """The number of columns of each side: inputs of the first layer, its slopes, …"""
        return [width for layer in self.layers for width in (_inputs(layer.weights), layer.weights.shape[0])]


def _inputs(weights: Segment) -> int:
    return (weights.stop - weights.start) // weights.shape[0]


def _safe(sizes: Tensor) -> Tensor:
    return torch.where(sizes > 0, sizes, 1.0)
