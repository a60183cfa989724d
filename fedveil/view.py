"""View: what a curious observer saw, and the labelled vectors it may learn from.

A view holds the vectors that left devices, by sender and round, split into those that the attacker can learn from
(auxiliary, with labels) and those that it attacks (victims). The threat model is part of the data: a view says what it
grants, and an attack that needs more is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray, FloatingArray, IntArray, first_non_finite
from fedveil.core.errors import InputError, nearest
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData, Split
from fedveil.data.splits import joint_strata, random_split


class Capability(StrEnum):
    """What an observer may be granted."""

    VECTORS = "what left the devices"
    LABELS = "auxiliary vectors with their attributes"
    SENDERS = "who sent what"
    ROUNDS = "when it was sent"
    INPUTS = "the auxiliary people's own inputs"


EVERY_OBSERVER = frozenset({Capability.VECTORS, Capability.LABELS})

RELEASE_VIEWS = ("representations", "outputs")
"""What an observer can see after training: what people release."""

UPDATE_VIEWS = ("updates", "parameters", "statistics")
"""What an observer can see in recorded rounds: what devices send."""


@dataclass(frozen=True, eq=False)
class Pool:
    """Vectors that left devices, the senders' attributes, and who sent what.

    Attributes:
        vectors: (n, d): representations, pooled updates or outputs, in single or double precision.
        attributes: the senders' sensitive attributes by name. Those of victims are used for scoring only.
        groups: one id per vector for the person (speaker, seller, device) it comes from, or None.
        given: (n, g) what the attacker knows about each sender beforehand, encoded as numbers, or None.
        rounds: the round in which each vector was sent, or None.
        inputs: (n, f) the uncensored inputs behind each vector, if the attacker has them; never those of victims.
    """

    vectors: npt.NDArray[Any]
    attributes: Mapping[str, Attribute]
    groups: IntArray | None = None
    given: FloatArray | None = None
    rounds: IntArray | None = None
    inputs: npt.NDArray[np.floating] | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    @property
    def people(self) -> int:
        """How many people (or groups) the vectors come from."""
        return len(self) if self.groups is None else len(np.unique(self.groups))

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.vectors.shape))
        return f"Pool(vectors={shape}, attributes={list(self.attributes)})"

    def take(self, rows: IntArray | npt.NDArray[np.bool_]) -> Pool:
        """Return some of the vectors with everything that belongs to them; a mask that keeps all returns the pool."""
        if rows.dtype == np.bool_ and rows.all():
            return self  # a copy of a million vectors would take as much memory as the file
        attributes = {name: attribute.take(rows) for name, attribute in self.attributes.items()}
        more: list[Any] = [self.groups, self.given, self.rounds, self.inputs]
        return Pool(self.vectors[rows], attributes, *(None if block is None else block[rows] for block in more))


@dataclass(frozen=True, eq=False)
class View:
    """Three disjoint pools: the attacker fits on `auxiliary`, selects on `validation` and is scored on `victims`.

    Attributes:
        auxiliary: senders whose attributes the attacker knows.
        validation: further senders whose attributes it knows.
        victims: the senders it attacks.
        given_names: the names of the columns of `Pool.given`.
        grants: what the observer is granted.
        fitted: whether what made the vectors (a shield, an encoder) was fitted on the auxiliary people, so that the
            victims are fresh to it.
    """

    auxiliary: Pool
    validation: Pool
    victims: Pool
    given_names: tuple[str, ...] = ()
    grants: frozenset[Capability] = EVERY_OBSERVER
    fitted: bool = False

    def __repr__(self) -> str:
        sizes = f"auxiliary={len(self.auxiliary)}, validation={len(self.validation)}, victims={len(self.victims)}"
        return f"View({sizes}, dimensions={self.victims.vectors.shape[1]}, attributes={list(self.attribute_names)})"

    @property
    def pools(self) -> tuple[Pool, Pool, Pool]:
        """Auxiliary, validation and victims."""
        return self.auxiliary, self.validation, self.victims

    def require(self, needs: frozenset[Capability], who: str) -> None:
        """Refuse an attack that needs more than this observer saw."""
        missing = sorted(needs - self.grants)
        if missing:
            raise InputError(f"{who} needs {' and '.join(missing)}, which this view does not grant")

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """Names of the attributes that can be attacked."""
        return tuple(self.victims.attributes)

    @classmethod
    def of_vectors(
        cls,
        vectors: npt.ArrayLike,
        attributes: Mapping[str, Attribute],
        *,
        groups: IntArray | None = None,
        given: npt.ArrayLike | None = None,
        given_names: tuple[str, ...] = (),
        rounds: IntArray | None = None,
        seed: int = 0,
        validation: float = 0.2,
        victims: float = 0.3,
    ) -> View:
        """Split labelled vectors at random, whole groups at a time.

        The split is stratified by all attributes jointly, so that rare values reach every pool.
        """
        pool = replace(_checked(vectors, attributes, groups, given), rounds=rounds)
        strata = joint_strata(list(attributes.values()))
        split = random_split(len(pool), seed=seed, validation=validation, test=victims, strata=strata, groups=groups)
        auxiliary, held_out, attacked = (pool.take(split == part) for part in Split)
        return cls(auxiliary, held_out, attacked, given_names)

    @classmethod
    def of_data(cls, data: AttributeData) -> View:
        """Look at the features themselves: what x reveals about the attributes, by the splits of the data.

        If the splits cut through groups, the attacker may not learn from records of the groups that it attacks.
        """
        pool = _checked(data.x.reshape(len(data), -1), data.attributes, data.groups, None)
        return cls.apart(*(pool.take(data.rows(part)) for part in Split))

    @classmethod
    def apart(cls, auxiliary: Pool, validation: Pool, victims: Pool, *, fitted: bool = False) -> View:
        """Return a view of three pools, without auxiliary and validation records of groups that are attacked."""
        validation = _apart(validation, victims)
        return cls(_apart(_apart(auxiliary, victims), validation), validation, victims, fitted=fitted)

    def about(self, name: str) -> View:
        """Narrow the view to one attribute and the records that have it, and check that it can be attacked."""
        if name not in self.victims.attributes:
            raise InputError(f"no attribute {name!r} to attack: {nearest(name, self.attribute_names)}")
        pools = [pool.take(pool.attributes[name].known) for pool in (self.auxiliary, self.validation, self.victims)]
        counts = [pool.attributes[name].counts for pool in pools]
        total = np.sum(counts, axis=0)
        present = np.flatnonzero(total)
        values = self.victims.attributes[name].values
        if len(present) < 2:
            if not len(present):
                raise InputError(f"attribute {name!r} has no value at all: every record lacks it; choose another")
            only = values[present[0]]
            raise InputError(
                f"attribute {name!r} has only one value ({only!r}): there is nothing to infer; choose another"
            )
        for part, count in zip(("training", "validation", "test"), counts, strict=True):
            for code in present[count[present] == 0]:
                if len(present) > total.sum() / 10:
                    raise InputError(
                        f"attribute {name!r} has {len(present)} values for {total.sum()} records: it looks like an "
                        "identifier, not an attribute; choose another"
                    )
                raise InputError(
                    f"attribute {name!r}: value {values[code]!r} ({total[code]} of {total.sum()} records) is missing "
                    f"from the {part} split; merge it with another value or leave those records out"
                )
        auxiliary, validation, victims = (
            replace(pool, attributes={name: _only(pool.attributes[name], present)}) for pool in pools
        )
        return replace(self, auxiliary=auxiliary, validation=validation, victims=victims)


def _apart(pool: Pool, other: Pool) -> Pool:
    """Leave out the records of groups that are also in the other pool."""
    if pool.groups is None or other.groups is None:
        return pool
    return pool.take(~np.isin(pool.groups, other.groups))


def _only(attribute: Attribute, present: IntArray) -> Attribute:
    """Drop values that no record has."""
    new_code = np.full(len(attribute.values), -1, dtype=np.int64)
    new_code[present] = np.arange(len(present))
    return Attribute(attribute.name, new_code[attribute.codes], tuple(attribute.values[code] for code in present))


def _checked(
    vectors: npt.ArrayLike,
    attributes: Mapping[str, Attribute],
    groups: IntArray | None,
    given: npt.ArrayLike | None,
) -> Pool:
    if not attributes:
        raise InputError("no attribute to attack: name at least one")
    matrix: FloatingArray = np.asarray(vectors)
    if matrix.dtype != np.float32:  # single precision stays: a copy in double precision would say no more
        matrix = matrix.astype(np.float64, copy=False)
    given_columns = None if given is None else np.asarray(given, dtype=np.float64)
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    matrix = matrix.reshape(len(matrix), -1)
    for what, block in (("vectors", matrix), ("given columns", given_columns)):
        row = None if block is None else first_non_finite(block)
        if row is not None:
            raise InputError(f"{what} hold NaN or infinite values (first in row {row}); fill or remove them")
    lengths = {f"attribute {name!r}": len(attribute) for name, attribute in attributes.items()}
    further = (("groups", groups), ("given columns", given_columns))
    lengths |= {what: len(block) for what, block in further if block is not None}
    for what, length in lengths.items():
        if length != len(matrix):
            raise InputError(f"{what}: {length} rows, but there are {len(matrix)} vectors; they must match row by row")
    return Pool(matrix, attributes, groups, given_columns)
