"""What a classifier's outputs tell: honesty, what G and retrained attackers read, entropies, curves, joint tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fedveil.attacks.fresh import enough
from fedveil.core.measures import share_right
from fedveil.data import Split
from fedveil_papers.curious.measuring import measure

if TYPE_CHECKING:
    from fedveil.audit.outputs import Outputs
    from fedveil.data import AttributeData
    from fedveil_papers.curious import Classifier

Codes = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

BINS = 40
"""How finely Figure 8 counts entropies, from 0 to log2 Y bits."""

POINTS = 100
"""How many points of a ROC curve are kept."""


def told_of(
    classifier: Classifier, data: AttributeData, name: str, judges: Mapping[str, Any], seed: int
) -> dict[str, Any]:
    """Return what the maker's G reads of test people's outputs, and what retrained attackers do.

    F overfits its training people, whose outputs look unlike others'. If `fresh`, attackers who learn from test
    people (each half's from the other half) are tried beside those who learn from the training people.
    """
    outputs = classifier.outputs(data, Split.TEST)
    test = outputs.take(outputs.secrets[name].known)
    fresh = bool(judges["fresh"]) and enough(test.secrets[name], test.groups)  # else the row says so
    found = measure(classifier, data, name, **{**judges, "fresh": fresh}, seed=seed)
    secret, guesses = test.secrets[name], classifier.guesses(test, name)
    recalls = [float((guesses == code)[secret.codes == code].mean()) for code in np.unique(secret.codes)]
    worst = found.judgement.worst
    return {
        "S": len(secret.values),
        "own": share_right(guesses == secret.codes, test.groups, seed=seed).as_dict(),
        "own_balanced": sum(recalls) / len(recalls),
        "prior": found.judgement.prior.as_dict(),
        "fresh": fresh,
        "attacker": worst.name,
        "accuracy": worst.accuracy.as_dict(),
        "balanced": worst.balanced_accuracy.as_dict(),
        "information": found.judgement.mutual_information_bits.as_dict(),
    }


def mean_entropy(outputs: Outputs) -> dict[str, float]:
    """Return the mean entropy of outputs in bits, with the normal interval of a mean."""
    held = outputs.entropies
    point, error = float(held.mean()), float(held.std(ddof=1)) / len(held) ** 0.5
    return {"estimate": point, "low": point - 1.96 * error, "high": point + 1.96 * error}


def histogram(outputs: Outputs) -> list[float]:
    """Return the shares of outputs in bins of entropy, from 0 to log2 Y bits."""
    counts = np.histogram(outputs.entropies, BINS, (0, np.log2(len(outputs.y.values)) + 1e-9))[0]
    return [float(one) for one in counts / counts.sum()]


def own_scores(classifier: Classifier, outputs: Outputs, secret: str) -> Floats:
    """Return what the maker's attack thresholds: the entropy, or the margin of G's scores."""
    import torch

    if secret in classifier.thresholds:
        return outputs.entropies
    with torch.no_grad():
        logits = classifier.attacks[secret](torch.as_tensor(outputs.scores, dtype=torch.float32))
    return margin(logits.numpy())


def joint(data: AttributeData, secret: str) -> dict[str, Any]:
    """Return p(s, y) among training people and their mutual information in bits (Table 1A)."""
    from fedveil.core.entropy import mutual_information
    from fedveil.data import Split

    assert data.y is not None
    rows, s = data.rows(Split.TRAIN), data.attribute(secret)
    table = np.zeros((len(s.values), len(data.y.values)))
    np.add.at(table, (s.codes[rows], data.y.codes[rows]), 1.0)
    table /= table.sum()
    return {"joint": table.tolist(), "information": mutual_information(table)}


def margin(scores: Floats) -> Floats:
    """Return by how much the second of two scores is higher."""
    return np.asarray(scores[:, 1] - scores[:, 0], dtype=np.float64)


def roc(codes: Codes, scores: Floats) -> dict[str, Any]:
    """Return a ROC curve, thinned, and the area under the whole of it."""
    from sklearn.metrics import roc_auc_score, roc_curve

    wrong, right, _ = roc_curve(codes, scores)
    places = np.unique(np.linspace(0, len(wrong) - 1, POINTS).round().astype(int))
    area = float(roc_auc_score(codes, scores))
    return {"area": area, "wrong": wrong[places].tolist(), "right": right[places].tolist()}
