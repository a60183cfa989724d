"""Reading results: what was written comes back; damage is named and never breaks a reader."""

from __future__ import annotations

import copy
import json
import random
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fedveil.certificates import Certificate
from fedveil.certificates.certificate import Direction
from fedveil.core.errors import InputError
from fedveil.core.files import plain
from fedveil.studies.checked_json import Damaged
from fedveil.studies.model import FORMAT, StatedCertificate, weakest_certificates
from fedveil.studies.reading import cell_figures, read_facts
from fedveil.studies.results import StudyResults, open_study

CERTIFICATE = Certificate(
    "balanced accuracy", 0.62, "upper", {"sigma": 1.0, "values": (1, 2)}, ("updates",), "Gaussian channel", "textbook"
)


def content_of(folder: Path, method: str) -> tuple[dict[str, Any], str]:
    """Return the content of a cell's result.json, and the cell's id."""
    path = next((folder / "cells").glob(f"{method}-*")) / "result.json"
    return json.loads(path.read_text()), path.parent.name


def test_what_was_written_comes_back(undisturbed: Path) -> None:
    for method in ("none", "adversarial", "drop-columns"):
        content, cell = content_of(undisturbed, method)
        content["certificates"]["u"] = [plain(CERTIFICATE.as_dict())]
        spent = {**CERTIFICATE.as_dict(), "bound": None, "infinite": True, "covers": "updates"}
        content["spent"] = [plain(spent)]
        again = {"format": FORMAT, "cell": content["cell"], **plain(cell_figures(content, cell).as_dict())}
        assert json.dumps(again) == json.dumps(content)


def test_what_a_file_states_is_not_a_certificate(undisturbed: Path) -> None:
    content, cell = content_of(undisturbed, "none")
    content["certificates"]["u"] = [plain(CERTIFICATE.as_dict())]
    (stated,) = cell_figures(content, cell).certificates["u"]
    assert not isinstance(stated, Certificate)
    assert "CERTIFIED" not in str(stated)
    assert stated == StatedCertificate.of(CERTIFICATE)
    assert stated.rounded() == CERTIFICATE.rounded() == "0.620"


def test_what_holds_in_all_cells_is_the_loosest_of_their_tightest_bounds() -> None:
    def stated(bound: float, quantity: str = "accuracy", direction: Direction = "upper") -> StatedCertificate:
        return replace(StatedCertificate.of(CERTIFICATE), bound=bound, quantity=quantity, direction=direction)

    first = [stated(0.6), stated(0.9), stated(0.1, "error", "lower"), stated(2.0, "epsilon")]
    second = [stated(0.7), stated(0.3, "error", "lower")]
    assert weakest_certificates([first, second]) == [stated(0.7), stated(0.1, "error", "lower")]
    assert weakest_certificates([first, []]) == []


def test_a_results_repr_is_one_line(undisturbed: Path) -> None:
    results = open_study(undisturbed)
    assert repr(results) == f"StudyResults(tiny: 4 of 4 cells, in {undisturbed})"


def change(content: dict[str, Any], *path: str | int, to: object) -> dict[str, Any]:
    inner: Any = content
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = to
    return content


@pytest.mark.parametrize(
    ("path", "to", "why"),
    [
        (("format",), 2, "it is written in format 2, and this version reads format 1"),
        (("cell", "id"), "another", "it is the result of another cell"),
        (("utility",), {}, "it has no utility of any task, or no leakage of any attribute"),
        (("utility", "y", "accuracy"), 0.8, "utility.y.accuracy is not an object"),
        (("utility", "y", "accuracy", "low"), "0.8", "utility.y.accuracy.low is not a number"),
        (("utility", "y", "prior"), 7, "utility.y.prior is not in [0, 1]"),
        (("leakage", "u", "classes"), [], "leakage.u.classes has fewer than two values"),
        (("leakage", "u", "attackers"), [], "leakage.u.worst is not the first of the attackers"),
        (("leakage", "u", "attackers", 0, "name"), "\ud800", "leakage.u.worst is not the first of the attackers"),
        (("leakage", "u", "split", "victims"), 10.5, "leakage.u.split.victims is not a whole number"),
        (("leakage", "u", "p_value"), float("inf"), "leakage.u.p_value is not a finite number"),
        (("certificates", "u"), [{"certified": False}], "certificates.u[0] is not a certificate"),
        (("certificates", "u"), [{"certified": True}], "certificates.u[0].direction is missing"),
        (("theory", "u", "gap", "y"), -1, "theory.u.gap.y is not in [0, 1]"),
    ],
)
def test_a_damaged_result_says_which_part_and_why(
    undisturbed: Path, path: tuple[str | int, ...], to: object, why: str
) -> None:
    content, cell = content_of(undisturbed, "none")
    with pytest.raises(Damaged) as fault:
        cell_figures(change(content, *path, to=to), cell)
    assert str(fault.value) == why


def test_a_study_file_of_another_shape_is_refused_in_one_line(undisturbed: Path, tmp_path: Path) -> None:
    facts = json.loads((undisturbed / "study.json").read_text())
    for path, to in ((("cells", 0, "seed"), "0"), (("cells", 0, "strength"), [1]), (("study",), [1])):
        changed = change(copy.deepcopy(facts), *path, to=to)
        (tmp_path / "study.json").write_text(json.dumps(changed))
        with pytest.raises(InputError, match=r"study\.json: is damaged \(.* is not .*\); discard .* with --fresh"):
            read_facts(tmp_path)


def paths_in(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of every part of a JSON value."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths_in(inner, (*path, key))


def read_everything(results: StudyResults) -> None:
    """Read the results through every reader."""
    from fedveil.report.gather import page_data
    from fedveil.report.pack import escaped_json, pack
    from fedveil.studies.notes import notes
    from fedveil.studies.sinks.figures import at_the_end, by_round, settings
    from fedveil.studies.tidy import tidy

    json.dumps(plain(results.as_dict()), allow_nan=False)
    notes(results.rows)
    tidy(results).to_csv().encode()
    for cell in results.cells:
        settings(cell), list(by_round(cell)), at_the_end(cell)
    page = page_data(results)
    escaped_json(pack(page))
    "".join(sentence.text for row in page.words for words in row for sentence in words).encode()


HOSTILE: list[Callable[[], object]] = [
    lambda: None,
    lambda: -3,
    lambda: 10**400,
    lambda: "half a character: \ud800",
    lambda: True,
    list,
    dict,
    lambda: {"estimate": None, "low": None, "high": None},
]


def test_every_reader_copes_with_any_change_in_a_file(undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    read_everything(open_study(out))  # from now on maps are read from their files
    rng = random.Random(0)
    files = [next((out / "cells").glob("adversarial-4-*")) / name for name in ("result.json", "config.json")]
    damaged = 0
    for file in files:
        text = file.read_text()
        content = json.loads(text)
        if file.name == "result.json":
            stated = plain(CERTIFICATE.as_dict())
            content["certificates"]["u"] = [stated]
            content["spent"] = [{**stated, "infinite": False, "covers": "updates"}]
            content["decensoring"]["u"] = {
                "attribute": "u",
                "attack": content["leakage"]["u"]["worst"],
                "control": content["leakage"]["u"]["worst"],
                "gain": {"estimate": 0.1, "low": 0.0, "high": 0.2},
            }
        paths = list(paths_in(content))
        for path in rng.sample(paths, min(60, len(paths))):
            harm = rng.choice(HOSTILE)
            file.write_text(json.dumps(change(copy.deepcopy(content), *path, to=harm())))
            try:
                results = open_study(out)
                read_everything(results)
            except Exception as fault:
                raise AssertionError(f"{file.name}: {path} became {harm()!a}") from fault
            damaged += bool(results.damaged)
            assert all(name == file.parent.name and "run the study again" in why for name, why in results.damaged)
        file.write_text(text)
    assert damaged > 20
