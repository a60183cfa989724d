from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest
from typer.testing import CliRunner

import fedveil.data
from fedveil.cli.data import app
from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.data import Attribute, AttributeData, Source


class Foreign(Source):
    """A third party's source."""

    name = "foreign"
    description = "for tests"
    attributes = ("u",)

    def read(self, target, sensitive, seed, n=8):
        codes = np.arange(n) % 2
        return AttributeData(
            x=np.zeros((n, 1), dtype=np.float32),
            attributes={"u": Attribute("u", codes, ("a", "b"))},
            split=np.repeat([0, 2], n // 2).astype(np.int8),
        )


def test_built_in_sources_are_listed():
    assert {"adult", "coloured_digits", "loans", "synthetic", "table"} <= set(fedveil.data.available())


def test_third_parties_can_register_sources(monkeypatch):
    points = {name: EntryPoint(name, f"elsewhere:{name}", "fedveil.data") for name in ("foreign", "odd")}
    monkeypatch.setattr(plugins, "registered", lambda group: points)
    monkeypatch.setattr(EntryPoint, "load", lambda self: Foreign if self.name == "foreign" else object)
    assert fedveil.data.available() == ["foreign", "odd"]
    assert len(fedveil.data.load("foreign", sensitive="u", n=12)) == 12
    with pytest.raises(
        InputError,
        match=r"data set 'odd' \(elsewhere:odd\) is not a fedveil\.data\.source\.Source; correct its package",
    ):
        fedveil.data.load("odd", sensitive="u")


@pytest.fixture
def broken_package(tmp_path, monkeypatch):
    """Install a package whose sources each fail in a different way."""
    (tmp_path / "broken_sources.py").write_text(
        "from fedveil.data import Source\n"
        "class Unfinished(Source):\n    name = description = 'unfinished'\n"
        "class Nameless(Source):\n    def read(self): ...\n"
        "def factory(): ...\n"
    )
    (tmp_path / "raising.py").write_text("raise RuntimeError('no licence\\nfound')\n")
    (tmp_path / "leaving.py").write_text("import sys; sys.exit('good bye')\n")
    points = {
        "unfinished": "broken_sources:Unfinished", "nameless": "broken_sources:Nameless",
        "factory": "broken_sources:factory", "absent": "nowhere_at_all:X",
        "raising": "raising:X", "leaving": "leaving:X",
    }  # fmt: skip
    metadata = tmp_path / "broken-0.1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 0.1\n")
    lines = ["[fedveil.data]", *(f"{name} = {value}" for name, value in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield points
    sys.modules.pop("broken_sources", None)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raising", "data set 'raising' (raising:X) cannot be loaded: RuntimeError: no licence found; reinstall"),
        ("leaving", "cannot be loaded: SystemExit: good bye"),
        ("absent", "cannot be loaded: ModuleNotFoundError: No module named 'nowhere_at_all'"),
        ("factory", "(broken_sources:factory) is not a fedveil.data.source.Source; correct its package"),
        ("unfinished", "data set 'unfinished' cannot be created: "),
        ("nameless", "data set 'nameless' states no name; correct its package"),
    ],
)
def test_a_foreign_source_that_fails_is_refused_in_one_line(broken_package, name, message):
    with pytest.raises(InputError) as caught:
        fedveil.data.load(name, sensitive="u")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_others_are_listed_beside_those_that_fail(broken_package, nowhere):
    ran = CliRunner().invoke(app, ["list", "--json"])
    assert ran.exit_code == 0
    where = {row["name"]: row["where"] for row in json.loads(ran.stdout)["sources"]}
    assert where["synthetic"] == "needs no files"
    assert "RuntimeError" in where["raising"]
    assert set(broken_package) <= set(where)


def test_any_column_may_be_sensitive_but_one_must_be(tmp_path):
    with pytest.raises(InputError, match=r"^table: name at least one sensitive attribute, any of its columns$"):
        fedveil.data.load("table", sensitive=[])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"name": "adullt", "sensitive": "sex"}, "did you mean 'adult'"),
        ({"name": "adult", "sensitive": []}, "name at least one sensitive attribute: sex, race, marital-status"),
        ({"name": "adult", "sensitive": "sexx"}, "no sensitive attribute 'sexx': did you mean 'sex'"),
        ({"name": "adult", "sensitive": "sex", "target": "incom"}, "no target 'incom': did you mean 'income'"),
        ({"name": "adult", "sensitive": "sex", "validatoin": 0.2}, "no option 'validatoin': did you mean 'validation'"),
    ],
)
def test_misspelt_requests_are_answered_with_the_nearest(call, message):
    with pytest.raises(InputError, match=message):
        fedveil.data.load(**call)


def test_importing_the_package_imports_nothing_heavy():
    heavy = ["pooch", "requests", "sklearn", "pyarrow.csv", "pyarrow.parquet"]
    code = f"import sys, fedveil.data, fedveil.data.tables; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
