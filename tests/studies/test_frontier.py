import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.studies.frontier import Frontier, Point
from fedveil.studies.hypervolume import Staircase, undominated

# A coarse lattice brings ties and duplicates; some points lie outside the box of the hypervolume.
COORDINATES = st.integers(0, 12).map(lambda k: k / 12)
POINTS = st.lists(st.tuples(COORDINATES, COORDINATES), min_size=1, max_size=12)
FLOOR = Estimate(0.62, 0.6, 0.64)


def point(method, utility, leakage, *, seen=None, draws=None, strength=1.0):
    seen_utility, seen_leakage = (utility, leakage) if seen is None else seen
    u, v = (np.full(20, utility), np.full(20, leakage)) if draws is None else draws
    spread = [Estimate(x, x - 0.01, x + 0.01) for x in (utility, leakage)]
    return Point(method, strength, *spread, seen_utility, seen_leakage, u, v)


def frontier(*points, chance=0.5, utility_prior=0.5, floor=FLOOR):
    return Frontier.of(points, chance=chance, prior=0.67, utility_prior=utility_prior, floor=floor)


def curve(method, pairs, **options):
    return [point(method, u, v, strength=float(i), **options) for i, (u, v) in enumerate(pairs)]


def staircase(pairs):
    u, v = np.array(pairs, dtype=float).T
    return Staircase.of(u[:, None], v[:, None])


def dominates(a, b):
    return a[0] >= b[0] and a[1] <= b[1] and a != b


def swept(pairs, chance, prior):
    """Area by the O(n²) sweep over every cell that the points' coordinates cut the box into."""
    us = sorted({prior, 1.0, *(min(max(u, prior), 1.0) for u, _ in pairs)})
    vs = sorted({chance, 1.0, *(min(max(v, chance), 1.0) for _, v in pairs)})
    area = sum(
        (u1 - u0) * (v1 - v0)
        for u0, u1 in pairwise(us)
        for v0, v1 in pairwise(vs)
        if any(u >= u1 and v <= v0 for u, v in pairs)
    )
    return area / ((1 - prior) * (1 - chance))


# --- the front -----------------------------------------------------------------------------------------------------


@given(POINTS)
def test_the_front_is_what_the_definition_says(pairs):
    u, v = np.array(pairs).T
    expected = [not any(dominates(other, pair) for other in pairs) for pair in pairs]
    assert undominated(u, v).tolist() == expected
    on_test = {(x, y) for (x, y), stays in zip(pairs, expected, strict=True) if stays}
    steps = staircase(pairs)
    front = list(zip(steps.best[steps.steps].tolist(), steps.leakage[steps.steps].tolist(), strict=True))
    assert len(front) == len(on_test)
    assert set(front) == on_test


def test_the_front_is_chosen_on_validation_and_ordered_by_test_leakage():
    a = point("a", 0.6, 0.9, seen=(0.9, 0.55))  # best on validation, worst on test
    b = point("b", 0.9, 0.55, seen=(0.6, 0.9))  # the reverse
    c = point("c", 0.8, 0.6, seen=(0.95, 0.7))
    twin = point("d", 0.7, 0.95, seen=(0.95, 0.7))
    unseen = point("e", 1.0, 0.5, seen=(np.nan, 0.5))
    unread = point("f", 1.0, 0.5, seen=(1.0, np.nan))
    assert frontier(a, b, c, twin, unseen, unread).front == (2, 0, 3)


def test_without_validation_figures_there_is_no_front_and_no_curve():
    result = frontier(point("drop-columns", 0.8, 0.6), *curve("blind", [(0.9, 0.6)], seen=(np.nan, np.nan)))
    assert result.front == (0,)
    assert result.utility_at("blind", 0.7) is None
    assert np.isnan(result.hypervolumes["blind"].estimate)
    assert result.against("blind").reason == "blind has no validation figures"
    assert result.as_dict()["hypervolumes"]["blind"] is None
    none = frontier()
    assert none.in_words() == ["No point has validation figures, so there is no front."]
    assert none.as_dict()["selection_cost"] == {"utility": None, "leakage": None}


# --- hypervolume ---------------------------------------------------------------------------------------------------


@given(POINTS, st.sampled_from([0.2, 0.25, 0.5]), st.sampled_from([0.0, 0.3, 0.75]))
def test_the_area_is_that_of_a_sweep(pairs, chance, prior):
    area = float(staircase(pairs).area(chance, prior)[0])
    assert area == pytest.approx(swept(pairs, chance, prior), abs=1e-12)
    assert -1e-12 <= area <= 1 + 1e-12
    assert area <= float(staircase([*pairs, (0.9, 0.3)]).area(chance, prior)[0]) + 1e-12


def test_the_area_agrees_with_random_sampling():
    rng = np.random.default_rng(0)
    pairs = [tuple(pair) for pair in rng.uniform(0.4, 1, (8, 2))]
    u, v = rng.uniform(0.5, 1, (2, 200_000))
    hit = np.any([(u <= a) & (v >= b) for a, b in pairs], axis=0)
    assert staircase(pairs).area(0.5, 0.5)[0] == pytest.approx(hit.mean(), abs=0.006)


def test_corners_of_the_box():
    assert frontier(point("a", 1.0, 0.5)).hypervolume.estimate == 1
    assert frontier(point("a", 1.0, 0.4)).hypervolume.estimate == 1  # below chance is no better than chance
    assert frontier(point("a", 0.5, 0.5)).hypervolume.estimate == 0
    assert frontier(point("a", 0.4, 0.5)).hypervolume.estimate == 0
    assert frontier(point("a", 1.0, 1.0)).hypervolume.estimate == 0
    assert frontier(point("a", 0.75, 0.75)).hypervolume.estimate == pytest.approx(0.25)


@settings(max_examples=50, deadline=None)
@given(POINTS, POINTS, st.integers(0, 2**32 - 1))
def test_all_together_dominate_what_each_dominates(mine, others, seed):
    rng = np.random.default_rng(seed)
    points = [
        point(name, u, v, seen=tuple(rng.uniform(0.5, 1, 2)))
        for name, pairs in (("a", mine), ("b", others))
        for u, v in pairs
    ]
    result = frontier(*points)
    for area in result.hypervolumes.values():
        assert area.estimate <= result.hypervolume.estimate + 1e-12


def test_each_draw_has_its_own_staircase():
    rng = np.random.default_rng(1)
    u, v = rng.uniform(0.5, 1, (2, 6, 50))
    u[2, 7] = np.nan  # absent from one draw
    areas = Staircase.of(u, v).area(0.5, 0.5)
    for b in range(50):
        pairs = [(x, y) for x, y in zip(u[:, b], v[:, b], strict=True) if np.isfinite(x)]
        assert areas[b] == pytest.approx(swept(pairs, 0.5, 0.5))
    assert np.isnan(Staircase.of(np.full((2, 1), np.nan), v[:2, :1]).area(0.5, 0.5)[0])


def test_choosing_on_validation_flatters_less_than_choosing_on_the_test_but_still_flatters():
    rng = np.random.default_rng(2)
    truth, chosen, best = 0.25, [], []
    for _ in range(200):
        test, seen = 0.75 + 0.03 * rng.normal(size=(2, 30, 2))
        chosen.append(frontier(*(point("a", *t, seen=tuple(s)) for t, s in zip(test, seen, strict=True))))
        best.append(staircase(test).area(0.5, 0.5)[0])
    honest = np.mean([result.hypervolume.estimate for result in chosen])
    assert truth + 0.02 < honest < np.mean(best) - 0.02


# --- utility at a leakage ------------------------------------------------------------------------------------------


def test_between_two_strengths_utility_is_interpolated_and_beyond_them_it_is_not():
    result = frontier(*curve("a", [(0.7, 0.6), (0.8, 0.7), (0.75, 0.72), (0.9, 0.9)]))
    assert result.utility_at("a", 0.65).estimate == pytest.approx(0.75)
    assert result.utility_at("a", 0.8).estimate == pytest.approx(0.85)  # the dominated point is passed over
    assert result.utility_at("a", 0.6).estimate == pytest.approx(0.7)
    assert result.utility_at("a", 0.99).estimate == pytest.approx(0.9)
    assert result.utility_at("a", 0.59) is None
    with pytest.raises(InputError, match="no method 'b'"):
        result.utility_at("b", 0.6)


@given(POINTS)
def test_the_curve_is_monotone_and_lies_between_its_neighbours(pairs):
    levels = np.linspace(0, 1, 73)[None]
    utilities = staircase(pairs).at(levels)[0]
    front = sorted({(v, u) for u, v in pairs if not any(dominates(other, (u, v)) for other in pairs)})
    expected = np.interp(levels[0], *np.array(front).T, left=np.nan)
    np.testing.assert_allclose(utilities, expected, atol=1e-12)
    finite = utilities[np.isfinite(utilities)]
    assert (np.diff(finite) >= -1e-12).all()
    for level, utility in zip(levels[0], utilities, strict=True):
        reached = [u for u, v in pairs if v <= level]
        assert np.isnan(utility) == (not reached)
        if reached:
            assert max(reached) - 1e-12 <= utility <= max(u for u, _ in pairs) + 1e-12


def test_many_columns_give_what_each_gives_alone():
    rng = np.random.default_rng(3)
    u, v = rng.integers(5, 12, (2, 7, 40)) / 12
    u[3, :10] = np.nan
    u[:, 11] = np.nan
    levels = rng.uniform(0.4, 1, (40, 9))
    together = Staircase.of(u, v).at(levels)
    for b in range(40):
        alone = Staircase.of(u[:, [b]], v[:, [b]]).at(levels[[b]])[0]
        np.testing.assert_array_equal(together[b], alone)
    assert np.isnan(together[11]).all()


@given(st.integers(2, 4), st.integers(1, 5), st.floats(0, 1), st.integers(0, 2**32 - 1))
def test_time_sharing_is_linear_in_the_coin_for_the_best_attacker(classes, symbols, share, seed):
    rng = np.random.default_rng(seed)

    def best(channel):  # P(release | value): the best balanced accuracy guesses the likeliest value of each release
        return channel.max(axis=0).sum() / classes

    first, second = rng.dirichlet(np.ones(symbols), size=(2, classes))
    seen = np.concatenate([share * first, (1 - share) * second], axis=1)  # coin and release together
    assert best(seen) == pytest.approx(share * best(first) + (1 - share) * best(second))
    assert best(share * first + (1 - share) * second) <= best(seen) + 1e-12  # the coin is not seen


def test_draws_that_do_not_reach_the_level_are_dropped_and_too_many_leave_no_interval():
    low = np.where(np.arange(100) < 40, 0.75, 0.6)
    few = frontier(point("a", 0.8, 0.6, draws=(np.linspace(0.7, 0.9, 100), low)))
    interval = few.utility_at("a", 0.7)
    kept = np.linspace(0.7, 0.9, 100)[40:]
    assert (interval.low, interval.high) == pytest.approx(
        (min(0.8, np.quantile(kept, 0.025)), np.quantile(kept, 0.975))
    )
    many = frontier(point("a", 0.8, 0.6, draws=(np.full(100, 0.8), np.where(np.arange(100) < 60, 0.75, 0.6))))
    interval = many.utility_at("a", 0.65)
    assert interval.estimate == 0.8
    assert np.isnan([interval.low, interval.high]).all()
    assert many.as_dict()["utility_at"]["methods"]["a"][2] == {"estimate": 0.8, "low": None, "high": None}


# --- comparison ----------------------------------------------------------------------------------------------------

BASE = [(0.7, 0.6), (0.8, 0.7), (0.85, 0.8)]


def test_the_difference_is_averaged_where_both_curves_run():
    comparison = frontier(*curve("drop-columns", BASE), *curve("a", [(0.76, 0.65), (0.86, 0.75)])).against("a")
    # at leakage 0.65 0.76 − 0.75, at 0.70 0.81 − 0.80, at 0.75 0.86 − 0.825, straight lines between
    assert comparison.verdict == "beats"
    assert comparison.leakages == pytest.approx((0.65, 0.75))
    assert comparison.difference.estimate == pytest.approx((0.01 + (0.01 + 0.035) / 2) / 2, abs=1e-4)
    assert comparison.largest == pytest.approx((0.035, 0.75))
    assert comparison.smallest[0] == pytest.approx(0.01)
    assert comparison.in_words().startswith(
        "a beats drop-columns at matched leakage: the difference in utility is 0.01"
    )


@pytest.mark.parametrize(("shift", "verdict"), [(0.05, "beats"), (-0.05, "does not beat"), (0.0, "undecided")])
def test_verdicts_are_paired(shift, verdict):
    # Both curves swing together from draw to draw by far more than they differ.
    rng = np.random.default_rng(4)
    swing, noise = 0.1 * rng.normal(size=200), 0.005 * rng.normal(size=200)
    base = [point("drop-columns", u, v, draws=(u + swing, np.full(200, v))) for u, v in BASE]
    mine = [point("a", u + shift, v, draws=(u + shift + swing + noise, np.full(200, v))) for u, v in BASE]
    comparison = frontier(*base, *mine).against("a")
    assert comparison.verdict == verdict
    assert comparison.difference.estimate == pytest.approx(shift)
    assert comparison.difference.high - comparison.difference.low < 0.03
    mirrored = frontier(*base, *mine).against("drop-columns", "a").difference
    assert (mirrored.low, mirrored.high) == pytest.approx((-comparison.difference.high, -comparison.difference.low))


def test_one_point_is_compared_at_its_own_leakage():
    comparison = frontier(*curve("drop-columns", BASE), point("a", 0.7, 0.75)).against("a")
    assert comparison.leakages == (0.75, 0.75)
    assert comparison.difference.estimate == pytest.approx(0.7 - 0.825)
    assert "at leakage 0.750" in comparison.in_words()


def test_curves_apart_are_compared_only_where_less_leakage_goes_with_more_utility():
    base = curve("drop-columns", BASE)
    modest = frontier(*base, point("a", 0.65, 0.55)).against("a")
    assert modest.verdict == "not comparable"
    assert "(0.550 to 0.550 and 0.600 to 0.800)" in modest.reason
    assert frontier(*base, point("a", 0.75, 0.55)).against("a").verdict == "beats"
    assert frontier(*base, point("a", 0.9, 0.85)).against("a").verdict == "not comparable"
    assert frontier(*base, point("a", 0.8, 0.85)).against("a").verdict == "does not beat"


def test_an_absent_baseline_is_reported_as_absent():
    result = frontier(*curve("a", BASE))
    assert result.against("a").as_dict() == {
        "method": "a",
        "baseline": "drop-columns",
        "verdict": "not comparable",
        "reason": "drop-columns has no points",
        "difference": None,
        "leakages": None,
        "largest": None,
        "smallest": None,
    }
    assert "a and drop-columns are not comparable: drop-columns has no points." in result.in_words()


def test_intervals_cover_the_truth_about_as_often_as_they_say():
    rng = np.random.default_rng(5)
    truth = {"drop-columns": BASE, "a": [(0.72, 0.6), (0.83, 0.7), (0.88, 0.8)]}
    exact = frontier(*(curve_point for name, pairs in truth.items() for curve_point in curve(name, pairs)))
    targets = (
        exact.hypervolumes["a"].estimate,
        exact.utility_at("a", 0.73).estimate,
        exact.against("a").difference.estimate,
    )
    covered = np.zeros(3)
    repetitions, noise = 300, 0.01
    for _ in range(repetitions):
        points = []
        for name, pairs in truth.items():
            for pair in pairs:
                u, v = np.array(pair) + noise * rng.normal(size=2)
                draws = (u + noise * rng.normal(size=200), v + noise * rng.normal(size=200))
                points.append(point(name, u, v, seen=pair, draws=draws))
        result = frontier(*points)
        figures = (result.hypervolumes["a"], result.utility_at("a", 0.73), result.against("a").difference)
        covered += [figure.low <= target <= figure.high for figure, target in zip(figures, targets, strict=True)]
    assert ((covered / repetitions > 0.89) & (covered / repetitions < 0.985)).all(), covered / repetitions


# --- cost of selection, words, JSON --------------------------------------------------------------------------------


def test_the_cost_of_selection_is_validation_against_test_on_the_front():
    draws = (np.linspace(0.74, 0.76, 101), np.linspace(0.69, 0.71, 101))
    cost = frontier(
        point("a", 0.75, 0.7, seen=(0.8, 0.65), draws=draws),
        point("a", 0.85, 0.8, seen=(0.85, 0.81), draws=(draws[0] + 0.1, draws[1] + 0.1)),
        point("a", 0.2, 0.9, seen=(0.1, 0.95), draws=draws),
    ).selection_cost
    assert cost["utility"].estimate == pytest.approx((0.05 + 0.0) / 2)
    assert cost["leakage"].estimate == pytest.approx((0.05 - 0.01) / 2)
    assert (cost["utility"].low, cost["utility"].high) == pytest.approx((0.025 - 0.0095, 0.025 + 0.0095))


def noisy(methods, each, draws, seed=0):
    rng = np.random.default_rng(seed)
    for method in methods:
        for strength in range(each):
            seen, (u, v) = rng.uniform(0.55, 0.95, (2, 2))
            noise = 0.02 * rng.normal(size=(2, draws))
            yield point(method, u, v, seen=tuple(seen), draws=(u + noise[0], v + noise[1]), strength=float(strength))


def test_json_survives_a_round_trip_and_contains_no_nan():
    points = [*noisy(["drop-columns", "a", "b"], 5, 20), *curve("blind", [(0.9, 0.6)], seen=(np.nan, 0.5))]
    result = frontier(*points)
    document = result.as_dict()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    assert [entry["on_front"] for entry in document["points"]] == [i in result.front for i in range(len(points))]
    assert document["points"][-1]["validation_utility"] is None
    assert document["utility_at"]["leakages"] == [0.55, 0.6, 0.65, 0.7, 0.75, 0.8]
    assert set(document["comparisons"]) == {"a", "b", "blind"}
    assert document["floor"] == FLOOR.as_dict()
    assert frontier(*points, floor=None).as_dict()["floor"] is None
    four = frontier(*points, chance=0.25).as_dict()["utility_at"]["leakages"]
    assert all(0.25 < level < 1 for level in four)


def test_the_sentences_state_the_figures():
    base = curve("drop-columns", [(0.8, 0.6), (0.85, 0.8)])
    sentences = frontier(*base, *curve("a", [(0.7, 0.6), (0.9, 0.75)])).in_words()
    assert sentences == [
        "On the front, chosen on validation: drop-columns (1 of 2 points), a (1 of 2 points).",
        "a does not beat drop-columns at matched leakage: the difference in utility is -0.019 [-0.019, -0.019], "
        "averaged over leakages 0.600 to 0.750.",
        "On average, the front looked better on validation than on the test by 0.000 [0.000, 0.000] of utility and "
        "0.000 [0.000, 0.000] of leakage; a figure below 0 means that it looked worse.",
        "The task label by itself reveals the attribute with balanced accuracy 0.620 [0.600, 0.640]: releases that "
        "allow the task to be done without error leak at least that much. Points on the front that leak less, and so "
        "do not allow this: 1 of 2.",
    ]
    assert len(frontier(*base, floor=None).in_words()) == 2


def test_what_does_not_fit_is_refused():
    with pytest.raises(InputError, match="one length"):
        frontier(point("a", 0.8, 0.6), point("b", 0.8, 0.6, draws=(np.ones(3), np.ones(3))))
    with pytest.raises(InputError, match=r"a at strength 1\.0 has no test figure"):
        frontier(point("a", np.nan, 0.6))
    for wrong in ({"chance": 1.0}, {"chance": 0.0}, {"utility_prior": 1.0}):
        with pytest.raises(InputError, match=r"must lie in \(0, 1\)"):
            frontier(point("a", 0.8, 0.6), **wrong)


def test_without_draws_there_are_figures_without_intervals():
    result = frontier(point("a", 0.75, 0.75, draws=(np.empty(0), np.empty(0))))
    assert result.as_dict()["hypervolume"] == {"estimate": 0.25, "low": None, "high": None}
