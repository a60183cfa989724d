"""Data of the experiments: merged values, and data sets that stay in memory while the settings are the same."""

import pytest
from curious_settings import DIGITS
from fedveil_papers.curious.experiments.cases import CuriousCase, load_once

from fedveil.core.errors import InputError


def test_a_merged_secret_has_the_values_given_and_lacks_the_rest(published):
    published("mnist")
    secret = CuriousCase.of(DIGITS, "x").load(0).attribute("colour")
    assert set(secret.values) == {"warm", "cool"}
    assert 0 < (~secret.known).sum() < 0.15 * len(secret)  # violet is in neither
    wrong = CuriousCase.of({**DIGITS, "merge": {"a": ["redd"], "b": ["blue"]}}, "x")
    with pytest.raises(InputError, match="did you mean 'red'"):
        wrong.load(0)


def test_data_is_loaded_again_where_anything_differs(tmp_path, monkeypatch):
    def synthetic(n=500, seed=0):
        return load_once("synthetic", target="y", sensitive=["u"], options={"n": n}, seed=seed)

    first = synthetic()
    assert synthetic() is first
    assert len(synthetic(n=600)) == 600
    assert not (synthetic(seed=1).x == first.x).all()
    again = synthetic()
    monkeypatch.setenv("FEDVEIL_DATA", str(tmp_path))
    assert synthetic() is not again
