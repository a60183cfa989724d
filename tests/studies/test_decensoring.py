"""De-censoring in a study: beside the panel in results, rows and tables, and stated plainly where it reads more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from tiny_study import TINY, fedveil_here, last_json

from fedveil.config.reading import changed
from fedveil.config.study import make_study
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.files import plain
from fedveil.studies.check import checked
from fedveil.studies.notes import notes
from fedveil.studies.reading import cell_figures
from fedveil.studies.results import open_study
from fedveil.studies.rows import MeanLeakage, MeanUtility, Row

ASKED = {"panel": ["logistic"], "draws": 100, "decensoring": True}


def test_it_is_reported_beside_the_panel_and_never_in_its_place(
    write_study: Callable[..., Path], tmp_path: Path
) -> None:
    path = write_study(methods=[{"name": "none", "game": "undefended"}], attacks=ASKED)
    done = fedveil_here("run", path, "--out", tmp_path / "out", "--workers", "1", "--json")
    assert done.returncode == 0, done.stderr
    assert "de-censoring gains" in done.stderr
    results = open_study(tmp_path / "out")
    for cell in results.cells:
        undone = cell.result.decensoring["u"]
        assert (undone.attack.name, undone.control.name) == ("de-censoring", "equal capacity (de-censoring's control)")
        names = {attacker.name for attacker in cell.result.leakage["u"].attackers}
        assert names == {"logistic", "logistic (fresh people)"}
        written = json.loads((cell.folder / "result.json").read_text())
        assert set(written["decensoring"]["u"]) == {"attribute", "attack", "control", "gain"}
        assert written["leakage"]["u"]["worst"]["name"] in names
    rows = {row["attacker"]: row for row in last_json(done)["rows"] if row["method"] == "none"}
    assert list(rows) == ["retrained", "decensoring", "decensoring-control"]
    assert rows["decensoring"]["attacker_name"] == "de-censoring"
    gain = rows["decensoring"]["leakage"]["gain"]["estimate"]
    apart = [rows[name]["leakage"]["balanced_accuracy"]["estimate"] for name in ("decensoring", "decensoring-control")]
    assert gain == pytest.approx(apart[0] - apart[1])
    table = pd.read_csv(tmp_path / "out" / "results.csv")
    undefended = table[table["method"] == "none"].set_index("attacker")
    assert undefended.loc["decensoring", "attacker_name"] == "de-censoring"
    assert undefended.loc["decensoring", "leakage_balanced_accuracy"] == pytest.approx(apart[0])
    assert not undefended.loc["decensoring", "chosen_on_validation"]
    assert (
        results.frontier().points[0].leakage.estimate == rows["retrained"]["leakage"]["balanced_accuracy"]["estimate"]
    )


def test_a_study_that_does_not_ask_has_none(undisturbed: Path) -> None:
    results = open_study(undisturbed)
    assert all(cell.result.decensoring == {} for cell in results.cells)
    assert {row.attacker for row in results.rows} == {"retrained", "cotrained"}
    for cell in results.cells:  # as in results written before this part existed
        content = json.loads((cell.folder / "result.json").read_text())
        assert content.pop("decensoring") == {}
        assert plain(cell_figures(content, cell.id).as_dict()) == plain(cell.result.as_dict())


def test_an_observer_without_representations_is_refused() -> None:
    with pytest.raises(InputError, match=r"attacks.decensoring: it works on representations, but this .* sees outputs"):
        checked(make_study(changed(TINY, "attacks", {**ASKED, "view": "outputs"})))


def row(attacker: str, read: float, gain: float = 0.0, strength: float = 1.0) -> Row:
    figure = Estimate(read, read - 0.02, read + 0.02)
    gained = Estimate(gain, gain - 0.02, gain + 0.02) if attacker == "decensoring" else None
    leakage = MeanLeakage(figure, figure, figure, figure, figure, figure, 0.5, read, 0.01, gained)
    utility = MeanUtility(figure, figure, 0.5, 0.8, "mlp")
    names = {"decensoring": "de-censoring", "decensoring-control": "equal capacity", "retrained": "boosting"}
    return Row("m", strength, "y", "u", attacker, names[attacker], (0,), utility, leakage)


def test_what_it_reads_beyond_the_panel_is_stated_plainly() -> None:
    worse = [row("retrained", 0.6), row("decensoring", 0.7, 0.05)]
    sentence = notes(worse)["decensoring"]
    assert sentence.startswith(
        "De-censoring reads u from m at 1 at 0.70 [0.68, 0.72], the panel's strongest attacker (boo"
    )
    assert "WORSE than the leakage on the frontier" in sentence
    assert "so undoing the censoring itself helps" in sentence
    better = [row("retrained", 0.7, strength=2), row("decensoring", 0.6, 0.01, strength=2)]
    assert "likewise" not in sentence
    assert "in no setting does de-censoring read more" in notes(better)["decensoring"]
    assert "there: no gain is shown" in notes(better)["decensoring"]
    assert notes(worse + better)["decensoring"] == sentence
    both = [*worse, row("retrained", 0.6, strength=2), row("decensoring", 0.61, strength=2)]
    assert "(likewise in 1 more)" in notes(both)["decensoring"]
    control = [*better, row("decensoring-control", 0.75, strength=2)]
    assert notes(control)["decensoring"].startswith("Equal capacity reads u from m at 2 at 0.75")
    assert notes([row("retrained", 0.6)]) == {}
