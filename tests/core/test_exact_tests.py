"""The exact test against chance: its level with few victims, its closed form, and records that come in groups."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from fedveil.core import exact_tests
from fedveil.core.errors import InputError
from fedveil.core.exact_tests import chance_p_value


def balanced_accuracy(guesses: np.ndarray, codes: np.ndarray) -> float:
    return float(np.mean([(guesses[codes == value] == value).mean() for value in np.unique(codes)]))


def every_arrangement(guesses: list[int], codes: list[int]) -> float:
    guess, seen = np.array(guesses), balanced_accuracy(np.array(guesses), np.array(codes))
    figures = [balanced_accuracy(guess, np.array(order)) for order in permutations(codes)]
    return float(np.mean([figure >= seen - 1e-12 for figure in figures]))


@pytest.mark.parametrize("guesses", [[0, 0, 0, 1, 1, 1, 1], [1, 0, 0, 1, 1, 0, 1], [1, 1, 1, 0, 0, 0, 0], [1] * 7])
def test_two_values_agree_with_every_arrangement(guesses: list[int]) -> None:
    codes = [0, 0, 0, 1, 1, 1, 1]
    expected = every_arrangement(guesses, codes)
    assert chance_p_value(guesses, codes, 2, None, np.random.default_rng(0)) == pytest.approx(expected)


def test_three_values_agree_with_every_arrangement() -> None:
    codes, guesses = [0, 0, 1, 1, 1, 2, 2], [0, 0, 1, 1, 2, 2, 0]
    p = chance_p_value(guesses, codes, 3, None, np.random.default_rng(0))
    assert p == pytest.approx(every_arrangement(guesses, codes), abs=0.006)


def test_the_drawn_p_value_agrees_with_the_closed_form() -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, 60)
    guesses = np.where(rng.random(60) < 0.6, codes, 1 - codes)
    exact = chance_p_value(guesses, codes, 2, None, rng)
    # A third value that never occurs, and groups of a single value, both lead to drawn arrangements.
    assert chance_p_value(guesses, codes, 3, None, rng) == pytest.approx(exact, abs=0.01)
    twice = np.repeat(np.arange(60), 2)
    doubled = chance_p_value(np.repeat(guesses, 2), np.repeat(codes, 2), 2, twice, rng)
    assert doubled == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("share_guessed", [0.3, 0.5, 0.8])
def test_the_level_holds_with_six_against_four(share_guessed: float) -> None:
    rng = np.random.default_rng(2)
    codes = np.array([0] * 6 + [1] * 4)
    p = np.array(
        [
            chance_p_value((rng.random(10) < share_guessed).astype(int), rng.permutation(codes), 2, None, rng)
            for _ in range(4000)
        ]
    )
    for alpha in (0.01, 0.05, 0.1, 0.3):
        assert (p <= alpha).mean() <= alpha + 3 * np.sqrt(alpha * (1 - alpha) / len(p))


def test_the_level_holds_with_records_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_tests, "ARRANGEMENTS", 199)
    rng = np.random.default_rng(3)
    sizes = np.array([1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    groups = np.repeat(np.arange(10), sizes)
    p, ignoring = [], []
    for _ in range(1500):
        codes = rng.permutation([0] * 6 + [1] * 4)[groups]
        guesses = rng.integers(0, 2, 10)[groups]  # an attacker who says the same of all records of a person
        p.append(chance_p_value(guesses, codes, 2, groups, rng))
        ignoring.append(chance_p_value(guesses, codes, 2, None, rng))
    assert (np.array(p) <= 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1500)
    assert (np.array(ignoring) <= 0.05).mean() > 0.2  # the test would notice if groups were ignored


@pytest.mark.parametrize("sizes", [[3] * 9, [2, 2, 2, 5, 5, 5, 6, 6, 6, 6], [1, 2, 3, 4, 5, 6, 7, 8, 9]])
def test_the_level_holds_if_a_group_has_several_values(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_tests, "ARRANGEMENTS", 199)
    rng = np.random.default_rng(4)
    groups = np.repeat(np.arange(len(sizes)), sizes)
    p = []
    for _ in range(1500):
        leaning = rng.random(len(sizes)) < 0.5
        codes = (rng.random(len(groups)) < np.where(leaning, 0.9, 0.1)[groups]).astype(int)
        guesses = rng.integers(0, 2, len(sizes))[groups]
        p.append(chance_p_value(guesses, codes, 2, groups, rng))
    assert (np.array(p) <= 0.05).mean() <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / 1500)


@pytest.mark.parametrize("mixed", [False, True])
def test_an_attacker_who_is_right_is_noticed(mixed: bool) -> None:
    rng = np.random.default_rng(5)
    groups = np.repeat(np.arange(30), 4)
    codes = np.repeat(rng.permutation([0] * 18 + [1] * 12), 4)
    if mixed:
        codes[0] = 1 - codes[0]
    assert chance_p_value(codes, codes, 2, groups, rng) < 0.001


def test_more_right_guesses_never_raise_the_p_value() -> None:
    codes = np.array([0] * 9 + [1] * 7)
    rng = np.random.default_rng(6)
    by_right = []
    for right in range(8):
        guesses = np.zeros(16, dtype=int)
        guesses[9 : 9 + right] = 1  # right guesses of value 1
        guesses[: 7 - right] = 1  # and as many wrong ones as make seven guesses of it
        by_right.append(chance_p_value(guesses, codes, 2, None, rng))
    assert by_right == sorted(by_right, reverse=True)
    assert by_right[0] == 1.0
    assert by_right[-1] < 1e-3


def test_unknown_values_are_left_out_and_single_values_say_nothing() -> None:
    rng = np.random.default_rng(7)
    codes, guesses = np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 0, 1, 1, 1])
    with_unknown = chance_p_value([*guesses, 1, 0], [*codes, -1, -1], 2, None, rng)
    assert with_unknown == chance_p_value(guesses, codes, 2, None, rng) == pytest.approx(1 / 20)
    assert chance_p_value([0, 1, 1], [1, 1, 1], 2, None, rng) == 1.0
    assert chance_p_value(np.array([], dtype=int), np.array([], dtype=int), 2, None, rng) == 1.0
    assert chance_p_value(guesses, codes, 2, np.arange(6), rng) == pytest.approx(1 / 20)


@pytest.mark.parametrize(
    ("guesses", "codes", "classes", "groups"),
    [
        ([0, 1], [0, 1, 1], 2, None),
        ([0, 2], [0, 1], 2, None),
        ([0, 1], [0, 2], 2, None),
        ([-1, 1], [0, 1], 2, None),
        ([0.5, 1.0], [0, 1], 2, None),
        ([0, 0], [0, 0], 1, None),
        ([0, 1], [0, 1], 2, [0]),
    ],
)
def test_bad_input_is_refused(guesses: list, codes: list, classes: int, groups: list | None) -> None:
    with pytest.raises(InputError, match="exact test"):
        chance_p_value(guesses, codes, classes, groups, np.random.default_rng(0))
