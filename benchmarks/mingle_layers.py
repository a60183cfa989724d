"""Mingle on LFW's gender against the strongest attackers: those on the fully connected layers' gradients.

    python benchmarks/mingle_layers.py --seed 0 --at 0.09,0.065 --at 0.3,0.2

For one record these gradients reveal each layer's input a and slopes δ exactly. With noise N(0, σ²) on every entry the
slopes are δ̂ = δ + N(0, σ²) and the input δ̂ᵀ(δ ⊗ a + N)/‖δ̂‖², which is drawn here from its own law: the same as from
whole updates of 880,450 numbers, in far less time. Each `--at` is a norm for the noise and a budget for mingle.
"""

from __future__ import annotations

import argparse
import json

import numpy as np
import torch
from fedveil_papers.recup.laboratory.readers import Features, Readers, strongest
from fedveil_papers.recup.laboratory.sending import Sender, Tally
from fedveil_papers.recup.laboratory.task import Task, make_task
from torch import Tensor, nn

from fedveil.data import Split
from fedveil.shields import Mingle

ATTRIBUTE = "gender"
READS = (("recovered", "logistic"), ("recovered", "mlp-large"), ("recovered", "rbf-svm"))


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--at", action="append", default=[], metavar="NORM,BUDGET")
    parser.add_argument(
        "--network", default="lfw", choices=["lfw", "lfw-on-pixels"], help="pixels centred, or as printed"
    )
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    task = make_task("lfw", [ATTRIBUTE], seed=arguments.seed, network=arguments.network)
    model = task.model()
    some = task.gradients(model, task.people(Split.TRAIN)[:24])
    unit = float(some.norm(dim=1).mean()) / some.shape[1] ** 0.5
    generator = torch.Generator().manual_seed(arguments.seed)
    clean = _look(task, model, task.x, 0.0, generator)
    readers = Readers(clean, arguments.seed, 200)
    _say("undefended", None, 0.0, readers, clean)
    for pair in arguments.at:
        norm, budget = (float(part) for part in pair.split(","))
        sender, tally = Sender.prepare(task, Mingle(ATTRIBUTE, budget)), Tally()
        for part in np.array_split(task.people(Split.TEST)[:96], 4):
            tally.add(sender.send(model, part, 1))
        assert sender.veiled is not None
        veiled = _look(task, model, sender.veiled, 0.0, generator)
        _say("mingle", budget, tally.as_dict()["relative_l2"], readers, veiled)
        _say("gaussian", norm, norm, readers, _look(task, model, task.x, norm * unit, generator))


def _look(task: Task, model: nn.Sequential, x: Tensor, sigma: float, generator: torch.Generator) -> Features:
    groups = task.data.groups
    assert groups is not None
    pools, labels, whose = [], [], []
    for split in Split:
        rows = task.people(split)[:, 0]
        parts = [
            _recovered(task, model, x[batch], task.y[batch], sigma, generator)
            for batch in torch.from_numpy(rows).split(128)
        ]
        pools.append({"recovered": torch.cat(parts).double().numpy()})
        labels.append({ATTRIBUTE: task.data.attribute(ATTRIBUTE).take(rows)})
        whose.append(groups[rows])
    return Features(tuple(pools), tuple(labels), tuple(whose))  # type: ignore[arg-type]


def _recovered(
    task: Task, model: nn.Sequential, x: Tensor, y: Tensor, sigma: float, generator: torch.Generator
) -> Tensor:
    """Return inputs and slopes of both fully connected layers, recovered from noised gradients."""
    first, last = (index for index, layer in enumerate(model) if isinstance(layer, nn.Linear))
    inner = model[:first](x).detach()
    hidden = model[first](inner).detach().requires_grad_(True)
    outer = torch.relu(hidden)
    outputs = model[last](outer)
    slopes = torch.autograd.grad(task.loss(outputs, y).sum(), [hidden, outputs])
    parts = []
    for slope, inputs in zip(slopes, (inner, outer.detach()), strict=True):
        seen = slope + sigma * torch.randn(slope.shape, generator=generator)
        square = seen.pow(2).sum(dim=1, keepdim=True)
        square = torch.where(square > 0, square, 1.0)
        noise = sigma * torch.randn(inputs.shape, generator=generator) / square.sqrt()
        parts += [(seen * slope).sum(dim=1, keepdim=True) * inputs / square + noise, seen]
    return torch.cat(parts, dim=1)


def _say(method: str, strength: float | None, norm: float, readers: Readers, seen: Features) -> None:
    reading = strongest(readers.retrained(seen, ATTRIBUTE, READS, 1)).as_dict()
    worst = {name: reading[name] for name in ("attacker", "balanced_accuracy", "validation")}
    print(json.dumps({"method": method, "strength": strength, "norm": norm, "worst": worst}), flush=True)


if __name__ == "__main__":
    main()
