"""The co-trained attacker: the game's own adversary, by which the papers measure privacy. It is weak, and named so.

The encoder has learned to fool exactly this adversary, so a figure near the prior says nothing about an attacker that
is trained afterwards. It is reported beside the panel's retrained attackers to show how much the two differ.
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

    If each device keeps its adversary, the probabilities of at most 32 of them are averaged.
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
    predictions = Predictions(codes, guesses, guesses, np.log(np.clip(mean, 1e-9, 1)), prior / prior.sum())
    groups = None if run.federation.data.groups is None else run.federation.data.groups[rows]
    resamples = resampled(predictions, groups, draws, numpy_generator(run.federation.seed, "cotrained", attribute))
    units = counting_units(codes, len(labels.values), groups)
    figures = figures_of(resamples, predictions.recalls[0], units, confidence)
    names = ("accuracy", "gap", "balanced_accuracy", "auc", "advantage", "mutual_information_bits")
    return AttackerFigures(
        name=NAME,
        **{name: figures[name] for name in names},
        validation_balanced_accuracy=float("nan"),
    )
