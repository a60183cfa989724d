"""docs/study-fields.md, generated from the schema: every field and setting with its type, default and meaning.

`python -m fedveil.config.field_docs` writes it and docs/study.schema.json into a checkout; `make schema` calls it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fedveil.config.schema import kinds, names, study_schema, summary
from fedveil.core.files import write_atomically

PUBLISHED = "study.schema.json"
PAGE = "study-fields.md"
SECTIONS = {
    "Study": ("The study", "The outermost fields."),
    "DataSection": ("data", ""),
    "FederationSection": ("federation", ""),
    "Method": ("methods", "A list; each item has these fields."),
    "Attacks": ("attacks", ""),
}
PARTS = {
    "game": ("Games", "What a method's `game` can be: what is trained, and what leaves a device afterwards."),
    "shield": ("Shields", "What a method's `shield` can be: what a device does to what it sends."),
    "partition": ("Partitions", "What `federation.partition` can be; default: `iid`."),
    "aggregation": ("Aggregations", "What `federation.aggregation` can be; default: `weighted-mean`."),
}
HEAD = """# A study's fields

<!-- Written by `make schema`: change the models or the docstrings, not this page. -->

Every field of a study, and every part of fedveil that it can name. How to write a study: [Studies](studies.md). The
same as a JSON schema, for editors: [study.schema.json](study.schema.json); `fedveil schema --all` prints it with the
parts of other installed packages. A part is given by its name alone, `game: fedavg`, or with settings,
`game: {kind: fedavg, hidden: [32]}`.
"""


def published_schema() -> str:
    """Return what docs/study.schema.json holds."""
    return json.dumps(study_schema(), indent=1, ensure_ascii=False) + "\n"


def field_page() -> str:
    """Return what docs/study-fields.md holds."""
    schema = study_schema()
    lines = [HEAD]
    for model, (title, note) in SECTIONS.items():
        section = schema if model == "Study" else schema["$defs"][model]
        lines += [f"## {title}\n", f"{note or section['description']}\n"]
        lines += _table(section["properties"], section.get("required", []))
    for part, (title, note) in PARTS.items():
        lines += [f"## {title}\n", f"{note}\n"]
        for name, kind in kinds()[part].items():
            definition = schema["$defs"][f"{part}.{name}"]
            fields = {key: value for key, value in definition["properties"].items() if key != "kind"}
            lines += [f"### {part}: {name}\n", f"{_escaped(summary(kind))}\n"]
            lines += _table(fields, definition["required"], part) if fields else ["No settings.\n"]
    lines += ["## Optimisers\n", "What a setting `optimiser` can be.\n", *_optimisers(schema)]
    lines += ["## Data sets and attackers\n", *_names()]
    return "\n".join(lines).rstrip() + "\n"


def write(docs: Path) -> None:
    """Write both files."""
    write_atomically(docs / PUBLISHED, published_schema())
    write_atomically(docs / PAGE, field_page())


def _table(fields: dict[str, Any], required: list[str], part: str = "") -> list[str]:
    lines = [f"| {'setting' if part else 'field'} | type | default | meaning |", "|---|---|---|---|"]
    for name, field in fields.items():
        meaning = _escaped(field.get("description", ""))
        lines.append(f"| `{name}` | {_type(field)} | {_default(name, field, required, part)} | {_sentence(meaning)} |")
    return [*lines, ""]


def _optimisers(schema: dict[str, Any]) -> list[str]:
    forms = schema["$defs"]["game.fedavg"]["properties"]["optimiser"]["anyOf"]
    lines = []
    for form in forms:
        if "properties" in form:
            fields = {key: value for key, value in form["properties"].items() if key != "kind"}
            lines += [f"### optimiser: {form['properties']['kind']['const']}\n", f"{_escaped(form['description'])}\n"]
            lines += _table(fields, form["required"], "optimiser")
    return lines


def _names() -> list[str]:
    listed = {group: ", ".join(f"`{name}`" for name in names(group)) for group in ("fedveil.data", "fedveil.attacks")}
    return [
        f"`data.source`: {listed['fedveil.data']}. Their options: [Data](data.md).\n",
        f"`attacks.panel`: `full`, `quick`, or a list of {listed['fedveil.attacks']}.\n",
    ]


def _default(name: str, field: dict[str, Any], required: list[str], part: str) -> str:
    if name in required:
        return "required"
    if part == "partition" and name == "devices":
        return "the federation's"
    if "default" not in field:
        inner = "its fields' defaults" if "$ref" in field else "none"
        return "required, unless strengths vary it" if part else inner
    value = field["default"]
    if value is None or value == "":
        return "none"
    if isinstance(value, dict):
        if not value:
            return "none"
        inside = ", ".join(f"{key}: {json.dumps(item)}" for key, item in value.items() if item and key != "kind")
        return f"`{{kind: {value.get('kind')}, {inside}}}`"
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


def _type(field: dict[str, Any]) -> str:
    """Return a type in words."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        heading = PARTS[name][0] if name in PARTS else SECTIONS[name][0]
        return f"[{name if name in PARTS else 'section'}](#{heading.lower()})"
    if "anyOf" in field:
        if any("properties" in form for form in field["anyOf"]):
            return "[optimiser](#optimisers)"
        return " or ".join(dict.fromkeys(_type(form) for form in field["anyOf"] if form.get("type") != "null"))
    values = field.get("enum") or ([field["const"]] if "const" in field else [])
    if 0 < len(values) <= 5:
        return ", ".join(f"`{value}`" for value in values)
    kind = "string" if values else str(field.get("type", "anything"))
    if kind == "array":
        return f"list of {_type(field['items'])}"
    words = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "yes or no",
        "object": "mapping",
    }
    return words.get(kind, kind) + _bounds(field)


def _bounds(field: dict[str, Any]) -> str:
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {field[key]}" for key, sign in signs.items() if key in field]
    return f" {', '.join(bounds)}" if bounds else ""


def _sentence(text: str) -> str:
    if text[:2].isalpha():  # not a symbol, such as γ
        text = text[:1].upper() + text[1:]
    return text if not text or text.endswith(".") else text + "."


def _escaped(text: str) -> str:
    """Return text for a table's cell, with markup escaped."""
    return text.replace("|", "\\|").replace("<", "&lt;").replace("_{", "\\_{")


if __name__ == "__main__":
    write(Path(__file__).resolve().parents[2] / "docs")
