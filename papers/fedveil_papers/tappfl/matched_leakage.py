"""Utility at matched inference accuracy (TAPPFL's Figure 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedveil.config.cells import load_data, make_federation
from fedveil.core.errors import InputError
from fedveil.core.figures import Estimate
from fedveil.core.randomness import numpy_generator
from fedveil.shields.message import Kind
from fedveil.shields.shield import Identity
from fedveil.studies.frontier import Frontier, Point
from fedveil.studies.hypervolume import shown as finite
from fedveil.studies.seeds import CHANCES, these_releases
from fedveil_papers.drawing import error_bars
from fedveil_papers.rows import Figure, PaperFigures, Row
from fedveil_papers.shown import Played, Shown, at, cells_of, with_interval
from fedveil_papers.tappfl.spending import Spent, in_words, most_spent

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.attacks.judgement import AttackerFigures
    from fedveil.studies.check import Plan
    from fedveil.studies.results import CellResult
    from fedveil_papers.experiment import Measured

ATTACKERS = {"retrained": "retrained attackers", "cotrained": "co-trained adversary (weak)"}


@dataclass(frozen=True)
class Validation:
    """A point's figures on validation people, by which strengths are chosen."""

    utility: float
    leakage: float


@dataclass(frozen=True)
class MethodPoint:
    """A method at a strength.

    Attributes:
        method, strength: which method, at which strength.
        utility: accuracy of the task.
        retrained: balanced accuracy of retrained attackers.
        validation: both on validation people.
        cotrained, cotrained_accuracy: balanced accuracy and accuracy of the game's own adversary; None if there is
            none, or if it does not read what is released.
        spent: ε that noise has spent; None without noise.
    """

    method: str
    strength: float | None
    utility: Figure | None
    retrained: Figure | None
    validation: Validation
    cotrained: Figure | None
    cotrained_accuracy: Figure | None
    spent: Spent | None


@dataclass(frozen=True)
class Matched:
    """A method against one attacker: the least that it leaks, and its utility at each level (None: unreachable)."""

    least: Figure | None
    utility: Sequence[Figure | None]


@dataclass(frozen=True)
class Panel:
    """One task and attribute of one study.

    Attributes:
        study, data, task, attribute, seeds: what the panel is about.
        prior, chance: accuracy of always guessing the attribute's most frequent value, and balanced accuracy of
            guessing.
        utility_prior: accuracy of always guessing the task's most frequent value.
        points: every method at every strength.
        matched: figures at matched leakage, by attacker and method.
    """

    study: str
    data: str
    task: str
    attribute: str
    seeds: Sequence[int]
    prior: float
    chance: float
    utility_prior: float
    points: Sequence[MethodPoint]
    matched: Mapping[str, Mapping[str, Matched]]


@dataclass(frozen=True)
class MatchedPanels:
    """All panels, the levels at which methods are compared, and what the paper says."""

    levels: Sequence[float]
    panels: Sequence[Panel]
    paper: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class MatchedLeakage(Shown[MatchedPanels]):
    """Each method's utility at given leakages (balanced accuracies); "unreachable" if it always leaks more.

    With retrained attackers, a method's strengths are those that are undominated on validation, and utility is
    interpolated linearly between neighbours (`Frontier.utility_at`). The co-trained adversary is not scored on
    validation: its strengths are chosen on the figures shown, which flatters the method; and it is weak anyway.

    Attributes:
        levels: balanced accuracies at which methods are compared.
    """

    kind: ClassVar[str] = "matched-leakage"
    levels: tuple[float, ...] = (0.55, 0.6, 0.65, 0.7, 0.75)

    def check(self, plans: Sequence[Plan]) -> None:
        """Refuse studies in which no method has several strengths: nothing could be matched."""
        if not self.levels or not all(0 < level < 1 for level in self.levels):
            raise InputError(f"shows: {self.kind} needs levels in (0, 1), got {list(self.levels)}")
        for plan in plans:
            if not any(len(method.points) > 1 for method in plan.study.methods):
                raise InputError(
                    f"shows: {self.kind} interpolates between strengths, but no method of study {plan.study.name!r} "
                    "has two; give some"
                )

    def gather(self, played: Sequence[Played], measured: Measured, paper: PaperFigures) -> MatchedPanels:
        """Return the points, and each method's utility at each level; a panel per study, task and attribute."""
        panels = [
            self._panel(study, task, attribute)
            for study in played
            for task in study.results.tasks
            for attribute in study.results.attributes
        ]
        return MatchedPanels(list(self.levels), panels, [dict(entry) for entry in paper if "matched" in entry])

    def _panel(self, played: Played, task: str, attribute: str) -> Panel:
        frontier = played.results.frontier(task, attribute)
        against_cotrained = [_cotrained(played, point, attribute) for point in frontier.points]
        weak = replace(frontier, points=tuple(point for point in against_cotrained if point is not None))
        return Panel(
            played.results.name,
            played.plan.study.data.source,
            task,
            attribute,
            played.plan.study.seeds,
            frontier.prior,
            frontier.chance,
            frontier.utility_prior,
            [_method_point(played, point, attribute) for point in frontier.points],
            {"retrained": self._matched(frontier), "cotrained": self._matched(weak)},
        )

    def _matched(self, frontier: Frontier) -> dict[str, Matched]:
        matched = {}
        for method in frontier.methods:
            leakages = [point.leakage for point in frontier.points if point.method == method]
            matched[method] = Matched(
                _figure(min(leakages, key=lambda leakage: leakage.estimate)),
                [_figure(frontier.utility_at(method, level)) for level in self.levels],
            )
        return matched

    def rows(self, results: MatchedPanels) -> list[Row]:
        """Return each method's utility at each level, against each attacker."""
        return [
            Row(
                method=method,
                task=panel.task,
                attribute=panel.attribute,
                attacker=attacker,
                seeds=panel.seeds,
                utility={"accuracy": utility},
                leakage={"balanced_accuracy": Figure(level)},
                more={"study": panel.study, "data": panel.data, "matched": True, "reachable": utility is not None},
            )
            for panel in results.panels
            for attacker, by_method in panel.matched.items()
            for method, matched in by_method.items()
            for level, utility in zip(results.levels, matched.utility, strict=True)
        ]

    def tables(self, results: MatchedPanels) -> list[Table]:
        """Return what was measured, then each method's utility at each level."""
        tables = []
        for panel in results.panels:
            tables.append(_points_table(panel))
            tables += [_levels_table(panel, attacker, results.levels) for attacker in ATTACKERS]
        return tables

    def notes(self, results: MatchedPanels) -> list[str]:
        """Say how levels were matched, and what the paper says."""
        note = (
            "Levels are balanced accuracies. 'unreachable': the method leaks more at every strength that is "
            "undominated on validation. Above a method's highest leakage, its best utility is shown. Strengths for the "
            "co-trained adversary were chosen on the figures shown; it is left out if noise is added to what it "
            "reads. ε is what the busiest device (or each person) actually spent."
        )
        return [note, *(f"{entry['source']}: {entry['matched']}" for entry in results.paper)]

    def draw(self, results: MatchedPanels, canvas: Any) -> None:
        """Draw two pictures per panel: matched with the retrained attackers, and with the co-trained one."""
        from fedveil.report.marks import marks

        canvas.set_size_inches(9.6, 5.0 * len(results.panels))
        grid = canvas.subplots(len(results.panels), 2, squeeze=False, sharey="row")
        for axes_row, panel in zip(grid, results.panels, strict=True):
            looks = marks(list(dict.fromkeys(point.method for point in panel.points)))
            for axes, (attacker, words) in zip(axes_row, ATTACKERS.items(), strict=True):
                for number, (method, matched) in enumerate(panel.matched[attacker].items()):
                    at_levels = zip(results.levels, matched.utility, strict=True)
                    reached = [(level, utility) for level, utility in at_levels if utility is not None]
                    axes.errorbar(
                        [level + 0.0012 * (number - 4) for level, _ in reached],  # shifted, so that bars do not overlap
                        [utility.estimate for _, utility in reached],
                        yerr=error_bars([utility for _, utility in reached]),
                        color=looks[method].light,
                        marker=looks[method].marker,
                        markersize=5,
                        linewidth=0.9,
                        elinewidth=0.7,
                        label=method if reached else f"{method}: unreachable",
                    )
                axes.axhline(panel.utility_prior, color="#565b63", linestyle="--", linewidth=0.8)
                axes.set_xticks(results.levels)
                axes.set_xlabel(f"balanced accuracy of reading {panel.attribute}: {words}", fontsize=8)
                axes.legend(fontsize=6.5, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
            axes_row[0].set_ylabel(f"{panel.data}: accuracy of {panel.task} (dashed: prior)", fontsize=8)


def _points_table(panel: Panel) -> Table:
    from rich.table import Table
    from rich.text import Text

    title = f"{panel.data}: {panel.task} against {panel.attribute}, every strength"
    table = Table(title=Text(title), title_justify="left")
    for heading in ("method", "strength", "accuracy", "retrained", "co-trained (weak)", "spent"):
        table.add_column(heading)
    for point in panel.points:
        figures = (with_interval(figure) for figure in (point.utility, point.retrained, point.cotrained))
        table.add_row(Text(point.method), at(point.strength), *figures, in_words(point.spent))
    return table


def _levels_table(panel: Panel, attacker: str, levels: Sequence[float]) -> Table:
    from rich.table import Table
    from rich.text import Text

    title = f"{panel.data}: {panel.task} against {panel.attribute}: accuracy if {ATTACKERS[attacker]} read it at …"
    table = Table(title=Text(title), title_justify="left")
    for heading in ("method", *(f"{level:g}" for level in levels), "least it leaks"):
        table.add_column(heading)
    for method, matched in panel.matched[attacker].items():
        utilities = ["unreachable" if utility is None else str(utility) for utility in matched.utility]
        table.add_row(Text(method), *utilities, with_interval(matched.least))
    return table


def _method_point(played: Played, point: Point, attribute: str) -> MethodPoint:
    cells = cells_of(played, point.method)[point.strength]
    cotrained = _cotrained_figures(played, cells, attribute)
    balanced, accuracy = (
        Figure.of(these_releases([getattr(figures, name) for figures in cotrained])) if cotrained else None
        for name in ("balanced_accuracy", "accuracy")
    )
    return MethodPoint(
        point.method,
        point.strength,
        _figure(point.utility),
        _figure(point.leakage),
        Validation(point.validation_utility, point.validation_leakage),
        balanced,
        accuracy,
        most_spent(played.plan, cells),
    )


def _figure(estimate: Estimate | None) -> Figure | None:
    return Figure.of(finite(estimate))


def _cotrained_figures(played: Played, cells: Sequence[CellResult], attribute: str) -> list[AttackerFigures]:
    """Return the co-trained adversary's figures, one per cell; none if it has not seen what is released.

    It reads r as the extractor computes it; with a shield on representations, something else is released.
    """
    plan = played.plan
    data = load_data(plan.study, cells[0].seed)
    shield = make_federation(plan.study, plan.method(cells[0].method), cells[0].strength, cells[0].seed, data).shield
    if not isinstance(shield, Identity) and Kind.REPRESENTATION in shield.acts_on:
        return []
    by_cell = [cell.result.cotrained[attribute] for cell in cells if attribute in cell.result.cotrained]
    return by_cell if len(by_cell) == len(cells) else []


def _cotrained(played: Played, point: Point, attribute: str) -> Point | None:
    """Return a point with the co-trained adversary's leakage; its draws are normal, with the interval's width."""
    cotrained = _cotrained_figures(played, cells_of(played, point.method)[point.strength], attribute)
    if not cotrained:
        return None
    leakage = these_releases([figures.balanced_accuracy for figures in cotrained], CHANCES)
    normal = numpy_generator(0, "co-trained draws").standard_normal(len(point.utility_draws))
    draws = np.clip(leakage.estimate + normal * (leakage.high - leakage.low) / (2 * 1.96), 0, 1)
    return replace(
        point,
        leakage=leakage,
        leakage_draws=draws,
        validation_utility=point.utility.estimate,
        validation_leakage=leakage.estimate,
    )
