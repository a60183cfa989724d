"""What losses draw is the same on both engines, alone and stacked, padded or not, and after a resume."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fedveil.core.errors import InputError
from fedveil.core.models import mlp
from fedveil.federation import Federation, Run, begin
from fedveil.federation.counted_random import Dice
from fedveil.federation.work import work_of
from fedveil.games import SGD, Game, Move, Player, Stage, squared_error
from fedveil.games.play import partners, permutation, pick


@dataclass(frozen=True)
class Noisy(Game):
    """Draws of every kind, in two moves, one of them repeated, and in the validation loss."""

    batch_size: int = 3
    local_epochs: int = 2
    validates: bool = False
    name = "noisy"

    def players(self, shape):
        return {
            "encoder": Player(lambda g: mlp([4, 3], g), SGD(0.1)),
            "critic": Player(lambda g: mlp([7, 3, 1], g), SGD(0.1)),
        }

    def stages(self, shape):
        return (
            Stage(
                (Move(("critic",), self._tell, repeat=2), Move(("encoder",), self._spread)),
                shared=frozenset({"encoder"}),
                reads=frozenset({"x", "u:race"}),
                batch_size=self.batch_size,
                local_epochs=self.local_epochs,
                validation=self._spread if self.validates else None,
            ),
        )

    def _tell(self, play):
        r = play("encoder", play.x).detach()
        partner_index, exists = play.partners(play.u("race"))
        shuffled = play.pick(play.x, play.permutation())
        true = play("critic", torch.cat([play.x, r], dim=-1)).squeeze(-1)
        false = play("critic", torch.cat([play.pick(play.x, partner_index), r], dim=-1)).squeeze(-1)
        other = play("critic", torch.cat([shuffled, r], dim=-1)).squeeze(-1)
        return true + exists * false.square() + other.square()

    def _spread(self, play):
        r = play("encoder", play.x) + 0.3 * play.noise(3)
        return squared_error(r, play.uniform(3)) + play.uniform() * play("critic", torch.cat([play.x, r], -1))[..., 0]

    def represent(self, play):
        return play("encoder", play.x)


class Leaking(Noisy):
    def represent(self, play):
        return play("encoder", play.x) + play.noise(3)


@settings(max_examples=15)
@given(
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    batch_size=st.sampled_from([1, 2, 3, 500]),
    seed=st.integers(0, 2**32 - 1),
    validates=st.booleans(),
)
def test_both_engines_draw_the_same(make_data, play_both, gap, sizes, lengths, batch_size, seed, validates):
    data = make_data(sum(lengths))
    game = Noisy(batch_size, validates=validates)
    assert gap(*play_both(data, game, 2, devices=sizes(tuple(lengths)), seed=seed)) < 1e-9


@pytest.mark.parametrize("engine", ["plain", "stacked"])
def test_a_resumed_run_draws_what_the_whole_run_draws(make_data, tmp_path, gap, engine):
    federation = Federation(make_data(), 4, engine=engine, fraction=0.5)
    whole = begin(federation, Noisy(validates=True)).play(4)
    begin(federation, Noisy(validates=True)).play(2).save(tmp_path)
    assert gap(whole, Run.load(tmp_path, federation, Noisy(validates=True)).play(4)) == 0


def test_rounds_steps_devices_and_seeds_draw_different_numbers(make_data):
    run = begin(Federation(make_data(), 4), Noisy())
    works = [work_of(run, run.stages[0], number, np.arange(4)) for number in (1, 2)]
    seeds = torch.cat([*(work.loss_seeds() for work in works), works[0].dropout_seeds()])
    assert len(seeds.unique()) == 12
    dice = Dice(works[0].loss_seeds)
    drawn = []
    for step in (0, 1):
        dice.turn(step, torch.Size([4, 5]))
        drawn += [dice(()), dice(())]
    assert len(torch.stack(drawn).unique()) == 4 * 4 * 5


def test_noise_is_normal_and_finite(make_data):
    seen = []

    class Looking(Noisy):
        def _spread(self, play):
            seen.append(play.noise(50))
            return super()._spread(play)

    begin(Federation(make_data(40), 4), Looking(10)).play(5)
    drawn = torch.cat([part.flatten() for part in seen[1:]]).numpy()
    assert drawn.dtype == np.float32
    assert stats.kstest(drawn, "norm").pvalue > 1e-3


def test_a_release_cannot_draw(make_data):
    run = begin(Federation(make_data(), 4), Leaking()).play(1)
    with pytest.raises(InputError, match="nothing random can be drawn here"):
        run.model().of_x(run.game.represent, run.tensors["x"], np.arange(5))


def _uniform(*shape, seed=0):
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=60)
@given(
    codes=st.lists(st.lists(st.integers(-1, 3), min_size=1, max_size=12), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
)
def test_partners_share_the_code_and_padding_changes_nothing(codes, seed):
    widest = max(map(len, codes))
    uniform = _uniform(len(codes), widest, seed=seed)
    padded = torch.tensor([device_codes + [device_codes[0]] * (widest - len(device_codes)) for device_codes in codes])
    weights = torch.tensor([[1.0] * len(device_codes) + [0.0] * (widest - len(device_codes)) for device_codes in codes])
    partner_index, exists = partners(uniform, padded, weights)
    shuffled = permutation(uniform, weights)
    for device, device_codes in enumerate(codes):
        n = len(device_codes)
        alone, has_partner = partners(uniform[device, :n], torch.tensor(device_codes), None)
        assert torch.equal(partner_index[device, :n], alone)
        assert torch.equal(exists[device, :n], has_partner)
        assert not exists[device, n:].any()
        assert has_partner.tolist() == [code >= 0 and device_codes.count(code) > 1 for code in device_codes]
        for record, partner in enumerate(alone.tolist()):
            assert device_codes[partner] == device_codes[record]
            assert (partner != record) == bool(has_partner[record])
        assert sorted(alone.tolist()) == list(range(n))  # each is the partner of exactly one
        assert torch.equal(shuffled[device, :n], permutation(uniform[device, :n], None))
        assert sorted(shuffled[device, :n].tolist()) == list(range(n))


def test_partners_and_permutations_are_drawn_evenly():
    uniform = _uniform(20_000, 4)
    partner_index, exists = partners(uniform, None, None)
    assert bool(exists.all())
    counts = torch.stack([(partner_index == position).sum(dim=0) for position in range(4)])
    assert (counts.diagonal() == 0).all()
    off = counts[~torch.eye(4, dtype=torch.bool)].numpy() / 20_000
    assert np.abs(off - 1 / 3).max() < 0.015
    first = torch.bincount(permutation(uniform, None)[:, 0]).numpy() / 20_000
    assert np.abs(first - 1 / 4).max() < 0.015


def test_pick_takes_values_of_any_shape():
    index = torch.tensor([[1, 0, 2], [2, 2, 0]])
    for behind in ((), (4,), (2, 5)):
        values = _uniform(2, 3, *behind)
        picked = pick(values, index)
        for device in range(2):
            assert torch.equal(picked[device], values[device][index[device]])
            assert torch.equal(picked[device], pick(values[device], index[device]))
