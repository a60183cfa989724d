"""Judge a trained cell: what its releases are good for, what they give away, and what is certified.

Every judge is given the same releases, which are computed once per split.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fedveil.attacks.judgement import AttackerFigures, Decensoring, Judgement
from fedveil.config.study import Study
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.randomness import child_seed
from fedveil.studies.model import CellFigures
from fedveil.studies.proving import certificates_of, spent_on_updates, theory_facts
from fedveil.studies.reading import Arrays
from fedveil.studies.sampling import sampled_releases

if TYPE_CHECKING:
    from fedveil.federation.release import Releases
    from fedveil.federation.run import Run
    from fedveil.federation.utility import Utility
    from fedveil.view import View

Report = Callable[[float, str], None]
KEPT_DRAWS = 400


def releases(run: Any, view: str) -> bool:
    """Return whether a run's game releases what a view shows, representations or outputs."""
    from fedveil.games.game import Game

    method = "represent" if view == "representations" else "outputs"
    return getattr(type(run.game), method) is not getattr(Game, method)


def heads_fit(study: Study, run: Any) -> bool:
    """Return whether heads learn the tasks from what is released; otherwise the model's outputs are scored."""
    return study.attacks.view != "outputs" and releases(run, "representations")


def judge_run(study: Study, run: Run, report: Report) -> tuple[CellFigures, Arrays, Arrays]:
    """Return the figures of a trained cell, the bootstrap draws behind them, and a sample of releases.

    Args:
        study: says which tasks and attributes to judge, and how.
        run: the trained run.
        report: called with the share of this work that is done, and what comes next.
    """
    from fedveil.federation.release import Releases

    released = Releases(run)
    report(0.0, "heads")
    utilities = _utilities(study, run, released)
    judgements = _judgements(study, run, released, report)
    figures = CellFigures(
        utility={utility.task: utility for utility in utilities},
        leakage={judgement.attribute: judgement for judgement in judgements},
        cotrained=_cotrained(study, run),
        decensoring=_decensoring(study, run, released, report),
        floor=_floors(study, run),
        certificates=certificates_of(study, run, released),
        spent=spent_on_updates(run),
        utility_only=run.utility_only,
        devices=len(run.federation.partition),
        theory=theory_facts(study, run),
        paths=run.paths,
        rounds=len(run.history),
        bytes_up=sum(record.bytes_up for record in run.history),
    )
    draws = {f"utility/{utility.task}": utility.draws[: KEPT_DRAWS + 1] for utility in utilities}
    for judgement in judgements:
        draws[f"leakage/{judgement.attribute}"] = judgement.draws["balanced_accuracy"][: KEPT_DRAWS + 1]
    return figures, draws, sampled_releases(study, run, released) if releases(run, "representations") else {}


def _utilities(study: Study, run: Run, released: Releases) -> list[Utility]:
    from fedveil.federation.heads import fit_heads, score_outputs

    seed = child_seed(run.federation.seed, "heads")
    if heads_fit(study, run):
        return fit_heads(
            run, study.all_tasks, seed=seed, heads=study.heads, draws=study.attacks.draws, releases=released
        )
    # The same seed, so that the draws of all methods resample the same people.
    return [score_outputs(run, seed=seed, draws=study.attacks.draws, releases=released)]


def _judgements(study: Study, run: Run, released: Releases, report: Report) -> list[Judgement]:
    from fedveil.attacks.panel import panel

    attacks = study.attacks
    seed = child_seed(run.federation.seed, "panel")
    view = _view(study, run, released)
    judges = panel(
        attacks.panel,
        seed=seed,
        draws=attacks.draws,
        fresh=None if attacks.fresh == "auto" else attacks.fresh,
        workers=study.threads,
    )
    fresh = sum(judges.tries_fresh(view.about(attribute), attribute) for attribute in study.asked)
    # one more for the strongest, which also learns from half as many people
    total, started = len(judges.attackers) * (len(study.asked) + fresh) + len(study.asked), 0

    def progress(line: str) -> None:
        nonlocal started
        report(0.15 + 0.75 * started / total, line)
        started += 1

    judges = replace(judges, progress=progress)
    return [judges.judge(view, attribute) for attribute in study.asked]


def _view(study: Study, run: Run, released: Releases) -> View:
    """Return what the study's observer saw."""
    from fedveil.federation.release import released_view
    from fedveil.shields.message import Kind

    kinds = {"representations": Kind.REPRESENTATION, "outputs": Kind.OUTPUT}
    if study.attacks.view not in kinds:
        return run.view(study.attacks.view)
    return released_view(run, kinds[study.attacks.view], releases=released)


def _cotrained(study: Study, run: Run) -> dict[str, AttackerFigures]:
    """Return what the game's own adversary reads; it has no figure on validation people."""
    from fedveil.attacks.cotrained import judge_cotrained

    figures = {}
    for attribute in study.asked if study.attacks.cotrained else []:
        try:
            figures[attribute] = judge_cotrained(run, attribute, draws=study.attacks.draws)
        except InputError:  # this game trains no adversary against this attribute
            continue
    return figures


def _decensoring(study: Study, run: Run, released: Releases, report: Report) -> dict[str, Decensoring]:
    """Return what de-censoring reads, beside the panel and never in its place."""
    if not (study.attacks.decensoring and releases(run, "representations")):
        return {}
    from fedveil.attacks.decensor import judge_decensoring
    from fedveil.federation.release import released_view

    seed = child_seed(run.federation.seed, "panel")  # the panel's: the same bootstrap draws of the same people
    view, undone = released_view(run, inputs=True, releases=released), {}
    for attribute in study.asked:
        report(0.95, f"{attribute}: de-censoring")
        undone[attribute] = judge_decensoring(view, attribute, seed=seed, draws=study.attacks.draws)
    return undone


def _floors(study: Study, run: Run) -> dict[str, dict[str, dict[str, Estimate]]]:
    from fedveil.attacks.floor import floor

    data, seed = run.federation.data, child_seed(run.federation.seed, "floor")
    return {
        task: {attribute: floor(data, task, attribute, seed=seed, draws=200) for attribute in study.asked}
        for task in study.all_tasks
    }
