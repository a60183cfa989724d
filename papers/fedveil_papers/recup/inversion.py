"""Pictures reconstructed from what test people send under a shield; the attack is chosen on validation people."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
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
from fedveil_papers.rows import Figure

if TYPE_CHECKING:
    from fedveil.attacks.reconstruction import Reconstruction
    from fedveil_papers.recup.laboratory import Laboratory

RECOGNISABLE = 25.0
"""A reconstruction with at least this many dB counts as good."""


@dataclass(frozen=True)
class Quality:
    """How near reconstructions come to the pictures: means over victims with intervals.

    Attributes:
        mse: mean squared error on the scale 0–255.
        psnr: peak signal-to-noise ratio in dB.
        ssim: structural similarity.
        recognisable: how many victims' reconstructions have `RECOGNISABLE` dB or more.
    """

    mse: Figure
    psnr: Figure
    ssim: Figure
    recognisable: int

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Quality:
        """Return it from JSON values."""
        means = {name: Figure.of(values[name]) or Figure(math.nan) for name in MEASURES}
        return cls(**means, recognisable=values["recognisable"])


MEASURES = ("mse", "psnr", "ssim")


@dataclass(frozen=True)
class Picture:
    """One victim's reconstruction, as PNG in base64, and how near it comes."""

    png: str
    mse: float
    psnr: float
    ssim: float


@dataclass(frozen=True)
class Inverted:
    """Reconstructions of test people's pictures from one update each.

    Attributes:
        quality: the quality of the reconstructions.
        guess: the quality of the mean training picture, which needs no update.
        victims: how many people sent something.
        silent: how many people sent nothing.
        labels_right: how many labels were recovered correctly.
        relative_l2, cosine: the shield's change of their updates: the median relative norm, the mean cosine.
        tv_weight, over: the attack that was chosen on validation people.
        tuning: the mean squared error of each attack on validation people; empty if there is only one attack.
        each: each victim's figures by measure.
        originals: pictures of the victims that are shown, as PNG in base64.
        pictures: their reconstructions; None if nothing was sent.
    """

    quality: Quality
    guess: Quality
    victims: int
    silent: int
    labels_right: int
    relative_l2: float
    cosine: float
    tv_weight: float
    over: str
    tuning: list[dict[str, Any]]
    each: dict[str, list[float]]
    originals: list[str]
    pictures: list[Picture | None]

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Inverted:
        """Return it from a part's figures."""
        names = [field.name for field in fields(cls) if field.name not in ("quality", "guess", "pictures")]
        return cls(
            quality=Quality.of(values),
            guess=Quality.of(values["guess"]),
            pictures=[None if picture is None else Picture(**picture) for picture in values["pictures"]],
            **{name: values[name] for name in names},
        )

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values."""
        values = asdict(self)
        return {**values.pop("quality"), **values}


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
) -> Inverted:
    """Reconstruct test people's pictures at a round's weights.

    Of several attacks, the one with the least mean error on validation people is used: the attacker can send pictures
    of its own through the same shield.
    """
    attacked = lab.task.people(Split.TEST)[:victims]
    best, errors = attacks[0], list[float]()
    extra = tuning * len(attacks) if len(attacks) > 1 else 0
    whole, done = extra + len(attacked), 0

    def progress_of(weight: int) -> Callable[[float], None] | None:
        return None if progress is None else lambda share: progress((done + weight * share) / whole)

    if extra:
        validation = _Seen.of(lab, shielding, number, lab.task.people(Split.VALIDATION)[:tuning])
        errors = validation.errors(attacks, progress_of(extra))
        done = extra
        best = attacks[int(np.argmin(errors))]
    seen = _Seen.of(lab, shielding, number, attacked)
    reconstruction, rows = seen.inverted(best, progress_of(len(attacked))), seen.rows
    truth = _pictures(lab, rows)
    figures = judged(reconstruction.images, truth)
    seed = child_seed(lab.task.seed, "reconstruction", "interval")
    groups = lab.task.data.groups
    whose = None if groups is None else groups[rows]
    guess = lab.task.x[torch.from_numpy(lab.task.people(Split.TRAIN)[:, 0])].mean(dim=0).expand_as(truth)
    index_of = {int(row): index for index, row in enumerate(rows)}
    originals = [int(row) for row in attacked[:shown, 0]]
    return Inverted(
        quality=_quality(figures, seed, whose),
        guess=_quality(judged(guess, truth), seed, whose),
        victims=len(rows),
        silent=len(attacked) - len(rows),
        labels_right=int((reconstruction.labels == lab.task.y[torch.from_numpy(rows)]).sum()),
        relative_l2=seen.damage["median_relative_l2"],
        cosine=seen.damage["cosine"],
        tv_weight=best.tv_weight,
        over=best.over,
        tuning=[
            {"over": attack.over, "tv_weight": attack.tv_weight, "mse": error}
            for attack, error in zip(attacks, errors, strict=False)
        ],
        each={name: values.tolist() for name, values in figures.items()},
        originals=[_png(lab.task.x[row]) for row in originals],
        pictures=[
            None if row not in index_of else _picture(reconstruction.images[index_of[row]], figures, index_of[row])
            for row in originals
        ],
    )


@dataclass(frozen=True, eq=False)
class Shielding:
    """A shield at a strength; with a span, the strength is a relative norm, reached for each person separately.

    Updates of different people differ in length by orders of magnitude. Noise of one size would leave one picture
    untouched and drown another, and a mean over both would say nothing about either.
    """

    make: Callable[[float | None], Shield]
    strength: float | None = None
    span: tuple[float, float] | None = None

    def sent(self, lab: Laboratory, model: nn.Module, person: IntArray, number: int) -> Sent:
        """Return what one person sends if the change has this norm relative to their update."""
        assert self.span is not None
        assert self.strength is not None

        def send(value: float) -> Sent:
            return Sender.prepare(lab.task, self.make(value)).send(model, person, number)

        def norm(value: float) -> float:
            message = send(value)
            size = message.clean.double().norm()
            return float((message.sent.double() - message.clean.double()).norm() / size) if size else math.inf

        value = strength_at(norm, self.strength, self.span)
        return send(self.span[1] if value is None else value)


@dataclass(frozen=True, eq=False)
class _Seen:
    """What the server saw of those who sent something in a round."""

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
            parts = [Sender.prepare(lab.task, shield).send(model, people, number)]
            spoke = people[parts[0].speaking]
        else:
            parts = [shielding.sent(lab, model, person[None], number) for person in people]
            spoke = people
        tally = Tally()
        for part in parts:
            tally.add(part)
        rows = torch.cat([part.sent for part in parts]).detach()
        something = (rows != 0).any(dim=1)
        return cls(lab, number, model, spoke[something.numpy()][:, 0], rows[something], tally.as_dict())

    def inverted(self, attack: Inversion, progress: Callable[[float], None] | None) -> Reconstruction:
        """Return what the attack reconstructs."""
        task = self.lab.task
        seed = child_seed(task.seed, "reconstruction", "test", self.number)
        return attack.invert(
            self.model, task.loss, self.gradients, tuple(task.x.shape[1:]), seed=seed, progress=progress
        )

    def errors(self, attacks: Sequence[Inversion], progress: Callable[[float], None] | None) -> list[float]:
        """Return the mean squared error of each attack; attacks that differ only in the weight run as one stack."""
        task, count, errors = self.lab.task, len(self.rows), dict[Inversion, float]()
        kinds = list(dict.fromkeys(replace(attack, tv_weight=0.0) for attack in attacks))
        for index, kind in enumerate(kinds):
            alike = [attack for attack in attacks if replace(attack, tv_weight=0.0) == kind]
            reconstruction = kind.invert(
                self.model,
                task.loss,
                self.gradients.repeat(len(alike), 1),
                tuple(task.x.shape[1:]),
                tv_weights=torch.tensor([attack.tv_weight for attack in alike]).repeat_interleave(count),
                seed=child_seed(task.seed, "reconstruction", "validation", self.number),
                progress=None if progress is None else partial(_within, progress, index, len(kinds)),
            )
            truth = _pictures(self.lab, self.rows).repeat(len(alike), 1, 1, 1)
            each = judged(reconstruction.images, truth)["mse"].reshape(len(alike), count).mean(axis=1)
            errors |= {attack: float(error) for attack, error in zip(alike, each, strict=True)}
        return [errors[attack] for attack in attacks]


def _within(progress: Callable[[float], None], index: int, count: int, share: float) -> None:
    progress((index + share) / count)


def _pictures(lab: Laboratory, rows: IntArray) -> Tensor:
    return lab.task.x[torch.from_numpy(rows)]


def _quality(figures: Mapping[str, Any], seed: int, groups: IntArray | None) -> Quality:
    means = {name: mean_with_interval(figures[name], seed, groups) for name in MEASURES}
    recognisable = int((figures["psnr"] >= RECOGNISABLE).sum())
    return Quality(
        **{name: Figure(mean.estimate, mean.low, mean.high) for name, mean in means.items()}, recognisable=recognisable
    )


def _png(image: Tensor) -> str:
    return to_png(to_pixels(image.numpy()))


def _picture(image: Tensor, figures: Mapping[str, Any], index: int) -> Picture:
    return Picture(_png(image), **{name: float(values[index]) for name, values in figures.items()})
