"""What `Unread` knows beforehand: its ingredients, fitted on shadow devices whose attributes are known, and their file.

The file is safetensors with its layout in JSON; nothing in it is ever executed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load as tensors_from_bytes
from safetensors.torch import save as bytes_from_tensors
from torch import Tensor

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.files import write_atomically
from fedveil.core.randomness import child_seed
from fedveil.shields.recup.zoo import Zoo, layout_of, metadata_of, segments_of
from fedveil.shields.unread.directions import Decoys, decoys_of, task_directions
from fedveil.shields.unread.erasure import Eraser, Erasure, inlp, leace
from fedveil.shields.unread.shaping import between_means, shaped
from fedveil.shields.unread.sides import Read, Sides
from fedveil.shields.unread.targets import fit_target_zoos
from fedveil.updates.segments import Segment

FORMAT = 1
_MARK = "fedveil-unread"

Noise = Literal["isotropic", "means", "shaped"]
"""On layers' inputs alone, equal in all directions; along differences of means; or against readers (`shaping`)."""


@dataclass(frozen=True)
class Ingredients:
    """What is done to an update; each ingredient may be left out.

    Attributes:
        relative: ‖change‖/‖update‖ in root mean square; for replacements by decoys, in the mean.
        erase: remove linear traces from layers' inputs: leace (Belrose et al. 2023), inlp (Ravfogel et al. 2020), or
            null.
        noise: noise on layers' inputs and slopes: shaped (against readers), means (along differences of means),
            isotropic (on layers' inputs), or null.
        targets: take steps through a zoo towards a value drawn from the prior.
        retrained: how often readers and zoo are fitted while the shield is fitted; after the first time, on
            defended updates. With 1, on clean updates alone.
        spare: keep the change orthogonal to the task's mean directions.
        decoys: the number of mean directions of shadow updates, one of which is sometimes sent instead; 0 for
            none; silence to send a zero update sometimes.
    """

    relative: float = 0.3
    erase: Erasure | None = None
    noise: Noise | None = "shaped"
    targets: bool = False
    retrained: int = 6
    spare: bool = False
    decoys: Decoys = 0

    def __post_init__(self) -> None:
        if isinstance(self.relative, bool) or not 0 < self.relative < math.inf:
            raise InputError(f"unread: relative must be above 0 and finite, a share of the norm; got {self.relative}")
        for setting, value, options in (
            ("erase", self.erase, get_args(Erasure)),
            ("noise", self.noise, get_args(Noise)),
        ):
            if value is not None and value not in options:
                raise InputError(f"unread: {setting}: no {value!r}: {nearest(str(value), options)}")
        if isinstance(self.retrained, bool) or int(self.retrained) != self.retrained or self.retrained < 1:
            raise InputError(f"unread: retrained is a whole number of at least 1; got {self.retrained}")
        whole = isinstance(self.decoys, int) and not isinstance(self.decoys, bool) and self.decoys >= 0
        if not whole and self.decoys != "silence":
            raise InputError(f"unread: decoys is a whole number of at least 0, or silence; got {self.decoys!r}")
        if not (self.erase or self.noise or self.targets or self.decoys):
            raise InputError("unread: no ingredient is chosen; choose erase, noise, targets or decoys")

    @property
    def share(self) -> float:
        """The share of the norm for each of erasure, targets and noise; their squares add up."""
        others = bool(self.erase) + bool(self.targets) + bool(self.noise)
        return self.beside_decoys / math.sqrt(max(1, others))

    @property
    def beside_decoys(self) -> float:
        """The share of the norm for erasure, targets and noise together: half of it if there are decoys as well."""
        return self.relative / (2 if self.decoys else 1)

    @property
    def decoy_share(self) -> float:
        """The share of the norm for decoys, in the mean."""
        others = bool(self.erase) or self.targets or bool(self.noise)
        return self.relative * (0.5 if others else 1.0) if self.decoys else 0.0


@dataclass(frozen=True, eq=False)
class Unreading:
    """Erasers of layers' inputs, factors of noise, zoos, directions of the task and decoys; all of it is public.

    Attributes:
        segments: the layout of the updates that it was fitted on.
        priors: for each hidden attribute, the shares of its values among the shadow devices.
        erasers: one for each layer's input.
        factors: (D, r), factors of the noise over all layers' inputs and slopes.
        zoos: for targets, one for each attribute.
        directions: (k, d), the task's directions.
        decoys: (k, d), mean directions.
    """

    segments: tuple[Segment, ...]
    priors: dict[str, Tensor]
    erasers: tuple[Eraser, ...] = ()
    factors: Tensor | None = None
    zoos: dict[str, Zoo] = field(default_factory=dict)
    directions: Tensor | None = None
    decoys: Tensor | None = None

    def check_parts(self, ingredients: Ingredients) -> None:
        """Refuse ingredients that it was not fitted for, so that none is left out silently."""
        fitted = {
            "erase": bool(self.erasers),
            "noise": self.factors is not None,
            "targets": bool(self.zoos),
            "spare": self.directions is not None,
            "decoys": self.decoys is not None,
        }
        for name, present in fitted.items():
            if bool(getattr(ingredients, name)) != present:
                why = "not requested, but part of the fit" if present else "requested, but not part of the fit"
                raise InputError(f"unread: {name} is {why}; choose as it was fitted, or fit it afresh")

    def check(self, segments: Sequence[Segment]) -> None:
        """Refuse updates of another layout."""
        if tuple(segments) != self.segments:
            raise InputError("unread: fitted for a layout other than this update's; fit it on this model's updates")


def fit_unreading(
    updates: Tensor,
    codes: Mapping[str, IntArray],
    segments: Sequence[Segment],
    ingredients: Ingredients,
    *,
    labels: IntArray | None = None,
    seed: int = 0,
) -> Unreading:
    """Fit what the ingredients need on updates of shadow devices.

    Args:
        updates: (n, d) clean updates or gradients.
        codes: for each attribute to be hidden, (n,) the senders' values; an update with −1 (unknown) is left out.
        segments: the updates' layout.
        ingredients: what is done to an update.
        labels: (n,) the task's labels, for `spare`; −1 if unknown.
        seed: for all randomness.
    """
    if not codes:
        raise InputError("unread: no attribute to hide; give the codes of at least one")
    if not torch.isfinite(updates).all():
        raise InputError("unread: shadow updates hold NaN or infinite numbers; leave those out")
    complete = np.all([column >= 0 for column in codes.values()], axis=0)
    by_attribute = {name: column[complete].astype(np.int64) for name, column in codes.items()}
    for name, column in by_attribute.items():
        if len(np.unique(column)) < 2:
            raise InputError(f"unread: {name}: all shadows have one value; give shadows of at least two")
    sides, rows = Sides(segments), updates[torch.from_numpy(complete)]
    read, attributes = sides.read(rows), list(by_attribute.values())
    erasers: tuple[Eraser, ...] = ()
    if ingredients.erase:
        erase = leace if ingredients.erase == "leace" else inlp
        erasers = tuple(erase(read.values[:, layer.inputs], attributes) for layer in sides.layers)
        read = Read(erased(sides, read, erasers), read.sizes, read.norms)
    factors = None if ingredients.noise is None else _factors(sides, read, attributes, ingredients, seed)
    zoos = {}
    if ingredients.targets:
        zoos = fit_target_zoos(rows, by_attribute, segments, ingredients.share, ingredients.retrained, seed)
    task_labels = None if labels is None else labels[complete]
    return Unreading(
        segments=tuple(segments),
        priors={name: torch.from_numpy(np.bincount(column) / len(column)) for name, column in by_attribute.items()},
        erasers=erasers,
        factors=factors,
        zoos=zoos,
        directions=task_directions(rows, task_labels) if ingredients.spare else None,
        decoys=decoys_of(rows, ingredients.decoys, seed) if ingredients.decoys else None,
    )


def erased(sides: Sides, read: Read, erasers: Sequence[Eraser]) -> Tensor:
    """Return (n, D) readings whose inputs went through the erasers."""
    values = read.values.clone()
    for layer, eraser in zip(sides.layers, erasers, strict=True):
        values[:, layer.inputs] += eraser.motion(values[:, layer.inputs])
    return values


def _factors(sides: Sides, read: Read, attributes: list[IntArray], ingredients: Ingredients, seed: int) -> Tensor:
    if ingredients.noise == "shaped":
        return shaped(sides, read, attributes, ingredients.share, ingredients.retrained, child_seed(seed, "noise"))
    if ingredients.noise == "means":
        return between_means(sides, read, attributes)
    inputs = torch.zeros(sides.width)
    for layer in sides.layers:
        inputs[layer.inputs] = 1 / read.values[:, layer.inputs].shape[1] ** 0.5
    return torch.diag(inputs)


def save_unreading(fit: Unreading, path: str | Path) -> None:
    """Write the file completely or not at all. A fit with targets is refused, since zoos have their own files."""
    if fit.zoos:
        raise InputError(
            f"{path}: a fit with targets is not stored, because zoos have their own files; leave out targets"
        )
    tensors = {f"prior/{name}": prior for name, prior in fit.priors.items()}
    for index, eraser in enumerate(fit.erasers):
        tensors |= {f"eraser/{index}/{name}": tensor for name, tensor in vars(eraser).items()}
    for name in ("factors", "directions", "decoys"):
        if (tensor := getattr(fit, name)) is not None:
            tensors[name] = tensor
    manifest = json.dumps({"format": FORMAT, "layout": layout_of(fit.segments), "erasers": len(fit.erasers)})
    contiguous = {name: tensor.contiguous() for name, tensor in tensors.items()}
    try:
        write_atomically(Path(path), bytes_from_tensors(contiguous, {_MARK: manifest}))
    except OSError as fault:
        raise InputError(f"{path}: cannot be written ({fault.strerror or fault}); choose another path") from fault


def load_unreading(path: str | Path) -> Unreading:
    """Read a file that `save_unreading` wrote; every fault is one line that names it."""
    try:
        content = Path(path).read_bytes()
    except OSError as fault:
        raise InputError(f"{path}: the fit of unread cannot be read ({fault.strerror or fault})") from fault
    try:
        tensors = tensors_from_bytes(content)
        manifest = json.loads(metadata_of(content)[_MARK])
        if manifest["format"] != FORMAT:
            raise InputError(f"{path}: in format {manifest['format']}, but this version reads {FORMAT}; fit it afresh")
        return _checked(_from_manifest(manifest, tensors))
    except (SafetensorError, ValueError, KeyError, TypeError, RuntimeError, RecursionError, OverflowError) as fault:
        if isinstance(fault, InputError):
            raise
        raise InputError(f"{path}: cut short, altered, or not a fit of unread; fit or copy it again") from fault


def _from_manifest(manifest: dict[str, Any], tensors: dict[str, Tensor]) -> Unreading:
    layout, erasers = manifest["layout"], manifest["erasers"]
    if not isinstance(layout, list) or not isinstance(erasers, int):
        raise ValueError("the manifest has other types")
    return Unreading(
        segments=segments_of(layout),
        priors={name.removeprefix("prior/"): tensor for name, tensor in tensors.items() if name.startswith("prior/")},
        erasers=tuple(
            Eraser(**{name: tensors[f"eraser/{index}/{name}"] for name in ("mean", "left", "right")})
            for index in range(erasers)
        ),
        factors=tensors.get("factors"),
        directions=tensors.get("directions"),
        decoys=tensors.get("decoys"),
    )


def _checked(fit: Unreading) -> Unreading:
    """Refuse parts that do not fit together."""
    sides = Sides(fit.segments)
    size = fit.segments[-1].stop
    wrong = (
        (fit.factors is not None and (fit.factors.ndim != 2 or len(fit.factors) != sides.width))
        or any(rows is not None and (rows.ndim != 2 or rows.shape[1] != size) for rows in (fit.directions, fit.decoys))
        or (fit.erasers and len(fit.erasers) != len(sides.layers))
        or any(
            len(eraser.mean) != layer.inputs.stop - layer.inputs.start
            for eraser, layer in zip(fit.erasers, sides.layers, strict=False)
        )
    )
    tensors = [fit.factors, fit.directions, fit.decoys]
    tensors += [tensor for eraser in fit.erasers for tensor in vars(eraser).values()]
    if wrong or not all(bool(torch.isfinite(tensor).all()) for tensor in tensors if tensor is not None):
        raise ValueError("parts of other sizes, or not finite")
    return fit
