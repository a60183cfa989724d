"""Leave out the table's columns that say most about an attribute: the baseline that needs no learning."""

from __future__ import annotations

import copy
from numbers import Real

import numpy as np
import numpy.typing as npt
import torch

from fedveil.core.arrays import IntArray
from fedveil.core.entropy import plug_in_entropy
from fedveil.core.errors import InputError
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.shields.message import Context, Kind, Message
from fedveil.shields.shield import Shield

_BINS = 20


class DropColumns(Shield):
    """Set the `columns` table columns with the highest I(x_j; u) to 0 in every record, before training.

    Symbols: x_j one column of the table, with all features that it was encoded as; u the attribute. I is the
    plug-in estimate over training people with Miller and Madow's correction (1955), numbers cut into 20 quantile
    bins. A column that is the same for everybody says nothing: zeros remove it as well as leaving it out.
    Guarantee: the columns left out tell nothing. None about those that stay, which may tell u together though each
    alone does not.

    Attributes, once prepared:
        ranking_: all columns with their bits about u, the most telling first; ties in the table's order.
        dropped_: the names of those that are left out.
    """

    name = "drop columns"
    acts_on = frozenset({Kind.INPUT})
    ranking_: tuple[tuple[str, float], ...]
    dropped_: tuple[str, ...]
    keeps_: torch.Tensor

    def __init__(self, columns: int, attribute: str) -> None:
        whole = isinstance(columns, Real) and not isinstance(columns, bool) and float(columns).is_integer()
        if not whole or columns < 0:
            raise InputError(f"drop columns: give how many to leave out, a whole number from 0 on, not {columns!r}")
        self.columns, self.attribute = int(columns), attribute

    def prepared(self, data: AttributeData, seed: int) -> DropColumns:
        """Rank the columns by what they say about the attribute, on training people."""
        names = table_columns(data)
        train = data.take(data.rows(Split.TRAIN))
        secret = train.attribute(self.attribute)
        if not secret.known.any():
            raise InputError(f"drop columns: no training record of {data.name} carries {self.attribute!r}, to rank by")
        bits = {
            column: information_bits(train.x[:, [own == column for own in names]], secret)
            for column in dict.fromkeys(names)
        }
        if self.columns > len(bits):
            raise InputError(f"drop columns: cannot leave out {self.columns} of {data.name}'s {len(bits)} columns")
        ranked = sorted(bits, key=lambda column: -bits[column])
        ready = copy.copy(self)
        ready.ranking_ = tuple((column, max(0.0, bits[column])) for column in ranked)
        ready.dropped_ = tuple(ranked[: self.columns])
        ready.keeps_ = torch.tensor([column not in ready.dropped_ for column in names])
        return ready

    def change(self, message: Message, context: Context) -> Message:
        """Set what is dropped to zero; multiplying by zero would leave the sign of what was there."""
        if not hasattr(self, "keeps_"):
            raise InputError("the columns are not ranked yet; call prepared(data, seed) first")
        return message.with_values(message.values.masked_fill(~self.keeps_.to(message.values.device), 0.0))


def table_columns(data: AttributeData) -> tuple[str, ...]:
    """Return which column of the table each feature comes from.

    The source tells; otherwise the features' names do: "<name> missing" behind "<name>" belongs to it, and
    "<name>=<value>" to what stands before the first "=". Columns that share this much are taken as one.
    """
    if data.x.ndim != 2 or not (data.columns or data.feature_names):
        raise InputError(f"drop columns: {data.name} is no table with named columns; choose another shield")
    if data.columns:
        return data.columns
    names: list[str] = []
    before = ""
    for feature in data.feature_names:
        names.append(before if feature == f"{before} missing" else feature.partition("=")[0])
        before = feature
    return tuple(names)


def information_bits(features: npt.NDArray[np.floating], secret: Attribute) -> float:
    """Return I(x_j; u) in bits of a column's features taken together; slightly negative where there is none.

    With m_x, m_u and m_xu the values that occur, Miller and Madow add (m − 1) / 2n nats to each entropy.

    >>> u = Attribute("u", np.array([0, 0, 1, 1] * 500), ("a", "b"))
    >>> round(information_bits(u.codes[:, None].astype(float), u), 2)
    1.0
    """
    known = secret.known
    u = secret.codes[known]
    x = np.zeros(len(u), dtype=np.int64)
    for feature in features[known].T:
        binned = _binned(feature)
        x = np.unique(x * (int(binned.max(initial=0)) + 1) + binned, return_inverse=True)[1]
    joint = x * len(secret.values) + u
    of_x, of_u, of_both = (plug_in_entropy(codes, miller_madow=True) for codes in (x, u, joint))
    return of_x + of_u - of_both


def _binned(feature: npt.NDArray[np.floating]) -> IntArray:
    """Return each value's place: its own where there are few, its quantile's where there are many."""
    values, places = np.unique(feature, return_inverse=True)
    if len(values) <= _BINS:
        return np.asarray(places, dtype=np.int64)
    edges = np.unique(np.quantile(feature, np.linspace(0, 1, _BINS + 1)[1:-1]))
    return np.asarray(np.searchsorted(edges, feature), dtype=np.int64)
