"""Mingle: change as little as possible of some records, by a map that ignores u, so that u becomes hard to guess."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from fedveil.core.arrays import FloatArray, IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.core.randomness import child_seed
from fedveil.data.attribute_data import AttributeData
from fedveil.shields.drop_columns import information_bits, table_columns
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.mingle.prototypes import Prototypes, fit_prototypes
from fedveil.shields.mingle.table import Step, fit_step
from fedveil.shields.shield import Shield

_TOGETHER = 2
_ALONE = 2
_DISTANCES = 5
_NEGLIGIBLE = 0.02
"""If no more than this share of the budget is left, no further step is fitted."""


@dataclass(frozen=True, eq=False, repr=False)
class Mingle(Shield):
    """Show x′ drawn from K(· | x, y), the same K for every u, chosen to hide most of u for a given mean change.

    A network's gradient at one record is a function of (x′, y), so by data processing no update, of one round or of
    many, reveals more about u than (x′, y) does, whatever the network. Noise of the same norm on updates is spread over
    all coordinates, and an attacker who knows their structure averages it out.
    Tables: groups V of columns, starting with those that reveal most about u, take other values by the chances K(v′ |
    v, bin, y) that minimise, within the budget, how often the best guess of u from (v′, bin, y) is right: a linear
    programme (`fedveil.shields.mingle.plan`). Bins hold records whose rest, with y, reveals equally much about u. For
    images, and on request for tables if budget is left, some people show an average record of their label, starting
    with those whom it changes least.
    Symbols: K the chances, U the attribute's number of values.
    Guarantee: none on the distribution; `steps_` and `prototypes_` hold what the plans predict on training people. The
    prediction for averages counts the u of everybody who stays as known, so it holds against every observer up to the
    error of the counts. The label y is not hidden, nor what it reveals about u. It fails closed: a record without its
    label, or with a label that no training person had, is not used.

    Attributes:
        attribute: the sensitive attribute to hide.
        budget: the mean of ‖x′ − x‖ / √(‖x‖² + 1), the relative change of a first layer's gradient at equal slopes;
            the change of whole updates differs.
        columns: for tables, groups of columns in the order in which they are moved; by default, the two that reveal
            most about u together, then the next two one by one.
        averages: how many average records a label has; with 0, nobody shows one. By default 1 for images and 0 for
            tables, whose steps hide more for less change.
        bins: the number of bins for what the rest of a record reveals.
        steps_: once prepared, the fitted steps of a table.
        prototypes_: once prepared, the averages, if there are any.
        spent_: once prepared, the mean change of training people.
    """

    name = "mingle"
    acts_on = frozenset({Kind.INPUT})
    reads_label = True

    attribute: str
    budget: float
    columns: Sequence[Sequence[str]] | None = None
    averages: int | None = None
    bins: int = 12
    steps_: tuple[Step, ...] = field(init=False)
    prototypes_: Prototypes | None = field(init=False)
    spent_: float = field(init=False)
    labelled_: bool = field(init=False)

    def __post_init__(self) -> None:
        attribute, budget, columns, averages, bins = self.attribute, self.budget, self.columns, self.averages, self.bins
        if not isinstance(budget, int | float) or isinstance(budget, bool) or not 0 < budget < math.inf:
            raise InputError(f"mingle: the budget is a mean relative change above 0, not {budget!r}")
        if not isinstance(attribute, str) or not attribute:
            raise InputError(f"mingle: name the attribute to hide, got {attribute!r}")
        for setting, value, least in (("averages", 0 if averages is None else averages, 0), ("bins", bins, 1)):
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise InputError(f"mingle: {setting} must be a whole number of at least {least}, not {value!r}")
        groups = () if columns is None else columns
        if isinstance(groups, str) or any(isinstance(group, str) or not group for group in groups):
            raise InputError(f"mingle: columns are groups of names, each a list, not {columns!r}")
        object.__setattr__(self, "budget", float(budget))
        object.__setattr__(self, "columns", None if columns is None else [list(group) for group in columns])

    def __repr__(self) -> str:
        names = ("attribute", "budget", "averages", "bins", "columns")  # in the order in which saved runs list them
        return f"Mingle({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    def prepared(self, data: AttributeData, seed: int) -> Mingle:
        """Fit the chances on training people whose attribute and, if there is a task, label are known."""
        secret = data.attribute(self.attribute)
        train = data.take(secret.known if data.y is None else secret.known & data.y.known)
        values, u = np.unique(train.attribute(self.attribute).codes, return_inverse=True)
        if len(values) < 2:
            raise InputError(f"mingle: training people of {data.name} have fewer than two values of {self.attribute!r}")
        y = np.zeros(len(u), np.int64) if train.y is None else train.y.codes.astype(np.int64)
        true = train.x.reshape(len(u), -1).astype(np.float64)
        size = np.sqrt((true**2).sum(axis=1) + 1)
        generator = torch.Generator().manual_seed(child_seed(seed, "mingle") % 2**63)
        shown, steps, spent = true, [], 0.0
        for number, group in enumerate(self._groups(train) if train.x.ndim == 2 else []):
            step_seed = child_seed(seed, "mingle", number)
            step = fit_step(shown, y, u, table_columns(train), group, self.budget - spent, self.bins, size, step_seed)
            shown = step.move(shown, y, generator)
            steps.append(step)
            spent = max(spent + step.plan.spent, _change(true, shown, size))  # training people may change less
            if spent > (1 - _NEGLIGIBLE) * self.budget:
                break
        prototypes = None
        averages = int(train.x.ndim != 2) if self.averages is None else self.averages
        if averages and spent < (1 - _NEGLIGIBLE) * self.budget:
            step_seed = child_seed(seed, "mingle", "averages")
            remaining = self.budget - spent
            prototypes = fit_prototypes(shown, y, u, remaining, averages, _DISTANCES, size, step_seed)
            spent = _change(true, prototypes.move(shown, y, generator), size)
        fitted = copy.copy(self)
        vars(fitted).update(  # the settings are frozen, but these are not settings
            steps_=tuple(steps), prototypes_=prototypes, spent_=spent, labelled_=train.y is not None
        )
        return fitted

    def _groups(self, data: AttributeData) -> Sequence[Sequence[str]]:
        names = table_columns(data)
        if self.columns is not None:
            for name in (name for group in self.columns for name in group):
                if name not in names:
                    raise InputError(
                        f"mingle: {data.name} has no column {name!r}: {nearest(name, dict.fromkeys(names))}"
                    )
            return self.columns
        secret = data.attribute(self.attribute)
        bits = {
            column: information_bits(data.x[:, [name == column for name in names]], secret)
            for column in dict.fromkeys(names)
        }
        ranked = sorted(bits, key=lambda column: -bits[column])
        alone = ranked[_TOGETHER : _TOGETHER + _ALONE]
        return [ranked[:_TOGETHER], *([column] for column in alone)]

    def change(self, message: Message, context: Context) -> Message:
        """Draw what is shown of each record; u is not read."""
        if not hasattr(self, "steps_"):
            raise InputError("mingle: not fitted yet; call prepared(data, seed) first")
        x = message.values.detach().cpu().numpy().astype(np.float64)
        shown = x.reshape(len(x), -1)
        y = self._labels(context, len(x))
        for step in self.steps_:
            shown = step.move(shown, y, context.generator)
        if self.prototypes_ is not None:
            shown = self.prototypes_.move(shown, y, context.generator)
        return message.with_values(torch.from_numpy(shown.reshape(x.shape)).to(message.values))

    def _labels(self, context: Context, count: int) -> IntArray:
        if not self.labelled_:
            return np.zeros(count, np.int64)
        if "y" not in context.data or len(context.data["y"]) != count:
            raise InputError("mingle: the device must know the label of each of its records")
        y = context.data["y"].cpu().numpy().astype(np.int64)
        if y.min(initial=0) < 0:
            raise InputError("mingle: a record has no label")
        return np.asarray(y)


def _change(true: FloatArray, shown: FloatArray, size: FloatArray) -> float:
    return float((np.linalg.norm(shown - true, axis=1) / size).mean())
