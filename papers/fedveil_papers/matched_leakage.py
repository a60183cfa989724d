"""Utility at matched inference accuracy (TAPPFL's Figure 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedveil.config.cells import load_data, make_federation
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.shields.message import Kind
from fedveil.shields.shield import Identity
from fedveil.studies.frontier import Frontier, Point
from fedveil.studies.hypervolume import shown as plain_figure
from fedveil.studies.rows import CHANCES, averaged
from fedveil_papers.shown import PaperFigures, Played, Shown, at, cells_of, with_interval
from fedveil_papers.spending import most_spent, spent_in_words

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.attacks.judgement import AttackerFigures
    from fedveil.studies.check import Plan
    from fedveil.studies.results import CellResult

ATTACKERS = {"retrained": "retrained attackers", "cotrained": "co-trained adversary (weak)"}


@dataclass(frozen=True)
class MatchedLeakage(Shown):
    """Each method's utility where it leaks a given balanced accuracy; "unreachable" where it leaks more.

    With retrained attackers a method's strengths are those that validation leaves undominated, and utility lies on the
    straight line between neighbours (`Frontier.utility_at`). The co-trained adversary is not scored on validation:
    its strengths are chosen on the figures shown, which flatters, and it is weak anyway.

    Attributes:
        levels: balanced accuracies at which methods are compared.
    """

    kind: ClassVar[str] = "matched-leakage"
    levels: tuple[float, ...] = (0.55, 0.6, 0.65, 0.7, 0.75)

    def check(self, plans: Sequence[Plan]) -> None:
        """Something must be tried at several strengths, or there is nothing to match."""
        if not self.levels or not all(0 < level < 1 for level in self.levels):
            raise InputError(f"shows: {self.kind} needs levels in (0, 1), got {list(self.levels)}")
        for plan in plans:
            if not any(len(method.points) > 1 for method in plan.study.methods):
                raise InputError(
                    f"shows: {self.kind} interpolates between strengths, but no method of study {plan.study.name!r} "
                    "has two; give some"
                )

    def gather(self, played: Sequence[Played], paper: PaperFigures) -> dict[str, Any]:
        """Return the points, and each method's utility at each level; a panel per study, task and attribute."""
        panels = [
            self._panel(one, task, attribute)
            for one in played
            for task in one.results.tasks
            for attribute in one.results.attributes
        ]
        printed = [one for one in paper if "matched" in one]
        return {"kind": self.kind, "levels": list(self.levels), "panels": panels, "paper": printed}

    def _panel(self, played: Played, task: str, attribute: str) -> dict[str, Any]:
        frontier = played.results.frontier(task, attribute)
        weak = [one for one in (_cotrained(played, point, attribute) for point in frontier.points) if one]
        fronts = {"retrained": frontier, "cotrained": replace(frontier, points=tuple(weak))}
        points = []
        for point in frontier.points:
            cells = cells_of(played, point.method)[point.strength]
            known = _cotrained_figures(played, cells, attribute)
            points.append(
                {
                    "method": point.method,
                    "strength": point.strength,
                    "utility": plain_figure(point.utility),
                    "retrained": plain_figure(point.leakage),
                    "validation": {"utility": point.validation_utility, "leakage": point.validation_leakage},
                    "cotrained": averaged([one.balanced_accuracy for one in known]).as_dict() if known else None,
                    "cotrained_accuracy": averaged([one.accuracy for one in known]).as_dict() if known else None,
                    "spent": most_spent(played.plan, cells),
                }
            )
        matched = {name: self._matched(front) for name, front in fronts.items()}
        start = {"study": played.results.name, "data": played.plan.study.data.source, "task": task}
        reach = {"prior": frontier.prior, "chance": frontier.chance, "utility_prior": frontier.utility_prior}
        return {**start, "attribute": attribute, **reach, "points": points, "matched": matched}

    def _matched(self, frontier: Frontier) -> dict[str, Any]:
        found = {}
        for method in frontier.methods:
            own = [point for point in frontier.points if point.method == method]
            found[method] = {
                "least": plain_figure(min((point.leakage for point in own), key=lambda one: one.estimate)),
                "utility": [plain_figure(frontier.utility_at(method, level)) for level in self.levels],
            }
        return found

    def tables(self, found: dict[str, Any]) -> list[Table]:
        """What was measured, then what it comes to at each level."""
        from rich.table import Table
        from rich.text import Text

        made = []
        for panel in found["panels"]:
            what = f"{panel['data']}: {panel['task']} against {panel['attribute']}"
            points = Table(title=Text(f"{what}, every strength"), title_justify="left")
            for heading in ("method", "strength", "accuracy", "retrained", "co-trained (weak)", "spent"):
                points.add_column(heading)
            for one in panel["points"]:
                figures = (with_interval(one[name]) for name in ("utility", "retrained", "cotrained"))
                points.add_row(Text(one["method"]), at(one["strength"]), *figures, spent_in_words(one["spent"]))
            made.append(points)
            for attacker, words in ATTACKERS.items():
                table = Table(title=Text(f"{what}: accuracy where {words} read it at …"), title_justify="left")
                for heading in ("method", *(f"{level:g}" for level in found["levels"]), "least it leaks"):
                    table.add_column(heading)
                for method, at_levels in panel["matched"][attacker].items():
                    cells = [with_interval(one) if one else "unreachable" for one in at_levels["utility"]]
                    table.add_row(Text(method), *cells, with_interval(at_levels["least"]))
                made.append(table)
        return made

    def notes(self, found: dict[str, Any]) -> list[str]:
        """Say how levels were matched, and what the paper has."""
        said = [
            "Levels are balanced accuracies. 'unreachable': the method leaks more at every strength that validation "
            "leaves undominated. Above a method's highest leakage its best utility stands. The co-trained adversary's "
            "strengths were chosen on the figures shown; it is left out where noise is added to what it reads. ε is "
            "what the busiest device (or each person) really spent.",
        ]
        return said + [f"{one['source']}: {one['matched']}" for one in found["paper"]]

    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """Two pictures per panel: matched with the retrained attackers, and with the co-trained one."""
        from fedveil.report.marks import marks

        panels = found["panels"]
        canvas.set_size_inches(9.6, 5.0 * len(panels))
        grid = canvas.subplots(len(panels), 2, squeeze=False, sharey="row")
        for row, panel in enumerate(panels):
            looks = marks(list(dict.fromkeys(point["method"] for point in panel["points"])))
            for axes, (attacker, words) in zip(grid[row], ATTACKERS.items(), strict=True):
                for number, (method, at_levels) in enumerate(panel["matched"][attacker].items()):
                    reached = [(x, y) for x, y in zip(found["levels"], at_levels["utility"], strict=True) if y]
                    label = method if reached else f"{method}: unreachable"
                    look = looks[method]
                    axes.errorbar(
                        [level + 0.0012 * (number - 4) for level, _ in reached],  # apart, to be told apart
                        [figure["estimate"] for _, figure in reached],
                        yerr=[[_reach(figure, end) for _, figure in reached] for end in ("low", "high")],
                        color=look.light,
                        marker=look.marker,
                        markersize=5,
                        linewidth=0.9,
                        elinewidth=0.7,
                        label=label,
                    )
                axes.axhline(panel["utility_prior"], color="#565b63", linestyle="--", linewidth=0.8)
                axes.set_xticks(found["levels"])
                axes.set_xlabel(f"balanced accuracy of reading {panel['attribute']}: {words}", fontsize=8)
                axes.legend(fontsize=6.5, frameon=False, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.16))
            grid[row][0].set_ylabel(f"{panel['data']}: accuracy of {panel['task']} (dashed: prior)", fontsize=8)


def _reach(figure: dict[str, float], end: str) -> float:
    return 0.0 if figure[end] is None else abs(figure[end] - figure["estimate"])


def _cotrained_figures(played: Played, cells: Sequence[CellResult], attribute: str) -> list[AttackerFigures]:
    """Return the co-trained adversary's figures, one per cell; none where it has not seen what is released.

    It reads r as the extractor gives it: with a shield on representations, that is not what leaves.
    """
    plan = played.plan
    data = load_data(plan.study, cells[0].seed)
    shield = make_federation(plan.study, plan.method(cells[0].method), cells[0].strength, cells[0].seed, data).shield
    if not isinstance(shield, Identity) and Kind.REPRESENTATION in shield.acts_on:
        return []
    found = [cell.result.cotrained.get(attribute) for cell in cells]
    known = [one for one in found if one is not None]
    return known if len(known) == len(cells) else []


def _cotrained(played: Played, point: Point, attribute: str) -> Point | None:
    """Return a point with the co-trained adversary's leakage, normal draws of its interval's width behind it."""
    known = _cotrained_figures(played, cells_of(played, point.method)[point.strength], attribute)
    if not known:
        return None
    figure = averaged([one.balanced_accuracy for one in known], CHANCES)
    normal = numpy_generator(0, "co-trained draws").standard_normal(len(point.utility_draws))
    draws = np.clip(figure.estimate + normal * (figure.high - figure.low) / (2 * 1.96), 0, 1)
    return replace(
        point,
        leakage=figure,
        leakage_draws=draws,
        validation_utility=point.utility.estimate,
        validation_leakage=figure.estimate,
    )
