"""Labels read off the last layer's gradient: iDLG (Zhao, Mopuri and Bilen 2020)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from fedveil.attacks.reconstruction.matching import parameter_places
from fedveil.core.errors import InputError


def recovered_labels(model: nn.Module, seen: Tensor) -> Tensor:
    """Return each victim's label, (n,), from the gradient of the last fully connected layer.

    With cross-entropy and one record, the slope of output k is δ_k = p_k − 1[k = y]: negative for the true label and
    for no other. The bias's gradient is δ itself; without one, or where nothing of it was seen, the sums of the
    weights' rows δ_k·Σa have its signs, as long as Σa > 0 (behind ReLUs and sigmoids it is). A single output is taken
    as a probability: its slope is negative where the label is 1.
    It holds exactly for one record's own gradient. Noise can hide the sign, and the least entry is a guess then; of
    several records it names one at most; a shield that changes the last layer's signs defeats it.
    """
    layer = _last(model)
    places = parameter_places(model)
    slopes = seen[:, places[id(layer.weight)]].reshape(len(seen), *layer.weight.shape).sum(dim=2)
    if layer.bias is not None:
        biases = seen[:, places[id(layer.bias)]]
        slopes = torch.where(biases.abs().sum(dim=1, keepdim=True) > 0, biases, slopes)
    return (slopes[:, 0] < 0).long() if slopes.shape[1] == 1 else slopes.argmin(dim=1)


def _last(model: nn.Module) -> nn.Linear:
    owners = [layer for layer in model.modules() if any(True for _ in layer.parameters(recurse=False))]
    if not owners or not isinstance(owners[-1], nn.Linear):
        raise InputError(
            "labels can be recovered where the last layer is fully connected, which it is not: give labels"
        )
    return owners[-1]
