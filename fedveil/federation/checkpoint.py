"""A run's whole state in a folder: tensors as safetensors, the rest as JSON; nothing in it is ever executed.

The folder is written next to its final path, flushed to the disk and then renamed, so that after a crash or a power
cut either the old folder or the new one is complete. A full disk raises `OSError`, and the old folder remains.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from fedveil import __version__
from fedveil.core.errors import InputError
from fedveil.core.files import sync
from fedveil.federation.progress import Progress, RoundRecord
from fedveil.federation.recording import shadow_rows
from fedveil.federation.weights import LocalPlayer

if TYPE_CHECKING:
    from fedveil.federation.federation import Federation
    from fedveil.federation.run import Run
    from fedveil.games.game import Game

FORMAT = 1


def save(run: Run, folder: Path) -> None:
    """Write a run's state."""
    tensors = {f"shared/{name}": state.contiguous() for name, state in run.shared.items()}
    for what, states in (("best", run.best_shared), ("last", run.last_shared)):
        if states is not None:
            tensors |= {f"{what}/{name}": state.clone() for name, state in states.items()}
    slots: dict[str, list[int]] = {}
    for name, player in run.local.items():
        devices = np.array(sorted(player.slot_of), dtype=np.int64)
        slots[name] = [int(device) for device in devices]
        tensors[f"local/{name}"] = player.get(devices)
        tensors[f"start/{name}"] = player.start
    for kind, rounds in (("recorded", run.recorded), ("shadows", run.shadows)):
        for index, (_, _, updates) in enumerate(rounds):
            tensors[f"{kind}/{index}"] = updates.contiguous()
    tensors |= {f"started/{number}": weights.contiguous() for number, weights in run.started_from.items()}
    facts = {
        "format": FORMAT,
        "version": __version__,
        "fingerprint": fingerprint(run.federation, run.game),
        "progress": asdict(run.progress),
        "local": slots,
        "recorded": [{"round": number, "devices": devices.tolist()} for number, devices, _ in run.recorded],
        "shadows": [{"round": number, "devices": devices.tolist()} for number, devices, _ in run.shadows],
        "shadow_devices": len(run.shadow_rows),
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    new, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    if old.exists() and not folder.exists():  # stopped between the two renames: only the old folder exists
        os.replace(old, folder)
    for leftover in (new, old):
        shutil.rmtree(leftover, ignore_errors=True)
    try:
        new.mkdir()
        _write(new, tensors, facts)
        sync(folder.parent)
        if folder.exists():
            os.replace(folder, old)
            sync(folder.parent)
        os.replace(new, folder)
        sync(folder.parent)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _write(folder: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write both files, and wait until they are on the disk."""
    state, run = folder / "state.safetensors", folder / "run.json"
    try:
        save_file(tensors, state)
    except SafetensorError as fault:  # how the library reports a full disk
        raise OSError(f"{state}: cannot be written: {fault}") from fault
    run.write_text(json.dumps(facts))
    for path in (state, run, folder):
        sync(path)


@dataclass(frozen=True, eq=False)
class Saved:
    """A saved state that was read, and that belongs to the same federation and game."""

    folder: Path
    facts: dict[str, Any]
    tensors: dict[str, Tensor]


def read(folder: Path, federation: Federation, game: Game) -> Saved:
    """Read a saved state; one that is damaged or belongs to another run is refused."""
    old = folder.with_name(f".{folder.name}.old")
    source = folder if folder.exists() or not old.exists() else old  # stopped between the two renames
    try:
        facts: dict[str, Any] = json.loads((source / "run.json").read_text())
        tensors = load_file(source / "state.safetensors")
        written, recorded = facts["format"], facts["fingerprint"].items()
    except FileNotFoundError as fault:
        missing = next(name for name in ("run.json", "state.safetensors") if not (source / name).exists())
        raise InputError(f"{folder}: holds no saved run ({missing} is missing)") from fault
    except Exception as fault:
        raise InputError(f"{folder}: the saved run is damaged ({type(fault).__name__}); start it afresh") from fault
    if written != FORMAT:
        raise InputError(f"{folder}: saved in format {written}, but this version reads {FORMAT}")
    expected = fingerprint(federation, game)
    for what, value in recorded:
        if expected.get(what) != value:
            raise InputError(f"{folder}: belongs to another run: {what} was {value!r}, now {expected.get(what)!r}")
    return Saved(folder, facts, tensors)


def restore(run: Run, saved: Saved) -> None:
    """Put a saved state into a run that has just begun."""
    try:
        _restore(run, saved.facts, saved.tensors)
    except (KeyError, TypeError, ValueError, RuntimeError) as fault:
        raise InputError(f"{saved.folder}: the saved run is damaged ({fault}); start it afresh") from fault


def _restore(run: Run, facts: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    progress = dict(facts["progress"])
    history = [RoundRecord(**record) for record in progress.pop("history")]
    run.progress = Progress(history=history, **progress)
    federation, device = run.federation, run.federation.torch_device

    def players(what: str) -> dict[str, Tensor]:
        states = {name: tensors[f"{what}/{name}"] for name in run.shared}
        for name, state in states.items():
            if state.shape != run.shared[name].shape or not bool(torch.isfinite(state).all()):
                raise ValueError(f"weights of {name} do not fit")
        return {name: state.to(device, federation.number_type) for name, state in states.items()}

    kinds = {name.partition("/")[0] for name in tensors}
    run.shared, run.best_shared, run.last_shared = (
        players("shared"),
        players("best") if "best" in kinds else None,
        players("last") if "last" in kinds else None,
    )
    for name, devices in facts["local"].items():
        run.local[name] = LocalPlayer(tensors[f"start/{name}"], federation.local_limit)
        run.local[name].put(np.array(devices, dtype=np.int64), tensors[f"local/{name}"])
    for kind, rounds in (("recorded", run.recorded), ("shadows", run.shadows)):
        for index, entry in enumerate(facts[kind]):
            updates = tensors[f"{kind}/{index}"].to(device)
            rounds.append((entry["round"], np.array(entry["devices"], dtype=np.int64), updates))
    for number in {number for number, _, _ in run.recorded}:
        run.started_from[number] = tensors[f"started/{number}"].to(device)
    if facts["shadow_devices"]:
        run.shadow_rows = shadow_rows(run, facts["shadow_devices"])


def fingerprint(federation: Federation, game: Game) -> dict[str, Any]:
    """Return what must agree for a run to continue: data, partition, seed, engine, game, and all settings."""
    each = ("batch_sizes", "local_epochs", "rate_scales", "own_attribute")
    per_device: dict[str, Any] = {name: getattr(federation, name) for name in each} | dict(federation.settings)
    if federation.policies is not None:
        listed = federation.policies if isinstance(federation.policies, Sequence) else [federation.policies]
        per_device["policies"] = [policy.protection for policy in listed]
    return {
        "data": federation.data_digest,
        "seed": federation.seed,
        "partition": federation.partition_digest,
        "engine": federation.engine,
        "dtype": federation.dtype,
        "fraction": federation.fraction,
        "unreliable": federation.unreliable,
        "aggregation": _described(federation.aggregation),
        "devices' own settings": hashlib.sha256(
            repr(
                {name: None if value is None else np.asarray(value).tolist() for name, value in per_device.items()}
            ).encode()
        ).hexdigest()[:16],
        "shield": _described(federation.shield),
        "game": _described(game),
        "threads": torch.get_num_threads(),
    }


def _described(part: object) -> str:
    """Return a game's or shield's settings, without the addresses that differ from process to process."""
    described = repr(part)
    if described == object.__repr__(part):
        settings = ", ".join(f"{name}={value!r}" for name, value in vars(part).items())
        described = f"{type(part).__qualname__}({settings})"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", described)
