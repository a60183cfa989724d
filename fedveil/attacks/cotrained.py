"""The co-trained attacker: the game's own adversary, as the papers scored privacy. Weak, and always labelled so.

The encoder has learned to fool exactly this adversary: a figure near the prior says nothing about one that is
trained afterwards. It is reported beside the panel's retrained attackers to show how far the two lie apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from fedveil.attacks.judgement import AttackerFigures
from fedveil.core.measures import Predictions, counting_units, figures_of, resampled
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute_data import Split
from fedveil.games.play import Play

if TYPE_CHECKING:
    from fedveil.federation.run import Run

NAME = "cotrained (weak: the adversary that the encoder was trained to fool)"
_MOST_DEVICES = 32


def judge_cotrained(run: Run, attribute: str, *, draws: int = 1000, confidence: float = 0.95) -> AttackerFigures:
    """Score the game's own adversary on the test people, without retraining or calibration.

    Where adversaries stay on their devices, the mean of their probabilities is taken over at most 32 of them.
    """
    labels = run.federation.data.attribute(attribute)
    rows = run.federation.data.rows(Split.TEST)
    rows = rows[labels.codes[rows] >= 0]

    def logits(play: Play) -> Tensor:
        return run.game.adversary(play, attribute)

    played = sorted({device for player in run.local.values() for device in player.slot_of})[:_MOST_DEVICES]
    models = [run.model(device) for device in played] or [run.model()]
    probabilities = [model.of_x(logits, run.tensors["x"], rows).softmax(dim=-1) for model in models]
    mean = torch.stack(probabilities).mean(dim=0).double().cpu().numpy()
    codes = labels.codes[rows]
    guesses = mean.argmax(axis=1)
    prior = labels.take(run.federation.data.rows(Split.TRAIN)).counts.astype(np.float64)
    made = Predictions(codes, guesses, guesses, np.log(np.clip(mean, 1e-9, 1)), prior / prior.sum())
    groups = None if run.federation.data.groups is None else run.federation.data.groups[rows]
    draws_of = resampled(made, groups, draws, numpy_generator(run.federation.seed, "cotrained", attribute))
    found = figures_of(draws_of, made.recalls[0], counting_units(codes, len(labels.values), groups), confidence)
    names = ("accuracy", "gap", "balanced_accuracy", "auc", "advantage", "mutual_information_bits")
    return AttackerFigures(
        name=NAME,
        **{name: found[name] for name in names},
        validation_balanced_accuracy=float("nan"),
    )
