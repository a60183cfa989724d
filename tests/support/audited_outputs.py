"""Outputs of classifiers trained on synthetic data, and codes whose information about s is known exactly."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.linear_model import LogisticRegression

from fedveil.audit.outputs import Outputs
from fedveil.data import Split, load
from fedveil.data.attribute import Attribute


def trained(n: int, *, overlap: float = 0.0, curious: bool = False, bits: float = 0.9, seed: int = 0) -> Outputs:
    """Train a classifier for y on half of the data, and return its outputs on n other records.

    Args:
        n: the number of records.
        overlap: how often y is a function of s.
        curious: whether a classifier for s is mixed into the outputs.
        bits: the information about s in the inputs.
        seed: of the data.
    """
    data = load("synthetic", target="y", sensitive="u", n=2 * n, bits=bits, overlap=overlap, test=0.5, seed=seed)
    learn, answer = (data.rows(split) for split in (Split.TRAIN, Split.TEST))
    secret = data.attributes["u"]
    z_y, z_s = (
        LogisticRegression().fit(data.x[learn], label.codes[learn]).predict_proba(data.x[answer])
        for label in (data.y, secret)
    )
    scores = 0.75 * z_y + 0.25 * z_s if curious else z_y
    return Outputs(scores, False, data.y.take(answer), {"u": secret.take(answer)})


def coded(n: int, error: float, seed: int, groups: int | None = None) -> Outputs:
    """Encode s, wrong with a given probability, in how certain the scores are: I(s; scores | y, ŷ) = 1 − H₂(error)."""
    rng = np.random.default_rng(seed)
    s, y = rng.integers(0, 2, (2, n))
    predicted = np.where(rng.random(n) < 0.1, 1 - y, y)
    shown = np.where(rng.random(n) < error, 1 - s, s)
    certain = np.where(shown, 0.95, 0.7)
    first = np.where(predicted == 0, certain, 1 - certain)
    group = None if groups is None else rng.integers(0, groups, n)
    return Outputs(
        np.stack([first, 1 - first], axis=1),
        False,
        Attribute("y", y, ("0", "1")),
        {"s": Attribute("s", s, ("f", "m"))},
        group,
    )


def as_table(outputs: Outputs) -> pd.DataFrame:
    """Return outputs as a vendor's table: p0, p1, …, the target, and the attributes by their values' names."""
    table = {f"p{k}": outputs.scores[:, k] for k in range(outputs.scores.shape[1])}
    table["y"] = np.array(outputs.y.values)[outputs.y.codes]
    for name, secret in outputs.secrets.items():
        table[name] = np.array(secret.values)[secret.codes]
    return pd.DataFrame(table)
