"""Scores in per cent: offered as such, read as such, and warned about if they are read as raw."""

import numpy as np
import pytest

from fedveil.audit.percent import from_percent, looks_like_percent
from fedveil.core.errors import InputError


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        ([[20, 80], [55.5, 44.5]], True),
        ([[33, 33, 33]], True),
        ([[87.5], [0.4]], True),
        ([[0.2, 0.8]], False),
        ([[2.0, 1.5], [0.1, 4.0]], False),
        ([[3.1], [0.2]], False),
        ([[-3.0, 103.0]], False),
        ([[50.0, 60.0]], False),
    ],
)
def test_scores_in_per_cent_are_recognised(scores, expected):
    assert looks_like_percent(np.array(scores, dtype=np.float64)) is expected


def test_division_adds_no_decimals():
    assert from_percent(np.array([[87.31, 12.69]]), "x").tolist() == [[0.8731, 0.1269]]
    with pytest.raises(InputError, match="row 1 holds 120"):
        from_percent(np.array([[120.0, -20.0]]), "x")
    with pytest.raises(InputError, match="sum to 90"):
        from_percent(np.array([[40.0, 50.0]]), "x")


def test_probabilities_are_not_read_as_per_cent():
    """A single column of shares divided by 100 looked standard whatever it carried."""
    with pytest.raises(InputError, match="look like probabilities, not like per cent"):
        from_percent(np.array([[0.2], [0.9]]), "x.csv")


def test_one_column_slightly_above_a_hundred_is_certainty():
    assert from_percent(np.array([[100.4], [30.0]]), "x.csv").max() == 1.0
