"""The panel: several attackers of different kinds; the largest figure on victims counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock

import numpy as np

from fedveil.attacks.attack import Attack
from fedveil.attacks.findings import GIVEN, VECTORS_ALONE, Findings
from fedveil.attacks.fresh import WORTHWHILE, Halves, check_enough, enough, some_people
from fedveil.attacks.judgement import FRESH, Judgement
from fedveil.attacks.p_values import holm
from fedveil.attacks.trial import Attempt, Question, Trial, attempted, measured
from fedveil.core import plugins
from fedveil.core.arrays import FloatArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.randomness import child_seed, numpy_generator
from fedveil.core.threads import side_by_side, usable_cores
from fedveil.view import Pool, View

FULL = ("logistic", "mlp-small", "mlp-large", "rbf-svm", "forest", "boosting", "look-up")
"""The attackers of `panel("full")`."""
QUICK = ("logistic", "mlp-small", "boosting", "look-up")
"""The attackers of `panel("quick")`, for demonstrations."""

_MANY_NUMBERS = 25_000_000
"""With more numbers than these (100 MB), attackers run one after the other unless `workers` says otherwise."""

_LONGEST = {"forest": 5, "boosting": 4, "rbf-svm": 3, "mlp-large": 2, "mlp-small": 1}
"""Attackers that take long start first, so that none is left running alone at the end."""

Look = Callable[[Pool], FloatArray]
"""Which part of each vector an attacker sees."""


@dataclass(frozen=True)
class Panel:
    """Attackers by name ("fedveil.attacks" entry points), and how they are judged.

    Every attacker is trained on the auxiliary pool, calibrated on the validation pool, and scored on victims that it
    has never seen. The largest figure on victims is the headline, with an interval that holds although the largest
    was taken (`fedveil.attacks.strongest`); the attacker chosen on validation stands beside it, and only its figure on
    validation people may decide between releases. All figures are estimates.

    Attributes:
        attackers: names of the attackers to try.
        seed: all randomness derives from it.
        draws: bootstrap draws for each interval.
        confidence: level of the intervals, shared among the attributes that are judged together.
        device: where networks are trained.
        fresh: also train every attacker on fresh people: see `fedveil.attacks.fresh`. By default they are tried if
            what made the vectors was fitted on the auxiliary people and there are enough others.
        workers: how many attackers are trained at a time, each on one thread; default: one for every usable core, but
            one alone if the vectors hold over 25 million numbers, for the sake of memory. Figures do not depend on it.
        progress: called with a line of text whenever an attacker starts.
    """

    attackers: tuple[str, ...] = FULL
    seed: int = 0
    draws: int = 1000
    confidence: float = 0.95
    device: str = "auto"
    fresh: bool | None = None
    workers: int | None = field(default=None, compare=False)
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

    def tries_fresh(self, view: View, attribute: str) -> bool:
        """Return whether attackers that learn from fresh people are tried as well."""
        victims = view.victims
        if self.fresh is None:
            return view.fitted and enough(victims.attributes[attribute], victims.groups, WORTHWHILE)
        if self.fresh:
            check_enough(victims, attribute)
        return self.fresh

    def _judge(self, view: View, attribute: str, confidence: float) -> Judgement:
        labelled = view.about(attribute)
        fresh = self.tries_fresh(labelled, attribute)
        looks: list[tuple[Look, str]] = [(_everything, "")]
        if labelled.victims.given is not None:  # further columns can also mislead, so some attackers ignore them
            looks += [(_vectors_only, VECTORS_ALONE), (_given_only, GIVEN)]
        trials = self._try_all(labelled, attribute, looks, fresh)
        findings = Findings(
            view=labelled,
            attribute=attribute,
            trials=trials,
            confidence=confidence,
            seed=self.seed,
        )
        return replace(
            findings.judgement(),
            unlabelled=sum(map(len, view.pools)) - sum(map(len, labelled.pools)),
            from_half=self._from_half(labelled, attribute, findings.strongest),
            notes=self._notes(labelled, attribute, trials),
        )

    def _try_all(self, view: View, attribute: str, looks: Sequence[tuple[Look, str]], fresh: bool) -> list[Trial]:
        """Try every attacker on every look, and on fresh people; all by the same draws, so differences are paired."""
        jobs: list[Callable[[], Attempt]] = []
        said = _Said(self.progress)
        for look, note in looks:
            question = Question.ask(view, attribute, look)
            for name in self.attackers:
                make = self._maker(view, attribute, name)
                jobs.append(said.before(f"{attribute}: {name}", partial(_attempted, name + note, make, question)))
        halves = self._halves(view, attribute) if fresh else None
        if halves is not None:
            for name in self.attackers:
                make = self._maker(view, attribute, name)
                jobs.append(said.before(f"{attribute}: {name}{FRESH}", partial(halves.attempt, name, make)))
        names = self.attackers * (len(looks) + (halves is not None))
        order = sorted(range(len(jobs)), key=lambda job: _LONGEST.get(names[job], 0), reverse=True)
        done = side_by_side([jobs[job] for job in order], self._workers(view))
        attempts = [attempt for _, attempt in sorted(zip(order, done, strict=True), key=lambda pair: pair[0])]
        rng = numpy_generator(self.seed, "bootstrap", attribute)
        return measured(attempts, view.victims.groups, self.draws, rng)

    def _halves(self, view: View, attribute: str) -> Halves | None:
        """Return the halves of the victims; None if nobody insisted on them and whole groups cannot be halved."""
        try:
            return Halves.of(view, attribute, _everything, self.seed)
        except InputError:
            if self.fresh:
                raise
            return None

    def _workers(self, view: View) -> int:
        """Return how many attackers run at a time; each needs memory for its own form of the vectors."""
        numbers = sum(pool.vectors.size for pool in view.pools)
        return self.workers or (1 if numbers > _MANY_NUMBERS else usable_cores())

    def _from_half(self, view: View, attribute: str, strongest: Trial) -> float | None:
        """Return what the strongest attacker reads if it learns from half as many people; None if they lack a value."""
        name, look = strongest.name.removesuffix(FRESH), _everything
        for note, narrower in ((VECTORS_ALONE, _vectors_only), (GIVEN, _given_only)):
            if name.endswith(note):
                name, look = name.removesuffix(note), narrower
        make = self._maker(view, attribute, name)
        labels = view.victims.attributes[attribute]
        if self.progress:
            self.progress(f"{attribute}: {strongest.name}, from half as many people")
        try:
            if strongest.name.endswith(FRESH):
                job = partial(Halves.of(view, attribute, look, self.seed, share=0.5).attempt, name, make)
            else:
                seed = child_seed(self.seed, "fewer", attribute)
                fewer = replace(view, auxiliary=some_people(view.auxiliary, attribute, 0.5, seed))
                if (fewer.auxiliary.attributes[attribute].counts == 0).any():
                    return None
                job = partial(_attempted, name, make, Question.ask(fewer, attribute, look))
        except InputError:  # a half of a half lacks a value
            return None
        attempt = side_by_side([job], 1)[0]
        return float(attempt.victims.recalls[0][labels.counts > 0].mean())

    def _notes(self, view: View, attribute: str, trials: Sequence[Trial]) -> tuple[str, ...]:
        """Return what attackers left out, and why none learned from fresh people where that would be expected."""
        notes = [f"{trial.name.removesuffix(FRESH)}: {note}" for trial in trials for note in trial.attempt.notes]
        if view.fitted and self.fresh is None and not any(trial.name.endswith(FRESH) for trial in trials):
            notes.append(
                f"no attacker learned from fresh people, since some value of {attribute} has fewer than {WORTHWHILE} "
                "test people (or groups), or whole groups cannot be halved"
            )
        return tuple(dict.fromkeys(notes))

    def _maker(self, view: View, attribute: str, name: str) -> Callable[[], Attack]:
        kind = plugins.load("fedveil.attacks", name, Attack)
        view.require(kind.needs, f"attacker {name!r}")
        return lambda: kind(seed=child_seed(self.seed, "attack", attribute, name), device=self.device)


def panel(kind: str | Sequence[str] = "full", **settings: object) -> Panel:
    """Return a panel: "full", "quick" (four attackers, for demos), or attackers by name, as a list or "a,b"."""
    presets = {"full": FULL, "quick": QUICK}
    listed = presets.get(kind) or kind.split(",") if isinstance(kind, str) else kind
    names = list(dict.fromkeys(name.strip() for name in listed))
    registered = plugins.registered("fedveil.attacks")
    for name in names:
        if name not in registered:
            raise InputError(f"panel: {name!r} is not an attacker: {nearest(name, [*presets, *registered])}")
    return Panel(attackers=tuple(names), **settings)  # type: ignore[arg-type]


@dataclass(frozen=True)
class _Said:
    """Says a line before a job starts; jobs may start in several threads at once."""

    progress: Callable[[str], None] | None
    lock: Lock = field(default_factory=Lock)

    def before(self, line: str, job: Callable[[], Attempt]) -> Callable[[], Attempt]:
        def said() -> Attempt:
            if self.progress:
                with self.lock:
                    self.progress(line)
            return job()

        return said


def _attempted(name: str, make: Callable[[], Attack], question: Question) -> Attempt:
    return attempted(name, make(), question)


def _everything(pool: Pool) -> FloatArray:
    return pool.vectors if pool.given is None else np.hstack([pool.given, pool.vectors])


def _vectors_only(pool: Pool) -> FloatArray:
    return pool.vectors


def _given_only(pool: Pool) -> FloatArray:
    assert pool.given is not None
    return pool.given
