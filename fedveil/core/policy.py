"""Policy: what a person wants hidden in what a device sends, in a small TOML file that is written by hand.

shield = "hardened"   # the default; "as-printed" is the paper's form, which publishes what it hides
budget = 0.1          # optional: how much may change; see below

[hide]                # what is hidden, with levels γ from 0 to 1, together at most 1
race = 0.5
sex = 0.5

The printed form needs more: the zoo of each attribute, seen from the policy's own folder, and may stop early.

shield = "as-printed"
budget = 0.01
minimal = true
hide = {race = 1.0}
zoo = {race = "zoos/race.safetensors"}
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from fedveil.core.errors import InputError, nearest
from fedveil.core.files import read_hand_written

MOST_BYTES = 100_000
"""Far more than any person writes by hand."""


class Policy(BaseModel):
    """What one person has chosen.

    Attributes:
        hide: a level γ in [0, 1] for each attribute that is hidden; together at most 1.
        shield: the form of the shield: see `fedveil.shields.forms`.
        budget: hardened: the mean relative change of a record. As printed: the most that any number of an update may
            move, in L∞. None: what the shield was made with.
        minimal: stop as soon as the zoo is fooled: all of it, or this share of its members; None: as the shield was
            made.
        zoo: where each attribute's zoo lies.

    >>> Policy(hide={"sex": 1.0}).shield
    'hardened'
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    hide: dict[str, float] = Field(min_length=1)
    shield: str = "hardened"
    budget: float | None = None
    minimal: bool | float | None = None
    zoo: dict[str, str] = Field(default_factory=dict)

    @field_validator("hide")
    @classmethod
    def _levels(cls, hide: dict[str, float]) -> dict[str, float]:
        for name, level in hide.items():
            if not 0 <= level <= 1:  # NaN is refused as well
                raise ValueError(f"hide.{name}: a level lies between 0 and 1; got {level:g}")
        if sum(hide.values()) > 1 + 1e-9:
            raise ValueError(f"hide: the levels add up to {sum(hide.values()):g}, and may to 1 at most; lower some")
        return hide

    @field_validator("budget")
    @classmethod
    def _budget(cls, budget: float | None) -> float | None:
        if budget is not None and not 0 < budget < math.inf:
            raise ValueError(f"budget: must be above 0 and finite; got {budget:g}")
        return budget

    @field_validator("minimal")
    @classmethod
    def _minimal(cls, minimal: bool | float | None) -> bool | float | None:
        if isinstance(minimal, float) and not 0 < minimal <= 1:
            raise ValueError(f"minimal: true, false, or the share of members to fool, in (0, 1]; got {minimal:g}")
        return minimal

    @model_validator(mode="after")
    def _zoos(self) -> Policy:
        for name in self.zoo:
            if name not in self.hide:
                raise ValueError(f"zoo.{name}: is not hidden by this policy: {nearest(name, self.hide)}")
        return self

    @classmethod
    def of(cls, settings: dict[str, Any], where: str = "policy") -> Policy:
        """Make a policy of plain values; the first fault is told in one line."""
        try:
            return cls.model_validate(settings)
        except ValidationError as fault:
            raise InputError(f"{where}: {_told(fault)}") from None

    @classmethod
    def parse(cls, text: str, where: str = "policy") -> Policy:
        """Read a policy from TOML."""
        try:
            settings = tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError) as fault:
            raise InputError(f'{where}: is not TOML ({fault}); write lines such as: shield = "hardened"') from None
        return cls.of(settings, where)

    @classmethod
    def read(cls, path: str | Path, known: Sequence[str] | None = None) -> Policy:
        """Read a policy's file; paths of zoos in it are seen from its folder.

        Args:
            path: the TOML file.
            known: the attributes that there are; a policy that hides another is refused.
        """
        path = Path(path)
        text = read_hand_written(path, "policy", "a policy, a TOML file with a table [hide]", MOST_BYTES)
        found = cls.parse(text, str(path))
        if known is not None:
            found.check(known, str(path))
        return found.model_copy(update={"zoo": {name: str(path.parent / own) for name, own in found.zoo.items()}})

    def check(self, known: Sequence[str], where: str = "policy") -> None:
        """Refuse attributes that are not among the known ones, and list those."""
        for name in self.hide:
            if name not in known:
                listed = ", ".join(known) or "none"
                raise InputError(f"{where}: hide.{name}: no such attribute; known: {listed}")

    def __hash__(self) -> int:
        return hash(repr(self))


def _told(fault: ValidationError) -> str:
    """Return the first fault in words."""
    first = fault.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in ("bool", "float"))
    if first["type"] == "extra_forbidden":
        return f"{place}: no such setting: {nearest(place, Policy.model_fields)}"
    if first["type"] in ("missing", "too_short"):
        return "hide: names no attribute; write a table [hide] with a line such as: sex = 1.0"
    if first["type"] == "value_error":
        return str(first["ctx"]["error"])
    wanted = {
        "hide": "a table [hide] of levels, such as: sex = 1.0",
        "shield": 'a name in quotes, such as "hardened"',
        "budget": "a number above 0",
        "minimal": "true, false, or a share in (0, 1]",
        "zoo": 'a table [zoo] of paths in quotes, such as: sex = "sex.safetensors"',
    }[str(first["loc"][0])]
    return f"{place}: must be {wanted}; got {first['input']!r}"
