"""Curious classifiers from federated training: devices run the server's loss, or the server fine-tunes afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.federation import Federation
from fedveil.federation.run import Run
from fedveil.games.curious import Curious
from fedveil_papers.curious.classifier import Classifier
from fedveil_papers.curious.training import train


def from_run(run: Run) -> Classifier:
    """Return the classifier that devices trained with the server's loss (form "devices"), and the attack they trained.

    A regularised attack's τ is chosen on the validation records, as the server would choose it on its own records.
    """
    game = _game(run)
    if game.form != "devices":
        raise InputError("curious: these devices trained honestly; make the classifier curious with fine_tune")
    modules = run.model().modules
    classifier = Classifier(
        game,
        modules["classifier"],
        {name: modules[f"attack:{name}"] for name in game.names if f"attack:{name}" in modules},
    )
    if game.attack == "parameterised":
        return classifier
    return classifier.with_thresholds(run.federation.data, Split.VALIDATION)


def fine_tune(
    run: Run,
    auxiliary: AttributeData,
    *,
    epochs: int = 10,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Classifier:
    """Make an honestly trained classifier curious (form "server"), on data that the server holds.

    Args:
        run: a federation's finished run of `Curious` with form "server"; its devices read only x and y.
        auxiliary: the server's records, with target and secrets, encoded like the federation's.
        epochs: passes over the auxiliary training records.
        seed: the seed of the fine-tuning.
        progress: called with a line per epoch.
    """
    game = _game(run)
    if game.form != "server":
        raise InputError("curious: these devices ran the server's loss already; fine_tune is for form server")
    start = {"classifier": run.model().modules["classifier"]}
    return train(replace(game, form="devices"), auxiliary, epochs=epochs, seed=seed, start=start, progress=progress)


@dataclass(frozen=True)
class FederationSettings:
    """How a federation trains a curious classifier.

    Attributes:
        devices: how many devices.
        rounds: how many rounds.
        auxiliary: for the form "server", the share of the training records that the server holds and no device does.
    """

    devices: int = 20
    rounds: int = 20
    auxiliary: float = 0.2

    def train(self, game: Curious, data: AttributeData, epochs: int, seed: int) -> Classifier:
        """Play the game on devices; in the form "server", fine-tune the result on the server's records.

        Args:
            game: the game, in either form.
            data: all records.
            epochs: passes of the fine-tuning.
            seed: the seed of the federation and of the fine-tuning.
        """
        share = self.auxiliary if game.form == "server" else 0.0
        # Training records are divided between devices and server; both see the validation and test records.
        training, rest = data.rows(Split.TRAIN), np.flatnonzero(data.split != Split.TRAIN)
        order = numpy_generator(seed, "curious", "server's people").permutation(training)
        count = round(share * len(training))
        for_devices, for_server = (
            data.take(np.sort(np.concatenate([rows, rest]))) for rows in (order[count:], order[:count])
        )
        run = Federation(for_devices, devices=self.devices, seed=seed).play(game, self.rounds)
        return from_run(run) if game.form == "devices" else fine_tune(run, for_server, epochs=epochs, seed=seed)


def _game(run: Run) -> Curious:
    if not isinstance(run.game, Curious):
        raise InputError(f"curious: the run played {run.game.name}; play games.Curious")
    return run.game
