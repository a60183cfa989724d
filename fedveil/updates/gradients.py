"""Gradients of many records at once, one row each: what devices with one record would send."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional

from fedveil.updates.segments import Segment

LossOf = Callable[[Tensor, Tensor], Tensor]
"""(outputs (n, …), labels (n,)) → one loss per record."""

_EXPLICIT = (nn.Linear, nn.Conv2d, nn.InstanceNorm2d)


def network_segments(model: nn.Module, player: str = "model") -> tuple[Segment, ...]:
    """Return where each of a network's tensors lies in its gradient."""
    segments: list[Segment] = []
    start = 0
    for name, parameter in model.named_parameters():
        segments.append(Segment(player, name, tuple(parameter.shape), start))
        start += parameter.numel()
    return tuple(segments)


def per_sample_gradients(model: nn.Module, loss: LossOf, x: Tensor, y: Tensor, records: int = 1) -> Tensor:
    """Return the (n, d) gradients of each record's loss, in the order of the network's parameters.

    With `records`, each row is the mean over that many consecutive records: what a device that holds them sends.

    Networks of common layers are differentiated explicitly, in one pass over all records: with a layer's inputs a and
    its outputs' gradients δ, the gradient of the weights is δ ⊗ a, summed over the windows of a convolution. Any other
    network goes through torch.func, record by record.
    """
    if not is_explicit(model):
        return gradients_one_by_one(model, loss, x, y).view(len(x) // records, records, -1).mean(dim=1)
    rows = {
        id(parameter): row
        for layer, inputs, slopes in layer_slopes(model, loss, x, y)
        for parameter, row in layer_gradients(layer, inputs.detach(), slopes / records, records)
    }
    count = len(x) // records
    return torch.cat([rows[id(parameter)].reshape(count, -1) for parameter in model.parameters()], dim=1)


def layers_with_parameters(model: nn.Module) -> list[nn.Module]:
    """Return the layers that hold parameters themselves, in the network's order."""
    return [layer for layer in model.modules() if any(True for _ in layer.parameters(recurse=False))]


def layer_slopes(
    model: nn.Module, loss: LossOf, x: Tensor, y: Tensor, *, create_graph: bool = False
) -> list[tuple[nn.Module, Tensor, Tensor]]:
    """Return each layer with parameters, its inputs, and the gradients of the summed loss at its outputs.

    With `create_graph` the gradients can be differentiated again.
    """
    layers = layers_with_parameters(model)
    inputs: dict[nn.Module, Tensor] = {}
    outputs: dict[nn.Module, Tensor] = {}

    def remember(layer: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> None:
        inputs[layer], outputs[layer] = arguments[0], output

    hooks = [layer.register_forward_hook(remember) for layer in layers]
    try:
        with torch.enable_grad():
            total = loss(model(x), y).sum()
            slopes = torch.autograd.grad(total, [outputs[layer] for layer in layers], create_graph=create_graph)
    finally:
        for hook in hooks:
            hook.remove()
    return [(layer, inputs[layer], slope) for layer, slope in zip(layers, slopes, strict=True)]


def is_explicit(model: nn.Module) -> bool:
    """Whether `layer_gradients` has an explicit formula for all layers with parameters."""
    for layer in layers_with_parameters(model):
        if not isinstance(layer, _EXPLICIT):
            return False
        if isinstance(layer, nn.Conv2d) and (
            layer.groups != 1 or layer.padding_mode != "zeros" or isinstance(layer.padding, str)
        ):
            return False
    return True


def layer_gradients(layer: nn.Module, a: Tensor, slope: Tensor, records: int) -> list[tuple[nn.Parameter, Tensor]]:
    """Return each parameter of a layer with its gradients, summed over every `records` consecutive records."""
    count = len(a) // records
    if isinstance(layer, nn.InstanceNorm2d):
        normed = functional.instance_norm(a, eps=layer.eps)
        weights, biases = (
            slopes.sum(dim=(2, 3)).view(count, records, -1).sum(dim=1) for slopes in (slope * normed, slope)
        )
    else:
        if isinstance(layer, nn.Conv2d):  # each window is like a small record
            a = functional.unfold(a, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # type: ignore[arg-type]
            a, slope = a.transpose(1, 2), slope.flatten(2).transpose(1, 2)
        slope = slope.reshape(count, -1, slope.shape[-1])
        weights, biases = slope.transpose(1, 2) @ a.reshape(count, -1, a.shape[-1]), slope.sum(dim=1)
    pairs = ((layer.weight, weights), (layer.bias, biases))
    return [(parameter, rows) for parameter, rows in pairs if isinstance(parameter, nn.Parameter)]


def gradients_one_by_one(model: nn.Module, loss: LossOf, x: Tensor, y: Tensor) -> Tensor:
    """Return the gradient of each record's loss, (n, d), for any network, through torch.func."""
    weights = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def record_loss(parameters: dict[str, Tensor], record: Tensor, label: Tensor) -> Tensor:
        return loss(functional_call(model, parameters, (record[None],)), label[None])[0]

    gradients = vmap(grad(record_loss), in_dims=(None, 0, 0))(weights, x, y)
    return torch.cat([gradients[name].reshape(len(x), -1) for name in weights], dim=1)
