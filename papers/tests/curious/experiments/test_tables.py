"""Tables of curious classifiers: measured, kept, set beside the paper, drawn; bad settings and absent data refused."""

import json
from dataclasses import replace

import pytest
from curious_settings import TABLES
from fedveil_papers.curious.experiments.cells import Cell
from fedveil_papers.curious.experiments.figures import RunFigure
from fedveil_papers.curious.experiments.table_rows import TableRow, printed, with_ways
from fedveil_papers.kinds import make_experiment
from fedveil_papers.preset import SCALES, read_preset
from small_experiment import reproduced_once
from synthetic_celeba import ramps, write_celeba
from tiny_study import fedveil_here

from fedveil.core.errors import InputError

PRESETS = ("adult", "audiomnist", "celeba", "digits", "federated", "generalisation", "utkface")
PAPER = [
    {"table": "T", "setting": "Std", "honesty": "81.09 ± .37", "curiosity": "56.37 ± .47", "entropy": ".48 ± .05"},
    {"secret": "u", "joint": [[0.25, 0.25], [0.25, 0.25]], "information": 0.0},
    {"note": "printed below"},
]


def experiment(**changes):
    return make_experiment({**TABLES, **changes}, "preset x: experiment")


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
    results = experiment(settings=settings, blocks=blocks, runs=1).run(tmp_path)
    assert [row.setting for row in results.rows] == [*settings]
    assert all(row.honesty.estimate > 0.6 for row in results.rows)
    wrong = {"by devices": {"federation": {"device": 3}}}
    with pytest.raises(InputError, match="experiment: federation: unknown setting 'device': did you mean 'devices'"):
        experiment(settings=wrong, blocks=[{**blocks[0], "settings": ["by devices"]}]).check()


@pytest.mark.parametrize(("name", "tables"), [("utkface", "345789"), ("celeba", "12")])
def test_every_printed_figure_has_its_cell_and_every_cell_its_figure(name, tables):
    preset = read_preset(f"curious/{name}", "paper")
    curiosity = {}
    for cell in preset.experiment.cells():
        if cell.table.startswith("Table"):
            figures = printed(preset.paper, cell, cell.secrets[0])
            assert {"honesty", "curiosity"} <= set(figures), cell
            curiosity.setdefault(cell.table[6], []).append(figures["curiosity"])
    assert sorted(curiosity) == list(tables)
    expected = {"1": 36, "2": 24, "3": 64, "4": 24, "5": 20, "7": 22, "8": 64, "9": 23}
    assert {table: len(figures) for table, figures in curiosity.items()} == {table: expected[table] for table in tables}


@pytest.mark.parametrize(
    ("setting", "point", "honesty", "curiosity"),
    [
        ("Std", {"age_classes": 3, "race_classes": 3}, "81.09 ± .37", "56.37 ± .47"),
        ("RawHBC (.7, .3)", {"age_classes": 3, "race_classes": 3}, "81.35 ± .28", "83.42 ± .29"),
        ("SoftHBC (.5, .5)", {"age_classes": 3, "race_classes": 3}, "69.56 ± .75", "80.14 ± .30"),
        ("Std", {"age_classes": 5, "race_classes": 5}, "62.24 ± .61", "49.22 ± .62"),  # printed 67.00, a slip
    ],
)
def test_anchor_rows_are_where_the_paper_prints_them(setting, point, honesty, curiosity):
    paper = read_preset("curious/utkface", "quick").paper
    cell = Cell("Table 3", "utkface", {}, ("race",), "age", ("race",), setting, {}, point, 1)
    assert printed(paper, cell, "race") == {"honesty": honesty, "curiosity": curiosity}


@pytest.fixture(scope="module")
def reproduction(tmp_path_factory):
    return reproduced_once(TABLES, PAPER, tmp_path_factory.mktemp("tables"))


def test_it_is_measured_kept_laid_out_and_drawn(reproduction):
    dedicated, std, raw, regularised = reproduction.results.rows
    assert dedicated.dedicated
    assert std.own.estimate < raw.own.estimate
    assert raw.balanced.estimate > std.balanced.estimate + 0.1
    assert raw.honesty.deviation >= 0
    assert raw.way_own > 0.5
    assert std.way_own is None
    assert std.gap.low <= std.gap.estimate <= std.gap.high
    assert std.paper == {"honesty": "81.09 ± .37", "curiosity": "56.37 ± .47", "entropy": ".48 ± .05"}
    assert sum(regularised.histogram) == pytest.approx(1)
    assert 0.5 < std.roc["y"].area <= 1
    assert len(std.roc["y"].wrong) <= 100
    assert dedicated.roc is None  # its table has no picture
    assert "rows" not in reproduction.shows
    shown = reproduction.shows["classifiers"][1]
    assert set(shown) == {
        *("table", "point", "setting", "target", "secret", "Y", "S", "kept", "seconds"),
        *("roc", "histogram", "deviations", "gap", "entropy"),
    }
    assert shown["deviations"]["honesty"] == std.honesty.deviation
    assert shown["gap"] == {"low": std.gap.low, "high": std.gap.high}
    (joint,) = reproduction.shows["joints"]
    assert joint["secret"] == "u"
    assert sum(map(sum, joint["joint"])) == pytest.approx(1)
    for word in ("81.09 ± .37", "prior", "printed below", "area under the ROC curve", "Table 1A"):
        assert word in reproduction.text


def test_rows_name_the_setting_who_reads_it_and_what_the_paper_prints(reproduction):
    rows = {(row["more"]["table"], row["method"], row["attacker"]): row for row in reproduction.rows}
    assert len(rows) == len(reproduction.rows) == 8
    maker, retrained = (rows["T", "RawHBC", attacker] for attacker in ("maker", "retrained"))
    for row in (maker, retrained):
        assert (row["task"], row["attribute"], row["strength"], row["seeds"]) == ("y", "u", None, [0, 1])
        assert row["utility"]["accuracy"]["low"] < row["utility"]["accuracy"]["high"]
    raw = reproduction.results.rows[2]
    assert maker["leakage"]["accuracy"]["estimate"] == raw.own.estimate
    assert retrained["leakage"]["balanced_accuracy"]["estimate"] == raw.balanced.estimate
    assert retrained["more"]["way"] == raw.way_balanced
    assert rows["T", "Std", "maker"]["paper"]["T"]["curiosity"] == "56.37 ± .47"


def table_row(share, **changes):
    figure = RunFigure(share, share - 0.01, share + 0.01)
    names = ("honesty", "gap", "entropy", "own", "prior", "accuracy", "balanced", "information")
    row = TableRow(
        **dict.fromkeys(names, figure),
        secret="s",
        Y=2,
        S=2,
        target_prior=0.5,
        kept=1,
        own_balanced=share,
        fresh=True,
        attacker="a",
        table="T",
        setting="x",
        target="y",
        source="a",
        options={},
        point={},
        epochs=1,
        merge={},
        dedicated=False,
        curious=True,
        output="raw",
        together=["s"],
    )
    return replace(row, **changes)


def test_the_way_to_curiosity_is_given_only_where_it_is_defined():
    std, raw = table_row(0.6, curious=False), table_row(0.87)
    best, other = table_row(0.9, dedicated=True, curious=False), table_row(0.87, S=3)
    ways = with_ways([std, raw, best, other])
    assert ways[1].way_own == pytest.approx(0.9)
    assert [ways[index].way_own for index in (0, 2, 3)] == [None] * 3
    close = table_row(0.605, dedicated=True, curious=False)
    assert with_ways([std, raw, close])[1].way_own is None


@pytest.mark.slow
def test_celeba_runs_unchanged_on_a_folder_in_its_layout(tmp_path, monkeypatch):
    write_celeba(tmp_path / "data" / "celeba", ramps)
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path / "data"))
    done = fedveil_here("reproduce", "curious/celeba", "--out", tmp_path / "out", "--json")
    assert done.returncode == 0, done.stderr
    values = json.loads(done.stdout)
    assert len(values["shows"]["joints"]) == 4
    assert len(values["shows"]["classifiers"]) == 9
    assert len(values["rows"]) == 18
    assert list(values["rows"][0]["paper"].values()) == [{"honesty": "97.67 ± .04"}]


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
    ("changes", "message"),
    [
        ({"runs": 0}, "at least 1"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"data": {"source": "syntetic"}}, "synthetic"),
        ({"data": {"source": "synthetic", "option": {}}}, "no 'option'"),
        ({"panel": "forrest"}, "did you mean 'forest'"),
        ({"settings": {**TABLES["settings"], "Std": {"beta_z": 1.0}}}, "unknown setting .beta_z."),
        ({"settings": {"Standard": {}}}, "no setting 'Std'"),
        ({"blocks": [{**TABLES["blocks"][0], "pictures": ["rok"]}]}, "no picture 'rok'"),
        ({"blocks": [{"name": "T", "target": "y"}]}, "is missing"),
    ],
)
def test_bad_settings_are_refused_in_a_line(changes, message):
    with pytest.raises(InputError, match=message):
        experiment(**changes).check()
