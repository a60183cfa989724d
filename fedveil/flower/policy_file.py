"""A site's policy: what may leave a Flower node, in a small TOML file that the person at the site writes by hand.

shield = {kind = "dp-gaussian", clip = 1.0, sigma = 4.0}   # by its registered name, with its settings; a list: a chain
metrics = ["num-examples", "train_loss"]   # figures that may leave beside; num-examples alone if unsaid
tell = ["damage", "spent"]                 # what the server is told of these; nothing if unsaid
ledger = "ledger.jsonl"                    # seen from the policy's folder, as are zoos

[budget]           # what may be spent in all; see `Budget`
messages = 50
epsilon = 8.0
delta = 1e-5

[hide]             # for shields that hide attributes by a zoo (recup): levels γ from 0 to 1, together at most 1
sex = 1.0
[zoo]
sex = "sex.safetensors"
[own]              # the most frequent value among the site's own records, as the zoo names it; it never leaves
sex = "Female"
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from fedveil.core.errors import InputError, nearest
from fedveil.core.files import read_hand_written
from fedveil.core.policy import MOST_BYTES, Policy
from fedveil.flower.spending import Budget, members
from fedveil.shields.shield import Shield

if TYPE_CHECKING:
    from fedveil.shields.recup.zoo import Zoo

COUNT = "num-examples"
"""How many records an update was learned from: what a server weighs updates by."""

OWN = "fedveil-"
"""How the names of figures begin that the mod itself tells."""


class _Limits(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    messages: int | None = Field(None, ge=1)
    evaluations: int | None = Field(None, ge=0)
    epsilon: float | None = Field(None, gt=0, allow_inf_nan=False)
    delta: float | None = Field(None, gt=0, lt=1)

    @model_validator(mode="after")
    def _together(self) -> _Limits:
        if self.delta is not None and self.epsilon is None:
            raise ValueError("budget.delta: has no epsilon beside it; name both, or neither")
        return self


class _Written(BaseModel):
    """What the file says, before anything is made of it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    shield: dict[str, Any] | list[dict[str, Any]]
    metrics: list[str] = Field(default_factory=lambda: [COUNT])
    tell: list[Literal["damage", "spent"]] = Field(default_factory=list)
    ledger: str = Field("ledger.jsonl", min_length=1)
    hide: dict[str, float] = Field(default_factory=dict)
    zoo: dict[str, str] = Field(default_factory=dict)
    own: dict[str, str] = Field(default_factory=dict)
    budget: _Limits = Field(default_factory=_Limits)

    @field_validator("shield")
    @classmethod
    def _kinds(cls, shield: dict[str, Any] | list[dict[str, Any]]) -> dict[str, Any] | list[dict[str, Any]]:
        listed = shield if isinstance(shield, list) else [shield]
        if not listed:
            raise ValueError('shield: names none; write {kind = "none"} where nothing shall be shielded')
        for one in listed:
            if not isinstance(one.get("kind"), str):
                raise ValueError('shield.kind: is missing; name a shield: kind = "dp-gaussian"')
        return shield

    @field_validator("metrics")
    @classmethod
    def _names(cls, metrics: list[str]) -> list[str]:
        for name in metrics:
            if name.startswith(OWN):
                raise ValueError(f"metrics: {name!r} is a name that the mod itself uses; allow it by `tell`")
        return metrics


@dataclass(frozen=True)
class SitePolicy:
    """What the person at a site has chosen.

    Attributes:
        path: the file.
        digest: SHA-256 of its content.
        shields: a kind with its settings, one for each member of a chain.
        metrics: the figures that may leave.
        tell: what the mod may tell of itself.
        ledger: the ledger's file.
        hide, zoo, own: levels, zoos' files and own values, by attribute.
        budget: what may be spent in all.
    """

    path: Path
    digest: str
    shields: tuple[dict[str, Any], ...]
    metrics: tuple[str, ...]
    tell: frozenset[str]
    ledger: Path
    budget: Budget
    hide: Mapping[str, float] = field(default_factory=dict)
    zoo: Mapping[str, Path] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> SitePolicy:
        """Read the file; the first fault is told in one line that names the file and the key."""
        path = Path(path)
        text = read_hand_written(path, "policy", "a site's policy, a TOML file with a line: shield = {…}", MOST_BYTES)
        try:
            written = _Written.model_validate(tomllib.loads(text))
        except (tomllib.TOMLDecodeError, RecursionError) as fault:
            raise InputError(f"{path}: is not TOML ({fault})") from None
        except ValidationError as fault:
            raise InputError(f"{path}: {_told(fault)}") from None
        listed = written.shield if isinstance(written.shield, list) else [written.shield]
        limits = written.budget
        if written.hide:  # levels and their sum are checked as any policy's are
            Policy.of({"hide": written.hide, "zoo": written.zoo, "shield": "as-printed"}, str(path))
        return cls(
            path,
            hashlib.sha256(text.encode()).hexdigest(),
            tuple(listed),
            tuple(dict.fromkeys(written.metrics)),
            frozenset(written.tell),
            path.parent / written.ledger,
            Budget(limits.messages, limits.evaluations, limits.epsilon, limits.delta or 0.0),
            written.hide,
            {name: path.parent / own for name, own in written.zoo.items()},
            written.own,
        )

    def make(self) -> Shield:
        """Make the shield; refused are those that cannot work on an update alone, and an ε that none can keep."""
        from fedveil.flower.site_shield import made_for

        return made_for(self)

    def known(self, shield: Shield) -> dict[str, torch.Tensor]:
        """Return the site's own values as a shield reads them."""
        zoos: dict[str, Zoo] = {}
        for member in members(shield):
            zoos |= getattr(member, "zoos", {})
        return {f"u:{name}": torch.tensor([zoo.values.index(self.own[name])]) for name, zoo in zoos.items()}


def _told(fault: ValidationError) -> str:
    """Return the first fault in words."""
    first = min(fault.errors(), key=lambda own: own["type"] != "extra_forbidden")  # a misspelt name explains the rest
    parts = [str(part) for part in first["loc"] if not str(part).startswith(("dict[", "list["))]
    place = ".".join(parts)
    if first["type"] == "extra_forbidden":
        known = _Limits.model_fields if parts[0] == "budget" else _Written.model_fields
        return f"{place}: no such setting: {nearest(parts[-1], known)}"
    if first["type"] == "missing":
        return f'{place}: is missing; write a line such as: shield = {{kind = "dp-gaussian", clip = 1.0, sigma = 4.0}}'
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    wanted = first["msg"].replace("Input should", "it should")
    for words in ("a valid dictionary or instance of _Limits", "a valid dictionary"):
        wanted = wanted.replace(words, "a table")
    return f"{place}: {first['input']!r} is not allowed; {wanted}"
