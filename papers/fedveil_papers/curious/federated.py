"""Curious classifiers out of federated training: devices that run the server's loss, or a server that fine-tunes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fedveil.core.errors import InputError
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.federation.run import Run
from fedveil.games.curious import Curious
from fedveil_papers.curious.classifier import Classifier
from fedveil_papers.curious.training import train


def from_run(run: Run) -> Classifier:
    """Return the classifier that devices trained by the server's loss (form "devices"), with the attack they trained.

    A regularised attack's τ is chosen on validation records, as the server would on records of its own.
    """
    game = _game(run)
    if game.form != "devices":
        raise InputError("curious: these devices trained honestly; the server makes it curious by fine_tune")
    modules = run.model().modules
    made = Classifier(
        game,
        modules["classifier"],
        {name: modules[f"attack:{name}"] for name in game.names if f"attack:{name}" in modules},
    )
    return made if game.attack == "parameterised" else made.with_thresholds(run.federation.data, Split.VALIDATION)


def fine_tune(
    run: Run,
    auxiliary: AttributeData,
    *,
    epochs: int = 10,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Classifier:
    """Make an honestly trained classifier curious (form "server"), on data of the server's own.

    Args:
        run: a federation's run of `Curious` with form "server", played: its devices read x and y alone.
        auxiliary: the server's records, with target and secrets, encoded as the federation's are.
        epochs: passes over the auxiliary training records.
        seed: of the fine-tuning.
        progress: called with a line per epoch.
    """
    game = _game(run)
    if game.form != "server":
        raise InputError("curious: these devices ran the server's loss already; fine_tune is for form server")
    start = {"classifier": run.model().modules["classifier"]}
    return train(replace(game, form="devices"), auxiliary, epochs=epochs, seed=seed, start=start, progress=progress)


def _game(run: Run) -> Curious:
    if not isinstance(run.game, Curious):
        raise InputError(f"curious: the run played {run.game.name}; play games.Curious")
    return run.game
