"""From the trials of all attackers to the judgement: which figure counts, and with what interval."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from fedveil.attacks.judgement import FRESH, AttackerFigures, Beyond, Judgement
from fedveil.attacks.p_values import p_value_of_largest
from fedveil.attacks.strongest import largest, level_of, quantile_of_largest
from fedveil.attacks.trial import Trial
from fedveil.core.figures import Estimate
from fedveil.core.measures import detectable_advantage, interval
from fedveil.view import View

GIVEN = " (given columns alone)"
"""Ends the name of an attacker that saw only what it had been given beforehand."""

VECTORS_ALONE = " (vectors alone)"
"""Ends the name of an attacker that ignored what it had been given."""


@dataclass(frozen=True, eq=False)
class Findings:
    """All attackers' trials on one attribute.

    Attributes:
        view: what the observer saw, narrowed to the attribute.
        attribute: its name.
        trials: of all attackers; some may have seen only the given columns, which an observer is free to do.
        confidence: the level of the intervals.
        seed: of the p-values' permutations, and reported.
    """

    view: View
    attribute: str
    trials: list[Trial]
    confidence: float
    seed: int

    @cached_property
    def figures(self) -> list[AttackerFigures]:
        """Each attacker's figures, with intervals for that attacker alone."""
        return [trial.figures(self.confidence) for trial in self.trials]

    def largest(self, measure: str) -> tuple[Trial, Estimate]:
        """Return the trial whose figure is largest, and that figure; see `fedveil.attacks.strongest`."""
        estimates = [getattr(figures, measure) for figures in self.figures]
        # bits are clipped at 0, so their errors are those of the bits before clipping
        source = "raw_information" if measure == "mutual_information_bits" else measure
        first, estimate = largest(estimates, [trial.draws[source] for trial in self.trials], self.confidence)
        estimate = replace(estimate, low=max(0.0, estimate.low)) if source != measure else estimate
        return self.trials[first], estimate

    @cached_property
    def strongest(self) -> Trial:
        """The trial with the largest balanced accuracy on victims."""
        return self.largest("balanced_accuracy")[0]

    def judgement(self) -> Judgement:
        """Return the judgement, the strongest attacker first."""
        victims, confidence = self.view.victims, self.confidence
        labels, groups = victims.attributes[self.attribute], victims.groups
        informed, bits = self.largest("mutual_information_bits")
        listed = sorted(self.figures, key=lambda figures: -figures.balanced_accuracy.estimate)
        worst = replace(
            self.figures[self.trials.index(self.strongest)],
            balanced_accuracy=self.largest("balanced_accuracy")[1],
            advantage=self.largest("advantage")[1],
        )
        by_panel = [trial for trial in self.trials if not trial.name.endswith(FRESH)]
        chosen = max(by_panel, key=lambda trial: trial.validation_balanced_accuracy)
        p_value = p_value_of_largest(self.trials, groups, self.seed)
        auxiliary, validation, attacked = map(len, self.view.pools)
        return Judgement(
            attribute=self.attribute,
            classes=labels.values,
            n=(auxiliary, validation, attacked),
            unlabelled=0,
            groups=None if groups is None else len(np.unique(groups)),
            prior=interval(self.strongest.draws["prior"], confidence),
            attackers=(worst, *(figures for figures in listed if figures.name != worst.name)),
            chosen=chosen.figures(confidence),
            validation_leakage=_on_validation(chosen, by_panel, confidence),
            mutual_information_bits=bits,
            mutual_information_attacker=informed.name,
            detectable_advantage=detectable_advantage(labels.codes, len(labels.values), groups, self._level()),
            p_value=p_value,
            adjusted_p_value=p_value,
            confidence=confidence,
            seed=self.seed,
            beyond=self._beyond() if self.view.victims.given is not None else None,
            learned_from=self.strongest.attempt.learned_from,
            draws={name: self.strongest.draws[name] for name in ("balanced_accuracy", "accuracy")},
        )

    def _level(self) -> float:
        """Return the level of one attacker's interval at which all hold together."""
        return level_of(quantile_of_largest([t.draws["balanced_accuracy"] for t in self.trials], self.confidence))

    def _beyond(self) -> Beyond:
        """Compare with attackers that saw only the given columns; all draws are shared, so differences are paired.

        The baseline is chosen on validation: the largest of several would make what the vectors add look smaller.
        The intervals do not pay for the choice of the other.
        """
        baseline = [trial for trial in self.trials if trial.name.endswith(GIVEN)]
        seeing = [trial for trial in self.trials if trial not in baseline]
        worst = max(seeing, key=lambda trial: float(trial.draws["balanced_accuracy"][0]))
        informed = max(seeing, key=lambda trial: float(trial.draws["raw_information"][0]))
        strongest = max(baseline, key=lambda trial: trial.validation_balanced_accuracy)
        best_informed = max(baseline, key=lambda trial: trial.validation_information)
        added = {name: worst.draws[name] - strongest.draws[name] for name in ("balanced_accuracy", "auc")}
        bits = "raw_information"
        conditional = np.maximum(informed.draws[bits] - best_informed.draws[bits], 0)
        return Beyond(
            columns=self.view.given_names,
            baseline=replace(strongest.figures(self.confidence), name=strongest.name.removesuffix(GIVEN)),
            balanced_accuracy=interval(added["balanced_accuracy"], self.confidence),
            auc=interval(added["auc"], self.confidence),
            mutual_information_bits=interval(conditional, self.confidence),
        )


def _on_validation(chosen: Trial, trials: list[Trial], confidence: float) -> Estimate:
    """Return the largest figure on validation people: its lower end by Bonferroni, its upper end the largest of all."""
    corrected = chosen.on_validation(1 - (1 - confidence) / len(trials))
    high = max(trial.on_validation(confidence).high for trial in trials)
    return Estimate(corrected.estimate, corrected.low, high, confidence)
