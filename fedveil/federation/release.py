"""What leaves after training: representations and outputs, shielded like every other message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator, torch_generator
from fedveil.data.attribute_data import Split
from fedveil.federation.weights import model_of
from fedveil.games.game import ReleasedRecords
from fedveil.games.play import Play
from fedveil.shields.message import Context, Kind, Message
from fedveil.view import Capability, Pool, View

if TYPE_CHECKING:
    from fedveil.federation.run import Run


def release(run: Run, split: Split, kind: Kind = Kind.REPRESENTATION) -> FloatArray:
    """Return what the people of a split send, once each: (records, d), in the data's order.

    If the encoder is a local player, records are dealt at random to the devices that have played (if possible, to those
    that have all local players that a release needs), and each record is encoded by its device.
    """
    function = _released(run, kind)
    rows = run.federation.data.rows(split)
    x = run.judged["x"]
    # Noise repeats for the same weights and is new for others, so that a difference of releases does not cancel it.
    state = (run.progress.stage, len(run.history))
    values = x.new_zeros(len(rows), 0)
    for device, part in _dealt(run, rows, function):
        sender = -1 if device is None else device
        raw = model_of(run, device).of_x(function, x, rows[part]).flatten(1)
        context = Context(
            device=sender,
            round=run.progress.round,
            generator=torch_generator(run.federation.seed, "release", kind, int(split), sender, *state),
            data={name: column[torch.from_numpy(rows[part]).to(x.device)] for name, column in run.judged.items()},
            model=run.shared,
        )
        message, _ = run.shield.apply(Message(kind, raw), context)
        if not values.shape[1]:
            values = raw.new_zeros(len(rows), raw.shape[1])
        values[torch.from_numpy(part).to(x.device)] = message.values
    return values.cpu().numpy().astype(np.float64)


class Releases:
    """What the people of a trained run release, each split computed once; all who judge the run share these arrays.

    They are valid for the run as it is; make new ones after it has been played further.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self._computed: dict[tuple[Kind, Split], FloatArray] = {}

    def of(self, split: Split, kind: Kind = Kind.REPRESENTATION) -> FloatArray:
        """Return what `release` returns: (records, d), in the data's order."""
        if (kind, split) not in self._computed:
            self._computed[kind, split] = release(self.run, split, kind)
        return self._computed[kind, split]


def senders(run: Run, split: Split, kind: Kind = Kind.REPRESENTATION) -> IntArray:
    """Return which device sends each record of a split; 0 for all if they are encoded by the shared weights."""
    rows = run.federation.data.rows(split)
    sender = np.zeros(len(rows), dtype=np.int64)
    for device, part in _dealt(run, rows, _released(run, kind)):
        sender[part] = 0 if device is None else device
    return sender


def released_records(run: Run, releases: Releases | None = None) -> ReleasedRecords:
    """Return the representations of all people with their senders; records are dealt to senders at random.

    `releases` are the run's, if they have been computed.
    """
    releases = releases or Releases(run)
    return ReleasedRecords(
        {split: releases.of(split) for split in Split},
        {split: senders(run, split) for split in Split},
        dealt_at_random=True,
    )


def released_view(
    run: Run, kind: Kind = Kind.REPRESENTATION, *, inputs: bool = False, releases: Releases | None = None
) -> View:
    """Return a view of what was released: the attacker learns from training people, and attacks test people.

    With `inputs` the attacker also has the unshielded records of the people it learns from.
    `releases` are the run's, if they have been computed.
    """
    data, releases = run.federation.data, releases or Releases(run)
    pools = []
    for split in Split:
        rows = data.rows(split)
        pools.append(
            Pool(
                releases.of(split, kind),
                {name: attribute.take(rows) for name, attribute in data.attributes.items()},
                None if data.groups is None else data.groups[rows],
                inputs=data.x[rows].reshape(len(rows), -1) if inputs and split != Split.TEST else None,
            )
        )
    view = View.apart(*pools, fitted=True)
    return replace(view, grants=view.grants | {Capability.INPUTS}) if inputs else view


def _released(run: Run, kind: Kind) -> Callable[[Play], Tensor]:
    functions: dict[Kind, Callable[[Play], Tensor]] = {
        Kind.REPRESENTATION: run.game.represent,
        Kind.OUTPUT: run.game.outputs,
    }
    if kind not in functions:
        raise InputError(f"{kind} is not released after training; choose representation or output")
    return functions[kind]


def _dealt(run: Run, rows: IntArray, function: Callable[[Play], Tensor]) -> list[tuple[int | None, IntArray]]:
    """Return which device encodes which of the rows; None means the shared weights encode all."""
    used: set[str] = set()
    if not len(rows):
        return []
    modules = model_of(run).modules

    def spy(player: str, inputs: Tensor) -> Tensor:
        used.add(player)
        return modules[player](inputs)  # type: ignore[no-any-return]

    with torch.no_grad():
        function(Play({"x": run.tensors["x"][:1]}, None, {}, spy))
    local = sorted(name for name in used if name in run.local)
    if not local:
        return [(None, np.arange(len(rows)))]
    # With few devices per round, a device may have played one stage and missed another. Without all players it encodes
    # nothing, unless no device has them all.
    complete = set.intersection(*(set(run.local[name].slot_of) for name in local))
    played = np.array(sorted(complete or run.local[local[0]].slot_of), dtype=np.int64)
    encoder = numpy_generator(run.federation.seed, "deal", len(rows)).choice(played, len(rows))
    return [(int(device), np.flatnonzero(encoder == device)) for device in np.unique(encoder)]
