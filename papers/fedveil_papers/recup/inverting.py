"""Invert what some people of a laboratory send under a shield, the attack's settings chosen on others."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from fedveil.attacks.reconstruction import Inversion, judged, mean_with_interval
from fedveil.core.arrays import IntArray
from fedveil.core.randomness import child_seed
from fedveil.data import Split
from fedveil.shields.shield import Identity, Shield
from fedveil_papers.recup.laboratory.matching import strength_at
from fedveil_papers.recup.laboratory.sending import Sender, Sent, Tally
from fedveil_papers.recup.picture_grid import to_pixels, to_png

if TYPE_CHECKING:
    from fedveil.attacks.reconstruction import Reconstruction
    from fedveil_papers.recup.laboratory import Laboratory

RECOGNISABLE = 25.0
"""dB from which a reconstruction is counted as good."""


def invert_people(
    lab: Laboratory,
    shielding: Shielding | None,
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
    attacked = lab.task.people(Split.TEST)[:victims]
    best, errors = attacks[0], list[float]()
    extra = tuning * len(attacks) if len(attacks) > 1 else 0
    whole, done = extra + len(attacked), 0

    def told(weight: int) -> Callable[[float], None] | None:
        return None if progress is None else lambda share: progress((done + weight * share) / whole)

    if extra:
        held = _Seen.of(lab, shielding, number, lab.task.people(Split.VALIDATION)[:tuning])
        errors = held.errors(attacks, told(extra))
        done = extra
        best = attacks[int(np.argmin(errors))]
    seen = _Seen.of(lab, shielding, number, attacked)
    made, rows = seen.inverted(best, told(len(attacked))), seen.rows
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
        "relative_l2": seen.damage["median_relative_l2"],
        "cosine": seen.damage["cosine"],
        "tv_weight": best.tv_weight,
        "over": best.over,
        "tuning": [
            {"over": one.over, "tv_weight": one.tv_weight, "mse": error}
            for one, error in zip(attacks, errors, strict=False)
        ],
        "each": {name: values.tolist() for name, values in figures.items()},
        "originals": [_png(lab.task.x[row]) for row in originals],
        "pictures": [
            None if row not in spoke else _told(made.images[spoke[row]], figures, spoke[row]) for row in originals
        ],
    }


@dataclass(frozen=True, eq=False)
class Shielding:
    """A shield made at a strength; with a span, each person's own: the strength is then a relative norm.

    Updates of different people differ in length by orders of magnitude. A noise of one size would leave one picture
    untouched and drown another, and a mean over both would say nothing of either.
    """

    make: Callable[[float | None], Shield]
    strength: float | None = None
    span: tuple[float, float] | None = None

    def sent(self, lab: Laboratory, model: nn.Module, own: IntArray, number: int) -> Sent:
        """Return what one person sends whose change has this norm relative to their update."""
        assert self.span is not None
        assert self.strength is not None

        def send(value: float) -> Sent:
            return Sender(lab.task, self.make(value)).send(model, own, number)

        def norm(value: float) -> float:
            one = send(value)
            size = one.clean.double().norm()
            return float((one.sent.double() - one.clean.double()).norm() / size) if size else math.inf

        found = strength_at(norm, self.strength, self.span)
        return send(self.span[1] if found is None else found)


@dataclass(frozen=True, eq=False)
class _Seen:
    """What the server saw of those who sent something in a round, and what it knows besides."""

    lab: Laboratory
    number: int
    model: nn.Module
    rows: IntArray
    gradients: Tensor
    damage: dict[str, float]

    @classmethod
    def of(cls, lab: Laboratory, shielding: Shielding | None, number: int, people: IntArray) -> _Seen:
        model = lab.task.model(lab.undefended.weights[number])
        if shielding is None or shielding.span is None:
            shield = Identity() if shielding is None else shielding.make(shielding.strength)
            parts = [Sender(lab.task, shield).send(model, people, number)]
            spoke = people[parts[0].speaking]
        else:
            parts = [shielding.sent(lab, model, own[None], number) for own in people]
            spoke = people
        tally = Tally()
        for part in parts:
            tally.add(part)
        rows = torch.cat([part.sent for part in parts]).detach()
        something = (rows != 0).any(dim=1)
        return cls(lab, number, model, spoke[something.numpy()][:, 0], rows[something], tally.as_dict())

    def inverted(self, attack: Inversion, progress: Callable[[float], None] | None) -> Reconstruction:
        """Return what the attack makes of it."""
        task = self.lab.task
        seed = child_seed(task.seed, "reconstruction", "test", self.number)
        return attack.invert(
            self.model, task.loss, self.gradients, tuple(task.x.shape[1:]), seed=seed, progress=progress
        )

    def errors(self, attacks: Sequence[Inversion], progress: Callable[[float], None] | None) -> list[float]:
        """Return the mean squared error of each attack; those that differ in the weight alone are one stack."""
        task, count, errors = self.lab.task, len(self.rows), dict[Inversion, float]()
        kinds = list(dict.fromkeys(replace(one, tv_weight=0.0) for one in attacks))
        for place, kind in enumerate(kinds):
            alike = [one for one in attacks if replace(one, tv_weight=0.0) == kind]
            made = kind.invert(
                self.model,
                task.loss,
                self.gradients.repeat(len(alike), 1),
                tuple(task.x.shape[1:]),
                tv_weights=torch.tensor([one.tv_weight for one in alike]).repeat_interleave(count),
                seed=child_seed(task.seed, "reconstruction", "validation", self.number),
                progress=None if progress is None else partial(_within, progress, place, len(kinds)),
            )
            truth = _pictures(self.lab, self.rows).repeat(len(alike), 1, 1, 1)
            each = judged(made.images, truth)["mse"].reshape(len(alike), count).mean(axis=1)
            errors |= {one: float(error) for one, error in zip(alike, each, strict=True)}
        return [errors[one] for one in attacks]


def _within(progress: Callable[[float], None], place: int, places: int, share: float) -> None:
    progress((place + share) / places)


def _pictures(lab: Laboratory, rows: IntArray) -> Tensor:
    return lab.task.x[torch.from_numpy(rows)]


def _summary(figures: dict[str, Any], seed: int, groups: IntArray | None) -> dict[str, Any]:
    means = {name: mean_with_interval(values, seed, groups).as_dict() for name, values in figures.items()}
    return {**means, "recognisable": int((figures["psnr"] >= RECOGNISABLE).sum())}


def _png(image: Tensor) -> str:
    return to_png(to_pixels(image.numpy()))


def _told(image: Tensor, figures: dict[str, Any], place: int) -> dict[str, Any]:
    return {"png": _png(image), **{name: float(values[place]) for name, values in figures.items()}}
