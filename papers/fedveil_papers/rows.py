"""The form of all results: one row per method, strength, task, attribute and attacker, whatever a preset measures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from fedveil.core.figures import Estimate
from fedveil.core.files import plain

if TYPE_CHECKING:
    from fedveil.studies.rows import Row as StudyRow

PaperFigures = Sequence[Mapping[str, Any]]
"""What a preset quotes from the paper: figures, each with its row and its source, or notes."""

IDENTITY = ("method", "strength", "task", "attribute", "attacker")
"""The fields that identify a row."""


@dataclass(frozen=True)
class Figure:
    """A measured number; `low` and `high` are its interval, if it has one.

    >>> print(Figure(0.8123, 0.8, 0.8251), Figure(0.5))
    0.812 [0.800, 0.825] 0.500
    """

    estimate: float
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, value: Figure | Estimate | Mapping[str, Any] | float | None) -> Figure | None:
        """Return a number, an estimate or its JSON as a figure; None if nothing was measured."""
        if value is None or isinstance(value, Figure):
            return value
        if isinstance(value, Estimate):
            return cls(value.estimate, value.low, value.high)
        if isinstance(value, Mapping):
            if value.get("estimate") is None:
                return None
            return cls(value["estimate"], value.get("low"), value.get("high"))
        return cls(value) if math.isfinite(value) else None

    def __str__(self) -> str:
        return self.shown()

    def shown(self, digits: int = 3) -> str:
        """Return the number with its interval."""
        point = f"{self.estimate:.{digits}f}"
        if self.low is None or self.high is None:
            return point
        return f"{point} [{self.low:.{digits}f}, {self.high:.{digits}f}]"

    def as_dict(self) -> dict[str, float | None]:
        """Return the form of every `--json` output."""
        return {"estimate": self.estimate, "low": self.low, "high": self.high}


Figures = Mapping[str, Figure | None]
"""Figures by the name of the measure, such as balanced_accuracy."""


@dataclass(frozen=True)
class Row:
    """One result. Fields that do not apply are None or empty.

    Attributes:
        method: the defence, or whatever else is compared.
        strength: the strength at which it was tried.
        task: what the model learns.
        attribute: what is hidden, and attacked.
        attacker: who attacks: "retrained" (on defended releases), "cotrained", "static" (on clean ones), …
        seeds: the seeds of the runs that the figures average.
        utility: how well the task is done, by measure.
        leakage: how well the attacker reads the attribute, by measure.
        paper: what the paper prints for this row, by source.
        more: what the experiment adds, as JSON values.
    """

    method: str
    strength: float | None = None
    task: str | None = None
    attribute: str | None = None
    attacker: str | None = None
    seeds: Sequence[int] = ()
    utility: Figures | None = None
    leakage: Figures | None = None
    paper: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the row as JSON values; every preset's rows have the same keys."""
        row: dict[str, Any] = plain(
            {
                "method": self.method,
                "strength": self.strength,
                "task": self.task,
                "attribute": self.attribute,
                "attacker": self.attacker,
                "seeds": list(self.seeds),
                "utility": _as_dict(self.utility),
                "leakage": _as_dict(self.leakage),
                "paper": self.paper,
                "more": self.more,
            }
        )
        return row


def _as_dict(figures: Figures | None) -> dict[str, Any] | None:
    if figures is None:
        return None
    return {name: None if figure is None else figure.as_dict() for name, figure in figures.items()}


def study_row(study: StudyRow, **more: Any) -> Row:
    """Return a study's row in the common form; texts, and the fields that only studies have, go into `more`."""
    utility, leakage = study.utility, study.leakage
    return Row(
        method=study.method,
        strength=study.strength,
        task=study.task,
        attribute=study.attribute,
        attacker=study.attacker,
        seeds=study.seeds,
        utility={
            "accuracy": Figure.of(utility.accuracy),
            "balanced_accuracy": Figure.of(utility.balanced_accuracy),
            "prior": Figure.of(utility.prior),
            "validation_accuracy": Figure.of(utility.validation_accuracy),
        },
        leakage={
            "balanced_accuracy": Figure.of(leakage.balanced_accuracy),
            "accuracy": Figure.of(leakage.accuracy),
            "auc": Figure.of(leakage.auc),
            "advantage": Figure.of(leakage.advantage),
            "mutual_information_bits": Figure.of(leakage.mutual_information_bits),
            "prior": Figure.of(leakage.prior),
            "chance": Figure.of(leakage.chance),
            "validation_balanced_accuracy": Figure.of(leakage.validation_balanced_accuracy),
            "detectable_advantage": Figure.of(leakage.detectable_advantage),
            "new_seed": None if leakage.new_seed is None else Figure.of(leakage.new_seed),
            **({} if leakage.gain is None else {"gain": Figure.of(leakage.gain)}),
        },
        more={
            "attacker_name": study.attacker_name,
            "spent": study.spent_as_dict(),
            "utility_only": study.utility_only_as_dict(),
            "head": utility.head,
            **more,
        },
    )


def beside_paper(rows: Sequence[Row], paper: PaperFigures) -> list[Row]:
    """Return the rows, each with what the paper prints for it, by source."""
    return [replace(row, paper=printed(paper, {name: getattr(row, name) for name in IDENTITY})) for row in rows]


def printed(paper: PaperFigures, about: Mapping[str, Any]) -> dict[str, Any]:
    """Return, by source, what the paper prints about something: the entries whose fields do not differ from `about`.

    >>> printed([{"method": "a", "source": "Table 2", "mse": 3}, {"method": "b", "mse": 4}], {"method": "a"})
    {'Table 2': {'mse': 3}}
    """
    entries = [entry for entry in paper if all(entry.get(key, value) == value for key, value in about.items())]
    return {
        str(entry.get("source", number)): {k: v for k, v in entry.items() if k not in about and k != "source"}
        for number, entry in enumerate(entries)
    }


def notes_of(paper: PaperFigures) -> list[str]:
    """Return the notes among what a preset quotes from the paper."""
    return [str(entry["note"]) for entry in paper if "note" in entry]
