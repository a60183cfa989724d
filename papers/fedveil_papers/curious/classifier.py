"""A trained classifier F with the attack G that its maker keeps: what F releases of records, and what G reads in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from fedveil.audit.outputs import Outputs
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.games.curious import Curious, best_threshold

_BATCH = 512


@dataclass(frozen=True, eq=False)
class Classifier:
    """F, G and the record of their training.

    Attributes:
        game: the game by which they were trained.
        network: F, from x to raw scores, in evaluation mode.
        attacks: G by secret, networks on what is released; empty if the attack is regularised.
        thresholds: τ by secret, in nats, chosen on validation records; empty unless the attack is regularised.
        history: for each epoch, "honesty" and "curiosity" on validation records and the training losses.
        kept: the epoch whose weights were kept, counted from 1.
    """

    game: Curious
    network: nn.Module
    attacks: Mapping[str, nn.Module] = field(default_factory=dict)
    thresholds: Mapping[str, float] = field(default_factory=dict)
    history: Sequence[Mapping[str, float]] = ()
    kept: int = 0

    def scores(self, x: npt.NDArray[np.float32]) -> FloatArray:
        """Return F's raw scores of records, (n, Y)."""
        device = next(self.network.parameters()).device
        try:
            with torch.no_grad():
                parts = [self.network(part.to(device)).cpu() for part in torch.split(torch.from_numpy(x), _BATCH)]
        except RuntimeError as fault:
            raise InputError(
                f"curious: records of shape {x.shape[1:]} do not fit this classifier ({str(fault).splitlines()[0]}); "
                "give records of the shape that it was trained on"
            ) from fault
        return torch.cat(parts).numpy().astype(np.float64)

    def outputs(self, data: AttributeData, split: Split) -> Outputs:
        """Return what the server sees of a split's records: raw scores or probabilities, with the true labels."""
        if data.y is None:
            raise InputError(f"{data.name}: has no target; a classifier's outputs are judged against one")
        rows = data.rows(split)
        scores = torch.from_numpy(self.scores(np.ascontiguousarray(data.x[rows])))
        return Outputs(
            self.game.released(scores).numpy(),
            self.game.output == "raw",
            data.y.take(rows),
            {name: data.attribute(name).take(rows) for name in data.attributes},
            None if data.groups is None else data.groups[rows],
        )

    def with_thresholds(self, data: AttributeData, split: Split) -> Classifier:
        """Return the same classifier with each τ chosen on a split's records (for regularised attacks)."""
        outputs = self.outputs(data, split)
        nats = torch.from_numpy(outputs.entropies * np.log(2))
        classes = outputs.scores.shape[1]
        thresholds = {
            name: best_threshold(nats, torch.from_numpy(outputs.secrets[name].codes), classes)
            for name in self.game.names
        }
        return replace(self, thresholds=thresholds)

    def guesses(self, outputs: Outputs, secret: str) -> IntArray:
        """Return what the maker's attack G reads in outputs; its accuracy is the paper's curiosity."""
        if secret in self.thresholds:
            nats = outputs.entropies * np.log(2)
            return np.asarray(nats > self.thresholds[secret], dtype=np.int64)
        if secret not in self.attacks:
            raise InputError(f"curious: no attack on {secret!r}: {nearest(secret, [*self.attacks, *self.thresholds])}")
        attack = self.attacks[secret]
        device = next(attack.parameters()).device
        with torch.no_grad():
            logits = attack(torch.as_tensor(outputs.scores, dtype=torch.float32, device=device))
        return np.asarray(logits.argmax(dim=1).cpu().numpy(), dtype=np.int64)
