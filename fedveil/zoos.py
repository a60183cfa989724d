"""Building a zoo from a study: its federation plays undefended, and members learn from what shadow devices sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from fedveil.config.cells import check_varies, load_data, make_federation, make_game
from fedveil.config.shadows import check_shadows, number_of_shadows
from fedveil.config.study import Study
from fedveil.core.errors import InputError
from fedveil.federation.exchange import segments_of
from fedveil.federation.progress import RoundRecord
from fedveil.federation.recording import device_labels, majority_value
from fedveil.federation.run import Run, begin
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
    report: Callable[[str], None] = lambda line: None,
) -> Zoo:
    """Play a study's first method without its shield, with shadow devices, and fit a zoo on what these sent.

    Shadow devices hold validation records, dealt in the same way as the real devices' records. A shadow's value of the
    attribute is the one that most of its records have. The federation has the study's first seed, so that the zoo is
    made for the run that this study describes.

    Args:
        study: gives data, federation and the game of its first method, at its first strength.
        attribute: one of the study's sensitive attributes.
        rounds: the rounds of the game's last stage whose updates members learn from.
        how: which features members read.
        widths: the width of each member; default: 20 members, spread over 128–2048.
        depth: the number of layers of each member.
        shadows: how many shadow devices; 0: the study's number, or as many as its validation records fill.
        seed: all randomness of the members derives from it.
        fitting: how members learn.
        report: receives a line about each round, and one when fitting starts.
    """
    if attribute not in study.data.sensitive:
        sensitive = ", ".join(study.data.sensitive)
        raise InputError(f"zoo: no attribute {attribute!r} in the study's data.sensitive; choose one of: {sensitive}")
    for width in widths or ():
        hidden_sizes(width, depth)
    hidden_sizes(1, depth)
    run = _undefended(study)
    planned = _check_rounds(study, run, rounds)
    segments = segments_of(run, run.stages[-1])
    if not segments:
        raise InputError(f"zoo: devices send no updates in stage {run.stages[-1].name!r}; choose another method")
    features(torch.zeros(1, segments[-1].stop), segments, how)
    changes = {"view": "updates", "attributes": [attribute], "shadows": shadows or study.attacks.shadows}
    observed = study.model_copy(update={"attacks": study.attacks.model_copy(update=changes)})
    check_shadows(observed, run)

    def report_round(record: RoundRecord) -> None:
        report(f"{record.stage}: round {record.round}")

    run.play(planned, callbacks=[report_round], record=list(rounds), shadows=number_of_shadows(observed, run))
    missing = sorted(set(rounds) - {number for number, _, _ in run.shadows})
    if missing:
        raise InputError(
            f"zoo: no shadow device sent an update in round {missing[0]}: the game ended earlier, or all of them "
            "dropped out; choose other rounds"
        )
    vectors = torch.cat([features(updates.cpu(), segments, how) for _, _, updates in run.shadows])
    senders = np.concatenate([devices for _, devices, _ in run.shadows])
    labels = device_labels(run, attribute, senders, majority_value)
    report("fitting members")
    return fit_zoo(
        vectors,
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
    """Return the first method's game without a shield, before its first round."""
    method = study.methods[0]
    check_varies(method)
    strength = method.points[0] if method.varied[0] == "game" else None
    without_shield = method.model_copy(update={"shield": None, "policy": None})
    seed = study.seeds[0]
    federation = make_federation(study, without_shield, strength, seed, load_data(study, seed))
    return begin(federation, make_game(without_shield, strength))


def _check_rounds(study: Study, run: Run, rounds: Sequence[int]) -> int:
    """Refuse rounds that are never played; return how many rounds to play of stages that do not set a number."""
    planned = study.methods[0].rounds or study.federation.rounds
    if not run.stages:
        raise InputError(f"zoo: {study.methods[0].name!r} trains nothing and sends no updates; choose another method")
    last = run.stages[-1].rounds or planned
    if not rounds or len(set(rounds)) != len(rounds):
        raise InputError("zoo: name the rounds to learn from, each once, such as 1,3,5")
    for number in rounds:
        if not 1 <= number <= last:
            raise InputError(f"zoo: round {number} is never played; the study has rounds 1 to {last}")
    can_stop_early = len(run.stages) == 1 and run.stages[0].rounds is None
    return max(rounds) if can_stop_early else planned  # no later round would be used
