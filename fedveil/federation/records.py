"""A run's records as tensors, with x shielded: training, releases, heads and attackers see no other x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.randomness import torch_generator
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Shield, ShieldError

if TYPE_CHECKING:
    from fedveil.federation.federation import Federation
    from fedveil.federation.run import Run
    from fedveil.games.game import Stage


def prepare_shield(shield: Shield, data: AttributeData, seed: int) -> Shield:
    """Return a shield with what all devices receive beforehand, learned from the training records and no others.

    Everything that runs a shield prepares it with this function, so a shield's `prepared` does not select records
    itself. A run passes its federation's seed; RecUP's laboratory passes a seed derived from its task's, on which its
    published figures depend.
    """
    return shield.prepared(data.take(data.rows(Split.TRAIN)), seed)


def record_tensors(federation: Federation, stages: Sequence[Stage], shield: Shield) -> dict[str, Tensor]:
    """Return "x", "y" and "u:<name>" of all records, x as the prepared shield leaves it; "varies:<name>" if read.

    Training records are shielded once, on their device; validation and test records, and training records that no
    device holds, are shielded split by split (device −1). The shield may read the labels of its records in the
    context. If it fails it raises, so that no run uses unshielded records.
    """
    data, device = federation.data, federation.torch_device
    tensors: dict[str, Tensor] = {"x": _tensor(data.x).to(device, federation.number_type)}
    if data.y is not None:
        tensors["y"] = _tensor(data.y.codes).to(device)
    protected = federation.own_codes()
    for name, attribute in {**data.attributes, **({"own": protected} if protected else {})}.items():
        tensors[f"u:{name}"] = _tensor(attribute.codes).to(device)
    read = {name for stage in stages for name in stage.reads if name.startswith("varies:")}
    holders = [federation.partition.device(holder) for holder in range(len(federation.partition))]
    for name in read & {f"varies:{codes[2:]}" for codes in tensors if codes.startswith("u:")}:
        tensors[name] = varying(tensors[f"u:{name.partition(':')[2]}"], holders)
    return tensors if Kind.INPUT not in shield.acts_on else {**tensors, "x": _shielded(federation, shield, tensors)}


def judged_tensors(federation: Federation, shield: Shield, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the records that a model is judged on and that people release, when no label is available.

    They are the run's records, with x shielded. If the shield reads labels, x is left as it is: inputs that were
    changed according to their labels would give the answers away.
    """
    if not shield.reads_label:
        return tensors
    return {**tensors, "x": _tensor(federation.data.x).to(federation.torch_device, federation.number_type)}


def readable(run: Run, reads: frozenset[str], records: dict[str, Tensor] | None = None) -> dict[str, Tensor]:
    """Return only what a stage has declared to read, of some records or of the run's; the rest is withheld."""
    return {
        name: column
        for name, column in (run.tensors if records is None else records).items()
        if name in reads or (name.startswith("u:") and "u" in reads)
    }


def varying(codes: Tensor, devices: Sequence[IntArray]) -> Tensor:
    """Return for each record whether its device holds at least two values; True for a record that no device holds."""
    known_codes = codes.cpu().numpy()
    varies = np.ones(len(known_codes), dtype=bool)
    for rows in devices:
        held = known_codes[rows]
        varies[rows] = len(np.unique(held[held >= 0])) > 1
    return torch.from_numpy(varies).to(codes.device)


def without_variety(run: Run, devices: IntArray) -> dict[str, int]:
    """Return, by hidden attribute, how many of some devices lack it or hold only one value of it: they hide nothing."""
    counts = {}
    for name, varies in run.tensors.items():
        if name.startswith("varies:"):
            first = [run.federation.partition.device(int(device))[:1] for device in devices]
            counts[name.partition(":")[2]] = sum(not bool(varies[int(row[0])]) for row in first if len(row))
    return counts


def _shielded(federation: Federation, shield: Shield, tensors: dict[str, Tensor]) -> Tensor:
    x = tensors["x"]
    shielded = x.clone()
    for device, owner, rows in _owners(federation):
        selected = torch.from_numpy(rows).to(x.device)
        context = Context(
            device=device,
            round=0,
            generator=torch_generator(federation.seed, "input", owner),
            data={name: column[selected] for name, column in tensors.items() if not name.startswith("varies:")},
        )
        try:
            message, _ = shield.apply(Message(Kind.INPUT, x[selected]), context)
        except ShieldError as fault:
            where = f"device {device}" if device >= 0 else f"{owner} people"
            raise ShieldError(f"inputs of {where}: {fault}") from fault
        shielded[selected] = message.values.to(x)
    return shielded


def _owners(federation: Federation) -> list[tuple[int, int | str, IntArray]]:
    """Return which records are shielded together: their device, the name of its randomness, and their rows."""
    partition, data = federation.partition, federation.data
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
    return torch.from_numpy(np.require(array, requirements=["C", "W"]))  # a copy only if torch cannot share it
