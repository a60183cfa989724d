"""A site's policy: what is written wrongly is refused in one line that names the file and the key."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from small_zoo import small_zoo

from fedveil.core.errors import InputError
from fedveil.flower.policy_file import SitePolicy
from fedveil.flower.spending import Budget
from fedveil.shields import Chain, DPGaussian, DPLaplace, Quantise, RecUP

WHOLE = """
shield = {kind = "dp-gaussian", clip = 1.0, sigma = 4.0}
metrics = ["num-examples", "train_loss"]
tell = ["damage", "spent"]
ledger = "kept/ledger.jsonl"
[budget]
messages = 50
evaluations = 10
epsilon = 8
delta = 1e-5
"""


def read(folder: Path, text: str) -> SitePolicy:
    path = folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return SitePolicy.read(path)


def test_a_whole_policy_is_read(tmp_path: Path) -> None:
    policy = read(tmp_path, WHOLE)
    assert policy.metrics == ("num-examples", "train_loss")
    assert policy.tell == {"damage", "spent"}
    assert policy.ledger == tmp_path / "kept" / "ledger.jsonl"
    assert policy.budget == Budget(50, 10, 8.0, 1e-5)
    shield = policy.make()
    assert isinstance(shield, DPGaussian)
    assert (shield.clip, shield.sigma) == (1.0, 4.0)


def test_what_is_unsaid_is_strict(tmp_path: Path) -> None:
    policy = read(tmp_path, 'shield = {kind = "dp-gaussian", sigma = 4.0}')
    assert policy.metrics == ("num-examples",)
    assert not policy.tell
    assert policy.ledger == tmp_path / "ledger.jsonl"


def test_a_list_is_a_chain(tmp_path: Path) -> None:
    shield = read(tmp_path, 'shield = [{kind = "quantise", bits = 4}, {kind = "dp-laplace", scale = 2.0}]').make()
    assert isinstance(shield, Chain)
    assert [type(own) for own in shield.shields] == [Quantise, DPLaplace]


def test_another_content_has_another_digest(tmp_path: Path) -> None:
    assert read(tmp_path, WHOLE).digest != read(tmp_path, WHOLE + "# ").digest


SIMPLE = 'shield = {kind = "quantise"}\n'
BAD = {
    "shield = [": "not TOML",
    "": "shield: is missing",
    "shild = 1": "shild: no such setting: did you mean 'shield'?",
    "shield = 3": "shield: 3 is not allowed",
    "shield = {}": "shield.kind: is missing",
    "shield = []": "shield: names none",
    "shield = {kind = 3}": "shield.kind: is missing",
    'shield = {kind = "dp-gausian"}': "shield.kind: shield 'dp-gausian' is not known: did you mean 'dp-gaussian'?",
    'shield = {kind = "dp-gaussian", sigm = 1.0}': "shield: unknown setting 'sigm': did you mean 'sigma'?",
    'shield = {kind = "dp-gaussian", sigma = "1"}': "shield.sigma: '1' is a text and should be a number",
    'shield = {kind = "dp-gaussian", sigma = [1]}': "shield.sigma: [1] is not allowed",
    'shield = {kind = "dp-gaussian", sigma = 1, place = "here"}': "shield.place: 'here' is not allowed",
    'shield = {kind = "dp-gaussian", sigma = -1}': "sigma must be above 0",
    'shield = {kind = "dp-gaussian", sigma = 1, place = "input"}': "belongs where the app loads its data",
    'shield = {kind = "dp-laplace", scale = 1, place = "representation"}': "belongs where those leave",
    'shield = [{kind = "quantise"}, {kind = "dp-gaussian", sigma = 1, place = "input"}]': "loads its data",
    'shield = {kind = "soteria"}': "soteria needs the records behind an update, one by one",
    'shield = {kind = "dp-sgd", sigma = 1.0}': "dp-sgd needs the records behind an update, one by one",
    'shield = {kind = "mingle", attribute = "sex"}': "mingle changes records before training",
    'shield = {kind = "transport"}': "transport changes records before training",
    'shield = {kind = "drop-columns"}': "drop-columns changes records before training",
    'shield = {kind = "unread"}': "unread learns from all devices' records beforehand",
    'shield = {kind = "certified"}': "certified works on representation",
    SIMPLE + "metrics = 3": "metrics: 3 is not allowed",
    SIMPLE + "metrics = [3]": "metrics.0: 3 is not allowed",
    SIMPLE + 'metrics = ["fedveil-l2"]': "metrics: 'fedveil-l2' is a name that the mod itself uses",
    SIMPLE + 'tell = ["all"]': "tell.0: 'all' is not allowed",
    SIMPLE + "ledger = 3": "ledger: 3 is not allowed",
    SIMPLE + 'ledger = ""': "ledger: '' is not allowed",
    SIMPLE + "budget = 3": "budget: 3 is not allowed; it should be a table",
    SIMPLE + "[budget]\nmessage = 1": "budget.message: no such setting: did you mean 'messages'?",
    SIMPLE + "[budget]\nmessages = 0": "budget.messages: 0 is not allowed",
    SIMPLE + "[budget]\nmessages = 1.5": "budget.messages: 1.5 is not allowed",
    SIMPLE + "[budget]\nmessages = true": "budget.messages: True is not allowed",
    SIMPLE + "[budget]\nepsilon = nan\ndelta = 1e-5": "budget.epsilon: nan is not allowed",
    SIMPLE + "[budget]\ndelta = 1e-5": "budget.delta: has no epsilon beside it",
    SIMPLE + "[budget]\nepsilon = 1.0\ndelta = 1.0": "budget.delta: 1.0 is not allowed",
    SIMPLE + "[budget]\nepsilon = 1.0\ndelta = 1e-5": "budget.epsilon: this shield has no differential privacy",
    'shield = {kind = "dp-gaussian", sigma = 1}\n[budget]\nepsilon = 9.0': "budget.delta: is missing",
    'shield = {kind = "dp-gaussian", sigma = 1, clip = 9}\n[budget]\nepsilon = 1.0\ndelta = 1e-5': "single update",
    SIMPLE + "[hide]\nsex = 1.0": "hide: quantise does not work by attributes",
    SIMPLE + '[zoo]\nsex = "sex.safetensors"': "zoo: quantise does not work by attributes",
    'shield = {kind = "recup", budget = 0.1}': "recup hides attributes: write [hide]",
    'shield = {kind = "recup", budget = 0.1}\n[hide]\nsex = 1.0': "hide.sex: has no zoo",
    'shield = {kind = "recup", budget = 0.1}\n[hide]\nsex = 2.0': "hide.sex: a level lies between 0 and 1",
    'shield = {kind = "recup", budget = 0.1}\n[hide]\nsex = "high"': "hide.sex: 'high' is not allowed",
}


@pytest.mark.parametrize("text", BAD)
def test_a_fault_is_told_in_one_line(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as fault:
        read(tmp_path, text).make()
    line = str(fault.value)
    assert line.startswith(f"{tmp_path / 'policy.toml'}: ")
    assert BAD[text] in line
    assert "\n" not in line


def test_files_that_are_no_policy(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        SitePolicy.read(tmp_path / "none.toml")
    with pytest.raises(InputError, match="is a folder"):
        SitePolicy.read(tmp_path)
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="not UTF-8"):
        SitePolicy.read(tmp_path / "bytes")


RECUP = """
shield = {{kind = "recup", budget = 0.1{more}}}
[hide]
{hidden} = 1.0
[zoo]
{zoo} = "{file}"
[own]
{own} = "{value}"
"""


def recup(folder: Path, **other: str) -> SitePolicy:
    small_zoo().save(folder / "sex.safetensors")
    usual = {"more": "", "hidden": "sex", "zoo": "sex", "file": "sex.safetensors", "own": "sex", "value": "m"}
    return read(folder, RECUP.format(**(usual | other)))


def test_a_zoo_is_loaded_and_the_sites_own_value_is_found_in_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = recup(tmp_path)
    with caplog.at_level(logging.WARNING):
        shield = policy.make()
    assert isinstance(shield, RecUP)
    assert shield.levels == {"sex": 1.0}
    assert policy.known(shield)["u:sex"].tolist() == [1]
    assert "publishes what it hides" in caplog.text  # the person at the site is told
    again = policy.make()
    assert isinstance(again, RecUP)
    assert again.zoos["sex"] is shield.zoos["sex"]  # one file is loaded once
    (tmp_path / "sex.safetensors").write_bytes(b"changed")
    with pytest.raises(InputError, match=r"zoo\.sex: "):
        policy.make()


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"hidden": "race", "zoo": "race", "own": "race"}, "zoo.race: is a zoo for 'sex'; name the one for 'race'"),
        ({"zoo": "sexx"}, "zoo.sexx: is not hidden by this policy: did you mean 'sex'?"),
        ({"own": "sexx"}, "own.sexx: is not hidden here: did you mean 'sex'?"),
        ({"value": "other"}, "own.sex: 'other' is no value of it; its zoo knows: f, m"),
        ({"file": "none.safetensors"}, "zoo.sex: "),
        ({"file": "policy.toml"}, "zoo.sex: "),
        ({"more": ", step = 3"}, "shield: unknown setting 'step'"),
        ({"more": ', iterations = "many"'}, "shield.iterations: 'many' is a text"),
        ({"more": ", iterations = 0"}, "iterations is a whole number from 1 on"),
        ({"more": ', zoos = ["sex.safetensors"]'}, "shield.zoos: belongs in the table [zoo]"),
        ({"more": ", levels = {sex = 1.0}"}, "shield.levels: belongs in the table [hide]"),
    ],
)
def test_a_zoo_that_does_not_fit_is_refused(tmp_path: Path, other: dict[str, str], told: str) -> None:
    with pytest.raises(InputError) as fault:
        recup(tmp_path, **other).make()
    assert str(fault.value).startswith(f"{tmp_path / 'policy.toml'}: ")
    assert told in str(fault.value)
