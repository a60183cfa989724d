"""The experiment on pictures from updates, on synthetic faces: figures, resuming, tables, the page, the picture."""

from __future__ import annotations

import dataclasses
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fedveil_papers.cli import lay_out
from fedveil_papers.drawing import write_png
from fedveil_papers.kinds import make_experiment
from fedveil_papers.preset import read_preset
from fedveil_papers.recup import picture_grid
from fedveil_papers.recup.reconstruction import PAGE, ReconstructionResults, Reconstructions
from recup_settings import RECONSTRUCTION
from synthetic_celeba import ramps, write_celeba

from fedveil.core.errors import InputError
from fedveil.studies.runner import Listener

CASE, METHODS = RECONSTRUCTION["cases"][0], RECONSTRUCTION["methods"]
PAPER = [
    {"case": "made faces", "round": 1, "method": "sparsify", "mse": 1234.5},
    {"case": "made faces", "round": 2, "method": "DP-Gaussian", "over": "sparsify", "ratio": 2.5},
]


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "celeba"
    write_celeba(folder, ramps)
    return folder.parent


@pytest.fixture(autouse=True)
def here(faces: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FEDVEIL_DATA", str(faces))
    monkeypatch.setenv("FEDVEIL_CACHE", str(tmp_path / "cache"))


def experiment(**changes: Any) -> Reconstructions:
    reconstructions = make_experiment({**RECONSTRUCTION, **changes}, "here")
    assert isinstance(reconstructions, Reconstructions)
    return reconstructions


@pytest.fixture(scope="module")
def ran(faces: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[ReconstructionResults, Path, list[str]]:
    folder, reported = tmp_path_factory.mktemp("out"), list[str]()
    listener = Listener(progress=lambda unit, share, what: reported.append(f"{unit}: {share:.0%}"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDVEIL_DATA", str(faces))
        results = experiment().run(folder, PAPER, listener=listener)
    return results, folder, reported


def test_every_round_and_method_has_figures_that_fit_each_other(ran) -> None:
    results, _, reported = ran
    assert [(panel.case, panel.round) for panel in results.panels] == [("made faces", 1), ("made faces", 2)]
    for panel in results.panels:
        free, noisy, thinned = (attacked.inverted for attacked in panel.attacked)
        assert (free.victims, noisy.victims) == (3, 2)
        assert free.relative_l2 == 0
        assert noisy.relative_l2 == pytest.approx(0.3, rel=0.03)  # met for each victim
        for inverted in (free, noisy, thinned):
            mse = inverted.quality.mse
            assert len(inverted.each["mse"]) == inverted.victims
            assert mse.estimate == pytest.approx(np.mean(inverted.each["mse"]))
            assert mse.low <= mse.estimate <= mse.high
            assert len(inverted.tuning) == 4
            best = min(inverted.tuning, key=lambda tried: tried["mse"])
            assert (inverted.tv_weight, inverted.over) == (best["tv_weight"], best["over"])
            assert inverted.guess.mse.estimate > 0
        assert thinned.originals == free.originals
    assert results.panels[0].attacked[2].paper["mse"] == 1234.5
    assert any("100%" in line for line in reported)


def test_rows_and_shows_hold_the_figures(ran) -> None:
    results, _, _ = ran
    rows = [row.as_dict() for row in experiment().rows(results)]
    assert len(rows) == 2 * (1 + 3)
    noisy = next(row for row in rows if row["method"] == "DP-Gaussian")
    assert noisy["leakage"]["mse"] == results.panels[0].attacked[1].inverted.quality.mse.as_dict()
    assert noisy["more"]["round"] == 1
    thinned = next(row for row in rows if row["method"] == "sparsify")
    assert thinned["paper"] == {"paper": {"mse": 1234.5}}
    shown = experiment().shows(results)["panels"][0]["rows"][1]
    assert shown["mse"] == noisy["leakage"]["mse"]
    assert json.loads(json.dumps(shown)) == shown


def test_what_was_measured_is_read_again(ran, monkeypatch) -> None:
    results, folder, _ = ran
    monkeypatch.setenv("FEDVEIL_DATA", str(folder / "nowhere"))  # so that nothing can be measured
    assert experiment().run(folder, PAPER) == results


def test_tables_and_notes_show_it(ran) -> None:
    from rich.console import Console

    results, _, _ = ran
    console = Console(width=200, record=True, file=io.StringIO())
    for table in experiment().tables(results):
        console.print(table)
    text = console.export_text()
    assert "mean training picture" in text
    assert "1234" in text
    same = next(line for line in text.splitlines() if "no shield, the first 2" in line)
    assert f"{np.mean(results.panels[0].attacked[0].inverted.each['mse'][:2]):.0f}" in same
    line = next(line for line in text.splitlines() if "DP-Gaussian over sparsify" in line)
    noisy, thinned = (attacked.inverted.quality.mse.estimate for attacked in results.panels[1].attacked[1:])
    assert f"{noisy / thinned:.1f}" in line
    assert "2.5" in line
    assert any(PAGE in note for note in experiment().notes(results))


def test_the_page_needs_no_other_file_and_says_what_each_picture_is(ran) -> None:
    results, _, _ = ran
    page = experiment().pages(results)[PAGE]
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert not re.search(r"(src|href)=\"(?!data:image/png;base64,)", page)
    pictures = re.findall(r'<img src="data:image/png;base64,([^"]+)" alt="([^"]+)">', page)
    assert len(pictures) == page.count("<img") == 2 * 2 * (1 + 3)
    assert all(alt for _, alt in pictures)
    assert "made faces, round 1, victim 1: the original picture" in page
    assert f"MSE {results.panels[0].attacked[0].inverted.pictures[0].mse:.0f}" in page
    assert page.count("<figcaption>") == 2


def test_the_page_is_written_into_the_folder_of_results(ran, tmp_path) -> None:
    from rich.console import Console

    results, _, _ = ran
    lay_out(experiment(), results, tmp_path, "recup/tiny", Console(quiet=True))
    assert (tmp_path / PAGE).read_text(encoding="utf-8") == experiment().pages(results)[PAGE]


def test_the_picture_is_drawn(ran, tmp_path) -> None:
    pytest.importorskip("matplotlib")
    results, _, _ = ran
    assert write_png(experiment(), results, tmp_path / "grid.png")
    assert (tmp_path / "grid.png").read_bytes()[:4] == b"\x89PNG"


def test_names_cannot_break_the_page() -> None:
    original = picture_grid.to_png(np.zeros((1, 1, 3), np.uint8))
    grid = picture_grid.Grid('"<script>', [original], [picture_grid.Column("<b>&", [None])], "<u>")
    page = picture_grid.page("<i>", ["<p>"], [grid])
    assert "<script>" not in page
    assert "<b>" not in page
    assert "nothing was sent" in page


def test_pixels_of_grey_and_of_another_box() -> None:
    grey = picture_grid.to_pixels(np.array([[[-1.0, 1.0]]]), (-1.0, 1.0))
    assert grey.tolist() == [[[0, 0, 0], [255, 255, 255]]]
    assert (picture_grid.from_png(picture_grid.to_png(grey)) == grey).all()


def test_other_readers_read_the_png() -> None:
    import base64

    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 3), dtype=np.uint8)
    with Image.open(io.BytesIO(base64.b64decode(picture_grid.to_png(pixels)))) as image:
        assert (np.asarray(image) == pixels).all()


def test_a_case_whose_data_is_missing_is_left_out_and_reported(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path))
    results = experiment(cases=[{**CASE, "where_present": True}]).run(tmp_path / "out")
    assert results.panels == []
    assert any("made faces: not measured" in note for note in experiment().notes(results))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cases": []}, "needs cases"),
        ({"victims": 1}, "at least 2"),
        ({"tuning": 0}, "at least 1"),
        ({"cases": [{**CASE, "inversion": {"tv_weight": []}}]}, "name at least one"),
        ({"cases": [{**CASE, "inversion": {"solver": "sgd"}}]}, "it should be .signed-adam."),
        ({"cases": [{**CASE, "inversion": {"speed": 1}}]}, "speed"),
        ({"cases": [{**CASE, "rounds": [0]}]}, "count from 1"),
        ({"methods": [{**METHODS[0], "setting": "sigmoid"}]}, "no setting"),
    ],
)
def test_settings_that_make_no_sense_are_refused(changes, message) -> None:
    with pytest.raises(InputError, match=message):
        experiment(**changes).check()


@pytest.mark.parametrize("scale", ["quick", "paper"])
def test_the_preset_is_sound(scale) -> None:
    preset = read_preset("recup/reconstruction", scale)
    assert preset.experiment is not None
    preset.experiment.check()
    quick = dataclasses.asdict(preset.experiment)  # type: ignore[call-overload]
    assert [case["name"] for case in quick["cases"]] == ["LFW, sigmoid LeNet", "LFW", "CelebA"]
