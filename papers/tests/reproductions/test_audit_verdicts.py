"""Audits of classifiers of known making: a zoo of four end to end, the rules of counting, the preset, bad settings."""

import json

import numpy as np
import pytest
from fedveil_papers import Kept, make_experiment
from fedveil_papers.audit_cases import AuditCase
from fedveil_papers.audit_midway import midway
from fedveil_papers.audit_verdicts_layout import by_rows, counts, notes
from fedveil_papers.audit_zoo import Recipe, make
from fedveil_papers.cli import run_experiment
from fedveil_papers.preset import SCALES, Preset, read_preset
from rich.console import Console

from fedveil.audit import Outputs, audit
from fedveil.core.errors import InputError
from fedveil.data import Attribute, Split

CASE = {
    "name": "made up",
    "source": "synthetic",
    "target": "y",
    "secret": "u",
    "options": {"n": 2000, "bits": 0.8, "test": 0.5, "overlap": 0.2},
    "half": "calibration",
    "curve": ["standard", "curious"],
    "recipes": ["standard", "logistic", "curious", "given up"],
}
SMALL = {
    "kind": "audit-verdicts",
    "rows": 700,
    "row_counts": [300, 90000],
    "panel": "logistic",
    "recipes": {
        "standard": {"maker": "network", "epochs": 3},
        "logistic": {"maker": "logistic", "output": "soft"},
        "curious": {"maker": "parameterised", "epochs": 8},
        "given up": {"maker": "parameterised", "epochs": 3, "beta_y": 1.0, "beta_s": 0.0},
    },
    "cases": [CASE],
}


def made(**changes):
    return make_experiment({**SMALL, **changes}, "preset x: experiment")


@pytest.mark.parametrize("scale", SCALES)
def test_the_preset_can_be_run(scale):
    experiment = read_preset("curious/audit", scale).experiment
    experiment.check()
    known = experiment._recipes()
    makers = [known[name].maker for case in experiment._cases() for name in case.recipes]
    assert len(makers) >= 40
    assert {"network", "logistic", "boosting", "parameterised", "regularised", "hard-mixture", "server"} <= set(makers)
    assert {case.half for case in experiment._cases()} == {"calibration", "report"}


def test_a_zoo_of_four_is_made_audited_kept_and_drawn(tmp_path):
    preset = Preset("curious/tiny", "A tiny zoo", [], [{"note": "printed"}], experiment=made())
    console = Console(record=True, width=240)
    run_experiment(preset, "quick", tmp_path, fresh=False, json=False, console=console)
    shown = json.loads((tmp_path / "reproduced.json").read_text("utf-8"))["shows"]
    assert (tmp_path / shown["picture"]).stat().st_size > 20_000
    found = {one["recipe"]: one for one in shown["members"]}
    assert found["curious"]["label"] == "curious"
    assert found["curious"]["gain"] > 0.1
    assert found["curious"]["audits"][0]["verdict"] == "curious"
    assert found["given up"]["label"] == "failed attempt"
    for name in ("standard", "logistic"):
        assert found[name]["label"] == "standard"
        assert found[name]["audits"][0]["verdict"] in ("standard", "correlated")
    assert [audit["rows"] for audit in found["curious"]["audits"]] == [700, 300]  # 90,000 there are not
    total = {row["label"]: row for row in shown["counts"] if row["half"] == "all"}
    assert total["standard"]["members"] == 2
    assert total["curious"]["curious"] == 1
    text = console.export_text()
    assert "Standard classifiers called curious: 0 of 2" in text
    assert "printed" in text
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").iterdir()}
    again = preset.experiment.run(Kept(tmp_path), lambda _: None, [])
    assert again["members"] == shown["members"]
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "parts").iterdir()} == before


def member(label, verdict, half="calibration", at=0.2, values=2, told=0.1, **further):
    share = {"estimate": at, "low": at - 0.1, "high": at + 0.1}
    labels = {"target_values": values, "entropy_bits": 1.0, "by_target_bits": {"estimate": told}}
    audits = [{"rows": rows, "verdict": verdict, "share": share, "explained": labels} for rows in (2000, 500)]
    return {"case": "c", "recipe": "r", "seed": 0, "half": half, "label": label, "audits": audits, **further}


def test_verdicts_are_counted_by_half_and_by_rows():
    members = [
        member("standard", "correlated"),
        member("standard", "curious", "report"),
        member("curious", "curious", "report"),
        member("curious", "standard", "report"),
        member("failed attempt", "undecided"),
    ]
    found = {(row["half"], row["label"]): row for row in counts(members)}
    assert found["report", "standard"]["curious"] == 1
    assert found["calibration", "standard"]["curious"] == 0
    assert found["all", "curious"] == {
        "half": "all", "label": "curious", "members": 2, "standard": 1, "correlated": 0, "undecided": 0, "curious": 1
    }  # fmt: skip
    assert [row["rows"] for row in by_rows(members)] == [500, 500, 500, 2000, 2000, 2000]
    told = {"counts": counts(members), "members": members, "paper": [], "least_gain": 0.05}
    told["midway"] = midway(members, 0.02)
    said = notes({**told, "limits": {"provenance": "here", "excess_share": 0.1, "ruled_out": 1.0}})
    assert sum(line.startswith("Not told rightly") for line in said) == 2  # a failed attempt is not counted as missed


def test_limits_lie_midway_between_standard_and_curious_ones():
    plain = [member("standard", "standard", at=at) for at in (0.0, 0.1)]
    plain += [member("curious", "curious", at=at) for at in (0.5, 0.6)] + [member("failed attempt", "standard", at=0.0)]
    found = midway(plain, 0.02)
    assert (found["standard"], found["curious"]) == pytest.approx((0.2, 0.4))
    assert found["share"] == pytest.approx(0.08**0.5)
    assert found["ruled_out"] is None
    many = [member("standard", "correlated", at=0.5, values=10), member("curious", "curious", at=0.8, values=10)]
    found = midway([*plain, *many], 0.02)
    assert found["share"] == pytest.approx(0.08**0.5)
    ends = [(end - 0.08**0.5) / 0.1 for end in (0.6, 0.7)]
    assert found["ruled_out"] == pytest.approx((ends[0] * ends[1]) ** 0.5)
    assert midway(plain[:2], 0.02)["share"] is None


@pytest.mark.parametrize("maker", ["hard-mixture", "regularised", "devices", "server", "distilled", "forest"])
def test_every_maker_gives_probabilities_or_scores_of_the_test_people(maker):
    data = AuditCase(**{**CASE, "options": {"n": 1100, "bits": 0.9}}).load(0)
    soft = "raw" if maker in ("devices", "server") else "soft"
    found = make(Recipe(maker, output=soft, epochs=6, beta_y=0.6, beta_s=0.4), data, ("u",), 0)
    outputs = found.outputs(Split.TEST)
    assert outputs.raw == (soft == "raw")
    assert (outputs.y.codes == data.y.codes[data.rows(Split.TEST)]).all()
    assert (outputs.secrets["u"].codes == data.attributes["u"].codes[data.rows(Split.TEST)]).all()
    assert (outputs.predicted == outputs.y.codes).mean() > 0.55
    assert (found.guesses is None) == (maker == "forest")


def test_a_grade_of_the_target_itself_is_taken_for_a_plot():
    """A limit of any audit by outputs: s that grades what y asks about is told by every good score for y."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=3000)
    y, s = (truth > 0).astype(np.int64), (np.abs(truth) > 0.67).astype(np.int64)
    score = np.stack([-2 * truth, 2 * truth], axis=1)
    outputs = Outputs(score, True, Attribute("y", y, ("0", "1")), {"s": Attribute("s", s, ("near", "far"))})
    assert audit(outputs, panel="boosting").verdict == "curious"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"runs": 0}, "at least 1 run"),
        ({"rows": 100}, "200 rows"),
        ({"cases": []}, "1 case"),
        ({"panel": "forrest"}, "did you mean 'forest'"),
        ({"cases": [{**CASE, "recipes": ["curius"]}]}, "no recipe 'curius'"),
        ({"cases": [{**CASE, "recipes": []}]}, "names no recipes"),
        ({"cases": [{**CASE, "recipes": ["logistic", "curious"]}]}, "no standard network"),
        ({"cases": [{**CASE, "half": "third"}]}, "half"),
        ({"recipes": {"standard": {"maker": "vendor"}}}, "maker"),
        ({"recipes": {"standard": {"maker": "regularised"}}}, "choose output soft"),
        ({"recipes": {"standard": {"maker": "network", "epochs": 0}}}, "at least 1 epoch"),
    ],
)
def test_bad_settings_are_told_in_a_line(changes, said):
    with pytest.raises(InputError, match=said):
        made(**changes).check()


def test_a_recipe_cannot_hide_more_than_the_case_has():
    data = AuditCase(**CASE).load(0)
    with pytest.raises(InputError, match="hides 2 attributes"):
        make(Recipe("parameterised", secrets=2), data, ("u",), 0)
