"""Students of curious teachers (Malekzadeh, Borovykh and Gündüz, CCS 2021, §5.8, Table 6), by temperature and share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Literal

from rich.table import Table

from fedveil.attacks import panel
from fedveil.core.errors import InputError, nearest
from fedveil.core.files import plain
from fedveil.core.measures import share_right
from fedveil.data import AttributeData, Split
from fedveil.games.curious import Curious
from fedveil.studies.units import Report
from fedveil_papers.curious import Classifier, distil, train
from fedveil_papers.curious.distillation import dealt
from fedveil_papers.curious.experiments.cases import (
    CaseFigures,
    CuriousCase,
    attackers_note,
    closing_notes,
    locate_sources,
)
from fedveil_papers.curious.experiments.figures import RunFigure, beyond_rows, from_json, over_runs
from fedveil_papers.curious.measuring import measure
from fedveil_papers.experiment import Experiment, Measured, Part
from fedveil_papers.rows import PaperFigures, Row
from fedveil_papers.wide_table import WideTable

ATTACKS = ("standard", "parameterised", "regularised")
LEAST_EXCESS = 0.1
"""What a student keeps is computed only if its teacher's curiosity exceeds the standard teacher's by this much."""

MARKS = {"teacher": "s", "student": "o"}
COLOURS = {"standard": "#555555", "parameterised": "#1b6ca8", "regularised": "#b5471b"}
CURVES: tuple[tuple[str, Literal["-", "--", ":"], str], ...] = (
    ("honesty", "-", "δ_y"),
    ("curiosity", "--", "δ_s, teacher's attack"),
    ("retrained", ":", "δ_s, retrained, balanced"),
)
"""What is drawn over a sweep: field, line, name."""


@dataclass(frozen=True, kw_only=True)
class Judged(CaseFigures):
    """A teacher's or a student's figures.

    Attributes:
        classifier: "teacher" or "student".
        temperature: the student's t; None for a teacher.
        threshold: the accuracy on s of a threshold chosen on this classifier's outputs; None unless the attack is
            regularised.
    """

    classifier: str
    temperature: float | None
    threshold: RunFigure | None


@dataclass(frozen=True, kw_only=True)
class TransferRow(Judged):
    """The same with its case, its secret, the teacher's attack, and the user's share of the training records."""

    case: str
    secret: str
    attack: str
    share: float

    @property
    def of_table_6(self) -> bool:
        """Whether its temperature is the paper's."""
        return self.temperature in (None, 1.0)


@dataclass(frozen=True)
class Inherited:
    """What a student keeps of its teacher's excess curiosity over the standard teacher.

    Attributes:
        case, attack, share, temperature: the student.
        excess_own, kept_own: the teacher's excess by its maker's attack, and the share of it that the student keeps;
            None if the excess is below `LEAST_EXCESS`.
        excess_retrained, kept_retrained: the same by retrained attackers' balanced accuracy.
    """

    case: str
    attack: str
    share: float
    temperature: float | None
    excess_own: float
    kept_own: float | None
    excess_retrained: float
    kept_retrained: float | None


def inherited(rows: list[TransferRow]) -> list[Inherited]:
    """Return what each student of a curious teacher keeps.

    The excess is δ_s of the teacher − δ_s of the case's standard teacher, each measured with its maker's attack; the
    student is measured with its teacher's attack.
    """
    students = []
    for row in rows:
        if row.classifier != "student" or row.attack == "standard":
            continue
        standard = next(other for other in rows if other.case == row.case and other.attack == "standard")
        teacher = next(
            other
            for other in rows
            if other.classifier == "teacher"
            and (other.case, other.attack, other.share) == (row.case, row.attack, row.share)
        )
        by_attack, by_retrained = (
            _excess_and_kept(*(getattr(classifier, reading).estimate for classifier in (standard, teacher, row)))
            for reading in ("curiosity", "retrained")
        )
        students.append(Inherited(row.case, row.attack, row.share, row.temperature, *by_attack, *by_retrained))
    return students


def _excess_and_kept(standard: float, teacher: float, student: float) -> tuple[float, float | None]:
    excess = teacher - standard
    return excess, (student - standard) / excess if excess >= LEAST_EXCESS else None


@dataclass(frozen=True)
class DistillationResults:
    """Teachers and students over runs, what students keep, and what the paper prints."""

    rows: list[TransferRow]
    kept: list[Inherited]
    paper: PaperFigures

    def printed(self, row: TransferRow) -> Mapping[str, Any]:
        """Return "honesty" and "curiosity" as Table 6 prints them for a row; nothing if it has no such row."""
        if not row.of_table_6 or row.share != self.rows[0].share:
            return {}
        for entry in self.paper:
            if all(entry.get(name) == getattr(row, name) for name in ("case", "attack", "classifier")):
                return {name: entry[name] for name in ("honesty", "curiosity") if name in entry}
        return {}


@dataclass(frozen=True)
class CuriousDistillation(Experiment[DistillationResults]):
    """Teachers trained on a server's labelled records, and students of half the size on a user's unlabelled records.

    The first share and the first temperature are Table 6's. Every teacher is trained at the first share; the other
    shares and temperatures are tried with `swept` teachers of `swept_cases`.

    Attributes:
        cases: data sets, each with target, secret, widths and epochs (`CuriousCase`).
        attacks: how teachers are trained: "standard", "parameterised", "regularised" (soft outputs; binary secrets).
        swept: the attacks with which the other shares and temperatures are tried.
        swept_cases: names of the cases on which they are tried; default: all.
        beta_y, beta_s: the curious teachers' weights.
        shares: the user's shares of the training records; the server has the others.
        temperatures: t inside both softmaxes.
        student_epochs: passes over the user's records.
        student_steps: if above 0, students pass over the user's records until this many steps are done, in place of
            student_epochs, so that few records do not mean few steps.
        student_batch: records per step of a student.
        runs: the number of seeds; run r trains with seed `seed` + r on the same split.
        panel: attackers that are retrained on the outputs of each teacher and student.
        fresh: whether attackers learn from test records as well, each half's from the other half.
        most: how many records of each split attackers get at most; 0: all.
        draws: bootstrap draws for the intervals of retrained attackers.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "curious-distillation"
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
        """Refuse settings that cannot be run."""
        if min(self.runs, self.student_epochs, self.student_batch) < 1 or min(self.most, self.student_steps) < 0:
            raise InputError(
                "experiment: runs, student_epochs, student_batch must be at least 1, most and student_steps 0 or more"
            )
        if not self.shares or not all(0 < share < 1 for share in self.shares):
            raise InputError(f"experiment: shares must lie in (0, 1), got {self.shares}")
        if not self.temperatures or min(self.temperatures) <= 0:
            raise InputError(f"experiment: temperatures must be above 0, got {self.temperatures}")
        for attack in [*self.attacks, *self.swept]:
            if attack not in ATTACKS:
                raise InputError(f"experiment: attack {attack!r} is not known: choose {', '.join(ATTACKS)}")
        if "standard" not in self.attacks or not set(self.swept) <= set(self.attacks):
            raise InputError("experiment: attacks need standard, which others are compared with, and all that is swept")
        names = [case.name for case in self._cases()]
        for name in self.swept_cases:
            if name not in names:
                raise InputError(f"experiment: swept_cases: no case {name!r}: {nearest(name, names)}")
        for case in self._cases():
            case.check("experiment: cases")
            for attack in self.attacks:
                game(case, attack, self.beta_y, self.beta_s)
        panel(self.panel, draws=self.draws)

    def _cases(self) -> list[CuriousCase]:
        return [CuriousCase.of(case, f"experiment: cases[{index}]") for index, case in enumerate(self.cases)]

    def _teachers(self, case: CuriousCase) -> list[tuple[str, float, list[float]]]:
        """Return a case's teachers, each with its attack, the user's share, and the students' temperatures."""
        swept = self.swept if not self.swept_cases or case.name in self.swept_cases else []
        first, *others = self.shares
        teachers = [
            (attack, first, self.temperatures if attack in swept else self.temperatures[:1]) for attack in self.attacks
        ]
        return teachers + [(attack, share, self.temperatures[:1]) for share in others for attack in swept]

    def locate_data(self) -> None:
        """Find all data, or download it."""
        locate_sources(case.source for case in self._cases())

    def parts(self) -> list[Part]:
        """Return a part for each teacher with its students, and each run."""
        return [
            self._part(case, *teacher, run)
            for case in self._cases()
            for teacher in self._teachers(case)
            for run in range(self.runs)
        ]

    def _part(self, case: CuriousCase, attack: str, share: float, temperatures: list[float], run: int) -> Part:
        settings = {
            "kind": self.kind,
            "case": case.settings,
            "attack": attack,
            "share": share,
            "temperatures": temperatures,
            "run": run,
        }
        for name in (
            *("beta_y", "beta_s", "student_epochs", "student_steps", "student_batch"),
            *("panel", "fresh", "most", "draws", "seed"),
        ):
            settings[name] = getattr(self, name)
        name = f"{case.name}: {attack} teacher, {share:g} of the records the user's, run {run + 1}"
        return Part(settings, f"{__name__}:measure_teacher", name, shares=case.name)

    def gather(self, measured: Measured, paper: PaperFigures) -> DistillationResults:
        """Join the rows of all runs."""
        rows = []
        for case in self._cases():
            for teacher in self._teachers(case):
                runs = [measured[self._part(case, *teacher, run)]["rows"] for run in range(self.runs)]
                attack, share, _ = teacher
                rows += [
                    TransferRow(case=case.name, secret=case.secret, attack=attack, share=share, **vars(row))
                    for row in over_runs([from_json(list[Judged], run) for run in runs])
                ]
        return DistillationResults(rows, inherited(rows), paper)

    def rows(self, results: DistillationResults) -> list[Row]:
        """Return every teacher and student, by the teacher's attack and by the strongest retrained attacker."""
        cases = {case.name: case for case in self._cases()}
        seeds = range(self.seed, self.seed + self.runs)
        students = {(row.case, row.attack, row.share, row.temperature): row for row in results.kept}
        rows = []
        for row in results.rows:
            more = {"classifier": row.classifier, "user_share": row.share}
            student = students.get((row.case, row.attack, row.share, row.temperature))
            if student is not None:
                more |= {name: getattr(student, name) for name in ("kept_own", "kept_retrained")}
            printed = results.printed(row)
            pair = row.as_rows(f"{row.attack} {row.classifier}", row.temperature, cases[row.case], seeds, more)
            rows += [replace(part, paper={"Table 6": printed}) if printed else part for part in pair]
            if row.threshold is not None:
                leakage = {"accuracy": row.threshold.in_row, "prior": row.prior.in_row}
                rows.append(replace(pair[0], attacker="new threshold", leakage=leakage))
        return rows

    def shows(self, results: DistillationResults) -> dict[str, Any]:
        """Return what the rows do not hold: deviations over runs, and what students keep."""
        shown: dict[str, Any] = plain(
            {
                "kind": self.kind,
                "classifiers": [beyond_rows(row, ("attacker", "entropy")) for row in results.rows],
                "kept": [asdict(row) for row in results.kept],
                "paper": [dict(entry) for entry in results.paper],
            }
        )
        return shown

    def tables(self, results: DistillationResults) -> list[Table]:
        """Teachers and students, a table for each case, and what students keep."""
        cases = dict.fromkeys(row.case for row in results.rows)
        return [*(_case_table(results, case) for case in cases), _inherited_table(results)]

    def notes(self, results: DistillationResults) -> list[str]:
        """State what the figures are based on."""
        length = f"{self.student_steps} steps" if self.student_steps else f"{self.student_epochs} epochs"
        return [
            f"{self.runs} run(s); curious teachers are SoftHBC ({self.beta_y:g}, {self.beta_s:g}). Students have half "
            f"the units of every hidden layer, see no label, and are released at temperature 1; they learn in {length} "
            f"of {self.student_batch} records.",
            "The teacher's attack is its G or its threshold τ, which never saw the student; the new τ is chosen on the "
            "server's validation records, by the classifier's own outputs.",
            "Retrained: the strongest attacker trained on each classifier's outputs, an estimate; "
            + attackers_note(self.most, self.draws, self.fresh),
            *closing_notes(self._cases(), results.paper),
        ]

    def draw(self, results: DistillationResults, canvas: Any) -> None:
        """Draw a panel of teachers and students by honesty and curiosity for each case, then two for each sweep."""
        from matplotlib.lines import Line2D

        rows, panels = results.rows, []
        share = rows[0].share
        by_case = {case: [row for row in rows if row.case == case] for case in dict.fromkeys(row.case for row in rows)}
        for case, of_case in by_case.items():
            table_6 = [row for row in of_case if row.share == share and row.of_table_6]
            panels.append(partial(_draw_plane, case=case, rows=table_6))
        for case, of_case in by_case.items():
            swept = {row.attack for row in of_case if row.share != share or not row.of_table_6}
            of_swept = [row for row in of_case if row.attack in swept]
            if of_swept:
                by_temperature = [row for row in of_swept if row.share == share]
                by_share = [row for row in of_swept if row.of_table_6]
                panels.append(partial(_draw_sweep, case=case, rows=by_temperature, over="temperature"))
                panels.append(partial(_draw_sweep, case=case, rows=by_share, over="share"))
        across = max(2, min(4, len(by_case)))
        down = -(-len(panels) // across)
        canvas.set_size_inches(3.6 * across, 3.0 * down + 0.7)
        axes = list(canvas.subplots(down, across, squeeze=False).flat)
        for axis, draw_panel in zip(axes, panels, strict=False):
            draw_panel(axis)
        for axis in axes[len(panels) :]:
            axis.axis("off")
        lines = [Line2D([], [], color=colour, label=name) for name, colour in COLOURS.items()]
        lines += [Line2D([], [], color="black", marker=mark, linestyle="", label=name) for name, mark in MARKS.items()]
        lines += [Line2D([], [], color="black", linestyle=style, label=name) for _, style, name in CURVES]
        canvas.legend(handles=lines, loc="outside lower center", ncols=4, frameon=False, fontsize=8)


def game(case: CuriousCase, attack: str, beta_y: float, beta_s: float) -> Curious:
    """Return the game that trains one teacher."""
    standard = Curious(case.secret, output="soft", beta_y=1.0, beta_s=0.0, widths=tuple(case.widths))
    if attack == "standard":
        return standard
    return replace(
        standard, attack="regularised" if attack == "regularised" else "parameterised", beta_y=beta_y, beta_s=beta_s
    )


def measure_teacher(settings: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Train one teacher and its students, and judge what each releases."""
    case = CuriousCase.of(settings["case"], "experiment: case")
    server, user = dealt(case.load(settings["seed"]), settings["share"], settings["seed"])
    seed, batch = settings["seed"] + settings["run"], settings["student_batch"]
    steps_of_an_epoch = max(1, len(user.rows(Split.TRAIN)) // batch)
    steps = settings["student_steps"]
    teacher = train(
        game(case, settings["attack"], settings["beta_y"], settings["beta_s"]), server, epochs=case.epochs, seed=seed
    )
    rows = [{"classifier": "teacher", "temperature": None, **_judge(teacher, server, case, settings)}]
    classifiers = 1 + len(settings["temperatures"])
    for number, temperature in enumerate(settings["temperatures"], start=1):
        report.progress(number / classifiers, f"a student at temperature {temperature:g}")
        student = distil(
            teacher,
            user,
            temperature=temperature,
            epochs=-(-steps // steps_of_an_epoch) if steps else settings["student_epochs"],
            batch_size=batch,
            seed=seed,
        )
        rows.append({"classifier": "student", "temperature": temperature, **_judge(student, server, case, settings)})
    return {"rows": rows}


def _judge(
    classifier: Classifier, data: AttributeData, case: CuriousCase, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a classifier's figures; if it is regularised, also what a threshold chosen on its outputs reads."""
    figures = measure(
        classifier,
        data,
        case.secret,
        attackers=settings["panel"],
        fresh=settings["fresh"],
        most=settings["most"] or None,
        draws=settings["draws"],
        seed=settings["seed"],
    ).as_dict()
    if not classifier.thresholds:
        return {**figures, "threshold": None}
    renewed = classifier.with_thresholds(data, Split.VALIDATION)
    test = renewed.outputs(data, Split.TEST)
    labelled = test.take(test.secrets[case.secret].known)
    right = renewed.guesses(labelled, case.secret) == labelled.secrets[case.secret].codes
    return {**figures, "threshold": share_right(right).as_dict()}


def _case_table(results: DistillationResults, case: str) -> Table:
    rows = [row for row in results.rows if row.case == case]
    beside = any(results.printed(row) for row in rows)
    table = WideTable(
        f"Table 6, {case}: teachers, and students of half the size trained by KL alone",
        (
            *("attack", "user's", "t", "classifier", "δ_y", "δ_s, teacher's attack", "δ_s, new τ", "prior"),
            *("retrained, balanced", "attacker", *(("paper δ_y", "paper δ_s") if beside else ())),
        ),
        left=("attack", "classifier", "attacker"),
        keys=4,
    )
    for row in rows:
        printed = results.printed(row)
        table.add_row(
            row.attack,
            f"{row.share:.0%}",
            "" if row.temperature is None else f"{row.temperature:g}",
            row.classifier,
            str(row.honesty),
            str(row.curiosity),
            "" if row.threshold is None else str(row.threshold),
            f"{row.prior.estimate:.3f}",
            str(row.retrained),
            row.attacker,
            *(f"{printed[name]:.3f}" if name in printed else "" for name in ("honesty", "curiosity") if beside),
        )
    return table


def _inherited_table(results: DistillationResults) -> Table:
    table = WideTable(
        "What a student keeps of its teacher's excess curiosity over the standard teacher",
        ("case", "attack", "user's", "t", "excess", "kept", "excess, retrained", "kept, retrained"),
        left=("case", "attack"),
        keys=4,
    )
    for row in results.kept:
        table.add_row(
            row.case,
            row.attack,
            f"{row.share:.0%}",
            f"{row.temperature:g}",
            f"{100 * row.excess_own:.1f} points",
            "–" if row.kept_own is None else f"{row.kept_own:.0%}",
            f"{100 * row.excess_retrained:.1f} points",
            "–" if row.kept_retrained is None else f"{row.kept_retrained:.0%}",
        )
    table.caption = f"Not computed (–) if the excess is below {100 * LEAST_EXCESS:g} points."
    return table


def _draw_plane(axis: Any, case: str, rows: list[TransferRow]) -> None:
    for attack, colour in COLOURS.items():
        points = {
            row.classifier: (row.curiosity.estimate, row.honesty.estimate) for row in rows if row.attack == attack
        }
        if len(points) == len(MARKS):
            axis.annotate("", points["student"], points["teacher"], arrowprops={"arrowstyle": "->", "color": colour})
        for name, point in points.items():
            axis.plot(*point, MARKS[name], color=colour)
    axis.margins(0.15)
    axis.set(title=case, xlabel="δ_s, teacher's attack", ylabel="δ_y")


def _draw_sweep(axis: Any, case: str, rows: list[TransferRow], over: str) -> None:
    """Draw students over what is swept, joined by lines; teachers as points, or as one line for all temperatures."""
    for attack, classifier in dict.fromkeys((row.attack, row.classifier) for row in rows):
        points = [row for row in rows if (row.attack, row.classifier) == (attack, classifier)]
        points.sort(key=lambda row: getattr(row, over) or 0)
        for name, style, _ in CURVES:
            values = [getattr(row, name).estimate for row in points]
            at = [getattr(row, over) for row in points]
            if classifier == "student":
                axis.plot(at, values, MARKS["student"] + style, color=COLOURS[attack], markersize=3.5)
            elif over == "share" and name == "curiosity":
                axis.plot(at, values, MARKS["teacher"], color=COLOURS[attack])
            elif name == "curiosity":
                axis.axhline(values[0], color=COLOURS[attack], linewidth=0.7)
    axis.margins(0.1)
    label = {"temperature": "temperature t (thin line: teacher's δ_s)", "share": "user's share of the records"}[over]
    axis.set(title=case, xlabel=label, ylabel="test figure")
