"""Students of curious teachers (Malekzadeh, Borovykh and Gündüz, CCS 2021, §5.8, Table 6), by temperature and share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.core.errors import InputError, nearest
from fedveil_papers import curious_distillation_layout as layout
from fedveil_papers.curious_case import CuriousCase
from fedveil_papers.curious_synthetic_layout import over_runs
from fedveil_papers.experiment import Kept, LaidOutExperiment, Say
from fedveil_papers.shown import PaperFigures

if TYPE_CHECKING:
    from fedveil.data import AttributeData
    from fedveil.games.curious import Curious
    from fedveil_papers.curious import Classifier

ATTACKS = ("standard", "parameterised", "regularised")


@dataclass(frozen=True)
class CuriousDistillation(LaidOutExperiment):
    """Teachers trained on a server's labelled records, students of half the size on a user's unlabelled ones.

    The first share and the first temperature are Table 6's. Every teacher is trained at the first share; the other
    shares and temperatures are tried with `swept` teachers of `swept_cases`.

    Attributes:
        cases: data sets, each with target, secret, widths and epochs (`CuriousCase`).
        attacks: how teachers are made: "standard", "parameterised", "regularised" (soft outputs; binary secrets).
        swept: which of them the other shares and temperatures are tried with.
        swept_cases: names of the cases on which they are; all if empty.
        beta_y, beta_s: the curious teachers' weights.
        shares: of the training people who are the user's; the rest are the server's.
        temperatures: t inside both softmaxes.
        student_epochs: passes over the user's records.
        student_steps: where above 0, students pass over the user's records until so many steps are done, in place of
            student_epochs: else few records would mean few steps, too.
        student_batch: records of a student's step.
        runs: how many seeds; run r trains with seed `seed` + r on the same split.
        panel: attackers that are retrained on the outputs of each teacher and student.
        fresh: whether attackers learn from test people, too, each half's from the other half.
        most: at most so many records of each split are given to attackers; all if 0.
        draws: bootstrap draws behind the intervals of retrained attackers.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "curious-distillation"
    layout: ClassVar[ModuleType] = layout
    cases: list[dict[str, Any]]
    attacks: list[str] = field(default_factory=lambda: list(ATTACKS))
    swept: list[str] = field(default_factory=lambda: ["parameterised"])
    swept_cases: list[str] = field(default_factory=list)
    beta_y: float = 0.5
    beta_s: float = 0.5
    shares: list[float] = field(default_factory=lambda: [0.2, 0.1, 0.5])
    temperatures: list[float] = field(default_factory=lambda: [1.0, 2.0, 5.0])
    student_epochs: int = 50
    student_steps: int = 0
    student_batch: int = 100
    runs: int = 5
    panel: str = "quick"
    fresh: bool = True
    most: int = 0
    draws: int = 1000
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be run."""
        from fedveil.attacks import panel

        if min(self.runs, self.student_epochs, self.student_batch) < 1 or min(self.most, self.student_steps) < 0:
            raise InputError(
                "experiment: runs, student_epochs, student_batch must be at least 1, most and student_steps 0 or more"
            )
        if not self.shares or not all(0 < share < 1 for share in self.shares):
            raise InputError(f"experiment: shares must lie in (0, 1), got {self.shares}")
        if not self.temperatures or min(self.temperatures) <= 0:
            raise InputError(f"experiment: temperatures must be above 0, got {self.temperatures}")
        for name in [*self.attacks, *self.swept]:
            if name not in ATTACKS:
                raise InputError(f"experiment: attack {name!r} is not known: choose {', '.join(ATTACKS)}")
        if "standard" not in self.attacks or not set(self.swept) <= set(self.attacks):
            raise InputError("experiment: attacks need standard, which others are compared with, and all that is swept")
        names = [case.name for case in self._cases()]
        for name in self.swept_cases:
            if name not in names:
                raise InputError(f"experiment: swept_cases: no case {name!r}: {nearest(name, names)}")
        for case in self._cases():
            case.check("experiment: cases")
            for name in self.attacks:
                self._game(case, name)
        panel(self.panel, draws=self.draws)

    def _cases(self) -> list[CuriousCase]:
        return [CuriousCase.of(told, f"experiment: cases[{place}]") for place, told in enumerate(self.cases)]

    def _game(self, case: CuriousCase, name: str) -> Curious:
        from fedveil.games.curious import Curious

        made = Curious(case.secret, output="soft", beta_y=1.0, beta_s=0.0, widths=tuple(case.widths))
        if name == "standard":
            return made
        attack: Any = name
        return replace(made, attack=attack, beta_y=self.beta_y, beta_s=self.beta_s)

    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Train and judge every teacher, with its students, that is not in the folder yet."""
        rows = []
        told: dict[str, Any] = {
            name: getattr(self, name)
            for name in (
                *("beta_y", "beta_s", "student_epochs", "student_steps", "student_batch"),
                *("panel", "fresh", "most", "draws", "seed"),
            )
        }
        for case in self._cases():
            data = cache(partial(case.load, self.seed))  # read when the first part is missing; one case at a time
            swept = self.swept if not self.swept_cases or case.name in self.swept_cases else []
            for share in self.shares:
                for name in self.attacks if share == self.shares[0] else swept:
                    alone = share != self.shares[0] or name not in swept
                    temperatures = self.temperatures[:1] if alone else self.temperatures
                    runs = []
                    for run in range(self.runs):
                        about = f"{case.name}: {name} teacher, {share:g} of the people the user's, run {run + 1}"
                        key = {"kind": self.kind, "case": case.told, "attack": name, "share": share, "run": run}
                        say(about)
                        trained = partial(self._teach, data, case, name, share, temperatures, run, say)
                        runs.append(kept.part({**key, **told, "temperatures": temperatures}, trained)["rows"])
                    rows += [
                        {"case": case.name, "secret": case.secret, "attack": name, "share": share, **row}
                        for row in over_runs(runs)
                    ]
        sizes = {case.name: {"epochs": case.epochs, "widths": case.widths, **case.options} for case in self._cases()}
        return {
            "kind": self.kind,
            "settings": {**told, "runs": self.runs},
            "cases": sizes,
            "rows": rows,
            "kept": layout.kept_of(rows),
            "paper": [dict(one) for one in paper],
        }

    def _teach(
        self,
        ready: Callable[[], AttributeData],
        case: CuriousCase,
        name: str,
        share: float,
        temperatures: list[float],
        run: int,
        say: Say,
    ) -> dict[str, Any]:
        from fedveil.data import Split
        from fedveil_papers.curious import distil, train
        from fedveil_papers.curious.distillation import dealt

        server, user = dealt(ready(), share, self.seed)
        seed = self.seed + run
        teacher = train(self._game(case, name), server, epochs=case.epochs, seed=seed)
        rows = [{"classifier": "teacher", "temperature": None, **self._judged(teacher, server, case)}]
        for temperature in temperatures:
            say(f"a student at temperature {temperature:g}")
            student = distil(
                teacher,
                user,
                temperature=temperature,
                epochs=self._epochs(len(user.rows(Split.TRAIN))),
                batch_size=self.student_batch,
                seed=seed,
            )
            rows.append({"classifier": "student", "temperature": temperature, **self._judged(student, server, case)})
        return {"rows": rows}

    def _epochs(self, records: int) -> int:
        """Return a student's passes over so many records."""
        in_one = max(1, records // self.student_batch)
        return -(-self.student_steps // in_one) if self.student_steps else self.student_epochs

    def _judged(self, classifier: Classifier, data: AttributeData, case: CuriousCase) -> dict[str, Any]:
        """Return a classifier's figures; of regularised ones also what a threshold of its own reads."""
        from fedveil.core.measures import share_right
        from fedveil.data import Split
        from fedveil_papers.curious.measuring import measure

        found = measure(
            classifier,
            data,
            case.secret,
            attackers=self.panel,
            fresh=self.fresh,
            most=self.most or None,
            draws=self.draws,
            seed=self.seed,
        ).as_dict()
        if not classifier.thresholds:
            return {**found, "threshold": None}
        anew = classifier.with_thresholds(data, Split.VALIDATION)
        test = anew.outputs(data, Split.TEST)
        known = test.take(test.secrets[case.secret].known)
        right = anew.guesses(known, case.secret) == known.secrets[case.secret].codes
        return {**found, "threshold": share_right(right).as_dict()}
