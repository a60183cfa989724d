"""A run's records as tensors, x shielded before anything else: training, releases, heads and attackers see no other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.randomness import child_seed, torch_generator
from fedveil.data.attribute_data import Split
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Identity, Shield, ShieldError

if TYPE_CHECKING:
    from fedveil.federation.federation import Federation
    from fedveil.federation.run import Run


def prepared_shield(federation: Federation) -> Shield:
    """Tell the shield what may be learned beforehand: it gets the training records and no others."""
    if isinstance(federation.shield, Identity):
        return federation.shield
    data = federation.data
    return federation.shield.prepared(data.take(data.rows(Split.TRAIN)), child_seed(federation.seed, "prepare"))


def record_tensors(run: Run) -> dict[str, Tensor]:
    """Return "x", "y" and "u:<name>" of all records, x as the run's shield leaves it.

    Training people are shielded once, on their device; validation and test people, and training people whom no device
    holds, are people of their own (device −1). The shield may read the labels of its records in the context. One that
    fails raises: there is no run on unshielded records.
    """
    federation, data = run.federation, run.federation.data
    place = federation.place
    tensors: dict[str, Tensor] = {"x": _tensor(data.x).to(place, federation.number_type)}
    if data.y is not None:
        tensors["y"] = _tensor(data.y.codes).to(place)
    own = federation.own_codes()
    for name, attribute in {**data.attributes, **({"own": own} if own else {})}.items():
        tensors[f"u:{name}"] = _tensor(attribute.codes).to(place)
    asked = {name for stage in run.stages for name in stage.reads if name.startswith("varies:")}
    devices = [federation.partition.device(device) for device in range(len(federation.partition))]
    for name in asked & {f"varies:{codes[2:]}" for codes in tensors if codes.startswith("u:")}:
        tensors[name] = varying(tensors[f"u:{name.partition(':')[2]}"], devices)
    return tensors if Kind.INPUT not in run.shield.acts_on else {**tensors, "x": _shielded(run, tensors)}


def judged_tensors(run: Run) -> dict[str, Tensor]:
    """Return the records that a model is judged on and that people release: nobody has a label then.

    They are the run's own, x shielded; but where the shield reads labels, x as it is: inputs that were changed by their
    labels would tell the answers.
    """
    if not run.shield.reads_label:
        return run.tensors
    federation = run.federation
    return {**run.tensors, "x": _tensor(federation.data.x).to(federation.place, federation.number_type)}


def varying(codes: Tensor, devices: Sequence[IntArray]) -> Tensor:
    """Return of each record whether its device holds at least two values; a record that no device holds counts."""
    seen = codes.cpu().numpy()
    varies = np.ones(len(seen), dtype=bool)
    for rows in devices:
        own = seen[rows]
        varies[rows] = len(np.unique(own[own >= 0])) > 1
    return torch.from_numpy(varies).to(codes.device)


def without_variety(run: Run, devices: IntArray) -> dict[str, int]:
    """Return how many of some devices lack an attribute or hold one value of it: nothing is hidden there."""
    counts = {}
    for name, varies in run.tensors.items():
        if name.startswith("varies:"):
            first = [run.federation.partition.device(int(device))[:1] for device in devices]
            counts[name.partition(":")[2]] = sum(not bool(varies[int(row[0])]) for row in first if len(row))
    return counts


def _shielded(run: Run, tensors: dict[str, Tensor]) -> Tensor:
    x = tensors["x"]
    shielded = x.clone()
    for device, owner, rows in _owners(run):
        there = torch.from_numpy(rows).to(x.device)
        context = Context(
            device=device,
            round=0,
            generator=torch_generator(run.federation.seed, "input", owner),
            data={name: column[there] for name, column in tensors.items() if not name.startswith("varies:")},
        )
        try:
            message, _ = run.shield.apply(Message(Kind.INPUT, x[there]), context)
        except ShieldError as fault:
            where = f"device {device}" if device >= 0 else f"{owner} people"
            raise ShieldError(f"inputs of {where}: {fault}") from fault
        shielded[there] = message.values.to(x)
    return shielded


def _owners(run: Run) -> list[tuple[int, int | str, IntArray]]:
    """Return whose records are shielded together: the device, the name of its randomness, and the rows."""
    partition, data = run.federation.partition, run.federation.data
    owners: list[tuple[int, int | str, IntArray]] = [
        (device, device, partition.device(device)) for device in range(len(partition))
    ]
    held = np.zeros(len(data), dtype=bool)
    held[partition.order] = True
    for split in Split:
        rows = data.rows(split)
        owners.append((-1, split.name.lower(), rows[~held[rows]]))
    return [owner for owner in owners if len(owner[2])]


def _tensor(array: npt.NDArray[Any]) -> Tensor:
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))  # a copy only where torch cannot share it
