"""What a policy says: levels, a shield or a chain; invalid values are refused."""

import dataclasses

import pytest

from fedveil.core.errors import InputError
from fedveil.core.policy import Policy, ShieldChoice


def test_a_shield_is_named_alone_with_settings_or_in_a_chain():
    assert Policy(hide={"sex": 1.0}).chosen == (ShieldChoice("recommended"),)
    assert Policy(shield="quantise").chosen == (ShieldChoice("quantise"),)
    noise = {"kind": "dp-gaussian", "sigma": 4.0}
    assert Policy(shield=noise).chosen == (ShieldChoice("dp-gaussian", {"sigma": 4.0}),)
    chain = Policy(shield=["quantise", noise])
    assert [choice.kind for choice in chain.chosen] == ["quantise", "dp-gaussian"]
    assert [str(choice) for choice in chain.chosen] == ["quantise", "dp-gaussian (sigma = 4.0)"]


def test_equal_policies_have_one_hash_and_protect_alike():
    whole, decimal = Policy(hide={"sex": 1}, tell=frozenset({"damage", "spent"})), Policy(hide={"sex": 1.0})
    assert Policy(hide={"sex": 1}) == decimal
    assert hash(Policy(hide={"sex": 1})) == hash(decimal)
    assert whole.protection == dataclasses.replace(decimal, ledger="elsewhere.jsonl").protection
    assert decimal.protection != Policy(hide={"sex": 0.5}).protection
    assert decimal.protection != Policy(hide={"sex": 1.0}, shield="quantise").protection


FAULTS = [
    ({"hide": {"sex": 1.2}}, "hide.sex: a level lies between 0 and 1; got 1.2"),
    ({"hide": {"sex": -0.1}}, "hide.sex: a level lies between 0 and 1"),
    ({"hide": {"sex": float("nan")}}, "hide.sex: a level lies between 0 and 1"),
    ({"hide": {"sex": "much"}}, "hide.sex: a level is a number between 0 and 1; got 'much'"),
    ({"hide": {"sex": True}}, "hide.sex: a level is a number"),
    ({"hide": {"sex": 0.6, "race": 0.5}}, "hide: the levels add up to 1.1, and may add up to at most 1"),
    ({}, "hide: names no attribute"),
    ({"shield": ["recommended", "quantise"]}, "hide: names no attribute"),
    ({"shield": []}, "shield: the list is empty"),
    ({"shield": {}}, "shield.kind: is missing"),
    ({"shield": [3]}, "shield.kind: is missing"),
    ({"shield": {"kind": 3}}, "shield.kind: is missing"),
    ({"hide": {"sex": 1.0}, "zoo": {"race": "a"}}, "zoo.race: is not hidden by this policy"),
    ({"hide": {"sex": 1.0}, "own": {"sexx": "m"}}, "own.sexx: is not hidden by this policy: did you mean 'sex'"),
]


@pytest.mark.parametrize(("settings", "line"), FAULTS)
def test_every_fault_is_one_clear_line(settings, line):
    with pytest.raises(InputError, match=line) as fault:
        Policy(**settings)
    assert str(fault.value).startswith("policy: ")
    assert "\n" not in str(fault.value)
    assert len(str(fault.value)) < 160


def test_unknown_attributes_list_the_known_ones():
    with pytest.raises(InputError, match=r"policy: hide.height: no such attribute; known: sex, race"):
        Policy(hide={"height": 1.0}).check(["sex", "race"])


def test_policies_are_values():
    first, second = Policy(hide={"sex": 1.0}), Policy(hide={"sex": 1.0})
    assert first == second
    assert hash(first) == hash(second)
    assert repr(first) == repr(second)
    with pytest.raises(dataclasses.FrozenInstanceError):
        first.shield = "none"
