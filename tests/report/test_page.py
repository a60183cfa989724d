"""The page as a file, the command, the notebook's chart and the exports: whole, small, honest about what is missing."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from synthetic_study import METHODS, Law, SyntheticStudy, many_cells

from fedveil.cli import main
from fedveil.cli.run import rows_table
from fedveil.core.errors import InputError
from fedveil.report import write_report
from fedveil.report.build import MOST_BYTES
from fedveil.report.charts import plot_frontier
from fedveil.report.export import latex_text
from fedveil.report.figures import figure
from fedveil.report.gather import page_data
from fedveil.report.marks import COLOURS, DARK_PAPER, LIGHT_PAPER, marks
from fedveil.report.pack import pack
from fedveil.report.tsne import CELLS, tsne_map
from fedveil.studies.results import open_study

REPOSITORY = Path(__file__).resolve().parents[2]
NASTY = "<script>alert(1)</script>\"'&\u2028</script><img src=x onerror=alert(2)>"


def luminance(colour: str) -> float:
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_page_needs_nothing_but_itself(study):
    path = write_report(study())
    page = path.read_text(encoding="utf-8")
    assert path.name == "report.html"
    assert len(page.encode()) < MOST_BYTES
    head = page[: page.index("<style>")]
    assert "default-src 'none'" in head
    assert "unsafe-eval" not in head
    assert not re.search(r"script-src[^;]*unsafe-inline", head)
    markup = page[: page.index('<script type="application/json"')] + page[page.rindex("<script>") :]
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:|//)""", markup)
    assert "@import" not in markup


def test_untrusted_strings_never_leave_their_block(study):
    synthetic = SyntheticStudy(
        methods={NASTY: METHODS["adversarial"], "none": METHODS["none"]}, attributes={NASTY: (NASTY, "b")}, name=NASTY
    )
    page = write_report(study(synthetic)).read_text(encoding="utf-8")
    assert "alert(1)</script>" not in page
    assert "<img src=x" not in page
    assert page.count("<script") == 3
    assert "\u2028" not in page[page.index('id="data"') : page.index("plotly.js")]


def test_500_cells_fit(study):
    results = study(many_cells())
    assert len(results.planned) >= 498
    path = write_report(results)
    assert path.stat().st_size < MOST_BYTES
    assert sum(people is not None for people in page_data(results).maps.released) <= CELLS


@pytest.mark.parametrize("seeds", [(0, 1), (0, 1, 2)])
def test_the_prediction_for_another_seed_reaches_page_and_terminal(study, seeds):
    results = study(seeds=seeds)
    enough = len(seeds) >= 3
    packed = pack(page_data(results))
    points = [point for point in packed["views"][0][0]["points"] if point is not None]
    assert {len(point) for point in points} == {6 if enough else 5}
    console, table = Console(record=True, width=240), rows_table(results.rows)
    console.print(table)
    shown = console.export_text()
    assert ("another seed" in [column.header for column in table.columns]) == enough
    assert ("that takes 3 seeds" in shown) == (not enough)
    if enough:
        predicted = results.rows[0].leakage.new_seed
        assert points[0][5] == [round(value, 3) for value in figure(predicted)]
        assert f"[{predicted.low:.3f}, {predicted.high:.3f}]" in shown


def test_what_is_missing_is_named(study):
    results = study(
        unfinished=["m1-2-seed0", "m1-2-seed1"],
        without={
            "m2-1-seed0": ["leakage/sex"],
            "m2-1-seed1": ["leakage/sex"],
            "m3-0-seed0": ["leakage/sex/worst/name"],
        },
    )
    data = page_data(results).figures
    labels = [setting.label for setting in data.settings]
    missing = dict(zip(labels, data.views[0][0].missing, strict=True))
    assert missing["drop-columns (9 columns)"] == "2 of 2 cells not finished"
    assert missing["certified-channel (sigma 1)"] == "seed 0: no leakage of sex; seed 1: no leakage of sex"
    assert missing["adversarial (strength 0.5)"] == "1 of 2 cells not finished"
    ((damaged, why),) = results.damaged  # a result that lacks a part counts as missing
    assert damaged == "m3-0-seed0"
    assert why == "its result cannot be read (leakage.sex.worst.name is missing); run the study again to recompute it"
    assert len(labels) == 9
    assert data.views[0][1].missing[labels.index("certified-channel (sigma 1)")] is None  # race has figures
    assert "PARTIAL" in write_report(results).read_text(encoding="utf-8")


def test_a_study_that_has_not_begun(study):
    results = study(unfinished=[cell["id"] for cell in SyntheticStudy().planned()])
    assert "PARTIAL" in write_report(results).read_text(encoding="utf-8")
    with pytest.raises(InputError, match="no cell is finished"):
        plot_frontier(results)


def test_the_mean_and_the_certificate_are_the_studys(study):
    results = study()
    view = page_data(results).figures.views[0][0]
    row = next(row for row in results.rows if (row.method, row.task, row.attribute) == ("none", "income", "sex"))
    point = view.points[0]
    assert point.leakage == pytest.approx(tuple(row.leakage.balanced_accuracy.as_dict().values()), abs=1e-4)
    assert point.utility == pytest.approx(tuple(row.utility.accuracy.as_dict().values()), abs=1e-4)
    bounds = [bound for bound in view.bounds if bound is not None]
    assert bounds == pytest.approx([0.97725, 0.84135, 0.59871], abs=1e-4)
    assert all(bound >= exact for bound, exact in zip(bounds, [0.977249, 0.841344, 0.598706], strict=True))


def test_the_notebooks_chart_shows_the_pages_points(study):
    results = study()
    figure = plot_frontier(results, attribute="race")
    view = page_data(results).figures.views[0][1]
    drawn = {
        i: x
        for trace in figure.data
        if trace.name != "front" and "certified:" not in trace.name
        for i, x in zip(trace.customdata, trace.x, strict=True)
    }
    assert drawn == {i: point.leakage.estimate for i, point in enumerate(view.points)}
    symbols = [trace.marker.symbol for trace in figure.data if trace.marker.symbol]
    assert len(set(symbols)) == len(symbols)
    assert plot_frontier(results, "hours").layout.yaxis.title.text == "utility: accuracy of hours → better"
    with pytest.raises(InputError, match="no task 'incom'"):
        plot_frontier(results, "incom")


def test_marks_differ_in_shape_and_can_be_seen():
    marks_by_method = marks(["none", "drop-columns", *(f"method {k}" for k in range(60))])
    assert len({(mark.light, mark.symbol) for mark in marks_by_method.values()}) == 62
    assert len({mark.symbol for mark in list(marks_by_method.values())[:13]}) == 13
    for light, dark in COLOURS:
        assert contrast(light, LIGHT_PAPER) >= 3
        assert contrast(dark, DARK_PAPER) >= 3


def test_maps_are_repeatable_and_odd_input_gives_none(tmp_path):
    vectors = np.random.default_rng(0).normal(size=(60, 5))
    first = tsne_map(vectors, tmp_path / "cache")
    assert first == tsne_map(vectors, tmp_path / "cache") == tsne_map(vectors)
    assert len(first[0]) == 60
    assert min(first[0]) >= 0
    assert max(map(max, first)) == 1000
    assert tsne_map(np.zeros((50, 3))) is None
    assert tsne_map(np.full((50, 3), np.nan)) is None
    assert tsne_map(np.empty((0, 4))) is None
    assert tsne_map(vectors[:, :1]) is not None


def test_exports(study, tmp_path, command):
    results = study(SyntheticStudy(methods=METHODS | {"50%_of $x$": Law((1.0,), (0.5,), (0.9,))}))
    code, out, _ = command(results.folder, "--export", tmp_path / "figures")
    assert code == 0
    names = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert names == ["attackers-0-sex.png", "attackers-1-race.png", "frontier-0-income-0-sex.png",
                     "frontier-0-income-1-race.png", "frontier-1-hours-0-sex.png", "frontier-1-hours-1-race.png",
                     "losses.png", "maps-0-sex.png", "maps-1-race.png", "table.tex"]  # fmt: skip
    for path in (tmp_path / "figures").glob("*.png"):
        width, height = struct.unpack(">II", path.read_bytes()[16:24])
        assert width > 400
        assert height > 200
    table = (tmp_path / "figures" / "table.tex").read_text(encoding="utf-8")
    assert r"50\%\_of \$x\$ (strength 1)" in table
    assert r"$\leq 0.599$" in table
    assert table.count(r"\begin{tabular}") == 4
    assert "figures" in out


def test_latex_escapes_names():
    assert latex_text(r"\input{x}#~^") == r"\textbackslash{}input\{x\}\#\textasciitilde{}\textasciicircum{}"


def test_the_command(study, tmp_path, command):
    results = study(unfinished=["m3-1-seed1"])
    code, out, _ = command(results.folder, "--out", tmp_path / "page.html", "--json")
    result = json.loads(out.splitlines()[-1])
    assert code == 0
    assert result["complete"] is False
    assert result["bytes"] == (tmp_path / "page.html").stat().st_size
    assert result["words"]["income|sex"][0].startswith("This study is partial")


def test_open_shows_the_page(study, command, monkeypatch):
    shown = []
    monkeypatch.setattr("webbrowser.open", shown.append)
    results = study()
    assert command(results.folder, "--open")[0] == 0
    assert shown == [(results.folder / "report.html").resolve().as_uri()]


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (lambda folder: None, "no such directory"),
        (lambda folder: folder.mkdir(), "holds no study"),
        (lambda folder: folder.write_text("x"), "no such directory"),
        (lambda folder: SyntheticStudy(format=2).write(folder), "format 2"),
        (lambda folder: (folder.mkdir(), (folder / "study.json").write_text("{")), "damaged"),
    ],
)
def test_bad_directories_are_refused_in_one_line(tmp_path, command, prepare, message):
    prepare(tmp_path / "given")
    code, out, err = command(tmp_path / "given")
    assert code == 2
    assert out == ""
    assert len(err.splitlines()) == 1
    assert message in err
    assert not (tmp_path / "given" / "report.html").exists()


def test_bad_outputs_are_refused_in_one_line(study, tmp_path, command):
    folder = study().folder
    (tmp_path / "file").write_text("x")
    for arguments, message in [
        (("--out", tmp_path), "is a directory"),
        (("--out", tmp_path / "no" / "page.html"), "no directory"),
        (("--export", tmp_path / "file"), "is a file"),
    ]:
        code, _, err = command(folder, *arguments)
        assert code == 2
        assert len(err.splitlines()) == 1
        assert message in err


def test_damaged_arrays_are_tolerated(study):
    results = study()
    for cell in results.cells:
        (cell.folder / "sample.safetensors").write_bytes(b"broken")
        (cell.folder / "metrics.jsonl").write_text("{")
    data = page_data(open_study(results.folder))
    assert not any(data.maps.released)
    assert not any(seed.curves for seeds in data.losses for seed in seeds)


@pytest.mark.slow
def test_a_real_study_is_reported(tmp_path, command, published, capsys):
    published("adult")
    with pytest.raises(SystemExit) as stop:
        main(["run", str(REPOSITORY / "studies" / "smoke.yaml"), "--out", str(tmp_path / "smoke")])
    assert not stop.value.code
    code, out, _ = command(tmp_path / "smoke", "--export", tmp_path / "figures", "--json")
    result = json.loads(out.splitlines()[-1])
    assert code == 0
    assert result["complete"] is True
    assert "reads sex from what 20 devices with adult data release" in result["words"]["income|sex"][0]
    assert any("Only certified-channel is proved: at sigma 1" in text for text in result["words"]["income|sex"])
