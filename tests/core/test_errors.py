from __future__ import annotations

import pytest

from fedveil.core.errors import nearest


@pytest.mark.parametrize(
    ("name", "choices", "hint"),
    [
        ("s3", ["s2", "age"], "did you mean 's2'?"),
        ("U", ["u", "y"], "did you mean 'u'?"),
        ("sx", ["sex", "race"], "did you mean 'sex'?"),
        ("c", ["a", "b"], "choose from: a, b"),
        ("qq", ["s2", "s4"], "choose from: s2, s4"),
        ("age", ["sex", "race"], "choose from: sex, race"),
        ("age", [], "there are none"),
    ],
)
def test_the_nearest_name(name: str, choices: list[str], hint: str) -> None:
    assert nearest(name, choices) == hint
