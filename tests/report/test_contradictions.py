"""A certificate that an attacker beats is shown as contradicted, in sentences and charts, and never as proved."""

from __future__ import annotations

import json

from synthetic_study import METHODS, Law

from fedveil.core.figures import Estimate
from fedveil.report import in_words, write_report
from fedveil.report.certified import contradictions
from fedveil.report.export import export
from fedveil.report.gather import page_data
from fedveil.report.settings import settings_of
from fedveil.studies.results import open_study

# At sigma 4 no attacker exceeds Φ(1/4) = 0.599 on two values, yet these figures say 0.5 + 0.9 · 0.3 = 0.77.
BROKEN = {**METHODS, "certified-channel": Law((4.0, 1.0), (0.9, 0.6), (0.95, 0.8), certified=True)}
SOUND = {**METHODS, "certified-channel": Law((1.0,), (0.6,), (0.8,), certified=True)}


def words(results, attribute="sex"):
    return {sentence.about: sentence.text for sentence in in_words(results, "income", attribute)}


def test_a_contradiction_is_reported_and_its_bound_not_called_proved(study):
    sentences = words(study(methods=BROKEN))
    assert sentences["contradiction"].startswith("CONTRADICTION: with certified-channel (sigma 4), seed ")
    assert "reads sex at balanced accuracy 0.7" in sentences["contradiction"]
    assert "above the 0.599 that the certificate allows" in sentences["contradiction"]
    assert "at sigma 1, no attacker can exceed balanced accuracy 0.85" in sentences["certified"]


def test_with_every_certificate_contradicted_nothing_is_proved(study):
    methods = {**METHODS, "certified-channel": Law((4.0,), (0.9,), (0.95,), certified=True)}
    sentences = words(study(methods=methods))
    assert sentences["certified"] == "Nothing here is proved about sex: every certificate is contradicted."


def test_estimates_below_or_around_the_bound_contradict_nothing(study):
    results = study(methods=SOUND)
    assert "contradiction" not in words(results)
    data = page_data(results).figures
    assert not any(cases for by_setting in data.contradictions for cases in by_setting)


def test_one_seeds_broken_cell_is_enough_and_the_cotrained_adversary_counts(study):
    results = study(methods=SOUND)
    (setting,) = [setting for setting in settings_of(results) if setting.method == "certified-channel"]
    path = setting.cells[0].folder / "result.json"
    result = json.loads(path.read_text("utf-8"))
    read = {"estimate": 0.9, "low": 0.88, "high": 0.92}  # Φ(1) = 0.841
    result["cotrained"]["sex"] = {**result["leakage"]["sex"]["worst"], "name": "co-trained", "balanced_accuracy": read}
    path.write_text(json.dumps(result), "utf-8")
    (setting,) = [
        setting for setting in settings_of(open_study(results.folder)) if setting.method == "certified-channel"
    ]
    (case,) = contradictions(setting, "sex")
    assert (case.quantity, case.attacker, case.seed) == ("balanced accuracy", "co-trained", setting.cells[0].seed)
    assert case.read == Estimate(0.9, 0.88, 0.92)
    assert contradictions(setting, "race") == []


def test_it_is_on_the_page_and_in_the_exports(study, tmp_path):
    results = study(methods=BROKEN)
    page = write_report(results).read_text("utf-8")
    assert '<span class="about-contradiction">CONTRADICTION: ' in page
    export(results, tmp_path / "out")
    (table,) = (tmp_path / "out").glob("*.tex")
    assert table.read_text("utf-8").count("(contradicted)") == 4  # sigma 4: two tasks by two attributes


def test_a_bound_that_not_every_cell_proves_is_not_shown(study):
    results = study(methods=SOUND)
    at = [setting.method for setting in settings_of(results)].index("certified-channel")
    assert page_data(results).figures.certificates[0][at]
    path = settings_of(results)[at].cells[1].folder / "result.json"
    result = json.loads(path.read_text("utf-8"))
    result["certificates"]["sex"] = []
    path.write_text(json.dumps(result), "utf-8")
    data = page_data(open_study(results.folder)).figures
    assert data.certificates[0][at] == []
    assert data.views[0][0].bounds[at] is None
