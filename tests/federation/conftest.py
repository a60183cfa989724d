from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from fedveil.data import Attribute, AttributeData
from fedveil.data.partition import Partition, Partitioner
from fedveil.federation import Federation, Run, begin


@dataclass(frozen=True)
class Sizes(Partitioner):
    """A given number of records for each device, in order."""

    sizes: tuple[int, ...]

    def _deal(self, data, rows, rng):
        offsets = np.concatenate([[0], np.cumsum(self.sizes)]).astype(np.int64)
        return Partition(rows[: offsets[-1]], offsets)


def _make_data(n: int = 40, features: tuple[int, ...] = (4,), seed: int = 0, held_out: int = 8) -> AttributeData:
    """`n` training records and some validation records, with labels of three and attributes of two and three values."""
    rng = np.random.default_rng(seed)
    total = n + held_out
    x = rng.normal(size=(total, *features)).astype(np.float32)
    y, sex, race = (np.concatenate([np.arange(k), rng.integers(0, k, total - k)]) for k in (3, 2, 3))
    return AttributeData(
        x,
        {"sex": Attribute("sex", sex, ("f", "m")), "race": Attribute("race", race, ("a", "b", "c"))},
        np.array([0] * n + [1] * held_out, dtype=np.int8),
        y=Attribute("y", y, ("0", "1", "2")),
        groups=rng.integers(0, max(n // 5, 1), total),
    )


def _play_both(data: AttributeData, game: object, rounds: int = 5, **options: object) -> tuple[Run, Run]:
    """Return the plain and the stacked run of the same federation, in float64."""
    plain, stacked = (
        begin(Federation(data, engine=engine, dtype="float64", device="cpu", **options), game).play(rounds)
        for engine in ("plain", "stacked")
    )
    return plain, stacked


def _gap(run: Run, other: Run) -> float:
    """Return the largest difference of anything that the two runs hold."""
    pairs = [(run.shared[name], other.shared[name]) for name in run.shared]
    if run.last_shared is not None:
        pairs += [(run.last_shared[name], other.last_shared[name]) for name in run.shared]
    assert run.local.keys() == other.local.keys()
    for name, player in run.local.items():
        assert player.slot_of.keys() == other.local[name].slot_of.keys()
        devices = np.array(sorted(player.slot_of), dtype=np.int64)
        pairs.append((player.get(devices), other.local[name].get(devices)))
    assert len(run.history) == len(other.history)
    for a, b in zip(run.history, other.history, strict=True):
        assert (a.stage, a.round, a.devices, a.silent, a.bytes_up) == (
            b.stage,
            b.round,
            b.devices,
            b.silent,
            b.bytes_up,
        )
        assert a.losses.keys() == b.losses.keys()
        pairs += [(torch.tensor(a.losses[move]), torch.tensor(b.losses[move])) for move in a.losses]
        pairs.append((torch.tensor(a.validation or 0.0), torch.tensor(b.validation or 0.0)))
    return max((float((a - b).abs().max()) for a, b in pairs if a.numel()), default=0.0)


@pytest.fixture(scope="session")
def sizes() -> type[Sizes]:
    return Sizes


@pytest.fixture(scope="session")
def make_data() -> Callable[..., AttributeData]:
    return _make_data


@pytest.fixture(scope="session")
def play_both() -> Callable[..., tuple[Run, Run]]:
    return _play_both


@pytest.fixture(scope="session")
def gap() -> Callable[[Run, Run], float]:
    return _gap
