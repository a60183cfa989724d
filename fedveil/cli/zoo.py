"""`fedveil zoo`: build the models that a shield on updates defends against, and show what a zoo's file holds."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fedveil.cli.output import JsonOption, SetOption, console_for, print_json, progress
from fedveil.cli.run import shown
from fedveil.core.errors import InputError

if TYPE_CHECKING:
    from fedveil.shields.recup.zoo import Zoo

app = typer.Typer(help="Models that read an attribute from updates: build a zoo, or show one.", no_args_is_help=True)


@app.command("build")
def build(
    study: Annotated[Path, typer.Argument(help="A study's YAML file: data, federation, first method's game.")],
    attribute: Annotated[str, typer.Option(help="Which of the study's sensitive attributes.")],
    rounds: Annotated[str, typer.Option(help="Rounds whose updates are learned from: 1,3,5.")],
    out: Annotated[Path, typer.Option("--out", help="The zoo's file, ending in .safetensors.")],
    members: Annotated[int | None, typer.Option(min=1, max=1000, help="How many models (default: 20).")] = None,
    widths: Annotated[
        str, typer.Option(help="Hidden units: a range to spread over, 128-2048, or one width for each model: 128,512.")
    ] = "128-2048",
    depth: Annotated[int, typer.Option(help="Fully connected layers of each model, 2 to 5.")] = 3,
    features: Annotated[str, typer.Option(help="Which features of an update the models read.")] = "max",
    shadows: Annotated[int, typer.Option(min=0, help="Shadow devices (0: as in the study).")] = 0,
    bits: Annotated[int, typer.Option(help="Store weights in 32, 8 or 4 bits.")] = 32,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the models; the run uses the study's first seed.")] = 0,
    changes: SetOption = None,
    json: JsonOption = False,
) -> None:
    """Play a study without a shield and with shadow devices, fit models on their updates, and write them to a file."""
    chosen = _widths(widths, members)
    numbers = [_number(word, "--rounds", "1,3,5") for word in rounds.split(",")]
    _check_writable(out)
    from fedveil.config.study import read_study
    from fedveil.shields.recup.zoo import check_bits
    from fedveil.zoos import build_zoo

    check_bits(bits)
    console = console_for(json)
    with progress(console) as show_progress:
        zoo = build_zoo(
            read_study(study, changes or []),
            attribute,
            numbers,
            how=features,
            widths=chosen,
            depth=depth,
            shadows=shadows,
            seed=seed,
            report=show_progress,
        )
    if bits != 32:
        zoo = zoo.quantised(bits)
    zoo.save(out)
    _show(zoo, out, console)
    if json:
        print_json(_summary(zoo, out))


@app.command("show")
def show(
    file: Annotated[Path, typer.Argument(help="A file that fedveil zoo build wrote.")],
    json: JsonOption = False,
) -> None:
    """Show what a zoo's file holds: which attribute it reads, how well, and from which updates."""
    from fedveil.shields.recup.zoo import Zoo

    zoo = Zoo.load(file)
    _show(zoo, file, console_for(json))
    if json:
        print_json(_summary(zoo, file))


def _summary(zoo: Zoo, file: Path) -> dict[str, Any]:
    return {"file": str(file), "file_bytes": file.stat().st_size, **zoo.manifest}


def _show(zoo: Zoo, file: Path, console: Console) -> None:
    manifest = zoo.manifest
    table = Table(title=f"{zoo.attribute}: {len(zoo)} members", title_justify="left")
    for name in ("member", "hidden units", "validation (balanced acc.)", "validation (accuracy)"):
        table.add_column(name, justify="right" if name == "member" else "left", no_wrap=True)
    for number, member in enumerate(manifest["members"]):
        balanced = shown(member["balanced_accuracy"]) if "balanced_accuracy" in member else ""
        accuracy = f"{member['accuracy']:.3f}" if "accuracy" in member else ""
        table.add_row(str(number), " - ".join(map(str, member["hidden"])), balanced, accuracy)
    console.print(table)
    for line in _words(manifest, file):
        console.print(line, markup=False)


def _words(manifest: dict[str, Any], file: Path) -> list[str]:
    """Return the manifest in words."""
    shares = ", ".join(
        f"{value} {share:.3f}" for value, share in zip(manifest["values"], manifest["prior"], strict=True)
    )
    tensors = manifest["layout"]
    count = sum(math.prod(tensor["shape"]) for tensor in tensors)
    players = ", ".join(dict.fromkeys(tensor["player"] for tensor in tensors))
    lines = [f"Prior: {shares}."]
    validation = manifest.get("validation")
    if validation:
        lines.append(
            f"Guessing: {validation['even']:.3f} balanced accuracy, {validation['majority']:.3f} accuracy. Learned "
            f"from {manifest['updates']} updates, judged on {validation['updates']} updates of "
            f"{validation['senders']} other senders, which were also used to stop training early: estimates, not "
            "guarantees."
        )
    lines.append(
        f"Updates: {count} numbers in {len(tensors)} tensors ({players}), read by {manifest['features']!r} features."
    )
    rounds = [f"{entry['round']} ({entry['digest'][:12]})" for entry in manifest["rounds"]]
    lines.append(
        f"Rounds (digest of the weights they started from): {', '.join(rounds)}."
        if rounds
        else "Rounds: not recorded, so it is unknown whether the zoo is stale."
    )
    lines.append(
        f"{file}: {file.stat().st_size} bytes, weights in {manifest['bits']} bits; seed "
        f"{manifest.get('seed', 'unknown')}, fedveil {manifest['version']}, format {manifest['format']}."
    )
    return lines


def _widths(text: str, members: int | None) -> tuple[int, ...]:
    """Read a range or a list of widths."""
    from fedveil.shields.recup.members import MEMBERS, spread_widths

    low, dash, high = text.partition("-")
    if dash:
        ends = (_number(low, "--widths", "128-2048"), _number(high, "--widths", "128-2048"))
        return spread_widths(MEMBERS if members is None else members, *ends)
    listed = tuple(_number(word, "--widths", "128-2048 or 128,512") for word in text.split(","))
    if members is not None and members != len(listed):
        raise InputError(f"--widths lists {len(listed)} widths for {members} members; leave --members out")
    return listed


def _number(word: str, option: str, example: str) -> int:
    word = word.strip()
    if not word.isascii() or not word.isdigit():
        raise InputError(f"{option}: {word!r} is not a whole number; write it as in {option} {example}")
    return int(word)


def _check_writable(out: Path) -> None:
    """Refuse a path where no file can be written, before the run is played."""
    if out.suffix != ".safetensors":
        raise InputError(f"--out: {out} does not end in .safetensors, so that no other file is overwritten by mistake")
    if out.is_dir():
        raise InputError(f"--out: {out} is a directory; name a file")
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise InputError(f"--out: {out.parent} is not a directory that can be written to; create it first")
