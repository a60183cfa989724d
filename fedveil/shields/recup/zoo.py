"""Zoo: models that read one attribute from an update, which a shield is built against (RecUP-FL §4.2, §5.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from fedveil.core.errors import InputError
from fedveil.shields.recup.members import quantised_member, tensors_of
from fedveil.shields.recup.seen import SeenRound, sketched
from fedveil.updates.features import features as features_of
from fedveil.updates.segments import Segment

BITS = (8, 4)
"""In how many bits a member's weights may be stored, beside the 32 of those that were fitted."""


def check_bits(bits: int, allowed: Sequence[int] = (32, *BITS)) -> None:
    """Refuse a number of bits in which members cannot be stored."""
    if bits not in allowed:
        raise InputError(f"zoo: members are stored in {', '.join(map(str, allowed))} bits; got {bits}")


@dataclass(frozen=True, eq=False, repr=False)
class Zoo:
    """Members that read one attribute from updates of one layout.

    A member answers with logits over the K values, learned with every value weighing the same: their largest is the
    guess that balanced accuracy judges, and a posterior under the prior is softmax(logits + log prior).

    Attributes:
        attribute: which one.
        values: its K names.
        prior: their shares among the shadows, (K,).
        features: what a member reads of an update; see `fedveil.updates.features`.
        segments: the layout of the updates.
        mean: of each feature among the shadows, (f,).
        scale: the deviation of each, (f,).
        members: networks over standardised features; frozen.
        sizes: each member's hidden sizes.
        seen: the weights that the shadows' updates started from, where they are known.
        facts: what else the manifest says: members' figures, numbers of updates, seed, version.
        bits: in which the members' weights are stored.
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
        """SHA-256 of the manifest and all tensors, as the file has it; two zoos that differ at all differ in it."""
        from fedveil.shields.recup.zoo_file import digest_of

        return digest_of(self)

    def standardised(self, features: Tensor) -> Tensor:
        """Centre and scale features by the shadows' means and deviations."""
        return (features.to(self.mean) - self.mean) / self.scale

    def logits(self, member: int, features: Tensor) -> Tensor:
        """Return what one member makes of features, (n, K)."""
        answer: Tensor = self.members[member](self.standardised(features))
        return answer

    def read(self, updates: Tensor) -> Tensor:
        """Return every member's logits for updates, (members, n, K); gradients flow back to the updates."""
        ready = self.standardised(features_of(updates, self.segments, self.features))
        return torch.stack([member(ready) for member in self.members])

    def check(self, segments: Sequence[Segment], attribute: str) -> None:
        """Refuse to read another attribute, or updates of another layout; say which tensor differs."""
        if attribute != self.attribute:
            raise InputError(f"zoo: was fitted for {self.attribute!r}, not for {attribute!r}; build one for it")
        for place, (own, other) in enumerate(zip(self.segments, segments, strict=False)):
            if own != other:
                raise InputError(
                    f"zoo: fitted for another layout: tensor {place} is {_told(other)} here and {_told(own)} there; "
                    "build one for this model"
                )
        if len(segments) != len(self.segments):
            more = max(self.segments, segments, key=len)[min(len(segments), len(self.segments))]
            raise InputError(
                f"zoo: fitted for another layout: {len(segments)} tensors here and {len(self.segments)} there, from "
                f"{_told(more)} on; build one for this model"
            )

    def staleness(self, weights: Tensor) -> float | None:
        """Return ‖w − w_zoo‖ / ‖w_zoo‖ to the nearest weights that the zoo has seen; None where it knows none.

        Estimated from a sketch of 256 numbers, within about 9%; 0 exactly for weights that it has seen.
        """
        nearest = self.nearest_round(weights)
        return None if nearest is None else nearest[1]

    def nearest_round(self, weights: Tensor) -> tuple[int, float] | None:
        """Return the round whose weights are nearest, and the relative distance to them."""
        if not self.seen:
            return None
        sketch = sketched(weights, self.segments)
        return min(((own.round, own.distance(sketch)) for own in self.seen), key=lambda found: found[1])

    def quantised(self, bits: int = 8) -> Zoo:
        """Return the zoo with members' weights in 8 or 4 bits, one scale per output; read and stored so."""
        check_bits(bits, BITS)
        if self.bits != 32:
            raise InputError(f"zoo: its members are in {self.bits} bits already; quantise the zoo that was fitted")
        return replace(self, members=tuple(quantised_member(member, bits) for member in self.members), bits=bits)

    @property
    def bytes(self) -> int:
        """How many bytes the members' tensors take, on the disk and sent to a device; with bits = 4 two a byte."""
        total = 0
        for member in self.members:
            for own in tensors_of(member):
                for name, tensor in own.items():
                    packed = self.bits == 4 and name == "weight"
                    total += (tensor.numel() + 1) // 2 if packed else tensor.numel() * tensor.element_size()
        return total

    @property
    def manifest(self) -> dict[str, Any]:
        """All that the file says of itself, as plain JSON values."""
        from fedveil.shields.recup.zoo_file import manifest_of

        return manifest_of(self)

    def save(self, path: str | Path) -> None:
        """Write one safetensors file, whole or not at all."""
        from fedveil.shields.recup.zoo_file import write_zoo

        write_zoo(self, Path(path))

    @classmethod
    def load(cls, path: str | Path) -> Zoo:
        """Read a file that `save` wrote; one that is missing, cut short, altered or foreign is an `InputError`."""
        from fedveil.shields.recup.zoo_file import read_zoo

        return read_zoo(Path(path))


def _told(segment: Segment) -> str:
    shape = " × ".join(map(str, segment.shape)) or "one number"
    kind = ", a statistic" if segment.statistic else ""
    return f"{segment.player}.{segment.name} ({shape} from {segment.start}{kind})"
