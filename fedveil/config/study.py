"""Study: what is compared, on what data, by which attackers. Every field is checked; a fault names its field."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from fedveil.config.reading import read_yaml, with_changes
from fedveil.core.errors import InputError, nearest

_NAME = r"[A-Za-z0-9][A-Za-z0-9._ ()+=-]{0,59}"


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _as_part(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


class PartSettings(BaseModel):
    """A registered part (a game, a shield, …) by its kind, with its settings beside it."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str = Field(description="Its registered name.")

    @property
    def settings(self) -> dict[str, Any]:
        """The part's settings."""
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
    records: int | None = Field(None, ge=50, description="Use only this many records, drawn at random in each split.")
    options: dict[str, Any] = Field(default_factory=dict, description="The data set's options.")

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
    rounds: int = Field(20, ge=1, description="Rounds of stages that do not set their own number.")
    partition: Part | None = Field(
        None, description="How records are dealt to devices: iid (default), dirichlet, by-group, shards, one-each."
    )
    aggregation: Part | None = Field(
        None,
        description="How the server aggregates updates: weighted-mean (default), mean, median, trimmed-mean, krum, ….",
    )
    unreliable: float = Field(0.0, ge=0, lt=1, description="The probability that a sampled device drops out.")
    engine: str = Field(
        "stacked",
        description="stacked: fast; plain: the readable reference; flower: a SuperNode per device on this machine; or "
        "an engine of another package.",
        json_schema_extra={"examples": ["stacked", "plain", "flower"]},
    )
    dtype: Literal["float32", "float64"] = Field("float32", description="The precision of weights and features.")
    device: str = Field("auto", description="Where tensors are kept: auto is a GPU if there is one.")

    @field_validator("engine")
    @classmethod
    def _registered(cls, name: str) -> str:
        from fedveil.federation.work import alternatives_to_engine  # imports torch, which takes a second

        if (engines := alternatives_to_engine(name)) is not None:
            raise ValueError(f"Input should be {engines}")
        return name


class Method(_Section):
    """One defence: a game, a shield, and the strengths at which it is tried."""

    name: str = Field(description="Its name in tables and charts.")
    game: Part = Field(description="What is trained: a registered game with its settings, or its name alone.")
    shield: Part | None = Field(None, description="What a device does to what it sends.")
    policy: str | None = Field(
        None, description="A policy file; every device applies the shield that it names, in place of `shield`."
    )
    varies: str | None = Field(
        None,
        description="The setting that strengths vary: game.<setting> or shield.<setting>; default: game.strength.",
    )
    strengths: list[Strength] | None = Field(
        None, min_length=1, description="The strengths to try; if there are none, the method is tried once."
    )
    rounds: int | None = Field(None, ge=1, description="Rounds of this method, in place of `federation.rounds`.")
    at: dict[float, dict[str, Any]] = Field(
        default_factory=dict,
        description="Settings that differ at some strengths: for each strength, game.<setting> or shield.<setting>.",
    )

    @model_validator(mode="after")
    def _one_shield(self) -> Method:
        if self.shield is not None and self.policy is not None:
            raise ValueError("Input should name a shield or a policy, not both")
        return self

    @model_serializer(mode="wrap")
    def _without_empty_policy(self, serialise: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out the policy if there is none, so that cells keep the names they had before policies existed."""
        values: dict[str, Any] = serialise(self)
        if self.policy is None:
            values.pop("policy", None)
        return values

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
        """The strengths to try; a single None if there are none."""
        return [None] if self.strengths is None else list(self.strengths)

    @property
    def varied(self) -> tuple[str, str]:
        """The part and the setting that strengths vary."""
        part, _, setting = (self.varies or "game.strength").partition(".")
        return part, setting


class Attacks(_Section):
    """Who attacks, and what they see."""

    panel: str | list[str] = Field("full", description="full, quick, or attackers by name.")
    view: Literal["representations", "outputs", "updates", "parameters", "statistics"] = Field(
        "representations", description="What the observer sees."
    )
    attributes: list[str] | None = Field(
        None, min_length=1, description="The attributes to attack; default: all sensitive ones."
    )
    cotrained: bool = Field(
        True, description="Also report the adversary that the game itself trains, marked as a weak attacker."
    )
    decensoring: bool = Field(
        False, description="Also try de-censoring (Song and Shmatikov 2020) on representations, beside its control."
    )
    fresh: Literal["auto"] | bool = Field(
        "auto",
        description="Also train attackers on halves of the test people, whom the defence has never seen; "
        "auto: if every value has 40 of them.",
    )
    draws: int = Field(1000, ge=100, le=10_000, description="Bootstrap draws for each interval.")
    rounds: list[int] = Field(
        default_factory=list, description="Rounds whose updates are recorded, for views of updates."
    )
    shadows: int = Field(
        0, ge=0, description="The attacker's shadow devices in those rounds; 0: as many as validation records fill."
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
        description="For tables: how many columns the drop-columns baseline drops, the most revealing first.",
    )
    seeds: list[Seed] = Field([0], min_length=1, description="One run of every method and strength for each seed.")
    tasks: list[str] | None = Field(
        None, min_length=1, description="The tasks that heads learn from releases; default: the target."
    )
    heads: list[Literal["mlp", "boosting", "logistic"]] = Field(
        ["mlp"], min_length=1, description="Kinds of head to try for each task; the best is chosen on validation."
    )
    attacks: Attacks = Field(default_factory=Attacks, description="Who attacks, and what they see.")
    threads: int = Field(
        1, ge=1, le=64, description="Threads for each cell; results are bit-identical for the same number of threads."
    )
    checkpoint_seconds: float = Field(
        1.0, ge=0, description="Minimum seconds between two saves of a running cell's state; 0: save every round."
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
            raise ValueError(f"Input should hold each value once, but {value!r} occurs more often")
    return values


def read_study(path: Path, changes: Sequence[str] = ()) -> Study:
    """Read a study from its file, with `--set key=value` changes."""
    return make_study(with_changes(read_yaml(path), changes), str(path))


def make_study(values: dict[str, Any], where: str = "study") -> Study:
    """Check plain values and return the study; the first fault names the field, the value and what is allowed."""
    try:
        return Study.model_validate(values)
    except ValidationError as fault:
        faults = [error for error in fault.errors(include_url=False) if error["loc"][-1] != "literal['auto']"]
        further = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
        raise InputError(f"{where}: {_in_words(faults[0], values)}{further}") from None


def _in_words(fault: Any, values: Any) -> str:
    location = [step for step in fault["loc"] if step not in ("function-before", "list", "literal['auto']")]
    path = dotted(location, values)
    if fault["type"] == "extra_forbidden":
        fields = _fields_at(location[:-1])
        section = dotted(location[:-1], values)
        return f"unknown field {path!r}: {nearest(str(location[-1]), fields)}" + (f" in {section}" if section else "")
    if fault["type"] == "missing":
        return f"field {path!r} is missing; {_described(location)}"
    if location[0] == "drop_columns":  # two forms are allowed: pydantic's message about either would mislead
        fault = {**fault, "input": values[location[0]], "msg": "Input should be auto, or numbers of columns from 0 up"}
        path = "drop_columns"
    shown = repr(fault["input"])
    shown = shown if len(shown) <= 60 else shown[:57] + "…"
    message = re.sub(r"^(Value error, )?Input should", "it should", fault["msg"])
    return f"{path}: {shown} is not allowed; {message}"


def dotted(location: Sequence[Any], values: Any) -> str:
    """Return a field's path as a person would write it, with list items by their names if they have any."""
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
    return f"it means: {field.description}" if field is not None and field.description else "give it"
