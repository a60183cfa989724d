"""`fedveil demo` on a user's own table."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], 900)
    pay = rng.standard_normal(900) + (sex == "m")
    frame = pd.DataFrame(
        {"pay": pay, "age": rng.integers(18, 80, 900), "region": rng.choice(["<b>north</b>", "s"], 900)}
    )
    frame["sex"], frame["bought"] = sex, np.where(pay + 0.1 * rng.standard_normal(900) > 0.5, "yes", "no")
    frame.to_csv(tmp_path / "mine.csv", index=False)
    return tmp_path / "mine.csv"


def test_the_demo_on_a_users_own_table(run, table: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = run("demo", "--data", table, "--target", "bought", "--sensitive", "sex", "--out", out, "--json")
    assert ran.code == 0, ran.err
    answer = json.loads(ran.out.splitlines()[-1])
    assert answer["report"] == str(out / "report.html")
    page = (out / "report.html").read_text("utf-8")
    assert "<b>north</b>" not in page
    assert {cell["method"] for cell in answer["cells"]} == {"none", "adversarial", "certified-channel", "drop-columns"}
    for cell in answer["cells"]:
        assert {"estimate", "low", "high"} <= set(cell["leakage"]["balanced_accuracy"])
        assert {"estimate", "low", "high"} <= set(cell["utility"]["accuracy"])
    assert len({cell["strength"] for cell in answer["cells"] if cell["method"] == "certified-channel"}) == 3
    assert "The report: " in ran.err
    assert "reads sex" in ran.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "bought"], "--data and --sensitive is missing"),
        (["--data", "TABLE", "--target", "bougth", "--sensitive", "sex"], "did you mean 'bought'?"),
        (["--data", "TABLE", "--target", "bought", "--sensitive", "bought"], "bought"),
        (["--data", "none.csv", "--target", "bought", "--sensitive", "sex"], "none.csv"),
    ],
)
def test_bad_input(run, table: Path, tmp_path: Path, arguments: list[str], message: str) -> None:
    command_line = [str(table) if word == "TABLE" else word for word in arguments]
    assert message in run("demo", *command_line, "--out", tmp_path / "out").refused()
    assert not (tmp_path / "out").exists()
