"""What `shield_mod` adds to a Flower client's training, side by side in one process.

    python benchmarks/flower_mod.py [--quick] [--json]

The client of Flower's PyTorch tutorial: its network (two convolutions, three fully connected layers: 62 006 weights)
is trained for one epoch on 4000 synthetic pictures of 32×32 pixels, a tenth of CIFAR-10's less a fifth, in
batches of 32, by a `ClientApp` that is called as the runtime calls it. With `--records 500` training is shorter, and
the share larger. The app with the mod and the app without take turns. In each the app's own training is timed by
itself, so that the rest is not lost in the variation of training; all are medians over the turns. The overhead is
(time besides training with the mod − the same without it) / training. All of the mod's work for a message is
included: reading policy and ledger, two checks of the chain, decoding, shielding, waiting for the disk; what a new
process needs once, to import fedveil, is printed too. RecUP's zoo of 20 members is loaded at every message as in a
new process, and once as where one process answers several. With `--json` the last line of stdout is `{"overhead":
{"dp-gaussian": …, "sparsify": …, "recup": …, …}, "processor": {…}}`, shares of training time by the clock, and of the
processor's time, which a busy machine and a slow disk change less.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Message, Metadata, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from rich.console import Console
from rich.table import Table
from torch import nn
from torch.nn import functional

from fedveil.config import policy as policies
from fedveil.flower import shield_mod
from fedveil.shields.recup import fit_zoo, spread_widths
from fedveil.updates.gradients import network_segments

BATCH = 32
POLICIES = {
    "dp-gaussian": 'shield = {kind = "dp-gaussian", clip = 1.0, sigma = 40.0}\n'
    "[budget]\nepsilon = 8.0\ndelta = 1e-5\nmessages = 100000\n",
    "dp-laplace": 'shield = {kind = "dp-laplace", clip = 1.0, scale = 40.0}\n',
    "sparsify": 'shield = {kind = "sparsify", p = 0.9}\n',
    "quantise": 'shield = {kind = "quantise", bits = 8}\n',
    "recup": 'shield = {kind = "recup", budget = 0.01}\n'
    'hide = {u = 1.0}\nzoo = {u = "zoo.safetensors"}\nown = {u = "b"}\n',
}


def network() -> nn.Sequential:
    """Return the tutorial's network."""
    torch.manual_seed(0)
    return nn.Sequential(
        *(nn.Conv2d(3, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)),
    )


def app(records: int, trained: list[tuple[float, float]], *mods: object) -> ClientApp:
    """Return the app: one epoch over synthetic pictures, whose time is appended to a list."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(records, 3, 32, 32, generator=generator)
    y = torch.randint(10, (records,), generator=generator)
    model = network()
    client_app = ClientApp(mods=list(mods))

    @client_app.train()
    def train(asked: Message, context: Context) -> Message:
        start = now()
        model.load_state_dict(asked.content["arrays"].to_torch_state_dict())
        optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        for rows in torch.randperm(records).split(BATCH):
            optimiser.zero_grad()
            loss = functional.cross_entropy(model(x[rows]), y[rows])
            loss.backward()
            optimiser.step()
        metrics = MetricRecord({"num-examples": records})
        trained.append(since(start))
        return Message(RecordDict({"arrays": ArrayRecord(model.state_dict()), "metrics": metrics}), reply_to=asked)

    return client_app


def write_zoo(folder: Path) -> None:
    """Fit a zoo of the usual size for this network on random updates: what its members read does not matter here."""
    segments = network_segments(network())
    updates = torch.randn(60, segments[-1].stop, generator=torch.Generator().manual_seed(1)) * 0.01
    codes = np.arange(60, dtype=np.int64) % 2
    fit_zoo(updates, codes, ("a", "b"), "u", segments, widths=spread_widths(20, 128, 2048)).save(
        folder / "zoo.safetensors"
    )


def now() -> tuple[float, float]:
    """Return the clock's time and the processor's, which excludes waiting for the disk and for other processes."""
    return time.perf_counter(), time.process_time()


def since(start: tuple[float, float]) -> tuple[float, float]:
    """Return how much of each has passed."""
    clock, worked = now()
    return clock - start[0], worked - start[1]


def seconds(client_app: ClientApp, context: Context, arrays: ArrayRecord, turn: int) -> tuple[float, float]:
    """Time one message, training and all."""
    metadata = Metadata(1, f"message-{turn}", 1, 7, "", "1", time.time(), 3600.0, "train")
    asked = Message(content=RecordDict({"arrays": ArrayRecord(dict(arrays))}), metadata=metadata)
    start = now()
    reply = client_app(asked, context)
    elapsed = since(start)
    if reply.has_error():
        raise SystemExit(f"{reply.error.reason}")
    return elapsed


def measure(name: str, folder: Path, records: int, turns: int, load: bool) -> tuple[float, float, float, float]:
    """Return training's seconds, the mod's, and the mod's share of training by the clock and in processor's time."""
    (folder / f"{name}.toml").write_text(POLICIES[name], encoding="utf-8")
    contexts = [Context(1, 7, {"fedveil-policy": str(folder / f"{name}.toml")}, RecordDict(), {}) for _ in range(2)]
    trained: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    apps = app(records, trained[0]), app(records, trained[1], shield_mod())
    arrays = ArrayRecord(network().state_dict())
    whole: tuple[list[tuple[float, float]], list[tuple[float, float]]] = ([], [])
    for turn in range(turns + 1):
        if load:
            policies._loaded.cache_clear()
        for index in range(2):
            whole[index].append(seconds(apps[index], contexts[index], arrays, turn))
    # The first turn also imports, and is left out.
    training_times = [np.array(trained[index][1:]) for index in range(2)]
    around = [np.median(np.array(whole[index][1:]) - training_times[index], axis=0) for index in range(2)]
    training = np.median(np.concatenate(training_times), axis=0)
    added = around[1] - around[0]
    return float(training[0]), float(added[0]), float(added[0] / training[0]), float(added[1] / training[1])


def import_seconds() -> float:
    """Time the import of the mod in a new process that has torch and flwr already, as an app has."""
    code = "import time, torch, flwr.clientapp; start = time.perf_counter(); from fedveil.flower import shield_mod; "
    ran = subprocess.run([sys.executable, "-c", code + "print(time.perf_counter() - start)"], stdout=-1, check=True)
    return float(ran.stdout)


def main() -> None:
    """Measure all of them and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer turns; DP-Gaussian, sparsification and RecUP alone")
    parser.add_argument("--json", action="store_true", help="a last line in JSON")
    parser.add_argument("--threads", type=int, default=1, help="of torch; one holds on a busy machine, too")
    parser.add_argument("--turns", type=int, default=0, help="how often each is measured; 15, or 5 with --quick")
    parser.add_argument("--records", type=int, default=4000, help="pictures that a client trains on")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    logging.getLogger("fedveil.flower").setLevel(logging.ERROR)  # RecUP's warning, at every message
    turns = options.turns or (5 if options.quick else 15)
    names = ["dp-gaussian", "sparsify", "recup"] if options.quick else list(POLICIES)
    table = Table(title=f"one epoch, {options.records} records, 62 006 weights", title_justify="left")
    for column in ("shield", "training (ms)", "the mod (ms)", "overhead", "processor's"):
        table.add_column(column, justify="left" if column == "shield" else "right")
    overhead: dict[str, float] = {}
    processor: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in names:
            folder = Path(temporary) / name
            folder.mkdir()
            if name == "recup":
                write_zoo(folder)
            ways = [(name, True), (f"{name}, zoo loaded", False)] if name == "recup" else [(name, False)]
            for label, load in ways:
                training, added, share, worked = measure(name, folder, options.records, turns, load)
                table.add_row(
                    label,
                    f"{1e3 * training:.1f}",
                    f"{1e3 * added:.1f}",
                    f"{100 * share:+.1f} %",
                    f"{100 * worked:+.1f} %",
                )
                overhead[label], processor[label] = round(share, 4), round(worked, 4)
    Console().print(table)
    print(f"once per process, to import the mod where torch and flwr are there: {import_seconds():.2f} s")
    if options.json:
        print(json.dumps({"overhead": overhead, "processor": processor}))


if __name__ == "__main__":
    main()
