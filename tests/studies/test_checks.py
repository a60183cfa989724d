"""What a study's check finds before anything runs: options, names, the baseline that every view needs."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from tiny_study import TINY, fedveil_here, last_json

from fedveil.config.study import make_study
from fedveil.core.errors import InputError
from fedveil.data import AttributeData
from fedveil.shields import DropColumns
from fedveil.studies.check import checked
from fedveil.studies.running import run_study
from fedveil.studies.store import Store

FEDAVG = [{"name": "plain", "game": "fedavg"}]


def study(**changed: Any) -> Any:
    return make_study({**copy.deepcopy(TINY), **changed})


def data(**options: Any) -> dict[str, Any]:
    return {**TINY["data"], "options": {"n": 600, **options}}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"data": data(n="many")}, r"data\.options\.n: 'many' is not allowed"),
        ({"data": data(seed=3)}, r"data\.options\.seed: is not allowed here"),
        ({"data": data(target="y")}, r"data\.options\.target: is not allowed here"),
        ({"data": {**data(), "sensitive": ["u", "u"]}}, "each value once"),
        ({"attacks": {**TINY["attacks"], "attributes": ["u", "u"]}}, "each value once"),
        ({"methods": [{"name": "drop-columns", "game": "undefended"}]}, "belong to the baseline"),
        ({"methods": [{"name": "drop-columns-plus", "game": "undefended"}]}, "belong to the baseline"),
        (
            {"methods": FEDAVG, "tasks": ["u", "y"], "attacks": {**TINY["attacks"], "view": "outputs"}},
            "tasks: 'u' has to be learned from representations",
        ),
        (
            {
                "methods": FEDAVG,
                "tasks": ["y", "u"],
                "attacks": {**TINY["attacks"], "view": "updates", "rounds": [1], "shadows": 5},
            },
            "tasks: 'u' has to be learned from representations",
        ),
    ],
)
def test_faults_are_reported_before_anything_runs(changed: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        checked(study(**changed))


@pytest.mark.parametrize("further", [{"view": "outputs"}, {"view": "updates", "rounds": [1], "shadows": 40}])
def test_the_baseline_is_included_whatever_the_observer_sees(tmp_path: Path, further: dict[str, Any]) -> None:
    plan = checked(study(methods=FEDAVG, attacks={**TINY["attacks"], **further}))
    assert [method.name for method in plan.methods] == ["plain", "drop-columns"]
    ran = run_study(plan, tmp_path / "out", workers=2)
    assert ran.failed == {}
    assert {row.method for row in ran.results.rows} == {"plain", "drop-columns"}


def test_a_users_baseline_replaces_ours_only_under_the_same_name() -> None:
    baseline = {
        "game": "raw",
        "shield": {"kind": "drop-columns", "attribute": "u"},
        "varies": "shield.columns",
        "strengths": [2],
    }
    names = [
        [m.name for m in checked(study(methods=[{"name": n, **baseline}])).methods] for n in ("drop-columns", "fewer")
    ]
    assert names == [["drop-columns"], ["fewer", "drop-columns"]]


def test_another_order_of_seeds_is_the_same_study_and_other_records_are_not(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.open(checked(study(seeds=[0])), "")
    assert store.check(checked(study(seeds=[1, 0]))) == []
    assert store.check(checked(study(seeds=[2]))) == []
    study_file = tmp_path / "study.json"
    digest = checked(study(seeds=[0])).digest
    study_file.write_text(study_file.read_text().replace(digest, "0" * len(digest)))
    with pytest.raises(InputError, match="the records of its data are different"):
        store.check(checked(study(seeds=[1, 0])))


def test_a_strength_that_cannot_be_computed_is_reported_by_tune_and_the_exit_code(
    write_study: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from fedveil.studies import tune

    real = tune.run_study

    def broken(plan: Any, folder: Path, **further: Any) -> Any:
        ran = real(plan, folder, **further)
        bad = {cell.id: "it broke" for cell in further["cells"] if cell.strength == 1}
        return type(ran)(ran.results, bad)

    monkeypatch.setattr(tune, "run_study", broken)
    done = fedveil_here(
        "tune", write_study(), "--leakage", "0.99", "--method", "adversarial", "--out", tmp_path / "out", "--json"
    )
    assert done.returncode == 1
    assert "adversarial: could not be computed at strength 1: it broke" in done.stderr
    (method,) = last_json(done)["methods"]
    assert (method["status"], method["strength"]) == ("reached", 4.0)


def test_shields_are_prepared_on_training_records_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """At every strength, with the seed of the study."""
    seen = []

    def prepared(self: DropColumns, data: AttributeData, seed: int) -> DropColumns:
        seen.append((set(data.split.tolist()), seed))
        return original(self, data, seed)

    original = DropColumns.prepared
    monkeypatch.setattr(DropColumns, "prepared", prepared)
    checked(study(methods=FEDAVG, seeds=[5], drop_columns=[1, 2], attacks={**TINY["attacks"], "view": "outputs"}))
    assert seen == [({0}, 5), ({0}, 5)]
