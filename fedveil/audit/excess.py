"""The excess: what scores tell of s to somebody who knows the true and the predicted label already.

Symbols: s the sensitive attribute, y the true label, ŷ the predicted one, r the scores, q(s | y, ŷ, r) an attacker's
calibrated posterior, p(s | y, ŷ) a counted table. The excess is I(s; r | y, ŷ) ≥ E log₂ q(s | y, ŷ, r)/p(s | y, ŷ).

Where s and y are correlated, an honest score tells some of that by how likely it finds y: `graded.py` says how much.
The rest is *unexplained*; verdicts are about it. Attackers are cross-fitted (`fedveil.attacks.fresh`): all rows are
scored, each by an attacker that never saw it, trusted as far as `blending.py` says. The table's cost is the mean of
two: counted on the other half, which pays for few counts, and on the scored rows themselves, which flatters itself
(Akaike 1974), though by less: little of what counting costs is taken for an excess. The attacker pays for its own
learning: on average the figure is too low rather than too high. Guarantee: none; an estimate against the attackers
tried.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedveil.attacks.attack import Attack
from fedveil.attacks.fresh import CrossTrial, halves
from fedveil.audit.blending import blended
from fedveil.audit.graded import graded_posterior, weight
from fedveil.audit.outputs import Outputs
from fedveil.audit.seen import cells_of, labels_as_columns, seen
from fedveil.core import plugins
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.figures import Estimate
from fedveil.core.measures import Predictions, bootstrap_weights, interval
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.data.attribute import Attribute
from fedveil.view import Pool, View

_FIRMNESS = 2.0
"""Imagined records by which p(s | y, ŷ) is pulled to p(s | y), and that to p(s): rare cells say little."""

_DRAWS = 1000


@dataclass(frozen=True)
class Excess:
    """What scores add to (y, ŷ).

    Attributes:
        bits: I(s; r | y, ŷ), estimated.
        graded: the part of it that correlation with y accounts for, by the honest reading of scores.
        unexplained: the rest.
        share: the rest as a share of H(s | y, ŷ), what the labels leave open.
        balanced_accuracy: by how much knowing the scores raises the balanced accuracy of guessing s.
        baseline: balanced accuracy of guessing s from the counted table alone.
        attacker: who read it: for either half of the rows the one who did best on the other half.
    """

    bits: Estimate
    graded: Estimate
    unexplained: Estimate
    share: Estimate
    balanced_accuracy: Estimate
    baseline: Estimate
    attacker: str

    def as_dict(self) -> dict[str, Any]:
        """Return the form that `--json` prints."""
        figures = {name: value.as_dict() for name, value in vars(self).items() if isinstance(value, Estimate)}
        return {**figures, "attacker": self.attacker}


def excess(
    outputs: Outputs,
    secret: Attribute,
    attackers: Sequence[str],
    *,
    confidence: float = 0.95,
    seed: int = 0,
    device: str = "auto",
    progress: Callable[[str], None] | None = None,
) -> Excess:
    """Measure what the scores add about a secret that every record carries, each value by at least eight."""
    name, codes, groups = secret.name, secret.codes, outputs.groups
    people = Pool(seen(outputs), {name: secret}, groups, labels_as_columns(outputs))
    crossed = CrossTrial(seed, _DRAWS, lambda: numpy_generator(seed, "excess", name))
    found: dict[str, Predictions] = {}
    for attacker in attackers:
        if progress:
            progress(f"{name} beyond the labels: {attacker}")
        make = _maker(attacker, child_seed(seed, "excess", name, attacker), device)
        _, found[attacker] = crossed.predictions(attacker, make, _alone(people), name, _all)
    half = halves(codes, groups, child_seed(seed, "halves", name))
    table = _out_of_half(outputs, secret, half)
    made, chosen = blended(found, table, half)
    left = _left(codes, table, cells_of(outputs))
    honest = _graded_gain(outputs, secret, half, left)
    return _measured(left, honest, made, table, groups, confidence, chosen, crossed.bootstrap())


def _maker(attacker: str, seed: int, device: str) -> Callable[[], Attack]:
    kind = plugins.load("fedveil.attacks", attacker, Attack)
    return lambda: kind(seed=seed, device=device)


def _alone(people: Pool) -> View:
    return View(people, people, people)


def _all(pool: Pool) -> FloatArray:
    assert pool.given is not None
    return np.hstack([pool.given, pool.vectors])


def _out_of_half(outputs: Outputs, secret: Attribute, half: IntArray) -> FloatArray:
    """Return p(s | y, ŷ) for every record, counted on the half that it does not belong to."""
    found = np.empty((len(outputs), len(secret.values)))
    for side in (0, 1):
        counted = half == side
        found[~counted] = _table(outputs, secret.codes, len(secret.values), counted)[cells_of(outputs)[~counted]]
    return found


def _table(outputs: Outputs, codes: IntArray, classes: int, rows: np.ndarray) -> FloatArray:
    """Count p(s | y, ŷ) on some rows, one line per cell, smoothed towards p(s | y) and p(s)."""
    size = len(outputs.y.values)
    counts = np.zeros((size, size, classes))
    np.add.at(counts, (outputs.y.codes[rows], outputs.predicted[rows], codes[rows]), 1)
    of_s = counts.sum(axis=(0, 1)) / counts.sum()
    by_y = counts.sum(axis=1) + _FIRMNESS * of_s
    by_y /= by_y.sum(axis=1, keepdims=True)
    cells = counts + _FIRMNESS * by_y[:, None, :]
    return np.asarray((cells / cells.sum(axis=2, keepdims=True)).reshape(size * size, classes), dtype=np.float64)


def _left(codes: IntArray, table: FloatArray, cells: IntArray) -> FloatArray:
    """Return by how many bits each record's s surprises the table."""
    outside = -np.log2(table[np.arange(len(codes)), codes])
    counts = np.zeros((int(cells.max()) + 1, table.shape[1]))
    np.add.at(counts, (cells, codes), 1)
    inside = -np.log2(counts[cells, codes] / counts.sum(axis=1)[cells])
    return np.asarray((outside + inside) / 2, dtype=np.float64)


def _graded_gain(outputs: Outputs, secret: Attribute, half: IntArray, left: FloatArray) -> FloatArray:
    """Return each record's bits that the honest reading gains over the table; 0 for all where it gains none."""
    posterior = graded_posterior(outputs, secret, half)[np.arange(len(outputs)), secret.codes]
    gains = left + np.log2(np.maximum(posterior, 1e-12))
    return weight(outputs, secret) * gains if gains.mean() > 0 else np.zeros_like(gains)


def _measured(
    left: FloatArray,
    honest: FloatArray,
    made: Predictions,
    table: FloatArray,
    groups: IntArray | None,
    confidence: float,
    attacker: str,
    rng: np.random.Generator,
) -> Excess:
    codes, classes = made.codes, len(made.prior)
    one_hot = np.eye(classes)[codes]
    guessed = (table / made.prior).argmax(axis=1)  # the guess that balanced accuracy rewards: argmax of p(y, ŷ | s)
    right, known = (one_hot * (guess == codes)[:, None] for guess in (made.balanced, guessed))
    # Whoever does worse than the table would use the table: then the figure is 0, and the noise that around 0.
    gains, rest = (one - min(0.0, float(one.mean())) for one in (left - made.surprise, left - made.surprise - honest))
    names = ("bits", "graded", "unexplained", "share", "balanced_accuracy", "baseline")
    rows: dict[str, list[FloatArray]] = {name: [] for name in names}
    for weights in bootstrap_weights(len(codes), groups, _DRAWS, rng):
        total, mass = weights.sum(axis=1), np.maximum(weights @ one_hot, 1e-12)
        bits, told, unexplained, open_bits = ((weights @ one) / total for one in (gains, honest, rest, left))
        open_bits = np.minimum(open_bits, np.log2(classes))
        baseline = ((weights @ known) / mass).mean(axis=1)
        rows["bits"].append(np.clip(bits, 0, open_bits))
        rows["graded"].append(np.clip(told, 0, np.maximum(bits, 0)))
        rows["unexplained"].append(np.clip(unexplained, 0, open_bits))
        rows["share"].append(np.clip(unexplained / np.maximum(open_bits, 1e-12), 0, 1))
        rows["balanced_accuracy"].append(((weights @ right) / mass).mean(axis=1) - baseline)
        rows["baseline"].append(baseline)
    figures = {name: interval(np.concatenate(parts), confidence) for name, parts in rows.items()}
    return Excess(**figures, attacker=attacker)
