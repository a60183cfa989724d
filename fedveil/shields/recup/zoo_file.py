"""A zoo's file: safetensors whose metadata holds a digest and a manifest in JSON; nothing in it is ever executed.

Both are one entry, digest, line end, manifest: of several entries safetensors does not keep the order.
The digest finds damage and careless changes. It is no signature: whoever can write the file can write its digest.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_from_tensors
from torch import Tensor

from fedveil import __version__
from fedveil.core.errors import InputError
from fedveil.core.files import plain, write_atomically
from fedveil.shields.recup.members import check_member, member_of, tensors_of
from fedveil.shields.recup.seen import SeenRound
from fedveil.shields.recup.zoo import BITS, Zoo
from fedveil.updates.features import FEATURES, features
from fedveil.updates.segments import Segment

FORMAT = 1
_MARK = "fedveil-zoo"


def manifest_of(zoo: Zoo) -> dict[str, Any]:
    """Return all that a zoo's file says of itself."""
    figures = zoo.facts.get("members") or [{} for _ in zoo.members]
    own = {
        "format": FORMAT,
        "attribute": zoo.attribute,
        "values": list(zoo.values),
        "prior": zoo.prior.tolist(),
        "features": zoo.features,
        "layout": [{**vars(segment), "shape": list(segment.shape)} for segment in zoo.segments],
        "members": [{"hidden": list(sizes), **told} for sizes, told in zip(zoo.sizes, figures, strict=True)],
        "rounds": [{"round": one.round, "digest": one.digest, "norm": one.norm} for one in zoo.seen],
        "bits": zoo.bits,
        "bytes": zoo.bytes,
    }
    found: dict[str, Any] = plain({"version": __version__, **zoo.facts, **own})
    return found


def digest_of(zoo: Zoo) -> str:
    """Return the digest that the zoo's file would have."""
    return _digest(_manifest_text(zoo), _tensors(zoo))


def _manifest_text(zoo: Zoo) -> str:
    return json.dumps(manifest_of(zoo), sort_keys=True, allow_nan=False)


def _tensors(zoo: Zoo) -> dict[str, Tensor]:
    tensors = {"mean": zoo.mean, "scale": zoo.scale}
    tensors |= {f"round/{place}": own.sketch for place, own in enumerate(zoo.seen)}
    for place, member in enumerate(zoo.members):
        for depth, own in enumerate(tensors_of(member)):
            for name, tensor in own.items():
                packed = zoo.bits == 4 and name == "weight"
                tensors[f"member/{place}/{depth}/{name}"] = _packed(tensor) if packed else tensor
    return {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}


def write_zoo(zoo: Zoo, path: Path) -> None:
    """Write the file; where that is impossible nothing is left behind."""
    tensors, manifest = _tensors(zoo), _manifest_text(zoo)
    content = bytes_from_tensors(tensors, {_MARK: f"{_digest(manifest, tensors)}\n{manifest}"})
    try:
        write_atomically(path, content)
    except OSError as fault:
        raise InputError(
            f"{path}: the zoo cannot be written ({fault.strerror or fault}); choose another place"
        ) from fault


def read_zoo(path: Path) -> Zoo:
    """Read the file; every fault is one line that names it."""
    try:
        content = path.read_bytes()
    except FileNotFoundError as fault:
        raise InputError(f"{path}: no zoo here; make one with fedveil zoo build") from fault
    except OSError as fault:
        raise InputError(f"{path}: the zoo cannot be read ({fault.strerror or fault}); give a zoo's file") from fault
    try:
        tensors = tensors_from_bytes(content)
        told = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__") or {}
    except (SafetensorError, ValueError, KeyError, RuntimeError, OverflowError, RecursionError) as fault:
        raise InputError(f"{path}: cut short, or no zoo of fedveil's; build it afresh or copy it again") from fault
    if _MARK not in told:
        raise InputError(f"{path}: a safetensors file, but no zoo of fedveil's; make one with fedveil zoo build")
    digest, _, text = told[_MARK].partition("\n")
    if digest != _digest(text, tensors):
        raise InputError(f"{path}: altered since it was written (the digest differs); build it afresh or copy it again")
    try:
        manifest = json.loads(text)
        written = manifest["format"]
        if written == FORMAT:
            return _zoo(manifest, tensors)
    except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, RecursionError) as fault:
        raise InputError(f"{path}: the zoo does not fit together ({fault}); build it afresh") from fault
    raise InputError(f"{path}: a zoo in format {written}, and this version reads {FORMAT}; build it afresh")


def _zoo(manifest: dict[str, Any], tensors: dict[str, Tensor]) -> Zoo:
    mean, scale = tensors["mean"], tensors["scale"]
    prior = torch.tensor(manifest["prior"], dtype=torch.float64)
    values, bits = tuple(map(str, manifest["values"])), manifest["bits"]
    sizes = tuple(tuple(map(int, one["hidden"])) for one in manifest["members"])
    if (
        mean.ndim != 1
        or mean.shape != scale.shape
        or len(prior) != len(values)
        or not math.isclose(float(prior.sum()), 1, abs_tol=1e-6)
        or not bool((torch.isfinite(mean) & torch.isfinite(scale) & (scale > 0)).all())
        or bits not in (32, *BITS)
        or manifest["features"] not in FEATURES
        or not sizes
    ):
        raise InputError("features, prior or members are not as they should be")
    members = []
    for place, hidden in enumerate(sizes):
        layers = [
            _layer(tensors, f"member/{place}/{depth}", bits, columns)
            for depth, columns in enumerate([len(mean), *hidden])
        ]
        check_member(layers, len(mean), hidden, len(values))
        members.append(member_of(layers))
    seen = tuple(
        SeenRound(int(one["round"]), str(one["digest"]), float(one["norm"]), tensors[f"round/{place}"])
        for place, one in enumerate(manifest["rounds"])
    )
    segments = tuple(
        Segment(one["player"], one["name"], tuple(one["shape"]), int(one["start"]), bool(one["statistic"]))
        for one in manifest["layout"]
    )
    if features(torch.zeros(1, segments[-1].stop), segments, manifest["features"]).shape[1] != len(mean):
        raise InputError("the layout has other features than the members read")
    own = {"format", "attribute", "values", "prior", "features", "layout", "rounds", "bits", "bytes"}
    facts = {name: value for name, value in manifest.items() if name not in own}
    facts["members"] = [{name: value for name, value in one.items() if name != "hidden"} for one in manifest["members"]]
    attribute, how = str(manifest["attribute"]), manifest["features"]
    return Zoo(attribute, values, prior, how, segments, mean, scale, tuple(members), sizes, seen, facts, bits)


def _layer(tensors: dict[str, Tensor], where: str, bits: int, columns: int) -> dict[str, Tensor]:
    own = {name: tensors[f"{where}/{name}"] for name in ("weight", "bias", *(["scale"] if bits != 32 else []))}
    if own["weight"].dtype != {32: torch.float32, 8: torch.int8, 4: torch.uint8}[bits]:
        raise InputError(f"a member's weights are not of {bits} bits")
    if bits == 4:
        own["weight"] = _unpacked(own["weight"], (len(own["bias"]), columns))
    return own


def _packed(weight: Tensor) -> Tensor:
    """Put two numbers of 4 bits into a byte; an odd one at the end is alone in its byte.

    >>> _unpacked(_packed(torch.tensor([[-7, 0, 7]], dtype=torch.int8)), (1, 3)).tolist()
    [[-7, 0, 7]]
    """
    flat = weight.flatten().to(torch.int16) + 8
    pairs = torch.nn.functional.pad(flat, (0, len(flat) % 2)).view(-1, 2)
    return (pairs[:, 0] * 16 + pairs[:, 1]).to(torch.uint8)


def _unpacked(packed: Tensor, shape: tuple[int, int]) -> Tensor:
    pairs = torch.stack([packed // 16, packed % 16], dim=1).to(torch.int16) - 8
    return pairs.flatten()[: math.prod(shape)].to(torch.int8).view(shape)


def _digest(manifest: str, tensors: dict[str, Tensor]) -> str:
    """Return a digest of the manifest and of every tensor: its name, type, shape and numbers."""
    digest = hashlib.sha256(manifest.encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(f"\x1f{name}\x1f{tensor.dtype}\x1f{tuple(tensor.shape)}\x1f".encode())
        digest.update(np.ascontiguousarray(tensor.cpu().numpy()).view(np.uint8).data if tensor.numel() else b"")
    return digest.hexdigest()
