"""One policy: its file, read alike by Python, studies and Flower; and the shield that it asks for."""

from pathlib import Path

import pytest
from small_zoo import small_zoo

from fedveil.config import Policy, parse_policy, read_policy, shield_for
from fedveil.core.errors import InputError
from fedveil.core.policy import Budget, ShieldChoice
from fedveil.shields import (
    Chain,
    DPGaussian,
    DPLaplace,
    Mingle,
    PublishesWhatItHides,
    Quantise,
    RecUP,
    Sparsify,
    Transport,
)
from fedveil.shields.policies import CHANGE, unmet

WHOLE = """
shield = {kind = "dp-gaussian", clip = 1.0, sigma = 4.0}   # by hand
metrics = ["num-examples", "train_loss"]
tell = ["damage", "spent"]
ledger = "kept/ledger.jsonl"
[budget]
messages = 50
evaluations = 10
epsilon = 8
delta = 1e-5
"""


def read(folder: Path, text: str) -> Policy:
    path = folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return read_policy(path)


def test_a_whole_policy_is_read(tmp_path):
    policy = read(tmp_path, WHOLE)
    assert policy.chosen == (ShieldChoice("dp-gaussian", {"clip": 1.0, "sigma": 4.0}),)
    assert policy.metrics == ("num-examples", "train_loss")
    assert policy.tell == {"damage", "spent"}
    assert policy.ledger == tmp_path / "kept" / "ledger.jsonl"
    assert policy.budget == Budget(50, 10, 8.0, 1e-5)
    assert policy.path == tmp_path / "policy.toml"
    shield = shield_for(policy)
    assert isinstance(shield, DPGaussian)
    assert (shield.clip, shield.sigma) == (1.0, 4.0)


BY_HAND = """
shield = {kind = "recup", budget = 0.01, minimal = 0.9}

[hide]
race = 0.5
sex = 0.5

[zoo]
race = "zoos/race.safetensors"
"""


def test_a_policy_written_by_hand(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text(BY_HAND)
    policy = read_policy(path, ["sex", "race", "age"])
    assert policy.hide == {"race": 0.5, "sex": 0.5}
    assert policy.chosen == (ShieldChoice("recup", {"budget": 0.01, "minimal": 0.9}),)
    assert {name: Path(file) for name, file in policy.zoo.items()} == {"race": tmp_path / "zoos" / "race.safetensors"}
    least = parse_policy("[hide]\nsex = 0.3\nrace = 0.7\nage = 0")
    assert (least.hide, least.zoo, least.own) == ({"sex": 0.3, "race": 0.7, "age": 0.0}, {}, {})


def test_two_lines_get_the_recommended_shield():
    policy = parse_policy("[hide]\nsex = 1")
    assert (dict(policy.hide), policy.chosen) == ({"sex": 1.0}, (ShieldChoice("recommended"),))
    assert (policy.metrics, policy.tell, policy.budget) == (("num-examples",), frozenset(), Budget())
    shield = shield_for(policy)
    assert isinstance(shield, Mingle)
    assert (shield.attribute, shield.budget) == ("sex", CHANGE)


def test_the_recommended_change_is_divided_by_levels():
    text = 'shield = {kind = "recommended", change = 0.2}\n[hide]\nsex = 0.25\nrace = 0.75\nage = 0.0'
    both = shield_for(parse_policy(text))
    assert isinstance(both, Chain)
    assert {member.attribute: member.budget for member in both.shields} == {"sex": 0.05, "race": pytest.approx(0.15)}


def test_a_list_is_a_chain():
    shield = shield_for(parse_policy('shield = [{kind = "quantise", bits = 4}, {kind = "dp-laplace", scale = 2.0}]'))
    assert [type(member) for member in shield.shields] == [Quantise, DPLaplace]
    mixed = shield_for(parse_policy('shield = ["recommended", {kind = "sparsify", p = 0.5}]\n[hide]\nsex = 1.0'))
    assert [type(member) for member in mixed.shields] == [Mingle, Sparsify]


def test_any_registered_shield_can_be_named():
    shield = shield_for(parse_policy('shield = {kind = "transport", attribute = "sex", codes = 50}'))
    assert isinstance(shield, Transport)
    assert shield.codes == 50


def test_another_content_has_another_digest(tmp_path):
    assert read(tmp_path, WHOLE).digest != read(tmp_path, WHOLE + "# ").digest


FORMER = {
    'shield = "hardened"\n[hide]\nsex = 1': Policy(hide={"sex": 1.0}, shield="recommended"),
    "budget = 0.2\n[hide]\nsex = 1": Policy(hide={"sex": 1.0}, shield={"kind": "recommended", "change": 0.2}),
    'shield = "hardened"\nbudget = 1\n[hide]\nsex = 1': Policy(
        hide={"sex": 1.0}, shield={"kind": "recommended", "change": 1}
    ),
}


@pytest.mark.parametrize("text", FORMER)
def test_a_former_policy_that_means_the_same_is_read(text):
    policy = parse_policy(text)
    assert (policy.hide, policy.shield) == (FORMER[text].hide, FORMER[text].shield)


REPLACED = {
    'shield = "as-printed"\n[hide]\nsex = 1': 'write shield = {kind = "recup", epsilon = 0.001}',
    'shield = "as-printed"\nbudget = 0.01\nminimal = true\n[hide]\nsex = 1': (
        'write shield = {kind = "recup", budget = 0.01, minimal = true}'
    ),
    "minimal = 0.9\n[hide]\nsex = 1": 'write shield = {kind = "recup", epsilon = 0.001, minimal = 0.9}',
    "minimal = 0.0\n[hide]\nsex = 1": "minimal: is now part of the shield",
    "minimal = 'x'\n[hide]\nsex = 1": "minimal: is now part of the shield",
    'shield = {kind = "quantise"}\nbudget = 3': "budget: is a table of limits; write [budget]",
    "budget = 0\n[hide]\nsex = 1": "budget: must be above 0 and finite; got 0",
    "budget = -1.0\n[hide]\nsex = 1": "budget: must be above 0",
    "budget = inf\n[hide]\nsex = 1": "budget: must be above 0",
}
SIMPLE = 'shield = "quantise"\n'
RECUP = 'shield = {kind = "recup", budget = 0.1}\n'
BAD = REPLACED | {
    "shield = [": "not TOML",
    "[hide\nsex = 1": "not TOML",
    "[hide]\nsex = 1\nsex = 0.5": "not TOML",
    "": "hide: names no attribute; write a table [hide]",
    "[hide]": "hide: names no attribute",
    "hide = 3": "hide: 3 is not allowed; it should be a table [hide] of levels",
    "[hide]\nsex = 'much'": "hide.sex: 'much' is not allowed; it should be a table [hide] of levels",
    "[hide]\nsex = 2.0": "hide.sex: a level lies between 0 and 1",
    "[hide]\nsex = -0.1": "hide.sex: a level lies between 0 and 1; got -0.1",
    "[hide]\nsex = nan": "hide.sex: a level lies between 0 and 1; got nan",
    "[hide]\nsex = 0.6\nrace = 0.5": "hide: the levels add up to 1.1, and may add up to at most 1",
    "[hyde]\nsex = 1": "hyde: no such setting: did you mean 'hide'?",
    "buget = 1\n[hide]\nsex = 1": "buget: no such setting: did you mean 'budget'?",
    "shild = 1": "shild: no such setting: did you mean 'shield'?",
    "shield = 3": "shield: 3 is not allowed; it should be a name or a table",
    "shield = {}": "shield.kind: is missing",
    "shield = []": "shield: the list is empty",
    "shield = {kind = 3}": "shield.kind: is missing",
    "budget = 'x'": "budget: 'x' is not allowed; it should be a table",
    "[hide]\nsex = 1\n[zoo]\nrace = 'a'": "zoo.race: is not hidden by this policy",
    "[hide]\nsex = 1\n[zoo]\nsex = 1": "zoo.sex: 1 is not allowed; it should be a table [zoo] of files",
    'shield = "recomended"\n[hide]\nsex = 1': (
        "shield.kind: shield 'recomended' is not known: did you mean 'recommended'?"
    ),
    'shield = {kind = "recommended", chnage = 1}\n[hide]\nsex = 1': "unknown setting 'chnage': did you mean 'change'?",
    'shield = {kind = "recommended", change = 0}\n[hide]\nsex = 1': "shield.change: must be above 0 and finite; got 0",
    "[hide]\nsex = 0.0": "hide: every level is 0",
    '[hide]\nsex = 1.0\n[zoo]\nsex = "sex.safetensors"': "zoo: recommended does not use it; leave [zoo] out",
    'shield = {kind = "dp-gausian"}': "shield.kind: shield 'dp-gausian' is not known: did you mean 'dp-gaussian'?",
    'shield = {kind = "dp-gaussian", sigm = 1.0}': "shield: unknown setting 'sigm': did you mean 'sigma'?",
    'shield = {kind = "dp-gaussian", sigma = "1"}': "shield.sigma: '1' is text and should be a number",
    'shield = {kind = "dp-gaussian", sigma = [1]}': "shield.sigma: [1] is not allowed",
    'shield = {kind = "dp-gaussian", sigma = 1, place = "here"}': "shield.place: 'here' is not allowed",
    'shield = {kind = "dp-gaussian", sigma = -1}': "sigma must be above 0",
    SIMPLE + "metrics = 3": "metrics: 3 is not allowed",
    SIMPLE + "metrics = [3]": "metrics.0: 3 is not allowed",
    SIMPLE + 'metrics = ["fedveil-l2"]': "metrics: 'fedveil-l2' is a name that the mod itself uses",
    SIMPLE + 'tell = ["all"]': "tell.0: 'all' is not allowed",
    SIMPLE + "ledger = 3": "ledger: 3 is not allowed",
    SIMPLE + 'ledger = ""': "ledger: '' is not allowed",
    SIMPLE + "[budget]\nmessage = 1": "budget.message: no such setting: did you mean 'messages'?",
    SIMPLE + "[budget]\nmessages = 0": "budget.messages: 0 is not allowed",
    SIMPLE + "[budget]\nmessages = 1.5": "budget.messages: 1.5 is not allowed",
    SIMPLE + "[budget]\nmessages = true": "budget.messages: True is not allowed",
    SIMPLE + "[budget]\nepsilon = nan\ndelta = 1e-5": "budget.epsilon: nan is not allowed",
    SIMPLE + "[budget]\ndelta = 1e-5": "budget.delta: has no epsilon beside it",
    SIMPLE + "[budget]\nepsilon = 1.0\ndelta = 1.0": "budget.delta: 1.0 is not allowed",
    SIMPLE + "[hide]\nsex = 1.0": "hide: quantise does not use it; leave [hide] out",
    SIMPLE + '[zoo]\nsex = "sex.safetensors"': "zoo: quantise does not use it; leave [zoo] out",
    SIMPLE + '[own]\nsex = "m"': "own: quantise does not use it; leave [own] out",
    RECUP: "recup hides attributes: write [hide]",
    RECUP + "[hide]\nsex = 1.0": "hide.sex: has no zoo; write under [zoo]",
    RECUP + "[hide]\nsex = 2.0": "hide.sex: a level lies between 0 and 1",
    RECUP + '[hide]\nsex = "high"': "hide.sex: 'high' is not allowed",
}


@pytest.mark.parametrize("text", BAD)
def test_a_fault_is_one_line_with_the_file_and_the_key(tmp_path, text):
    with pytest.raises(InputError) as fault:
        shield_for(read(tmp_path, text))
    line = str(fault.value)
    assert line.startswith(f"{tmp_path / 'policy.toml'}: ")
    assert BAD[text] in line
    assert "\n" not in line
    assert len(line) < len(str(tmp_path / "policy.toml")) + 160


def test_unknown_attributes_list_the_known_ones(tmp_path):
    path = tmp_path / "policy.toml"
    path.write_text("[hide]\nheight = 1")
    with pytest.raises(InputError, match=r"policy\.toml: hide.height: no such attribute; known: sex, race"):
        read_policy(path, ["sex", "race"])


def test_files_that_are_not_policies_are_refused(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        read_policy(tmp_path / "none.toml")
    with pytest.raises(InputError, match="is a folder"):
        read_policy(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        read_policy(tmp_path / "bytes")
    (tmp_path / "long.toml").write_text("#" * 200_000)
    with pytest.raises(InputError, match="more than any policy needs"):
        read_policy(tmp_path / "long.toml")


def test_a_fit_is_loaded_from_the_policys_folder(tmp_path):
    policy = read(tmp_path, 'shield = {kind = "unread", noise = "means", fit = "kept/fit.safetensors"}')
    with pytest.raises(InputError, match=str(tmp_path / "kept" / "fit.safetensors")):
        shield_for(policy)


def test_zoos_are_given_or_loaded_from_the_policys_folder(tmp_path):
    zoos = {"sex": small_zoo(), "race": small_zoo("race")}
    settings = {"kind": "recup", "epsilon": 1e-3}
    policy = Policy(hide={"sex": 0.6, "race": 0.4}, shield=settings)
    with pytest.warns(PublishesWhatItHides):
        shield = shield_for(policy, zoos)
    assert isinstance(shield, RecUP)
    assert (shield.levels, shield.epsilon, shield.budget) == ({"sex": 0.6, "race": 0.4}, 1e-3, None)
    zoos["race"].save(tmp_path / "race.safetensors")
    text = 'shield = {kind = "recup", budget = 0.5, minimal = true}\n[hide]\nsex = 0.6\nrace = 0.4\nage = 0\n'
    written = read(tmp_path, text + '[zoo]\nrace = "race.safetensors"\n')
    with pytest.warns(PublishesWhatItHides):
        loaded = shield_for(written, {"sex": zoos["sex"]})
    assert (loaded.budget, loaded.minimal, set(loaded.zoos)) == (0.5, True, {"sex", "race"})
    with pytest.raises(InputError, match=r"hide.race: has no zoo; write under \[zoo\]"):
        shield_for(policy, {"sex": zoos["sex"]})
    with pytest.raises(InputError, match=r"zoo\.sex: is a zoo for 'race'; name the one for 'sex'"):
        shield_for(policy, {"sex": zoos["race"], "race": zoos["race"]})


def test_a_shield_is_compared_with_a_policy_kind_by_kind_and_setting_by_setting():
    policy = parse_policy('shield = [{kind = "quantise", bits = 4}, {kind = "dp-gaussian", sigma = 4.0}]')
    assert unmet(policy, shield_for(policy)) is None
    assert "ask for the shield quantise, dp-gaussian" in unmet(policy, Quantise(4))
    weak = Chain([Quantise(4), DPGaussian(sigma=1.0)])
    assert "ask for dp-gaussian with sigma = 4.0, but the shield" in unmet(policy, weak)
    hidden = parse_policy("[hide]\nsex = 1.0")
    assert unmet(hidden, Mingle("sex", 0.1)) is None
    assert "budget = 0.1" in unmet(hidden, Mingle("sex", 0.05))
    assert "attribute = 'sex'" in unmet(hidden, Mingle("race", 0.1))
