"""A map learned in a federation is the map of all people at once; noise is bounded; few questions suffice."""

import math

import numpy as np
import pytest
import torch

from fedveil.core.errors import InputError
from fedveil.core.randomness import torch_generator
from fedveil.data import Attribute, AttributeData, Split
from fedveil.federation.records import prepare_shield
from fedveil.shields.transport import Transport
from fedveil.shields.transport.certifying import summed_chances
from fedveil.shields.transport.columns import learn_columns
from fedveil.shields.transport.federated import People, Plan, learn_table
from fedveil.shields.transport.poll import Poll, budget
from fedveil.shields.transport.settings import MapSettings

NAMES = ["job", "wage", "town", "age"]


def crowd(n, seed=0):
    """Job and wage reveal u; town and age do not."""
    rng = np.random.default_rng(seed)
    u = rng.integers(0, 2, n)
    job = np.where(rng.random(n) < 0.75, u, rng.integers(0, 3, n))
    wage = rng.normal(size=n).round(1) + u
    return People(np.column_stack([job, wage, rng.integers(0, 4, n), rng.integers(20, 60, n)]).astype(float), u)


def fitted(people, devices, epsilon=math.inf, keep=None, strength=1.0, **settings):
    columns = learn_columns(people.x, NAMES, np.random.default_rng(0))
    rows = np.array_split(np.random.default_rng(1).permutation(len(people.u)), devices)
    poll = Poll([People(people.x[part], people.u[part]) for part in rows], budget(epsilon), np.random.default_rng(2))
    recipe = MapSettings(keep=keep or {}, strength=strength, codes=16, temperature=0.2)
    learned, chart = learn_table(poll, columns, 2, recipe, Plan(**settings), np.random.default_rng(3))
    return learned, chart, poll


@pytest.mark.parametrize(("keep", "strength"), [({}, 1.0), ({"town": 1.0}, 0.9)])
def test_many_devices_learn_the_map_of_one(keep, strength):
    """Centres, potentials and pictures agree to 1e-9 however people are spread over devices; so do the codes drawn."""
    people = crowd(3000)
    single, chart, _ = fitted(people, 1, keep=keep, strength=strength)
    many, other, poll = fitted(people, 60, keep=keep, strength=strength)
    for name in ("centres", "b", "shown"):
        np.testing.assert_allclose(getattr(single, name), getattr(many, name), rtol=0, atol=1e-9)
    a, b = (c.move(people.x, people.u, torch_generator(0, "t")) for c in (chart, other))
    np.testing.assert_array_equal(a.codes, b.codes)
    assert poll.epsilon() == chart.epsilon == math.inf
    assert chart.releases == len(poll.heard) == 36 + bool(keep)


def variation(chart, people):
    moved = chart.move(people.x, people.u, torch_generator(0, "t"))
    seen = moved.strata * len(chart.centres) + moved.codes
    size = chart.strata.count * len(chart.centres)
    shares = [np.bincount(seen[people.u == v], minlength=size) / (people.u == v).sum() for v in (0, 1)]
    return np.abs(shares[0] - shares[1]).sum() / 2


def test_codes_stop_revealing_u_with_and_without_noise():
    """Held-out people's codes differ little; far less than codes that hide nothing; a smaller ε costs some of it."""
    people, fresh = crowd(12_000), crowd(12_000, seed=5)
    open_ = variation(fitted(people, 1, strength=0.0)[1], fresh)
    variations = {epsilon: variation(fitted(people, 1, epsilon)[1], fresh) for epsilon in (math.inf, 8.0, 2.0)}
    assert open_ > 0.35
    assert variations[math.inf] < 0.04
    assert variations[8.0] < 0.07
    assert variations[2.0] < 0.12
    _, chart, poll = fitted(people, 10, 2.0)
    assert 1.8 < chart.epsilon == poll.epsilon() <= 2.0


def test_no_person_moves_an_answer_farther_than_its_bound():
    """Add one person, or change one person's u: no answer to the same questions moves by more than its bound."""
    people = crowd(400)
    _, _, poll = fitted(people, 1, 8.0)
    for row in (0, 1, 17):
        alone = People(people.x[[row]], people.u[[row]])
        other = People(alone.x, 1 - alone.u)
        for heard in poll.heard:
            first, second = alone, other
            for step in poll.steps[: heard.step]:
                first, second = step(first), step(second)
            a, b = heard.question.answer(first), heard.question.answer(second)
            bound = heard.question.bound
            assert np.linalg.norm(a) <= bound * (1 + 1e-9)
            assert np.linalg.norm(a - b) <= heard.question.moved * bound * (1 + 1e-9), heard.question.about


def test_aligned_columns_are_refused():
    """A column that stays cannot be aligned within such a budget, and not all columns can stay."""
    with pytest.raises(InputError, match="'town' would be"):
        fitted(crowd(200), 1, keep={"town": 0.5}, strength=0.9)
    with pytest.raises(InputError, match="nothing to turn into codes"):
        fitted(crowd(200), 1, keep=dict.fromkeys(NAMES, 1.0), strength=0.9)
    assert torch.is_tensor(fitted(crowd(200), 3)[1].centres)


def test_a_device_with_nobody_answers_nothing():
    """It sends noise or zeros like any other; the map does not change."""
    people = crowd(500)
    columns = learn_columns(people.x, NAMES, np.random.default_rng(0))
    nobody = People(people.x[:0], people.u[:0])
    learned_b = []
    for devices in ([people], [nobody, people]):
        poll = Poll(devices, math.inf, np.random.default_rng(0))
        learned, _ = learn_table(poll, columns, 2, MapSettings(codes=6), Plan(questions=6), np.random.default_rng(3))
        learned_b.append(learned.b)
    np.testing.assert_allclose(learned_b[0], learned_b[1], atol=1e-9)


def test_the_shield_spends_what_it_may():
    """`epsilon` in the shield's settings: the counts spend at most that, and a certificate is available."""
    people = crowd(3000)
    split = np.repeat([0, 2], [2000, 1000]).astype(np.int8)
    u = Attribute("u", people.u, ("a", "b"))
    data = AttributeData(people.x.astype(np.float32), {"u": u}, split, columns=tuple(NAMES), name="crowd")
    shield = prepare_shield(Transport("u", codes=8, temperature=0.2, questions=20, epsilon=3.0), data, 0)
    assert 2.5 < shield.chart_.epsilon <= 3.0
    assert 0.5 < shield.certify(data, data.rows(Split.TEST), 0).bound < 0.65


@pytest.mark.parametrize("settings", [{"epsilon": math.inf}, {}, {"keep": {"wage": 0.0}, "strength": 0.9}])
def test_summed_chances_are_those_of_the_draw(settings):
    """What is certified is what is drawn, for both ways of fitting a table."""
    people = crowd(6000)
    u = Attribute("u", people.u, ("a", "b"))
    split = np.zeros(6000, dtype=np.int8)
    data = AttributeData(people.x.astype(np.float32), {"u": u}, split, columns=tuple(NAMES), name="crowd")
    chart = prepare_shield(Transport("u", codes=8, questions=10, temperature=0.2, **settings), data, 0).chart_
    sums = summed_chances(chart, people.x, people.u, 2, torch_generator(0, "a"))
    moved = chart.move(people.x, people.u, torch_generator(0, "a"))  # the same strata, codes drawn
    seen = moved.strata * len(chart.centres) + moved.codes
    drawn = np.array([np.bincount(seen[people.u == v], minlength=len(sums)) for v in (0, 1)]).T
    assert (np.abs(sums - drawn) < 5 * np.sqrt(sums) + 5).all()
    np.testing.assert_allclose(sums.sum(axis=0), np.bincount(people.u), rtol=1e-9)
