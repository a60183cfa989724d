"""Every field of a study is checked, and every fault is reported with its field, its value and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tiny_study

from fedveil.config.cells import cell_of, load_data, make_federation, make_game, plan
from fedveil.config.reading import changed
from fedveil.config.study import make_study
from fedveil.core.errors import InputError
from fedveil.shields import DPGaussian, Mingle
from fedveil.studies.check import checked

TINY: dict[str, Any] = {
    **tiny_study.TINY,
    "federation": {"devices": 4, "rounds": 2},
    "methods": [
        {"name": "none", "game": "undefended"},
        {"name": "adversarial", "game": {"kind": "adversarial", "attribute": "u"}, "strengths": [1, 2]},
        {"name": "channel", "game": "undefended", "shield": "certified", "varies": "shield.sigma", "strengths": [0.5]},
    ],
}


def refused(key: str, value: Any) -> str:
    with pytest.raises(InputError) as caught:
        checked(make_study(changed(TINY, key, value), "tiny.yaml"))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sedes", [1], "unknown field 'sedes': did you mean 'seeds'?"),
        ("federation.fration", 1, "unknown field 'federation.fration': did you mean 'fraction'?"),
        ("methods.none.strengts", [1], "unknown field 'methods.none.strengts': did you mean 'strengths'?"),
        ("federation.fraction", 2, "federation.fraction: 2 is not allowed; it should be less than or equal to 1"),
        ("federation.rounds", 0, "federation.rounds: 0 is not allowed"),
        ("federation", 3, "federation: 3 is not allowed"),
        ("methods", [], "methods: [] is not allowed"),
        ("methods.adversarial.strengths", "abc", "methods.adversarial.strengths: 'abc' is not allowed"),
        ("methods.adversarial.strengths", [True], "a number, not yes or no"),
        ("methods.adversarial.strengths", [1, 1], "each value once"),
        ("methods.adversarial.strengths", [float("nan")], "finite"),
        ("methods.adversarial.strengths", [-1], "methods.adversarial.game: adversarial training: strength must not be"),
        ("methods.channel.strengths", [0], "methods.channel.shield: certified channel: sigma 0.0"),
        ("methods.none.strengths", [1], "vary game.strength, but undefended has no such setting"),
        ("methods.channel.varies", "shield.sgima", "did you mean 'sigma'?"),
        ("methods.channel.varies", "sigma", "write game.<setting> or shield.<setting>"),
        ("methods.none.varies", "game.width", "the method has no strengths"),
        ("methods.adversarial.varies", "shield.sigma", "the method has none"),
        ("methods.channel.at", {0.7: {"shield.radius": 2}}, "methods.channel.at.0.7: 0.7 is not among"),
        ("methods.channel.at", {0.5: {"shield.sigma": 2}}, "other than the one that varies"),
        ("methods.channel.at", {0.5: {"radius": 2}}, "methods.channel.at.0.5: 'radius' is not allowed"),
        ("methods.channel.at", {0.5: {"shield.raduis": 2}}, "did you mean 'radius'?"),
        ("methods.channel.at", {"half": {"shield.radius": 2}}, "methods.channel.at"),
        ("methods.none.game", "undefnded", "game 'undefnded' is not known: did you mean 'undefended'?"),
        ("methods.none.game", {"kind": "undefended", "hiden": [3]}, "methods.none.game: unknown setting 'hiden'"),
        ("methods.none.game", {"kind": "undefended", "hidden": "x"}, "methods.none.game.hidden: 'x' is not allowed"),
        ("methods.none.shield", "certfied", "did you mean 'certified'?"),
        ("methods.none.shield", "certified", "methods.none.shield: setting 'sigma' is missing"),
        ("methods.none.name", "<script>", "letters, digits, spaces"),
        ("methods.none.name", "channel", "each value once"),
        ("seeds", [-1], "seeds.0: -1 is not allowed"),
        ("seeds", [1, 1], "each value once"),
        ("name", "../../etc", "name: '../../etc' is not allowed"),
        ("drop_columns", "sure", "drop_columns: 'sure' is not allowed; it should be auto"),
        ("drop_columns", [-1], "drop_columns: [-1] is not allowed; it should be auto"),
        ("drop_columns", [99], "99"),
        ("drop_columns", [], "drop_columns: [] is not allowed; it should be auto"),
        ("data.source", "adlut", "did you mean 'adult'?"),
        ("data.sensitive", ["v"], "v"),
        ("data.options", {"m": 3}, "synthetic: no option 'm'"),
        ("tasks", ["z"], "tasks: 'z' is not a label"),
        ("attacks.panel", ["logistik"], "did you mean 'logistic'?"),
        ("attacks.attributes", ["w"], "attacks.attributes: 'w' is not a sensitive attribute"),
        ("attacks.view", "reps", "attacks.view: 'reps' is not allowed; it should be 'representations'"),
        ("attacks", {"view": "updates"}, "attacks.rounds: a view of updates needs recorded rounds"),
        (
            "attacks",
            {"view": "updates", "rounds": [1]},
            "attacks.shadows: 60 validation records fill 0 devices of 105 records (the federation's average)",
        ),
        ("attacks", {"view": "updates", "rounds": [1], "shadows": 61}, "attacks.shadows: 61 shadow devices for 60"),
        (
            "attacks",
            {"view": "updates", "rounds": [1], "shadows": 2},
            "attacks.shadows: '0' is the most frequent value of 'u' at fewer than 2 of 2 shadow devices",
        ),
        ("attacks", {"view": "updates", "rounds": [9], "shadows": 3}, "round 9 is never played"),
        ("federation.partition", "dirichlet", "federation.partition: setting 'alpha' is missing"),
        ("federation.aggregation", "krumm", "did you mean 'krum'?"),
        ("heads", ["mpl"], "heads.0: 'mpl' is not allowed"),
    ],
)
def test_faults_name_the_field_the_value_and_what_is_allowed(key: str, value: Any, message: str) -> None:
    assert message in refused(key, value)


@pytest.mark.parametrize("strength", [-0.1, 1.5, float("inf")])
def test_a_lambda_outside_0_and_1_is_refused_by_name(strength: float) -> None:
    method = {"name": "tappfl", "game": {"kind": "tappfl", "attribute": "u"}, "strengths": [strength]}
    message = refused("methods", [method])
    assert message.partition(":")[0] in ("methods.tappfl.game", "tiny.yaml")
    assert "methods.tappfl" in message
    assert f"{strength:g}" in message


def test_a_missing_field_is_named_with_what_it_is_for() -> None:
    with pytest.raises(InputError, match="field 'data' is missing; it means: What the devices hold"):
        make_study({key: value for key, value in TINY.items() if key != "data"})


def test_the_plan_holds_every_method_strength_and_seed_and_the_baseline() -> None:
    checked_study = checked(make_study(changed(TINY, "seeds", [0, 5])))
    assert [(cell.method, cell.strength, cell.seed) for cell in checked_study.cells] == [
        (name, strength, seed)
        for seed in (0, 5)
        for name, strength in (
            ("none", None),
            ("adversarial", 1),
            ("adversarial", 2),
            ("channel", 0.5),
            ("drop-columns", 1),
        )
    ]
    assert len({cell.id for cell in checked_study.cells}) == 10


def test_a_cell_is_named_by_all_that_determines_it() -> None:
    study = make_study(TINY)
    method = study.methods[1]
    same = cell_of(make_study(changed(TINY, "seeds", [0, 1])), method, 1.0, 0)
    assert cell_of(study, method, 1.0, 0) == same
    for key, value in (
        ("federation.rounds", 3),
        ("attacks.panel", ["boosting"]),
        ("threads", 2),
        ("data.options", {"n": 601}),
        ("heads", ["logistic"]),
    ):
        other = make_study(changed(TINY, key, value))
        assert cell_of(other, method, 1.0, 0).id != same.id, key
    deeper = make_study(
        changed(TINY, "methods.adversarial.game", {"kind": "adversarial", "attribute": "u", "width": 9})
    )
    assert cell_of(deeper, deeper.methods[1], 1.0, 0).id != same.id
    assert cell_of(study, method, 2.0, 0).id != same.id


def test_settings_reach_the_parts() -> None:
    values = changed(TINY, "federation.partition", {"kind": "dirichlet", "alpha": 0.7})
    values = changed(values, "federation.aggregation", "median")
    values = changed(values, "methods.adversarial.game.optimiser", {"kind": "adam", "learning_rate": 0.02})
    study = make_study(values)
    from fedveil.config.cells import load_data

    federation = make_federation(study, study.methods[2], 0.5, 3, load_data(study, 3))
    assert (federation.seed, len(federation.partition), type(federation.aggregation).__name__) == (3, 4, "Median")
    assert federation.shield.sigma == 0.5  # type: ignore[attr-defined]
    game = make_game(study.methods[1], 2.0)
    assert (game.strength, game.optimiser.learning_rate) == (2.0, 0.02)  # type: ignore[attr-defined]


def test_several_attributes_have_a_baseline_each(published: Any) -> None:
    published("adult")
    values = changed(
        TINY, "data", {"source": "adult", "target": "income", "sensitive": ["sex", "race"], "records": 500}
    )
    values = changed(values, "methods", [{"name": "none", "game": "undefended"}])
    checked_study = checked(make_study(values))
    assert [method.name for method in checked_study.methods] == ["none", "drop-columns (sex)", "drop-columns (race)"]
    assert len(plan(checked_study.study, checked_study.methods)) == 3


def test_settings_may_differ_at_some_strengths() -> None:
    """The settings reach the part at that strength alone, and cells of other strengths keep their names."""
    values = changed(TINY, "methods.channel.strengths", [0.5, 2])
    before = checked(make_study(values))
    after = checked(make_study(changed(values, "methods.channel.at", {2: {"shield.radius": 3.0, "game.width": 5}})))
    method = next(method for method in after.study.methods if method.name == "channel")
    data = load_data(after.study, 0)
    radii = {strength: make_federation(after.study, method, strength, 0, data).shield.radius for strength in (0.5, 2)}
    assert radii == {0.5: 1.0, 2: 3.0}
    assert [make_game(method, strength).width for strength in (0.5, 2)] == [make_game(method, 0.5).width, 5]
    renamed = [a.strength for a, b in zip(before.cells, after.cells, strict=True) if a.id != b.id]
    assert renamed == [2]


@pytest.mark.parametrize(
    ("at", "message"),
    [
        ({2: {"shield.radus": 3.0}}, "methods.channel.at.2.shield.radus: certified has no such setting: did you mean"),
        ({2: {"shield.radius": -3.0}}, "methods.channel.shield"),
        ({2: {"shield.sigma": 3.0}}, "methods.channel.at.2: 'shield.sigma' is not allowed"),
        ({2: {"radius": 3.0}}, "methods.channel.at.2: 'radius' is not allowed"),
        ({3: {"shield.radius": 3.0}}, "methods.channel.at.3: 3 is not among the method's strengths"),
        ({"two": {"shield.radius": 3.0}}, "methods.channel.at.two"),
    ],
)
def test_settings_at_a_strength_that_fit_nothing_are_refused(at: Any, message: str) -> None:
    values = changed(changed(TINY, "methods.channel.strengths", [0.5, 2]), "methods.channel.at", at)
    with pytest.raises(InputError) as fault:
        checked(make_study(values))
    assert message in str(fault.value)
    assert "\n" not in str(fault.value)


POLICY = "[hide]\nu = 1.0\n"


def with_policy(tmp_path: Path, text: str = POLICY) -> dict[str, Any]:
    (tmp_path / "policy.toml").write_text(text)
    method = {"name": "policy", "game": {"kind": "fedavg", "hidden": [4]}, "policy": str(tmp_path / "policy.toml")}
    return changed(TINY, "methods", [method])


def test_a_method_keeps_a_policy(tmp_path: Path) -> None:
    study = make_study(with_policy(tmp_path))
    data = load_data(study, 0)
    federation = make_federation(study, study.methods[0], None, 0, data)
    assert isinstance(federation.shield, Mingle)
    assert federation.policy(0) is federation.policies
    before = cell_of(study, study.methods[0], None, 0).id
    (tmp_path / "policy.toml").write_text('shield = {kind = "dp-gaussian", sigma = 4.0}\n[budget]\nmessages = 5\n')
    assert cell_of(study, study.methods[0], None, 0).id != before  # its content determines the results
    noisy = make_federation(study, study.methods[0], None, 0, data)
    assert isinstance(noisy.shield, DPGaussian)  # a site's limits have no effect on a study


def test_policies_that_cannot_be_kept_are_refused(tmp_path: Path) -> None:
    study = make_study(with_policy(tmp_path, "[hide]\nheight = 1.0"))
    with pytest.raises(InputError, match=r"methods\.policy\.policy: .*policy\.toml: hide\.height: no such attribute"):
        make_federation(study, study.methods[0], None, 0, load_data(study, 0))
    values = changed(with_policy(tmp_path), "methods.policy.shield", "quantise")
    with pytest.raises(InputError, match=r"methods\.policy: .*a shield or a policy, not both"):
        make_study(values)
    values = changed(with_policy(tmp_path), "methods.policy.policy", str(tmp_path / "none.toml"))
    with pytest.raises(InputError, match=r"none\.toml: no such file"):
        checked(make_study(values))


def test_methods_without_a_policy_are_written_as_before() -> None:
    assert "policy" not in make_study(TINY).methods[0].model_dump(mode="json")
