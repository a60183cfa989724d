"""A trained cell judged: what its releases are good for, what they give away, and what is certified."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from fedveil.config.study import Study
from fedveil.core.errors import InputError
from fedveil.core.randomness import child_seed
from fedveil.studies.proving import certificates_of, spent_on_updates, theory_facts
from fedveil.studies.sampling import sampled_releases

if TYPE_CHECKING:
    from fedveil.attacks.judgement import Judgement
    from fedveil.federation.heads import Utility
    from fedveil.federation.run import Run

Arrays = dict[str, np.ndarray]
Tell = Callable[[float, str], None]
KEPT_DRAWS = 400


def releases(run: Any, view: str) -> bool:
    """Return whether a run's game releases representations, or outputs."""
    from fedveil.games.game import Game

    method = "represent" if view == "representations" else "outputs"
    return getattr(type(run.game), method) is not getattr(Game, method)


def heads_fit(study: Study, run: Any) -> bool:
    """Return whether heads learn the tasks from what is released; else the model's own outputs are scored."""
    return study.attacks.view != "outputs" and releases(run, "representations")


def judge_run(study: Study, run: Run, tell: Tell) -> tuple[dict[str, Any], Arrays, Arrays]:
    """Return a trained cell's results as plain values, the bootstrap draws behind them, and a sample of releases.

    Args:
        tell: called with the share of this work that is done, and what comes next.
    """
    tell(0.0, "heads")
    utilities = _utilities(study, run)
    judgements = _judgements(study, run, tell)
    found = {
        "utility": {utility.task: utility.as_dict() for utility in utilities},
        "leakage": {judgement.attribute: judgement.as_dict() for judgement in judgements},
        "cotrained": _cotrained(study, run),
        "decensoring": _decensoring(study, run, tell),
        "floor": _floors(study, run),
        "certificates": certificates_of(study, run),
        "spent": spent_on_updates(run),
        "utility_only": run.utility_only,
        "devices": len(run.federation.partition),
        "theory": theory_facts(study, run),
        "paths": run.paths,
        "rounds": len(run.history),
        "bytes_up": sum(record.bytes_up for record in run.history),
    }
    draws = {f"utility/{utility.task}": utility.draws[: KEPT_DRAWS + 1] for utility in utilities}
    for judgement in judgements:
        draws[f"leakage/{judgement.attribute}"] = judgement.draws["balanced_accuracy"][: KEPT_DRAWS + 1]
    return found, draws, sampled_releases(study, run) if releases(run, "representations") else {}


def _utilities(study: Study, run: Run) -> list[Utility]:
    from fedveil.federation.heads import score_outputs

    seed = child_seed(run.federation.seed, "heads")
    if heads_fit(study, run):
        return run.fit_head(*study.all_tasks, seed=seed, heads=tuple(study.heads))
    return [score_outputs(run, seed=seed)]  # the same seed: draws of all methods are of the same people


def _judgements(study: Study, run: Run, tell: Tell) -> list[Judgement]:
    from fedveil.attacks.panel import panel

    attacks = study.attacks
    seed = child_seed(run.federation.seed, "panel")
    judges = panel(attacks.panel, seed=seed, draws=attacks.draws, fresh=attacks.fresh)
    total, started = len(judges.attackers) * len(study.asked) * (2 if attacks.fresh else 1), 0

    def progress(line: str) -> None:
        nonlocal started
        tell(0.15 + 0.75 * started / total, line)
        started += 1

    judges = replace(judges, progress=progress)
    view = run.view(attacks.view)
    return [judges.judge(view, attribute) for attribute in study.asked]


def _cotrained(study: Study, run: Run) -> dict[str, Any]:
    from fedveil.attacks.cotrained import judge_cotrained

    found: dict[str, Any] = {}
    for attribute in study.asked if study.attacks.cotrained else []:
        try:
            found[attribute] = judge_cotrained(run, attribute, draws=study.attacks.draws).as_dict()
        except InputError:  # this game trains no adversary against it
            continue
        found[attribute]["validation_balanced_accuracy"] = None
    return found


def _decensoring(study: Study, run: Run, tell: Tell) -> dict[str, Any]:
    """Return what de-censoring reads, beside the panel and never in its place."""
    if not (study.attacks.decensoring and releases(run, "representations")):
        return {}
    from fedveil.attacks.decensor import judge_decensoring
    from fedveil.federation.release import released_view

    seed = child_seed(run.federation.seed, "panel")  # the panel's: the same bootstrap draws of the same people
    view, found = released_view(run, inputs=True), {}
    for attribute in study.asked:
        tell(0.95, f"{attribute}: de-censoring")
        found[attribute] = judge_decensoring(view, attribute, seed=seed, draws=study.attacks.draws).as_dict()
    return found


def _floors(study: Study, run: Run) -> dict[str, Any]:
    from fedveil.attacks.floor import floor

    data, seed = run.federation.data, child_seed(run.federation.seed, "floor")
    return {
        task: {
            attribute: {
                name: figure.as_dict() for name, figure in floor(data, task, attribute, seed=seed, draws=200).items()
            }
            for attribute in study.asked
        }
        for task in study.all_tasks
    }
