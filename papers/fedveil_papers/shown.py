"""How results are laid out: what every experiment, and every table or figure made of studies, does with its results."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from fedveil.core.errors import InputError, nearest
from fedveil.core.figures import Estimate
from fedveil.core.files import plain
from fedveil_papers.rows import Figure, PaperFigures, Row

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.config.study import Method
    from fedveil.studies.check import Plan
    from fedveil.studies.results import CellResult, StudyResults
    from fedveil_papers.experiment import Measured, Part

Results = TypeVar("Results")
"""What an experiment, or a table or figure, has measured or gathered: a frozen dataclass of its own."""


class Display(ABC, Generic[Results]):
    """How results are laid out: rows, tables, notes, a picture."""

    kind: ClassVar[str]

    @abstractmethod
    def rows(self, results: Results) -> list[Row]:
        """Return all figures as rows of the common shape."""

    @abstractmethod
    def tables(self, results: Results) -> list[Table]:
        """Lay the figures out for the terminal."""

    @abstractmethod
    def notes(self, results: Results) -> list[str]:
        """Return lines that say what the figures are based on."""

    @abstractmethod
    def draw(self, results: Results, canvas: Any) -> None:
        """Draw the figures on an empty matplotlib figure."""

    def shows(self, results: Results) -> dict[str, Any]:
        """Return the value of `shows` in reproduced.json: the results as JSON values."""
        values = asdict(results) if is_dataclass(results) and not isinstance(results, type) else results
        shown: dict[str, Any] = plain({"kind": self.kind, **values})  # type: ignore[dict-item]
        return shown

    def pages(self, results: Results) -> dict[str, str]:
        """Return further files to write into the folder of results, by name; usually none."""
        return {}


@dataclass(frozen=True, eq=False)
class Played:
    """One of a preset's studies: its plan and its results."""

    plan: Plan
    results: StudyResults


class Shown(Display[Results]):
    """A table or figure made of studies."""

    @abstractmethod
    def check(self, plans: Sequence[Plan]) -> None:
        """Refuse studies that lack what is shown, before anything is run."""

    def parts(self, played: Sequence[Played]) -> list[Part]:
        """Return what is measured beyond the studies, such as times, and not kept; usually nothing."""
        return []

    @abstractmethod
    def gather(self, played: Sequence[Played], measured: Measured, paper: PaperFigures) -> Results:
        """Return the figures of the studies and of all parts, with the paper's beside them."""

    def rows(self, results: Results) -> list[Row]:
        """Return the rows that this adds to its studies' rows; usually none."""
        return []


def named_method(plan: Plan, name: str, shown: str) -> Method:
    """Return a study's method by name; if it is missing, the error says that what is shown needs it."""
    for method in plan.methods:
        if method.name == name:
            return method
    hint = nearest(name, [method.name for method in plan.methods])
    raise InputError(f"shows: {shown} needs method {name!r}, which study {plan.study.name!r} lacks: {hint}")


def cells_of(played: Played, method: str) -> dict[float | None, list[CellResult]]:
    """Return a method's finished cells by strength, in the planned order."""
    from fedveil.studies.rows import by_point

    points = by_point(played.results.cells)
    return {strength: cells for (name, strength), cells in points.items() if name == method}


def at(strength: float | None) -> str:
    """Return a strength as a table shows it."""
    return "" if strength is None else f"{strength:g}"


def with_interval(figure: Figure | Estimate | Mapping[str, Any] | None, digits: int = 3) -> str:
    """Return a figure with its interval; a dash if there is none."""
    value = Figure.of(figure)
    return "–" if value is None else value.shown(digits)
