"""`fedveil audit` as its users meet it: a vendor's table in, a verdict out, one line for every mistake."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from audited_outputs import as_table, coded

from fedveil.audit.reading import read_outputs

ASK = ("--target", "y", "--sensitive", "s", "--panel", "logistic")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table = as_table(coded(400, 0.05, 0))
    table["person"] = np.arange(400) // 2
    table["coin"] = np.random.default_rng(1).integers(0, 2, 400)
    table.to_csv("outputs.csv", index=False)
    return tmp_path


def figures(ran):
    assert ran.code in (0, 1), ran.err
    assert ran.out.count("\n") == 1
    return json.loads(ran.out)


def test_a_verdict_with_its_evidence(run, folder):
    ran = run("audit", "outputs.csv", "--scores", "p0,p1", *ASK, "--json")
    answer = figures(ran)
    assert answer["verdict"] == "curious"
    assert answer["n"] == 400
    assert answer["honesty"]["low"] < answer["honesty"]["estimate"] == pytest.approx(0.9, abs=0.05)
    assert answer["excess"]["unexplained"]["low"] > answer["excess"]["limit_bits"]
    assert answer["curiosity"]["worst"]["balanced_accuracy"]["low"] > 0.85
    assert answer["panel"] == "logistic"
    assert "CURIOUS" in ran.err  # people read it there
    shown = run("audit", "outputs.csv", "--scores", "p0,p1", *ASK)
    assert "CURIOUS" in shown.out
    assert "not guarantees" in shown.out


def test_parquet_raw_scores_and_groups(run, folder):
    table = pd.read_csv("outputs.csv")
    table[["p0", "p1"]] = np.log(table[["p0", "p1"]])
    table.to_parquet("outputs.parquet")
    answer = figures(run("audit", "outputs.parquet", "--scores", "p0,p1", *ASK, "--raw", "--group", "person", "--json"))
    assert answer["verdict"] == "curious"
    assert answer["raw"] is True
    assert answer["curiosity"]["groups"] == 60


def test_the_gate_counts_unexplained_bits(run, folder):
    ask = ("audit", "outputs.csv", "--scores", "p0,p1", *ASK, "--json")
    assert run(*ask, "--fail-above", "0.95").code == 0
    ran = run(*ask, "--fail-above", "0.1")
    assert ran.code == 1
    assert figures(ran)["excess"]["unexplained"]["estimate"] > 0.1
    assert "above --fail-above 0.1" in ran.err


def test_several_attributes_the_worst_first(run, folder):
    answer = figures(run("audit", "outputs.csv", "--scores", "p0,p1", "--sensitive", "coin", *ASK, "--json"))
    assert [(entry["attribute"], entry["verdict"]) for entry in answer["attributes"]] == [
        ("s", "curious"),
        ("coin", "standard"),
    ]
    assert answer["attribute"] == "s"


def test_few_rows_are_not_an_error(run, folder):
    pd.read_csv("outputs.csv").head(120).to_csv("few.csv", index=False)
    answer = figures(run("audit", "few.csv", "--scores", "p0,p1", *ASK, "--json"))
    assert answer["verdict"] == "undecided"
    assert "120 rows are too few" in answer["evidence"][0]
    assert answer["excess"]["bits"]["estimate"] > 0


@pytest.mark.parametrize(
    ("rename", "scores", "classes", "order"),
    [
        ({}, "p1,p0", None, ("1", "0")),
        ({"p0": "a", "p1": "b"}, "a,b", None, ("0", "1")),
        ({"p0": "b", "p1": "a"}, "b,a", ["0", "1"], ("0", "1")),
        ({}, "p1", None, ("0", "1")),
    ],
)
def test_columns_are_matched_to_classes(folder, rename, scores, classes, order):
    pd.read_csv("outputs.csv").rename(columns=rename).to_csv("renamed.csv", index=False)
    outputs = read_outputs("renamed.csv", scores.split(","), "y", ["s"], classes=classes)
    assert outputs.y.values == order
    right = np.array(outputs.y.values)[outputs.predicted] == np.array(outputs.y.values)[outputs.y.codes]
    assert right.mean() == pytest.approx(0.9, abs=0.05)  # swapped, it would be .1


def test_classes_that_are_words(folder):
    table = pd.read_csv("outputs.csv")
    table["y"] = np.where(table["y"], "yes", "no")
    table = table.rename(columns={"p0": "p_no", "p1": "p_yes"})
    table.to_csv("words.csv", index=False)
    both = read_outputs("words.csv", ["p_yes", "p_no"], "y", ["s"])
    single = read_outputs("words.csv", ["p_yes"], "y", ["s"])
    assert both.y.values == ("yes", "no")
    assert single.y.values == ("no", "yes")
    for outputs in (both, single):
        assert (outputs.predicted == outputs.y.codes).mean() > 0.85
    truth = table.assign(y=table["y"] == "yes")
    truth.to_csv("truth.csv", index=False)
    assert read_outputs("truth.csv", ["p_yes"], "y", ["s"]).y.values[1].lower() == "true"


def _change(name, change):
    table = pd.read_csv("outputs.csv")
    change(table)
    table.to_csv(name, index=False)


def _set(row, column, value):
    def change(table):
        table[column] = table[column].astype(object)
        table.loc[row, column] = value

    return change


def _put(column, values):
    return lambda table: table.__setitem__(column, values(table))


def _in_words(table):
    return np.where(table["y"], "yes", "no")


BAD = {
    "no probabilities": (_set(6, "p0", -1.5), {}, "row 7 holds -1.5, which is no probability"),
    "raw scores": (_put("p0", lambda t: 4 * t["p0"]), {}, "add --raw if the scores are raw (logits)"),
    "sums": (_set(4, "p0", 0.5), {}, "the probabilities in row 5 sum to"),
    "one class of s": (_put("s", lambda _: "f"), {}, "one value ('f')"),
    "missing target": (_put("y", lambda t: t["y"].where(t.index % 100 != 3)), {}, "4 missing values (rows 4, 104, 204"),
    "missing attribute": (_set(9, "s", None), {}, "column 's' has 1 missing value (row 10)"),
    "missing score": (_set(2, "p1", None), {}, "column 'p1' has 1 missing value (row 3)"),
    "nan": (_set(2, "p1", "NaN"), {}, "column 'p1' has 1 missing value (row 3)"),
    "infinite": (_set(2, "p1", float("inf")), {}, "column 'p1' is infinite in row 3"),
    "text": (_set(2, "p1", "much"), {}, "score column 'p1' holds"),
    "rare value": (_put("s", lambda _: ["f"] * 397 + ["m"] * 3), {}, "value 'm' has 3 rows"),
    "unknown score": (None, {"scores": "p0,p2"}, "no column 'p2'"),
    "unknown target": (None, {"target": "why"}, "no column 'why'"),
    "unknown attribute": (None, {"sensitive": "coins"}, "did you mean 'coin'"),
    "column twice": (None, {"scores": "p0,p0"}, "'p0' is named twice as a score"),
    "two roles": (None, {"sensitive": "y"}, "both as the target and as a sensitive attribute"),
    "class without a score": (_set(8, "y", 2), {}, "value '2' of 'y' has no score column"),
    "single score, three classes": (_set(8, "y", 2), {"scores": "p1"}, "distinguishes two"),
    "words without a name": (_put("y", _in_words), {}, "--classes no,yes"),
    "a word without a name": (_put("y", _in_words), {"scores": "p1"}, "which value of 'y' column 'p1' is about"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gets_one_clear_line(run, folder, case):
    change, changed, message = BAD[case]
    if change:
        _change("bad.csv", change)
    before = sorted(folder.rglob("*"))
    ask = {"scores": "p0,p1", "target": "y", "sensitive": "s"} | changed
    words = [word for name, value in ask.items() for word in (f"--{name}", value)]
    line = run("audit", "bad.csv" if change else "outputs.csv", *words, "--out", "page.html", "--json").refused()
    assert message in line
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--fail-above", "-1"], "number of bits"),
        (["--panel", "forrest"], "did you mean 'forest'"),
        (["--classes", "0"], "name 2 different classes"),
        (["--classes", "0,2"], "value '1' of 'y' is not among --classes"),
        (["--group", "persn"], "did you mean 'person'"),
        (["--out", "."], "is a directory"),
        (["--out", "nowhere/page.html"], "does not exist; create it first"),
        (["--out", "outputs.csv"], "is the file to be audited"),
        (["--sensitive", "s"], "twice"),
        (["--bins", "1", "--sensitive", "p"], "bins"),
    ],
)
def test_bad_options_get_one_clear_line(run, folder, options, message):
    _change("outputs.csv", lambda table: table.__setitem__("p", np.arange(400) / 7))
    content = (folder / "outputs.csv").read_bytes()
    assert message in run("audit", "outputs.csv", "--scores", "p0,p1", *ASK, *options).refused()
    assert (folder / "outputs.csv").read_bytes() == content


def test_duplicate_column_names_and_missing_files(run, folder):
    (folder / "twice.csv").write_text("p0,p1,y,s,s\n" + "0.5,0.5,0,a,b\n" * 300)
    assert "has 2 columns named 's'" in run("audit", "twice.csv", "--scores", "p0,p1", *ASK).refused()
    assert "did you mean 'outputs.csv'" in run("audit", "output.csv", "--scores", "p0,p1", *ASK).refused()
    assert "--scores" in run("audit", "outputs.csv", *ASK).refused()


def test_the_page_needs_no_network_and_escapes_everything(run, folder):
    table = pd.read_csv("outputs.csv").rename(columns={"s": "<script>s</script>"})
    table["<script>s</script>"] = np.where(table["<script>s</script>"] == "f", '"><img src=x onerror=alert(1)>', "m&m")
    table.to_csv("<b>odd.csv", index=False)
    ran = run(
        "audit", "<b>odd.csv", "--scores", "p0,p1", "--target", "y", "--sensitive", "<script>s</script>",
        "--panel", "logistic", "--out", "page.html",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    page = (folder / "page.html").read_text(encoding="utf-8")
    assert "default-src 'none'" in page
    assert "<script" not in page
    assert "<img" not in page
    assert "<b>odd" not in page
    assert "&lt;script&gt;s&lt;/script&gt;" in page
    assert not re.search(r"https?://|url\(|@import", page)
    assert page.index("CURIOUS") < page.index("What the scores say") < page.index("How it was run")
    for heading in ("How certain the outputs are", "balanced accuracy", "limit, 0.0", "do not prove innocence"):
        assert heading in page


def test_scores_in_per_cent_are_offered_read_and_warned_about(run, folder):
    _change("percent.csv", lambda table: table.__setitem__(["p0", "p1"], 100 * table[["p0", "p1"]]))
    ask = ("audit", "percent.csv", "--scores", "p0,p1", *ASK, "--json")
    ran = run(*ask)
    assert ran.code == 2
    assert "--percent" in ran.err
    assert ran.err.count("\n") == 1
    as_shares = figures(run("audit", "outputs.csv", "--scores", "p0,p1", *ASK, "--json"))
    answer = figures(run(*ask, "--percent"))
    assert answer["verdict"] == "curious"
    assert answer["excess"]["bits"]["estimate"] == pytest.approx(as_shares["excess"]["bits"]["estimate"], abs=0.02)
    warned = run(*ask, "--raw")
    assert warned.code == 0
    assert "look like per cent" in warned.err
    assert any("look like per cent" in line for line in figures(warned)["evidence"])
    assert "choose one" in run(*ask, "--raw", "--percent").err


def test_rounding_is_reported_and_settles_what_precision_leaves_open(run, folder):
    rng = np.random.default_rng(0)
    _change("precise.csv", lambda table: table.__setitem__("p1", np.clip(rng.normal(0.5, 0.2, len(table)), 0, 1)))
    ask = ("audit", "precise.csv", "--scores", "p1", "--target", "y", "--sensitive", "coin", "--panel", "logistic")
    precise = figures(run(*ask, "--json"))
    assert (precise["verdict"], precise["reason"]) == ("undecided", "precision")
    assert precise["rounded_to_decimals"] is None
    assert "--round 2" in precise["evidence"][0]
    settled = figures(run(*ask, "--json", "--round", "2", "--out", "page.html"))
    assert settled["verdict"] == "standard"
    assert settled["rounded_to_decimals"] == 2
    assert "rounded to 2 decimals for this audit" in (folder / "page.html").read_text(encoding="utf-8")
    ran = run(*ask, "--round", "0")
    assert ran.code == 2
    assert "1 to 15" in ran.err
