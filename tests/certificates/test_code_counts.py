"""The bound on the best observer of a code holds, and is as tight as the count allows."""

import numpy as np
import pytest

from fedveil.certificates.code_counts import best_balanced_accuracy_bound, certify_codes
from fedveil.errors import InputError


def test_it_covers_the_truth_as_often_as_it_says():
    """Three values, five codes, laws known: the bound is below the truth in no more than α of the draws."""
    rng = np.random.default_rng(0)
    laws = rng.dirichlet(np.ones(5), 3)
    truth = laws.max(axis=0).sum() / 3
    u = np.repeat([0, 1, 2], [60, 200, 400])
    misses = 0
    for _ in range(400):
        codes = np.concatenate([rng.choice(5, (u == value).sum(), p=laws[value]) for value in range(3)])
        misses += best_balanced_accuracy_bound(codes, u, 3, 0.2) < truth
    assert misses / 400 <= 0.2


def test_binary_closed_form():
    """Equal histograms: one half plus the slack; disjoint ones: all."""
    u = np.repeat([0, 1], 1000)
    slack = np.sqrt(np.log(20) * (2 / 1000) / 2) / 2
    assert best_balanced_accuracy_bound(np.tile([0, 1], 1000), u, 2, 0.05) == pytest.approx(0.5 + slack)
    assert best_balanced_accuracy_bound(u, u, 2, 0.05) == 1.0


def test_certificate_says_what_it_rests_on():
    """The map was fixed before; counts that left, and what else is shown, are not covered."""
    one = certify_codes(np.tile([0, 1], 500), np.repeat([0, 1], 500), 2, 0.9, does_not_cover=("age",))
    assert one.confidence == 0.9
    assert one.direction == "upper"
    assert one.assumptions["codes seen"] == 2
    assert "age" in one.does_not_cover
    assert "map" in one.assumptions
    assert str(one).startswith("CERTIFIED balanced accuracy")


@pytest.mark.parametrize(
    ("codes", "u", "values", "message"),
    [
        ([0, 1], [0, 0], 2, "no held-out people"),
        ([0], [0, 1], 2, "one code and one value"),
        ([0, 1], [0, 2], 2, "numbered from 0"),
        ([0, 1], [0, 0], 1, "two values"),
    ],
)
def test_mistakes(codes, u, values, message):
    """One line each."""
    with pytest.raises(InputError, match=message):
        best_balanced_accuracy_bound(codes, u, values, 0.05)
