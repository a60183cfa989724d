"""Do attackers that the panel does not have read more than its headline?

    python studies/outside_attackers.py STUDY.yaml

For each method and strength of a study (first seed): the panel's headline, and three attackers of our own making that
learn from fresh people: half of the test people teach, tune (on a quarter of that half) and calibrate, the other half
is attacked. A tuned booster (12 settings), a tuned MLP (6) and a plain look-up table with one pseudo-count per value.
Both halves teach in turn, and everybody is scored once. Printed: what the best of the three gains on the headline.
Minutes.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import balanced_accuracy_score
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.utils import resample

from fedveil.attacks import panel
from fedveil.config.cells import load_data, make_federation, make_game
from fedveil.config.study import read_study
from fedveil.federation.run import begin
from fedveil.studies.check import checked

BOOSTERS = [
    HistGradientBoostingClassifier(
        learning_rate=rate, max_leaf_nodes=leaves, max_iter=trees, class_weight="balanced", random_state=0
    )
    for rate, leaves, trees in product((0.03, 0.1), (8, 31), (50, 150, 400))
]
NETWORKS = [
    MLPClassifier(hidden, alpha=alpha, early_stopping=True, max_iter=60, random_state=0)
    for hidden, alpha in product(((64,), (256, 64)), (1e-4, 1e-2, 1.0))
]


Guess = Callable[[np.ndarray], np.ndarray]
Fit = Callable[[np.ndarray, np.ndarray], Guess]


def attacked(fit: Fit, x: np.ndarray, u: np.ndarray, half: np.ndarray) -> np.ndarray:
    """Return guesses about everybody: each half is guessed by what the other half teaches."""
    guesses = np.empty_like(u)
    for side in (0, 1):
        learn = np.flatnonzero(half == side)
        guesses[half != side] = fit(x[learn], u[learn])(x[half != side])
    return guesses


def tuned(models: Sequence[Any]) -> Fit:
    """Return a function that fits the model that is best on a quarter of the teaching half, again on all of it."""

    def fit(x: np.ndarray, u: np.ndarray) -> Guess:
        cut = len(x) * 3 // 4
        merits = [
            balanced_accuracy_score(u[cut:], model.fit(*evened(x[:cut], u[:cut])).predict(x[cut:])) for model in models
        ]
        best = models[int(np.argmax(merits))]
        predict: Guess = best.fit(*evened(x, u)).predict
        return predict

    return fit


def evened(x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Repeat people of the rarer values until all values are as frequent."""
    most = np.bincount(u).max()
    rows = np.concatenate(
        [resample(np.flatnonzero(u == code), n_samples=most, random_state=0) for code in np.unique(u)]
    )
    rows = np.random.default_rng(0).permutation(rows)
    return x[rows], u[rows]


def look_up(x: np.ndarray, u: np.ndarray) -> Guess:
    """Return a table: for each distinct row the value that is most over-represented."""
    shares = np.bincount(u) / len(u)
    table: dict[bytes, np.ndarray] = {}
    for row, code in zip(x, u, strict=True):
        table.setdefault(row.tobytes(), np.ones(len(shares)))[code] += 1 / shares[code] / len(shares)
    return lambda rows: np.array([table.get(row.tobytes(), shares * 0 + 1).argmax() for row in rows])


def main() -> None:
    """Print a line for each release."""
    warnings.simplefilter("ignore")
    study = read_study(Path(sys.argv[1]))
    data = load_data(study, study.seeds[0])
    for method in checked(study).methods:
        for strength in method.points:
            run = begin(make_federation(study, method, strength, study.seeds[0], data), make_game(method, strength))
            run.play()
            view = run.view("representations")
            for attribute in study.asked:
                judgement = panel("full", seed=study.seeds[0], draws=200).judge(view, attribute)
                people = view.about(attribute).victims
                x, u = people.vectors.astype(np.float32), people.attributes[attribute].codes
                half = np.random.default_rng(0).permutation(np.arange(len(u)) % 2)
                scaled = StandardScaler().fit_transform(x)
                read = {
                    "booster": balanced_accuracy_score(u, attacked(tuned(BOOSTERS), x, u, half)),
                    "MLP": balanced_accuracy_score(u, attacked(tuned(NETWORKS), scaled, u, half)),
                    "look-up": balanced_accuracy_score(u, attacked(look_up, x, u, half)),
                }
                headline = judgement.worst.balanced_accuracy
                best = max(read, key=lambda name: read[name])
                print(
                    f"{method.name} {strength}: {attribute} {headline} by {judgement.worst.name}; outside "
                    + ", ".join(f"{name} {value:.3f}" for name, value in read.items())
                    + f"; gain {read[best] - headline.estimate:+.3f} ({best})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
