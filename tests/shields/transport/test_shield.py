"""The transport shield: what it shows does not depend on u, and without u it shows nothing."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import balanced_accuracy_score

from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.data import Attribute, AttributeData, Split, load
from fedveil.data.encoding import encode_table
from fedveil.federation import Federation
from fedveil.federation.records import prepare_shield
from fedveil.games import Raw
from fedveil.shields import Context, Kind, Message, ShieldError
from fedveil.shields.transport import Transport


def people(n=9000, seed=0, missing=0, values=2):
    """Job reveals u, wage depends on job and on a talent independent of u, town is uninformative."""
    rng = np.random.default_rng(seed)
    u = rng.integers(0, values, n)
    talent = rng.normal(size=n)
    frame = pd.DataFrame(
        {
            "job": np.where(rng.random(n) < 0.8, u, rng.integers(0, values, n)).astype(str),
            "talent": talent.round(2),
            "wage": (talent + 1.0 * u + 0.3 * rng.normal(size=n)).round(2),
            "town": rng.choice(list("abcd"), n),
        }
    )
    split = np.where(np.arange(n) < 0.6 * n, 0, np.where(np.arange(n) < 0.7 * n, 1, 2)).astype(np.int8)
    encoded = encode_table(frame, train=split == 0)
    codes = u.copy()
    codes[n - missing :] = -1
    return AttributeData(
        encoded.x,
        {"u": Attribute("u", codes, tuple("abc"[:values])), "z": Attribute("z", rng.integers(0, 2, n), ("0", "1"))},
        split,
        y=Attribute("y", (talent > 0).astype(np.int64), ("0", "1")),
        feature_names=encoded.names,
        columns=encoded.columns,
        name="people",
    )


def shown(shield, data, rows, seed=0):
    context = Context(
        0,
        0,
        torch_generator(seed, "test"),
        {f"u:{n}": torch.from_numpy(a.codes[rows]) for n, a in data.attributes.items()},
    )
    return shield.apply(Message(Kind.INPUT, torch.from_numpy(data.x[rows])), context)[0].values.numpy()


def learnt(shown_train, labels, shown_test, truth):
    model = HistGradientBoostingClassifier(max_iter=60, class_weight="balanced", random_state=0)
    return balanced_accuracy_score(truth, model.fit(shown_train, labels).predict(shown_test))


@pytest.fixture(scope="module")
def table():
    return people()


@pytest.mark.parametrize("keep", [{}, {"talent": 0.0}])
def test_an_attacker_learns_nothing_and_a_task_still_learns_much(table, keep):
    """Raw, u is read from job and wage; transported, not; talent, which nobody named, can still be read."""
    train, test = table.rows(Split.TRAIN), table.rows(Split.TEST)
    u, y = table.attribute("u").codes, table.y.codes
    shield = prepare_shield(Transport("u", keep=keep, codes=60), table, 0)
    a, b = shown(shield, table, train), shown(shield, table, test)
    assert learnt(table.x[train], u[train], table.x[test], u[test]) > 0.85
    assert learnt(a, u[train], b, u[test]) < 0.54
    assert learnt(a, y[train], b, y[test]) > 0.8


def test_strength_is_a_frontier(table):
    """The stronger, the less an attacker reads; at 0 only the coding hides anything."""
    train, test = table.rows(Split.TRAIN), table.rows(Split.TEST)
    u = table.attribute("u").codes
    accuracies = []
    for strength in (0.0, 0.6, 1.0):
        shield = prepare_shield(Transport("u", strength=strength, codes=60), table, 0)
        accuracies.append(learnt(shown(shield, table, train), u[train], shown(shield, table, test), u[test]))
    assert accuracies[0] > 0.8 > accuracies[1] > 0.6 > 0.54 > accuracies[2]


def test_certificate_counts_people_the_map_was_not_fitted_on(table):
    """With nothing kept the certificate is about all that is shown; unprotected codes are not certified low."""
    rows = table.rows(Split.TEST)
    strong, weak = (
        prepare_shield(Transport("u", strength=s, codes=16), table, 0).certify(table, rows, 0) for s in (1.0, 0.0)
    )
    assert strong.bound < 0.58 < 0.7 < weak.bound
    kept = prepare_shield(Transport("u", keep={"talent": 1.0}, codes=16), table, 0).certify(table, rows, 0)
    assert any("talent" in what for what in kept.does_not_cover)


def test_several_attributes_and_values_are_hidden_together():
    """Three values crossed with two: each pair is a value."""
    table = people(values=3)
    train, test = table.rows(Split.TRAIN), table.rows(Split.TEST)
    shield = prepare_shield(Transport(["u", "z"], codes=30), table, 0)
    assert shield.hidden_.count == 6
    a, b = shown(shield, table, train), shown(shield, table, test)
    u = table.attribute("u").codes
    assert learnt(a, u[train], b, u[test]) < 1 / 3 + 0.05


def test_task_labels_are_not_read(table):
    """Another y, the same map."""
    other = people()
    other.y.codes[:] = 0
    rows = table.rows(Split.TEST)
    first, second = (shown(prepare_shield(Transport("u", codes=20), data, 3), table, rows) for data in (table, other))
    np.testing.assert_array_equal(first, second)


def test_it_is_deterministic_and_randomness_is_the_devices(table):
    """Same seeds, same records; another device's generator draws differently."""
    rows = table.rows(Split.TEST)
    first, second = (prepare_shield(Transport("u", keep={"talent": 0.0}, codes=20), table, 1) for _ in range(2))
    np.testing.assert_array_equal(shown(first, table, rows), shown(second, table, rows))
    assert (shown(first, table, rows) != shown(first, table, rows, seed=1)).any()


def test_it_fails_closed():
    """A record without u, or with a value of u that nobody had, is not shown; without any u there is no map."""
    table = people(2000, missing=5)
    shield = prepare_shield(Transport("u", codes=10), table, 0)
    with pytest.raises(ShieldError, match="a record has no u"):
        shown(shield, table, table.rows(Split.TEST))
    with pytest.raises(ShieldError, match="does not know 'u'"):
        shield.apply(Message(Kind.INPUT, torch.zeros(2, table.x.shape[1])), Context(0, 0, torch_generator(0, "t")))
    with pytest.raises(ShieldError, match="not fitted"):
        shown(Transport("u"), table, table.rows(Split.TRAIN))
    rare = table.attribute("u").codes.copy()
    rare[table.rows(Split.TRAIN)] = 0
    lacking = AttributeData(
        table.x, {"u": Attribute("u", rare, ("a", "b"))}, table.split, columns=table.columns, name="people"
    )
    with pytest.raises(ShieldError, match="no training record had"):
        shown(prepare_shield(Transport("u", codes=5), lacking, 0), lacking, lacking.rows(Split.VALIDATION))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"strength": 1.2}, "strength"),
        ({"strength": float("nan")}, "strength"),
        ({"keep": {"job": 2.0}}, "keep of 'job'"),
        ({"codes": 0}, "codes"),
        ({"noise": -1.0}, "noise"),
        ({"temperature": 0.0}, "temperature"),
        ({"attribute": []}, "name at least one attribute"),
    ],
)
def test_mistakes_in_settings(settings, message):
    """Each is refused in one line."""
    with pytest.raises(InputError, match=message):
        Transport(**{"attribute": "u", **settings})


def test_unknown_column(table):
    """The nearest name is offered."""
    with pytest.raises(InputError, match="town"):
        prepare_shield(Transport("u", keep={"tow": 0.0}), table, 0)


def test_noise_on_counts_is_accounted_for_and_still_hides(table):
    """ε is finite with noise and infinite without."""
    train, test = table.rows(Split.TRAIN), table.rows(Split.TEST)
    u = table.attribute("u").codes
    shield = prepare_shield(Transport("u", codes=20, noise=10.0), table, 0)
    assert 0 < shield.chart_.epsilon < float("inf")
    assert prepare_shield(Transport("u", codes=20), table, 0).chart_.epsilon == float("inf")
    assert learnt(shown(shield, table, train), u[train], shown(shield, table, test), u[test]) < 0.62


def test_a_run_uses_it(table):
    """Registered by name; in a federation nothing but what it shows is seen."""
    assert plugins.registered("fedveil.shields")["transport"]
    run = Federation(table, devices=5, seed=0, shield=Transport("u", codes=20)).play(Raw(), rounds=1)
    released = run.release(Split.TEST)
    assert len(np.unique(released, axis=0)) <= 20


def test_adult_beats_the_raw_table_at_little_cost(published):
    """Loosely: at strength .9 income stays above .84 and sex falls from .8 to below .57."""
    published("adult")
    data = load("adult", target="income", sensitive="sex", seed=0)
    train, test = data.rows(Split.TRAIN), data.rows(Split.TEST)
    u, y = data.attribute("sex").codes, data.y.codes
    keep = {"education": 0.0, "capital-loss": 0.9, "capital-gain": 0.9}
    shield = prepare_shield(Transport("sex", keep=keep, strength=0.9, codes=150, questions=40), data, 0)
    context = {"u:sex": torch.from_numpy(u)}
    message = Message(Kind.INPUT, torch.from_numpy(data.x))
    r = shield.apply(message, Context(0, 0, torch_generator(0, "test"), context))[0].values.numpy()
    head = HistGradientBoostingClassifier(max_iter=80, random_state=0).fit(r[train], y[train])
    assert head.score(r[test], y[test]) > 0.84
    assert learnt(r[train], u[train], r[test], u[test]) < 0.57


def test_training_people_and_groups_certify_nothing(table):
    """The map balances the people it was fitted on; records of one group are not independent."""
    shield = prepare_shield(Transport("u", codes=20), table, 0)
    with pytest.raises(InputError, match="cannot certify it; give rows of other people"):
        shield.certify(table, table.rows(Split.TRAIN)[:500], 0)
    grouped = replace(table, groups=np.arange(len(table)) // 2)
    with pytest.raises(InputError, match="come in groups"):
        shield.certify(grouped, table.rows(Split.TEST), 0)
    assert shield.certificates_on(grouped, table.rows(Split.TEST), "u", 0) == ()
    women = table.rows(Split.TEST)[table.attribute("u").codes[table.rows(Split.TEST)] == 0]
    assert shield.certificates_on(table, women, "u", 0) == ()
