from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest

import fedveil.data
from fedveil import plugins
from fedveil.data import Attribute, AttributeData, Source
from fedveil.errors import InputError


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


def test_ours_are_listed():
    assert {"adult", "coloured_digits", "loans", "synthetic", "table"} <= set(fedveil.data.available())


def test_third_parties_register_theirs(monkeypatch):
    points = {name: EntryPoint(name, f"elsewhere:{name}", "fedveil.data") for name in ("foreign", "odd")}
    monkeypatch.setattr(plugins, "found", lambda group: points)
    monkeypatch.setattr(EntryPoint, "load", lambda self: Foreign if self.name == "foreign" else object)
    assert fedveil.data.available() == ["foreign", "odd"]
    assert len(fedveil.data.load("foreign", sensitive="u", n=12)) == 12
    with pytest.raises(InputError, match=r"is no fedveil\.data\.Source"):
        fedveil.data.load("odd", sensitive="u")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ({"name": "adullt", "sensitive": "sex"}, "did you mean 'adult'"),
        ({"name": "adult", "sensitive": []}, "name at least one sensitive attribute: sex, race, marital-status"),
        ({"name": "adult", "sensitive": "sexx"}, "no sensitive attribute 'sexx': did you mean 'sex'"),
        ({"name": "adult", "sensitive": "sex", "target": "incom"}, "no target 'incom': did you mean 'income'"),
        ({"name": "adult", "sensitive": "sex", "validatoin": 0.2}, "no option 'validatoin': did you mean 'validation'"),
    ],
)
def test_misspelt_requests_are_answered_with_the_nearest(call, says):
    with pytest.raises(InputError, match=says):
        fedveil.data.load(**call)


def test_importing_the_package_imports_nothing_heavy():
    heavy = ["pooch", "requests", "sklearn", "pyarrow.csv", "pyarrow.parquet"]
    code = f"import sys, fedveil.data, fedveil.tables; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
