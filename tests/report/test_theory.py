"""The theory section: closed forms beside measured figures; estimates are never called guarantees."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from synthetic_study import METHODS, SyntheticStudy

from fedveil.certificates import GaussianRelease
from fedveil.certificates.fano import fano_accuracy_bound
from fedveil.report.gather import gather, page_data
from fedveil.report.pairs import pair_of
from fedveil.report.settings import settings_of
from fedveil.report.theory import theory
from fedveil.studies.results import CellResult, StudyResults, open_study

ONE = {"seeds": (0,), "tasks": ("income",), "attributes": {"sex": ("Female", "Male"), "race": ("B", "O", "W")}}


def test_theorems_are_put_beside_what_was_measured(study: Callable[..., StudyResults]) -> None:
    results = study(**ONE)
    settings = settings_of(results)
    table = theory(settings, "income", "sex")
    assert table is not None
    assert (table.gap, table.entropy, table.values) == (0.2, 0.92, 2)
    for setting, theorems in zip(settings, table.settings, strict=True):
        assert theorems is not None
        assert theorems.advantage is not None
        assert theorems.accuracy is not None
        assert theorems.error_printed is not None
        (cell,) = setting.cells
        judged = cell.result.leakage["sex"]
        advantage = judged.worst.advantage.estimate
        assert theorems.advantage.estimate == pytest.approx(advantage, abs=1e-4)
        assert theorems.error_corrected == pytest.approx(0.2 - advantage, abs=2e-4)
        assert (theorems.radius, theorems.lipschitz) == (2.5, 4.0)
        assert theorems.error_printed == pytest.approx(0.2 - 2 * 2.5 * 4.0 * advantage, abs=5e-3)
        assert theorems.error_printed <= theorems.error_corrected  # at best they are equal
        groups = cell.result.utility["income"].by_group["sex"].values()
        assert theorems.error == pytest.approx(sum(1 - accuracy.estimate for accuracy in groups), abs=2e-4)
        assert theorems.equivocation == pytest.approx(0.92 - 0.1)  # what attackers read of it is 0.1 bits
        assert theorems.accuracy_corrected == pytest.approx(fano_accuracy_bound(0.82, 2), abs=1e-4)
        assert theorems.accuracy_printed == pytest.approx(0.8573, abs=1e-4)  # 1 − 0.82/(2 log₂(6/0.82))
        assert theorems.accuracy.estimate == pytest.approx(judged.worst.accuracy.estimate, abs=1e-4)
        certified = [theorems.error_certified, theorems.accuracy_certified]
        if setting.method == "certified-channel":
            release = GaussianRelease(1.0, float(setting.strength or 0), norm_enforced_at_release=True)
            expected = [0.2 - release.certify_advantage(2).bound, release.certify_accuracy([0.5, 0.5]).bound]
            assert certified == pytest.approx(expected, abs=1e-4)
        else:
            assert certified == [None, None]  # an attacker's figure never becomes a guarantee


def test_without_measured_constants_the_printed_theorem_1_is_left_out(study: Callable[..., StudyResults]) -> None:
    older = {cell["id"]: ["utility/income/constants"] for cell in SyntheticStudy(**ONE).planned()}
    results = study(**ONE, without=older)
    assert all(cell.result.utility["income"].constants is None for cell in results.cells)
    table = theory(settings_of(results), "income", "sex")
    assert table is not None
    for line in table.settings:
        assert line is not None
        assert line.radius is line.lipschitz is line.error_printed is None  # not measured, and nothing put in its place
        assert line.error_corrected is not None


def test_an_infinite_constant_says_nothing(study: Callable[..., StudyResults]) -> None:
    results = study(**ONE)
    for cell in results.cells:
        path = cell.folder / "result.json"
        content = json.loads(path.read_text("utf-8"))
        content["utility"]["income"]["constants"]["lipschitz"] = None
        path.write_text(json.dumps(content), "utf-8")
    again = open_study(results.folder)
    assert {cell.result.utility["income"].constants.lipschitz for cell in again.cells} == {math.inf}
    table = theory(settings_of(again), "income", "sex")
    assert table is not None
    assert all(line and line.radius == 2.5 and line.lipschitz is line.error_printed is None for line in table.settings)


def test_what_is_certified_over_seeds_is_the_weakest_bound(study: Callable[..., StudyResults]) -> None:
    results = study(**{**ONE, "seeds": (0, 1)})

    def weaker(cell: CellResult) -> CellResult:
        if (cell.method, cell.seed) != ("certified-channel", 1):
            return cell
        loose = tuple(replace(certificate, bound=0.99) for certificate in cell.result.certificates["sex"])
        return replace(cell, result=replace(cell.result, certificates={**cell.result.certificates, "sex": loose}))

    settings = settings_of(replace(results, cells=[weaker(cell) for cell in results.cells]))
    table = theory(settings, "income", "sex")
    assert table is not None
    lines = [line for line, of in zip(table.settings, settings, strict=True) if of.method == "certified-channel"]
    assert [line and line.accuracy_certified for line in lines] == [0.99] * len(lines)
    assert [line and line.error_certified for line in lines] == pytest.approx([0.2 - 0.99] * len(lines))


def test_more_than_two_values_leave_theorem_1_and_the_printed_form_out(study: Callable[..., StudyResults]) -> None:
    table = theory(settings_of(study(**ONE)), "income", "race")
    assert table is not None
    assert table.gap is None
    line = table.settings[0]
    assert line is not None
    assert line.error_corrected is line.error_printed is line.error is line.accuracy_printed is None
    assert line.accuracy_corrected == pytest.approx(fano_accuracy_bound(1.2, 3), abs=1e-4)


def test_results_of_an_earlier_version_have_no_theory_and_still_get_a_page(study: Callable[..., StudyResults]) -> None:
    parts = ("theory", "spent", "utility_only", "devices", "decensoring")
    results = study(SyntheticStudy(**ONE, without={cell["id"]: parts for cell in SyntheticStudy(**ONE).planned()}))
    assert theory(settings_of(results), "income", "sex") is None
    data = page_data(results).figures
    assert data.theory == [[None, None]]
    assert [setting.spent for setting in data.settings] == [None] * len(data.settings)


def changed(results: StudyResults, method: str, **parts: Any) -> StudyResults:
    """Add parts to the results of a method's cells, and reopen the study."""
    for cell in results.cells:
        if cell.method == method:
            path = cell.folder / "result.json"
            path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **parts}), "utf-8")
    return open_study(results.folder)


def attacker(name: str, read: float) -> dict[str, Any]:
    around = {"estimate": read, "low": read - 0.01, "high": read + 0.01}
    names = ("accuracy", "balanced_accuracy", "auc", "advantage", "mutual_information_bits", "gap")
    return {"name": name, **dict.fromkeys(names, around), "validation_balanced_accuracy": read}


UNDONE = {
    "sex": {
        "attack": attacker("de-censoring", 0.9),
        "control": attacker("equal capacity (de-censoring's control)", 0.7),
        "gain": {"estimate": 0.2, "low": 0.15, "high": 0.25},
    }
}
SPENT = {
    "certified": True,
    "quantity": "epsilon",
    "bound": 3.2,
    "direction": "upper",
    "confidence": None,
    "assumptions": {"delta": 1e-5, "releases": 4},
    "does_not_cover": [],
    "method": "Gaussian mechanism",
    "citation": "textbook",
    "infinite": False,
    "covers": "updates",
}
PARTS = {"decensoring": UNDONE, "spent": [SPENT], "utility_only": {"sex": 7}, "devices": 100}


def test_other_parts_of_cell_results_are_reported(study: Callable[..., StudyResults]) -> None:
    from fedveil.report import in_words

    results = changed(study(**ONE), "adversarial", **PARTS)
    sentences = dict(in_words(results, "income", "sex"))
    assert sentences["decensoring"].startswith(
        "De-censoring reads sex from adversarial (strength 2) at 0.90 [0.89, 0.91]"
    )
    assert "WORSE than the leakage on the frontier" in sentences["decensoring"]
    assert "adversarial (strength 2): ε = 3.2, δ = 1e-05 in 4 updates" in sentences["spent"]
    assert sentences["idle"].startswith("7 of 100 devices lack sex or hold one value of it")
    pairs = [[pair_of(results, "income", name) for name in ("sex", "race")]]
    data = gather(results, pairs, ["sex", "race"])
    index = [setting.label for setting in data.settings].index("adversarial (strength 2)")
    kinds = [(attacker.name, attacker.kind) for attacker in data.attackers[0][index]]
    assert kinds[-3:] == [
        ("de-censoring", "decensoring"),
        ("equal capacity (de-censoring's control)", "decensoring-control"),
        ("co-trained", "cotrained"),
    ]
    assert data.settings[index].spent == "ε = 3.2, δ = 1e-05 in 4 updates"
    point = data.views[0][0].points[index]
    assert point is not None
    assert point.leakage.estimate < 0.85  # the frontier stays the panel's


def test_de_censoring_beyond_a_certificate_contradicts_it(study: Callable[..., StudyResults]) -> None:
    from fedveil.report import in_words

    results = changed(study(**ONE), "certified-channel", decensoring=UNDONE)
    sentences = dict(in_words(results, "income", "sex"))
    assert "de-censoring reads sex at" in sentences["contradiction"]


def test_theory_is_on_the_page(chromium: Any, tmp_path: Path) -> None:
    from fedveil.report import write_report

    folder = SyntheticStudy(**ONE).write(tmp_path / "study")
    for path in folder.glob("cells/m3-*/result.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), **PARTS}))
    page = chromium.new_page()
    faults: list[str] = []
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.goto(write_report(open_study(folder)).as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    tables = page.locator("#theory table")
    assert tables.count() == 2
    assert tables.nth(0).locator("tbody tr").count() == sum(len(law.strengths) for law in METHODS.values())
    words = page.locator("section:has(#theory)").inner_text()
    assert "estimate, against the attackers tried" in words
    assert "guarantee" in words
    cells = tables.nth(0).locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells[3:5] == ["2.500", "4.000"]
    badges = tables.nth(1).locator("tr:has(.badge) th").all_inner_texts()
    assert all(label.startswith("certified-channel") for label in badges)
    assert len(badges) == 3
    page.select_option("#setting", label="adversarial (strength 2)")
    assert page.locator("#theory tr[aria-current=true]").count() == 2
    assert "Spent on updates: ε = 3.2" in page.locator("#proved .spent").inner_text()
    symbols = page.evaluate("document.getElementById('attackers').data[0].marker.symbol")
    assert symbols[-3:] == ["square", "square", "diamond"]
    page.select_option("#attribute", label="race")
    assert page.locator("#theory table").count() == 1
    assert "it says nothing" in page.locator("#theory").inner_text()
    assert faults == []
    page.close()
