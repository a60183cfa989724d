"""Losses that differentiate through gradients run on both engines, once a player says so."""

import pytest
import torch
from torch import nn

from fedveil.core.models import mlp
from fedveil.data import load
from fedveil.federation import Federation
from fedveil.games import SGD, Game, Move, Player, Stage, cross_entropy


class Penalised(Game):
    """Cross-entropy and the squared norm of the logits' gradient with respect to x."""

    name = "penalised"

    def __init__(self, convolutional):
        self.convolutional = convolutional

    def players(self, shape):
        def images(generator):
            return nn.Sequential(
                nn.Unflatten(1, (1, 4, 4)), nn.Conv2d(1, 3, 2), nn.Tanh(), nn.Flatten(), nn.Linear(27, 2)
            )  # fmt: skip

        def table(generator):
            return mlp([16, 6, 2], generator, last=nn.Tanh())

        return {"model": Player(images if self.convolutional else table, SGD(0.1), second_order=True)}

    def stages(self, shape):
        return (Stage(moves=(Move(("model",), self._loss),), shared=frozenset({"model"}), reads=frozenset({"x", "y"})),)

    @staticmethod
    def _loss(play):
        if not torch.is_grad_enabled():  # the rehearsal looks at shapes only
            return cross_entropy(play("model", play.x), play.y)
        x = play.x.detach().requires_grad_()
        logits = play("model", x)
        (slope,) = torch.autograd.grad(logits.sum(), x, create_graph=True)
        return cross_entropy(logits, play.y) + slope.square().sum(dim=-1)


@pytest.mark.parametrize("convolutional", [False, True])
def test_both_engines_agree_on_a_gradient_penalty(convolutional):
    data = load("synthetic", target="y", sensitive="u", n=120, bits=0.3)
    plain, stacked = (
        Federation(data, devices=4, engine=engine, dtype="float64").play(Penalised(convolutional), rounds=2)
        for engine in ("plain", "stacked")
    )
    torch.testing.assert_close(plain.shared["model"], stacked.shared["model"], rtol=0, atol=1e-9)
    assert stacked.paths == {"model": "stacked"}
    assert not torch.equal(stacked.shared["model"], Federation(data, devices=4, dtype="float64").play(
        Penalised(convolutional), rounds=0
    ).shared["model"])  # fmt: skip
