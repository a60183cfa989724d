"""Standard classifiers by scikit-learn with its default settings, as vendors use it; raw scores are log p."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from fedveil.audit.outputs import Outputs
from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError
from fedveil.data.attribute_data import AttributeData, Split


def by_scikit_learn(maker: str, raw: bool, data: AttributeData, seed: int) -> Callable[[Split], Outputs]:
    """Fit "logistic", "boosting" or "forest" on training records; return what it answers of a split's people."""
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression

    kinds: dict[str, Any] = {
        "logistic": lambda: LogisticRegression(max_iter=500),
        "boosting": lambda: HistGradientBoostingClassifier(random_state=seed),
        "forest": lambda: RandomForestClassifier(random_state=seed),
    }
    assert data.y is not None
    y = data.y
    rows = data.rows(Split.TRAIN)
    if len(np.unique(y.codes[rows])) < len(y.values):
        raise InputError(f"{data.name}: a value of {y.name!r} has no training record; take more records")
    fitted = kinds[maker]().fit(_flat(data.x[rows]), y.codes[rows])

    def outputs(split: Split) -> Outputs:
        own = data.rows(split)
        scores: FloatArray = fitted.predict_proba(_flat(data.x[own])).astype(np.float64)
        if raw:
            scores = np.log(np.maximum(scores, 1e-12))
        secrets = {name: held.take(own) for name, held in data.attributes.items()}
        groups = None if data.groups is None else data.groups[own]
        return Outputs.checked(scores, raw, y.take(own), secrets, groups)

    return outputs


def _flat(x: Any) -> Any:
    return x.reshape(len(x), -1)
