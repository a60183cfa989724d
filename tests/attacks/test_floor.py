"""What a label alone gives away: against closed forms and against a search over all guesses."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from fedveil.attacks import floor
from fedveil.core.errors import InputError
from fedveil.data import Attribute, AttributeData


def people_of(table, times=1, splits=(0, 1, 2)):
    """Return records whose counts of (u, y) are the table's, the same in each of the splits."""
    table = np.asarray(table)
    u, y = (np.repeat(codes.ravel(), times * table.ravel()) for codes in np.indices(table.shape))
    n, copies = len(u), len(splits)
    return AttributeData(
        np.zeros((n * copies, 1), dtype=np.float32),
        {"u": Attribute("u", np.tile(u, copies), tuple("abcdef"[: len(table)]))},
        np.repeat(np.array(splits, dtype=np.int8), n),
        y=Attribute("y", np.tile(y, copies), tuple("vwxyz"[: table.shape[1]])),
    )


def test_two_values_have_a_closed_form():
    """P(y=1 | u) is .2 and .6; P(u=1) = .25: balanced (.8 + .6) / 2, plain max per y: .6 + .15."""
    figures = floor(people_of([[60, 15], [10, 15]], times=3), "y", "u", draws=200)
    assert figures["balanced_accuracy"].estimate == pytest.approx(0.7)
    assert figures["accuracy"].estimate == pytest.approx(0.75)
    for figure in figures.values():
        assert figure.low < figure.estimate < figure.high
        assert figure.confidence == 0.95


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (3, 4), (4, 3)])
def test_no_guess_from_the_label_does_better(seed, shape):
    table = np.random.default_rng(seed).integers(1, 40, shape)
    figures = floor(people_of(table), "y", "u", draws=100)
    guesses = [np.array(guess) for guess in product(range(shape[0]), repeat=shape[1])]
    right = [np.array([table[u, guess == u].sum() for u in range(shape[0])]) for guess in guesses]
    best_balanced = max(float((r / table.sum(axis=1)).mean()) for r in right)
    assert figures["balanced_accuracy"].estimate == pytest.approx(best_balanced)
    assert figures["accuracy"].estimate == pytest.approx(max(float(r.sum() / table.sum()) for r in right))


def test_the_interval_covers_the_truth_and_shrinks_with_people():
    def width(n, seed):
        rng = np.random.default_rng(seed)
        u = rng.integers(0, 2, n)
        y = (rng.random(n) < np.where(u, 0.7, 0.4)).astype(np.int64)
        data = AttributeData(
            np.zeros((n, 1), dtype=np.float32),
            {"u": Attribute("u", u, ("0", "1"))},
            (np.arange(n) % 3).astype(np.int8),
            y=Attribute("y", y, ("0", "1")),
        )
        figure = floor(data, "y", "u", seed=seed, draws=200)["balanced_accuracy"]
        return figure.low <= 0.65 <= figure.high, figure.high - figure.low

    assert np.mean([width(900, seed)[0] for seed in range(60)]) > 0.87
    assert width(9000, 0)[1] < 0.5 * width(900, 0)[1]


def test_it_is_fitted_on_training_and_validation_people_alone():
    untested = people_of([[40, 10], [10, 40]], splits=(0, 1))
    turned = people_of([[10, 40], [40, 10]], splits=(2,))
    data = AttributeData(
        np.zeros((300, 1), dtype=np.float32),
        {
            "u": Attribute(
                "u", np.concatenate([untested.attributes["u"].codes, turned.attributes["u"].codes]), ("a", "b")
            )
        },
        np.concatenate([untested.split, turned.split]),
        y=Attribute("y", np.concatenate([untested.y.codes, turned.y.codes]), ("v", "w")),
    )
    assert floor(data, "y", "u", draws=100)["balanced_accuracy"].estimate == pytest.approx(0.2)


def test_records_that_lack_a_label_are_left_out_and_unseen_labels_are_guessed_by_the_prior():
    data = people_of([[60, 15, 0], [10, 15, 0]])
    codes, labels = data.attributes["u"].codes.copy(), data.y.codes.copy()
    extra = AttributeData(
        np.zeros((len(data) + 4, 1), dtype=np.float32),
        {"u": Attribute("u", np.append(codes, [-1, 0, 0, 1]), ("a", "b"))},
        np.append(data.split, [2, 2, 2, 2]).astype(np.int8),
        y=Attribute("y", np.append(labels, [1, -1, 2, 2]), ("v", "w", "x")),
    )
    bare = floor(data, "y", "u", draws=100)["accuracy"].estimate
    # of the two records with an unseen label, guessing the commoner value a is right for one
    assert floor(extra, "y", "u", draws=100)["accuracy"].estimate == pytest.approx((100 * bare + 1) / 102)


def test_an_attribute_may_be_the_task_and_gives_itself_away():
    data = people_of([[60, 15], [10, 15]])
    other = replace(data, y=None, attributes={**data.attributes, "v": data.y})
    assert floor(other, "v", "u", draws=100)["balanced_accuracy"].estimate == pytest.approx(0.7)
    for figure in floor(data, "u", "u").values():
        assert (figure.low, figure.estimate, figure.high) == (1, 1, 1)


def test_whole_groups_are_drawn():
    data = people_of([[30, 10], [10, 30]])
    people = replace(data, groups=np.arange(len(data)) // 8)  # neighbours are alike here
    alone, grouped = (floor(records, "y", "u", draws=300)["accuracy"] for records in (data, people))
    assert grouped.estimate == alone.estimate
    assert grouped.high - grouped.low > 1.5 * (alone.high - alone.low)


def test_bad_input_is_refused_in_one_line():
    data = people_of([[5, 5], [5, 5]])
    one_value = people_of([[5, 5]])
    for arguments, message in (
        ((data, "z", "u"), "no task 'z'"),
        ((data, "y", "w"), "no sensitive attribute 'w'"),
        ((one_value, "y", "u"), "at least two values"),
        ((people_of([[5, 5], [5, 5]], splits=(2,)), "y", "u"), "needs labelled records to count"),
    ):
        with pytest.raises(InputError, match=message) as fault:
            floor(*arguments)
        assert "\n" not in str(fault.value)
