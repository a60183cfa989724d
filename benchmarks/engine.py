"""The stacked engine beside a plain PyTorch loop, in one run and one process: ratios, not promises.

    python benchmarks/engine.py [--quick] [--json]

Work: MLP 103-64-128-2, 260 records per device, batch 10, 10 local epochs, SGD; 10 and 100 devices per round. Then a
game of three small MLPs at 10 devices and a network of two convolutions on 32×32 images. With `--json` the last
line of stdout is `{"speedup": {"10": …, "100": …}, "seconds_per_round": {"10": …, "100": …}, …}`. Flower's simulation
and pfl do the same work where they are installed (`pip install 'flwr[simulation]' pfl`), but for `--quick`; their
figures are speed-ups over the same plain loop.
"""

from __future__ import annotations

import argparse
import copy
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedveil.core.models import mlp
from fedveil.data import IID, Attribute, AttributeData
from fedveil.federation import Federation
from fedveil.federation.rounds import play_round
from fedveil.federation.run import Run, begin
from fedveil.games import SGD, AdversarialTraining, FedAvg

RECORDS, FEATURES, BATCH, EPOCHS, RATE = 260, 103, 10, 10, 0.01

# Pieces that must run in a process of their own; each prints one number.
START_UP = """
import time
start = time.perf_counter()
import numpy as np
import fedveil as fv
from fedveil.data import Attribute, AttributeData
rng = np.random.default_rng(0)
x = rng.standard_normal((200, 8)).astype("float32")
codes = np.arange(200) % 2
u, y = (Attribute(name, codes, ("0", "1")) for name in "uy")
data = AttributeData(x, {"u": u}, np.zeros(200, "int8"), y)
fv.Federation(data, devices=5).play(fv.games.AdversarialTraining(attribute="u"), rounds=1)
print(time.perf_counter() - start)
"""

MILLION = """
import resource
import numpy as np
import fedveil as fv
from fedveil.data import Attribute, AttributeData, OneEach
rng = np.random.default_rng(0)
n = 1_000_000
x = rng.standard_normal((n, 8), dtype="float32")
codes = np.arange(n) % 2
u, y = (Attribute(name, codes, ("0", "1")) for name in "uy")
data = AttributeData(x, {"u": u}, np.zeros(n, "int8"), y)
game = fv.games.AdversarialTraining(attribute="u", share_adversary=True)
run = fv.Federation(data, OneEach(), fraction=1e-4).play(game, rounds=3)
assert run.history[-1].devices == 100
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""


def table(devices: int, shape: tuple[int, ...], records: int) -> AttributeData:
    """Make random data of which every device gets the same number of records."""
    rng = np.random.default_rng(0)
    n = devices * records
    x = rng.standard_normal((n, *shape)).astype(np.float32)
    y = (x.reshape(n, -1)[:, :20].sum(axis=1) > 0).astype(np.int64)
    u = (x.reshape(n, -1)[:, 10:30].sum(axis=1) > 0).astype(np.int64)
    return AttributeData(
        x, {"u": Attribute("u", u, ("0", "1"))}, np.zeros(n, dtype=np.int8), Attribute("y", y, ("0", "1"))
    )


def batches(x: torch.Tensor, columns: list[torch.Tensor], generator: torch.Generator, epochs: int):  # type: ignore[no-untyped-def]
    """Yield a device's shuffled batches, epoch after epoch."""
    for _ in range(epochs):
        order = torch.randperm(len(x), generator=generator)
        yield from zip(x[order].split(BATCH), *(column[order].split(BATCH) for column in columns), strict=True)


def plain_fedavg(network: nn.Module, data: AttributeData, devices: int, records: int, epochs: int) -> None:
    """One round of FedAvg, one device after another, as anybody would write it."""
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y.codes)  # type: ignore[union-attr]
    generator = torch.Generator().manual_seed(0)
    worker = copy.deepcopy(network)
    total = [torch.zeros_like(parameter) for parameter in network.parameters()]
    for device in range(devices):
        rows = slice(device * records, (device + 1) * records)
        worker.load_state_dict(network.state_dict())
        optimiser = torch.optim.SGD(worker.parameters(), lr=RATE)
        for xb, yb in batches(x[rows], [y[rows]], generator, epochs):
            optimiser.zero_grad(set_to_none=True)
            functional.cross_entropy(worker(xb), yb).backward()
            optimiser.step()
        with torch.no_grad():
            for mine, theirs in zip(total, worker.parameters(), strict=True):
                mine.add_(theirs, alpha=1 / devices)


def plain_three_players(networks: dict[str, nn.Module], data: AttributeData, devices: int, records: int) -> None:
    """One round of adversarial training, one device after another."""
    x, y = torch.from_numpy(data.x), torch.from_numpy(data.y.codes)  # type: ignore[union-attr]
    u = torch.from_numpy(data.attributes["u"].codes)
    generator = torch.Generator().manual_seed(0)
    for device in range(devices):
        rows = slice(device * records, (device + 1) * records)
        encoder, head, adversary = (copy.deepcopy(networks[name]) for name in ("encoder", "head", "adversary"))
        reader = torch.optim.SGD(adversary.parameters(), lr=RATE)
        hider = torch.optim.SGD([*encoder.parameters(), *head.parameters()], lr=RATE)
        for xb, yb, ub in batches(x[rows], [y[rows], u[rows]], generator, EPOCHS):
            reader.zero_grad(set_to_none=True)
            with torch.no_grad():
                seen = encoder(xb)
            functional.cross_entropy(adversary(seen), ub).backward()
            reader.step()
            hider.zero_grad(set_to_none=True)
            r = encoder(xb)
            loss = functional.cross_entropy(head(r), yb) - functional.cross_entropy(adversary(r), ub)
            loss.backward()
            hider.step()


def side_by_side(plain: Callable[[], None], ours: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Time both by turns; return the medians in seconds."""
    ours()  # the first round of a process also pays for its allocations
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(repeats):
        for function, into in ((plain, times[0]), (ours, times[1])):
            start = time.perf_counter()
            function()
            into.append(time.perf_counter() - start)
    return statistics.median(times[0]), statistics.median(times[1])


def rounds_of(run: Run) -> Callable[[], None]:
    """Return a function that plays one more round."""
    return lambda: play_round(run, run.stages[0])


def strided(generator: torch.Generator) -> nn.Module:
    """Return a network of two convolutions of stride 2 for 3×32×32, as the field's papers use them."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 8 * 8, 2),
    )  # fmt: skip


def pooled(generator: torch.Generator) -> nn.Module:
    """Return LeNet-5: two convolutions with pooling, where arithmetic weighs more."""
    return nn.Sequential(
        nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 2),
    )  # fmt: skip


def images(network: Callable[[torch.Generator], nn.Module]) -> float:
    """Return the speed-up of a network on images, at 10 devices."""
    data = table(10, (3, 32, 32), 40)
    game = FedAvg(network=network, optimiser=SGD(RATE), local_epochs=2, batch_size=BATCH)
    run = begin(Federation(data, IID(10), device="cpu"), _without_validation(game))
    alone = copy.deepcopy(run.seats["model"].template)
    plain, ours = side_by_side(lambda: plain_fedavg(alone, data, 10, 40, 2), rounds_of(run), 9)
    return plain / ours


def measure(quick: bool) -> dict[str, object]:
    """Run everything."""
    speedup: dict[str, float] = {}
    seconds: dict[str, float] = {}
    plain_seconds: dict[str, float] = {}
    for devices in (10, 100):
        data = table(devices, (FEATURES,), RECORDS)
        game = FedAvg(hidden=(64, 128), optimiser=SGD(RATE), local_epochs=EPOCHS, batch_size=BATCH)
        run = begin(Federation(data, IID(devices), device="cpu"), _without_validation(game))
        network = mlp([FEATURES, 64, 128, 2], torch.Generator().manual_seed(0))
        repeats = {10: 5, 100: 1 if quick else 3}[devices]
        plain, ours = side_by_side(
            lambda n=network, d=data, k=devices: plain_fedavg(n, d, k, RECORDS, EPOCHS), rounds_of(run), repeats
        )
        speedup[str(devices)], seconds[str(devices)] = plain / ours, ours
        plain_seconds[str(devices)] = plain
    data = table(10, (FEATURES,), RECORDS)
    adversarial = AdversarialTraining(
        attribute="u", optimiser=SGD(RATE), local_epochs=EPOCHS, batch_size=BATCH, share_adversary=False
    )
    run = begin(Federation(data, IID(10), device="cpu"), adversarial)
    networks = {name: copy.deepcopy(seat.template) for name, seat in run.seats.items()}
    three = side_by_side(lambda: plain_three_players(networks, data, 10, RECORDS), rounds_of(run), 3)
    figures: dict[str, object] = {
        "speedup": speedup,
        "seconds_per_round": seconds,
        "three_players": three[0] / three[1],
        "cnn": images(strided),
        "cnn_pooled": images(pooled),
        "start_up_seconds": _child(START_UP),
        "million_devices_mb": _child(MILLION),
        "threads": torch.get_num_threads(),
    }
    if not quick:
        figures["peers"] = {name: _peer(module, plain_seconds) for name, module in (("flower", "ray"), ("pfl", "pfl"))}
    return figures


def _without_validation(game: FedAvg) -> FedAvg:
    """The plain loop scores nothing between rounds, so neither do we."""

    class Unscored(FedAvg):
        def stages(self, shape):  # type: ignore[no-untyped-def]
            from dataclasses import replace

            return tuple(replace(stage, validation=None) for stage in super().stages(shape))

    return Unscored(**{name: getattr(game, name) for name in game.__dataclass_fields__})


def _child(code: str) -> float:
    """Run a piece of code that prints one number in a process of its own."""
    return _ran("-c", code)


def _ran(*arguments: object) -> float:
    """Run Python on some arguments; what it prints ends with a number."""
    ran = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=True)
    return float(ran.stdout.split()[-1])


def _peer(module: str, plain: dict[str, float]) -> object:
    """Return a peer's speed-up over the plain loop, by number of devices, where its module is installed."""
    if importlib.util.find_spec(module) is None:
        return "not installed"
    script = Path(__file__).with_name({"ray": "flower_peer.py", "pfl": "pfl_peer.py"}[module])
    try:
        return {devices: seconds / _ran(script, devices, 3) for devices, seconds in plain.items()}
    except subprocess.CalledProcessError as fault:
        return f"failed: {fault.stderr.strip().splitlines()[-1]}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute")
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    arguments = parser.parse_args()
    figures = measure(arguments.quick)
    where = sys.stderr if arguments.json else sys.stdout
    for name, value in figures.items():
        print(f"{name}: {value}", file=where)
    if arguments.json:
        print(json.dumps(figures))


if __name__ == "__main__":
    main()
