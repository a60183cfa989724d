"""One player's network on many devices: which path it takes, and how inputs go through it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fedveil.federation.replaced_layers import CountedDropout, Situation
from fedveil.federation.stacked.layers import STACKED
from fedveil.federation.stacked.mlp import StackedMLP, Step, plan_of
from fedveil.federation.weights import Layout

Path = Literal["hand-written", "stacked", "vmap", "one by one"]


class StackedNetwork:
    """Runs a template module with the weights of each device.

    Paths, fastest first: a stack of Linear layers and activations by hand-written passes; a Sequential of known
    layers by batched products; any other module by vmap; and, device by device, a module whose layers mix records (a
    batch norm inside a custom module) or that vmap cannot handle. If some batches are shorter, modules on the vmap
    path also run device by device: an unknown module might read the padding.
    """

    def __init__(self, template: nn.Module, *, second_order: bool = False) -> None:
        self.template = template
        self.second_order = second_order
        self.layout = Layout.of(template)
        self.layers = _sequence(template, self.layout)
        self.plan = None if self.layers is None or second_order else plan_of([layer for _, layer in self.layers])
        self.first_name = _first_names(template, self.layout)
        self.path: Path = self._choose()

    def _choose(self) -> Path:
        if self.plan is not None:
            return "hand-written"
        if self.layers is not None:
            return "stacked"
        mixes_records = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd, nn.RNNBase)
        return "one by one" if any(isinstance(part, mixes_records) for part in self.template.modules()) else "vmap"

    def __call__(
        self, parameters: list[Tensor], buffers: list[Tensor], x: Tensor, now: Situation, step: Step
    ) -> Tensor:
        """Send x (devices, batch, …) through; parameters and buffers are (devices, *shape) each."""
        if self.path == "hand-written" and x.dim() == 3:
            return StackedMLP.apply(x, self.plan, step, *parameters)  # type: ignore[no-any-return, no-untyped-call]
        step.learning_rate = None  # only the hand-written pass can step by itself
        entries = self.layout.parameters + self.layout.buffers
        state = {entry.name: tensor for entry, tensor in zip(entries, [*parameters, *buffers], strict=True)}
        if self.layers is not None:
            now.second_order = self.second_order
            for prefix, layer in self.layers:
                parts = {name: state[f"{prefix}{name}"] for name in _tensor_names(layer) if f"{prefix}{name}" in state}
                x = STACKED[type(layer)](layer, parts, x, now)
            return x
        self.template.train(now.training)
        if self.path == "vmap" and now.weights is None:
            run = vmap(self._call, randomness="error")
            try:
                return torch.as_tensor(run(state, x))
            except RuntimeError:  # vmap cannot handle this module; a real fault of the module is raised again below
                self.path = "one by one"
        return self._one_by_one(state, x, now)

    def _call(self, state: dict[str, Tensor], x: Tensor) -> Tensor:
        # Tied weights are passed under each name: functional_call's tie_weights damages a module that occurs twice.
        full = {name: state[first] for name, first in self.first_name.items()}
        return torch.as_tensor(functional_call(self.template, full, (x,), tie_weights=False))

    def _one_by_one(self, state: dict[str, Tensor], x: Tensor, now: Situation) -> Tensor:
        outputs = []
        for device in range(len(x)):
            weights = {name: tensor[device] for name, tensor in state.items()}
            rows = x.shape[1] if now.weights is None else int(now.weights[device].sum())
            situation = Situation(
                now.training, None, None if now.seeds is None else now.seeds[device : device + 1], now.step, now.call
            )
            for part in self.template.modules():
                if isinstance(part, CountedDropout):
                    part.now = situation
            y = self._call(weights, x[device, :rows])
            padding = y.new_zeros(x.shape[1] - rows, *y.shape[1:])
            outputs.append(torch.cat([y, padding]))
        now.call = situation.call
        return torch.stack(outputs)


def _sequence(module: nn.Module, layout: Layout, prefix: str = "") -> list[tuple[str, nn.Module]] | None:
    """Return the layers of a module in order with their names' prefixes, or None if any is not in `STACKED`.

    A layer without weights may occur in it twice; a module that uses the same weights twice takes the vmap path.
    """
    if type(module) in STACKED and _plain(module):
        laid_out = {entry.name for entry in layout.parameters}
        parameters = [f"{prefix}{name}" for name, _ in module.named_parameters(recurse=False)]
        return [(prefix, module)] if laid_out.issuperset(parameters) else None
    if type(module) is not nn.Sequential:
        return None
    layers: list[tuple[str, nn.Module]] = []
    for name, child in module._modules.items():  # named_children would skip a layer that occurs again
        assert child is not None
        inner = _sequence(child, layout, f"{prefix}{name}.")
        if inner is None:
            return None
        layers += inner
    return layers


def _first_names(template: nn.Module, layout: Layout) -> dict[str, str]:
    """Return, for every name of a tensor of the layout, the name under which the layout has it."""
    tensors = dict(template.named_parameters()) | dict(template.named_buffers())
    laid_out = {id(tensors[entry.name]): entry.name for entry in layout.parameters + layout.buffers}
    names: dict[str, str] = {}
    for prefix, module in template.named_modules():
        for name in _tensor_names(module):
            tensor = getattr(module, name)
            if id(tensor) in laid_out:
                names[f"{prefix}.{name}" if prefix else name] = laid_out[id(tensor)]
    return names


def _plain(layer: nn.Module) -> bool:
    """Whether a known layer is used in a way that the stacked form covers."""
    if isinstance(layer, nn.Conv1d | nn.Conv2d):
        return layer.padding_mode == "zeros"
    if isinstance(layer, nn.Softmax | nn.LogSoftmax):
        return layer.dim in (1, -1)
    return not (isinstance(layer, nn.Flatten) and layer.start_dim != 1)


def _tensor_names(layer: nn.Module) -> list[str]:
    tensors = {**layer._parameters, **layer._buffers}
    return [name for name, tensor in tensors.items() if tensor is not None]
