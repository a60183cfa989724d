"""Mingle against Gaussian noise of equal norm: what attackers retrained on defended updates read, what learning keeps.

    python benchmarks/mingle.py adult --people 8000 3000 5000 --length 60 --at 0.09,0.075 --at 0.3,0.25
    python benchmarks/mingle.py lfw --length 1 --at 0.09,0.09 --at 0.3,0.3
    python benchmarks/mingle.py lfw --learning 120 --at 0.09,0.09 --at 0.3,0.3

Each `--at` is a norm for the noise and a budget for mingle. One JSON line per measurement. With `--learning` nobody
attacks: the server's rounds are played with the mean gradient of all clients at once, which is the same and far faster.
"""

from __future__ import annotations

import argparse
import json

import torch
from fedveil_papers.recup.laboratory.kept import share_kept
from fedveil_papers.recup.laboratory.point import Laboratory, Point
from fedveil_papers.recup.laboratory.sending import Sender
from fedveil_papers.recup.laboratory.task import Task, make_task
from torch import Tensor, nn

from fedveil.core.randomness import numpy_generator, torch_generator
from fedveil.data import Split
from fedveil.shields import DPGaussian, Mingle

ATTRIBUTE = {"adult": "sex", "lfw": "gender", "audiomnist": "sex"}
TABLES = [("recovered", "boosting"), ("recovered", "mlp-large"), ("max", "boosting"), ("biases", "boosting")]
IMAGES = [("recovered", "logistic"), ("recovered", "mlp-large"), ("recovered", "rbf-svm"), ("max", "stru-nn")]


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", choices=sorted(ATTRIBUTE))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--people", type=int, nargs=3, help="at most so many to train, validate and test")
    parser.add_argument("--rounds", type=int, nargs="+", default=[1])
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--learning", type=int, help="measure only what so many rounds of learning keep")
    parser.add_argument("--at", action="append", type=_pair, default=[], metavar="NORM,BUDGET")
    parser.add_argument("--network", help="another than the task's own, such as lfw-on-pixels")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    attribute = ATTRIBUTE[arguments.source]
    people = dict(zip(("train", "validation", "test"), arguments.people or [], strict=False))
    task = make_task(
        arguments.source,
        [attribute],
        seed=arguments.seed,
        people=people,
        **({"network": arguments.network} if arguments.network else {}),
    )
    if arguments.learning:
        _learning(task, attribute, arguments.learning, arguments.at)
        return
    reads = TABLES if task.data.x.ndim == 2 else IMAGES
    pool = reads[:1] if len(arguments.rounds) > 1 else []
    lab = Laboratory(
        task, rounds=arguments.rounds, static=(), adaptive=reads, pool=pool, length=arguments.length, draws=200
    )
    utility = arguments.length > 1
    _say(lab.measure("undefended"), attribute)
    for norm, budget in arguments.at:
        _say(lab.measure("mingle", Mingle(attribute, budget), budget, utility=utility), attribute)
        noise = {
            number: DPGaussian(norm * _unit(task, lab.undefended.weights[number]), clip=None)
            for number in arguments.rounds
        }
        _say(lab.measure("gaussian", noise[arguments.rounds[0]], norm, at=noise, utility=utility), attribute)


def _pair(text: str) -> tuple[float, float]:
    norm, budget = text.split(",")
    return float(norm), float(budget)


def _unit(task: Task, weights: Tensor) -> float:
    """Return the deviation of noise whose norm is the mean update's."""
    count = 30 if task.data.x.ndim > 2 else 1000
    gradients = task.gradients(task.model(weights), task.people(Split.TRAIN)[:count])
    return float(gradients.norm(dim=1).mean()) / gradients.shape[1] ** 0.5


def _say(point: Point, attribute: str) -> None:
    readings = [point.worst(attribute, number=number) for number in point.damage]
    readings += [reading for reading in point.readings if reading.mode == "pooled"]
    kept = ("round", "attacker", "features", "balanced_accuracy", "validation")
    row = {
        "method": point.name,
        "strength": point.strength,
        "norm": {number: damage["relative_l2"] for number, damage in point.damage.items()},
        "kept": point.kept,
        "worst": [{name: reading.as_dict()[name] for name in kept} for reading in readings],
    }
    print(json.dumps(row), flush=True)


def _learning(task: Task, attribute: str, rounds: int, at: list[tuple[float, float]]) -> None:
    start, end = _losses(task, task.x, rounds)
    print(json.dumps({"method": "undefended", "losses": [start, end]}), flush=True)
    for norm, budget in at:
        veiled = Sender.prepare(task, Mingle(attribute, budget)).veiled
        assert veiled is not None
        after = _losses(task, veiled, rounds)[1]
        row = {"method": "mingle", "strength": budget, "losses": [start, after]}
        print(json.dumps({**row, "kept": share_kept(start - after, start - end)}), flush=True)
        after = _losses(task, task.x, rounds, norm * _unit(task, _flat(task.model())))[1]
        row = {"method": "gaussian", "strength": norm, "losses": [start, after]}
        print(json.dumps({**row, "kept": share_kept(start - after, start - end)}), flush=True)


def _flat(model: nn.Module) -> Tensor:
    return nn.utils.parameters_to_vector(model.parameters()).detach()


def _losses(task: Task, x: Tensor, rounds: int, sigma: float = 0.0) -> tuple[float, float]:
    """Return the test people's loss on their own inputs before and after."""
    people = torch.from_numpy(task.people(Split.TRAIN)[:, 0])
    model = task.model()
    start = task.test_loss(model)
    steps = torch.optim.SGD(model.parameters(), task.rate, momentum=task.momentum)
    generator = torch_generator(task.seed, "noise on means")
    count = min(task.clients, len(people))
    for number in range(1, rounds + 1):
        drawn = numpy_generator(task.seed, "sample", number).choice(len(people), count, replace=False)
        rows = people[torch.from_numpy(drawn)]
        steps.zero_grad()
        task.loss(model(x[rows]), task.y[rows]).mean().backward()  # type: ignore[no-untyped-call]
        for parameter in model.parameters():
            if sigma and parameter.grad is not None:
                parameter.grad += sigma / count**0.5 * torch.randn(parameter.shape, generator=generator)
        steps.step()
    return start, task.test_loss(model)


if __name__ == "__main__":
    main()
