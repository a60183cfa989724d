"""The search for a strength, where leakage turns or a strength cannot be computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedveil.config.study import Method, PartSettings
from fedveil.core.figures import Estimate
from fedveil.studies.tune import Search, Tried


def searched(leakage: Callable[[float], float], strengths: list[float], steps: int = 8, bad: tuple[float, ...] = ()):
    method = Method(name="m", game=PartSettings(kind="adversarial"), strengths=strengths)
    found = Search(method, 0.6, 0.001, False, steps=steps)
    while (strength := found.wanted()) is not None:
        assert strength not in found.tried
        assert strength not in found.failed
        if strength in bad:
            found.failed[strength] = "it broke"
            continue
        figure = Estimate(leakage(strength), 0.0, 1.0)
        found.tried[strength] = Tried(strength, leakage(strength), -strength, figure, figure)
    return found


def valley(strength: float) -> float:
    return 0.55 + 0.02 * abs(strength - 4)


def test_what_the_study_lists_is_tried_before_a_target_is_called_unreachable() -> None:
    found = searched(valley, [0.0, 4.0, 8.0])
    assert found.answer is not None
    assert found.answer[0] == "reached"
    assert 1.5 <= found.answer[1].strength <= 2.5  # the weaker side of the valley is the more useful
    assert searched(lambda s: 0.7 + s, [0.0, 4.0, 8.0]).answer == ("unreachable", found_at_zero())


def found_at_zero() -> Tried:
    figure = Estimate(0.7, 0.0, 1.0)
    return Tried(0.0, 0.7, -0.0, figure, figure)


@pytest.mark.parametrize("bad", [(0.0,), (8.0,), (0.0, 8.0), (4.0,)])
def test_a_strength_that_fails_is_named_and_the_others_are_searched(bad: tuple[float, ...]) -> None:
    found = searched(lambda s: 0.7 - 0.02 * s, [0.0, 4.0, 6.0, 8.0], bad=bad)
    assert found.answer is not None
    assert found.answer[0] == "reached"
    assert found.why == "; ".join(f"strength {strength:g}: it broke" for strength in bad)
    assert found.as_dict()["why"] == found.why


def test_where_every_strength_fails_so_does_the_search() -> None:
    found = searched(valley, [0.0, 8.0], bad=(0.0, 8.0))
    assert found.answer is None
    assert found.as_dict()["status"] == "failed"


def test_steps_count_bisections_only() -> None:
    for steps in (0, 1, 3):
        found = searched(lambda s: 0.7 - 0.013 * s, [0.0, 3.0, 8.0], steps=steps)
        assert len(found.tried) == 2 + steps
