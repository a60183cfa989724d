"""Transport of images: colour, which is u, is gone; shape, which nobody named, stays; counts are noised and bounded."""

import math

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score

from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.data import Attribute, AttributeData, Split, load
from fedveil.federation import Federation
from fedveil.federation.records import prepare_shield
from fedveil.games import Raw
from fedveil.shields.transport import Transport
from fedveil.shields.transport.certifying import summed_chances
from fedveil.shields.transport.images import Pictures, learn_embedding, learn_images
from fedveil.shields.transport.poll import Poll, budget
from fedveil.shields.transport.settings import MapSettings

COLOURS = np.array([[1.0, 0.1, 0.1], [0.1, 0.9, 0.2], [0.3, 0.3, 1.0]])


def bars(n=3000, seed=0, association=0.0, values=3):
    """Bars of one of four slants, in u's colour; for a share `association` of them the slant is u, too."""
    rng = np.random.default_rng(seed)
    u = rng.integers(0, values, n)
    slant = np.where(rng.random(n) < association, u, rng.integers(0, 4, n))
    row, column = np.mgrid[:10, :10] - 4.5
    angle = slant * np.pi / 4 + rng.normal(0, 0.1, n)
    across = np.abs(np.sin(angle)[:, None, None] * column - np.cos(angle)[:, None, None] * row)
    grey = np.clip(1.6 - across, 0, 1) * rng.uniform(0.7, 1, n)[:, None, None]
    x = (grey[:, None] * COLOURS[u][:, :, None, None]).astype(np.float32)
    split = np.where(np.arange(n) < 0.6 * n, 0, np.where(np.arange(n) < 0.7 * n, 1, 2)).astype(np.int8)
    u_names, slants = tuple("abc"[:values]), tuple("0123")
    return AttributeData(x, {"u": Attribute("u", u, u_names)}, split, y=Attribute("slant", slant, slants), name="bars")


def read(shown, labels, data):
    train, test = data.rows(Split.TRAIN), data.rows(Split.TEST)
    flat = shown.reshape(len(shown), -1)
    model = LogisticRegression(C=10, class_weight="balanced", max_iter=2000).fit(flat[train], labels[train])
    return balanced_accuracy_score(labels[test], model.predict(flat[test]))


def moved(shield, data):
    return shield.chart_.move(data.x.astype(np.float64), data.attribute("u").codes, torch_generator(0, "t")).x


def test_colour_is_gone_and_shape_stays():
    """Raw, colour is read at once; from a code's picture not by more than chance; the slant still is."""
    data = bars()
    u, y = data.attribute("u").codes, data.y.codes
    shown = moved(prepare_shield(Transport("u", codes=24), data, 0), data)
    assert shown.shape == data.x.shape
    assert 0 <= shown.min() <= shown.max() <= 1
    assert read(data.x, u, data) > 0.95
    assert read(shown, u, data) < 1 / 3 + 0.05
    assert read(shown, y, data) > 0.9


def test_moved_moments_keep_the_picture_and_leave_a_trace():
    """The slant is read as before; colour far less than raw, but pixels cut at 0 still show each value's own map."""
    data = bars()
    u, y = data.attribute("u").codes, data.y.codes
    shield = prepare_shield(Transport("u", images="moments"), data, 0)
    shown = moved(shield, data)
    assert read(shown, y, data) > 0.97
    assert 1 / 3 + 0.05 < read(shown, u, data) < 0.65  # a limit that the page states, not a success
    plain = prepare_shield(Transport("u", images="moments", strength=0.0), data, 0)
    assert read(moved(plain, data), u, data) < 1 / 3 + 0.05  # grey alone hides the colour where shapes do not reveal it


def test_what_the_shape_reveals_is_hidden_by_codes_and_certified():
    """Where the slant reveals u, grey pictures still do; transported codes do not, and held-out people certify it."""
    data = bars(12_000, association=0.6)
    u = data.attribute("u").codes
    grey, strong = (prepare_shield(Transport("u", codes=16, strength=s, questions=40), data, 0) for s in (0.0, 1.0))
    assert read(moved(grey, data), u, data) > 0.6
    assert read(moved(strong, data), u, data) < 1 / 3 + 0.03
    rows = data.rows(Split.TEST)
    assert strong.certify(data, rows, 0).bound < 0.42 < 0.6 < grey.certify(data, rows, 0).bound
    with pytest.raises(InputError, match="nothing to count"):
        prepare_shield(Transport("u", images="moments"), data, 0).certify(data, rows, 0)


def test_gaussian_transport_moves_moments():
    """After it, every value's coordinates have the mean and covariance of all alike."""
    data = bars(association=0.6)
    shield = prepare_shield(Transport("u", images="moments"), data, 0)
    train, u = data.rows(Split.TRAIN), data.attribute("u").codes
    embedding, (m, group_means, maps) = shield.chart_.embedding, shield.chart_.maps
    z = embedding.coordinates(embedding.grey(data.x[train], u[train]))
    z = m[u[train]] + np.einsum("nij,nj->ni", maps[u[train]], z - group_means[u[train]])
    means = [z[u[train] == v].mean(axis=0) for v in range(3)]
    np.testing.assert_allclose(means, np.tile(means[0], (3, 1)), atol=1e-6)
    first, *others = (np.cov(z[u[train] == v].T) for v in range(3))
    for other in others:
        assert np.linalg.norm(first - other) < 0.1 * np.linalg.norm(first)


def test_the_axes_are_the_principal_components():
    """By orthogonal iteration from sums: the same plane as the eigenvectors of the covariance within values."""
    data = bars(2000)
    u = data.attribute("u").codes
    poll = Poll([Pictures(data.x, u)], math.inf, np.random.default_rng(0))
    embedding = learn_embedding(poll, data.x.shape[1:], 3, 12, np.random.default_rng(1), 1.0)
    grey = embedding.grey(data.x, u)
    centred = grey - np.stack([grey[u == v].mean(axis=0) for v in range(3)])[u]
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1][:, :2]
    np.testing.assert_allclose(np.linalg.norm(embedding.axes @ axes, axis=0), 1, atol=0.01)
    assert len(poll.heard) == 6


def test_many_devices_noise_and_bounds():
    """The same chart however people are spread over devices; ε as asked; nobody moves an answer beyond its bound."""
    data = bars(900)
    u = data.attribute("u").codes

    def fit(devices, epsilon):
        parts = np.array_split(np.arange(900), devices)
        poll = Poll([Pictures(data.x[p], u[p]) for p in parts], budget(epsilon), np.random.default_rng(0))
        recipe = MapSettings(codes=8, questions=10)
        return learn_images(poll, data.x.shape[1:], 3, recipe, np.random.default_rng(1), "codes", 10), poll

    (single, _), (many, _) = fit(1, math.inf), fit(30, math.inf)
    np.testing.assert_allclose(single.pictures, many.pictures, atol=1e-9)
    np.testing.assert_allclose(single.alignment.b, many.alignment.b, atol=1e-6)
    noisy, poll = fit(1, 4.0)
    assert noisy.epsilon == pytest.approx(4.0, rel=0.01)
    alone, other = (Pictures(data.x[:1], np.array([v])) for v in (0, 1))
    for heard in poll.heard:
        a, b = alone, other
        for step in poll.steps[: heard.step]:
            a, b = step(a), step(b)
        first, second = heard.question.answer(a), heard.question.answer(b)
        assert np.linalg.norm(first) <= heard.question.bound * (1 + 1e-9)
        assert np.linalg.norm(first - second) <= heard.question.moved * heard.question.bound * (1 + 1e-9)


def test_chances_are_those_of_the_draw():
    """Summed chances and drawn codes agree."""
    data = bars(6000)
    u = data.attribute("u").codes
    chart = prepare_shield(Transport("u", codes=8, questions=10), data, 0).chart_
    sums = summed_chances(chart, data.x, u, 3, torch_generator(0, "a"))
    drawn = chart.move(data.x, u, torch_generator(0, "b")).codes
    table = np.array([np.bincount(drawn[u == v], minlength=8) for v in range(3)]).T
    assert np.abs(sums - table).max() < 5 * math.sqrt(sums.max())
    np.testing.assert_allclose(sums.sum(axis=0), np.bincount(u), rtol=1e-9)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"keep": {"a": 0.5}}, "keep is for tables"),
        ({"weights": {"a": 0.5}}, "weights is for tables"),
        ({"noise": 2.0}, "noise is for tables"),
        ({"images": "faces"}, "one of codes, moments"),
        ({"epsilon": 0.0}, "epsilon must be above 0"),
        ({"epsilon": 1.0, "noise": 1.0}, "not both"),
    ],
)
def test_mistakes(settings, message):
    """Each is refused in one line."""
    with pytest.raises(InputError, match=message):
        prepare_shield(Transport("u", **settings), bars(100), 0)


def test_other_shapes_are_refused():
    """A map is for images of one shape."""
    chart = prepare_shield(Transport("u", codes=4, questions=3), bars(300), 0).chart_
    with pytest.raises(InputError, match="shape"):
        chart.move(np.zeros((1, 3, 9, 9)), np.zeros(1, dtype=np.int64), torch_generator(0, "t"))


def test_a_run_on_digits(published):
    """Coloured digits with colours independent of the digit: a federation sees no more pictures than codes."""
    published("mnist")
    data = load("coloured_digits", target="digit", sensitive="colour", correlation=0.0, limit=3000, seed=0)
    run = Federation(data, devices=5, seed=0, shield=Transport("colour", codes=30, questions=20)).play(Raw(), rounds=1)
    released = run.release(Split.TEST)
    assert 5 < len(np.unique(released, axis=0)) <= 30
    train = run.release(Split.TRAIN)
    y = data.y.codes
    head = LogisticRegression(max_iter=300).fit(train, y[data.rows(Split.TRAIN)])
    assert head.score(released, y[data.rows(Split.TEST)]) > 0.5
    assert torch.is_tensor(run.tensors["x"])
