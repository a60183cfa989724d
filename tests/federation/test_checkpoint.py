"""The same seed gives the same bits, and so does a run that was saved, loaded and continued."""

import contextlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from saved_runs import federation, saved
from torch import nn

from fedveil.core.errors import InputError
from fedveil.core.models import mlp
from fedveil.data import Attribute
from fedveil.federation import Krum, Run, begin
from fedveil.games import SGD, Adam, AdversarialTraining, FedAvg, Game, Move, Player, Stage, cross_entropy
from fedveil.shields import Identity, Kind, Shield


@dataclass(frozen=True)
class TwoStages(Game):
    """A local reader, trained first together with the encoder, then against it."""

    name = "two stages"

    def players(self, shape):
        return {
            "encoder": Player(lambda g: mlp([4, 3], g, last=nn.Dropout(0.2)), SGD(0.3)),
            "reader": Player(lambda g: mlp([3, 2], g), Adam(0.05)),
        }

    def stages(self, shape):
        reads = frozenset({"x", "u:sex"})
        together, alone = Move(("encoder", "reader"), self._read), Move(("reader",), self._read)
        return (
            Stage((together,), frozenset({"encoder"}), reads, "first", rounds=3, validation=self._read, patience=2),
            Stage((alone, Move(("encoder",), self._hide)), frozenset({"encoder"}), reads, "second", rounds=3),
        )

    def _read(self, play):
        return cross_entropy(play("reader", play("encoder", play.x)), play.u("sex"))

    def _hide(self, play):
        return -self._read(play)

    def represent(self, play):
        return play("encoder", play.x)


GAMES = {
    "best round": FedAvg(hidden=(5,), optimiser=SGD(3.0), batch_size=8),
    "early stop": FedAvg(hidden=(5,), optimiser=SGD(3.0, momentum=0.9), batch_size=8, patience=2),
    "local players on Adam": AdversarialTraining("sex", hidden=(3,), width=2, optimiser=Adam(0.05)),
    "local players on momentum": AdversarialTraining("sex", hidden=(3,), width=2, optimiser=SGD(0.1, momentum=0.9)),
    "two stages": TwoStages(),
}


def same(run, other):
    assert run.shared.keys() == other.shared.keys()
    for name in run.shared:
        assert torch.equal(run.shared[name], other.shared[name]), name
    for name, player in run.local.items():
        devices = np.array(sorted(player.slot_of), dtype=np.int64)
        assert torch.equal(player.get(devices), other.local[name].get(devices)), name
    assert run.history == other.history
    assert run.progress == other.progress
    assert len(run.recorded) == len(other.recorded)
    for (round_, devices, updates), (round_2, devices_2, updates_2) in zip(run.recorded, other.recorded, strict=True):
        assert round_ == round_2
        np.testing.assert_array_equal(devices, devices_2)
        assert torch.equal(updates, updates_2)
    return True


@pytest.mark.parametrize("engine", ["plain", "stacked"])
@pytest.mark.parametrize("name", GAMES)
def test_the_same_seed_gives_the_same_bits_and_another_seed_others(make_data, engine, name):
    data = make_data()
    torch.manual_seed(1)
    first = begin(federation(data, engine=engine), GAMES[name]).play(3, record=[1, 2])
    torch.manual_seed(2)  # global state must not matter
    torch.rand(3)
    assert same(first, begin(federation(data, engine=engine), GAMES[name]).play(3, record=[1, 2]))
    other = begin(federation(data, engine=engine, seed=2), GAMES[name]).play(3)
    assert all(not torch.equal(first.shared[player], other.shared[player]) for player in first.shared)


@pytest.mark.parametrize("engine", ["plain", "stacked"])
def test_builders_that_ignore_the_generator_are_repeatable_too(make_data, engine):
    game = FedAvg(network=lambda g: nn.Linear(4, 3))
    state = torch.get_rng_state()
    first, second, other = (begin(federation(make_data(), engine=engine, seed=seed), game) for seed in (1, 1, 2))
    assert torch.equal(first.shared["model"], second.shared["model"])
    assert not torch.equal(first.shared["model"], other.shared["model"])
    assert torch.equal(state, torch.get_rng_state())


def test_sampling_does_not_depend_on_engine_game_or_history(make_data):
    plain, stacked = (federation(make_data(), engine=engine) for engine in ("plain", "stacked"))
    for number in (5, 1, 3):
        np.testing.assert_array_equal(plain.sample("main", number), stacked.sample("main", number))
    drawn = [federation(make_data(), unreliable=0, fraction=0.5).sample("main", n) for n in range(60)]
    assert all(len(np.unique(devices)) == 3 for devices in drawn)
    assert set(np.concatenate(drawn).tolist()) == set(range(6))


@pytest.mark.parametrize("engine", ["plain", "stacked"])
@pytest.mark.parametrize("name", GAMES)
@pytest.mark.parametrize("stop", [1, 2, 3, 4])
def test_a_saved_run_continues_to_the_last_bit(make_data, tmp_path, engine, name, stop):
    data = make_data()
    undisturbed = begin(federation(data, engine=engine), GAMES[name]).play(6, record=[1, 4])

    class PowerError(Exception):
        pass

    def fail(record):
        if len(run.history) == stop + 1:
            raise PowerError

    run = begin(federation(data, engine=engine), GAMES[name])
    with contextlib.suppress(PowerError):
        run.play(6, record=[1, 4], checkpoint=tmp_path / "run", callbacks=[fail])
    resumed = Run.load(tmp_path / "run", federation(data, engine=engine), GAMES[name])
    assert len(resumed.history) <= stop or name == "early stop"
    assert same(resumed.play(6, record=[1, 4], checkpoint=tmp_path / "run"), undisturbed)


@pytest.mark.parametrize("engine", ["plain", "stacked"])
@pytest.mark.parametrize("name", ["best round", "local players on Adam"])
def test_a_run_played_to_its_end_goes_on_as_if_it_had_not_ended(make_data, tmp_path, engine, name):
    data = make_data()
    undisturbed = begin(federation(data, engine=engine), GAMES[name]).play(8)
    paused = begin(federation(data, engine=engine), GAMES[name]).play(4)
    paused.save(tmp_path / "run")
    assert same(Run.load(tmp_path / "run", federation(data, engine=engine), GAMES[name]), paused)
    assert same(Run.load(tmp_path / "run", federation(data, engine=engine), GAMES[name]).play(8), undisturbed)
    assert same(paused.play(8), undisturbed)


def test_the_kept_round_is_the_best_one(make_data):
    run = begin(federation(make_data()), GAMES["best round"])
    seen = {}
    run.play(8, callbacks=[lambda record: seen.update({record.round: (record.validation, dict(run.shared))})])
    best = min(seen, key=lambda number: seen[number][0])
    assert best != 8, "choose another seed: the last round is the best"
    assert run.progress.best_round == best
    assert torch.equal(run.shared["model"], seen[best][1]["model"])


def test_patience_stops_early(make_data):
    run = begin(federation(make_data()), GAMES["early stop"]).play(50)
    assert len(run.history) < 50
    assert len(run.history) == run.progress.best_round + 2


def test_spilled_local_players_are_saved_and_loaded(make_data, tmp_path):
    game = GAMES["local players on Adam"]
    undisturbed = begin(federation(make_data()), game).play(4)
    begin(federation(make_data(), local_limit=0), game).play(2).save(tmp_path / "run")
    resumed = Run.load(tmp_path / "run", federation(make_data(), local_limit=0), game).play(4)
    assert resumed.local["adversary"].spilled
    assert same(resumed, undisturbed)


def refusal(folder, data, game=None, **options):
    with pytest.raises(InputError) as fault:
        Run.load(folder, federation(data, **options), game or FedAvg(hidden=(3,)))
    assert "\n" not in str(fault.value)
    return str(fault.value)


def test_a_missing_checkpoint_says_what_is_missing(make_data, tmp_path):
    assert "run.json is missing" in refusal(tmp_path / "nothing", make_data())
    folder = saved(make_data, tmp_path / "run")
    (folder / "state.safetensors").unlink()
    assert "state.safetensors is missing" in refusal(folder, make_data())


def cut(folder):
    file = folder / "state.safetensors"
    file.write_bytes(file.read_bytes()[:-7])


def edit(folder, change):
    facts = json.loads((folder / "run.json").read_text())
    change(facts)
    (folder / "run.json").write_text(json.dumps(facts))


def swap(folder, change):
    tensors = load_file(folder / "state.safetensors")
    change(tensors)
    save_file(tensors, folder / "state.safetensors")


DAMAGE = {
    "truncated tensors": cut,
    "no JSON": lambda folder: (folder / "run.json").write_text("{"),
    "not a run": lambda folder: (folder / "run.json").write_text("[]"),
    "binary JSON": lambda folder: (folder / "run.json").write_bytes(b"\xff\xfe\x00"),
    "no progress": lambda folder: edit(folder, lambda facts: facts.pop("progress")),
    "strange progress": lambda folder: edit(folder, lambda facts: facts["progress"].update(more=1)),
    "strange history": lambda folder: edit(folder, lambda facts: facts["progress"]["history"][0].pop("round")),
    "no format": lambda folder: edit(folder, lambda facts: facts.pop("format")),
    "no fingerprint": lambda folder: edit(folder, lambda facts: facts.pop("fingerprint")),
    "no local players": lambda folder: edit(folder, lambda facts: facts.pop("local")),
    "no weights": lambda folder: swap(folder, lambda tensors: tensors.pop("shared/model")),
    "weights of another length": lambda folder: swap(
        folder, lambda tensors: tensors.update({"shared/model": torch.zeros(2)})
    ),
    "weights that are not numbers": lambda folder: swap(
        folder, lambda tensors: tensors["shared/model"].fill_(float("nan"))
    ),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_checkpoint_is_refused_in_one_line(make_data, tmp_path, damage):
    folder = saved(make_data, tmp_path / "run")
    DAMAGE[damage](folder)
    assert "damaged" in refusal(folder, make_data())


def test_a_checkpoint_of_another_format_is_refused(make_data, tmp_path):
    folder = saved(make_data, tmp_path / "run")
    edit(folder, lambda facts: facts.update(format=99))
    assert "format 99" in refusal(folder, make_data())


class Halved(Shield):
    name = "identity in disguise"
    acts_on = frozenset({Kind.UPDATE})

    def __init__(self, factor=0.5):
        self.factor = factor

    def change(self, message, context):
        return message.with_values(message.values * self.factor)


FOREIGN = {
    "data": ({}, None, True),
    "seed": ({"seed": 9}, None, False),
    "engine": ({"engine": "plain"}, None, False),
    "fraction": ({"fraction": 1.0}, None, False),
    "partition": ({"devices": 5}, None, False),
    "unreliable": ({"unreliable": 0.0}, None, False),
    "aggregation": ({"aggregation": Krum()}, None, False),
    "settings": ({"settings": {"strength": 2.0}}, None, False),
    "own settings": ({"rate_scales": [0.5] * 6}, None, False),
    "shield": ({"shield": Halved()}, None, False),
    "dtype": ({"dtype": "float64"}, None, False),
    "game": ({}, FedAvg(hidden=(3,), optimiser=SGD(0.02)), False),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_checkpoint_of_another_run_is_refused_with_the_difference(make_data, tmp_path, what):
    options, game, other_data = FOREIGN[what]
    folder = saved(make_data, tmp_path / "run")
    message = refusal(folder, make_data(seed=5) if other_data else make_data(), game, **options)
    assert "belongs to another run" in message
    assert what.split()[-1] in message


def test_other_labels_or_another_strength_of_the_shield_make_another_run(make_data, tmp_path):
    data = make_data()
    folder = saved(make_data, tmp_path / "run")
    relabelled = replace(data, y=Attribute("y", (data.y.codes + 1) % 3, data.y.values))
    assert "data" in refusal(folder, relabelled)
    game = FedAvg(hidden=(3,))
    begin(federation(data, shield=Halved(0.5)), game).play(1).save(folder)
    Run.load(folder, federation(data, shield=Halved(0.5)), game)
    assert "shield" in refusal(folder, data, shield=Halved(0.25))
    assert "shield" in refusal(folder, data, shield=Identity())


ANOTHER_PROCESS = """
import sys
import numpy as np, torch
from torch import nn
from fedveil.data import Attribute, AttributeData
from fedveil.federation import Federation, Run, begin
from fedveil.games import FedAvg, Game

def build(g):
    return nn.Linear(2, 2)

class Mine(FedAvg):
    __repr__ = Game.__repr__

rng = np.random.default_rng(0)
codes = rng.integers(0, 2, 40)
data = AttributeData(rng.normal(size=(40, 2)).astype("f4"), {"u": Attribute("u", codes, ("0", "1"))},
                     np.array([0] * 30 + [1] * 10, dtype=np.int8), y=Attribute("y", codes[::-1], ("0", "1")))
games = [FedAvg(network=build), FedAvg(network=lambda g: nn.Linear(2, 2)), Mine(hidden=(3,))]
for i, game in enumerate(games):
    folder = f"{sys.argv[1]}/{i}"
    if sys.argv[2] == "save":
        padding = [object() for _ in range(1000)]
        begin(Federation(data, 3), game).play(2).save(folder)
    else:
        resumed = Run.load(folder, Federation(data, 3), game).play(4)
        assert torch.equal(resumed.shared["model"], begin(Federation(data, 3), game).play(4).shared["model"])
"""


class Bare(FedAvg):
    """A game whose repr is its memory address."""

    __repr__ = Game.__repr__


def builder():
    return lambda g: mlp([4, 3], g)


@pytest.mark.parametrize("make", [lambda: FedAvg(network=builder()), lambda: Bare(hidden=(3,))])
def test_functions_and_games_may_have_different_addresses_later(make_data, tmp_path, make):
    first, second = make(), make()
    assert repr(first) != repr(second)
    begin(federation(make_data()), first).play(2).save(tmp_path / "run")
    resumed = Run.load(tmp_path / "run", federation(make_data()), second).play(4)
    assert same(resumed, begin(federation(make_data()), first).play(4))
    if isinstance(first, Bare):
        assert "game" in refusal(tmp_path / "run", make_data(), Bare(hidden=(4,)))


@pytest.mark.slow
def test_another_process_continues_although_functions_have_different_addresses(tmp_path):
    for what in ("save", "load"):
        done = subprocess.run(
            [sys.executable, "-c", ANOTHER_PROCESS, str(tmp_path), what],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": "1" if what == "save" else "2"},
        )
        assert done.returncode == 0, done.stderr
