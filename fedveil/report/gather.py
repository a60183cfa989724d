"""What a page shows, gathered from a study's results as typed values; nothing that was planned is left out.

A *setting* is a method at one strength; its figures are means over its cells. Planned settings without figures stay in
the list, with the reason. Lists are parallel to `settings`, `tasks` or `attributes`; None means "missing".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from fedveil.attacks.judgement import AttackerFigures
from fedveil.report.certified import Contradiction, bound_on_balanced_accuracy, certificates_of, contradictions
from fedveil.report.figures import Figure, figure, mean_figure, number
from fedveil.report.losses import SeedCurves, losses
from fedveil.report.marks import Mark, marks
from fedveil.report.pairs import Pair, pair_of
from fedveil.report.settings import Setting, settings_of
from fedveil.report.theory import TheoryTable, theory
from fedveil.report.tsne import Maps, maps
from fedveil.report.words import Sentence, say
from fedveil.studies.checked_json import JsonObject
from fedveil.studies.frontier import Point
from fedveil.studies.model import StatedCertificate
from fedveil.studies.notes import epsilon_in_words
from fedveil.studies.results import StudyResults
from fedveil.studies.rows import ATTACKER_KINDS, Row, most_spent
from fedveil.studies.seeds import CHANCES

_LISTED_KINDS = sorted(ATTACKER_KINDS, key=lambda kind: kind == "cotrained")
"""Kinds of attacker, in the order in which a page lists them: the game's own adversary comes last."""


class SeedPoint(NamedTuple):
    """The point of one cell."""

    seed: int
    leakage: float | None
    utility: float | None


@dataclass(frozen=True)
class ShownPoint:
    """A setting's point on the frontier.

    Attributes:
        utility, leakage: of these seeds' releases.
        attacker, bits: the strongest attacker, and the bits that it reads.
        each: the points of its cells.
        new_seed: what another seed's release would leak, as a prediction; None with fewer than three seeds.
    """

    utility: Figure
    leakage: Figure
    attacker: str
    bits: Figure | None
    each: list[SeedPoint]
    new_seed: Figure | None = None


@dataclass(frozen=True)
class Lines:
    """A frontier's reference lines: guessing, the floor, and the method that others are compared with."""

    chance: float | None
    prior: float | None
    utility_prior: float | None
    floor: Figure | None
    baseline: str


@dataclass(frozen=True)
class PairView:
    """One task with one attribute.

    Attributes:
        points: for each setting, its point.
        cotrained: for each setting, what its co-trained adversary reads.
        missing: for each setting, which of its planned cells are not in its figures, and why.
        bounds: for each setting, what no attacker's balanced accuracy can exceed.
        front: the settings on the front, in order of leakage.
        lines: the reference lines; None if there is no frontier.
    """

    points: list[ShownPoint | None]
    cotrained: list[Figure | None]
    missing: list[str | None]
    bounds: list[float | None]
    front: list[int]
    lines: Lines | None

    def stairs(self) -> tuple[list[float], list[float]]:
        """Return the front's leakages and utilities, without points that are dominated on the test."""
        steps: list[tuple[float, float]] = []
        for point in (self.points[index] for index in self.front):
            if point is not None and (not steps or point.utility.estimate > steps[-1][1]):
                steps.append((point.leakage.estimate, point.utility.estimate))
        return [x for x, _ in steps], [y for _, y in steps]

    def proved(self) -> list[tuple[int, float, ShownPoint]]:
        """Return the settings with a point and a certified bound: index, bound, point."""
        both = zip(self.bounds, self.points, strict=True)
        return [
            (index, bound, point)
            for index, (bound, point) in enumerate(both)
            if bound is not None and point is not None
        ]


@dataclass(frozen=True)
class CellState:
    """A planned cell: finished, not finished, or damaged; if damaged, why."""

    id: str
    seed: int
    state: str
    why: str | None = None


@dataclass(frozen=True)
class ShownSetting:
    """A setting: its method by number, what noise on updates has spent in words, and its planned cells."""

    method: int
    strength: float | None
    label: str
    spent: str | None
    cells: list[CellState]


@dataclass(frozen=True)
class ShownAttacker:
    """An attacker's figures in one setting; `chosen` counts the seeds in which it is the panel's strongest."""

    name: str
    kind: str
    chosen: int
    balanced_accuracy: Figure | None
    auc: Figure | None
    bits: Figure | None


@dataclass(frozen=True)
class Groups:
    """Utility by the attribute's values: the values' names, and for each setting a figure for each value."""

    values: list[str]
    settings: list[list[Figure | None] | None]


@dataclass(frozen=True)
class RunFacts:
    """How the study was run."""

    command: str
    version: str
    revision: str
    versions: dict[str, str]
    threads: list[int]
    seeds: list[int]
    study: JsonObject


@dataclass(frozen=True)
class StudyFigures:
    """A study's figures: `views`, `groups` and `theory` by task and attribute, other lists by attribute and setting."""

    name: str
    complete: bool
    planned: int
    finished: int
    tasks: list[str]
    attributes: list[str]
    methods: dict[str, Mark]
    settings: list[ShownSetting]
    views: list[list[PairView]]
    attackers: list[list[list[ShownAttacker]]]
    groups: list[list[Groups]]
    certificates: list[list[list[StatedCertificate]]]
    theory: list[list[TheoryTable | None]]
    contradictions: list[list[list[Contradiction]]]
    run: RunFacts


@dataclass(frozen=True)
class PageData:
    """Everything that a page shows.

    Attributes:
        figures: the study's figures.
        words: by task and attribute, the answer in sentences.
        free: by task and attribute, the setting without a defence.
        start: the setting that is selected at first.
        losses: for each setting, the curves of its cells.
        maps: t-SNE of a few settings.
    """

    figures: StudyFigures
    words: list[list[list[Sentence]]]
    free: list[list[int | None]]
    start: int
    losses: list[list[SeedCurves]]
    maps: Maps


def page_data(results: StudyResults) -> PageData:
    """Return everything that the page of a study shows."""
    settings, attributes = settings_of(results), results.attributes
    pairs = [[pair_of(results, task, attribute) for attribute in attributes] for task in results.tasks]
    figures = gather(results, pairs, attributes)
    free = [[_index(settings, pair.undefended) for pair in row] for row in pairs]
    recommended = [_index(settings, pair.recommended) for row in pairs for pair in row]
    undefended = [index for row in free for index in row]
    views = [view for row in figures.views for view in row]
    shown = [index for view in views for index, point in enumerate(view.points) if point]
    by_method = {setting.method: i for i, setting in reversed(list(enumerate(settings))) if setting.cells}
    fronts = [index for view in views for index in _evenly(view.front)]
    mapped = [*recommended, *undefended, *by_method.values(), *fronts]
    return PageData(
        figures=figures,
        words=[[say(results, pair) for pair in row] for row in pairs],
        free=free,
        start=next(index for index in [*recommended, *undefended, *shown, 0] if index is not None),
        losses=losses(settings),
        maps=maps(results, settings, [index for index in mapped if index is not None], attributes),
    )


def gather(results: StudyResults, pairs: Sequence[Sequence[Pair]], attributes: Sequence[str]) -> StudyFigures:
    """Return a study's figures; `pairs` by task, then by attribute."""
    settings = settings_of(results)
    methods = list(dict.fromkeys(setting.method for setting in settings))
    damaged = dict(results.damaged)
    return StudyFigures(
        name=results.name,
        complete=results.complete,
        planned=len(results.planned),
        finished=len(results.cells),
        tasks=[row[0].task for row in pairs if row],
        attributes=list(attributes),
        methods=marks(methods),
        settings=[
            ShownSetting(
                method=methods.index(setting.method),
                strength=setting.strength,
                label=setting.label,
                spent=_spent(setting),
                cells=_states(setting, damaged),
            )
            for setting in settings
        ],
        views=[[_view(settings, pair) for pair in row] for row in pairs],
        attackers=[[_attackers(setting, name) for setting in settings] for name in attributes],
        groups=[[_groups(settings, pair.task, pair.attribute) for pair in row] for row in pairs],
        certificates=[[certificates_of(setting, name) for setting in settings] for name in attributes],
        theory=[[theory(settings, pair.task, pair.attribute) for pair in row] for row in pairs],
        contradictions=[[contradictions(setting, name) for setting in settings] for name in attributes],
        run=_run(results),
    )


def _index(settings: Sequence[Setting], point: Point | None) -> int | None:
    if point is None:
        return None
    keys = [(setting.method, setting.strength) for setting in settings]
    return keys.index((point.method, point.strength))


def _evenly(front: Sequence[int], most: int = 8) -> list[int]:
    """Return a few settings of a long front, evenly spaced."""
    step = max(1, math.ceil(len(front) / most))
    return list(front[::step])


def _spent(setting: Setting) -> str | None:
    """Say what noise on updates has spent; None if there is no noise."""
    spent = most_spent([cell.result.spent for cell in setting.cells])
    return None if spent is None else epsilon_in_words(spent)


def _states(setting: Setting, damaged: dict[str, str]) -> list[CellState]:
    finished = {cell.id for cell in setting.cells}
    states = []
    for cell in setting.planned:
        if cell.id in damaged:
            states.append(CellState(cell.id, cell.seed, "damaged", damaged[cell.id]))
        else:
            states.append(CellState(cell.id, cell.seed, "finished" if cell.id in finished else "not finished"))
    return states


def _view(settings: Sequence[Setting], pair: Pair) -> PairView:
    """Return every setting's point, the front, and the reference lines."""
    index = {(setting.method, setting.strength): i for i, setting in enumerate(settings)}
    rows = {(row.method, row.strength, row.attacker): row for row in pair.rows}
    points: list[ShownPoint | None] = [None] * len(settings)
    front: list[int] = []
    lines = None
    if pair.frontier is not None:
        for point in pair.frontier.points:
            i = index[point.method, point.strength]
            points[i] = _point(settings[i], pair, point, rows[point.method, point.strength, "retrained"])
        on_front = [pair.frontier.points[i] for i in pair.frontier.front]
        front = [index[point.method, point.strength] for point in on_front]
        lines = Lines(
            chance=number(pair.frontier.chance),
            prior=number(pair.frontier.prior),
            utility_prior=number(pair.frontier.utility_prior),
            floor=figure(pair.frontier.floor),
            baseline=pair.frontier.baseline,
        )
    cotrained = [rows.get((setting.method, setting.strength, "cotrained")) for setting in settings]
    return PairView(
        points=points,
        cotrained=[None if row is None else figure(row.leakage.balanced_accuracy) for row in cotrained],
        missing=[_why_missing(setting, pair) for setting in settings],
        bounds=[bound_on_balanced_accuracy(setting, pair.attribute) for setting in settings],
        front=front,
        lines=lines,
    )


def _point(setting: Setting, pair: Pair, point: Point, row: Row) -> ShownPoint | None:
    utility, leakage = figure(point.utility), figure(point.leakage)
    if utility is None or leakage is None:  # a frontier refuses such points
        return None
    each = [
        SeedPoint(
            cell.seed,
            number(cell.result.leakage[pair.attribute].worst.balanced_accuracy.estimate),
            number(cell.result.utility[pair.task].accuracy.estimate),
        )
        for cell in setting.cells
        if cell.id not in pair.lacking
    ]
    bits = figure(row.leakage.mutual_information_bits)
    return ShownPoint(utility, leakage, row.attacker_name, bits, each, figure(row.leakage.new_seed))


def _why_missing(setting: Setting, pair: Pair) -> str | None:
    """Say which of a setting's planned cells are not in its figures; None if all are."""
    reasons = []
    if len(setting.cells) < len(setting.planned):
        reasons.append(f"{len(setting.planned) - len(setting.cells)} of {len(setting.planned)} cells not finished")
    reasons += [f"seed {cell.seed}: {pair.lacking[cell.id]}" for cell in setting.cells if cell.id in pair.lacking]
    return "; ".join(reasons) or None


def _attackers(setting: Setting, attribute: str) -> list[ShownAttacker]:
    """Return every attacker's figures, averaged over seeds, strongest first; attackers outside the panel come last."""
    figures: dict[tuple[str, str], list[AttackerFigures]] = {}
    chosen: list[str] = []
    for cell in setting.cells:
        judged = cell.result.leakage.get(attribute)
        if judged is not None:
            chosen.append(judged.worst.name)
            for attacker in judged.attackers:
                figures.setdefault((attacker.name, "retrained"), []).append(attacker)
        beside = cell.result.beside_panel(attribute)
        for kind in _LISTED_KINDS:
            if kind in beside:
                figures.setdefault((beside[kind].name, kind), []).append(beside[kind])
    attackers = [
        ShownAttacker(
            name=name,
            kind=kind,
            chosen=chosen.count(name) if kind == "retrained" else 0,
            balanced_accuracy=mean_figure((attacker.balanced_accuracy for attacker in each), CHANCES),
            auc=mean_figure((attacker.auc for attacker in each), CHANCES),
            bits=mean_figure(attacker.mutual_information_bits for attacker in each),
        )
        for (name, kind), each in figures.items()
    ]
    return sorted(attackers, key=lambda a: (_LISTED_KINDS.index(a.kind), -(a.balanced_accuracy or (0.0,))[0]))


def _groups(settings: Sequence[Setting], task: str, attribute: str) -> Groups:
    by_setting = [
        [cell.result.utility[task].by_group.get(attribute, {}) for cell in setting.cells if task in cell.result.utility]
        for setting in settings
    ]
    values = list(dict.fromkeys(value for cells in by_setting for groups in cells for value in groups))
    return Groups(
        values,
        [
            [mean_figure((groups.get(value) for groups in cells), CHANCES) for value in values] if cells else None
            for cells in by_setting
        ],
    )


def _run(results: StudyResults) -> RunFacts:
    configs = [cell.config for cell in results.cells]
    return RunFacts(
        command=results.facts.command,
        version=results.facts.version,
        revision=results.facts.revision,
        versions=dict(configs[0].versions) if configs else {},
        threads=sorted({config.threads for config in configs if config.threads is not None}),
        seeds=sorted({cell.seed for cell in results.planned}),
        study=results.study,
    )
