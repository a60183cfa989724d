"""A cell is judged on what it releases, and that is computed once per split."""

from __future__ import annotations

import copy
from collections import Counter
from typing import Any

import numpy as np
import pytest
from tiny_study import TINY

from fedveil.config.cells import load_data, make_federation, make_game
from fedveil.config.study import make_study
from fedveil.data import Split
from fedveil.federation.release import Releases, release
from fedveil.federation.run import Run
from fedveil.shields.message import Kind
from fedveil.studies.judging import judge_run

ALL = {"panel": ["logistic"], "draws": 100, "decensoring": True, "fresh": True}
CHANNEL = {"name": "channel", "game": "undefended", "shield": {"kind": "certified", "sigma": 0.5}}
PLAIN = {"name": "plain", "game": "fedavg"}
RATE = {
    "name": "eeo",
    "game": {"kind": "attri-fed", "attribute": "u", "width": 2, "reach": 1, "initial_rounds": 1, "private_rounds": 1},
}


def trained(**changes: Any) -> tuple[Any, Run]:
    study = make_study({**copy.deepcopy(TINY), "federation": {"devices": 4, "rounds": 1}, **changes})
    method = study.methods[0]
    return study, make_federation(study, method, None, 0, load_data(study, 0)).play(make_game(method, None), 1)


@pytest.mark.parametrize(
    ("method", "attacks", "expected"),
    [
        (CHANNEL, ALL, {(Kind.REPRESENTATION, split): 1 for split in Split}),
        (
            PLAIN,
            {"panel": ["logistic"], "draws": 100, "view": "outputs"},
            {(Kind.OUTPUT, split): 1 for split in Split},
        ),
        (
            RATE,
            {"panel": ["logistic"], "draws": 100},
            {(Kind.REPRESENTATION, split): 1 for split in Split},
        ),
    ],
    ids=["every judge", "outputs", "a certificate that needs releases"],
)
def test_a_split_is_released_once(
    method: dict[str, Any], attacks: dict[str, Any], expected: dict[Any, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    study, run = trained(methods=[method], attacks=attacks)
    real, calls = release, Counter[tuple[Kind, Split]]()

    def counted(run: Run, split: Split, kind: Kind = Kind.REPRESENTATION) -> Any:
        calls[kind, split] += 1
        return real(run, split, kind)

    monkeypatch.setattr("fedveil.federation.release.release", counted)
    monkeypatch.setattr("fedveil.federation.run.release", counted)
    figures, _, _ = judge_run(study, run, lambda share, what: None)
    assert dict(calls) == expected
    assert bool(figures.certificates["u"]) == (method is not PLAIN)


def test_a_release_is_the_same_when_it_is_computed_again() -> None:
    _, run = trained(methods=[CHANNEL])
    releases = Releases(run)
    for split in Split:
        np.testing.assert_array_equal(releases.of(split), run.release(split))
        assert releases.of(split) is releases.of(split)
