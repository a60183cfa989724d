"""Studies name the shields on updates, and bad settings are refused in one line before anything is run."""

import copy

import pytest
from tiny_study import TINY

from fedveil.config.cells import load_data, make_federation, make_game
from fedveil.config.study import make_study
from fedveil.core.errors import InputError
from fedveil.federation import begin
from fedveil.shields import Quantise, Sparsify
from fedveil.studies.check import checked


def study_with(shield, **varied):
    method = {"name": "thin", "game": {"kind": "undefended", "hidden": [4], "width": 4}, "shield": shield, **varied}
    return make_study({**copy.deepcopy(TINY), "methods": [method]})


@pytest.mark.parametrize(
    ("settings", "varied", "shield_class"),
    [
        ({"kind": "sparsify", "over": "layer"}, {"varies": "shield.p", "strengths": [0.5, 0.9]}, Sparsify),
        ({"kind": "quantise", "over": "layer"}, {"varies": "shield.bits", "strengths": [8, 2]}, Quantise),
    ],
)
def test_a_study_varies_them(settings, varied, shield_class):
    study = study_with(settings, **varied)
    checked(study)
    method, sent = study.methods[0], []
    for strength in method.points:
        run = begin(make_federation(study, method, strength, 0, load_data(study, 0)), make_game(method, strength))
        assert isinstance(run.shield, shield_class)
        assert run.shield.over == "layer"
        run.play(1)
        assert run.history[0].silent == 0
        sent.append(run.history[0].damage["bytes"])
    assert sent[1] < sent[0]


@pytest.mark.parametrize(
    ("shield", "why"),
    [
        ({"kind": "sparsify", "p": 1.0}, r"in \[0, 1\); got 1.0"),
        ({"kind": "sparsify", "over": "layers"}, "layer"),
        ({"kind": "sparsify", "keep": 0.1}, "keep"),
        ({"kind": "quantise", "bits": 1}, "from 2 .* to 16; got 1"),
        ({"kind": "quantise", "bits": 2.5}, "bits"),
        ("quantize", "did you mean 'quantise'"),
        ({"kind": "soteria", "p": 2}, r"in \[0, 1\]; got 2"),
        ({"kind": "soteria", "probes": 0}, "probes must be a whole number of at least 1"),
        ({"kind": "soteria", "layer": 3}, "layer"),
        ("dp-sgd", "give either sigma"),
        ({"kind": "dp-sgd", "sigma": 1, "clip": 0}, "clip must be above 0"),
        ({"kind": "dp-sgd", "sigma": 1, "place": "input"}, "place"),
    ],
)
def test_bad_settings_are_refused_in_one_line(shield, why):
    with pytest.raises(InputError, match=why) as fault:
        checked(study_with(shield))
    assert "\n" not in str(fault.value)
