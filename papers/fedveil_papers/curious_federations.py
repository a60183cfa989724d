"""Curious classifiers out of a federation, for the tables: by devices' own loss, or by a server that fine-tunes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data import AttributeData, Split
from fedveil.federation import Federation
from fedveil.games import Curious
from fedveil_papers.curious import Classifier, fine_tune, from_run


def train_by_devices(game: Curious, data: AttributeData, told: Mapping[str, Any], epochs: int, seed: int) -> Classifier:
    """Play the game on devices; in the form "server" fine-tune what they made on the server's own people.

    Args:
        game: of either form.
        data: all people.
        told: "devices", "rounds" and, for the form "server", "auxiliary": the server's share of the training people.
        epochs: of fine-tuning.
        seed: of the federation and of the fine-tuning.
    """
    unknown = set(told) - {"devices", "rounds", "auxiliary"}
    if unknown:
        raise InputError(f"experiment: federation: no {sorted(unknown)[0]!r}: give devices, rounds, auxiliary")
    people, own = _apart(data, float(told.get("auxiliary", 0.2)) if game.form == "server" else 0.0, seed)
    run = Federation(people, devices=int(told.get("devices", 20)), seed=seed).play(game, int(told.get("rounds", 20)))
    return from_run(run) if game.form == "devices" else fine_tune(run, own, epochs=epochs, seed=seed)


def _apart(data: AttributeData, share: float, seed: int) -> tuple[AttributeData, AttributeData]:
    """Cut the training people in two, the devices' and the server's; validation and test people stay with both."""
    train, rest = data.rows(Split.TRAIN), np.flatnonzero(data.split != Split.TRAIN)
    order = numpy_generator(seed, "curious", "server's people").permutation(train)
    count = round(share * len(train))
    return tuple(data.take(np.sort(np.concatenate([rows, rest]))) for rows in (order[count:], order[:count]))  # type: ignore[return-value]
