"""The training of a cell: as many rounds as the study plans, recording those that its attackers watch."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fedveil.config.shadows import number_of_shadows
from fedveil.config.study import Method, Study
from fedveil.federation.progress import RoundRecord
from fedveil.federation.run import Run
from fedveil.view import UPDATE_VIEWS


def play(study: Study, method: Method, run: Run, callbacks: Sequence[Callable[[RoundRecord], None]]) -> None:
    """Play a method's run to its end."""
    watched = study.attacks.view in UPDATE_VIEWS
    run.play(
        method.rounds or study.federation.rounds,
        callbacks=callbacks,
        record=study.attacks.rounds if watched else (),
        shadows=number_of_shadows(study, run) if watched and not run.shadow_rows else 0,
    )
