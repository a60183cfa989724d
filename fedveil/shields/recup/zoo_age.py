"""How old a zoo was for the models that a shield met: looked at only when somebody asks, for that takes a while."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from fedveil.shields.message import Context
from fedveil.shields.recup import Zoo

_ROUNDS = 8
"""Of how many rounds the weights are kept; the oldest go first."""


class ZooAge:
    """The weights that updates started from, by round."""

    def __init__(self) -> None:
        self.weights: dict[int, Tensor] = {}

    def meet(self, update: Tensor, context: Context) -> None:
        """Keep the weights of a round that is new, where the device knows them."""
        if context.round in self.weights:
            return
        found = _started_from(update, context)
        if found is not None:
            self.weights[context.round] = found
            while len(self.weights) > _ROUNDS:
                del self.weights[min(self.weights)]

    def of(self, zoos: Mapping[str, Zoo]) -> dict[int, dict[str, float | None]]:
        """Return by round and attribute how stale the zoo was; None where it does not say what it was fitted on."""
        return {
            number: {name: zoo.staleness(weights) for name, zoo in zoos.items()}
            for number, weights in self.weights.items()
        }


def _started_from(update: Tensor, context: Context) -> Tensor | None:
    """Return the weights in an update's order: the network's own, or those reached less the update."""
    players = dict.fromkeys(segment.player for segment in context.segments)
    if all(player in context.networks for player in players):
        states = {player: context.networks[player].state_dict() for player in players}
        tensors = [states[segment.player].get(segment.name) for segment in context.segments]
        known = [own.flatten() for own in tensors if own is not None]
        return torch.cat(known).detach().clone() if len(known) == len(tensors) else None
    if all(player in context.model for player in players):
        reached = torch.cat([context.model[player].flatten() for player in players])
        return reached - update.to(reached) if len(reached) == len(update) else None
    return None
