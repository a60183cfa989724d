"""A zoo's cost: seconds of a core to fit, bytes on the disk in 32, 8 and 4 bits, and what members read of the unseen.

    python benchmarks/zoo.py [--quick] [--json] [--attribute race] [--directions 512]

Work: LFW's network of RecUP-FL's Table 2, one record per client, gradients of all training people in five rounds (with
`--quick` one), the default zoo of 20 members with widths from 128 to 2048 (`--quick`: 4) on "max" features, one thread.
With `--json` the last line of stdout is one object.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from fedveil_papers.recup.laboratory import make_task
from fedveil_papers.recup.laboratory.sending import Sender
from fedveil_papers.recup.laboratory.task import Task
from fedveil_papers.recup.laboratory.training import train
from torch import Tensor

from fedveil.data import Split
from fedveil.shields import Identity
from fedveil.shields.recup import Fitting, Zoo, fit_zoo, spread_widths
from fedveil.updates import features

ROUNDS = (1, 3, 5, 10, 20)


def main() -> None:
    """Measure and print, as JSON too if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--attribute", default="gender")
    parser.add_argument("--directions", type=int, default=Fitting().directions)
    parser.add_argument(
        "--network", default="lfw", choices=["lfw", "lfw-on-pixels"], help="pixels centred, or as printed"
    )
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rounds = ROUNDS[:1] if asked.quick else ROUNDS
    task = make_task("lfw", [asked.attribute], network=asked.network)
    played = train(Sender.prepare(task, Identity()), max(rounds), keep=rounds)
    started_from = {number: played.weights[number] for number in rounds}
    train_x, train_codes, senders = updates(task, started_from, Split.TRAIN, asked.attribute)
    test_x, test_codes, _ = updates(task, started_from, Split.TEST, asked.attribute)
    start = time.process_time()  # other processes are not counted
    zoo = fit_zoo(
        train_x,
        train_codes,
        task.data.attribute(asked.attribute).values,
        asked.attribute,
        task.segments,
        widths=spread_widths(4 if asked.quick else 20),
        groups=senders,
        started_from=started_from,
        precomputed=True,
        fitting=Fitting(directions=asked.directions),
    )
    figures: dict[str, Any] = {
        "attribute": asked.attribute,
        "members": len(zoo),
        "directions": asked.directions,
        "updates": len(train_x),
        "features": train_x.shape[1],
        "fit_seconds": time.process_time() - start,
        "bits": {},
    }
    print(f"{len(zoo)} members, {len(train_x)} updates of {train_x.shape[1]} features: {figures['fit_seconds']:.1f} s")
    for bits in (32, 8, 4):
        coded = zoo if bits == 32 else zoo.quantised(bits)
        figures["bits"][bits] = {"bytes": disk_bytes(coded), **reading(coded, test_x, test_codes)}
        print(f"{bits:2} bits: {figures['bits'][bits]}")
    if asked.json:
        print(json.dumps(figures))


def updates(
    task: Task, started_from: dict[int, Tensor], split: Split, attribute: str
) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """Return features of every client's gradient in every round, its true code, and the client's number."""
    people = task.people(split)
    vectors = []
    for weights in started_from.values():
        model = task.model(weights)
        for part in np.array_split(people, max(1, len(people) // 64)):
            vectors.append(features(task.gradients(model, part).detach(), task.segments, "max"))
    codes = np.tile(task.labels(people, attribute).codes, len(started_from))
    return torch.cat(vectors), codes, np.tile(np.arange(len(people)), len(started_from))


def reading(zoo: Zoo, x: Tensor, codes: np.ndarray) -> dict[str, float]:
    """Return the worst, the middle and the best member's balanced accuracy."""
    labelled = codes >= 0
    with torch.no_grad():
        guesses = [zoo.logits(member, x).argmax(dim=1).numpy() for member in range(len(zoo))]
    scores = [
        float(np.mean([(guess[codes == code] == code).mean() for code in np.unique(codes[labelled])]))
        for guess in guesses
    ]
    return {"worst": min(scores), "median": float(np.median(scores)), "best": max(scores)}


def disk_bytes(zoo: Zoo) -> int:
    """Return the size of the zoo's file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "zoo.safetensors"
        zoo.save(path)
        return path.stat().st_size


if __name__ == "__main__":
    main()
