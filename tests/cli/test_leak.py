import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def files(tmp_path):
    """Vectors that give sex away and say nothing about coin, in every format, with a table of labels."""
    rng = np.random.default_rng(0)
    n = 600
    sex = rng.integers(0, 2, n)
    vectors = rng.normal(size=(n, 4))
    vectors[:, 0] += 2 * sex
    people = pd.DataFrame(
        {
            "sex": np.where(sex, "male", "female"),
            "coin": rng.integers(0, 2, n),
            "age": rng.normal(40, 12, n).round(1),
            "person": np.arange(n) // 2,
            "constant": "x",
        }
    )
    people["sex"] = people["sex"].where(np.arange(n) % 50 != 0)
    people.to_csv(tmp_path / "people.csv", index=False)
    people.to_parquet(tmp_path / "people.parquet")
    np.save(tmp_path / "vectors.npy", vectors)
    np.savez(tmp_path / "vectors.npz", vectors=vectors)
    frame = pd.DataFrame(vectors, columns=list("abcd"))
    frame.to_csv(tmp_path / "vectors.csv", index=False)
    frame.to_parquet(tmp_path / "vectors.parquet")
    pd.concat([frame, people], axis=1).drop(columns="constant").to_csv(tmp_path / "both.csv", index=False)
    return tmp_path


def figures(ran):
    assert ran.code in (0, 1), ran.err
    assert ran.out.count("\n") == 1
    return json.loads(ran.out)


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv", "parquet"])
def test_every_format_gives_the_same_figures(run, files, suffix):
    ran = run(
        "leak", files / f"vectors.{suffix}", "--attribute", f"{files}/people.csv:sex", "--panel", "logistic", "--json"
    )
    answer = figures(ran)
    assert answer["attribute"] == "sex"
    assert answer["n"] == 588
    assert answer["unlabelled"] == 12
    assert answer["classes"] == ["female", "male"]
    assert answer["worst"]["name"] == "logistic"
    assert answer["worst"]["balanced_accuracy"]["estimate"] == pytest.approx(0.84, abs=0.07)
    for name in ("accuracy", "balanced_accuracy", "auc", "advantage"):
        figure = answer["worst"][name]
        assert figure["low"] <= figure["estimate"] <= figure["high"]
    assert set(answer["mutual_information_bits"]) == {"estimate", "low", "high"}
    assert [attacker["name"] for attacker in answer["attackers"]] == ["logistic"]
    assert "logistic" in ran.err  # the readable table has gone to stderr


def test_a_person_reads_a_table(run, files):
    ran = run("leak", files / "vectors.npy", "--attribute", f"{files}/people.parquet:sex", "--panel", "quick")
    assert ran.code == 0
    assert "boosting" in ran.out
    assert "balanced accuracy" in ran.out
    assert "not guarantees" in ran.out


def test_labels_in_the_vectors_own_file_are_not_part_of_the_vectors(run, files):
    ask = ["leak", files / "both.csv", "--attribute", f"{files}/both.csv:coin", "--panel", "boosting", "--json"]
    answer = figures(run(*ask, "--columns", "a,b,c,d"))
    assert answer["worst"]["balanced_accuracy"]["estimate"] < 0.65
    assert run(*ask).refused().count("sex") == 1  # text among the vectors is named, not guessed at


def test_fail_above_sets_the_exit_code_for_continuous_integration(run, files):
    ask = ["leak", files / "vectors.npy", "--attribute", f"{files}/people.csv:sex", "--panel", "logistic"]
    assert run(*ask, "--fail-above", "0.99").code == 0
    ran = run(*ask, "--fail-above", "0.55", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["worst"]["balanced_accuracy"]["estimate"] > 0.55
    assert "above --fail-above" in ran.err


def test_a_gate_can_ask_for_the_upper_end_of_the_interval(run, files):
    ask = ["leak", files / "vectors.npy", "--attribute", f"{files}/people.csv:sex", "--panel", "logistic", "--json"]
    figure = json.loads(run(*ask).out)["worst"]["balanced_accuracy"]
    between = (figure["estimate"] + figure["high"]) / 2
    assert run(*ask, "--fail-above", between).code == 0
    ran = run(*ask, "--fail-above", between, "--fail-if-possible-above", between)
    assert ran.code == 1
    assert "--fail-above" not in ran.err
    assert f"fedveil: sex may be read at up to {figure['high']:.3f}" in ran.err.splitlines()[-1]
    assert run(*ask, "--fail-if-possible-above", figure["high"]).code == 0
    assert "--fail-if-possible-above is a balanced accuracy" in run(*ask, "--fail-if-possible-above", "7").refused()


def test_several_attributes_intersections_groups_and_given_columns(run, files):
    answer = figures(
        run(
            "leak", files / "vectors.npy", "--json", "--panel", "logistic", "--intersections", "--given", "age",
            "--group", "person", "--attribute", f"{files}/people.csv:sex", "--attribute", f"{files}/people.csv:coin",
        )
    )  # fmt: skip
    assert {entry["attribute"] for entry in answer["attributes"]} == {"sex", "coin", "sex × coin"}
    assert answer["attribute"] == "sex"
    assert answer["groups"] < answer["split"]["victims"]
    assert answer["beyond"]["columns"] == ["age"]
    assert answer["beyond"]["balanced_accuracy"]["low"] > 0.1
    coin = next(entry for entry in answer["attributes"] if entry["attribute"] == "coin")
    assert coin["adjusted_p_value"] >= coin["p_value"]


def test_rare_combinations_are_left_out_of_intersections(run, files):
    people = pd.read_csv(files / "people.csv")
    people["race"] = np.where(np.arange(600) < 12, "d", np.where(np.arange(600) % 2, "a", "b"))
    people.to_csv(files / "races.csv", index=False)
    answer = figures(
        run(
            "leak", files / "vectors.npy", "--json", "--panel", "logistic", "--intersections",
            "--attribute", f"{files}/races.csv:sex", "--attribute", f"{files}/races.csv:race",
        )
    )  # fmt: skip
    joint = next(entry for entry in answer["attributes"] if entry["attribute"] == "sex × race")
    assert not any("d" in value.split(" × ") for value in joint["classes"])
    assert joint["unlabelled"] == 24 - sum(i % 50 == 0 for i in range(12))


def test_markup_in_names_is_shown_and_not_interpreted(run, files):
    table = pd.read_csv(files / "people.csv")
    table.rename(columns={"sex": "[red]sex[/red]"}).to_csv(files / "odd.csv", index=False)
    ran = run("leak", files / "vectors.npy", "--attribute", f"{files}/odd.csv:[red]sex[/red]", "--panel", "logistic")
    assert ran.code == 0
    assert "[red]sex[/red]" in ran.out


def test_as_a_real_process(files):
    ran = subprocess.run(
        [sys.executable, "-m", "fedveil", "leak", "vectors.npy", "--attribute", "people.csv:sexx"],
        cwd=files, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr == "fedveil: people.csv: no column 'sexx': did you mean 'sex'?\n"


BAD = {
    "missing file": (("nothing.npy", "people.csv:sex"), "nothing.npy"),
    "directory": (("folder", "people.csv:sex"), "folder"),
    "directory named as a file": (("folder.npy", "people.csv:sex"), "directory"),
    "missing label file": (("vectors.npy", "nobody.csv:sex"), "nobody.csv"),
    "misspelt column": (("vectors.npy", "people.csv:sexx"), "did you mean 'sex'"),
    "no column": (("vectors.npy", "people.csv"), "FILE:COLUMN"),
    "one value": (("vectors.npy", "people.csv:constant"), "one value"),
    "rows differ": (("short.npy", "people.csv:sex"), "has 10"),
    "nan": (("nan.npy", "people.csv:sex"), "NaN"),
    "inf": (("inf.npy", "people.csv:sex"), "inf"),
    "objects": (("objects.npy", "people.csv:sex"), "objects"),
    "truncated npy": (("truncated.npy", "people.csv:sex"), "truncated.npy"),
    "truncated npz": (("truncated.npz", "people.csv:sex"), "truncated.npz"),
    "truncated parquet": (("truncated.parquet", "people.csv:sex"), "truncated.parquet"),
    "empty": (("empty.npy", "people.csv:sex"), "empty"),
    "ragged": (("ragged.csv", "people.csv:sex"), "line 3"),
    "another encoding": (("vectors.npy", "latin.csv:sex"), "UTF-8"),
    "rare value": (("vectors.npy", "rare.csv:sex"), "missing from"),
    "unknown extension": (("vectors.txt", "people.csv:sex"), "vectors.txt"),
}


@pytest.fixture
def bad_files(files):
    np.save(files / "short.npy", np.ones((10, 2)))
    for name, value in (("nan", np.nan), ("inf", np.inf)):
        vectors = np.load(files / "vectors.npy")
        vectors[7, 2] = value
        np.save(files / f"{name}.npy", vectors)
    np.save(files / "objects.npy", np.array([{"a": 1}] * 600, dtype=object), allow_pickle=True)
    for suffix in ("npy", "npz", "parquet"):
        whole = (files / f"vectors.{suffix}").read_bytes()
        (files / f"truncated.{suffix}").write_bytes(whole[: len(whole) // 2])
    (files / "empty.npy").write_bytes(b"")
    (files / "ragged.csv").write_text("a,b\n1,2\n3\n" + "5,6\n" * 598)
    (files / "latin.csv").write_bytes(b"sex\n" + "männlich\nweiblich\n".encode("latin-1") * 300)
    rare = pd.read_csv(files / "people.csv")
    rare.loc[5, "sex"] = "other"
    rare.to_csv(files / "rare.csv", index=False)
    (files / "vectors.txt").write_text("1 2 3")
    (files / "folder").mkdir()
    (files / "folder.npy").mkdir()
    return files


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_clear_line(run, bad_files, monkeypatch, case):
    monkeypatch.chdir(bad_files)
    (vectors, attribute), message = BAD[case]
    before = sorted(bad_files.rglob("*"))
    line = run("leak", vectors, "--attribute", attribute, "--panel", "logistic", "--json").refused()
    assert message.lower() in line.lower()
    assert sorted(bad_files.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--given", "agee"], "did you mean 'age'"),
        (["--given", "sex"], "attribute itself"),
        (["--group", "persn"], "did you mean 'person'"),
        (["--fail-above", "55"], "between 0 and 1"),
        (["--fail-above", "much"], "fail-above"),
        (["--panel", "forrest"], "did you mean 'forest'"),
        (["--intersections"], "at least two"),
        (["--columns", "9"], "9"),
        (["--attribute", "people.csv:sex"], "twice"),
        (["--nonsense"], "--nonsense"),
        (["--columns", "a,coin", "--attribute", "people.csv:coin"], "no column 'a'"),
        (["--device", "gpu"], "choose auto or cpu"),
        (["--bins", "1", "--attribute", "people.csv:age"], "bins"),
    ],
)
def test_bad_options_get_one_clear_line(run, files, monkeypatch, options, message):
    monkeypatch.chdir(files)
    assert message in run("leak", "vectors.npy", "--attribute", "people.csv:sex", *options).refused()


def test_no_attribute_at_all(run, files):
    assert "attribute" in run("leak", files / "vectors.npy").refused()
