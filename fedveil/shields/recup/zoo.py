"""Zoo: models that read one attribute from an update, which a shield is built against (RecUP-FL §4.2, §5.3).

A zoo's file is safetensors whose metadata holds a digest and a manifest in JSON; nothing in it is ever executed. Digest
and manifest are one entry, separated by a line end, since safetensors does not keep the order of several entries. The
digest detects damage and careless changes. It is not a signature: anybody who can write the file can write its digest.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_from_tensors
from torch import Tensor, nn

from fedveil import __version__
from fedveil.core.errors import InputError
from fedveil.core.files import plain, write_atomically
from fedveil.shields.recup.members import check_member, member_of, quantised_member, tensors_of
from fedveil.shields.recup.seen import SeenRound, sketched
from fedveil.updates.features import FEATURES
from fedveil.updates.features import features as features_of
from fedveil.updates.segments import Segment

FORMAT = 1
_MARK = "fedveil-zoo"

BITS = (8, 4)
"""The numbers of bits in which a member's weights may be stored, besides the 32 in which they are fitted."""


def check_bits(bits: int, allowed: Sequence[int] = (32, *BITS)) -> None:
    """Refuse a number of bits in which members cannot be stored."""
    if bits not in allowed:
        raise InputError(f"zoo: members are stored in {', '.join(map(str, allowed))} bits; got {bits}")


@dataclass(frozen=True, eq=False, repr=False)
class Zoo:
    """Members that read one attribute from updates of one layout.

    A member returns logits over the K values, learned with every value weighted equally: the largest is the guess that
    balanced accuracy judges, and a posterior under the prior is softmax(logits + log prior).

    Attributes:
        attribute: which attribute they read.
        values: the names of its K values.
        prior: their shares among the shadow devices, (K,).
        features: what a member reads of an update; see `fedveil.updates.features`.
        segments: the layout of the updates.
        mean: the mean of each feature among the shadow devices, (f,).
        scale: the standard deviation of each, (f,).
        members: networks over standardised features; frozen.
        sizes: each member's hidden sizes.
        seen: the weights that the shadow devices' updates started from, if they are known.
        facts: what else the manifest says: members' figures, numbers of updates, seed, version.
        bits: how many bits each of the members' weights is stored in.
    """

    attribute: str
    values: tuple[str, ...]
    prior: Tensor
    features: str
    segments: tuple[Segment, ...]
    mean: Tensor
    scale: Tensor
    members: tuple[nn.Sequential, ...]
    sizes: tuple[tuple[int, ...], ...]
    seen: tuple[SeenRound, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    bits: int = 32

    def __len__(self) -> int:
        return len(self.members)

    def __repr__(self) -> str:
        return f"Zoo({self.attribute!r}, members={len(self)}, features={self.features!r}, digest={self.digest[:16]!r})"

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the manifest and all tensors, as in the file; any difference between zoos changes it."""
        return _digest(self._manifest_text(), self._tensors())

    def standardised(self, features: Tensor) -> Tensor:
        """Centre and scale features by the shadow devices' means and standard deviations."""
        return (features.to(self.mean) - self.mean) / self.scale

    def logits(self, member: int, features: Tensor) -> Tensor:
        """Return one member's logits for features, (n, K)."""
        answer: Tensor = self.members[member](self.standardised(features))
        return answer

    def read(self, updates: Tensor) -> Tensor:
        """Return every member's logits for updates, (members, n, K); gradients flow back to the updates."""
        inputs = self.standardised(features_of(updates, self.segments, self.features))
        return torch.stack([member(inputs) for member in self.members])

    def check(self, segments: Sequence[Segment], attribute: str) -> None:
        """Refuse a different attribute or layout of updates, and name the tensor that differs."""
        if attribute != self.attribute:
            raise InputError(f"zoo: was fitted for {self.attribute!r}, not for {attribute!r}; build one for it")
        for index, (segment, other) in enumerate(zip(self.segments, segments, strict=False)):
            if segment != other:
                raise InputError(
                    f"zoo: fitted for another layout: tensor {index} is {_in_words(other)} here and "
                    f"{_in_words(segment)} there; build one for this model"
                )
        if len(segments) != len(self.segments):
            further = max(self.segments, segments, key=len)[min(len(segments), len(self.segments))]
            raise InputError(
                f"zoo: fitted for another layout: {len(segments)} tensors here and {len(self.segments)} there, from "
                f"{_in_words(further)} on; build one for this model"
            )

    def staleness(self, weights: Tensor) -> float | None:
        """Return ‖w − w_zoo‖ / ‖w_zoo‖ to the nearest weights that the zoo has seen; None if it has seen none.

        It is estimated from a sketch of 256 numbers, accurate to about 9%, and exactly 0 for weights that the zoo has
        seen.
        """
        nearest = self.nearest_round(weights)
        return None if nearest is None else nearest[1]

    def nearest_round(self, weights: Tensor) -> tuple[int, float] | None:
        """Return the round whose weights are nearest, and the relative distance to them."""
        if not self.seen:
            return None
        sketch = sketched(weights, self.segments)
        distances = [(seen.round, seen.distance(sketch)) for seen in self.seen]
        return min(distances, key=lambda pair: pair[1])

    def quantised(self, bits: int = 8) -> Zoo:
        """Return the zoo with members' weights in 8 or 4 bits, one scale per output; used and stored in this form."""
        check_bits(bits, BITS)
        if self.bits != 32:
            raise InputError(f"zoo: its members are in {self.bits} bits already; quantise the original zoo")
        return replace(self, members=tuple(quantised_member(member, bits) for member in self.members), bits=bits)

    @property
    def bytes(self) -> int:
        """The size of the members' tensors in bytes, on disk and as sent to a device; two 4-bit weights take a byte."""
        total = 0
        for member in self.members:
            for layer in tensors_of(member):
                for name, tensor in layer.items():
                    packed = self.bits == 4 and name == "weight"
                    total += (tensor.numel() + 1) // 2 if packed else tensor.numel() * tensor.element_size()
        return total

    @property
    def manifest(self) -> dict[str, Any]:
        """Everything that the file says about itself, as plain JSON values."""
        figures = self.facts.get("members") or [{} for _ in self.members]
        fields = {
            "format": FORMAT,
            "attribute": self.attribute,
            "values": list(self.values),
            "prior": self.prior.tolist(),
            "features": self.features,
            "layout": layout_of(self.segments),
            "members": [{"hidden": list(sizes), **row} for sizes, row in zip(self.sizes, figures, strict=True)],
            "rounds": [{"round": seen.round, "digest": seen.digest, "norm": seen.norm} for seen in self.seen],
            "bits": self.bits,
            "bytes": self.bytes,
        }
        manifest: dict[str, Any] = plain({"version": __version__, **self.facts, **fields})
        return manifest

    def save(self, path: str | Path) -> None:
        """Write one safetensors file; if that is impossible, nothing is left behind."""
        tensors, manifest = self._tensors(), self._manifest_text()
        content = bytes_from_tensors(tensors, {_MARK: f"{_digest(manifest, tensors)}\n{manifest}"})
        try:
            write_atomically(Path(path), content)
        except OSError as fault:
            raise InputError(
                f"{path}: the zoo cannot be written ({fault.strerror or fault}); choose another path"
            ) from fault

    def _manifest_text(self) -> str:
        return json.dumps(self.manifest, sort_keys=True, allow_nan=False)

    def _tensors(self) -> dict[str, Tensor]:
        tensors = {"mean": self.mean, "scale": self.scale}
        tensors |= {f"round/{index}": seen.sketch for index, seen in enumerate(self.seen)}
        for index, member in enumerate(self.members):
            for depth, layer in enumerate(tensors_of(member)):
                for name, tensor in layer.items():
                    packed = self.bits == 4 and name == "weight"
                    tensors[f"member/{index}/{depth}/{name}"] = _packed(tensor) if packed else tensor
        return {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}

    @classmethod
    def load(cls, path: str | Path) -> Zoo:
        """Read a file that `save` wrote; one that is missing, cut short, altered or foreign is an `InputError`."""
        try:
            content = Path(path).read_bytes()
        except FileNotFoundError as fault:
            raise InputError(f"{path}: no such zoo; make one with fedveil zoo build") from fault
        except OSError as fault:
            raise InputError(
                f"{path}: the zoo cannot be read ({fault.strerror or fault}); give a zoo's file"
            ) from fault
        try:
            tensors, metadata = tensors_from_bytes(content), metadata_of(content)
        except (SafetensorError, ValueError, KeyError, RuntimeError, OverflowError, RecursionError) as fault:
            raise InputError(f"{path}: cut short, or not a zoo of fedveil; build it afresh or copy it again") from fault
        if _MARK not in metadata:
            raise InputError(f"{path}: a safetensors file, but not a zoo of fedveil; make one with fedveil zoo build")
        digest, _, text = metadata[_MARK].partition("\n")
        if digest != _digest(text, tensors):
            raise InputError(
                f"{path}: altered since it was written (the digest differs); build it afresh or copy it again"
            )
        try:
            manifest = json.loads(text)
            written = manifest["format"]
            if written == FORMAT:
                return _from_manifest(manifest, tensors)
        except (KeyError, TypeError, ValueError, AttributeError, RuntimeError, RecursionError) as fault:
            raise InputError(f"{path}: the zoo does not fit together ({fault}); build it afresh") from fault
        raise InputError(f"{path}: a zoo in format {written}, but this version reads {FORMAT}; build it afresh")


def layout_of(segments: Sequence[Segment]) -> list[dict[str, Any]]:
    """Return an update's layout as plain JSON values."""
    return [{**vars(segment), "shape": list(segment.shape)} for segment in segments]


def segments_of(layout: Sequence[dict[str, Any]]) -> tuple[Segment, ...]:
    """Return the segments that `layout_of` wrote."""
    return tuple(
        Segment(row["player"], row["name"], tuple(row["shape"]), int(row["start"]), bool(row["statistic"]))
        for row in layout
    )


def metadata_of(content: bytes) -> dict[str, str]:
    """Return the metadata of a safetensors file's content."""
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    return header.get("__metadata__") or {}


def _in_words(segment: Segment) -> str:
    shape = " × ".join(map(str, segment.shape)) or "one number"
    kind = ", a statistic" if segment.statistic else ""
    return f"{segment.player}.{segment.name} ({shape} from {segment.start}{kind})"


def _from_manifest(manifest: dict[str, Any], tensors: dict[str, Tensor]) -> Zoo:
    mean, scale = tensors["mean"], tensors["scale"]
    prior = torch.tensor(manifest["prior"], dtype=torch.float64)
    values, bits = tuple(map(str, manifest["values"])), manifest["bits"]
    sizes = tuple(tuple(map(int, row["hidden"])) for row in manifest["members"])
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
        raise InputError("features, prior or members are inconsistent")
    members = []
    for index, hidden in enumerate(sizes):
        layers = [
            _layer(tensors, f"member/{index}/{depth}", bits, columns)
            for depth, columns in enumerate([len(mean), *hidden])
        ]
        check_member(layers, len(mean), hidden, len(values))
        members.append(member_of(layers))
    seen = tuple(
        SeenRound(int(row["round"]), str(row["digest"]), float(row["norm"]), tensors[f"round/{index}"])
        for index, row in enumerate(manifest["rounds"])
    )
    segments = segments_of(manifest["layout"])
    if features_of(torch.zeros(1, segments[-1].stop), segments, manifest["features"]).shape[1] != len(mean):
        raise InputError("the layout has other features than the members read")
    fields = {"format", "attribute", "values", "prior", "features", "layout", "rounds", "bits", "bytes"}
    facts = {name: value for name, value in manifest.items() if name not in fields}
    facts["members"] = [{name: value for name, value in row.items() if name != "hidden"} for row in manifest["members"]]
    attribute, how = str(manifest["attribute"]), manifest["features"]
    return Zoo(attribute, values, prior, how, segments, mean, scale, tuple(members), sizes, seen, facts, bits)


def _layer(tensors: dict[str, Tensor], prefix: str, bits: int, columns: int) -> dict[str, Tensor]:
    layer = {name: tensors[f"{prefix}/{name}"] for name in ("weight", "bias", *(["scale"] if bits != 32 else []))}
    if layer["weight"].dtype != {32: torch.float32, 8: torch.int8, 4: torch.uint8}[bits]:
        raise InputError(f"a member's weights are not of {bits} bits")
    if bits == 4:
        layer["weight"] = _unpacked(layer["weight"], (len(layer["bias"]), columns))
    return layer


def _packed(weight: Tensor) -> Tensor:
    """Pack two numbers of 4 bits into a byte; an odd one at the end is alone in its byte.

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
