"""The published schema is the one the code generates; valid studies validate against it, usual mistakes do not."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from fedveil.cli.demo import STUDY as DEMO
from fedveil.cli.schema import schema as print_schema
from fedveil.config import parts
from fedveil.config.field_docs import PAGE, PUBLISHED, field_page, published_schema
from fedveil.config.reading import parse_yaml, read_yaml
from fedveil.config.schema import description, kinds, settings, study_schema
from fedveil.config.study import make_study
from fedveil.core.errors import InputError

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
VALIDATOR = Draft202012Validator(study_schema())
STUDY: dict[str, Any] = {
    "name": "example",
    "data": {"source": "adult", "target": "income", "sensitive": ["sex"]},
    "methods": [
        {
            "name": "adversarial",
            "game": {"kind": "adversarial", "attribute": "sex", "optimiser": {"kind": "adam", "learning_rate": 0.01}},
            "shield": {"kind": "certified", "sigma": 1},
            "strengths": [1, 2.5],
        }
    ],
}


def fault(values: Any) -> str | None:
    error = best_match(VALIDATOR.iter_errors(values))
    return None if error is None else error.message


def example_studies() -> dict[str, dict[str, Any]]:
    """Return our studies, the demo's, and the examples of the documentation."""
    studies = {path.name: read_yaml(path) for path in sorted((REPOSITORY / "studies").glob("*.yaml"))}
    studies["the demo"] = read_yaml(DEMO)
    for path in sorted(DOCS.glob("*.md")):
        blocks = re.findall(r"^```yaml\n(.*?)^```$", path.read_text("utf-8"), re.MULTILINE | re.DOTALL)
        for number, text in enumerate(blocks):
            if "methods:" in text and "data:" in text:
                studies[f"{path.name} {number}"] = parse_yaml(text, path.name)
    return studies


def test_the_published_files_are_up_to_date() -> None:
    assert (DOCS / PUBLISHED).read_text("utf-8") == published_schema(), "run: make schema"
    assert (DOCS / PAGE).read_text("utf-8") == field_page(), "run: make schema"


def test_no_row_of_the_page_lacks_its_meaning() -> None:
    rows = [line for line in field_page().splitlines() if line.startswith("| `")]
    assert len(rows) > 100
    assert [row for row in rows if not row.rstrip(" |").split(" | ")[3:]] == []
    assert [row for row in rows if re.search(r"\| \.? ?\|$", row)] == []


def test_it_is_a_schema_and_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    Draft202012Validator.check_schema(study_schema())
    print_schema(every=False)
    printed = json.loads(capsys.readouterr().out)
    assert printed == study_schema()
    assert {"$id", "title"} <= set(printed)
    unknown = re.findall(r'"(ge|gt|le|lt)":', json.dumps(printed))
    assert not unknown, "pydantic's bounds are not JSON schema's"


@pytest.mark.parametrize(("name", "values"), example_studies().items(), ids=str)
def test_our_studies_and_examples_validate(name: str, values: dict[str, Any]) -> None:
    assert fault(values) is None
    make_study(values, name)


def test_the_page_on_studies_shows_a_whole_study() -> None:
    assert any(name.startswith("studies.md") for name in example_studies())


MISTAKES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a misspelt field": lambda s: s.update(seed=[0]),
    "a field that is missing": lambda s: s.pop("data"),
    "no methods": lambda s: s.update(methods=[]),
    "a misspelt section's field": lambda s: s["data"].update(senstive=["sex"]),
    "a game that is not there": lambda s: s["methods"][0].update(game="adversarail"),
    "a setting of no game": lambda s: s["methods"][0]["game"].update(learning_rate=0.1),
    "a setting of another game": lambda s: s["methods"][0].update(game={"kind": "fedavg", "strength": 1}),
    "text for a number": lambda s: s["methods"][0]["game"].update(width="wide"),
    "yes for a number": lambda s: s["methods"][0]["game"].update(width=True),
    "an optimiser that is not there": lambda s: s["methods"][0]["game"].update(optimiser="rmsprop"),
    "an optimiser's misspelt setting": lambda s: s["methods"][0]["game"]["optimiser"].update(rate=1),
    "a setting that only Python can make": lambda s: s["methods"][0]["game"].update(encoder="mlp"),
    "a shield that is not there": lambda s: s["methods"][0].update(shield="certifed"),
    "strengths that are no list": lambda s: s["methods"][0].update(strengths=1),
    "a strength twice": lambda s: s["methods"][0].update(strengths=[1, 1]),
    "varies without a part": lambda s: s["methods"][0].update(varies="sigma"),
    "a name with a slash": lambda s: s["methods"][0].update(name="a/b"),
    "a study's name that leaves its folder": lambda s: s.update(name="../elsewhere"),
    "a share above 1": lambda s: s.update(federation={"fraction": 1.5}),
    "a partition without what it needs": lambda s: s.update(federation={"partition": "dirichlet"}),
    "an aggregation that is not there": lambda s: s.update(federation={"aggregation": "meen"}),
    "an attacker that is not there": lambda s: s.update(attacks={"panel": ["logistics"]}),
    "an attacker that is not there, in text": lambda s: s.update(attacks={"panel": "logistic,bosting"}),
    "a negative seed": lambda s: s.update(seeds=[-1]),
    "a seed twice": lambda s: s.update(seeds=[0, 0]),
    "drop_columns in words": lambda s: s.update(drop_columns="all"),
    "a view that is not there": lambda s: s.update(attacks={"view": "gradients"}),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_usual_mistakes_do_not_validate(mistake: str) -> None:
    assert fault(STUDY) is None
    wrong = deepcopy(STUDY)
    MISTAKES[mistake](wrong)
    assert fault(wrong) is not None


SHORT_FORMS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "one sensitive attribute": lambda s: s["data"].update(sensitive="sex"),
    "somebody else's data": lambda s: s["data"].update(source="survey", options={"year": 2020}),
    "a game by name": lambda s: s["methods"][0].update(game="undefended", strengths=None),
    "a shield that strengths complete": lambda s: s["methods"][0].update(shield="certified", varies="shield.sigma"),
    "no shield, said": lambda s: s["methods"][0].update(shield=None),
    "an optimiser by name": lambda s: s["methods"][0]["game"].update(optimiser="sgd"),
    "a partition by name": lambda s: s.update(federation={"partition": "iid", "aggregation": "median"}),
    "a partition of its own size": lambda s: s.update(federation={"partition": {"kind": "by-group", "devices": None}}),
    "attackers in one text": lambda s: s.update(attacks={"panel": "logistic, boosting"}),
}


@pytest.mark.parametrize("form", SHORT_FORMS)
def test_short_forms_validate_and_are_studies(form: str) -> None:
    short = deepcopy(STUDY)
    SHORT_FORMS[form](short)
    assert fault(short) is None
    make_study(short)


@pytest.mark.parametrize("part", ["game", "shield", "partition", "aggregation"])
def test_every_default_is_valid_and_is_the_parts_own(part: str) -> None:
    for name, kind in kinds()[part].items():
        defaults = {key: field["default"] for key, field in settings(kind).items() if "default" in field}
        for key, value in defaults.items():
            assert not list(Draft202012Validator(settings(kind)[key]).iter_errors(value)), f"{name}.{key}"
            fitted = parts.fitting(value, parts.settings_of(kind)[key].annotation, key)
            assert fitted == parts.settings_of(kind)[key].default


def every_setting() -> list[tuple[str, type, str]]:
    """Return all settings of all parts that a study can name, optimisers included: part, class, setting."""
    classes = [(f"{part} {name}", kind) for part, by_name in kinds().items() for name, kind in by_name.items()]
    optimisers = parts.settings_of(parts.game_class("fedavg"))["optimiser"].annotation
    classes += [(f"optimiser {kind.__name__}", kind) for kind in parts.alternatives(optimisers)]
    return [(part, kind, setting) for part, kind in classes for setting in settings(kind)]


def test_every_setting_is_described_by_the_class_that_defines_it() -> None:
    blank = [
        f"{part}: {setting}" for part, kind, setting in every_setting() if len(description(kind, setting).split()) < 2
    ]
    assert not blank, f"say under Attributes: in the docstring of the class what each means: {', '.join(blank)}"
    for part, kind, setting in every_setting():
        assert settings(kind)[setting]["description"] == description(kind, setting), f"{part}: {setting}"


def test_descriptions_are_not_borrowed() -> None:
    class Base:
        """A base.

        Attributes:
            sigma: the base's noise.
        """

        def __init__(self, sigma: float = 1.0) -> None:
            self.sigma = sigma

    class Other(Base):
        """Another class with another setting of the same name."""

        def __init__(self, sigma: float = 2.0) -> None:
            super().__init__(sigma)

    class Inheriting(Base):
        """A class that only inherits the setting."""

    assert description(Base, "sigma") == "the base's noise"
    assert description(Inheriting, "sigma") == "the base's noise"
    assert not description(Other, "sigma")
    assert not description(Base, "attribute")


def test_names_are_judged_as_a_run_judges_them() -> None:
    for name in ("a", "a/b", "a.b-c_d", "a//b", "/a", "a b", "", "ä", "a" * 80, "a" * 81, ".a", "a/"):
        values = {**STUDY, "name": name}
        assert (fault(values) is None) == _runs(values), repr(name)
    for name in ("a", "a b", "λ", "a (sex)", "a/b", "a" * 60, "a" * 61, "", " a", "x=1"):
        values = {**STUDY, "methods": [{**STUDY["methods"][0], "name": name}]}
        assert (fault(values) is None) == _runs(values), repr(name)


def _runs(values: dict[str, Any]) -> bool:
    try:
        make_study(values)
    except InputError:
        return False
    return True


def test_other_packages_change_the_whole_schema_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = study_schema()
    (tmp_path / "guests.py").write_text(
        "from fedveil.games.raw import Raw\n\n\nclass Guest(Raw):\n    '''A guest.'''\n\n    name = 'guest'\n"
    )
    metadata = tmp_path / "guests-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: guests\nVersion: 0.1\n")
    points = "[fedveil.games]\nguest = guests:Guest\nbroken = guests:Missing\n[fedveil.data]\nguests = guests:Data\n"
    (metadata / "entry_points.txt").write_text(points)
    monkeypatch.syspath_prepend(tmp_path)
    assert study_schema() == ours
    everything = study_schema(third_parties=True)
    assert everything["$defs"]["game.guest"]["description"] == "A guest."
    assert "game.broken" not in everything["$defs"]
    sys.modules.pop("guests")
    assert "guests" in everything["$defs"]["DataSection"]["properties"]["source"]["examples"]
