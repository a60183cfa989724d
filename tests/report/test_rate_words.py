"""The sentence on compressed representations: the server's bound, never the stranger's, and never a broken one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from synthetic_study import METHODS, Law, SyntheticStudy

from fedveil.report import in_words
from fedveil.report.gather import gather
from fedveil.report.pairs import pair_of
from fedveil.studies.results import StudyResults, open_study

STRANGER, SERVER = 0.11, 0.83


def bound(quantity: str, value: float, observer: str, *, dealt: bool = False) -> dict[str, Any]:
    return {
        "certified": True,
        "quantity": quantity if observer == "sender known" else f"{quantity}, {observer}",
        "bound": value,
        "direction": "upper",
        "confidence": 0.95,
        "assumptions": {"observer": observer, **({"people dealt to senders at random": True} if dealt else {})},
        "does_not_cover": [],
        "method": f"rate certificate, {observer}",
        "citation": "chain rule",
    }


def study(folder: Path, *, server: float = SERVER, playing: bool = True, dealt: bool = False) -> StudyResults:
    """Write a synthetic study whose method "coded" has rate certificates about sex in each of its cells."""
    SyntheticStudy(methods={"none": METHODS["none"], "coded": Law((None,), (0.4,), (0.95,))}).write(folder)
    for path in folder.glob("cells/m1-*/result.json"):
        result = json.loads(path.read_text())
        result["certificates"]["sex"] = [
            bound("information (bits)", STRANGER, "sender unknown"),
            bound("accuracy", 0.9, "sender unknown"),
            bound("information (bits)", server, "sender known", dealt=dealt),
            bound("accuracy", 0.93, "sender known", dealt=dealt),
        ]
        path.write_text(json.dumps(result))
    if playing:
        facts = json.loads((folder / "study.json").read_text())
        facts["study"]["methods"][1]["game"] = {"kind": "attri-fed"}
        (folder / "study.json").write_text(json.dumps(facts))
    return open_study(folder)


def sentences(results: StudyResults, attribute: str = "sex") -> dict[str, str]:
    return {sentence.about: sentence.text for sentence in in_words(results, "income", attribute)}


def test_the_bound_stated_is_the_one_for_a_server_that_knows_the_sender(tmp_path: Path) -> None:
    results = study(tmp_path)
    sentence = sentences(results)["rate"]
    assert "coded reveals at most 0.83 bits about sex, even to a server that knows the sender" in sentence
    assert "by Fano's inequality only excludes accuracies above 0.93: bits say little about accuracy." in sentence
    assert "0.11" not in sentence
    assert "Corollary 1" in sentence
    pairs = [[pair_of(results, "income", "sex")]]
    shown = {stated.quantity: stated.bound for stated in gather(results, pairs, ["sex"]).certificates[0][1]}
    assert shown["information (bits)"] == SERVER  # kept apart from the stranger's, which is tighter
    assert shown["information (bits), sender unknown"] == STRANGER


def test_the_assumption_that_people_come_at_random_is_stated_only_where_it_is_made(tmp_path: Path) -> None:
    assumed, general = (sentences(study(tmp_path / str(dealt), dealt=dealt))["rate"] for dealt in (True, False))
    assert "a server that knows the sender (if people are dealt to senders at random" in assumed
    assert "at random" not in general


def test_without_a_certificate_only_corollary_1_is_mentioned_and_without_a_rate_game_nothing(tmp_path: Path) -> None:
    sentence = sentences(study(tmp_path / "a"), "race")["rate"]
    assert sentence.endswith("not even one without any defence.")
    assert "rate" not in sentences(study(tmp_path / "b", playing=False), "race")
    assert "Corollary 1" in sentences(study(tmp_path / "c", playing=False))["rate"]


def test_a_bound_that_attackers_exceed_is_not_called_certified(tmp_path: Path) -> None:
    results = study(tmp_path, server=0.0)
    by_topic = sentences(results)
    assert "certified is" not in by_topic["rate"]
    assert by_topic["contradiction"].startswith("CONTRADICTION: with coded")
