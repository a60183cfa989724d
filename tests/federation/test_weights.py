import subprocess
import sys

import numpy as np
import pytest
import torch

from fedveil.federation import Federation, begin
from fedveil.federation.weights import LocalPlayer
from fedveil.games import Adam, AdversarialTraining


def test_stored_states_are_read_back_and_all_others_are_the_start():
    player = LocalPlayer(torch.arange(3.0), limit=10**9)
    player.put(np.array([7, 2]), torch.tensor([[1.0, 1, 1], [2, 2, 2]]))
    player.put(np.array([2]), torch.tensor([[3.0, 3, 3]]))
    expected = torch.tensor([[3.0, 3, 3], [0, 1, 2], [1, 1, 1]])
    assert torch.equal(player.get(np.array([2, 1_000_000, 7])), expected)
    got = player.get(np.array([2]))
    got += 1
    assert torch.equal(player.get(np.array([2])), expected[:1])
    assert player.spilled == 0


def test_beyond_the_limit_states_are_kept_in_files_deleted_with_the_player():
    numbers = np.arange(200)
    states = torch.randn(200, 10, generator=torch.Generator().manual_seed(0))
    player = LocalPlayer(torch.zeros(10), limit=64 * 10 * 4)
    player.put(numbers, states)
    assert player.spilled == 3
    assert len(player.blocks) == 4
    assert torch.equal(player.get(numbers[::-1].copy()), states.flip(0))
    folder = player._folder
    assert folder.exists()
    del player
    assert not folder.exists()


@pytest.mark.parametrize("engine", ["plain", "stacked"])
def test_a_run_that_spills_is_the_same_run(make_data, gap, engine):
    game = AdversarialTraining("sex", hidden=(3,), width=2, adversary_hidden=(3,), optimiser=Adam(0.01))
    runs = [
        begin(Federation(make_data(80), 80, fraction=0.5, engine=engine, local_limit=limit), game).play(4)
        for limit in (2**31, 0)
    ]
    assert runs[0].local["adversary"].spilled == 0
    assert runs[1].local["adversary"].spilled > 0
    assert gap(*runs) == 0


def test_local_players_differ_between_devices_and_persist(make_data):
    game = AdversarialTraining("sex", hidden=(3,), width=2, adversary_hidden=(3,))
    run = begin(Federation(make_data(), 4), game).play(1)
    first = run.local["adversary"].get(np.arange(4))
    assert len(first.unique(dim=0)) == 4
    start = run.shared["adversary"]
    run.play(2)
    second = run.local["adversary"].get(np.arange(4))
    moved = (second - first)[:, : len(start)].norm(dim=1)
    assert (moved > 0).all()
    assert torch.equal(run.shared["adversary"], start)  # it never leaves its device


MILLION = """
import resource
import numpy as np
from fedveil.data import Attribute, AttributeData
from fedveil.federation import Federation, Run, begin
from fedveil.games import FedAvg
n = 1_000_000
rng = np.random.default_rng(0)
codes = rng.integers(0, 2, n)
split = np.zeros(n, dtype=np.int8)
x = rng.normal(size=(n, 20)).astype(np.float32)
data = AttributeData(x, {"sex": Attribute("sex", codes, ("f", "m"))}, split, y=Attribute("y", 1 - codes, ("0", "1")))
from dataclasses import replace
class Plain(FedAvg):
    def stages(self, shape):
        return tuple(replace(stage, validation=None) for stage in super().stages(shape))
run = begin(Federation(data, n, fraction=1e-4), Plain(hidden=(64,))).play(3)
assert [record.devices for record in run.history] == [100] * 3
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_a_million_registered_devices_stay_below_two_gigabytes():
    done = subprocess.run([sys.executable, "-c", MILLION], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 2048
