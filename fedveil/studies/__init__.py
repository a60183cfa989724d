"""Studies: a YAML file goes in, cells are computed and can be resumed, and a frontier comes out.

`check.py` finds faults before anything is written, `runner.py` deals cells to worker processes, `cell_run.py` computes
one cell, `judging.py` measures it, and `store.py` manages the directory. `model.py` defines the results, `reading.py`
reads them, `results.py` puts them together, `rows.py` and `frontier.py` summarise them, and `tune.py` searches for a
strength.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedveil.core.errors import InputError
from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.studies.frontier import Frontier as Frontier
    from fedveil.studies.results import StudyResults as StudyResults
    from fedveil.studies.results import open_study as open_study
    from fedveil.studies.tidy import tidy as tidy


def run(
    study: str | Path | Mapping[str, Any],
    out: str | Path | None = None,
    *,
    workers: int | None = None,
    fresh: bool = False,
) -> StudyResults:
    """Run a study (a YAML file, or its fields as a mapping), or continue it, and return its results.

    Args:
        study: what to run.
        out: the directory (default: runs/<name>).
        workers: how many processes compute at the same time (default: one per core); 0: only this process.
        fresh: discard the results in the directory first.
    """
    # imported here, so that commands which only name this package stay quick
    from fedveil.config.study import make_study, read_study
    from fedveil.studies.check import checked
    from fedveil.studies.running import run_study

    plan = checked(make_study(dict(study)) if isinstance(study, Mapping) else read_study(Path(study)))
    folder = Path(out) if out is not None else Path("runs") / plan.study.name
    ran = run_study(plan, folder, workers=workers, fresh=fresh)
    if ran.failed:
        cell, why = next(iter(ran.failed.items()))
        raise InputError(f"{len(ran.failed)} cells failed, {cell} first: {why}; finished cells are in {folder}")
    return ran.results


__all__ = lazy(__name__)
