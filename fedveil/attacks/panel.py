"""The panel: several attackers of different kinds; the strongest is chosen on validation and scored on victims."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import ndtr

from fedveil.attacks.attack import Attack
from fedveil.attacks.fresh import CrossTrial, check_enough
from fedveil.attacks.judgement import FRESH, Beyond, Judgement
from fedveil.attacks.trial import Question, Trial
from fedveil.core import plugins
from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.measures import chance_error, detectable_advantage, interval
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.view import Pool, View

FULL = ("logistic", "mlp-small", "mlp-large", "rbf-svm", "forest", "boosting")
"""The attackers of `panel("full")`."""
QUICK = ("logistic", "mlp-small", "boosting")
"""The attackers of `panel("quick")`, for demonstrations."""


@dataclass(frozen=True)
class Panel:
    """Attackers by name ("fedveil.attacks" entry points), and how they are judged.

    Every attacker is trained on the auxiliary pool, calibrated and ranked by balanced accuracy on the validation
    pool, and scored on victims that it has never seen. All figures are estimates.

    Attributes:
        attackers: names of the attackers to try.
        seed: all randomness derives from it.
        draws: bootstrap draws for each interval.
        confidence: level of the intervals, shared among the attributes that are judged together.
        device: where networks are trained.
        fresh: also train every attacker on fresh people: see `fedveil.attacks.fresh`. Of the attacker chosen from
            the panel and the one chosen from the fresh ones, the one that guesses the victims better counts. Since
            two are compared, all intervals are at 1 − (1 − confidence) / 2 and the p-value is doubled (Bonferroni).
        progress: called with a line of text whenever an attacker starts.
    """

    attackers: tuple[str, ...] = FULL
    seed: int = 0
    draws: int = 1000
    confidence: float = 0.95
    device: str = "auto"
    fresh: bool = False
    progress: Callable[[str], None] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if not self.attackers:
            raise InputError("panel: no attackers; name at least one")
        if self.draws < 100 or not 0 < self.confidence < 1:
            raise InputError(f"panel: draws must be at least 100 (got {self.draws}), confidence in (0, 1)")

    def judge(self, view: View, attribute: str | None = None) -> Judgement:
        """Judge one attribute; if none is named, the view must have only one."""
        if attribute is None:
            if len(view.attribute_names) != 1:
                raise InputError(f"name the attribute to judge, one of: {', '.join(view.attribute_names)}")
            attribute = view.attribute_names[0]
        return self._judge(view, attribute, self.confidence)

    def judge_all(self, view: View) -> list[Judgement]:
        """Judge every attribute of the view together, worst first.

        The intervals hold simultaneously (Bonferroni: each at 1 − (1 − confidence) / m), and the
        p-values are adjusted by Holm's step-down rule.
        """
        names = view.attribute_names
        for name in names:
            view.about(name)  # refuse what cannot be judged before minutes are spent on the rest
        level = 1 - (1 - self.confidence) / len(names)
        judgements = [self._judge(view, name, level) for name in names]
        adjusted = holm([judgement.p_value for judgement in judgements])
        corrected = [replace(j, adjusted_p_value=p) for j, p in zip(judgements, adjusted, strict=True)]
        return sorted(corrected, key=lambda judgement: -judgement.worst.advantage.estimate)

    def _judge(self, view: View, attribute: str, confidence: float) -> Judgement:
        looks = 2 if self.fresh else 1
        confidence = 1 - (1 - confidence) / looks
        pools = (view.auxiliary, view.validation, view.victims)
        labelled = view.about(attribute)
        labels = labelled.victims.attributes[attribute]
        sizes = (len(labelled.auxiliary), len(labelled.validation), len(labelled.victims))
        classes, groups = len(labels.values), labelled.victims.groups
        trials = self._try_all(labelled, attribute, _everything)
        if labelled.victims.given is not None:  # further columns can also mislead, so some attackers ignore them
            trials += self._try_all(labelled, attribute, _vectors_only, " (vectors alone)")
        ranked = sorted(trials, key=lambda trial: -trial.validation_balanced_accuracy)
        others = self._try_fresh(labelled, attribute) if self.fresh else []
        informed = max(trials, key=lambda trial: trial.validation_information)
        beyond = None
        if labelled.victims.given is not None:
            baseline = self._try_all(labelled, attribute, _given_only)
            beyond = _beyond(ranked[0], informed, baseline, confidence, view.given_names)
        chosen, ranked = ranked[0], _counted(ranked, others)
        worst_draws = ranked[0].draws["balanced_accuracy"]
        error = max(float(np.nanstd(worst_draws[1:])), chance_error(labels.codes, classes, groups))
        p_value = min(1.0, looks * float(ndtr((1 / classes - worst_draws[0]) / error)))
        return Judgement(
            attribute=attribute,
            classes=labels.values,
            n=sizes,
            unlabelled=sum(map(len, pools)) - sum(sizes),
            groups=None if groups is None else len(np.unique(groups)),
            prior=interval(ranked[0].draws["prior"], confidence),
            attackers=tuple(trial.figures(confidence) for trial in ranked),
            validation_leakage=chosen.on_validation(confidence),
            mutual_information_bits=interval(informed.draws["mutual_information_bits"], confidence),
            mutual_information_attacker=informed.name,
            detectable_advantage=detectable_advantage(labels.codes, classes, groups, confidence),
            p_value=p_value,
            adjusted_p_value=p_value,
            confidence=confidence,
            seed=self.seed,
            beyond=beyond,
            draws={name: ranked[0].draws[name] for name in ("balanced_accuracy", "accuracy")},
        )

    def _try_fresh(self, view: View, attribute: str) -> list[Trial]:
        """Try every attacker on people on whom the defence was never fitted; the chosen one comes first."""
        check_enough(view.victims, attribute)
        crossed = CrossTrial(self.seed, self.draws, lambda: numpy_generator(self.seed, "bootstrap", attribute))
        trials = []
        for name in self.attackers:
            if self.progress:
                self.progress(f"{attribute}: {name}{FRESH}")
            trials.append(crossed.run(name, self._maker(view, attribute, name), view, attribute, _everything))
        return sorted(trials, key=lambda trial: -trial.validation_balanced_accuracy)

    def _maker(self, view: View, attribute: str, name: str) -> Callable[[], Attack]:
        kind = plugins.load("fedveil.attacks", name, Attack)
        view.require(kind.needs, f"attacker {name!r}")
        return lambda: kind(seed=child_seed(self.seed, "attack", attribute, name), device=self.device)

    def _try_all(self, view: View, attribute: str, look: Callable[[Pool], FloatArray], note: str = "") -> list[Trial]:
        question = Question.ask(view, attribute, look)
        trials = []
        for name in self.attackers:
            if self.progress:
                self.progress(f"{attribute}: {name}")
            attack = self._maker(view, attribute, name)()
            # All attackers on an attribute share the same draws, so that differences are paired.
            rng = numpy_generator(self.seed, "bootstrap", attribute)
            trials.append(Trial.run(name + note, attack, question, self.draws, rng))
        return trials


def panel(kind: str | Sequence[str] = "full", **settings: object) -> Panel:
    """Return a panel: "full", "quick" (three attackers, for demos), or attackers by name, as a list or "a,b"."""
    presets = {"full": FULL, "quick": QUICK}
    listed = presets.get(kind) or kind.split(",") if isinstance(kind, str) else kind
    names = list(dict.fromkeys(name.strip() for name in listed))
    registered = plugins.registered("fedveil.attacks")
    for name in names:
        if name not in registered:
            raise InputError(f"panel: {name!r} is not an attacker: {nearest(name, [*presets, *registered])}")
    return Panel(attackers=tuple(names), **settings)  # type: ignore[arg-type]


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values by Holm's step-down rule, in the order given.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    adjusted, running = np.empty(len(p_values)), 0.0
    for rank, index in enumerate(order):
        running = max(running, min(1.0, (len(order) - rank) * p_values[index]))
        adjusted[index] = running
    return [float(p) for p in adjusted]


def _counted(ranked: list[Trial], fresh: list[Trial]) -> list[Trial]:
    """Return all trials, with the one that counts first: of the two chosen ones, the one that guesses better."""
    chosen = max([*ranked[:1], *fresh[:1]], key=lambda trial: float(trial.draws["balanced_accuracy"][0]))
    return [chosen, *(trial for trial in (*ranked, *fresh) if trial is not chosen)]


def _everything(pool: Pool) -> FloatArray:
    return pool.vectors if pool.given is None else np.hstack([pool.given, pool.vectors])


def _vectors_only(pool: Pool) -> FloatArray:
    return pool.vectors


def _given_only(pool: Pool) -> FloatArray:
    assert pool.given is not None
    return pool.given


def _beyond(
    worst: Trial, informed: Trial, baseline: list[Trial], confidence: float, columns: tuple[str, ...]
) -> Beyond:
    """Compare with attackers that saw only the given columns; all draws are shared, so differences are paired."""
    strongest = max(baseline, key=lambda trial: trial.validation_balanced_accuracy)
    best_informed = max(baseline, key=lambda trial: trial.validation_information)
    added = {name: worst.draws[name] - strongest.draws[name] for name in ("balanced_accuracy", "auc")}
    bits = "raw_information"
    conditional = np.maximum(informed.draws[bits] - best_informed.draws[bits], 0)
    return Beyond(
        columns=columns,
        baseline=strongest.figures(confidence),
        balanced_accuracy=interval(added["balanced_accuracy"], confidence),
        auc=interval(added["auc"], confidence),
        mutual_information_bits=interval(conditional, confidence),
    )
