"""Study: what is compared, on what data, by which attackers; every field checked, every fault told by its name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from fedveil.config.reading import read_yaml, with_changes
from fedveil.core.errors import InputError, nearest

_NAME = r"[A-Za-z0-9][A-Za-z0-9._ ()+=-]{0,59}"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _as_part(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


class PartSettings(BaseModel):
    """A registered part (a game, a shield, …) by its kind, with the part's own settings beside it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str = Field(description="Its registered name.")

    @property
    def settings(self) -> dict[str, Any]:
        """The part's own settings."""
        return dict(self.model_extra or {})


Part = Annotated[PartSettings, BeforeValidator(_as_part)]


def _number(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("Input should be a number, not yes or no")
    return value


Strength = Annotated[float, BeforeValidator(_number), Field(allow_inf_nan=False)]
Seed = Annotated[int, BeforeValidator(_number), Field(ge=0, le=2**31)]


class DataSection(_Section):
    """What the devices hold."""

    source: str = Field(description="A registered data set: `fedveil data list` names them.")
    target: str | None = Field(None, description="The task's label; none for data without a task.")
    sensitive: list[str] = Field(min_length=1, description="The attributes to protect and to attack.")
    records: int | None = Field(None, ge=50, description="Use so many records only, drawn at random in each split.")
    options: dict[str, Any] = Field(default_factory=dict, description="The data set's own options.")

    @field_validator("sensitive", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else value

    @field_validator("sensitive")
    @classmethod
    def _once(cls, value: Any) -> Any:
        return _each_once(value)


class FederationSection(_Section):
    """Who takes part, and how they are sampled."""

    devices: int = Field(100, ge=1, description="How many devices share the training records.")
    fraction: float = Field(1.0, gt=0, le=1, description="The share of devices sampled in each round.")
    rounds: int = Field(20, ge=1, description="Rounds of stages that name none themselves.")
    partition: Part | None = Field(
        None, description="How records are dealt to devices: iid (default), dirichlet, by-group, shards, one-each."
    )
    aggregation: Part | None = Field(
        None,
        description="What the server makes of updates: weighted-mean (default), mean, median, trimmed-mean, krum, ….",
    )
    unreliable: float = Field(0.0, ge=0, lt=1, description="The probability that a sampled device drops out.")
    engine: Literal["stacked", "plain", "flower"] = Field(
        "stacked", description="Fast; the readable reference; or Flower, with a SuperNode per device on this machine."
    )
    dtype: Literal["float32", "float64"] = Field("float32", description="The precision of weights and features.")
    device: str = Field("auto", description="Where tensors live: auto is a GPU where there is one.")


class Method(_Section):
    """One defence: a game, a shield, and the strengths at which it is tried."""

    name: str = Field(description="Its name in tables and charts.")
    game: Part = Field(description="What is trained: a registered game with its settings, or its name alone.")
    shield: Part | None = Field(None, description="What a device does to what it sends.")
    varies: str | None = Field(
        None,
        description="Which setting the strengths are: game.<setting> or shield.<setting>; game.strength if unsaid.",
    )
    strengths: list[Strength] | None = Field(None, min_length=1, description="The strengths to try; none: once.")
    rounds: int | None = Field(None, ge=1, description="Rounds of this method, in place of the federation's.")
    at: dict[float, dict[str, Any]] = Field(
        default_factory=dict,
        description="Settings that differ at some strengths: a strength, then game.<setting> or shield.<setting>.",
    )

    @field_validator("name")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not re.fullmatch(_NAME, value):
            raise ValueError("Input should be at most 60 letters, digits, spaces and . _ ( ) + = -")
        return value

    @field_validator("strengths")
    @classmethod
    def _once(cls, value: Any) -> Any:
        return _each_once(value)

    @property
    def points(self) -> list[float | None]:
        """The strengths to try; a single None where there are none."""
        return [None] if self.strengths is None else list(self.strengths)

    @property
    def varied(self) -> tuple[str, str]:
        """Which part and which of its settings the strength is."""
        part, _, setting = (self.varies or "game.strength").partition(".")
        return part, setting


class Attacks(_Section):
    """Who attacks, and what they see."""

    panel: str | list[str] = Field("full", description="full, quick, or attackers by name.")
    view: Literal["representations", "outputs", "updates", "parameters", "statistics"] = Field(
        "representations", description="What the observer sees."
    )
    attributes: list[str] | None = Field(
        None, min_length=1, description="Whom to ask about; all sensitive ones if unsaid."
    )
    cotrained: bool = Field(True, description="Report the game's own adversary, too, marked as the weak one it is.")
    decensoring: bool = Field(
        False, description="Try de-censoring (Song and Shmatikov 2020) on representations, too, beside its control."
    )
    fresh: bool = Field(
        False, description="Also train every attacker on test people whom the defence was never fitted on, in halves."
    )
    draws: int = Field(1000, ge=100, le=10_000, description="Bootstrap draws behind each interval.")
    rounds: list[int] = Field(default_factory=list, description="Rounds whose updates are recorded, for such views.")
    shadows: int = Field(
        0, ge=0, description="The attacker's own devices in those rounds; 0: as many as validation records fill."
    )

    @field_validator("attributes", "rounds")
    @classmethod
    def _once(cls, value: Any) -> Any:
        return _each_once(value)


class Study(_Section):
    """data × methods (game × shield × strengths) × seeds, then attacks and tasks."""

    name: str = Field(description="Its name; results go to runs/<name> unless --out says otherwise.")
    description: str = Field("", description="What the study asks, in a line or two.")
    data: DataSection = Field(description="What the devices hold.")
    federation: FederationSection = Field(default_factory=FederationSection, description="Who takes part.")
    methods: list[Method] = Field(min_length=1, description="The defences to compare.")
    drop_columns: Literal["auto"] | Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1)] = Field(
        "auto",
        description="How many columns the baseline drops, most telling first; it is on every table's frontier.",
    )
    seeds: list[Seed] = Field([0], min_length=1, description="One run of every method and strength for each.")
    tasks: list[str] | None = Field(
        None, min_length=1, description="What heads learn from releases; the target if unsaid."
    )
    heads: list[Literal["mlp", "boosting", "logistic"]] = Field(
        ["mlp"], min_length=1, description="Kinds of head to try for each task; the best is chosen on validation."
    )
    attacks: Attacks = Field(default_factory=Attacks, description="Who attacks, and what they see.")
    threads: int = Field(
        1, ge=1, le=64, description="Threads of each cell; results are bit-identical for the same number."
    )
    checkpoint_seconds: float = Field(
        1.0, ge=0, description="Save a running cell's state at most so often; 0: each round."
    )

    @field_validator("name")
    @classmethod
    def _plain_name(cls, value: str) -> str:
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*", value) or len(value) > 80:
            raise ValueError("Input should be letters, digits and . _ - (and / between folders), at most 80")
        return value

    @field_validator("seeds", "drop_columns", "tasks", "heads")
    @classmethod
    def _once(cls, value: Any) -> Any:
        return _each_once(value) if isinstance(value, list) else value

    @field_validator("methods")
    @classmethod
    def _names_once(cls, value: list[Method]) -> list[Method]:
        _each_once([method.name for method in value])
        return value

    @property
    def asked(self) -> list[str]:
        """The attributes that are attacked."""
        return self.attacks.attributes or self.data.sensitive

    @property
    def all_tasks(self) -> list[str]:
        """The tasks that heads learn."""
        return self.tasks or ([self.data.target] if self.data.target else [])


def _each_once(values: Any) -> Any:
    for value in values or []:
        if values.count(value) > 1:
            raise ValueError(f"Input should hold each value once, but {value!r} stands there more often")
    return values


def read_study(path: Path, changes: Sequence[str] = ()) -> Study:
    """Read a study from its file, with `--set key=value` changes."""
    return make_study(with_changes(read_yaml(path), changes), str(path))


def make_study(values: dict[str, Any], where: str = "study") -> Study:
    """Check plain values and return the study; the first fault is told by field, value and what is allowed."""
    try:
        return Study.model_validate(values)
    except ValidationError as fault:
        faults = [one for one in fault.errors(include_url=False) if one["loc"][-1] != "literal['auto']"]
        more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InputError(f"{where}: {_in_words(faults[0], values)}{more}") from None


def _in_words(fault: Any, values: Any) -> str:
    location = [step for step in fault["loc"] if step not in ("function-before", "list", "literal['auto']")]
    path = dotted(location, values)
    if fault["type"] == "extra_forbidden":
        fields = _fields_at(location[:-1])
        section = dotted(location[:-1], values)
        return f"unknown field {path!r}: {nearest(str(location[-1]), fields)}" + (f" in {section}" if section else "")
    if fault["type"] == "missing":
        return f"field {path!r} is missing; {_described(location)}"
    if location[0] == "drop_columns":  # two forms are allowed: the checker's complaint about either would mislead
        fault = {**fault, "input": values[location[0]], "msg": "Input should be auto, or numbers of columns from 0 up"}
        path = "drop_columns"
    shown = repr(fault["input"])
    shown = shown if len(shown) <= 60 else shown[:57] + "…"
    message = re.sub(r"^(Value error, )?Input should", "it should", fault["msg"])
    return f"{path}: {shown} is not allowed; {message}"


def dotted(location: Sequence[Any], values: Any) -> str:
    """Return a place in the study as a person would write it: list items by their name, where they have one."""
    words: list[str] = []
    for step in location:
        if isinstance(step, int):
            item = values[step] if isinstance(values, list) and step < len(values) else None
            name = item.get("name") if isinstance(item, dict) else None
            words.append(str(name) if isinstance(name, str) else str(step))
            values = item
        else:
            words.append(str(step))
            values = values.get(step) if isinstance(values, dict) else None
    return ".".join(words)


def _model_at(location: Sequence[Any]) -> type[BaseModel]:
    sections: dict[str, type[BaseModel]] = {
        "data": DataSection,
        "federation": FederationSection,
        "methods": Method,
        "attacks": Attacks,
    }
    return sections.get(str(location[0]), Study) if location else Study


def _fields_at(location: Sequence[Any]) -> list[str]:
    return list(_model_at(location).model_fields)


def _described(location: Sequence[Any]) -> str:
    field = _model_at(location[:-1]).model_fields.get(str(location[-1]))
    return f"it says: {field.description}" if field is not None and field.description else "give it"
