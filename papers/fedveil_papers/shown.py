"""What every table or figure of a preset can do: check its studies, gather its figures, print them, draw them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.core.errors import InputError, nearest

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.config.study import Method
    from fedveil.studies.check import Plan
    from fedveil.studies.results import CellResult, StudyResults

PaperFigures = Sequence[dict[str, Any]]


@dataclass(frozen=True, eq=False)
class Played:
    """One of a preset's studies: as it was planned, and as it came out."""

    plan: Plan
    results: StudyResults


class Display(ABC):
    """How figures are laid out: from plain JSON alone."""

    kind: ClassVar[str]

    @abstractmethod
    def tables(self, found: dict[str, Any]) -> list[Table]:
        """Lay the figures out for the terminal."""

    @abstractmethod
    def notes(self, found: dict[str, Any]) -> list[str]:
        """Say in words what the figures rest on, a line each."""

    @abstractmethod
    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """Draw the figures on an empty matplotlib figure."""


class Shown(Display):
    """A table or figure made of studies. What `gather` returns is plain JSON, and all that is laid out."""

    @abstractmethod
    def check(self, plans: Sequence[Plan]) -> None:
        """Refuse studies that lack what is shown, before anything is run."""

    @abstractmethod
    def gather(self, played: Sequence[Played], paper: PaperFigures) -> dict[str, Any]:
        """Return the figures, the paper's beside them."""


def named_method(plan: Plan, name: str, shown: str) -> Method:
    """Return a study's method by name, or say that what is shown needs it."""
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


def with_interval(figure: dict[str, float] | None, digits: int = 3) -> str:
    """Return a figure with its interval; a dash where there is none."""
    if figure is None or figure.get("estimate") is None:
        return "–"
    ends = [figure.get("low"), figure.get("high")]
    point = f"{figure['estimate']:.{digits}f}"
    return point if None in ends else f"{point} [{ends[0]:.{digits}f}, {ends[1]:.{digits}f}]"
