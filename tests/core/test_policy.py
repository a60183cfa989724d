from pathlib import Path

import pytest

from fedveil.core.errors import InputError
from fedveil.core.policy import Policy

WRITTEN = """
shield = "as-printed"   # by hand
budget = 0.01
minimal = 0.9

[hide]
race = 0.5
sex = 0.5

[zoo]
race = "zoos/race.safetensors"
"""


def test_a_policy_written_by_hand(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(WRITTEN)
    policy = Policy.read(path, ["sex", "race", "age"])
    assert policy.hide == {"race": 0.5, "sex": 0.5}
    assert (policy.shield, policy.budget, policy.minimal) == ("as-printed", 0.01, 0.9)
    assert Path(policy.zoo["race"]) == tmp_path / "zoos" / "race.safetensors"
    least = Policy.parse("[hide]\nsex = 1")
    assert (least.hide, least.shield, least.budget, least.minimal, least.zoo) == (
        {"sex": 1.0},
        "hardened",
        None,
        None,
        {},
    )
    assert Policy.parse("minimal = true\n[hide]\nsex = 0.3\nrace = 0.7\nage = 0").minimal is True


FAULTS = [
    ("[hide]\nsex = 1.2", "hide.sex: a level lies between 0 and 1; got 1.2"),
    ("[hide]\nsex = -0.1", "hide.sex: a level lies between 0 and 1"),
    ("[hide]\nsex = nan", "hide.sex: a level lies between 0 and 1"),
    ("[hide]\nsex = 0.6\nrace = 0.5", "hide: the levels add up to 1.1, and may to 1 at most"),
    ("", "hide: names no attribute"),
    ("[hide]", "hide: names no attribute"),
    ("hide = 3", "hide: must be a table"),
    ("[hide]\nsex = 'much'", "hide.sex: must be a table .hide. of levels.* got 'much'"),
    ("budget = 0\n[hide]\nsex = 1", "budget: must be above 0 and finite; got 0"),
    ("budget = -1.0\n[hide]\nsex = 1", "budget: must be above 0"),
    ("budget = inf\n[hide]\nsex = 1", "budget: must be above 0"),
    ("budget = 'x'\n[hide]\nsex = 1", "budget: must be a number"),
    ("minimal = 0.0\n[hide]\nsex = 1", "minimal: true, false, or the share"),
    ("minimal = 'x'\n[hide]\nsex = 1", "minimal: must be true, false"),
    ("shield = 1\n[hide]\nsex = 1", "shield: must be a name in quotes"),
    ("buget = 1\n[hide]\nsex = 1", "buget: no such setting: did you mean 'budget'"),
    ("[hyde]\nsex = 1", "no such setting: did you mean 'hide'|names no attribute"),
    ("[hide]\nsex = 1\n[zoo]\nrace = 'a'", "zoo.race: is not hidden by this policy"),
    ("[hide]\nsex = 1\n[zoo]\nsex = 1", "zoo.sex: must be a table"),
    ("[hide\nsex = 1", "is not TOML"),
    ("[hide]\nsex = 1\nsex = 0.5", "is not TOML"),
]


@pytest.mark.parametrize(("text", "told"), FAULTS)
def test_every_fault_is_one_clear_line(tmp_path, text, told):
    path = tmp_path / "policy.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=told) as fault:
        Policy.read(path)
    assert str(fault.value).startswith(str(path))
    assert "\n" not in str(fault.value)
    assert len(str(fault.value)) < len(str(path)) + 160


def test_unknown_attributes_list_the_known_ones(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text("[hide]\nheight = 1")
    with pytest.raises(InputError, match=r"hide.height: no such attribute; known: sex, race"):
        Policy.read(path, ["sex", "race"])


def test_what_is_no_policy_file(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        Policy.read(tmp_path / "none.toml")
    with pytest.raises(InputError, match="is a folder"):
        Policy.read(tmp_path)
    (tmp_path / "picture.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        Policy.read(tmp_path / "picture.toml")
    (tmp_path / "long.toml").write_text("#" * 200_000)
    with pytest.raises(InputError, match="more than any policy needs"):
        Policy.read(tmp_path / "long.toml")


def test_policies_are_values():
    one, other = Policy(hide={"sex": 1.0}), Policy(hide={"sex": 1.0})
    assert one == other
    assert hash(one) == hash(other)
    assert repr(one) == repr(other)
    with pytest.raises(ValueError, match="frozen"):
        one.shield = "as-printed"
