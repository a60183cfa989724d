"""TAPPFL on devices that differ: their own λ and attribute, values that a batch lacks, several attributes."""

import math

import numpy as np
import pytest
import torch
from small_games import Dealt, make_data
from torch.nn.functional import cross_entropy

from fedveil.federation import Federation, begin
from fedveil.games import SGD, TAPPFL

ENGINES = pytest.mark.parametrize("engine", ["plain", "stacked"])


def _played(data, dealt, engine, game, **options):
    return begin(Federation(data, dealt, engine=engine, dtype="float64", device="cpu", **options), game).play(1)


@ENGINES
def test_every_device_plays_by_its_own_strength(engine):
    """What a device's own networks become in a round is what they become where everybody has its λ."""
    rows, game = np.arange(30), TAPPFL("sex", 0.5, width=3, local_epochs=2, batch_size=5, optimiser=SGD(0.1))
    dealt, data = Dealt(rows[:14], rows[14:]), make_data(30)
    mixed = _played(data, dealt, engine, game, settings={"strength": [0.0, 1.0]})
    alike = [_played(data, dealt, engine, game, settings={"strength": strength}) for strength in (0.0, 1.0)]
    for device in range(2):
        for player in ("privacy", "utility"):
            chosen, same, other = (
                run.local[player].get(np.array([device])) for run in (mixed, alike[device], alike[1 - device])
            )
            torch.testing.assert_close(chosen, same)
            assert not torch.equal(chosen, other)


@ENGINES
def test_every_device_hides_its_own_attribute(engine):
    """One whose chosen attribute is constant trains utility only, whatever it holds of the other."""
    sex = np.array([0] * 10 + [0, 1] * 22)
    race = np.array([0, 1, 2, 0, 1] * 10 + [0, 1, 2, 1])
    data, rows = make_data(30, sex=sex, race=race), np.arange(30)
    dealt, game = Dealt(rows[:10], rows[10:]), TAPPFL("own", 0.8, width=3, local_epochs=1, batch_size=5)
    chose_constant = _played(data, dealt, engine, game, own_attribute=["sex", "sex"])
    chose_other = _played(data, dealt, engine, game, own_attribute=["race", "sex"])
    assert chose_constant.utility_only == {"own": 1}
    assert chose_other.utility_only == {"own": 0}
    first = np.array([0])
    assert torch.equal(chose_constant.local["privacy"].get(first)[0], chose_constant.local["privacy"].start)
    assert not torch.equal(chose_other.local["privacy"].get(first)[0], chose_other.local["privacy"].start)


@ENGINES
@pytest.mark.parametrize("bound", ["ce", "club"])
@pytest.mark.parametrize("attribute", ["race", ("sex", "race")])
def test_a_value_that_no_batch_holds_does_no_harm(engine, bound, attribute):
    """Value 2 of race is on no device, and half the batches of three hold one value only."""
    race = np.array(([0] * 3 + [1] * 3 + [0, 1, 0]) * 6)
    data = make_data(30, race=np.append(race[:53], 2))
    game = TAPPFL(attribute, 0.7, bound, width=3, local_epochs=2, batch_size=3, optimiser=SGD(0.1))
    run = _played(data, 3, engine, game)
    assert all(math.isfinite(value) for value in run.history[0].losses.values())
    assert all(bool(state.isfinite().all()) for state in run.shared.values())
    assert run.utility_only == dict.fromkeys(game.attributes, 0)
    assert not torch.equal(run.shared["extractor"], begin(run.federation, game).shared["extractor"])


@ENGINES
def test_a_value_absent_from_a_batch_leaves_the_plain_cross_entropy(engine):
    race = np.array([0] * 9 + [1] + [0, 1, 2] * 14 + [0, 1])  # the only device's only batch lacks value 2
    data = make_data(30, race=race)
    game = TAPPFL("race", 1.0, width=3, local_epochs=1, batch_size=10, optimiser=SGD(1e-12))
    federation = Federation(data, Dealt(np.arange(10)), engine=engine, dtype="float64", device="cpu")
    run = begin(federation, game).play(1)
    modules = begin(federation, game).model().modules
    r = modules["extractor"](torch.from_numpy(data.x[:10]).double())
    expected = cross_entropy(modules["privacy"](r), torch.from_numpy(race[:10])).detach()
    assert run.history[0].losses["CE"] == pytest.approx(float(expected), rel=1e-6)
