"""Invert what some people of a laboratory send under a shield, the attack's settings chosen on others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fedveil.attacks.reconstruction import Inversion, judged, mean_with_interval
from fedveil.data import Split
from fedveil.data.attribute import IntArray
from fedveil.exposure.sending import Sender, Tally
from fedveil.randomness import child_seed
from fedveil.reproductions.picture_grid import to_pixels, to_png
from fedveil.shields.shield import Identity, Shield

if TYPE_CHECKING:
    from fedveil.attacks.reconstruction import Reconstruction
    from fedveil.exposure import Laboratory

RECOGNISABLE = 25.0
"""dB from which a reconstruction is counted as good."""


def invert_people(
    lab: Laboratory,
    shield: Shield | None,
    number: int,
    attacks: Sequence[Inversion],
    *,
    victims: int,
    tuning: int,
    shown: int,
    progress: Callable[[float], None] | None = None,
) -> dict[str, Any]:
    """Return figures and pictures of test people's reconstructions at a round's weights, as plain values.

    Of several attacks the one with the least mean error on validation people is used: the attacker can put pictures
    of its own through the same shield.
    """
    sender = Sender(lab.task, shield or Identity())
    people = {split: lab.task.people(split) for split in (Split.VALIDATION, Split.TEST)}
    held, attacked = people[Split.VALIDATION][:tuning], people[Split.TEST][:victims]
    shares = [len(held)] * len(attacks) if len(attacks) > 1 else []
    whole, done = sum(shares) + len(attacked), 0

    def told(weight: int) -> Callable[[float], None] | None:
        return None if progress is None else lambda share: progress((done + weight * share) / whole)

    best = attacks[0]
    errors = []
    for attack in attacks if len(attacks) > 1 else ():
        rows, made, _ = _inverted(lab, sender, number, held, attack, "validation", told(len(held)))
        errors.append(float(judged(made.images, _pictures(lab, rows))["mse"].mean()))
        done += len(held)
    if errors:
        best = attacks[int(np.argmin(errors))]
    rows, made, tally = _inverted(lab, sender, number, attacked, best, "test", told(len(attacked)))
    truth = _pictures(lab, rows)
    figures = judged(made.images, truth)
    seed = child_seed(lab.task.seed, "reconstruction", "interval")
    groups = lab.task.data.groups
    whose = None if groups is None else groups[rows]
    guess = lab.task.x[torch.from_numpy(lab.task.people(Split.TRAIN)[:, 0])].mean(dim=0).expand_as(truth)
    guessed = judged(guess, truth)
    spoke = {int(row): place for place, row in enumerate(rows)}
    originals = [int(row) for row in attacked[:shown, 0]]
    return {
        **_summary(figures, seed, whose),
        "guess": _summary(guessed, seed, whose),
        "victims": len(rows),
        "silent": len(attacked) - len(rows),
        "labels_right": int((made.labels == lab.task.y[torch.from_numpy(rows)]).sum()),
        "relative_l2": tally["relative_l2"],
        "cosine": tally["cosine"],
        "tv_weight": best.tv_weight,
        "tuning": [{"tv_weight": one.tv_weight, "mse": error} for one, error in zip(attacks, errors, strict=False)],
        "each": {name: values.tolist() for name, values in figures.items()},
        "originals": [_png(lab.task.x[row]) for row in originals],
        "pictures": [
            None if row not in spoke else _told(made.images[spoke[row]], figures, spoke[row]) for row in originals
        ],
    }


def _inverted(
    lab: Laboratory,
    sender: Sender,
    number: int,
    people: IntArray,
    attack: Inversion,
    which: str,
    progress: Callable[[float], None] | None,
) -> tuple[IntArray, Reconstruction, dict[str, float]]:
    """Return the rows of those who sent something, what is made of it, and what the shield did."""
    model = lab.task.model(lab.undefended.weights[number])
    sent, tally = sender.send(model, people, number), Tally()
    tally.add(sent)
    something = (sent.sent != 0).any(dim=1).numpy()
    rows = people[sent.speaking][something][:, 0]
    seed = child_seed(lab.task.seed, "reconstruction", which, number)
    shape = tuple(lab.task.x.shape[1:])
    seen = sent.sent[torch.from_numpy(something)].detach()
    made = attack.invert(model, lab.task.loss, seen, shape, seed=seed, progress=progress)
    return rows, made, tally.as_dict()


def _pictures(lab: Laboratory, rows: IntArray) -> Tensor:
    return lab.task.x[torch.from_numpy(rows)]


def _summary(figures: dict[str, Any], seed: int, groups: IntArray | None) -> dict[str, Any]:
    means = {name: mean_with_interval(values, seed, groups).as_dict() for name, values in figures.items()}
    return {**means, "recognisable": int((figures["psnr"] >= RECOGNISABLE).sum())}


def _png(image: Tensor) -> str:
    return to_png(to_pixels(image.numpy()))


def _told(image: Tensor, figures: dict[str, Any], place: int) -> dict[str, Any]:
    return {"png": _png(image), **{name: float(values[place]) for name, values in figures.items()}}
