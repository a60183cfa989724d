"""Leave out the columns of a table that reveal most about an attribute: a baseline that needs no learning."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from numbers import Real

import numpy as np
import numpy.typing as npt
import torch

from fedveil.core.arrays import IntArray
from fedveil.core.entropy import plug_in_entropy
from fedveil.core.errors import InputError
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Shield

_BINS = 20


@dataclass(frozen=True, eq=False, repr=False)
class DropColumns(Shield):
    """Set the `columns` table columns with the highest I(x_j; u) to 0 in every record, before training.

    Symbols: x_j one column of the table, with all features that it was encoded as; u the attribute. I is the plug-in
    estimate over training people with Miller and Madow's correction (1955); numbers are cut into 20 quantile bins. A
    column that is the same for everybody reveals nothing, so zeros remove a column as well as leaving it out.
    Guarantee: the columns left out reveal nothing. There is none about those that stay, which may reveal u together
    even if each alone does not.

    Attributes:
        columns: how many columns to leave out, starting with those that reveal most about the attribute.
        attribute: the sensitive attribute by which columns are ranked.
        ranking_: once prepared, all columns with their bits about u, most first; ties in the table's order.
        dropped_: once prepared, the names of the columns that are left out.
    """

    name = "drop columns"
    acts_on = frozenset({Kind.INPUT})

    columns: int
    attribute: str
    ranking_: tuple[tuple[str, float], ...] = field(init=False)
    dropped_: tuple[str, ...] = field(init=False)
    keeps_: torch.Tensor = field(init=False)

    def __post_init__(self) -> None:
        columns = self.columns
        whole = isinstance(columns, Real) and not isinstance(columns, bool) and float(columns).is_integer()
        if not whole or columns < 0:
            raise InputError(f"drop columns: columns must be a whole number of at least 0, not {columns!r}")
        object.__setattr__(self, "columns", int(columns))

    def prepared(self, data: AttributeData, seed: int) -> DropColumns:
        """Rank the columns by what they reveal about the attribute, on training people."""
        names = table_columns(data)
        secret = data.attribute(self.attribute)
        if not secret.known.any():
            raise InputError(f"drop columns: no training record of {data.name} has a value of {self.attribute!r}")
        bits = {
            column: information_bits(data.x[:, [name == column for name in names]], secret)
            for column in dict.fromkeys(names)
        }
        if self.columns > len(bits):
            raise InputError(f"drop columns: cannot leave out {self.columns} of {data.name}'s {len(bits)} columns")
        ranked = sorted(bits, key=lambda column: -bits[column])
        prepared = copy.copy(self)
        dropped = tuple(ranked[: self.columns])
        vars(prepared).update(  # the settings are frozen, but these are not settings
            ranking_=tuple((column, max(0.0, bits[column])) for column in ranked),
            dropped_=dropped,
            keeps_=torch.tensor([column not in dropped for column in names]),
        )
        return prepared

    def change(self, message: Message, context: Context) -> Message:
        """Set dropped columns to zero; multiplying by zero would preserve the sign of the number."""
        if not hasattr(self, "keeps_"):
            raise InputError("the columns are not ranked yet; call prepared(data, seed) first")
        return message.with_values(message.values.masked_fill(~self.keeps_.to(message.values.device), 0.0))


def table_columns(data: AttributeData) -> tuple[str, ...]:
    """Return which column of the table each feature comes from.

    The data's source says so; otherwise the features' names do: "<name> missing" after "<name>" belongs to that
    column, and "<name>=<value>" to the column before the first "=". Columns with the same name are treated as one.
    """
    if data.x.ndim != 2 or not (data.columns or data.feature_names):
        raise InputError(f"drop columns: {data.name} is not a table with named columns; choose another shield")
    if data.columns:
        return data.columns
    names: list[str] = []
    before = ""
    for feature in data.feature_names:
        names.append(before if feature == f"{before} missing" else feature.partition("=")[0])
        before = feature
    return tuple(names)


def information_bits(features: npt.NDArray[np.floating], secret: Attribute) -> float:
    """Return I(x_j; u) in bits, with a column's features taken together; it may be slightly negative if it is truly 0.

    With m_x, m_u and m_xu the numbers of values that occur, Miller and Madow add (m − 1) / 2n nats to each entropy.

    >>> u = Attribute("u", np.array([0, 0, 1, 1] * 500), ("a", "b"))
    >>> round(information_bits(u.codes[:, None].astype(float), u), 2)
    1.0
    """
    u = secret.codes[secret.known]
    x = np.zeros(len(u), dtype=np.int64)
    for feature in features[secret.known].T:
        binned = _binned(feature)
        x = np.unique(x * (int(binned.max(initial=0)) + 1) + binned, return_inverse=True)[1]
    joint = x * len(secret.values) + u
    of_x, of_u, of_both = (plug_in_entropy(codes, miller_madow=True) for codes in (x, u, joint))
    return of_x + of_u - of_both


def _binned(feature: npt.NDArray[np.floating]) -> IntArray:
    """Return each value's bin: one for each value if there are few values, otherwise one for each quantile."""
    values, indices = np.unique(feature, return_inverse=True)
    if len(values) <= _BINS:
        return np.asarray(indices, dtype=np.int64)
    edges = np.unique(np.quantile(feature, np.linspace(0, 1, _BINS + 1)[1:-1]))
    return np.asarray(np.searchsorted(edges, feature), dtype=np.int64)
