"""A site's shield: what cannot work on an update alone is refused in one line that names the policy's file and key."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from small_zoo import small_zoo

from fedveil.config import read_policy
from fedveil.core.errors import InputError
from fedveil.core.policy import Policy
from fedveil.flower.site_shield import own_values, site_shield
from fedveil.shields import Chain, DPGaussian, DPLaplace, Quantise, RecUP


def read(folder: Path, text: str) -> Policy:
    path = folder / "policy.toml"
    path.write_text(text, encoding="utf-8")
    return read_policy(path)


def test_a_shield_that_works_on_updates_is_made(tmp_path: Path) -> None:
    shield = site_shield(read(tmp_path, 'shield = {kind = "dp-gaussian", clip = 1.0, sigma = 4.0}'))
    assert isinstance(shield, DPGaussian)
    assert (shield.clip, shield.sigma) == (1.0, 4.0)
    chain = site_shield(read(tmp_path, 'shield = [{kind = "quantise", bits = 4}, {kind = "dp-laplace", scale = 2.0}]'))
    assert isinstance(chain, Chain)
    assert [type(member) for member in chain.shields] == [Quantise, DPLaplace]


def test_defaults_are_strict(tmp_path: Path) -> None:
    policy = read(tmp_path, 'shield = {kind = "dp-gaussian", sigma = 4.0}')
    assert policy.metrics == ("num-examples",)
    assert not policy.tell
    assert policy.ledger == tmp_path / "ledger.jsonl"


SIMPLE = 'shield = {kind = "quantise"}\n'
BAD = {
    "[hide]\nsex = 1.0": "recommended changes records before training, but a mod sees only the update; name a shield "
    "that works on updates: dp-gaussian, dp-laplace,",
    'shield = "hardened"\n[hide]\nsex = 1.0': "recommended changes records before training",
    'shield = ["quantise", "recommended"]\n[hide]\nsex = 1.0': "recommended changes records before training",
    'shield = {kind = "dp-gausian"}': "shield.kind: shield 'dp-gausian' is not known: did you mean 'dp-gaussian'?",
    'shield = {kind = "dp-gaussian", sigm = 1.0}': "shield: unknown setting 'sigm': did you mean 'sigma'?",
    'shield = {kind = "dp-gaussian", sigma = "1"}': "shield.sigma: '1' is text and should be a number",
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
    SIMPLE + "[budget]\nepsilon = 1.0\ndelta = 1e-5": "budget.epsilon: this shield has no differential privacy",
    'shield = {kind = "dp-gaussian", sigma = 1}\n[budget]\nepsilon = 9.0': "budget.delta: is missing",
    'shield = {kind = "dp-gaussian", sigma = 1, clip = 9}\n[budget]\nepsilon = 1.0\ndelta = 1e-5': "single update",
    SIMPLE + "[hide]\nsex = 1.0": "hide: quantise does not use it",
    SIMPLE + '[zoo]\nsex = "sex.safetensors"': "zoo: quantise does not use it",
    'shield = {kind = "recup", budget = 0.1}': "recup hides attributes: write [hide]",
    'shield = {kind = "recup", budget = 0.1}\n[hide]\nsex = 1.0': "hide.sex: has no zoo",
}


@pytest.mark.parametrize("text", BAD)
def test_a_fault_is_one_line_with_the_file_and_the_key(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError) as fault:
        site_shield(read(tmp_path, text))
    line = str(fault.value)
    assert line.startswith(f"{tmp_path / 'policy.toml'}: ")
    assert BAD[text] in line
    assert "\n" not in line


RECUP = """
shield = {{kind = "recup", budget = 0.1{more}}}
[hide]
{hidden} = 1.0
[zoo]
{zoo} = "{file}"
[own]
{own} = "{value}"
"""


def recup(folder: Path, **other: str) -> Policy:
    small_zoo().save(folder / "sex.safetensors")
    usual = {"more": "", "hidden": "sex", "zoo": "sex", "file": "sex.safetensors", "own": "sex", "value": "m"}
    return read(folder, RECUP.format(**(usual | other)))


def test_a_zoo_is_loaded_and_the_sites_own_value_is_found_in_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    policy = recup(tmp_path)
    with caplog.at_level(logging.WARNING):
        shield = site_shield(policy)
    assert isinstance(shield, RecUP)
    assert shield.levels == {"sex": 1.0}
    assert own_values(policy, shield)["u:sex"].tolist() == [1]
    assert "publishes what it hides" in caplog.text  # the person at the site is warned
    again = site_shield(policy)
    assert isinstance(again, RecUP)
    assert again.zoos["sex"] is shield.zoos["sex"]  # one file is loaded once
    (tmp_path / "sex.safetensors").write_bytes(b"changed")
    with pytest.raises(InputError, match=r"zoo\.sex: "):
        site_shield(policy)


def test_a_site_must_name_its_value(tmp_path: Path) -> None:
    small_zoo().save(tmp_path / "sex.safetensors")
    text = 'shield = {kind = "recup", budget = 0.1}\n[hide]\nsex = 1.0\n[zoo]\nsex = "sex.safetensors"\n'
    with pytest.raises(InputError, match=r"own.sex: is missing; write under \[own\] .*: f, m"):
        site_shield(read(tmp_path, text))


@pytest.mark.parametrize(
    ("other", "line"),
    [
        ({"hidden": "race", "zoo": "race", "own": "race"}, "zoo.race: is a zoo for 'sex'; name the one for 'race'"),
        ({"zoo": "sexx"}, "zoo.sexx: is not hidden by this policy: did you mean 'sex'?"),
        ({"own": "sexx"}, "own.sexx: is not hidden by this policy: did you mean 'sex'?"),
        ({"value": "other"}, "own.sex: 'other' is not a value of sex; its zoo has: f, m"),
        ({"file": "none.safetensors"}, "zoo.sex: "),
        ({"file": "policy.toml"}, "zoo.sex: "),
        ({"more": ", step = 3"}, "shield: unknown setting 'step'"),
        ({"more": ', iterations = "many"'}, "shield.iterations: 'many' is text"),
        ({"more": ", iterations = 0"}, "iterations is a whole number of at least 1"),
        ({"more": ", minimal = 0.0"}, "minimal is true, false, or the share"),
        ({"more": ', minimal = "x"'}, "shield.minimal: 'x' is text"),
        ({"more": ', zoos = ["sex.safetensors"]'}, "shield.zoos: belongs in the table [zoo]"),
        ({"more": ", levels = {sex = 1.0}"}, "shield.levels: belongs in the table [hide]"),
    ],
)
def test_a_zoo_that_does_not_fit_is_refused(tmp_path: Path, other: dict[str, str], line: str) -> None:
    with pytest.raises(InputError) as fault:
        site_shield(recup(tmp_path, **other))
    assert str(fault.value).startswith(f"{tmp_path / 'policy.toml'}: ")
    assert line in str(fault.value)
