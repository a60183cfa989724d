import numpy as np
import pytest
import torch
from torch import nn

from fedveil.core import plugins
from fedveil.core.errors import InputError
from fedveil.core.models import mlp
from fedveil.data import Attribute, AttributeData
from fedveil.federation import Federation, begin
from fedveil.games import (
    Adam,
    AdversarialTraining,
    Autoencoder,
    FedAvg,
    Game,
    Move,
    Player,
    Stage,
    WithheldError,
    cross_entropy,
    one_hot,
    squared_error,
)

ENGINES = pytest.mark.parametrize("engine", ["plain", "stacked"])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (3, 60))
    return AttributeData(
        rng.normal(size=(60, 4)).astype(np.float32),
        {name: Attribute(name, codes[i], ("0", "1")) for i, name in enumerate(("sex", "race"))},
        np.array([0] * 40 + [1] * 10 + [2] * 10, dtype=np.int8),
        y=Attribute("y", codes[2], ("0", "1")),
    )


class Curious(Game):
    """Declares some columns and asks for others."""

    name = "curious"

    def __init__(self, asks, reads=("x",), after=0):
        self.asks, self.reads, self.left = asks, reads, after

    def players(self, shape):
        return {"model": Player(lambda g: mlp([4, 2], g))}

    def stages(self, shape):
        return (Stage((Move(("model",), self._loss),), frozenset({"model"}), frozenset(self.reads), batch_size=10),)

    def _loss(self, play):
        out = play("model", play.x).square().sum(dim=-1)
        self.left -= 1
        return out + 0 * self.asks(play) if self.left < 0 else out

    def represent(self, play):
        return play("model", play.x) * self.asks(play)[:, None]

    def outputs(self, play):
        return self.represent(play)


@ENGINES
@pytest.mark.parametrize("after", [0, 3])  # in the rehearsal, and later on, when it believes itself unobserved
@pytest.mark.parametrize(
    ("asks", "reads", "message"),
    [
        (lambda play: play.y, ["x"], "asked for 'y', but its stage reads x"),
        (lambda play: play.y, ["x", "u"], "asked for 'y'"),
        (lambda play: play.u("sex"), ["x"], "asked for 'u:sex'"),
        (lambda play: play.u("sex"), ["x", "y"], "asked for 'u:sex'"),
        (lambda play: play.u("sex"), ["x", "u:race"], "asked for 'u:sex', but its stage reads x, u:race"),
    ],
)
def test_what_a_stage_does_not_declare_is_withheld(data, engine, after, asks, reads, message):
    federation = Federation(data, 4, engine=engine)
    with pytest.raises(WithheldError) as fault:
        begin(federation, Curious(asks, reads, after)).play(6)
    assert message in str(fault.value)
    assert "\n" not in str(fault.value)


@ENGINES
@pytest.mark.parametrize(
    ("asks", "reads"),
    [
        (lambda play: play.y, ["x", "y"]),
        (lambda play: play.u("sex"), ["x", "u"]),
        (lambda play: play.u("sex"), ["x", "u:sex"]),
        (lambda play: play.u("own"), ["x", "u:own"]),
    ],
)
def test_a_stage_gets_what_it_declares(data, engine, asks, reads):
    federation = Federation(data, 4, engine=engine, own_attribute=["sex", "race"] * 2)
    assert len(begin(federation, Curious(asks, reads)).play(1).history) == 1


@ENGINES
def test_undeclared_columns_are_absent(data, engine):
    visible = []

    def look(play):
        visible.append(set(play.data))
        return 0

    begin(Federation(data, 4, engine=engine), Curious(look, ["x", "u:race"])).play(1)
    assert len(visible) > 1
    assert all(names == {"x", "u:race"} for names in visible)


def test_own_is_each_device_s_own_attribute(data):
    federation = Federation(data, 2, own_attribute=["sex", "race"])
    protected = federation.own_codes().codes
    for device, name in enumerate(("sex", "race")):
        rows = federation.partition.device(device)
        np.testing.assert_array_equal(protected[rows], data.attributes[name].codes[rows])
    assert (protected[data.split != 0] == -1).all()


@ENGINES
@pytest.mark.parametrize("what", ["represent", "outputs"])
@pytest.mark.parametrize("asks", [lambda play: play.y, lambda play: play.u("sex")])
def test_what_is_released_is_a_function_of_x_alone(data, engine, what, asks):
    run = begin(Federation(data, 4, engine=engine), Curious(asks, ["x", "y", "u"])).play(1)
    with pytest.raises(WithheldError):
        run.model().of_x(getattr(run.game, what), run.tensors["x"], data.rows(2))


def test_what_games_release(data):
    x = {"rows": data.rows(2)}
    for game, represents, classifies in (
        (FedAvg(hidden=(3,)), False, True),
        (AdversarialTraining("sex", hidden=(3,), width=2), True, True),
        (Autoencoder(hidden=(3,), width=2), True, False),
    ):
        run = begin(Federation(data, 4), game).play(1)
        for function, can in ((game.represent, represents), (game.outputs, classifies)):
            if can:
                assert run.model().of_x(function, run.tensors["x"], x["rows"]).shape == (10, 2)
            else:
                with pytest.raises(InputError, match=game.name):
                    run.model().of_x(function, run.tensors["x"], x["rows"])
    run = begin(Federation(data, 4), AdversarialTraining("race", hidden=(3,), width=2)).play(1)
    logits = run.model(0).of_x(lambda play: run.game.adversary(play, "race"), run.tensors["x"], data.rows(2))
    assert logits.shape == (10, 2)
    with pytest.raises(InputError, match="no adversary for 'sex'"):
        run.model().of_x(lambda play: run.game.adversary(play, "sex"), run.tensors["x"], data.rows(2))


def test_the_autoencoder_needs_no_labels_and_reads_none(data):
    (stage,) = Autoencoder().stages(None)
    assert stage.reads == {"x"}
    with_labels = begin(Federation(data, 4), Autoencoder(hidden=(3,), width=2)).play(2)
    without = begin(Federation(data.without_labels(), 4), Autoencoder(hidden=(3,), width=2)).play(2)
    assert all(torch.equal(with_labels.shared[name], without.shared[name]) for name in without.shared)


def test_a_stronger_defence_leaves_the_adversary_less(data):
    """The co-trained adversary reads u off x's first column, unless the encoder hides it."""
    x = data.x.copy()
    x[:, 0] = 4.0 * data.attributes["sex"].codes
    readable = AttributeData(x, data.attributes, data.split, data.y)
    loss = {}
    for strength in (0.0, 5.0):
        game = AdversarialTraining(
            "sex", strength, hidden=(8,), width=4, adversary_hidden=(8,), optimiser=Adam(0.02), batch_size=10
        )
        loss[strength] = begin(Federation(readable, 2), game).play(120).history[-1].losses["adversary"]
    assert loss[0.0] < 0.5
    assert loss[5.0] > 0.6  # ln 2 = .69 is a coin


def test_strength_by_device_is_strength_by_game_when_all_are_alike(data):
    runs = [
        begin(Federation(data, 4, settings=settings), AdversarialTraining("sex", strength, hidden=(3,), width=2)).play(
            2
        )
        for settings, strength in (({}, 0.7), ({"strength": 0.7}, 0.0), ({"strength": [0.7] * 4}, 0.0))
    ]
    for other in runs[1:]:
        torch.testing.assert_close(other.shared["encoder"], runs[0].shared["encoder"])


def test_cross_entropy_is_torch_s_for_one_device_and_for_many():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, 5, 4, generator=generator, dtype=torch.float64)
    codes = torch.randint(0, 4, (3, 5), generator=generator)
    codes[1, 2] = -1
    losses = cross_entropy(logits, codes)
    assert losses[1, 2] == 0
    for device in range(3):
        torch.testing.assert_close(losses[device], cross_entropy(logits[device], codes[device]))
        expected = nn.functional.cross_entropy(logits[device], codes[device], ignore_index=-1, reduction="none")
        torch.testing.assert_close(losses[device], expected)
    with pytest.raises(InputError, match=r"\(3, 5, 4\) for labels of shape \(3, 4\)"):
        cross_entropy(logits, codes[:, :4])


def test_squared_error_and_one_hot():
    x = torch.arange(12.0).view(2, 2, 3)
    torch.testing.assert_close(squared_error(x, x + 2), torch.full((2, 2), 4.0))
    with pytest.raises(InputError, match="squared error"):
        squared_error(x, x[:, :1])
    rows = one_hot(torch.tensor([[0, 2, -1]]), 3, x)
    assert rows.tolist() == [[[1, 0, 0], [0, 0, 1], [0, 0, 0]]]
    assert rows.dtype == x.dtype


def test_our_games_are_found_by_name():
    assert {"fedavg", "adversarial", "autoencoder"} <= set(plugins.registered("fedveil.games"))
    assert plugins.load("fedveil.games", "fedavg") is FedAvg
    assert plugins.load("fedveil.games", "adversarial") is AdversarialTraining
    with pytest.raises(InputError, match="did you mean 'autoencoder'"):
        plugins.load("fedveil.games", "autoencodr")


def test_a_third_party_s_game_joins_by_entry_point(third_party, data):
    third_party("fedveil.games", "from fedveil.games import FedAvg\nclass Theirs(FedAvg):\n    name = 'theirs'\n")
    game = plugins.load("fedveil.games", "theirs")(hidden=(3,))
    assert begin(Federation(data, 3), game).play(1).game.name == "theirs"
