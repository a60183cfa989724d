"""One player's network on many devices: which path it takes, and how inputs go through it."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fedveil.federation.layout import Layout
from fedveil.federation.prepare import CountedDropout
from fedveil.federation.stacked.layers import STACKED
from fedveil.federation.stacked.mlp import StackedMLP, Step, plan_of
from fedveil.federation.stacked.situation import Situation

Path = Literal["hand-written", "stacked", "vmap", "one by one"]


class StackedNetwork:
    """Runs a template module with every device's own weights.

    Paths, fastest first: a stack of Linear layers and activations by hand-written passes; a Sequential of known
    layers by batched products; any other module by vmap; and one whose layers mix records in ways of
    their own (a batch norm inside a custom module), device by device.
    """

    def __init__(self, template: nn.Module, *, second_order: bool = False) -> None:
        self.template = template
        self.layout = Layout.of(template)
        self.layers = _sequence(template)
        self.plan = None if self.layers is None or second_order else plan_of([layer for _, layer in self.layers])
        self.path: Path = self._choose()

    def _choose(self) -> Path:
        if self.plan is not None:
            return "hand-written"
        if self.layers is not None:
            return "stacked"
        mixing = (nn.modules.batchnorm._BatchNorm, nn.modules.dropout._DropoutNd)
        return "one by one" if any(isinstance(part, mixing) for part in self.template.modules()) else "vmap"

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
            for prefix, layer in self.layers:
                parts = {name: state[f"{prefix}{name}"] for name in _own(layer) if f"{prefix}{name}" in state}
                x = STACKED[type(layer)](layer, parts, x, now)
            return x
        self.template.train(now.training)
        if self.path == "vmap":
            run = vmap(lambda state, x: functional_call(self.template, state, (x,)), randomness="error")
            return torch.as_tensor(run(state, x))
        return self._one_by_one(state, x, now)

    def _one_by_one(self, state: dict[str, Tensor], x: Tensor, now: Situation) -> Tensor:
        outputs = []
        for device in range(len(x)):
            own = {name: tensor[device] for name, tensor in state.items()}
            rows = x.shape[1] if now.weights is None else int(now.weights[device].sum())
            alone = Situation(
                now.training, None, None if now.seeds is None else now.seeds[device : device + 1], now.step, now.call
            )
            for part in self.template.modules():
                if isinstance(part, CountedDropout):
                    part.now = alone
            y = functional_call(self.template, own, (x[device, :rows],))
            padding = y.new_zeros(x.shape[1] - rows, *y.shape[1:])
            outputs.append(torch.cat([y, padding]))
        now.call = alone.call
        return torch.stack(outputs)


def _sequence(module: nn.Module, prefix: str = "") -> list[tuple[str, nn.Module]] | None:
    """Return the known layers of a module in order with their names' prefixes, or None if any is not known."""
    if type(module) in STACKED and _plain(module):
        return [(prefix, module)]
    if type(module) is not nn.Sequential:
        return None
    found: list[tuple[str, nn.Module]] = []
    for name, child in module.named_children():
        inner = _sequence(child, f"{prefix}{name}.")
        if inner is None:
            return None
        found += inner
    return found


def _plain(layer: nn.Module) -> bool:
    """Whether a known layer is used in a way that the stacked form covers."""
    if isinstance(layer, nn.Conv1d | nn.Conv2d):
        return layer.padding_mode == "zeros"
    if isinstance(layer, nn.Softmax | nn.LogSoftmax):
        return layer.dim in (1, -1)
    return not (isinstance(layer, nn.Flatten) and layer.start_dim != 1)


def _own(layer: nn.Module) -> list[str]:
    return [name for name, _ in layer.named_parameters(recurse=False)] + [
        name for name, _ in layer.named_buffers(recurse=False)
    ]
