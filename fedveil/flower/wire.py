"""What travels between a game's server and its nodes on Flower.

A `train` message holds "shared" (tensors of the players that the stage moves and shares), "fixed" (all other players,
flat: as the server has them, or as devices begin with them) and "fedveil" (stage, round, and which players are local,
with how often they were restarted). A reply holds "shared" as the device leaves them and "metrics". Local players never
travel; a node whose own config says `fedveil-reveal = true` hands them over when asked, which research on one machine
needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from torch import Tensor

from fedveil.core.errors import InputError

if TYPE_CHECKING:
    from flwr.app.typing import ConfigRecordValues

    from fedveil.federation.run import Run
    from fedveil.games.game import Stage
    from fedveil.updates.segments import Segment

SHARED, FIXED, ORDER, METRICS, LOCAL = "shared", "fixed", "fedveil", "metrics", "local"
REVEAL = "fedveil-reveal"
PARTITION, PARTITIONS = "partition-id", "num-partitions"


def moved(run: Run, stage: Stage) -> list[str]:
    """Return the players that a stage moves and shares, in the order of an update."""
    return [name for name in run.seats if name in stage.shared and name in stage.players]


def order(run: Run, stage: Stage, number: int) -> RecordDict:
    """Return what every device is told in a round."""
    moving = moved(run, stage)
    fixed = {}
    for name in run.seats:
        if name not in moving:
            own = name in run.local and name not in stage.shared
            fixed[name] = run.local[name].start[: run.layouts[name].size] if own else run.shared[name]
    told: dict[str, ConfigRecordValues] = {
        "stage": run.progress.stage,
        "round": number,
        "local": json.dumps({name: run.restarted[name] for name in run.local}),
    }
    return RecordDict({SHARED: tensors(run, stage), FIXED: flat_record(fixed), ORDER: ConfigRecord(told)})


def tensors(run: Run, stage: Stage) -> ArrayRecord:
    """Return the moved players' tensors, each by its player's and its own name."""
    names = moved(run, stage)
    whole = torch.cat([run.shared[name] for name in names])[None] if names else torch.zeros(1, 0)
    return split(whole[0], segments(run, stage))


def split(flat: Tensor, places: tuple[Segment, ...]) -> ArrayRecord:
    """Return a flat vector as named tensors."""
    parts = flat.detach().cpu()[None]
    return ArrayRecord({f"{one.player}.{one.name}": Array(one.of(parts)[0].numpy().copy()) for one in places})


def joined(record: ArrayRecord, run: Run, stage: Stage) -> Tensor:
    """Return named tensors as one flat vector; names and shapes must be the stage's, and all numbers finite."""
    places = segments(run, stage)
    expected = [f"{one.player}.{one.name}" for one in places]
    if list(record) != expected:
        raise InputError(f"the arrays are {', '.join(record) or 'none'}, where {', '.join(expected)} were expected")
    parts = []
    for name, one in zip(expected, places, strict=True):
        array = record[name].numpy()
        if array.shape != one.shape or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise InputError(f"array {name!r} has another shape or type than {one.shape}, or is not finite")
        parts.append(torch.from_numpy(array.reshape(-1).copy()))
    number = run.federation.number_type
    return torch.cat(parts).to(number) if parts else torch.zeros(0, dtype=number)


def flat_record(states: Mapping[str, Tensor]) -> ArrayRecord:
    """Return flat states by name."""
    return ArrayRecord({name: Array(state.detach().cpu().numpy().copy()) for name, state in states.items()})


def flat_states(record: ArrayRecord) -> dict[str, Tensor]:
    """Return flat states by name."""
    return {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}


def segments(run: Run, stage: Stage) -> tuple[Segment, ...]:
    """Return where each tensor lies in an update."""
    from fedveil.federation.exchange import segments_of

    return segments_of(run, stage)
