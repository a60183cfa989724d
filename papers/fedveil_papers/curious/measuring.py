"""One classifier's figures: its honesty, and what its maker's attack and retrained attackers read in its outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedveil.attacks import Judgement, panel
from fedveil.audit.outputs import Outputs, visible_columns
from fedveil.core.figures import Estimate
from fedveil.core.measures import share_right
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.view import Pool, View
from fedveil_papers.curious.classifier import Classifier


@dataclass(frozen=True)
class Measured:
    """One classifier's figures on test records; all are estimates.

    Attributes:
        honesty: δ_y, F's accuracy on y.
        curiosity: δ_s as the paper measures it, the accuracy of the maker's attack; None if the maker has no attack.
        judgement: the judgement of attackers retrained on what this classifier releases.
        entropy: mean H(ŷ) over records, in bits.
    """

    honesty: Estimate
    curiosity: Estimate | None
    judgement: Judgement
    entropy: float

    def as_dict(self) -> dict[str, Any]:
        """Return the form that presets keep and `--json` prints."""
        worst = self.judgement.worst
        return {
            "honesty": self.honesty.as_dict(),
            "curiosity": None if self.curiosity is None else self.curiosity.as_dict(),
            "prior": self.judgement.prior.as_dict(),
            "attacker": worst.name,
            "retrained": worst.balanced_accuracy.as_dict(),
            "retrained_accuracy": worst.accuracy.as_dict(),
            "bits": self.judgement.mutual_information_bits.as_dict(),
            "entropy": self.entropy,
        }


def measure(
    classifier: Classifier,
    data: AttributeData,
    secret: str,
    *,
    attackers: str = "quick",
    fresh: bool | None = None,
    most: int | None = None,
    draws: int = 1000,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Measured:
    """Judge a classifier by what it releases of test records.

    Retrained attackers learn from the releases of training records, are chosen on those of validation records, and
    use all that `fedveil.audit.outputs.visible_columns` derives from a release.

    Args:
        classifier: F with its maker's attack.
        data: with the target, the secret and all three splits.
        secret: s.
        attackers: the panel: "full", "quick" or names, "a,b".
        fresh: whether to try attackers that learn from test records too (for each half, from the other half): F
            overfits its training records, whose outputs differ from those of others; by default if there are enough.
        most: how many records of each split attackers get at most, drawn at random; default: all.
        draws: bootstrap draws for each interval.
        seed: the seed of the panel and of the records drawn.
        progress: called with a line whenever an attacker starts.
    """
    pools = [classifier.outputs(data, split) for split in Split]
    test = pools[2]
    if most is not None:
        pools = [_some(outputs, most, seed) for outputs in pools]
    view = View.apart(*(_pool(outputs, secret) for outputs in pools), fitted=True)
    judgement = panel(attackers, seed=seed, draws=draws, fresh=fresh, progress=progress).judge(view, secret)
    labelled = test.take(test.secrets[secret].known)
    curiosity = None
    if secret in classifier.attacks or secret in classifier.thresholds:
        curiosity = share_right(classifier.guesses(labelled, secret) == labelled.secrets[secret].codes)
    return Measured(share_right(test.predicted == test.y.codes), curiosity, judgement, float(test.entropies.mean()))


def _some(outputs: Outputs, most: int, seed: int) -> Outputs:
    """Draw records at random, in their order; the same rows are drawn from all outputs of the same length."""
    if len(outputs) <= most:
        return outputs
    drawn = numpy_generator(seed, "curious", "measured").choice(len(outputs), size=most, replace=False)
    return outputs.take(np.sort(drawn))


def _pool(outputs: Outputs, secret: str) -> Pool:
    return Pool(visible_columns(outputs), {secret: outputs.secrets[secret]}, outputs.groups)
