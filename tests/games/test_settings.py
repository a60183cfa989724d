"""Settings of games: those that no loss reads are refused, all are documented, and no attribute is assumed."""

import inspect
import re
from dataclasses import dataclass, fields

import numpy as np
import pytest

from fedveil.core.errors import InputError
from fedveil.core.models import mlp
from fedveil.data import Attribute, AttributeData
from fedveil.federation import Federation, Krum, TrimmedMean, begin
from fedveil.games import (
    DPFE,
    SGD,
    TAPPFL,
    Adam,
    AdversarialTraining,
    Autoencoder,
    Curious,
    DataShape,
    FedAvg,
    Game,
    Hardened,
    Move,
    Player,
    Raw,
    Stage,
    Undefended,
)

ENGINES = pytest.mark.parametrize("engine", ["plain", "stacked"])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (2, 60))
    return AttributeData(
        rng.normal(size=(60, 4)).astype(np.float32),
        {"sex": Attribute("sex", codes[0], ("0", "1"))},
        np.array([0] * 40 + [1] * 10 + [2] * 10, dtype=np.int8),
        y=Attribute("y", codes[1], ("0", "1")),
    )


@ENGINES
@pytest.mark.parametrize("value", [1.0, [1.0] * 4])
def test_a_misspelt_setting_is_refused_with_the_right_spelling(data, engine, value):
    with pytest.raises(InputError, match=r"'strenght' is read by no loss of adversarial.*mean 'strength'") as fault:
        begin(Federation(data, 4, engine=engine, settings={"strenght": value}), AdversarialTraining("sex", width=2))
    assert "\n" not in str(fault.value)
    both = {"strength": value, "strenght": value}
    with pytest.raises(InputError, match="'strenght'"):
        begin(Federation(data, 4, engine=engine, settings=both), AdversarialTraining("sex", width=2))
    begin(Federation(data, 4, engine=engine, settings={"strength": value}), AdversarialTraining("sex", width=2)).play(1)


@pytest.mark.parametrize("game", [FedAvg(hidden=(3,)), Raw()])
def test_a_game_without_settings_takes_none(data, game):
    with pytest.raises(InputError, match=f"'strength' is read by no loss of {game.name}: there are none"):
        begin(Federation(data, 4, settings={"strength": 1.0}), game)


@dataclass(frozen=True)
class Late(Game):
    """Reads settings in its second stage, in its validation loss, and by other ways than by name."""

    way: str = "second stage"
    name = "late"

    def players(self, shape):
        return {"model": Player(lambda generator: mlp([4, 2], generator))}

    def stages(self, shape):
        common = {"shared": frozenset({"model"}), "reads": frozenset({"x"}), "rounds": 1}
        first = Stage((Move(("model",), self._plain),), name="first", **common)
        validation = self._weighted if self.way == "validation" else None
        loss = self._plain if self.way == "validation" else self._weighted
        return (first, Stage((Move(("model",), loss),), name="second", validation=validation, **common))

    def _plain(self, play):
        return play("model", play.x).square().sum(dim=-1)

    def _weighted(self, play):
        if self.way == "get":
            weight = play.settings.get("weight", 1.0)
        elif self.way == "all":
            weight = sum(play.settings.values())
        else:
            weight = play.setting("weight")
        return weight * self._plain(play)


@ENGINES
@pytest.mark.parametrize("way", ["second stage", "validation", "get", "all"])
def test_settings_count_as_read_wherever_and_however_they_are_read(data, engine, way):
    run = Federation(data, 4, engine=engine, settings={"weight": [0.1, 0.2, 0.3, 0.4]}).play(Late(way))
    assert len(run.history) == 2


def test_a_setting_that_is_needed_and_missing_is_asked_for(data):
    with pytest.raises(InputError, match="no setting 'weight': did you mean 'wieght'"):
        begin(Federation(data, 4, settings={"wieght": 1.0}), Late())


@pytest.mark.parametrize("game", [AdversarialTraining, TAPPFL, DPFE, Hardened, Curious])
def test_no_game_assumes_which_attribute_is_hidden(game):
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: '(attribute|secrets)'"):
        game()


GAMES = (FedAvg, Undefended, AdversarialTraining, Autoencoder, TAPPFL, DPFE, Hardened, Curious)


@pytest.mark.parametrize("part", [*GAMES, SGD, Adam, TrimmedMean, Krum, DataShape, Player, Move, Stage])
def test_every_setting_is_documented_by_its_class(part):
    documented = re.search(r"Attributes:\n(.*)", inspect.getdoc(part), re.DOTALL)[1]
    names = re.findall(r"^    (\w+): \S", documented, re.MULTILINE)
    assert sorted(names) == sorted(setting.name for setting in fields(part))
