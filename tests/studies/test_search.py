"""The search for a strength where leakage is not monotone or a strength cannot be computed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fedveil.config.study import Method, PartSettings
from fedveil.core.figures import Estimate
from fedveil.studies.tune import Search, Tried


def searched(leakage: Callable[[float], float], strengths: list[float], steps: int = 8, bad: tuple[float, ...] = ()):
    method = Method(name="m", game=PartSettings(kind="adversarial"), strengths=strengths)
    search = Search(method, 0.6, 0.001, False, steps=steps)
    while (strength := search.wanted()) is not None:
        assert strength not in search.tried
        assert strength not in search.failed
        if strength in bad:
            search.failed[strength] = "it broke"
            continue
        figure = Estimate(leakage(strength), leakage(strength), leakage(strength))
        search.tried[strength] = Tried(strength, figure, -strength, figure, figure)
    return search


def valley(strength: float) -> float:
    return 0.55 + 0.02 * abs(strength - 4)


def test_what_the_study_lists_is_tried_before_a_target_is_called_unreachable() -> None:
    search = searched(valley, [0.0, 4.0, 8.0])
    assert search.answer is not None
    assert search.answer[0] == "reached"
    assert 1.5 <= search.answer[1].strength <= 2.5  # the weaker side of the valley is the more useful
    assert searched(lambda s: 0.7 + s, [0.0, 4.0, 8.0]).answer == ("unreachable", tried_at_zero())


def tried_at_zero() -> Tried:
    figure = Estimate(0.7, 0.7, 0.7)
    return Tried(0.0, figure, -0.0, figure, figure)


@pytest.mark.parametrize("bad", [(0.0,), (8.0,), (0.0, 8.0), (4.0,)])
def test_a_strength_that_fails_is_named_and_the_others_are_searched(bad: tuple[float, ...]) -> None:
    search = searched(lambda s: 0.7 - 0.02 * s, [0.0, 4.0, 6.0, 8.0], bad=bad)
    assert search.answer is not None
    assert search.answer[0] == "reached"
    assert search.why == "; ".join(f"strength {strength:g}: it broke" for strength in bad)
    assert search.as_dict()["why"] == search.why


def test_where_every_strength_fails_so_does_the_search() -> None:
    search = searched(valley, [0.0, 8.0], bad=(0.0, 8.0))
    assert search.answer is None
    assert search.as_dict()["status"] == "failed"


def test_steps_count_bisections_only() -> None:
    for steps in (0, 1, 3):
        search = searched(lambda s: 0.7 - 0.013 * s, [0.0, 3.0, 8.0], steps=steps)
        assert len(search.tried) == 2 + steps


def answered(validation: list[Estimate], test: list[Estimate]) -> tuple[str, float]:
    search = Search(Method(name="m", game=PartSettings(kind="adversarial"), strengths=[0.0, 1.0]), 0.6, 0.001, False)
    for strength, (on_validation, leakage) in enumerate(zip(validation, test, strict=True)):
        search.tried[float(strength)] = Tried(float(strength), on_validation, -strength, leakage, leakage)
    assert search.answer is not None
    status, point = search.answer
    assert search.as_dict()["status"] == status
    return status, point.strength


WIDE, NARROW, ABOVE = Estimate(0.58, 0.54, 0.62), Estimate(0.58, 0.57, 0.59), Estimate(0.65, 0.64, 0.66)


def test_reached_is_said_only_if_the_whole_test_interval_is_within_the_target() -> None:
    assert answered([NARROW], [NARROW]) == ("reached", 0)
    assert answered([NARROW], [WIDE]) == ("reached by the estimate, not by its interval", 0)
    assert answered([NARROW], [ABOVE]) == ("reached on validation people, not on test people", 0)
    assert answered([ABOVE], [NARROW]) == ("unreachable", 0)


def test_a_strength_whose_validation_interval_reaches_the_target_is_preferred() -> None:
    assert answered([WIDE, NARROW], [WIDE, NARROW]) == ("reached", 1)  # although the weaker strength is more useful
    assert answered([WIDE, ABOVE], [NARROW, NARROW]) == ("reached", 0)
