"""Tables of curious classifiers: measured, kept, set beside the paper, drawn; bad settings and absent data are told."""

import json

import pytest
from fedveil_papers import Kept, make_experiment
from fedveil_papers.cli import run_experiment
from fedveil_papers.curious_beside import add_ways, printed
from fedveil_papers.preset import SCALES, Preset, read_preset
from made_celeba import ramps, write_celeba
from rich.console import Console
from tiny_study import fedveil_here

from fedveil.core.errors import InputError

PRESETS = ("adult", "audiomnist", "celeba", "digits", "federated", "generalisation", "utkface")
SMALL = {
    "kind": "curious-tables",
    "data": {"source": "synthetic", "options": {"n": 2000, "bits": 0.8}},
    "epochs": 6,
    "runs": 2,
    "panel": "logistic",
    "draws": 100,
    "settings": {
        "Std": {"beta_y": 1.0, "beta_s": 0.0},
        "RawHBC": {"beta_y": 0.7, "beta_s": 0.3},
        "regularised": {"beta_y": 0.5, "beta_s": 0.5, "output": "soft", "attack": "regularised"},
    },
    "blocks": [
        {"name": "dedicated", "target": "u", "secrets": ["u"], "settings": ["Std"]},
        {
            "name": "T",
            "target": "y",
            "secrets": ["u"],
            "settings": ["Std", "RawHBC", "regularised"],
            "pictures": ["roc", "histogram"],
            "joint": True,
        },
    ],
}
PAPER = [
    {"table": "T", "setting": "Std", "honesty": "81.09 ± .37", "curiosity": "56.37 ± .47", "entropy": ".48 ± .05"},
    {"secret": "u", "joint": [[0.25, 0.25], [0.25, 0.25]], "information": 0.0},
    {"note": "printed below"},
]


def made(**changes):
    return make_experiment({**SMALL, **changes}, "preset x: experiment")


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", PRESETS)
def test_presets_can_be_run(name, scale):
    preset = read_preset(f"curious/{name}", scale)
    preset.experiment.check()
    assert preset.experiment.runs == {"quick": 1, "paper": 5}[scale]
    assert any(cell.game.get("beta_s") == 0 and not cell.dedicated for cell in preset.experiment.cells())


def test_federations_train_them_in_both_forms(tmp_path):
    few = {"devices": 3, "rounds": 4}
    settings = {
        "by devices": {"beta_y": 0.7, "beta_s": 0.3, "federation": few},
        "by the server": {"form": "server", "federation": {**few, "auxiliary": 0.3}},
    }
    blocks = [{"name": "T", "target": "y", "secrets": ["u"], "settings": [*settings]}]
    found = made(settings=settings, blocks=blocks, runs=1).run(Kept(tmp_path), print, [])
    assert [row["setting"] for row in found["rows"]] == [*settings]
    assert all(row["honesty"]["estimate"] > 0.6 for row in found["rows"])
    wrong = {"by devices": {"federation": {"device": 3}}}
    with pytest.raises(InputError, match="no 'device'"):
        made(settings=wrong, blocks=[{**blocks[0], "settings": ["by devices"]}]).run(Kept(tmp_path / "b"), print, [])


@pytest.mark.parametrize(("name", "tables"), [("utkface", "345789"), ("celeba", "12")])
def test_every_printed_figure_has_its_cell_and_every_cell_its_figure(name, tables):
    preset = read_preset(f"curious/{name}", "paper")
    found = {}
    for cell in preset.experiment.cells():
        here = {"table": cell.table, "setting": cell.setting, "point": cell.point, "secret": cell.secrets[0]}
        if cell.table.startswith("Table"):
            told = printed(preset.paper, here)
            assert {"honesty", "curiosity"} <= set(told), here
            found.setdefault(cell.table[6], []).append(told["curiosity"])
    assert sorted(found) == list(tables)
    expected = {"1": 36, "2": 24, "3": 64, "4": 24, "5": 20, "7": 22, "8": 64, "9": 23}
    assert {table: len(figures) for table, figures in found.items()} == {table: expected[table] for table in tables}


@pytest.mark.parametrize(
    ("setting", "point", "honesty", "curiosity"),
    [
        ("Std", {"age_classes": 3, "race_classes": 3}, "81.09 ± .37", "56.37 ± .47"),
        ("RawHBC (.7, .3)", {"age_classes": 3, "race_classes": 3}, "81.35 ± .28", "83.42 ± .29"),
        ("SoftHBC (.5, .5)", {"age_classes": 3, "race_classes": 3}, "69.56 ± .75", "80.14 ± .30"),
        ("Std", {"age_classes": 5, "race_classes": 5}, "62.24 ± .61", "49.22 ± .62"),  # printed 67.00, a slip
    ],
)
def test_anchor_rows_stand_where_the_paper_prints_them(setting, point, honesty, curiosity):
    paper = read_preset("curious/utkface", "quick").paper
    told = printed(paper, {"table": "Table 3", "setting": setting, "point": point, "secret": "race"})
    assert told == {"honesty": honesty, "curiosity": curiosity}


def test_it_is_measured_kept_laid_out_and_drawn(tmp_path):
    preset = Preset("curious/tiny", "A tiny one", [], PAPER, experiment=made())
    console = Console(record=True, width=260)
    run_experiment(preset, "quick", tmp_path, fresh=False, json=False, console=console)
    shown = json.loads((tmp_path / "reproduced.json").read_text("utf-8"))["shows"]
    assert (tmp_path / shown["picture"]).stat().st_size > 20_000
    dedicated, std, raw, regularised = shown["rows"]
    assert dedicated["dedicated"]
    assert std["own"]["estimate"] < raw["own"]["estimate"]
    assert raw["balanced"]["estimate"] > std["balanced"]["estimate"] + 0.1
    assert raw["honesty"]["deviation"] >= 0
    assert raw["way_own"] > 0.5
    assert "way_own" not in std
    assert std["gap"]["low"] <= std["gap"]["estimate"] <= std["gap"]["high"]
    assert std["paper"] == {"honesty": "81.09 ± .37", "curiosity": "56.37 ± .47", "entropy": ".48 ± .05"}
    assert sum(regularised["histogram"]) == pytest.approx(1)
    assert 0.5 < std["roc"]["y"]["area"] <= 1
    assert len(std["roc"]["y"]["wrong"]) <= 100
    (joint,) = shown["joints"]
    assert sum(map(sum, joint["joint"])) == pytest.approx(1)
    text = console.export_text()
    for word in ("81.09 ± .37", "prior", "printed below", "area under the ROC curve", "Table 1A"):
        assert word in text
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").iterdir()}
    again = preset.experiment.run(Kept(tmp_path), lambda _: None, PAPER)
    assert again["rows"] == shown["rows"]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").iterdir()} == before


def test_the_way_is_told_only_where_there_is_one():
    def row(share, dedicated=False, curious=True, **more):
        figure = {"estimate": share}
        same = {"source": "a", "target": "y", "secret": "s", "S": 2, "point": {}, "options": {}, "output": "raw"}
        return {**same, "dedicated": dedicated, "curious": curious, "own": figure, "balanced": figure, **more}

    std, raw, best = row(0.6, curious=False), row(0.87), row(0.9, dedicated=True, curious=False)
    other = row(0.87, S=3)
    add_ways([std, raw, best, other])
    assert raw["way_own"] == pytest.approx(0.9)
    assert "way_own" not in other
    close = row(0.605, dedicated=True, curious=False)
    add_ways([std, raw, close])
    assert raw["way_own"] is None


@pytest.mark.slow
def test_celeba_runs_unchanged_on_a_folder_in_its_layout(tmp_path, monkeypatch):
    write_celeba(tmp_path / "data" / "celeba", ramps)
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path / "data"))
    done = fedveil_here("reproduce", "curious/celeba", "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)["shows"]
    assert len(shown["joints"]) == 4
    assert len(shown["rows"]) == 9
    assert shown["rows"][0]["paper"] == {"honesty": "97.67 ± .04"}


def test_without_the_folder_a_line_says_so_and_nothing_is_written(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path / "data"))
    done = fedveil_here("reproduce", "curious/celeba", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "celeba" in done.stderr
    assert len(done.stderr.strip().splitlines()[-1]) > 20
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"runs": 0}, "at least 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"data": {"source": "syntetic"}}, "synthetic"),
        ({"data": {"source": "synthetic", "option": {}}}, "no 'option'"),
        ({"panel": "forrest"}, "did you mean 'forest'"),
        ({"settings": {**SMALL["settings"], "Std": {"beta_z": 1.0}}}, "unknown setting .beta_z."),
        ({"settings": {"Standard": {}}}, "no setting 'Std'"),
        ({"blocks": [{**SMALL["blocks"][0], "pictures": ["rok"]}]}, "no picture 'rok'"),
        ({"blocks": [{"name": "T", "target": "y"}]}, "is missing"),
    ],
)
def test_bad_settings_are_told_in_a_line(changes, said):
    with pytest.raises(InputError, match=said):
        made(**changes).check()
