"""`fedveil audit --model`: the same audit as of the model's outputs in a table, and one line for every mistake."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from model_files import save_onnx, save_pt2
from torch import nn

from fedveil.audit.labelled_inputs import Wanted, outputs_of, read_inputs
from fedveil.audit.models import read_model
from fedveil.cli import main
from fedveil.core.errors import InputError


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a network whose scores reveal s, as two files; its inputs and labels; its outputs as a table."""
    folder = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(3)
    n = 600
    y, s = rng.integers(0, 2, n), rng.integers(0, 2, n)
    x = np.stack([y + 0.3 * rng.normal(size=n), s + 0.3 * rng.normal(size=n), rng.normal(size=n)], axis=1)
    network = nn.Sequential(nn.Linear(3, 2)).eval()
    with torch.no_grad():
        network[0].weight.copy_(torch.tensor([[-3.0, 0.5, 0.1], [3.0, 2.5, -0.1]]))
    x = x.astype(np.float32)
    save_onnx(network, folder / "model.onnx", torch.zeros(2, 3))
    save_pt2(network, folder / "model.pt2", torch.zeros(2, 3))
    labels = pd.DataFrame({"y": y, "s": np.where(s, "m", "f")})
    labels.to_csv(folder / "labels.csv", index=False)
    inputs = pd.DataFrame(x.astype(np.float64), columns=["a", "b", "c"])
    pd.concat([labels, inputs, pd.Series(["Ulm"] * n, name="town")], axis=1).to_csv(folder / "people.csv", index=False)
    np.save(folder / "inputs.npy", x)
    scores = read_model(folder / "model.onnx").scores(x)
    pd.concat([labels, pd.DataFrame(scores, columns=["score 0", "score 1"])], axis=1).to_csv(
        folder / "outputs.csv", index=False
    )
    return folder


def audited(capsys: pytest.CaptureFixture[str], *words: str) -> dict:
    with pytest.raises(SystemExit) as stop:
        main(["audit", *words, "--target", "y", "--sensitive", "s", "--panel", "logistic", "--json"])
    printed = capsys.readouterr()
    assert stop.value.code == 0, printed.err
    return json.loads(printed.out.splitlines()[-1])


def test_an_audit_of_a_model_is_that_of_its_outputs(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_table = audited(capsys, str(people / "outputs.csv"), "--scores", "score 0,score 1", "--raw")
    model = str(people / "model.onnx")
    by_model = audited(capsys, "--model", model, "--data", str(people / "people.csv"))
    scored = by_model.pop("model")
    assert by_model == by_table
    assert by_table["curiosity"]["worst"]["balanced_accuracy"]["estimate"] > 0.8
    assert scored["file"] == "model.onnx"
    assert scored["in_words"] == [
        "Input, 3 columns: a, b, c. Left out, not numeric: town.",
        "Output 'out0' of model.onnx: raw scores of 0, 1, in this order.",
    ]
    labels = ("--labels", str(people / "labels.csv"))
    by_array = audited(capsys, "--model", model, "--data", str(people / "inputs.npy"), *labels)
    assert by_array | {"model": None} == by_table | {"model": None}


def test_an_exported_program_is_audited_alike(people: Path, capsys: pytest.CaptureFixture[str]) -> None:
    by_table = audited(capsys, str(people / "outputs.csv"), "--scores", "score 0,score 1", "--raw")
    by_model = audited(capsys, "--model", str(people / "model.pt2"), "--data", str(people / "people.csv"))
    assert by_model["verdict"] == by_table["verdict"]
    assert by_model["honesty"] == by_table["honesty"]
    read = [figures["curiosity"]["worst"]["balanced_accuracy"]["estimate"] for figures in (by_model, by_table)]
    assert read[0] == pytest.approx(read[1], abs=0.01)  # the scores agree to float32


def test_classes_and_features_are_taken_in_the_order_given(people: Path) -> None:
    model = read_model(people / "model.onnx")
    wanted = Wanted("y", ("s",), ("a", "b", "c"))
    inputs = read_inputs(str(people / "people.csv"), wanted)
    plain, _ = outputs_of(model, inputs)
    turned, sentences = outputs_of(model, inputs, classes=["1", "0"])
    assert plain.raw
    assert turned.y.values == ("1", "0")
    assert "of 1, 0, in this order" in sentences[-1]
    assert (turned.predicted == turned.y.codes).mean() == pytest.approx((plain.predicted != plain.y.codes).mean())
    swapped = read_inputs(str(people / "people.csv"), Wanted("y", ("s",), ("b", "a", "c")))
    np.testing.assert_array_equal(swapped.x[:, [1, 0, 2]], inputs.x)


def test_a_data_source_gives_its_test_records(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(106, 2), nn.Softmax(dim=1)).eval()
    model = read_model(save_onnx(network, tmp_path / "model.onnx", torch.zeros(2, 106)))
    inputs = read_inputs("adult", Wanted("income", ("sex",)))
    outputs, sentences = outputs_of(model, inputs)
    assert len(outputs) == 16_281
    assert not outputs.raw
    assert outputs.y.values == ("<=50K", ">50K")
    assert "probabilities (every row sums to 1) of <=50K, >50K" in sentences[-1]
    np.testing.assert_allclose(outputs.scores, network(torch.from_numpy(inputs.x)).detach().numpy(), atol=1e-5)
    kept = read_inputs("adult", Wanted("income", ("sex",)), options=["keep_sensitive=true"])
    assert kept.x.shape == (16_281, 108)
    with pytest.raises(InputError, match=r"takes 106 numbers for each record .* gives 108 numbers"):
        outputs_of(model, kept)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--model none.onnx --data people.csv", "none.onnx: no such file"),
        ("--model people.csv --data people.csv", "people.csv: not a model file by its name"),
        ("--model model.onnx --data none.csv", "none.csv: no such file"),
        ("--model model.onnx", "--model needs --data"),
        ("--model model.onnx --data inputs.npy", "name the table of target and sensitive columns with --labels"),
        ("--model model.onnx --data people.csv --labels labels.csv", "--labels is for an array"),
        ("--model model.onnx --data people.csv --features a,b", "takes 3 numbers .* the data gives 2 numbers"),
        ("--model model.onnx --data people.csv --features a,b,town", "column 'town' holds text"),
        ("--model model.onnx --data people.csv --features a,b,y", "--features names the target 'y'"),
        ("--model model.onnx --data people.csv --output zzz", "no output 'zzz': choose from: out0"),
        ("--model model.onnx --data people.csv --classes 0,1,2", "name 2 different classes"),
        ("--model model.onnx --data people.csv --option a=1", "--option is for data sources by name"),
        ("--model model.onnx --data people.csv --group s", "'s' is named twice"),
        ("--model model.onnx --data adlt", "no such file, and no data source: did you mean 'adult'?"),
        ("--model model.onnx --data adult --option nonsense", "--option 'nonsense': write NAME=VALUE"),
        ("outputs.csv --scores z0,z1 --model model.onnx --data people.csv", "two ways to give scores"),
        ("outputs.csv --scores z0,z1 --data people.csv", "--data goes with --model"),
        ("outputs.csv", "give its score columns, --scores"),
        ("", r"give a table of outputs \(or --model with --data\)"),
    ],
)
def test_one_line_for_every_mistake(
    words: str, message: str, people: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(people)
    before = sorted(people.iterdir())
    with pytest.raises(SystemExit) as stop:
        main(["audit", *words.split(), "--target", "y", "--sensitive", "s", "--out", "page.html"])
    printed = capsys.readouterr()
    assert stop.value.code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert re.search(message.replace("?", r"\?"), printed.err), printed.err
    assert sorted(people.iterdir()) == before
