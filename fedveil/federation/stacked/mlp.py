"""A stack of Linear layers and activations with a hand-written backward pass.

The whole network is one node of autograd, instead of two per layer. If a player steps by plain SGD and its
network is used once in a move, the step itself is taken inside the backward pass: the weights receive
−η·dᵀa directly, and no gradient is ever stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

ACTIVATIONS = (nn.ReLU, nn.Tanh, nn.Sigmoid)


@dataclass
class Step:
    """How to step inside the backward pass, which is allowed only if the network was used once.

    The step is due once the loss is computed: before that, a loss may itself take gradients, which must not move
    weights.

    Attributes:
        learning_rate: the step size; None if the backward pass does not step.
        uses: how often the network was used in this move.
        due: whether the loss is computed.
    """

    learning_rate: float | None
    uses: int = 0
    due: bool = False

    @property
    def fused(self) -> bool:
        """Whether the backward pass takes the step."""
        return self.due and self.learning_rate is not None and self.uses == 1


def plan_of(layers: list[nn.Module]) -> list[type[nn.Module] | None] | None:
    """Return the activation after each Linear layer (None if none), or None if the network is not such a stack."""
    plan: list[type[nn.Module] | None] = []
    for layer in layers:
        if type(layer) is nn.Linear and layer.bias is not None:
            plan.append(None)
        elif type(layer) in ACTIVATIONS and plan and plan[-1] is None:
            plan[-1] = type(layer)
        else:
            return None
    return plan or None


class StackedMLP(torch.autograd.Function):
    """x (devices, batch, features), then weight and bias of each Linear layer in turn."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, plan: list[type[nn.Module] | None], step: Step, *weights: Tensor) -> Tensor:
        """Keep each layer's output: the derivative of every activation is a function of it."""
        step.uses += 1
        outputs = [x]
        for index, activation in enumerate(plan):
            weight, bias = weights[2 * index], weights[2 * index + 1]
            x = torch.baddbmm(bias.unsqueeze(1), x, weight.transpose(1, 2))
            if activation is nn.ReLU:
                x = x.relu_()
            elif activation is nn.Tanh:
                x = x.tanh_()
            elif activation is nn.Sigmoid:
                x = x.sigmoid_()
            outputs.append(x)
        ctx.plan, ctx.step = plan, step
        ctx.save_for_backward(*outputs, *weights)  # as attributes, they and the output would keep each other alive
        return x

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, error: Tensor) -> Any:
        """Go back through the layers, and step on the way if that is allowed."""
        step, layers = ctx.step, len(ctx.plan)
        outputs, weights = ctx.saved_tensors[: layers + 1], ctx.saved_tensors[layers + 1 :]
        gradients: list[Tensor | None] = [None] * len(weights)
        wants_input, trains = ctx.needs_input_grad[0], any(ctx.needs_input_grad[3:])
        for index in range(layers - 1, -1, -1):
            activation, before, after = ctx.plan[index], outputs[index], outputs[index + 1]
            if activation is nn.ReLU:
                error = torch.ops.aten.threshold_backward(error, after, 0)
            elif activation is nn.Tanh:
                error = torch.ops.aten.tanh_backward(error, after)
            elif activation is nn.Sigmoid:
                error = torch.ops.aten.sigmoid_backward(error, after)
            weight, bias = weights[2 * index], weights[2 * index + 1]
            below = torch.bmm(error, weight) if index or wants_input else None
            if trains and step.fused:
                weight.detach().baddbmm_(error.transpose(1, 2), before, alpha=-step.learning_rate)
                bias.detach().sub_(error.sum(dim=1), alpha=step.learning_rate)
            elif trains:
                gradients[2 * index] = torch.bmm(error.transpose(1, 2), before)
                gradients[2 * index + 1] = error.sum(dim=1)
            if below is not None:
                error = below
        return (error if wants_input else None, None, None, *gradients)
