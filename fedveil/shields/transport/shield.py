"""Transport: what a device shows of a record has the same distribution whatever its u, by construction."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import fields, replace
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError, nearest
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.shields.drop_columns import table_columns
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Shield
from fedveil.shields.transport.chart import Chart, Moved
from fedveil.shields.transport.federated_table import fit_table
from fedveil.shields.transport.fitting import fit_chart
from fedveil.shields.transport.images import FORMS, ImageChart, fit_images
from fedveil.shields.transport.joint import Joint
from fedveil.shields.transport.recipe import Recipe

if TYPE_CHECKING:
    from fedveil.certificates import Certificate


class Transport(Shield):
    """r = f(x, u): the device knows its own u, so the map may read it, and bring every u to one distribution.

    Columns in `keep` stay as they are but for few people, who get another's value; all other columns become one of
    `codes` codes, drawn so that within strata of what stays every value of u uses each code equally often. No task
    label is read. Symbols: p_v the law of what is shown for value v; s the strength.
    Guarantee: were the counts exact and the strata all that stays, two values' codes would differ in total variation
    by (1 − s) times what they did before, and by nothing at s = 1. What is left is what columns that stay tell
    beyond their strata, and the error of the counts: `certify` bounds it for the code on people not used here.
    It fails closed: a record without u, or with a u that training people did not have, is not shown.

    Args:
        attribute: what is hidden; several are hidden together (every combination is a value).
        keep: columns that stay readable, in this order, each with the strength from which on it is aligned itself:
            0 for at once, 1 for only at strength 1.
        strength: s in [0, 1].
        codes: how many codes; more keep more of x, and leave more of u to chance in the counts.
        temperature: of the draw among codes near each other, in units of a column's variance; for images, of a fifth
            of a picture's.
        stay: how dear it is, in nats, to change a kept column's cell rather than keep it.
        least: fewest training people of each value of u in a stratum.
        questions: rounds of counting for each aligned variable at its last temperature.
        noise: deviation of Gaussian noise on each count that a device contributes to; `chart_.epsilon` is what the
            counts spend. A single column's cells, their shares and values are taken as public.
        crowd: people of the rarest value of u for each code that a stratum uses; more of them, a tighter certificate.
        weights: how much a column counts in the codes, 0 to leave it out; by default by what it tells about others.
        directions: how many directions that columns have in common count, too (`fedveil.shields.transport.common`).
        direction_weight: how much each of them counts.
        guess_weight: how much it counts what the rest of a record makes of each column that stays.
        epsilon: ε (δ = 1e-5, adding or removing a person) that all counts together may spend. The map is then learned
            by few questions, as a federation would (`fedveil.shields.transport.federated`); columns that stay are not
            aligned, weights are 1 by default, there are no common directions, and `noise` follows from ε. None: the
            fuller fit, and `noise` as given.
        images: for images, "codes" shows a code's picture, "moments" the picture itself, of which only means and
            covariances are moved (`fedveil.shields.transport.images`). `keep`, `weights` and `noise` are refused for
            images; `stay`, `least` and `crowd` mean nothing there.

    Attributes, once prepared:
        chart_: the fitted map, with its ε.
        joint_: the hidden values that training people had.
    """

    name = "transport"
    acts_on = frozenset({Kind.INPUT})
    chart_: Chart | ImageChart
    joint_: Joint

    def __init__(
        self,
        attribute: str | list[str],
        keep: dict[str, float] | None = None,
        strength: float = 1.0,
        codes: int = 300,
        temperature: float = 0.05,
        stay: float = 6.0,
        least: int = 100,
        questions: int = 100,
        noise: float = 0.0,
        crowd: int = 1,
        weights: dict[str, float] | None = None,
        directions: int = 3,
        direction_weight: float = 2.0,
        guess_weight: float = 0.0,
        epsilon: float | None = None,
        images: str = "codes",
    ) -> None:
        self.attribute = attribute
        self.keep = {} if keep is None else keep
        self.weights = {} if weights is None else weights
        self.strength, self.codes, self.temperature, self.stay = strength, codes, temperature, stay
        self.least, self.questions, self.noise, self.crowd = least, questions, noise, crowd
        self.directions, self.direction_weight, self.guess_weight = directions, direction_weight, guess_weight
        self.epsilon, self.images = epsilon, images
        self._check()

    def _check(self) -> None:
        if not isinstance(self.attribute, str | list | tuple):
            raise InputError(f"transport: the attribute to hide must be a name or several, got {self.attribute!r}")
        self.recipe.check()
        if len(set(self.hidden)) < max(len(self.hidden), 1):
            raise InputError("transport: name the attribute to hide, each of several once")
        if self.epsilon is not None and not (isinstance(self.epsilon, Real) and self.epsilon > 0):
            raise InputError(f"transport: epsilon must be above 0, got {self.epsilon!r}")
        if self.epsilon is not None and self.noise:
            raise InputError("transport: give epsilon or noise, not both: the noise follows from epsilon")
        if self.images not in FORMS:
            raise InputError(f"transport: images must be one of {', '.join(FORMS)}, got {self.images!r}")

    @property
    def recipe(self) -> Recipe:
        """How the map is fitted."""
        return Recipe(**{one.name: getattr(self, one.name) for one in fields(Recipe)})

    @property
    def hidden(self) -> tuple[str, ...]:
        """The attributes that are hidden together."""
        return (self.attribute,) if isinstance(self.attribute, str) else tuple(self.attribute)

    def prepared(self, data: AttributeData, seed: int) -> Transport:
        """Fit the map on training people who carry the attribute; their task labels are not looked at."""
        names = self._columns(data)
        train = data.take(data.rows(Split.TRAIN))
        hidden = [train.attribute(name) for name in self.hidden]
        known = np.all([one.known for one in hidden], axis=0)
        if not known.any():
            raise InputError(f"transport: no training record of {data.name} carries {', '.join(self.hidden)}")
        ready = copy.copy(self)
        ready.joint_ = Joint.learn([one.take(np.flatnonzero(known)) for one in hidden])
        recipe, values = self.recipe, ready.joint_.count
        x, u = train.x[known], ready.joint_.of([one.codes[known] for one in hidden])
        if x.ndim == 4:
            ready.chart_ = fit_images(x, u, values, recipe, seed, self.epsilon or float("inf"), self.images)
        elif self.epsilon is not None:
            ready.chart_ = fit_table(x, names, u, values, recipe, seed, self.epsilon)
        else:
            ready.chart_ = fit_chart(x, names, u, values, recipe, seed)
        return ready

    def _columns(self, data: AttributeData) -> tuple[str, ...]:
        """Return the table's column of each feature, none for images, and refuse settings that do not fit the data."""
        if data.x.ndim == 4:
            for what in ("keep", "weights", "noise"):
                if getattr(self, what):
                    raise InputError(f"transport: {what} is for tables, but {data.name} holds images; leave it out")
            return ()
        names = table_columns(data)
        for name in (*self.keep, *self.weights):
            if name not in names:
                raise InputError(
                    f"transport: {data.name} has no column {name!r}: {nearest(name, dict.fromkeys(names))}"
                )
        return names

    def change(self, message: Message, context: Context) -> Message:
        """Show what the chart makes of each record and its own u."""
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
        """Bound every observer's balanced accuracy from (stratum, code) by people not fitted on.

        Their chances of each code are summed, which is tighter than counting drawn codes, and as valid.
        With nothing kept, stratum and code are all that is shown of a person. `about` names one of several hidden
        attributes; by default their combinations are what is asked for.
        """
        from fedveil.shields.transport.certifying import certify_map

        chart = self._fitted()
        return certify_map(chart, self.joint_, data, rows, seed, confidence, about, tuple(self.keep))

    def certificates_on(
        self, data: AttributeData, rows: IntArray, attribute: str, seed: int
    ) -> tuple[Certificate, ...]:
        """Certify an attribute that is hidden here by people not fitted on; nothing where no codes are shown.

        Where columns stay, the bound is on the code alone, and named so: what is shown tells more.
        """
        if attribute not in self.hidden or not len(self._fitted().centres) or data.groups is not None:
            return ()
        codes = [data.attribute(name).codes for name in self.hidden]
        known = rows[np.all([own[rows] >= 0 for own in codes], axis=0)]
        own = codes[self.hidden.index(attribute)]
        had = np.unique(own[data.rows(Split.TRAIN)])
        if len(had[had >= 0]) < 2 or not np.isin(had[had >= 0], own[known]).all():
            return ()  # a value that nobody held out has cannot be counted
        made = self.certify(data, known, seed, about=attribute)
        alone = "balanced accuracy from the code and its stratum alone"
        return (replace(made, quantity=alone) if self.keep else made,)

    def _fitted(self) -> Chart | ImageChart:
        if not hasattr(self, "chart_"):
            raise InputError("transport: the map is not fitted yet; call prepared(data, seed) first")
        return self.chart_

    def _moved(self, x: npt.NDArray[np.float64], u: Sequence[IntArray], generator: torch.Generator) -> Moved:
        return self._fitted().move(x, self.joint_.of(u), generator)
