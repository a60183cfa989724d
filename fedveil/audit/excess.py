"""The excess: what scores reveal about s to somebody who already knows the true and the predicted label.

Symbols: s the sensitive attribute, y the true label, ŷ the predicted one, r the scores, q(s | y, ŷ, r) an attacker's
calibrated posterior, p(s | y, ŷ) a counted table. The excess is I(s; r | y, ŷ) ≥ E log₂ q(s | y, ŷ, r)/p(s | y, ŷ).

If s and y are correlated, an honest score reveals part of the excess by how likely it rates y: `graded.py` measures how
much. The rest is *unexplained*, and verdicts are based on it.

Predictions themselves can carry s: a classifier that answers y where it is certain, and s where it is not, reveals more
about s by ŷ than y does. Honest predictions err, and errors hide s, though choosing the likeliest value may reveal
somewhat more than y. So what they *amplify*, I(s; ŷ) − 2·I(s; y) if positive, counts as unexplained too. (The chain
rule keeps the parts apart: the excess is what scores add to both labels.) An honest classifier that knows little more
than s may amplify as well: outputs alone do not distinguish it.

Attackers are cross-fitted (`fedveil.attacks.fresh`): every row is scored by an attacker that never saw it. An attacker
that learned from few rows is sometimes sure of the wrong value, which costs many bits, and somebody who also has the
table would trust it less. So its posterior is blended with the table: (1 − a)·p + a·q, with trust a. The attacker and
its trust for one half of the rows are those that did best on the other half, where neither the table nor any attacker
had learned from the rows it is judged on.

The table's cost is the mean of two costs. The table that is counted on the other half overstates the cost of few
counts; the table counted on the scored rows themselves understates it (Akaike 1974), though by less. Their mean keeps
most of the cost of counting from being mistaken for an excess. The attacker pays for its own learning, so on average
the figure is too low rather than too high. Guarantee: none; this is an estimate against the attackers tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedveil.attacks.attack import Attack
from fedveil.attacks.fresh import Halves
from fedveil.audit.codes import search_codes
from fedveil.audit.graded import graded_posterior, weight
from fedveil.audit.outputs import Outputs, label_cells, label_columns, visible_columns
from fedveil.core import plugins
from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.bootstrap import bootstrap_weights
from fedveil.core.figures import Estimate
from fedveil.core.measures import Predictions, interval
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.data.attribute import Attribute
from fedveil.view import Pool, View

_FIRMNESS = 2.0
"""Pseudo-counts by which p(s | y, ŷ) is smoothed towards p(s | y), and that towards p(s): rare cells say little."""

_TRUST = (0.1, 0.25, 0.5, 0.75, 0.9, 0.97, 0.995)
"""Never 1: an attacker that made no mistake on one half may be certain of a wrong value for a person of the other half,
and that record alone would cost hundreds of bits. With these values, no record costs over 8 bits more than with the
table alone."""

_SMOOTH = "logistic"
"""Codes are searched for in what this attacker leaves: overlearning is smooth in scores, and codes are not, but the
other attackers learn a part of either."""

_ALLOWED = 2.0
"""How many times as much as y predictions may reveal before they count as amplifying."""

_DRAWS = 1000


@dataclass(frozen=True)
class Excess:
    """What scores add to (y, ŷ).

    Attributes:
        bits: I(s; r | y, ŷ), estimated.
        graded: the part of it that correlation with y accounts for, by the honest reading of scores.
        amplified: I(s; ŷ) − 2·I(s; y), by how much predictions reveal more than twice what y does; 0 if they do not.
        unexplained: the excess without the graded part, and what is amplified.
        share: that as a share of H(s | y, ŷ), which is what the labels leave open, and of what is amplified.
        balanced_accuracy: by how much knowing the scores raises the balanced accuracy of guessing s.
        baseline: balanced accuracy of guessing s from the counted table alone.
        attacker: the name of the attacker: for each half of the rows, the one that did best on the other half.
        code: what readings below two decimals, or of the file's order, add to a smooth attacker (`codes.py`).
        code_in: the names of these readings; empty if none adds anything.
        ordered: whether the order of the file reveals s, whoever chose it.
    """

    bits: Estimate
    graded: Estimate
    amplified: Estimate
    unexplained: Estimate
    share: Estimate
    balanced_accuracy: Estimate
    baseline: Estimate
    attacker: str
    code: Estimate
    code_in: tuple[str, ...]
    ordered: bool

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> Excess:
        """Read what `as_dict` returns."""
        return cls(
            **{name: Estimate(**value) for name, value in stored.items() if isinstance(value, Mapping)},
            attacker=stored["attacker"],
            code_in=tuple(stored["code_in"]),
            ordered=stored["ordered"],
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the form that `--json` prints."""
        figures = {name: value.as_dict() for name, value in vars(self).items() if isinstance(value, Estimate)}
        return {**figures, "attacker": self.attacker, "code_in": list(self.code_in), "ordered": self.ordered}


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
    """Measure what the scores add about an attribute that every record carries, each value at least eight times."""
    name, codes, groups = secret.name, secret.codes, outputs.groups
    people = Pool(visible_columns(outputs), {name: secret}, groups, label_columns(outputs))
    crossed = Halves.of(View(people, people, people), name, _labels_and_scores, seed)
    predictions: dict[str, Predictions] = {}
    for attacker in attackers:
        if progress:
            progress(f"{name} beyond the labels: {attacker}")
        make = _maker(attacker, child_seed(seed, "excess", name, attacker), device)
        predictions[attacker] = crossed.attempt(attacker, make).victims
    half = crossed.half
    table = _out_of_half(outputs, secret, half)
    best, chosen = blended(predictions, table, half)
    if progress:
        progress(f"{name} beyond the labels: codes")
    searched = search_codes(outputs, secret, best.log_posterior, half, seed)
    smooth = {attacker: predictions[attacker] for attacker in predictions if attacker == _SMOOTH} or predictions
    plain, _ = blended(smooth, table, half)
    by_digits = search_codes(outputs, secret, plain.log_posterior, half, seed)
    coarse, fine = (_with_posterior(plain, posterior) for posterior in (by_digits.before, by_digits.after))
    by_code = coarse.surprise - fine.surprise
    best = _with_posterior(best, searched.after)
    left = _surprise(codes, table, label_cells(outputs))
    honest = _graded_gain(outputs, secret, half, left)
    chosen = " and ".join([chosen, *searched.coarse[:1], *searched.fine[:1]])
    amplified = _amplification(outputs, codes, len(secret.values))
    rng = numpy_generator(seed, "excess", name)
    figures = _measured(left, honest, amplified, by_code, best, table, groups, confidence, rng)
    return Excess(**figures, attacker=chosen, code_in=by_digits.fine, ordered=searched.ordered)


def _with_posterior(predictions: Predictions, log_posterior: FloatArray) -> Predictions:
    """Return the predictions, with guesses to match if another posterior replaces theirs."""
    if log_posterior is predictions.log_posterior or np.array_equal(log_posterior, predictions.log_posterior):
        return predictions
    balanced = (log_posterior - np.log(predictions.prior)).argmax(axis=1)
    plain = log_posterior.argmax(axis=1)
    return replace(predictions, balanced=balanced, plain=plain, log_posterior=log_posterior)


def blended(predictions: Mapping[str, Predictions], table: FloatArray, half: IntArray) -> tuple[Predictions, str]:
    """Return the best blend of attacker and table for each half, as one set of predictions, and the attackers' names.

    Args:
        predictions: each attacker's predictions for all records.
        table: (n, S), p(s | y, ŷ) for each record.
        half: 0 or 1 for each record.
    """
    first = next(iter(predictions.values()))
    truth = np.arange(len(half)), first.codes
    posteriors = {name: np.exp(prediction.log_posterior) for name, prediction in predictions.items()}
    costs = {
        (name, trust): -np.log2(np.maximum(_mixed(table, posterior, trust)[truth], np.finfo(np.float64).tiny))
        for name, posterior in posteriors.items()
        for trust in _TRUST
    }
    log_posterior, balanced, names = np.empty_like(table), np.empty_like(first.codes), []
    for side in (0, 1):
        rows = half == side
        name, trust = min(costs, key=lambda choice: float(costs[choice][~rows].mean()))
        mixed = _mixed(table[rows], posteriors[name][rows], trust)
        log_posterior[rows] = np.log(np.maximum(mixed, np.finfo(np.float64).tiny))
        balanced[rows] = predictions[name].balanced[rows]
        names.append(name)
    blend = replace(first, balanced=balanced, plain=log_posterior.argmax(axis=1), log_posterior=log_posterior)
    return blend, " and ".join(dict.fromkeys(names))


def _mixed(table: FloatArray, posterior: FloatArray, trust: float) -> FloatArray:
    return (1 - trust) * table + trust * posterior


def _maker(attacker: str, seed: int, device: str) -> Callable[[], Attack]:
    kind = plugins.load("fedveil.attacks", attacker, Attack)
    return lambda: kind(seed=seed, device=device)


def _labels_and_scores(pool: Pool) -> FloatArray:
    assert pool.given is not None
    return np.hstack([pool.given, pool.vectors])


def _out_of_half(outputs: Outputs, secret: Attribute, half: IntArray) -> FloatArray:
    """Return p(s | y, ŷ) for every record, counted on the half that does not hold it."""
    posterior = np.empty((len(outputs), len(secret.values)))
    for side in (0, 1):
        counted = half == side
        posterior[~counted] = _table(outputs, secret.codes, len(secret.values), counted)[label_cells(outputs)[~counted]]
    return posterior


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


def _surprise(codes: IntArray, table: FloatArray, cells: IntArray) -> FloatArray:
    """Return the bits by which each record's s surprises the table."""
    outside = -np.log2(table[np.arange(len(codes)), codes])
    counts = np.zeros((int(cells.max()) + 1, table.shape[1]))
    np.add.at(counts, (cells, codes), 1)
    inside = -np.log2(counts[cells, codes] / counts.sum(axis=1)[cells])
    return np.asarray((outside + inside) / 2, dtype=np.float64)


def _graded_gain(outputs: Outputs, secret: Attribute, half: IntArray, left: FloatArray) -> FloatArray:
    """Return each record's gain in bits from the honest reading over the table; all 0 unless their mean is positive."""
    posterior = graded_posterior(outputs, secret, half)[np.arange(len(outputs)), secret.codes]
    gains = left + np.log2(np.maximum(posterior, 1e-12))
    return weight(outputs, secret) * gains if gains.mean() > 0 else np.zeros_like(gains)


def _amplification(outputs: Outputs, codes: IntArray, classes: int) -> FloatArray:
    """Return each record's share in I(s; ŷ) − 2·I(s; y), in bits, by counting; all 0 unless their mean is positive.

    The bias of counting predictions is subtracted (Miller 1955); that of counting y is not added, since test records
    are often balanced by y.
    """
    shares = np.bincount(codes, minlength=classes) / len(codes)
    informs = []
    for labels in (outputs.predicted, outputs.y.codes):
        counts = np.zeros((len(outputs.y.values), classes))
        np.add.at(counts, (labels, codes), 1)
        informs.append(np.log2(counts[labels, codes] / counts.sum(axis=1)[labels] / shares[codes]))
    bias = (classes - 1) * (len(np.unique(outputs.predicted)) - 1) / (2 * len(codes) * np.log(2))
    gains = np.asarray(informs[0] - _ALLOWED * informs[1] - bias, dtype=np.float64)
    return gains if gains.mean() > 0 else np.zeros_like(gains)


def _measured(
    left: FloatArray,
    honest: FloatArray,
    amplified: FloatArray,
    by_code: FloatArray,
    best: Predictions,
    table: FloatArray,
    groups: IntArray | None,
    confidence: float,
    rng: np.random.Generator,
) -> dict[str, Estimate]:
    codes, classes = best.codes, len(best.prior)
    one_hot = np.eye(classes)[codes]
    guessed = (table / best.prior).argmax(axis=1)  # the guess that balanced accuracy rewards: argmax of p(y, ŷ | s)
    right, right_by_table = (one_hot * (guess == codes)[:, None] for guess in (best.balanced, guessed))
    # An attacker that does worse than the table would use the table: the figure is then 0, with the noise around it.
    gains, rest = (
        gain - min(0.0, float(gain.mean())) for gain in (left - best.surprise, left - best.surprise - honest)
    )
    names = ("bits", "graded", "amplified", "unexplained", "share", "balanced_accuracy", "baseline", "code")
    draws: dict[str, list[FloatArray]] = {name: [] for name in names}
    for weights in bootstrap_weights(len(codes), groups, _DRAWS, rng):
        total, mass = weights.sum(axis=1), np.maximum(weights @ one_hot, 1e-12)
        bits, graded, more, unexplained, open_bits = (
            (weights @ gain) / total for gain in (gains, honest, amplified, rest + amplified, left)
        )
        open_bits = np.minimum(open_bits + np.maximum(more, 0), np.log2(classes))
        baseline = ((weights @ right_by_table) / mass).mean(axis=1)
        draws["bits"].append(np.clip(bits, 0, open_bits))
        draws["graded"].append(np.clip(graded, 0, np.maximum(bits, 0)))
        draws["amplified"].append(np.maximum(more, 0))
        draws["unexplained"].append(np.clip(unexplained, 0, open_bits))
        draws["share"].append(np.clip(unexplained / np.maximum(open_bits, 1e-12), 0, 1))
        draws["balanced_accuracy"].append(((weights @ right) / mass).mean(axis=1) - baseline)
        draws["baseline"].append(baseline)
        draws["code"].append(np.clip((weights @ by_code) / total, 0, open_bits))
    return {name: interval(np.concatenate(parts), confidence) for name, parts in draws.items()}
