"""A study's JSON schema (draft 2020-12); with it, editors complete fields, kinds and settings and underline mistakes.

Descriptions of settings come from the docstrings of the classes that define them. Only `fedveil run` can check what
depends on the data, such as whether an attribute exists.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

from fedveil.config import parts
from fedveil.config.study import Study
from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.files import plain

Schema = dict[str, Any]
STUDY_NAME = r"^(?=.{1,80}$)[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$"
METHOD_NAME = r"^[A-Za-z0-9][A-Za-z0-9._ ()+=-]{0,59}$"


def study_schema(*, third_parties: bool = False) -> Schema:
    """Return the schema; with `third_parties`, including the parts of other installed packages."""
    schema = Study.model_json_schema()
    definitions = schema.pop("$defs")
    del definitions["PartSettings"]
    for model in (schema, *definitions.values()):
        for field in (model, *model["properties"].values()):
            field.pop("title", None)
    for part, by_name in kinds(third_parties=third_parties).items():
        definitions[part] = _choice(part, by_name, definitions)
    method, federation = definitions["Method"]["properties"], definitions["FederationSection"]["properties"]
    for part, fields in (("game", method), ("shield", method), ("partition", federation), ("aggregation", federation)):
        null = [] if part == "game" else [{"type": "null"}]
        general = {key: value for key, value in fields[part].items() if key in ("default", "description")}
        fields[part] = general | {"anyOf": [{"$ref": f"#/$defs/{part}"}, *null]}
    _refine(schema, definitions, third_parties)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:fedveil:study",
        "title": "A fedveil study",
    }
    return {**head, **schema, "$defs": dict(sorted(definitions.items()))}


def kinds(*, third_parties: bool = False) -> dict[str, dict[str, type]]:
    """Return the classes that a study can choose among, by the field that names them and by name."""
    return {
        "game": _registered("fedveil.games", parts.game_class, third_parties),
        "shield": _registered("fedveil.shields", parts.shield_class, third_parties),
        "partition": parts.partitioners(),
        "aggregation": parts.aggregators(),
    }


def names(group: str, *, third_parties: bool = False) -> list[str]:
    """Return the names registered in a group of entry points: fedveil's, or with `third_parties` everybody's."""
    return sorted(point.name for point in _points(group, third_parties))


def summary(kind: type) -> str:
    """Return the first line of a class's docstring."""
    return (inspect.getdoc(kind) or "").partition("\n")[0]


def description(kind: type, setting: str) -> str:
    """Return what a setting means: its entry under `Attributes:` in the docstring of the class that defines it.

    The docstring of a subclass may describe an inherited setting; that of an unrelated class never does.
    """
    for class_ in kind.__mro__:
        text = _described_in(class_).get(setting)
        if text or _defines(class_, setting):
            return text or ""
    return ""


def _defines(class_: type, setting: str) -> bool:
    if dataclasses.is_dataclass(class_):
        return setting in inspect.get_annotations(class_)
    return "__init__" in vars(class_)


def _described_in(class_: type) -> dict[str, str]:
    """Return the entries under `Attributes:` in a class's docstring."""
    text = inspect.cleandoc(vars(class_).get("__doc__") or "")
    section = re.search(r"^Attributes:\n((?:    .*\n?|\n)+)", text, re.MULTILINE)
    entries = re.findall(r"^    (\w[\w, ]*): (.*(?:\n        .*)*)", section[1], re.MULTILINE) if section else []
    return {name: " ".join(text.split()).rstrip(".") for several, text in entries for name in several.split(", ")}


def settings(kind: type) -> dict[str, Schema]:
    """Return the schema of each setting that a study can give; those that only Python can make are left out."""
    schemas = {}
    for name, parameter in parts.settings_of(kind).items():
        schema = _of_type(parameter.annotation)
        if schema is None:
            continue
        text = description(kind, name)
        schemas[name] = schema | ({"description": text} if text else {})
        if parameter.default is not inspect.Parameter.empty:
            schemas[name]["default"] = written(parameter.default)
    return schemas


def written(value: Any) -> Any:
    """Return a setting's value as a study writes it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        settings = {field.name: written(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": parts.hyphenated(type(value).__name__), **settings}
    return plain(value)


def _points(group: str, third_parties: bool) -> list[EntryPoint]:
    ours = [point for point in entry_points(group=group) if point.module.partition(".")[0] == "fedveil"]
    return list(plugins.registered(group).values()) if third_parties else ours


def _registered(group: str, load: Any, third_parties: bool) -> dict[str, type]:
    classes: dict[str, type] = {}
    for point in sorted(_points(group, third_parties), key=lambda point: point.name):
        try:
            classes[point.name] = load(point.name) if third_parties else point.load()
        except InputError:  # another package is broken; a study that names its part gets the reason
            continue
    return classes


def _choice(part: str, by_name: Mapping[str, type], definitions: dict[str, Schema]) -> Schema:
    """Return the schema of a part: the name of one of the kinds, alone or with its settings.

    No setting of a game or shield is required here, since strengths may set it; nor is `devices`, which the study sets.
    """
    required: dict[str, list[str]] = {}
    for name, kind in by_name.items():
        needed = [setting for setting in parts.required_settings(kind) if setting != "devices"]
        required[name] = [] if part in ("game", "shield") else needed
        definitions[f"{part}.{name}"] = _with_settings(name, kind, ["kind", *required[name]])
    alone = {"enum": [name for name in by_name if not required[name]]}
    return {"anyOf": [alone, *({"$ref": f"#/$defs/{part}.{name}"} for name in by_name)]}


def _with_settings(name: str, kind: type, required: list[str]) -> Schema:
    return {
        "type": "object",
        "description": summary(kind),
        "properties": {"kind": {"const": name, "description": summary(kind)}, **settings(kind)},
        "required": required,
        "additionalProperties": False,
    }


def _of_type(annotation: Any) -> Schema | None:
    """Return the schema of an annotation; None if plain values cannot make it."""
    options = parts.alternatives(annotation)
    classes = [option for option in options if isinstance(option, type) and dataclasses.is_dataclass(option)]
    offered: dict[str, type] = {parts.hyphenated(option.__name__): option for option in classes if _writable(option)}
    if classes:
        rest = [schema for option in options if option not in classes and (schema := _of_type(option))]
        if not offered:
            return {"anyOf": rest} if rest else None
        tagged = ["kind"] if len(offered) > 1 else []
        objects = [_with_settings(name, option, tagged) for name, option in offered.items()]
        return {"anyOf": [{"enum": list(offered)}, *objects, *rest]}
    try:
        return dict(TypeAdapter(annotation).json_schema())
    except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError):
        return None


def _writable(kind: type) -> bool:
    """Whether plain values can express all that a class requires; a zoo, for example, requires tensors."""
    parameters = parts.settings_of(kind)
    return all(_of_type(parameters[name].annotation) is not None for name in parts.required_settings(kind))


def _refine(schema: Schema, definitions: dict[str, Schema], third_parties: bool) -> None:
    """Add what the models check in code, or accept in a shorter form."""
    data, method, attacks = (definitions[name]["properties"] for name in ("DataSection", "Method", "Attacks"))
    schema["properties"]["name"]["pattern"] = STUDY_NAME
    method["name"]["pattern"] = METHOD_NAME
    method["varies"]["anyOf"][0]["pattern"] = r"^(game|shield)\.\w+$"
    data["source"]["examples"] = names("fedveil.data", third_parties=third_parties)
    list_form = data["sensitive"]
    data["sensitive"] = {"description": list_form.pop("description"), "anyOf": [list_form, {"type": "string"}]}
    attackers = names("fedveil.attacks", third_parties=third_parties)
    attacker = f"({'|'.join(map(re.escape, attackers))})"
    attacks["panel"]["anyOf"] = [
        {"enum": ["full", "quick", *attackers]},
        {"type": "string", "pattern": rf"^{attacker}( *, *{attacker})*$"},
        {"type": "array", "items": {"enum": attackers}, "minItems": 1},
    ]
    fields = schema["properties"]
    for field in fields.values():
        if "$ref" in field:  # pydantic drops a description that repeats the section's
            field.setdefault("description", definitions[field["$ref"].rpartition("/")[2]]["description"])
    for field in (method["strengths"], fields["seeds"], fields["drop_columns"], fields["tasks"], fields["heads"]):
        for form in [field, *field.get("anyOf", [])]:
            if form.get("type") == "array":
                form["uniqueItems"] = True
                for bound, keyword in (("ge", "minimum"), ("le", "maximum")):  # pydantic leaves these unchanged
                    if bound in form["items"]:
                        form["items"][keyword] = form["items"].pop(bound)
