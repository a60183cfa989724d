"""Results as rows: one per method, strength, task, attribute and attacker, averaged over seeds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fedveil.attacks.judgement import AttackerFigures, Judgement
from fedveil.core.figures import Estimate
from fedveil.federation.utility import Utility
from fedveil.studies.model import SpentOnUpdates
from fedveil.studies.seeds import CHANCES, Spread, new_seed, pooled_spread, these_releases

if TYPE_CHECKING:
    from fedveil.studies.results import CellResult

ATTACKER_KINDS = ("retrained", "cotrained", "decensoring", "decensoring-control")
"""Kinds of attacker: the panel's strongest, the game's own adversary, de-censoring, and the control of de-censoring."""

MEASURES = ("balanced_accuracy", "accuracy", "auc", "advantage", "mutual_information_bits")
"""What an attacker is measured by, as rows and tables show it."""

_RANGES = dict.fromkeys(("balanced_accuracy", "accuracy", "auc"), CHANCES)


@dataclass(frozen=True)
class MeanUtility:
    """How well a task can be done, averaged over seeds; `head` is the kind that was chosen most often."""

    accuracy: Estimate
    balanced_accuracy: Estimate
    prior: float
    validation_accuracy: float
    head: str

    @classmethod
    def of(cls, served: Sequence[Utility]) -> MeanUtility:
        """Average the seeds."""
        return cls(
            accuracy=these_releases([utility.accuracy for utility in served], CHANCES),
            balanced_accuracy=these_releases([utility.balanced_accuracy for utility in served], CHANCES),
            prior=float(np.mean([utility.prior for utility in served])),
            validation_accuracy=float(np.mean([utility.validation_accuracy for utility in served])),
            head=_commonest([utility.head for utility in served]),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {
            "accuracy": self.accuracy.as_dict(),
            "balanced_accuracy": self.balanced_accuracy.as_dict(),
            "prior": self.prior,
            "validation_accuracy": self.validation_accuracy,
            "head": self.head,
        }


@dataclass(frozen=True)
class MeanLeakage:
    """What an attacker reads of an attribute, averaged over seeds.

    Attributes:
        balanced_accuracy, accuracy, auc, advantage, mutual_information_bits: on the test people.
        prior: accuracy of always guessing the most frequent value.
        chance: balanced accuracy of guessing, 1 / K.
        validation_balanced_accuracy: what a choice may look at; NaN if the attacker is not scored on validation.
        detectable_advantage: the smallest advantage that this number of people could have shown.
        gain: only for de-censoring: what it reads beyond its control.
        new_seed: the balanced accuracy to expect of a further seed's release; None with fewer than three seeds.
    """

    balanced_accuracy: Estimate
    accuracy: Estimate
    auc: Estimate
    advantage: Estimate
    mutual_information_bits: Estimate
    prior: Estimate
    chance: float
    validation_balanced_accuracy: float
    detectable_advantage: float
    gain: Estimate | None = None
    new_seed: Estimate | None = None

    @classmethod
    def of(
        cls,
        attackers: Sequence[AttackerFigures],
        judged: Sequence[Judgement],
        gains: Sequence[Estimate] = (),
        spread: Spread | None = None,
    ) -> MeanLeakage:
        """Average the seeds; `spread` is that between seeds, if it could be pooled over a study's points."""
        return cls(
            **{
                measure: these_releases([getattr(figures, measure) for figures in attackers], _RANGES.get(measure))
                for measure in MEASURES
            },
            prior=these_releases([judgement.prior for judgement in judged], CHANCES),
            chance=1 / len(judged[0].classes),
            validation_balanced_accuracy=float(
                np.mean([figures.validation_balanced_accuracy for figures in attackers])
            ),
            detectable_advantage=float(np.mean([judgement.detectable_advantage for judgement in judged])),
            gain=these_releases(gains) if gains else None,
            new_seed=new_seed([figures.balanced_accuracy for figures in attackers], spread, CHANCES),
        )

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        validated = self.validation_balanced_accuracy
        return {
            **{name: getattr(self, name).as_dict() for name in (*MEASURES, "prior")},
            "chance": self.chance,
            "validation_balanced_accuracy": None if math.isnan(validated) else validated,
            "detectable_advantage": self.detectable_advantage,
            "new_seed": None if self.new_seed is None else self.new_seed.as_dict(),
            **({} if self.gain is None else {"gain": self.gain.as_dict()}),
        }


@dataclass(frozen=True)
class Row:
    """One method at one strength, seen by one kind of attacker: a task's utility and an attribute's leakage.

    Attributes:
        attacker: its kind, one of `ATTACKER_KINDS`.
        attacker_name: its name; over seeds, the name that occurs most often.
        seeds: the seeds that are averaged.
        spent: what noise on updates has spent, the maximum over seeds; None if there is no noise on updates.
        utility_only: for each attribute that the game hides, how many devices have nothing to hide, the maximum over
            seeds.
        devices: the number of devices.
    """

    method: str
    strength: float | None
    task: str
    attribute: str
    attacker: str
    attacker_name: str
    seeds: tuple[int, ...]
    utility: MeanUtility
    leakage: MeanLeakage
    spent: SpentOnUpdates | None = None
    utility_only: Mapping[str, int] = field(default_factory=dict)
    devices: int = 0

    def as_dict(self) -> dict[str, Any]:
        """Return plain JSON values; `paper` is empty, to be filled where a paper's figures are set beside ours."""
        return {
            **{name: getattr(self, name) for name in ("method", "strength", "task", "attribute")},
            "attacker": self.attacker,
            "attacker_name": self.attacker_name,
            "seeds": list(self.seeds),
            "utility": self.utility.as_dict(),
            "leakage": self.leakage.as_dict(),
            "paper": {},
            "spent": self.spent_as_dict(),
            "utility_only": self.utility_only_as_dict(),
        }

    def spent_as_dict(self) -> dict[str, Any] | None:
        """Return what noise on updates has spent as JSON values; an infinite ε is null."""
        if self.spent is None:
            return None
        return {
            "epsilon": None if math.isinf(self.spent.epsilon) else self.spent.epsilon,
            "delta": self.spent.delta,
            "releases": self.spent.releases,
            "covers": self.spent.covers,
        }

    def utility_only_as_dict(self) -> dict[str, dict[str, int]]:
        """Return, by attribute, how many of how many devices have nothing to hide."""
        return {name: {"devices": idle, "of": self.devices} for name, idle in self.utility_only.items()}


def by_point(cells: Iterable[CellResult]) -> dict[tuple[str, float | None], list[CellResult]]:
    """Return the cells of each method and strength, in the order in which they are planned."""
    points: dict[tuple[str, float | None], list[CellResult]] = {}
    for cell in cells:
        points.setdefault((cell.method, cell.strength), []).append(cell)
    return points


def rows_of(cells: Sequence[CellResult]) -> list[Row]:
    """Return all rows; a cell that lacks a task or an attribute is left out of the rows about it."""
    spreads = {attribute: spread_of(cells, attribute) for attribute in _names(cell.result.leakage for cell in cells)}
    return [
        row
        for cells_at_point in by_point(cells).values()
        for task in _names(cell.result.utility for cell in cells_at_point)
        for attribute in _names(cell.result.leakage for cell in cells_at_point)
        for row in rows_at(cells_at_point, task, attribute, spreads[attribute])
    ]


def spread_of(cells: Sequence[CellResult], attribute: str) -> Spread | None:
    """Return how far an attribute's leakage differs between seeds, pooled over a study's points if that is allowed."""
    judged = [cell for cell in cells if attribute in cell.result.leakage]
    return pooled_spread(
        [
            [cell.result.strongest(attribute).balanced_accuracy.estimate for cell in cells_at_point]
            for cells_at_point in by_point(judged).values()
        ]
    )


def rows_at(cells: Sequence[CellResult], task: str, attribute: str, spread: Spread | None = None) -> list[Row]:
    """Return the rows of one task and attribute, from the cells of one method and strength that have both figures.

    An attacker outside the panel has a row only if all of these cells have it.
    """
    cells = [cell for cell in cells if cell.result.lacks(task, attribute) is None]
    if not cells:
        return []
    results = [cell.result for cell in cells]
    utility = MeanUtility.of([result.utility[task] for result in results])
    judged = [result.leakage[attribute] for result in results]
    attackers = [{"retrained": result.strongest(attribute), **result.beside_panel(attribute)} for result in results]
    rows = []
    for kind in ATTACKER_KINDS:
        if not all(kind in by_kind for by_kind in attackers):
            continue
        each = [by_kind[kind] for by_kind in attackers]
        gains = [result.decensoring[attribute].gain for result in results] if kind == "decensoring" else []
        rows.append(
            Row(
                method=cells[0].method,
                strength=cells[0].strength,
                task=task,
                attribute=attribute,
                attacker=kind,
                attacker_name=_commonest([figures.name for figures in each]),
                seeds=tuple(cell.seed for cell in cells),
                utility=utility,
                leakage=MeanLeakage.of(each, judged, gains, spread if kind == "retrained" else None),
                spent=most_spent([result.spent for result in results]),
                utility_only={
                    name: max(result.utility_only.get(name, 0) for result in results)
                    for name in _names(result.utility_only for result in results)
                },
                devices=max(result.devices for result in results),
            )
        )
    return rows


def most_spent(each: Sequence[Sequence[SpentOnUpdates]]) -> SpentOnUpdates | None:
    """Return the ε that devices spent on updates, the maximum over seeds; None if some seed has no noise on updates.

    Within a seed, several shields on one update each give a valid bound, so the smallest counts.
    """
    tightest = [min(spent, key=lambda bound: bound.epsilon) for spent in each if spent]
    return max(tightest, key=lambda bound: bound.epsilon) if tightest and len(tightest) == len(each) else None


def _names(mappings: Iterable[Mapping[str, object]]) -> list[str]:
    """Return the keys of all mappings, in order of first appearance."""
    return list(dict.fromkeys(name for mapping in mappings for name in mapping))


def _commonest(names: Sequence[str]) -> str:
    return max(dict.fromkeys(names), key=names.count)
