"""A study's JSON schema (draft 2020-12): editors complete fields, kinds and settings by it, and underline mistakes.

What depends on the data, such as whether an attribute exists, only `fedveil run` can say.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
import typing
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError

from fedveil.config import parts
from fedveil.config.meanings import meanings, summary
from fedveil.config.study import Study
from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.files import plain

Schema = dict[str, Any]
STUDY_NAME = r"^(?=.{1,80}$)[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*$"
METHOD_NAME = r"^[A-Za-z0-9][A-Za-z0-9._ ()+=-]{0,59}$"


def study_schema(*, third_parties: bool = False) -> Schema:
    """Return the schema; with the parts of other installed packages, too, where wanted."""
    schema = Study.model_json_schema()
    definitions = schema.pop("$defs")
    del definitions["PartSettings"]
    for model in (schema, *definitions.values()):
        for field in (model, *model["properties"].values()):
            field.pop("title", None)
    for place, by_name in kinds(third_parties=third_parties).items():
        definitions[place] = _chosen(place, by_name, definitions)
    method, federation = definitions["Method"]["properties"], definitions["FederationSection"]["properties"]
    for place, fields in (("game", method), ("shield", method), ("partition", federation), ("aggregation", federation)):
        none = [] if place == "game" else [{"type": "null"}]
        said = {key: value for key, value in fields[place].items() if key in ("default", "description")}
        fields[place] = said | {"anyOf": [{"$ref": f"#/$defs/{place}"}, *none]}
    _refine(schema, definitions, third_parties)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:fedveil:study",
        "title": "A fedveil study",
    }
    return {**head, **schema, "$defs": dict(sorted(definitions.items()))}


def kinds(*, third_parties: bool = False) -> dict[str, dict[str, type]]:
    """Return the classes that a study can choose among, by the field they stand in and by name."""
    return {
        "game": _registered("fedveil.games", parts.game_class, third_parties),
        "shield": _registered("fedveil.shields", parts.shield_class, third_parties),
        "partition": parts.partitioners(),
        "aggregation": parts.aggregators(),
    }


def names(group: str, *, third_parties: bool = False) -> list[str]:
    """Return the names that are registered in a group of entry points, ours or all."""
    return sorted(point.name for point in _points(group, third_parties))


def settings(kind: type) -> dict[str, Schema]:
    """Return the schema of each setting that a study can give; what only Python can make is left out."""
    told = meanings(kind)
    found = {}
    for name, parameter in parts.settings_of(kind).items():
        schema = _of_type(parameter.annotation)
        if schema is None:
            continue
        found[name] = schema | ({"description": told[name]} if name in told else {})
        if parameter.default is not inspect.Parameter.empty:
            found[name]["default"] = written(parameter.default)
    return found


def written(value: Any) -> Any:
    """Return a setting's value as a study writes it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        own = {field.name: written(getattr(value, field.name)) for field in dataclasses.fields(value)}
        return {"kind": parts.hyphenated(type(value).__name__), **own}
    return plain(value)


def _points(group: str, third_parties: bool) -> list[EntryPoint]:
    ours = [point for point in entry_points(group=group) if point.module.partition(".")[0] == "fedveil"]
    return list(plugins.registered(group).values()) if third_parties else ours


def _registered(group: str, load: Any, third_parties: bool) -> dict[str, type]:
    found: dict[str, type] = {}
    for point in sorted(_points(group, third_parties), key=lambda point: point.name):
        try:
            found[point.name] = load(point.name) if third_parties else point.load()
        except InputError:  # a broken package of somebody else; a study that names it is told why
            continue
    return found


def _chosen(place: str, by_name: Mapping[str, type], definitions: dict[str, Schema]) -> Schema:
    """Return one of the kinds: by its name alone, or with its settings.

    Strengths may stand for a setting that a game or shield cannot do without, and the study itself has the devices.
    """
    needs: dict[str, list[str]] = {}
    for name, kind in by_name.items():
        bare = [own for own, p in parts.settings_of(kind).items() if p.default is inspect.Parameter.empty]
        needs[name] = [] if place in ("game", "shield") else [own for own in bare if own != "devices"]
        definitions[f"{place}.{name}"] = _with_settings(name, kind, ["kind", *needs[name]])
    alone = {"enum": [name for name in by_name if not needs[name]]}
    return {"anyOf": [alone, *({"$ref": f"#/$defs/{place}.{name}"} for name in by_name)]}


def _with_settings(name: str, kind: type, required: list[str]) -> Schema:
    return {
        "type": "object",
        "description": summary(kind),
        "properties": {"kind": {"const": name, "description": summary(kind)}, **settings(kind)},
        "required": required,
        "additionalProperties": False,
    }


def _of_type(annotation: Any) -> Schema | None:
    """Return the schema of an annotation; None where plain values cannot make it."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    members = list(typing.get_args(annotation)) if union else [annotation]
    own = [one for one in members if isinstance(one, type) and dataclasses.is_dataclass(one)]
    offered: dict[str, type] = {parts.hyphenated(one.__name__): one for one in own if _writable(one)}
    if own:
        rest = [found for one in members if one not in own and (found := _of_type(one))]
        if not offered:
            return {"anyOf": rest} if rest else None
        made = [_with_settings(name, one, ["kind"] if len(offered) > 1 else []) for name, one in offered.items()]
        return {"anyOf": [{"enum": list(offered)}, *made, *rest]}
    try:
        return dict(TypeAdapter(annotation).json_schema())
    except (PydanticInvalidForJsonSchema, PydanticSchemaGenerationError):
        return None


def _writable(kind: type) -> bool:
    """Whether plain values can say all that a class needs; a zoo, for one, needs tensors."""
    needed = [one for one in parts.settings_of(kind).values() if one.default is inspect.Parameter.empty]
    return all(_of_type(one.annotation) is not None for one in needed)


def _refine(schema: Schema, definitions: dict[str, Schema], third_parties: bool) -> None:
    """Add what the models check in code, or take in a shorter form."""
    data, method, attacks = (definitions[name]["properties"] for name in ("DataSection", "Method", "Attacks"))
    schema["properties"]["name"]["pattern"] = STUDY_NAME
    method["name"]["pattern"] = METHOD_NAME
    method["varies"]["anyOf"][0]["pattern"] = r"^(game|shield)\.\w+$"
    data["source"]["examples"] = names("fedveil.data", third_parties=third_parties)
    several = data["sensitive"]
    data["sensitive"] = {"description": several.pop("description"), "anyOf": [several, {"type": "string"}]}
    attackers = names("fedveil.attacks", third_parties=third_parties)
    one = f"({'|'.join(map(re.escape, attackers))})"
    attacks["panel"]["anyOf"] = [
        {"enum": ["full", "quick", *attackers]},
        {"type": "string", "pattern": rf"^{one}( *, *{one})*$"},
        {"type": "array", "items": {"enum": attackers}, "minItems": 1},
    ]
    own = schema["properties"]
    for field in own.values():
        if "$ref" in field:  # pydantic drops a description that repeats the section's
            field.setdefault("description", definitions[field["$ref"].rpartition("/")[2]]["description"])
    for field in (method["strengths"], own["seeds"], own["drop_columns"], own["tasks"], own["heads"]):
        for form in [field, *field.get("anyOf", [])]:
            if form.get("type") == "array":
                form["uniqueItems"] = True
                for bound, keyword in (("ge", "minimum"), ("le", "maximum")):  # pydantic leaves these as they are
                    if bound in form["items"]:
                        form["items"][keyword] = form["items"].pop(bound)
