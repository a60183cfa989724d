"""Mingle changes records by a map that does not read u, hides as much as its budget allows, and keeps to it."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier

from fedveil.core.errors import InputError
from fedveil.data import Attribute, AttributeData, Split
from fedveil.federation.records import prepare_shield
from fedveil.shields import Context, Kind, Message, Mingle, ShieldError
from fedveil.shields.mingle import best_guess, fit_prototypes, plan


def people(n=6000, seed=0):
    """A table in which few people (wives) give u away by one column, and another column reveals a little."""
    rng = np.random.default_rng(seed)
    u = (rng.random(n) < 0.4).astype(np.int64)
    home = np.where(rng.random(n) < 0.5, 2, np.where(rng.random(n) < 0.9, u, 1 - u))
    work = np.where(rng.random(n) < 0.7, u, 1 - u)
    y = (rng.random(n) < 0.3 + 0.3 * (home == 2)).astype(np.int64)
    x = np.column_stack([np.eye(3)[home], np.eye(2)[work], rng.normal(size=(n, 4))]).astype(np.float32)
    columns = ("home",) * 3 + ("work",) * 2 + tuple("abcd")
    split = np.where(np.arange(n) < 0.5 * n, 0, np.where(np.arange(n) < 0.6 * n, 1, 2)).astype(np.int8)
    attributes = {"u": Attribute("u", u, ("m", "w"))}
    return AttributeData(x, attributes, split, y=Attribute("y", y, ("0", "1")), columns=columns, name="people")


def pictures(n=900, seed=0):
    """Small images with a bright corner for one value of u, and a bright side for one label."""
    rng = np.random.default_rng(seed)
    u, y = rng.integers(0, 2, n), rng.integers(0, 2, n)
    x = rng.normal(1.0, 0.1, size=(n, 1, 6, 6))
    x[:, 0, 0, 0] += u
    x[:, 0, :, 5] += y[:, None]
    split = np.where(np.arange(n) < 500, 0, np.where(np.arange(n) < 600, 1, 2)).astype(np.int8)
    attributes = {"u": Attribute("u", u, ("m", "w"))}
    return AttributeData(x.astype(np.float32), attributes, split, y=Attribute("y", y, ("0", "1")), name="pictures")


def shown(shield, data, rows, seed=0, u=None):
    device_data = {"x": torch.tensor(data.x[rows]), "y": torch.tensor(data.y.codes[rows])}
    device_data["u:u"] = torch.tensor(data.attribute("u").codes[rows] if u is None else u)
    context = Context(0, 1, torch.Generator().manual_seed(seed), data=device_data)
    return shield.apply(Message(Kind.INPUT, torch.tensor(data.x[rows])), context)[0].values.numpy()


def relative(true, released):
    true, released = true.reshape(len(true), -1), released.reshape(len(released), -1)
    return (np.linalg.norm(released - true, axis=1) / np.sqrt((true**2).sum(axis=1) + 1)).mean()


def retrained(x, data):
    """Return the balanced accuracy of boosting trained on what training people show, on what test people show."""
    train, test = data.rows(Split.TRAIN), data.rows(Split.TEST)
    u, y = data.attribute("u").codes, data.y.codes
    columns = np.column_stack([x.reshape(len(x), -1), y])
    model = HistGradientBoostingClassifier(max_iter=60, class_weight="balanced", random_state=0)
    guess = model.fit(columns[train], u[train]).predict(columns[test])
    return np.mean([(guess[u[test] == value] == value).mean() for value in (0, 1)])


@pytest.fixture(scope="module")
def table():
    data = people()
    return data, prepare_shield(Mingle("u", 0.1), data, 0)


def test_a_plan_equals_a_small_case_by_hand():
    # 80% of value 0 and 30% of value 1 are in the first cell; moving a share k of it over leaves |0.5 − 0.5k| / 2.
    shares = np.array([[[0.8, 0.2]], [[0.3, 0.7]]])
    people_ = np.array([[0.55, 0.45]])
    cost = (1.0 - np.eye(2))[None]
    planned = plan(shares, people_, cost, np.zeros(2, bool), 0.09)
    assert planned.before == pytest.approx(0.75)
    # Each unit of cost takes 0.5 / p(cell) of the total variation away: the rarer cell is the better one to move.
    assert planned.after == pytest.approx(0.5 + (0.5 - 0.5 * 0.09 / 0.45) / 2)
    assert planned.spent == pytest.approx(0.09)
    assert planned.chances.sum(axis=2) == pytest.approx(1.0)
    free = plan(shares, people_, cost, np.zeros(2, bool), 10.0)
    assert free.after == pytest.approx(0.5)
    assert free.spent == pytest.approx(0.45)  # no more than is needed


def test_no_other_chances_within_the_budget_reveal_less():
    rng = np.random.default_rng(0)
    shares = rng.dirichlet(np.ones(8), size=3).reshape(3, 2, 4)
    people_ = shares.mean(axis=0)
    cost = rng.random((2, 4, 4))
    cost[:, np.arange(4), np.arange(4)] = 0
    planned = plan(shares, people_, cost, np.zeros(4, bool), 0.1)
    for _ in range(300):
        other = rng.dirichlet(np.full(4, 0.3), size=(2, 4))
        price = (people_[:, :, None] * other * cost).sum()
        share = min(1.0, 0.1 / price)
        mixed = share * other + (1 - share) * np.eye(4)
        assert best_guess(shares, mixed, np.zeros(4, bool)) >= planned.after - 1e-9


def test_revealing_outputs_count_as_giving_u_away():
    shares = np.array([[[0.5, 0.5]], [[0.5, 0.5]]])
    revealing = np.array([True, True, False])
    cost = np.array([[[0.0, np.inf, 1.0], [np.inf, 0.0, 2.0]]])
    planned = plan(shares, np.array([[0.5, 0.5]]), cost, revealing, 0.25)
    assert planned.before == 1.0
    assert planned.after == pytest.approx(0.875)  # half of the cheaper cell, a quarter of all, shows the same
    assert planned.chances[0, 1, 1] == 1.0


def test_the_map_does_not_read_u(table):
    data, shield = table
    rows = data.rows(Split.TEST)
    codes = data.attribute("u").codes[rows]
    assert np.array_equal(shown(shield, data, rows), shown(shield, data, rows, u=1 - codes))
    without = Context(0, 1, torch.Generator().manual_seed(0), data={"y": torch.tensor(data.y.codes[rows])})
    released = shield.apply(Message(Kind.INPUT, torch.tensor(data.x[rows])), without)[0].values.numpy()
    assert np.array_equal(shown(shield, data, rows), released)


def test_the_budget_is_kept_by_people_not_fitted_on(table):
    data, shield = table
    rows = data.rows(Split.TEST)
    change = relative(data.x[rows], shown(shield, data, rows))
    assert 0 < change < 0.11
    assert shield.spent_ <= 0.105
    images = pictures()
    averaged = prepare_shield(Mingle("u", 0.05), images, 0)
    held = images.rows(Split.TEST)
    assert relative(images.x[held], shown(averaged, images, held)) == pytest.approx(0.05, abs=0.01)


def test_values_that_are_shown_are_values_that_people_have(table):
    data, shield = table
    released = shown(shield, data, data.rows(Split.TEST))
    assert set(np.unique(released[:, :3].sum(axis=1))) <= {0.0, 1.0}  # one value of a category, or none
    for column in range(5, 9):
        assert np.isin(released[:, column], [*data.x[:, column], 0.0]).all()


def test_a_retrained_attacker_reads_less_than_under_noise_of_the_same_norm(table):
    data, shield = table
    every = np.arange(len(data))
    released = shown(shield, data, every)
    change = relative(data.x, released)
    # The gradient of a fully connected layer is δ ⊗ (x, 1); noise of this norm, and the layer's recovered input:
    rng = np.random.default_rng(0)
    slopes = rng.normal(size=(len(data), 50))
    inputs = np.column_stack([data.x, np.ones(len(data))])
    updates = slopes[:, :, None] * inputs[:, None, :]
    size = np.sqrt((updates**2).sum(axis=(1, 2)))
    noise = rng.normal(size=updates.shape) * (change * size / np.sqrt(updates[0].size))[:, None, None]
    noised = updates + noise
    back = np.einsum("no,noi->ni", noised[:, :, -1], noised[:, :, :-1]) / (noised[:, :, -1] ** 2).sum(axis=1)[:, None]
    clean, noisy, ours = (retrained(x, data) for x in (data.x, back, released))
    assert noisy > clean - 0.03
    assert ours < noisy - 0.05


def test_averages_hide_a_share_of_people_whatever_an_observer_reads():
    data = pictures()
    train = data.rows(Split.TRAIN)
    x = data.x.reshape(len(data), -1).astype(np.float64)
    size = np.sqrt((x**2).sum(axis=1) + 1)
    y, u = data.y.codes, data.attribute("u").codes
    fitted = fit_prototypes(x[train], y[train], u[train], 0.05, 1, 5, size[train], 0)
    assert fitted.plan.before == pytest.approx(1.0)
    released = fitted.move(x, y, torch.Generator().manual_seed(0))
    assert retrained(released, data) < fitted.plan.after + 0.05
    assert fitted.plan.after < 0.85
    everyone = fit_prototypes(x[train], y[train], u[train], 10.0, 1, 5, size[train], 0)
    assert everyone.plan.after < 0.57  # what the label itself reveals


def test_images_of_a_label_show_that_label_average():
    data = pictures()
    shield = prepare_shield(Mingle("u", 5.0, averages=1), data, 0)
    rows = data.rows(Split.TEST)
    released = shown(shield, data, rows)
    train = data.rows(Split.TRAIN)
    for label in (0, 1):
        mean = data.x[train][data.y.codes[train] == label].mean(axis=0)
        assert np.abs(released[data.y.codes[rows] == label] - mean).max(axis=(1, 2, 3)).min() < 1e-5


@pytest.mark.parametrize("budget", [0, -1, float("nan"), float("inf"), "much", True])
def test_meaningless_budgets_are_refused(budget):
    with pytest.raises(InputError, match="budget"):
        Mingle("u", budget)


@pytest.mark.parametrize(
    "settings", [{"averages": -1}, {"bins": 0}, {"columns": "home"}, {"columns": [[]]}, {"columns": ["home"]}]
)
def test_meaningless_settings_are_refused(settings):
    with pytest.raises(InputError):
        Mingle("u", 0.1, **settings)


def test_misspelt_names_are_answered_with_those_that_exist(table):
    data, _ = table
    with pytest.raises(InputError, match="home"):
        prepare_shield(Mingle("u", 0.1, columns=[["hme"]]), data, 0)
    with pytest.raises(InputError, match="choose from: u"):
        prepare_shield(Mingle("v", 0.1), data, 0)


def test_it_fails_closed(table):
    data, shield = table
    rows = data.rows(Split.TEST)[:3]
    message = Message(Kind.INPUT, torch.tensor(data.x[rows]))
    generator = torch.Generator()
    with pytest.raises(ShieldError, match="label"):
        shield.apply(message, Context(0, 1, generator))
    with pytest.raises(ShieldError, match="label"):
        shield.apply(message, Context(0, 1, generator, data={"y": torch.tensor([0, 1, 7])}))
    with pytest.raises(ShieldError, match="not fitted"):
        Mingle("u", 0.1).apply(message, Context(0, 1, generator, data={"y": torch.tensor([0, 1, 1])}))


def test_one_value_of_u_is_refused():
    data = people()
    same = data.take(data.attribute("u").codes == 1)
    with pytest.raises(InputError, match="fewer than two values"):
        prepare_shield(Mingle("u", 0.1), same, 0)


def test_a_study_never_judges_a_model_on_records_that_were_changed_by_their_labels():
    import fedveil.data
    from fedveil.federation import Federation
    from fedveil.games import FedAvg

    data = fedveil.data.load("synthetic", target="y", sensitive="u", n=600, bits=0.5)
    run = Federation(data, devices=5, shield=Mingle("u", budget=3.0, averages=1)).play(FedAvg(), rounds=1)
    assert torch.equal(run.judged["x"], torch.from_numpy(data.x))
    assert not torch.equal(run.tensors["x"], run.judged["x"])
    bare = Federation(data, devices=5).play(FedAvg(), rounds=1)
    assert bare.judged is bare.tensors
