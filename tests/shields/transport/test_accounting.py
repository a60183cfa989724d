"""With noise, a map depends on people only through noised answers; other people certify it."""

import numpy as np
import pytest
import torch

from fedveil.core.errors import InputError
from fedveil.shields import Transport
from fedveil.shields.transport import MapSettings, chart, fit_chart
from fedveil.shields.transport.columns import learn_columns, learn_strata
from fedveil.shields.transport.counts import Counts


class Deaf(Counts):
    """Answers depend on the question's number and shape alone: any difference must come from elsewhere."""

    asked_so_far = 0

    def noised(self, sums):
        self.asked_so_far += 1
        shape = np.asarray(sums).shape
        return np.random.default_rng(self.asked_so_far).gamma(0.3, 50.0, shape)


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    u = rng.integers(0, 2, n)
    talent = rng.normal(size=n)
    x = np.column_stack([np.round(talent + u), np.round(talent), rng.integers(0, 3, n), np.round(talent * 2)])
    return x.clip(-3, 3), u


def test_only_noised_answers_enter_a_map(monkeypatch):
    """The same answers give the same map, although one person left and the others were reordered."""
    x, u = people()
    names = ["a", "b", "c", "d"]
    columns = learn_columns(x, names, np.random.default_rng(0))
    monkeypatch.setattr(chart, "learn_columns", lambda *_: columns)
    monkeypatch.setattr(chart, "Counts", lambda noise, rng: Deaf(noise, rng))
    recipe = MapSettings(keep={"a": 0.0}, strength=0.9, codes=5, noise=1.0, questions=4, guess_weight=1.0, least=5)
    monkeypatch.setattr(chart, "numpy_generator", lambda *_: np.random.default_rng(0))
    others = slice(40, None)
    first = fit_chart(x, names, u, 2, recipe, 0)
    second = fit_chart(x[others], names, u[others], 2, recipe, 0)
    np.testing.assert_array_equal(first.weights, second.weights)
    np.testing.assert_allclose(first.common.rotation, second.common.rotation, rtol=1e-9)
    torch.testing.assert_close(first.centres, second.centres)
    torch.testing.assert_close(first.kept[0].alignment.b, second.kept[0].alignment.b)
    torch.testing.assert_close(first.alignment.b, second.alignment.b)
    np.testing.assert_allclose(first.shown, second.shown)


def test_too_many_strata_are_refused_at_once():
    """Sixteen groups of each of six columns are more than can be counted."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(7000, 6))
    columns = learn_columns(x, list("abcdef"), rng)
    cells = [column.cell(x) for column in columns]
    with pytest.raises(InputError, match=r"keeping a, b, c, d, e, f makes 16,777,216 strata"):
        learn_strata(columns, cells, np.zeros(7000, dtype=np.int64), 1, 1, Counts(0.0, rng))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": ["a"]}, "keep must name columns"),
        ({"weights": [1]}, "weights must name columns"),
        ({"keep": {"a": 1.0}, "weights": {"a": 1.0}}, "column 'a' stays, so it has no weight"),
        ({"temperature": "a"}, "temperature must be above 0"),
        ({"codes": True}, "codes must be a whole number"),
        ({"directions": -1}, "directions must be a whole number of at least 0"),
        ({"guess_weight": float("nan")}, "guess_weight must be finite"),
        ({"attribute": 3}, "must be a name or several"),
        ({"attribute": ["u", "u"]}, "each only once"),
    ],
)
def test_meaningless_settings_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        Transport(**{"attribute": "u", **settings})
