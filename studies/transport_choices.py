"""How transport's settings for Adult were chosen, and what each part contributes, on held-out training people.

The map is fitted on 70% of the training people; income (boosting head), sex (class-weighted boosting, balanced
accuracy) and three tasks that nobody named are scored on the other 30%. No test or validation person is looked at.
`python studies/transport_choices.py` prints the tables of docs/transport.md; five minutes on one core. The last one is
the income accuracy that no answer can exceed whose share of yes differs between the sexes by so much: the best
thresholds per sex on the scores of boosting on everything, sex included.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import balanced_accuracy_score

from fedveil.data import Split, load
from fedveil.shields.drop_columns import table_columns
from fedveil.shields.transport import MapSettings, fit_chart

TASKS = ("long-hours", "professional", "education-10")
THREE = {"education": 1.0, "capital-loss": 1.0, "capital-gain": 1.0}
TWO = {"capital-loss": 1.0, "capital-gain": 1.0}
ALIGNED = {"capital-loss": 0.967, "capital-gain": 0.967}
NAMES = ("age", "workclass", "marital-status", "relationship", "occupation", "race", "hours-per-week")
EQUAL = {**dict.fromkeys(NAMES, 1.0), "native-country": 0.0, "fnlwgt": 0.0}
LEAN: dict[str, Any] = {"codes": 150, "temperature": 0.3, "direction_weight": 5.0}
FEW = {**dict.fromkeys(NAMES, 0.0), "occupation": 0.2, "hours-per-week": 0.2, "native-country": 0.0}
CODED = {**FEW, "capital-gain": 8.0, "capital-loss": 4.0, "education": 2.0}

SETTINGS: dict[str, dict[str, Any]] = {
    "education, gain, loss stay; columns weigh alike, no directions": {
        "keep": THREE,
        "weights": EQUAL,
        "directions": 0,
    },
    "… columns weigh by importance": {"keep": THREE, "directions": 0},
    "… and three common directions": {"keep": THREE},
    "… 500 codes (the form of strength .97)": {"keep": THREE, "codes": 500},
    "gain, loss stay; education coded": {"keep": TWO, "strength": 0.99, **LEAN},
    "… and guesses at gain and loss": {"keep": TWO, "strength": 0.99, "guess_weight": 10.0, **LEAN},
    "… gain and loss seven tenths aligned (.99)": {"keep": ALIGNED, "strength": 0.99, "guess_weight": 10.0, **LEAN},
    "… the same without guesses": {"keep": ALIGNED, "strength": 0.99, **LEAN},
    "nothing stays (1)": {
        "weights": CODED,
        "strength": 1.0,
        "codes": 200,
        "temperature": 0.1,
        "direction_weight": 1.0,
    },
}


def ceiling(scores: np.ndarray, truth: np.ndarray, u: np.ndarray, gap: float) -> float:
    """Return the best accuracy of thresholds per value of u whose shares of yes differ by at most `gap`."""
    right = []
    for value in (0, 1):
        order = np.argsort(-scores[u == value])
        labels = truth[u == value][order]
        # With the first k people predicted yes and the rest no: the number of correct predictions.
        correct = (
            np.concatenate([[0], np.cumsum(labels)])
            + (labels == 0).sum()
            - np.concatenate([[0], np.cumsum(labels == 0)])
        )
        grid = np.round(np.linspace(0, 1, 1001) * len(labels)).astype(int)
        right.append(correct[grid])
    reach = round(gap * 1000)
    both = [right[0][k] + right[1][max(0, k - reach) : k + reach + 1].max() for k in range(1001)]
    return float(max(both)) / len(truth)


def main() -> None:
    """Print one line for each setting."""
    data = load("adult", target="income", sensitive="sex", seed=0)
    rows = np.random.default_rng(0).permutation(data.rows(Split.TRAIN))
    fit, held = rows[: int(0.7 * len(rows))], rows[int(0.7 * len(rows)) :]
    x, u = data.x.astype(np.float64), data.attribute("sex").codes
    labels = {task: data.label(task).codes for task in ("income", *TASKS)}

    def score(shown: np.ndarray, title: str) -> None:
        def right(truth: np.ndarray, **how: Any) -> tuple[np.ndarray, np.ndarray]:
            fit_rows, asked = fit[truth[fit] >= 0], held[truth[held] >= 0]  # some people's occupation is not known
            model = HistGradientBoostingClassifier(max_iter=120, learning_rate=0.08, random_state=0, **how)
            return truth[asked], model.fit(shown[fit_rows], truth[fit_rows]).predict(shown[asked])

        def kept(truth: np.ndarray, guesses: np.ndarray) -> float:
            prior = float(np.bincount(truth).max()) / len(truth)
            return (float((truth == guesses).mean()) - prior) / (1 - prior)

        truth, guesses = right(labels["income"])
        mean = np.mean([kept(*right(labels[task])) for task in TASKS])
        sex = balanced_accuracy_score(*right(u, class_weight="balanced"))
        print(f"{title:66s} income {(truth == guesses).mean():.4f}  sex {sex:.4f}  kept {mean:.3f}", flush=True)

    names = table_columns(data)
    score(x, "all columns, raw")
    score(np.where(np.isin(names, [*THREE, "education-num"]), x, 0.0), "education, gain, loss alone, raw")
    for title, settings in SETTINGS.items():
        chart = fit_chart(x[fit], names, u[fit], 2, MapSettings(**{"strength": 0.97, "codes": 400, **settings}), 0)
        shown = np.zeros_like(x)
        for part in (fit, held):
            shown[part] = chart.move(x[part], u[part], torch.Generator().manual_seed(0)).x
        score(shown, title)
    everything = np.column_stack([x, u])
    model = HistGradientBoostingClassifier(max_iter=120, learning_rate=0.08, random_state=0)
    scores = model.fit(everything[fit], labels["income"][fit]).decision_function(everything[held])
    for gap in (0.0, 0.01, 0.03, 0.05, 0.1, 1.0):
        print(
            f"shares of yes differ by at most {gap:4.2f}: {ceiling(scores, labels['income'][held], u[held], gap):.4f}"
        )


if __name__ == "__main__":
    main()
