"""A run's whole state in a folder: tensors as safetensors, the rest as JSON; nothing in it is ever executed.

The folder is written beside its place and then renamed, so that a crash leaves the old one or the new one whole.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from fedveil import __version__
from fedveil.errors import InputError

if TYPE_CHECKING:
    from fedveil.federation.federation import Federation
    from fedveil.federation.run import Run
    from fedveil.games.game import Game

FORMAT = 1


def save(run: Run, folder: Path) -> None:
    """Write the state."""
    tensors = {f"shared/{name}": state.contiguous() for name, state in run.shared.items()}
    if run.best_shared is not None:
        tensors |= {f"best/{name}": state.contiguous() for name, state in run.best_shared.items()}
    slots: dict[str, list[int]] = {}
    for name, player in run.local.items():
        devices = np.array(sorted(player.slot_of), dtype=np.int64)
        slots[name] = [int(device) for device in devices]
        tensors[f"local/{name}"] = player.get(devices)
        tensors[f"start/{name}"] = player.start
    for index, (_, _, updates) in enumerate(run.recorded):
        tensors[f"recorded/{index}"] = updates.contiguous()
    facts = {
        "format": FORMAT,
        "version": __version__,
        "fingerprint": fingerprint(run.federation, run.game),
        "progress": asdict(run.progress),
        "local": slots,
        "recorded": [{"round": number, "devices": devices.tolist()} for number, devices, _ in run.recorded],
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    fresh, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    for leftover in (fresh, old):
        shutil.rmtree(leftover, ignore_errors=True)
    fresh.mkdir()
    save_file(tensors, fresh / "state.safetensors")
    (fresh / "run.json").write_text(json.dumps(facts))
    if folder.exists():
        os.replace(folder, old)
    os.replace(fresh, folder)
    shutil.rmtree(old, ignore_errors=True)


def load(folder: Path, federation: Federation, game: Game) -> Run:
    """Read the state into a new run of the same federation and game."""
    from fedveil.federation.local_players import LocalPlayer
    from fedveil.federation.run import Progress, RoundRecord, Run

    old = folder.with_name(f".{folder.name}.old")
    place = folder if folder.exists() or not old.exists() else old  # stopped between the two renames
    try:
        facts: dict[str, Any] = json.loads((place / "run.json").read_text())
        tensors = load_file(place / "state.safetensors")
        progress = facts["progress"]
        history = [RoundRecord(**record) for record in progress.pop("history")]
    except FileNotFoundError as fault:
        raise InputError(f"{folder}: no saved run here ({fault.filename} is missing)") from fault
    except Exception as fault:
        raise InputError(f"{folder}: the saved run is damaged ({type(fault).__name__}); start it afresh") from fault
    if facts["format"] != FORMAT:
        raise InputError(f"{folder}: saved in format {facts['format']}, this version reads {FORMAT}")
    expected = fingerprint(federation, game)
    for what, value in facts["fingerprint"].items():
        if expected.get(what) != value:
            raise InputError(f"{folder}: belongs to another run: {what} was {value!r}, is {expected.get(what)!r}")
    run = Run(federation, game)
    run.progress = Progress(history=history, **progress)
    where = federation.place
    run.shared = {name: tensors[f"shared/{name}"].to(where) for name in run.shared}
    if any(name.startswith("best/") for name in tensors):
        run.best_shared = {name: tensors[f"best/{name}"].to(where) for name in run.shared}
    for name, devices in facts["local"].items():
        run.local[name] = LocalPlayer(tensors[f"start/{name}"], federation.local_limit)
        run.local[name].put(np.array(devices, dtype=np.int64), tensors[f"local/{name}"])
    for index, entry in enumerate(facts["recorded"]):
        updates = tensors[f"recorded/{index}"].to(where)
        run.recorded.append((entry["round"], np.array(entry["devices"], dtype=np.int64), updates))
    return run


def fingerprint(federation: Federation, game: Game) -> dict[str, Any]:
    """Return what must agree for a run to continue: data, partition, seed, engine, game."""
    digest = hashlib.sha256()
    for array in (federation.data.x, federation.data.split, federation.partition.order, federation.partition.offsets):
        digest.update(np.ascontiguousarray(array).tobytes())
    return {
        "data": digest.hexdigest()[:16],
        "seed": federation.seed,
        "engine": federation.engine,
        "dtype": federation.dtype,
        "fraction": federation.fraction,
        "shield": federation.shield.name,
        "game": repr(game),
        "threads": torch.get_num_threads(),
    }
