"""A zoo from a study: its federation plays undefended with shadow devices, and members learn from what they sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from fedveil.config.cells import check_varies, load_data, make_federation, make_game
from fedveil.config.shadows import check_shadows, number_of_shadows
from fedveil.config.study import Study
from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.federation.layout import segments_of
from fedveil.federation.progress import RoundRecord
from fedveil.federation.run import Run
from fedveil.federation.update_features import device_labels
from fedveil.shields.recup.fitting import Fitting, fit_zoo
from fedveil.shields.recup.members import hidden_sizes
from fedveil.shields.recup.zoo import Zoo
from fedveil.updates.features import features


def build_zoo(
    study: Study,
    attribute: str,
    rounds: Sequence[int],
    *,
    how: str = "max",
    widths: Sequence[int] | None = None,
    depth: int = 3,
    shadows: int = 0,
    seed: int = 0,
    fitting: Fitting | None = None,
    tell: Callable[[str], None] = lambda line: None,
) -> Zoo:
    """Play a study's first method without its shield, with shadow devices, and fit a zoo on what these sent.

    Shadows hold validation records, dealt as the real devices' are, and a shadow's value is the one that most of its
    records have. The federation has the study's first seed: a zoo for the run that this study describes.

    Args:
        study: gives data, federation and the game of its first method, at its first strength.
        attribute: one of the study's sensitive ones.
        rounds: whose updates members learn from; of the game's last stage.
        how: which features members read.
        widths: one for each member; 20 spread over 128–2048 by default.
        depth: of each member.
        shadows: how many; 0: as many as the study says, or as its validation records fill.
        seed: of the members.
        fitting: how they learn.
        tell: is told what is being done.
    """
    if attribute not in study.data.sensitive:
        known = ", ".join(study.data.sensitive)
        raise InputError(f"zoo: no attribute {attribute!r} in the study's data.sensitive; there are: {known}")
    for width in widths or ():
        hidden_sizes(width, depth)
    hidden_sizes(1, depth)
    run = _undefended(study)
    planned = _check_rounds(study, run, rounds)
    segments = segments_of(run, run.stages[-1])
    if not segments:
        raise InputError(f"zoo: devices send no updates in stage {run.stages[-1].name!r}; choose another method")
    features(torch.zeros(1, segments[-1].stop), segments, how)
    asked = {"view": "updates", "attributes": [attribute], "shadows": shadows or study.attacks.shadows}
    watched = study.model_copy(update={"attacks": study.attacks.model_copy(update=asked)})
    check_shadows(watched, run)

    def told(record: RoundRecord) -> None:
        tell(f"{record.stage}: round {record.round}")

    run.play(planned, callbacks=[told], record=list(rounds), shadows=number_of_shadows(watched, run))
    missing = sorted(set(rounds) - {number for number, _, _ in run.shadows})
    if missing:
        raise InputError(f"zoo: no shadow sent an update in round {missing[0]}: the game ended before, or all fell out")
    found = torch.cat([features(updates.cpu(), segments, how) for _, _, updates in run.shadows])
    senders = np.concatenate([devices for _, devices, _ in run.shadows])
    labels = device_labels(run, attribute, senders, lambda own, _: _most(own))
    tell("fitting members")
    return fit_zoo(
        found,
        labels.codes,
        labels.values,
        attribute,
        segments,
        how,
        widths,
        depth,
        seed,
        groups=senders,
        started_from={number: run.started_from[number] for number in rounds},
        precomputed=True,
        fitting=fitting,
    )


def _undefended(study: Study) -> Run:
    """Return the first method's game, about to be played without a shield."""
    method = study.methods[0]
    check_varies(method)
    strength = method.points[0] if method.varied[0] == "game" else None
    bare = method.model_copy(update={"shield": None, "policy": None})
    seed = study.seeds[0]
    return Run(make_federation(study, bare, strength, seed, load_data(study, seed)), make_game(bare, strength))


def _check_rounds(study: Study, run: Run, rounds: Sequence[int]) -> int:
    """Refuse rounds that are never played; return how many to play of stages that do not say."""
    planned = study.methods[0].rounds or study.federation.rounds
    if not run.stages:
        raise InputError(f"zoo: {study.methods[0].name!r} trains nothing, and sends no updates; choose another method")
    last = run.stages[-1].rounds or planned
    if not rounds or len(set(rounds)) != len(rounds):
        raise InputError("zoo: name the rounds to learn from, each once, such as 1,3,5")
    for number in rounds:
        if not 1 <= number <= last:
            raise InputError(f"zoo: round {number} is never played; the study has rounds 1 to {last}")
    alone = len(run.stages) == 1 and run.stages[0].rounds is None
    return max(rounds) if alone else planned  # nothing is learned from what comes behind the last of them


def _most(own: IntArray) -> int:
    return int(own.argmax())
