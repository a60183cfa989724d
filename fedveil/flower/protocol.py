"""What the server and the nodes of a game on Flower agree on: the cell that both build, and what travels between them.

A `train` message holds "shared" (tensors of the players that the stage moves and shares), "fixed" (the flat weights of
all other players: the server's, or those that devices begin with) and "fedveil" (stage, round, and which players are
local, with how often each was restarted). A reply holds "shared", the same tensors after the device has trained, and
"metrics". Local players never travel, with one exception: a node whose node config says `fedveil-reveal = true` sends
them on request, which research on one machine needs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict
from torch import Tensor

from fedveil.config.cells import load_data, make_federation, make_game
from fedveil.config.study import Method, Study, read_study
from fedveil.core.errors import InputError, nearest
from fedveil.data.partition import OneHolder
from fedveil.federation.exchange import segments_of
from fedveil.federation.run import Run, begin

if TYPE_CHECKING:
    from flwr.app.typing import ConfigRecordValues

    from fedveil.data import AttributeData
    from fedveil.federation.fleet import Fleet
    from fedveil.games.game import Stage
    from fedveil.updates.segments import Segment

SHARED, FIXED, ORDER, METRICS, LOCAL = "shared", "fixed", "fedveil", "metrics", "local"
"""Names of records."""

REVEAL = "fedveil-reveal"
PARTITION, PARTITIONS = "partition-id", "num-partitions"
"""Keys of a node config."""


@dataclass(frozen=True)
class Setup:
    """One cell of a study: one method at one strength with one seed.

    Server and nodes derive players, first weights and randomness from it, so that neither code nor seeds travel.
    """

    study: Study
    method: Method
    strength: float | None
    seed: int

    @classmethod
    def read(cls, path: str | Path, config: Mapping[str, Any]) -> Setup:
        """Read a study and pick the cell that a run config names by `method`, `strength` and `seed`.

        A name that is missing (or "") means the study's first; a value that the study does not list is refused.
        """
        study = read_study(Path(path))
        methods = {method.name: method for method in study.methods}
        name = str(config.get("method") or study.methods[0].name)
        if name not in methods:
            raise InputError(f"run config: method: no method {name!r} in {path}: {nearest(name, methods)}")
        method = methods[name]
        strength = method.points[0] if config.get("strength") in (None, "") else float(config["strength"])
        if strength not in method.points:  # a server could ask for a shield's σ of next to nothing
            listed = ", ".join(f"{point:g}" for point in method.strengths or []) or "none"
            raise InputError(
                f"run config: strength: {strength:g} is not one of the study's strengths for {name!r}: {listed}"
            )
        seed = study.seeds[0] if config.get("seed") in (None, "") else int(config["seed"])
        return cls(study, method, strength, seed)

    @property
    def rounds(self) -> int:
        """Rounds of stages that do not set their own number."""
        return self.method.rounds or self.study.federation.rounds

    def run(self, data: AttributeData | None = None, fleet: Fleet | None = None, holder: int | None = None) -> Run:
        """Build the run.

        Args:
            data: this machine's records; None: the study's source, partitioned over devices as the study says.
            fleet: where the devices are; None: in this process.
            holder: the device that holds all of `data`; None: the data are partitioned.
        """
        torch.set_num_threads(self.study.threads)
        records = load_data(self.study, self.seed) if data is None else data
        partition = None if holder is None else OneHolder(self.study.federation.devices, holder)
        federation = make_federation(self.study, self.method, self.strength, self.seed, records, partition)
        return begin(federation, make_game(self.method, self.strength), fleet)


def moved(run: Run, stage: Stage) -> list[str]:
    """Return the players that a stage moves and shares, in the order of an update."""
    return [name for name in run.seats if name in stage.shared and name in stage.players]


def order(run: Run, stage: Stage, number: int) -> RecordDict:
    """Return the content of the message that every device gets in a round."""
    moving = moved(run, stage)
    fixed = {}
    for name in run.seats:
        if name not in moving:
            local = name in run.local and name not in stage.shared
            fixed[name] = run.local[name].start[: run.layouts[name].size] if local else run.shared[name]
    settings: dict[str, ConfigRecordValues] = {
        "stage": run.progress.stage,
        "round": number,
        "local": json.dumps({name: run.restarted[name] for name in run.local}),
    }
    return RecordDict({SHARED: tensors(run, stage), FIXED: flat_record(fixed), ORDER: ConfigRecord(settings)})


def tensors(run: Run, stage: Stage) -> ArrayRecord:
    """Return the moved players' tensors, each named by its player and its own name."""
    names = moved(run, stage)
    whole = torch.cat([run.shared[name] for name in names])[None] if names else torch.zeros(1, 0)
    return split(whole[0], segments_of(run, stage))


def split(flat: Tensor, segments: tuple[Segment, ...]) -> ArrayRecord:
    """Return a flat vector as named tensors."""
    rows = flat.detach().cpu()[None]
    return ArrayRecord({_name(segment): Array(segment.of(rows)[0].numpy().copy()) for segment in segments})


def joined(record: ArrayRecord, run: Run, stage: Stage) -> Tensor:
    """Return named tensors as one flat vector; names and shapes must be the stage's, and all numbers finite."""
    segments = segments_of(run, stage)
    expected = [_name(segment) for segment in segments]
    if list(record) != expected:
        raise InputError(f"the arrays are {', '.join(record) or 'none'}, where {', '.join(expected)} were expected")
    parts = []
    for name, segment in zip(expected, segments, strict=True):
        array = record[name].numpy()
        if array.shape != segment.shape or array.dtype.kind != "f" or not np.isfinite(array).all():
            raise InputError(f"array {name!r} has another shape or type than {segment.shape}, or is not finite")
        parts.append(torch.from_numpy(array.reshape(-1).copy()))
    number_type = run.federation.number_type
    return torch.cat(parts).to(number_type) if parts else torch.zeros(0, dtype=number_type)


def _name(segment: Segment) -> str:
    return f"{segment.player}.{segment.name}"


def flat_record(states: Mapping[str, Tensor]) -> ArrayRecord:
    """Return flat states by name as a record."""
    return ArrayRecord({name: Array(state.detach().cpu().numpy().copy()) for name, state in states.items()})


def flat_states(record: ArrayRecord) -> dict[str, Tensor]:
    """Return a record's flat states by name."""
    return {name: torch.from_numpy(array.numpy().copy()) for name, array in record.items()}
