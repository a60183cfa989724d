"""`fedveil ledger`: the person at the site reads what was sent, and whether the chain holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from flower_site import DP, Site, app_of, order

from fedveil.certificates import gaussian_epsilon
from fedveil.cli import main
from fedveil.flower import shield_mod


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["ledger", *arguments])
    return int(ended.value.code or 0)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    new_site = Site(tmp_path, DP)
    for policy in (DP, DP + "# changed\n", DP):
        new_site.write(policy)
        assert not app_of(shield_mod())(order(), new_site.context).has_error()
    return new_site


def test_what_was_sent_is_shown(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(site.ledger), "--json") == 0
    shown = capsys.readouterr()
    summary = json.loads(shown.out.splitlines()[-1])
    assert summary["holds"] is True
    assert (summary["entries"], summary["updates"], summary["figures"], len(summary["policies"])) == (3, 3, 0, 2)
    assert summary["epsilon"] == pytest.approx(gaussian_epsilon(2.0, 1e-5, 3))
    assert "DPGaussian" in shown.err
    assert "The chain holds" in shown.err


def test_a_changed_ledger_exits_with_1(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.ledger.write_text("\n".join(site.lines[:-1]) + "\n")
    before = site.ledger.read_bytes(), site.head.read_bytes()
    assert run(str(site.ledger), "--json") == 1
    shown = capsys.readouterr()
    assert json.loads(shown.out)["holds"] is False
    assert shown.err.count("\n") == 1
    assert "head counts 3" in shown.err
    assert (site.ledger.read_bytes(), site.head.read_bytes()) == before


def test_mistakes_exit_with_2(site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(str(tmp_path / "none.jsonl")) == 2
    assert run(str(site.ledger), "--delta", "2") == 2
    assert capsys.readouterr().err.count("\n") == 2
    assert not (tmp_path / "none.jsonl.head").exists()
