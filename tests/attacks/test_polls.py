"""Attacks on a poll's answers: as strong as theory allows, never stronger, and certain where nothing is noised."""

import math

import numpy as np
import pytest

from fedveil.attacks.polls import attack_devices, attack_target, evidence
from fedveil.core.errors import InputError
from fedveil.shields.transport.columns import learn_columns
from fedveil.shields.transport.federated import People, Plan, learn_table
from fedveil.shields.transport.poll import Poll, Question, budget, gaussian_advantage
from fedveil.shields.transport.settings import MapSettings


def crowd(n=120, seed=0):
    rng = np.random.default_rng(seed)
    u = rng.integers(0, 2, n)
    return People(np.column_stack([rng.integers(0, 4, n) + u, rng.integers(0, 3, n)]).astype(float), u)


def poller(others, epsilon, **settings):
    columns = learn_columns(others.x, ["job", "town"], np.random.default_rng(0))
    recipe = MapSettings(codes=5, temperature=0.2)

    def hold(target, number):
        poll = Poll([others, target], budget(epsilon), np.random.default_rng(number), **settings)
        learn_table(poll, columns, 2, recipe, Plan(rounds=2, questions=6), np.random.default_rng(1))
        return poll

    return hold


def target(row=0):
    x = crowd(5, seed=9).x[[row]]
    return People(x, np.array([0])), People(x, np.array([1]))


def test_one_question_is_the_textbook_test():
    """A count by u with noise σ: worlds √2/σ apart, and the test's advantage is 2Φ(μ/2) − 1."""
    count = Question("u", lambda u: (np.eye(2)[u], np.ones((len(u), 1))), moved=math.sqrt(2), values=2)
    others = np.array([0, 1, 1, 0, 1])

    def hold(device, number):
        poll = Poll([others, device], 1.0, np.random.default_rng(number))
        poll.ask(count, 1.0)
        return poll

    figures = attack_target(hold, [others], (np.array([0]), np.array([1])), repetitions=4000)
    exact = gaussian_advantage(math.sqrt(2))
    assert figures.bound == pytest.approx(exact)
    assert figures.reached == pytest.approx(exact)
    assert figures.advantage.low < exact < figures.advantage.high
    assert figures.advantage.estimate == pytest.approx(exact, abs=0.05)


@pytest.mark.parametrize("epsilon", [2.0, 8.0])
def test_the_whole_fit_stays_below_its_bound(epsilon):
    """All answers of a fit, questions chosen by earlier answers: the test is real, and below the exact bound."""
    others = crowd()
    figures = attack_target(poller(others, epsilon), [others], target(), repetitions=200)
    assert figures.reached <= figures.bound
    assert figures.advantage.low <= figures.bound
    assert figures.advantage.high > figures.reached
    assert figures.advantage.estimate > (0.05 if epsilon == 2 else 0.3)


def test_exact_counts_give_the_target_away():
    """Without noise one poll is enough, in either world."""
    others = crowd()
    figures = attack_target(poller(others, math.inf), [others], target(1), repetitions=6)
    assert figures.advantage.estimate == figures.bound == figures.reached == 1.0
    poll = poller(others, math.inf)(target()[1], 0)
    assert evidence(poll, [others], target())[0] == math.inf


def devices(rng, count=40):
    people = crowd(count * 20, seed=3)
    order = np.argsort(people.u + rng.normal(0, 0.8, len(people.u)))
    return [People(people.x[part], people.u[part]) for part in np.array_split(order, count)]


def held(parts, epsilon, **settings):
    columns = learn_columns(np.vstack([part.x for part in parts]), ["job", "town"], np.random.default_rng(0))
    poll = Poll(parts, budget(epsilon), np.random.default_rng(5), **settings)
    learn_table(poll, columns, 2, MapSettings(codes=5), Plan(rounds=2, questions=6), np.random.default_rng(1))
    return poll


def test_a_server_reads_every_device_unless_noise_is_its_own():
    """Exact answers reveal a device's counts; shares of noise hide little; a device's own noise hides its majority."""
    parts = devices(np.random.default_rng(0))
    u = [part.u for part in parts]
    exact = attack_devices(held(parts, math.inf, listen=True), u)
    assert exact.accuracy.estimate == 1.0
    assert exact.error < 1e-6
    shares = attack_devices(held(parts, 2.0, listen=True), u)
    local = attack_devices(held(parts, 0.5, listen=True, local=True), u)
    assert shares.accuracy.estimate > 0.75 > local.accuracy.estimate
    assert exact.prior < 0.7
    assert local.error > shares.error > exact.error


def test_mistakes():
    """Refused: answers that name no device, the truth about other devices, and too few repetitions."""
    parts = devices(np.random.default_rng(0), 4)
    with pytest.raises(InputError, match="listen=True"):
        attack_devices(held(parts, math.inf), [part.u for part in parts])
    with pytest.raises(InputError, match="4 devices answered"):
        attack_devices(held(parts, math.inf, listen=True), [parts[0].u])
    with pytest.raises(InputError, match="repetitions"):
        attack_target(poller(crowd(), 2.0), [crowd()], target(), repetitions=1)
