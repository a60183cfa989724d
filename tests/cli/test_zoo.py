"""`fedveil zoo`: a shadow run's updates become a self-describing file; a build that cannot work writes nothing."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors.torch import save_file

from fedveil.config.cells import load_data, make_federation, make_game
from fedveil.config.study import read_study
from fedveil.federation.exchange import segments_of
from fedveil.federation.run import begin
from fedveil.shields.recup import Fitting, Zoo, fit_zoo
from fedveil.updates import Segment

STUDY = {
    "name": "zoo",
    "data": {
        "source": "synthetic",
        "target": "y",
        "sensitive": ["u"],
        "options": {"n": 3000, "bits": 0.9, "overlap": 0.9, "validation": 0.4, "test": 0.1},
    },
    "federation": {"devices": 30, "rounds": 3, "partition": {"kind": "dirichlet", "alpha": 0.1, "by": "u"}},
    "methods": [
        {
            "name": "defended",
            "game": {"kind": "fedavg", "hidden": [8], "batch_size": 10},
            "shield": {"kind": "dp-gaussian", "clip": 1.0},
            "varies": "shield.sigma",
            "strengths": [50.0],
        }
    ],
}
PAGE = Path(__file__).resolve().parents[2] / "docs" / "zoo.md"
SMALL = ("--members", "2", "--widths", "16-32")


@pytest.fixture
def study(tmp_path):
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(STUDY))
    return path


def build(run, study, *more, attribute="u", rounds="1,3", out=None):
    out_path = study.with_name("u.safetensors") if out is None else out
    return run("zoo", "build", study, "--attribute", attribute, "--rounds", rounds, "--out", out_path, *more)


def test_a_zoo_is_built_from_an_undefended_shadow_run_and_shown(run, study):
    built = build(run, study, *SMALL, "--shadows", "60", "--json")
    assert built.code == 0, built.err
    manifest = json.loads(built.out)
    assert manifest["attribute"] == "u"
    assert [entry["hidden"][0] for entry in manifest["members"]] == [16, 32]
    assert [entry["round"] for entry in manifest["rounds"]] == [1, 3]
    assert manifest["updates"] + manifest["validation"]["updates"] == 2 * 60
    assert (
        manifest["validation"]["updates"] == 2 * manifest["validation"]["senders"]
    )  # all updates of a sender are held out together
    # The method's own shield would drown everything in noise 50 times the clip; the shadow run has none.
    assert max(entry["balanced_accuracy"]["estimate"] for entry in manifest["members"]) > 0.7
    assert "Guessing: 0.500 balanced accuracy" in built.err

    shown = run("zoo", "show", study.with_name("u.safetensors"), "--json")
    assert shown.code == 0
    assert json.loads(shown.out) == manifest
    words = run("zoo", "show", study.with_name("u.safetensors"))
    assert "u: 2 members" in words.out
    assert "Prior: 0 0." in words.out
    assert manifest["rounds"][1]["digest"][:12] in words.out


def test_the_zoo_fits_the_study_s_own_run_and_knows_where_its_updates_started(run, study):
    assert build(run, study, *SMALL).code == 0
    zoo = Zoo.load(study.with_name("u.safetensors"))
    read = read_study(study)
    federation = make_federation(read, read.methods[0], 50.0, 0, load_data(read, 0))
    played = begin(federation, make_game(read.methods[0], 50.0))
    segments = segments_of(played)
    zoo.check(segments, "u")
    start = torch.cat([played.shared[player] for player in dict.fromkeys(segment.player for segment in segments)])
    assert zoo.nearest_round(start) == (1, 0.0)
    assert zoo.staleness(2 * start) == pytest.approx(1.0, abs=0.3)


def test_the_same_command_writes_the_same_bytes_and_fewer_bits_make_a_smaller_file(run, study):
    paths = [study.with_name(f"{name}.safetensors") for name in ("a", "b", "small")]
    for path, more in zip(paths, ([], [], ["--bits", "8"]), strict=True):
        assert build(run, study, *SMALL, *more, rounds="1", out=path).code == 0
    assert paths[0].read_bytes() == paths[1].read_bytes()
    assert paths[2].stat().st_size < paths[0].stat().st_size
    assert Zoo.load(paths[2]).bits == 8


def test_one_record_per_shadow(run, study):
    changes = ("--set", "federation.partition={kind: one-each}", "--set", "data.records=400", "--shadows", "120")
    built = build(run, study, *SMALL, *changes, "--json", rounds="1")
    assert built.code == 0, built.err
    assert json.loads(built.out)["validation"]["senders"] == 24


@pytest.mark.parametrize(
    ("message", "options"),
    [
        ("no attribute 'v' in the study's data.sensitive; choose one of: u", {"attribute": "v"}),
        ("round 4 is never played; the study has rounds 1 to 3", {"rounds": "1,4"}),
        ("round 0 is never played", {"rounds": "0"}),
        ("each once", {"rounds": "1,1"}),
        ("'one' is not a whole number", {"rounds": "one"}),
        ("at fewer than 2 of 2 shadow devices", {"more": ["--shadows", "2"]}),
        ("90000 shadow devices for 1200 validation records", {"more": ["--shadows", "90000"]}),
        ("cannot reveal it", {"more": ["--set", "federation.devices=1", "--shadows", "20"]}),
        ("did you mean 'max'?", {"more": ["--features", "maxx"]}),
        ("depth is a number of layers", {"more": ["--depth", "6"]}),
        ("got 5", {"more": ["--bits", "5"]}),
        ("narrowest first", {"more": ["--widths", "64-8"]}),
        ("lists 2 widths for 3 members", {"more": ["--widths", "8,16", "--members", "3"]}),
        ("sends no updates", {"more": ["--set", "methods=[{name: raw, game: raw}]"]}),
        ("unknown field", {"more": ["--set", "federation.round=3"]}),
    ],
)
def test_bad_input_is_refused_before_anything_is_written(run, study, message, options):
    more = options.pop("more", [])
    line = build(run, study, *more, **options).refused()
    assert message in line
    assert list(study.parent.iterdir()) == [study]


def test_a_path_that_cannot_be_written_is_refused_before_the_run(run, study, tmp_path):
    folder = tmp_path / "folder.safetensors"
    folder.mkdir()
    for path, message in (
        (tmp_path / "nowhere" / "u.safetensors", "not a directory that can be written to"),
        (folder, "is a directory"),
        (study, "does not end in .safetensors"),
    ):
        assert message in build(run, study, out=path).refused()
    assert yaml.safe_load(study.read_text()) == STUDY


def test_show_refuses_files_that_are_not_zoos(run, study, tmp_path):
    assert "no such zoo" in run("zoo", "show", tmp_path / "missing.safetensors").refused()
    assert "cut short, or not a zoo" in run("zoo", "show", study).refused()
    np.save(tmp_path / "vectors.npy", np.zeros(3))
    assert "cut short, or not a zoo" in run("zoo", "show", tmp_path / "vectors.npy").refused()


def quoted():
    """Return the failing commands that docs/zoo.md shows, each with its message."""
    (block,) = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    lines = block.splitlines()
    return list(zip(lines[::2], lines[1::2], strict=True))


@pytest.mark.parametrize(("command", "message"), quoted())
def test_the_page_quotes_its_messages(run, study, monkeypatch, command, message):
    monkeypatch.chdir(study.parent)
    save_file({"weight": torch.ones(3)}, "foreign.safetensors")
    whole = zoo_bytes()
    Path("short.safetensors").write_bytes(whole[:-9])
    Path("altered.safetensors").write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert run(*command.split()[2:]).refused() == message


def zoo_bytes():
    """Return a real zoo's file."""
    rng = torch.Generator().manual_seed(0)
    segments = (Segment("model", "weight", (3, 4), 0),)
    updates = torch.randn(40, 12, generator=rng)
    zoo = fit_zoo(updates, np.arange(40) % 2, ("0", "1"), "u", segments, widths=(4,), fitting=Fitting(most_epochs=1))
    zoo.save("whole.safetensors")
    return Path("whole.safetensors").read_bytes()


def test_the_page_names_every_option_of_build():
    from typer.main import get_command

    from fedveil.cli import app

    build_command = get_command(app).commands["zoo"].commands["build"]
    options = {
        name for parameter in build_command.params if parameter.param_type_name == "option" for name in parameter.opts
    }
    page = PAGE.read_text(encoding="utf-8").partition("## In Python")[0]
    table = re.findall(r"^\| `(--[a-z]+)` \|", page, re.MULTILINE)
    assert set(table) == options
