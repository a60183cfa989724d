"""Transport: what a device shows of a record has the same distribution for every value of u, by construction."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from numbers import Real
from typing import get_args

import numpy as np
import numpy.typing as npt
import torch

from fedveil.certificates.certificate import Certificate
from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.shields.drop_columns import table_columns
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Shield
from fedveil.shields.transport.certifying import certify_map
from fedveil.shields.transport.chart import Chart, Moved, fit_chart
from fedveil.shields.transport.federated import fit_table
from fedveil.shields.transport.hidden import HiddenValues
from fedveil.shields.transport.images import Form, ImageChart, fit_images
from fedveil.shields.transport.settings import MapSettings


@dataclass(frozen=True, eq=False, repr=False)
class Transport(MapSettings, Shield):
    """Show r = f(x, u), which has the same distribution for every u: a device knows its u, so the map may read it.

    Columns in `keep` stay as they are, except for a few people who get another person's value; all other columns become
    one of `codes` codes, drawn so that within strata of what stays every value of u uses each code equally often. No
    task label is read. Symbols: s the strength.
    Guarantee: if the counts were exact and the strata were all that stays, the total variation between
    the codes of two values of u would be multiplied by 1 − s, and 0 at s = 1. What remains is what kept columns
    reveal beyond their strata, and the error of the counts: `certify` bounds it for the code, with people not used
    here. It fails closed: a record without u, or with a u that no training person had, is not shown.

    With an `epsilon` the map is learned by few questions, as in a federation (`fedveil.shields.transport.federated`):
    columns that stay are not aligned, weights are 1 by default, and there are no common directions. Without one the
    fuller fit is used, with `noise` on its counts.

    Attributes:
        attribute: the sensitive attribute to hide, or several, which are hidden together (every combination is a
            value).
        epsilon: the ε (at δ = 1e-5, for adding or removing a person) that all counts together may spend; the noise
            follows from it.
        images: for images, "codes" shows a code's picture, and "moments" the picture itself with means and covariances
            moved.
        chart_: once prepared, the fitted map, with its ε.
        hidden_: once prepared, the hidden values that training people had.
    """

    name = "transport"
    acts_on = frozenset({Kind.INPUT})

    attribute: str | list[str]
    _: KW_ONLY
    epsilon: float | None = None
    images: Form = "codes"
    chart_: Chart | ImageChart = field(init=False)
    hidden_: HiddenValues = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.attribute, str | list | tuple):
            raise InputError(f"transport: the attribute to hide must be a name or several, got {self.attribute!r}")
        super().__post_init__()
        if len(set(self.hidden)) < max(len(self.hidden), 1):
            raise InputError("transport: name at least one attribute to hide, and each only once")
        if self.epsilon is not None and not (isinstance(self.epsilon, Real) and self.epsilon > 0):
            raise InputError(f"transport: epsilon must be above 0, got {self.epsilon!r}")
        if self.epsilon is not None and self.noise:
            raise InputError("transport: give epsilon or noise, not both: the noise follows from epsilon")
        if self.images not in get_args(Form):
            raise InputError(f"transport: images must be one of {', '.join(get_args(Form))}, got {self.images!r}")

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={getattr(self, name)!r}" for name in inspect.signature(type(self)).parameters)
        return f"Transport({settings})"

    @property
    def hidden(self) -> tuple[str, ...]:
        """The attributes that are hidden together."""
        return (self.attribute,) if isinstance(self.attribute, str) else tuple(self.attribute)

    def prepared(self, data: AttributeData, seed: int) -> Transport:
        """Fit the map on training people whose attribute is known; their task labels are not read."""
        names = self._columns(data)
        attributes = [data.attribute(name) for name in self.hidden]
        complete = np.all([attribute.known for attribute in attributes], axis=0)
        if not complete.any():
            raise InputError(f"transport: no training record of {data.name} has {', '.join(self.hidden)}")
        hidden = HiddenValues.learn([attribute.take(np.flatnonzero(complete)) for attribute in attributes])
        x, u = data.x[complete], hidden.of([attribute.codes[complete] for attribute in attributes])
        chart: Chart | ImageChart
        if x.ndim == 4:
            chart = fit_images(x, u, hidden.count, self, seed, self.epsilon or float("inf"), self.images)
        elif self.epsilon is not None:
            chart = fit_table(x, names, u, hidden.count, self, seed, self.epsilon)
        else:
            chart = fit_chart(x, names, u, hidden.count, self, seed)
        fitted = copy.copy(self)
        vars(fitted).update(chart_=chart, hidden_=hidden)  # the settings are frozen, but these are not settings
        return fitted

    def _columns(self, data: AttributeData) -> tuple[str, ...]:
        """Return the table's column of each feature (none for images), and refuse settings that do not fit the data."""
        if data.x.ndim == 4:
            for setting in ("keep", "weights", "noise"):
                if getattr(self, setting):
                    raise InputError(f"transport: {setting} is for tables, but {data.name} holds images; leave it out")
            return ()
        names = table_columns(data)
        for name in (*self.keep, *self.weights):
            if name not in names:
                raise InputError(
                    f"transport: {data.name} has no column {name!r}: {nearest(name, dict.fromkeys(names))}"
                )
        return names

    def change(self, message: Message, context: Context) -> Message:
        """Show what the map makes of each record and its u."""
        u = []
        for name in self.hidden:
            if f"u:{name}" not in context.data:
                raise InputError(f"transport: the device does not know {name!r} of its records")
            u.append(context.data[f"u:{name}"].cpu().numpy().astype(np.int64))
        moved = self._moved(message.values.detach().cpu().numpy().astype(np.float64), u, context.generator)
        return message.with_values(torch.from_numpy(moved.x).to(message.values))

    def certify(
        self, data: AttributeData, rows: IntArray, seed: int, confidence: float = 0.95, about: str | None = None
    ) -> Certificate:
        """Bound every observer's balanced accuracy from (stratum, code), by people on whom the map was not fitted.

        If nothing is kept, stratum and code are all that is shown of a person. `about` names one of several hidden
        attributes; by default, the bound is for their combinations.
        """
        chart = self._fitted()
        return certify_map(chart, self.hidden_, data, rows, seed, confidence, about, tuple(self.keep))

    def certificates_on(
        self, data: AttributeData, rows: IntArray, attribute: str, seed: int
    ) -> tuple[Certificate, ...]:
        """Certify a hidden attribute by people on whom the map was not fitted; nothing if no codes are shown.

        If columns stay, the bound is on the code alone, and its quantity says so: what is shown reveals more.
        """
        if attribute not in self.hidden or not len(self._fitted().centres) or data.groups is not None:
            return ()
        all_codes = [data.attribute(name).codes for name in self.hidden]
        complete = rows[np.all([codes[rows] >= 0 for codes in all_codes], axis=0)]
        codes = all_codes[self.hidden.index(attribute)]
        trained = np.unique(codes[data.rows(Split.TRAIN)])
        if len(trained[trained >= 0]) < 2 or not np.isin(trained[trained >= 0], codes[complete]).all():
            return ()  # a value that no held-out person has cannot be counted
        certificate = self.certify(data, complete, seed, about=attribute)
        alone = "balanced accuracy from the code and its stratum alone"
        return (replace(certificate, quantity=alone) if self.keep else certificate,)

    def _fitted(self) -> Chart | ImageChart:
        if not hasattr(self, "chart_"):
            raise InputError("transport: the map is not fitted yet; call prepared(data, seed) first")
        return self.chart_

    def _moved(self, x: npt.NDArray[np.float64], u: Sequence[IntArray], generator: torch.Generator) -> Moved:
        return self._fitted().move(x, self.hidden_.of(u), generator)
