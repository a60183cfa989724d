"""What cannot be played is refused in one line that says what, where, and what to do."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import nn

from fedveil.config.study import make_study
from fedveil.core.errors import InputError
from fedveil.core.models import mlp
from fedveil.data.partition import OneEach
from fedveil.federation import Federation, begin
from fedveil.federation.work import DivergedError
from fedveil.games import (
    SGD,
    Adam,
    AdversarialTraining,
    Autoencoder,
    FedAvg,
    Game,
    Move,
    Player,
    Stage,
    cross_entropy,
    squared_error,
)

ENGINES = pytest.mark.parametrize("engine", ["plain", "stacked"])


STUDY = {
    "name": "small",
    "data": {"source": "synthetic", "target": "y", "sensitive": ["u"]},
    "methods": [{"name": "none", "game": "undefended"}],
}


def refusal(make, kind=InputError):
    with pytest.raises(kind) as fault:
        make()
    assert "\n" not in str(fault.value)
    return str(fault.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"devices": 41}, "40 training records are too few for 41 devices"),
        ({"devices": 0}, "at least 1, got 0"),
        ({"fraction": 0.0}, r"(0, 1], got 0.0"),
        ({"fraction": -0.1}, r"(0, 1]"),
        ({"fraction": 1.01}, r"(0, 1]"),
        ({"fraction": float("nan")}, r"(0, 1]"),
        ({"unreliable": 1.0}, "below 1"),
        ({"unreliable": -0.1}, "below 1"),
        ({"engine": "stakced"}, "'stakced' is not known: choose stacked, plain or flower"),
        ({"dtype": "float16"}, "choose float32 or float64"),
        ({"batch_sizes": [1, 2]}, "batch_sizes: 2 values for 5 devices"),
        ({"batch_sizes": [1, 2, 3, 4, 0]}, "batch_sizes: every device needs at least 1"),
        ({"batch_sizes": np.zeros(5, int)}, "batch_sizes: every device needs at least 1"),
        ({"local_epochs": [1] * 6}, "local_epochs: 6 values for 5 devices"),
        ({"local_epochs": [0] * 5}, "local_epochs: every device needs at least 1"),
        ({"rate_scales": []}, "rate_scales: 0 values for 5 devices"),
        ({"rate_scales": [1, 1, float("nan"), 1, 1]}, "rate_scales: holds a value that is NaN"),
        ({"settings": {"strength": [1.0]}}, "'strength': 1 values for 5 devices"),
        ({"settings": {"strength": float("inf")}}, "'strength': holds a value that is NaN or infinite"),
        ({"own_attribute": ["sex"]}, "own_attribute: 1 values for 5 devices"),
        ({"own_attribute": ["sex"] * 4 + ["rase"]}, "did you mean 'race'"),
    ],
)
def test_impossible_federations_are_refused(make_data, options, message):
    assert message in refusal(lambda: Federation(make_data(), **({"devices": 5} | options)))


def test_numpy_numbers_are_accepted(make_data):
    federation = Federation(
        make_data(),
        np.int64(4),
        fraction=np.float32(0.5),
        batch_sizes=np.full(4, 3),
        rate_scales=np.ones(4),
        settings={"strength": np.float32(0.5)},
        own_attribute=np.array(["sex"] * 4),
    )
    assert len(begin(federation, AdversarialTraining("own", hidden=(3,), width=2)).play(1).history) == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FedAvg(batch_size=0).stages(None), "batch size 0"),
        (lambda: FedAvg(local_epochs=0).stages(None), "local epochs 0"),
        (lambda: Stage((), frozenset(), frozenset(), patience=2), "patience needs a validation loss"),
        (lambda: Move((), lambda play: play.x), "needs a player"),
        (lambda: Move(("a",), lambda play: play.x, repeat=0), "at least one repetition"),
        (lambda: SGD(0.0), "above 0"),
        (lambda: SGD(float("nan")), "above 0"),
        (lambda: SGD(float("inf")), "below 1e38"),
        (lambda: Adam(1e39), "below 1e38"),
        (lambda: SGD(momentum=1.0), "momentum"),
        (lambda: SGD(weight_decay=-1.0), "weight decay"),
        (lambda: Adam(beta1=1.0), "betas"),
        (lambda: Adam(epsilon=0.0), "epsilon"),
        (lambda: AdversarialTraining("sex", strength=-1.0), "strength must not be negative"),
    ],
)
def test_impossible_games_are_refused(make, message):
    assert message in refusal(make)


@ENGINES
def test_a_batch_size_of_zero_is_refused_before_anything_is_played(make_data, engine):
    federation = Federation(make_data(), 3, engine=engine)
    assert "batch size 0" in refusal(lambda: federation.play(FedAvg(batch_size=0), 1))


@ENGINES
@pytest.mark.parametrize(
    ("network", "expected_parts"),
    [
        (lambda: nn.Linear(7, 3), ["player 'model' cannot take inputs of shape", ", 4)", "7"]),
        (lambda: nn.Linear(4, 2), ["player 'model' turned", ", 4) into", ", 2)", "move 'model'"]),  # three classes
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.Flatten(0)), ["player 'model' turned", "labels of shape"]),
        (lambda: nn.Sequential(nn.Linear(4, 6), nn.Unflatten(1, (2, 3))), ["player 'model' turned", ", 2, 3))"]),
        (lambda: nn.Sequential(nn.ReLU()), ["player 'model'", "no weights"]),
    ],
)
def test_a_network_that_does_not_fit_the_loss_is_named_with_its_shapes(
    make_data, sizes, engine, network, expected_parts
):
    data = make_data()
    first_label_alone = replace(data, y=replace(data.y, codes=np.sort(data.y.codes)))
    for held in (data, first_label_alone):  # a class that appears late must be noticed, too
        federation = Federation(held, sizes((10, 10)), engine=engine)
        message = refusal(lambda federation=federation: begin(federation, FedAvg(network=lambda g: network())))
        assert all(part in message for part in expected_parts), message


@ENGINES
def test_a_network_that_does_not_fit_among_several_is_found(make_data, engine):
    game = AdversarialTraining("sex", encoder=lambda g: mlp([4, 5], g), width=6)
    message = refusal(lambda: begin(Federation(make_data(), 3, engine=engine), game))
    assert "player 'adversary' cannot take inputs of shape" in message
    assert "player 'encoder' turned" in message


@dataclass(frozen=True)
class CustomLoss(Game):
    """One player with a loss passed in by the test."""

    loss: object
    validation: object = None
    mover: str = "model"
    shared: frozenset = frozenset({"model"})
    reads: frozenset = frozenset({"x", "y"})
    optimiser: object = SGD(0.1)
    batch_size: int = 4
    name = "own"

    def players(self, shape):
        return {"model": Player(lambda g: mlp([4, 3], g), self.optimiser)}

    def stages(self, shape):
        return (
            Stage(
                (Move((self.mover,), self.loss),),
                self.shared,
                self.reads,
                validation=self.validation,
                batch_size=self.batch_size,
            ),
        )


def task(play):
    return cross_entropy(play("model", play.x), play.y)


@ENGINES
@pytest.mark.parametrize(
    ("game", "message"),
    [
        (CustomLoss(lambda play: task(play)[:, None]), "must return one value per record"),
        (CustomLoss(lambda play: squared_error(play("model", play.x), play.x)), "squared error"),
        (CustomLoss(lambda play: task(play) * play.setting("strenght")), "no setting 'strenght'"),
        (CustomLoss(lambda play: play("modell", play.x)), "no player 'modell'"),
        (CustomLoss(task, mover="modell"), "'modell', which is not a player"),
        (CustomLoss(task, shared=frozenset({"head"})), "'head', which is not a player"),
        (CustomLoss(lambda play: task(play) + torch.randn(3).sum()), "global random state"),
        (CustomLoss(task, validation=lambda play: task(play).mean()), "validation"),
        (CustomLoss(task, validation=lambda play: play.u("sex")), "validation"),
    ],
)
def test_impossible_losses_are_refused(make_data, engine, game, message):
    federation = Federation(make_data(), 3, engine=engine, settings={"strength": 1.0})
    assert message in refusal(lambda: begin(federation, game))


def test_a_loss_that_averages_over_devices_is_refused(make_data, sizes):
    federation = Federation(make_data(24), sizes((12, 12)))
    run = begin(federation, CustomLoss(lambda play: task(play).mean(dim=0)))  # meant for one device's batch alone
    before = run.shared["model"].clone()
    assert "one value per record or one per device" in refusal(lambda: run.play(1))
    assert torch.equal(run.shared["model"], before)


def test_validation_without_validation_records_is_refused_before_the_first_round(make_data):
    message = refusal(lambda: begin(Federation(make_data(held_out=0), 3), FedAvg(hidden=(3,))))
    assert "the data has none" in message


def test_a_game_with_a_task_needs_data_with_a_target(make_data):
    assert "no target" in refusal(lambda: begin(Federation(make_data().without_labels(), 3), FedAvg()))
    begin(Federation(make_data().without_labels(), 3), Autoencoder(hidden=(3,), width=2)).play(1)


def test_images_need_a_network_that_takes_them(make_data):
    data = make_data(features=(2, 6, 6))
    for game in (FedAvg(), Autoencoder(), AdversarialTraining("sex")):
        assert "give a network" in refusal(lambda game=game: begin(Federation(data, 3), game))
    assert "no attribute 'age'" in refusal(lambda: begin(Federation(make_data(), 3), AdversarialTraining("age")))


def test_a_game_without_a_number_of_rounds_is_refused(make_data):
    assert "states no number of rounds" in refusal(lambda: Federation(make_data(), 3).play(FedAvg(hidden=(3,))))


@ENGINES
def test_a_rate_too_high_is_refused_with_player_device_and_round(make_data, engine):
    scales = [1.0] * 5
    scales[3] = 1e35
    federation = Federation(make_data(), 5, engine=engine, rate_scales=scales)
    run = begin(federation, FedAvg(hidden=(3,), batch_size=4))
    before = run.shared["model"].clone()
    message = refusal(lambda: run.play(3), DivergedError)
    assert "round 1 refused" in message
    assert "player 'model'" in message
    assert "on device 3" in message
    assert torch.equal(run.shared["model"], before)
    assert not run.history
    assert run.progress.round == 0


@ENGINES
def test_a_weight_that_overflows_in_the_last_step_is_refused(make_data, engine):
    data = make_data()
    federation = Federation(replace(data, x=data.x * 100), OneEach(), engine=engine)  # one step: no loss comes after it
    run = begin(federation, FedAvg(hidden=(3,), optimiser=SGD(9e37)))
    message = refusal(lambda: run.play(1), DivergedError)
    assert "weights of player 'model' became infinite or NaN on device" in message


class Sick:
    """The task's loss, but device 2's logarithm of zero spoils round 3 until it is mended."""

    def __init__(self):
        self.sick = False

    def __call__(self, play):
        loss = task(play)
        if self.sick:
            loss = loss + torch.log((play.x[..., 0] < 50).to(loss.dtype))
        return loss


@ENGINES
@pytest.mark.parametrize("optimiser", [SGD(0.1), SGD(0.1, momentum=0.5), Adam(0.01)])
def test_the_run_goes_on_from_the_last_good_state(make_data, sizes, engine, optimiser):
    data = make_data(30)
    x = data.x.copy()
    x[25, 0] = 100  # on device 2
    data = replace(data, x=x)
    loss = Sick()
    game = CustomLoss(loss, optimiser=optimiser)
    run = begin(Federation(data, sizes((10, 10, 10)), engine=engine), game).play(2)
    before = run.shared["model"].clone()
    loss.sick = True
    message = refusal(lambda: run.play(5), DivergedError)
    assert "round 3 refused: the loss of player 'model' became -inf on device 2 at step" in message
    assert torch.equal(run.shared["model"], before)
    assert [record.round for record in run.history] == [1, 2]
    loss.sick = False
    run.play(5)
    undisturbed = begin(Federation(data, sizes((10, 10, 10)), engine=engine), game).play(5)
    assert torch.equal(run.shared["model"], undisturbed.shared["model"])
    assert run.history == undisturbed.history


@ENGINES
def test_a_refused_round_leaves_local_players_alone(make_data, engine):
    game = AdversarialTraining("sex", hidden=(3,), width=2, optimiser=Adam(0.01))
    federation = Federation(make_data(), 4, engine=engine, settings={"strength": [1.0, 1.0, 1.0, 1.0]})
    run = begin(federation, game).play(1)
    before = run.local["adversary"].get(np.arange(4))
    object.__setattr__(federation, "settings", {"strength": [1.0, 1.0, 1e300, 1.0]})
    message = refusal(lambda: run.play(2), DivergedError)
    assert "on device 2" in message
    assert "encoder" in message
    assert torch.equal(run.local["adversary"].get(np.arange(4)), before)


@ENGINES
def test_a_validation_loss_that_is_not_a_number_is_never_the_best(make_data, engine):
    calls = []

    def validation(play):
        calls.append(1)
        return task(play) + (float("nan") if len(calls) == 2 else 0)  # the first call is the rehearsal's

    run = begin(Federation(make_data(), 3, engine=engine), CustomLoss(task, validation=validation)).play(3)
    assert np.isnan(run.history[0].validation)
    assert run.progress.best_round in (2, 3)


def test_an_engine_of_another_package_plays_in_studies_only(make_data, third_party):
    third_party("fedveil.engines", "class Theirs: ...\n")
    federation = Federation(make_data(), 3, engine="theirs")
    assert "engine 'theirs' plays on its own machines" in refusal(lambda: federation.play(FedAvg(hidden=(3,)), 1))
    assert make_study({**STUDY, "federation": {"engine": "theirs"}}).federation.engine == "theirs"
    misspelt = refusal(lambda: make_study({**STUDY, "federation": {"engine": "thiers"}}))
    assert "federation.engine: 'thiers' is not allowed; it should be stacked, plain, flower or theirs" in misspelt
