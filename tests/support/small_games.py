"""A few records of noise with two attributes, dealt by hand, and a game played on them by both engines."""

import numpy as np

from fedveil.data import Attribute, AttributeData
from fedveil.data.partition import Partition, Partitioner
from fedveil.federation import Federation, begin


class Dealt(Partitioner):
    """Records dealt by hand."""

    def __init__(self, *devices):
        self.given = [np.array(rows, dtype=np.int64) for rows in devices]

    def _deal(self, data, rows, rng):
        return Partition(np.concatenate(self.given), np.cumsum([0, *map(len, self.given)]))


def make_data(n=40, held_out=12, features=(4,), seed=0, **codes):
    rng = np.random.default_rng(seed)
    total = n + 2 * held_out
    attributes = {"sex": (rng.integers(0, 2, total), 2), "race": (rng.integers(0, 3, total), 3)}
    attributes |= {name: (np.asarray(values), int(max(values)) + 1) for name, values in codes.items()}
    return AttributeData(
        rng.normal(size=(total, *features)).astype(np.float32),
        {name: Attribute(name, values, tuple(map(str, range(k)))) for name, (values, k) in attributes.items()},
        np.array([0] * n + [1] * held_out + [2] * held_out, dtype=np.int8),
        y=Attribute("y", rng.integers(0, 2, total), ("0", "1")),
    )


def play_both(data, game, rounds=2, **options):
    runs = [
        begin(Federation(data, engine=engine, dtype="float64", device="cpu", **options), game).play(rounds)
        for engine in ("plain", "stacked")
    ]
    gaps = [float((runs[0].shared[name] - runs[1].shared[name]).abs().max()) for name in runs[0].shared]
    for name, player in runs[0].local.items():
        devices = np.array(sorted(player.slot_of))
        gaps.append(float((player.get(devices) - runs[1].local[name].get(devices)).abs().max()))
    return runs[0], max(gaps)
