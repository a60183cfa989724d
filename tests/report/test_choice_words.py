"""The report pays for pointing at the smallest held-out certificate, and says at what confidence all hold."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from synthetic_study import METHODS, Law, SyntheticStudy

from fedveil.certificates import certify_chances
from fedveil.report import in_words
from fedveil.report.gather import page_data
from fedveil.studies.results import StudyResults, open_study

SUMS = {
    "a": [[300.0, 240.0], [200.0, 260.0]],
    "b": [[290.0, 240.0], [210.0, 260.0]],
    "c": [[280.0, 240.0], [220.0, 260.0]],
}


def study(folder: Path, methods: str = "abc", *, older: bool = False) -> StudyResults:
    """Write a study in which each of some methods has a held-out certificate about sex."""
    laws = {name: Law((None,), (0.01,), (0.95,)) for name in methods}
    SyntheticStudy(methods={"none": METHODS["none"], **laws}).write(folder)
    for number, name in enumerate(methods, start=1):
        for path in folder.glob(f"cells/m{number}-*/result.json"):
            result: dict[str, Any] = json.loads(path.read_text())
            stated = certify_chances(SUMS[name]).as_dict()
            if older:
                del stated["stricter"]
            result["certificates"]["sex"] = [stated]
            path.write_text(json.dumps(result))
    return open_study(folder)


def certified(results: StudyResults) -> str:
    return dict(in_words(results, "income", "sex"))["certified"]


def test_the_smallest_is_stated_at_its_share(tmp_path: Path) -> None:
    results = study(tmp_path)
    alone, shared = certify_chances(SUMS["c"]), certify_chances(SUMS["c"], 1 - 0.05 / 4)
    assert alone.bound < shared.bound
    assert "at 95% for all 3 held-out certificates together" in certified(results)
    figures = page_data(results).figures
    (stated,) = figures.certificates[0][3]
    assert stated.bound == pytest.approx(shared.bound)
    assert stated.confidence == pytest.approx(1 - 0.05 / 4)
    assert figures.views[0][0].bounds[3] == pytest.approx(shared.bound, abs=1.1e-4)


def test_a_single_held_out_certificate_is_stated_at_its_confidence(tmp_path: Path) -> None:
    results = study(tmp_path, "c")
    assert "at 95% confidence" in certified(results)
    assert page_data(results).figures.certificates[0][1][0].bound == certify_chances(SUMS["c"]).bound


def test_certificates_of_earlier_versions_state_what_is_left_of_their_confidence(tmp_path: Path) -> None:
    text = certified(study(tmp_path, older=True))
    assert "at only 85% for all 3 held-out certificates together, as each was computed alone" in text


def test_certificates_that_always_hold_are_stated_without_a_confidence(tmp_path: Path) -> None:
    text = certified(open_study(SyntheticStudy().write(tmp_path)))
    assert "certified-channel is proved" in text
    assert "confidence" not in text
    assert "together" not in text
