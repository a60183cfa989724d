"""What was fitted, in one safetensors file with its layout in JSON; nothing in it is ever executed."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_from_tensors
from torch import Tensor

from fedveil.core.errors import InputError
from fedveil.core.files import write_atomically
from fedveil.shields.unread.erasure import Eraser
from fedveil.shields.unread.sides import Sides
from fedveil.shields.unread.unreading import Unreading
from fedveil.updates.segments import Segment

_MARK = "fedveil-unread"
FORMAT = 1


def save_unreading(fit: Unreading, path: str | Path) -> None:
    """Write the file, whole or not at all. Zoos for targets have files of their own and are not kept here."""
    if fit.zoos:
        raise InputError(f"{path}: a fit with targets is not stored, because zoos have files of their own; fit without")
    tensors = {f"prior/{name}": own for name, own in fit.priors.items()}
    for place, eraser in enumerate(fit.erasers):
        tensors |= {f"eraser/{place}/{name}": own for name, own in vars(eraser).items()}
    for name in ("factors", "directions", "decoys"):
        if (own := getattr(fit, name)) is not None:
            tensors[name] = own
    layout = [{**vars(segment), "shape": list(segment.shape)} for segment in fit.segments]
    told = json.dumps({"format": FORMAT, "layout": layout, "erasers": len(fit.erasers)})
    try:
        write_atomically(Path(path), bytes_from_tensors({k: v.contiguous() for k, v in tensors.items()}, {_MARK: told}))
    except OSError as fault:
        raise InputError(f"{path}: cannot be written ({fault.strerror or fault}); choose another place") from fault


def load_unreading(path: str | Path) -> Unreading:
    """Read a file that `save_unreading` wrote; every fault is one line that names it."""
    try:
        content = Path(path).read_bytes()
    except OSError as fault:
        raise InputError(f"{path}: no fit of unread can be read here ({fault.strerror or fault})") from fault
    try:
        tensors = tensors_from_bytes(content)
        told = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"][_MARK]
        manifest = json.loads(told)
        if manifest["format"] != FORMAT:
            raise InputError(f"{path}: in format {manifest['format']}, and this version reads {FORMAT}; fit it afresh")
        return _checked(_made(manifest, tensors))
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, RecursionError, OverflowError) as fault:
        if isinstance(fault, InputError):
            raise
        raise InputError(f"{path}: cut short, altered, or no fit of unread; fit it afresh or copy it again") from fault


def _made(manifest: dict[str, object], tensors: dict[str, Tensor]) -> Unreading:
    layout, erasers = manifest["layout"], manifest["erasers"]
    assert isinstance(layout, list)
    assert isinstance(erasers, int)
    return Unreading(
        segments=tuple(
            Segment(one["player"], one["name"], tuple(one["shape"]), int(one["start"]), bool(one["statistic"]))
            for one in layout
        ),
        priors={name.removeprefix("prior/"): own for name, own in tensors.items() if name.startswith("prior/")},
        erasers=tuple(
            Eraser(**{name: tensors[f"eraser/{place}/{name}"] for name in ("mean", "left", "right")})
            for place in range(erasers)
        ),
        **{name: tensors.get(name) for name in ("factors", "directions", "decoys")},  # type: ignore[arg-type]
    )


def _checked(fit: Unreading) -> Unreading:
    """Refuse what does not fit together."""
    sides = Sides(fit.segments)
    size = fit.segments[-1].stop
    wrong = (
        (fit.factors is not None and (fit.factors.ndim != 2 or len(fit.factors) != sides.width))
        or any(own is not None and (own.ndim != 2 or own.shape[1] != size) for own in (fit.directions, fit.decoys))
        or (fit.erasers and len(fit.erasers) != len(sides.layers))
        or any(
            len(own.mean) != layer.inputs.stop - layer.inputs.start
            for own, layer in zip(fit.erasers, sides.layers, strict=False)
        )
    )
    parts = [fit.factors, fit.directions, fit.decoys, *(own for one in fit.erasers for own in vars(one).values())]
    if wrong or not all(bool(torch.isfinite(own).all()) for own in parts if own is not None):
        raise ValueError("parts of other sizes, or not finite")
    return fit
