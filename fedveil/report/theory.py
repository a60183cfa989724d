"""What theory says: TAPPFL's two theorems, as printed and corrected, with what was measured.

The theorems need two unknown quantities: the best attacker's advantage, and H(u|r). The figures of the attackers tried
are used in their place, so the results are estimates against the attackers tried; if a certificate bounds the quantity,
that bound is shown too. Everything is computed from the figures that the page shows, with four digits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from fedveil.certificates.equivocation import AttackerCrossEntropy, estimate_accuracy
from fedveil.certificates.tappfl_theorems import (
    ClassifierConstants,
    corrected_theorem1_error_bound,
    printed_theorem1_error_bound,
    printed_theorem2_accuracy_bound,
)
from fedveil.report.figures import Figure, mean_figure, number
from fedveil.report.settings import Setting
from fedveil.studies.model import CellFigures
from fedveil.studies.seeds import CHANCES


class Theorems(NamedTuple):
    """The theorems' figures for one setting: means over its cells, and the weakest of their certified bounds.

    Attributes:
        advantage, accuracy: of the strongest attacker, measured.
        error: the task's error among people with u = 0 plus that among those with u = 1, measured.
        radius, lipschitz: R and C_L of the task's head, measured on what test people released (`ClassifierConstants`);
            None if an earlier version computed a cell, and did not measure them. C_L is None beside a number R if it is
            infinite.
        error_corrected, error_printed, error_certified: Theorem 1's lower bounds on it; the printed one with these R
            and C_L, and so None without them.
        equivocation: an upper bound on H(u|r).
        accuracy_corrected, accuracy_printed, accuracy_certified: Theorem 2's upper bounds on the accuracy.
    """

    advantage: Figure | None
    accuracy: Figure | None
    error: float | None
    radius: float | None
    lipschitz: float | None
    error_corrected: float | None
    error_printed: float | None
    error_certified: float | None
    equivocation: float | None
    accuracy_corrected: float | None
    accuracy_printed: float | None
    accuracy_certified: float | None


@dataclass(frozen=True)
class TheoryTable:
    """The theorems' figures for one task and one attribute.

    Attributes:
        gap: Δ; None if the task or the attribute has more than two values, since Theorem 1 then says nothing.
        entropy: H(u) in bits.
        values: how many values the attribute has.
        settings: a line for each setting; None if no cell has the figures.
    """

    gap: float | None
    entropy: float | None
    values: int
    settings: list[Theorems | None]


class _CellTheorems(NamedTuple):
    error: float | None
    radius: float | None
    lipschitz: float | None
    error_corrected: float | None
    error_printed: float | None
    error_certified: float | None
    equivocation: float | None
    accuracy_corrected: float | None
    accuracy_printed: float | None
    accuracy_certified: float | None


_WEAKEST: dict[str, Callable[[list[float]], float]] = {"error_certified": min, "accuracy_certified": max}
"""Of several seeds' certified bounds, only the weakest holds for all seeds; their mean is not a bound."""


def theory(settings: Sequence[Setting], task: str, attribute: str) -> TheoryTable | None:
    """Return the theorems' figures of every setting; None if no cell has the facts that they need."""
    results = [cell.result for setting in settings for cell in setting.cells]
    results = [result for result in results if attribute in result.leakage and _entropy(result, attribute) is not None]
    if not results:
        return None
    gaps = [_gap(result, task, attribute) for result in results]
    return TheoryTable(
        gap=_mean(gaps),
        entropy=_mean([_entropy(result, attribute) for result in results]),
        values=len(results[0].leakage[attribute].classes),
        settings=[_setting(setting, task, attribute) for setting in settings],
    )


def _setting(setting: Setting, task: str, attribute: str) -> Theorems | None:
    """Return the figures of one setting, over the cells that have them."""
    each = (_cell(cell.result, task, attribute) for cell in setting.cells)
    cells = [theorems for theorems in each if theorems is not None]
    if not cells:
        return None
    strongest = [cell.result.strongest(attribute) for cell in setting.cells if attribute in cell.result.leakage]
    columns = dict(zip(_CellTheorems._fields, zip(*cells, strict=True), strict=True))
    return Theorems(
        advantage=mean_figure(attacker.advantage for attacker in strongest),
        accuracy=mean_figure((attacker.accuracy for attacker in strongest), CHANCES),
        **{name: _joined(column, _WEAKEST.get(name, np.mean)) for name, column in columns.items()},
    )


def _cell(result: CellFigures, task: str, attribute: str) -> _CellTheorems | None:
    if attribute not in result.leakage:
        return None
    judged = result.leakage[attribute]
    advantage, bits = number(judged.worst.advantage.estimate), number(judged.mutual_information_bits.estimate)
    entropy, gap = _entropy(result, attribute), _gap(result, task, attribute)
    if advantage is None or entropy is None or bits is None:
        return None
    advantage = min(1.0, max(0.0, advantage))
    left = max(0.0, entropy - max(0.0, bits))  # no attacker's cross-entropy lies below H(u|r): this is an upper bound
    values = len(judged.classes)
    tried = AttackerCrossEntropy(left, values, (judged.mutual_information_attacker,))
    bounds: dict[str, float] = {}
    for certificate in result.binding_certificates(attribute):
        if certificate.direction == "upper":  # all of them hold together, so the smallest does
            bound = certificate.bound
            bounds[certificate.quantity] = min(bound, bounds.get(certificate.quantity, bound))
    most = min(1.0, max(0.0, bounds["advantage"])) if "advantage" in bounds else None
    constants = result.utility[task].constants if task in result.utility and gap is not None else None
    return _CellTheorems(
        error=_summed_error(result, task, attribute, values),
        radius=None if constants is None else constants.radius,
        lipschitz=None if constants is None else constants.lipschitz,
        error_corrected=None if gap is None else corrected_theorem1_error_bound(gap, advantage),
        error_printed=None if gap is None or constants is None else _printed(gap, advantage, constants),
        error_certified=None if gap is None or most is None else corrected_theorem1_error_bound(gap, most),
        equivocation=left,
        accuracy_corrected=estimate_accuracy(tried).value,
        accuracy_printed=printed_theorem2_accuracy_bound(left) if values == 2 else None,
        accuracy_certified=bounds.get("accuracy"),
    )


def _printed(gap: float, advantage: float, constants: ClassifierConstants) -> float:
    if advantage == 0.0:
        return gap  # whatever R and C_L are, even an infinite C_L
    return printed_theorem1_error_bound(gap, advantage, constants.radius, constants.lipschitz)


def _entropy(result: CellFigures, attribute: str) -> float | None:
    facts = result.theory.get(attribute)
    return None if facts is None else number(facts.entropy_bits)


def _gap(result: CellFigures, task: str, attribute: str) -> float | None:
    facts = result.theory.get(attribute)
    return None if facts is None else number(facts.gap.get(task))


def _summed_error(result: CellFigures, task: str, attribute: str, values: int) -> float | None:
    """Return the task's error among u = 0 plus that among u = 1; None unless both are measured."""
    groups = result.utility[task].by_group.get(attribute, {}) if task in result.utility else {}
    accuracies = [accuracy for figure in groups.values() if (accuracy := number(figure.estimate)) is not None]
    return sum(1 - accuracy for accuracy in accuracies) if values == 2 and len(accuracies) == len(groups) == 2 else None


def _mean(values: Sequence[float | None]) -> float | None:
    return _joined(values, np.mean)


def _joined(values: Sequence[float | None], join: Callable[[list[float]], float]) -> float | None:
    """Join the values of several cells; None if one is missing."""
    present = [value for value in values if value is not None]
    return number(float(join(present))) if present and len(present) == len(values) else None
