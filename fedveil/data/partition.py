"""Partitions of the training records over devices, compact in memory for any number of devices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData, Split

LABEL = "label"
"""The value of a partition's `by` that stands for the task's label."""


@dataclass(frozen=True, eq=False)
class Partition:
    """Rows dealt to devices: device i holds `order[offsets[i]:offsets[i + 1]]`.

    Two arrays hold everything, as in compressed sparse rows, so that each of a million devices costs 8 bytes.

    Attributes:
        order: the rows, device after device.
        offsets: where each device's rows start in `order`, and the number of rows as the last entry.

    >>> partition = Partition(np.array([4, 7, 5]), np.array([0, 2, 3]))
    >>> len(partition), partition.device(0).tolist(), partition.sizes.tolist()
    (2, [4, 7], [2, 1])
    """

    order: IntArray
    offsets: IntArray

    def __post_init__(self) -> None:
        offsets = self.offsets
        if len(offsets) < 2 or offsets[0] != 0 or offsets[-1] != len(self.order) or (np.diff(offsets) < 0).any():
            raise InputError(
                "partition: offsets must rise from 0 to the number of rows, one more than there are devices"
            )

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        sizes = self.sizes
        return f"Partition({len(self.order)} records over {len(self)} devices, {sizes.min()} to {sizes.max()} each)"

    def __iter__(self) -> Iterator[IntArray]:
        return (self.device(i) for i in range(len(self)))

    def device(self, i: int) -> IntArray:
        """Return the rows of device i, as a view."""
        if not 0 <= i < len(self):
            raise IndexError(f"device {i} of {len(self)}")
        return self.order[self.offsets[i] : self.offsets[i + 1]]

    @property
    def sizes(self) -> IntArray:
        """How many rows each device holds."""
        return np.diff(self.offsets)

    @classmethod
    def from_owners(cls, rows: IntArray, owners: IntArray, devices: int) -> Partition:
        """Return the partition in which each row belongs to its owner, 0 … devices − 1."""
        offsets = np.zeros(devices + 1, dtype=np.int64)
        np.cumsum(np.bincount(owners, minlength=devices), out=offsets[1:])
        return cls(rows[np.argsort(owners, kind="stable")], offsets)


class Partitioner(ABC):
    """A way to deal the training records of some data to devices."""

    def deal(self, data: AttributeData, seed: int) -> Partition:
        """Deal every training record to exactly one device; the same seed gives the same partition."""
        rows = data.rows(Split.TRAIN)
        if not len(rows):
            raise InputError(f"{data.name}: there are no training records to deal to devices")
        return self._deal(data, rows, numpy_generator(seed, "partition", type(self).__name__))

    @abstractmethod
    def _deal(self, data: AttributeData, rows: IntArray, rng: np.random.Generator) -> Partition: ...


@dataclass(frozen=True)
class IID(Partitioner):
    """Shuffled records in equal parts (sizes differ by at most one).

    Attributes:
        devices: how many devices.
    """

    devices: int

    def __post_init__(self) -> None:
        _at_least_one("devices", self.devices)

    def _deal(self, data: AttributeData, rows: IntArray, rng: np.random.Generator) -> Partition:
        _enough(len(rows), self.devices)
        return Partition(rng.permutation(rows), _equal_offsets(len(rows), self.devices))


@dataclass(frozen=True)
class Dirichlet(Partitioner):
    """Each value's records are spread over devices in proportions drawn from Dirichlet(α, …, α).

    With a small α a device sees few values; with a large α all devices look alike (Hsu, Qi & Brown 2019,
    "Measuring the Effects of Non-Identical Data Distribution for Federated Visual Classification").
    Devices with fewer than `minimum` records receive some, drawn at random from devices that can
    spare them, so that the partition exists for any α and any number of devices.

    Attributes:
        devices: how many devices.
        alpha: the concentration α, above 0.
        by: the label whose values are spread: label (the task's label) or a sensitive attribute; records without a
            value count as one more value.
        minimum: the fewest records that a device may hold.
    """

    devices: int
    alpha: float
    by: str = LABEL
    minimum: int = 1

    def __post_init__(self) -> None:
        _at_least_one("devices", self.devices)
        if not (self.alpha > 0 and np.isfinite(self.alpha)):
            raise InputError(f"partition: alpha must be a number above 0, got {self.alpha}")
        if self.minimum < 0:
            raise InputError(f"partition: minimum must be at least 0, got {self.minimum}")

    def _deal(self, data: AttributeData, rows: IntArray, rng: np.random.Generator) -> Partition:
        _enough(len(rows), self.devices, max(self.minimum, 1))
        codes = _label_of(data, self.by).codes[rows]
        owners = np.empty(len(rows), dtype=np.int64)
        for value in np.unique(codes):
            cumulative = np.cumsum(rng.dirichlet(np.full(self.devices, float(self.alpha))))
            members = np.flatnonzero(codes == value)
            drawn = np.searchsorted(cumulative, rng.random(len(members)) * cumulative[-1], side="right")
            owners[members] = np.minimum(drawn, self.devices - 1)
        return Partition.from_owners(rows, _topped_up(owners, self.devices, self.minimum, rng), self.devices)


@dataclass(frozen=True)
class ByGroup(Partitioner):
    """One device per group (person, speaker, seller), or groups dealt whole to a number of devices.

    Attributes:
        devices: how many devices the groups are dealt to; none for one device per group.
    """

    devices: int | None = None

    def __post_init__(self) -> None:
        if self.devices is not None:
            _at_least_one("devices", self.devices)

    def _deal(self, data: AttributeData, rows: IntArray, rng: np.random.Generator) -> Partition:
        if data.groups is None:
            raise InputError(f"{data.name}: has no groups to partition by; name a group column or partition otherwise")
        names, group = np.unique(data.groups[rows], return_inverse=True)
        if self.devices is None:
            return Partition.from_owners(rows, group.astype(np.int64), len(names))
        if len(names) < self.devices:
            raise InputError(
                f"partition: {len(names)} groups cannot be dealt to {self.devices} devices; choose fewer devices"
            )
        device_of_group = rng.permutation(len(names)) % self.devices
        return Partition.from_owners(rows, device_of_group[group], self.devices)


@dataclass(frozen=True)
class Shards(Partitioner):
    """Records sorted by label and cut into equal shards, of which each device gets some at random.

    With two shards per device most devices see two labels: the pathological partition of McMahan et
    al. 2017 (FedAvg). With `by=None` records are not sorted: Attri-Fed's 100 equal shards are
    `Shards(100, per_device=1, by=None)`.

    Attributes:
        devices: how many devices.
        per_device: how many shards each device gets.
        by: what records are sorted by: label (the task's label), a sensitive attribute, or none for no sorting.
    """

    devices: int
    per_device: int = 2
    by: str | None = LABEL

    def __post_init__(self) -> None:
        _at_least_one("devices", self.devices)
        _at_least_one("per_device", self.per_device)

    def _deal(self, data: AttributeData, rows: IntArray, rng: np.random.Generator) -> Partition:
        shards = self.devices * self.per_device
        _enough(len(rows), self.devices, self.per_device)
        shuffled = rng.permutation(rows)
        if self.by is not None:
            shuffled = shuffled[np.argsort(_label_of(data, self.by).codes[shuffled], kind="stable")]
        shard_of_row = np.repeat(np.arange(shards), np.diff(_equal_offsets(len(rows), shards)))
        device_of_shard = rng.permutation(shards) % self.devices
        return Partition.from_owners(shuffled, device_of_shard[shard_of_row], self.devices)


@dataclass(frozen=True)
class OneEach(Partitioner):
    """One record per device, in random order: every person is a device that holds their own record."""

    def _deal(self, data: AttributeData, rows: IntArray, rng: np.random.Generator) -> Partition:
        return Partition(rng.permutation(rows), np.arange(len(rows) + 1, dtype=np.int64))


@dataclass(frozen=True)
class OneHolder(Partitioner):
    """A single device holds all training records: the view of a machine that has only its own device's records.

    Attributes:
        devices: how many devices there are.
        holder: which of them holds the records, counted from 0.
    """

    devices: int
    holder: int

    def __post_init__(self) -> None:
        if not 0 <= self.holder < self.devices:
            raise InputError(f"partition: device {self.holder} of {self.devices}; count devices from 0")

    def _deal(self, data: AttributeData, rows: IntArray, rng: np.random.Generator) -> Partition:
        return Partition.from_owners(rows, np.full(len(rows), self.holder), self.devices)


def _equal_offsets(rows: int, parts: int) -> IntArray:
    return np.arange(parts + 1, dtype=np.int64) * rows // parts


def _topped_up(owners: IntArray, devices: int, minimum: int, rng: np.random.Generator) -> IntArray:
    """Move records to devices that hold fewer than the minimum from devices that can spare them."""
    sizes = np.bincount(owners, minlength=devices)
    receivers = np.repeat(np.arange(devices), np.maximum(minimum - sizes, 0))
    if not len(receivers):
        return owners
    shuffled = rng.permutation(len(owners))
    by_owner = shuffled[np.argsort(owners[shuffled], kind="stable")]
    rank = np.arange(len(owners)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    spare = by_owner[rank >= minimum]
    owners = owners.copy()
    owners[rng.permutation(spare)[: len(receivers)]] = receivers
    return owners


def _label_of(data: AttributeData, by: str) -> Attribute:
    if by != LABEL:
        return data.attribute(by)
    if data.y is None:
        raise InputError(
            f"{data.name}: has no task label to partition by; name a target, or a sensitive attribute in `by`"
        )
    return data.y


def _at_least_one(what: str, number: int) -> None:
    if number < 1:
        raise InputError(f"partition: {what} must be at least 1, got {number}")


def _enough(rows: int, devices: int, each: int = 1) -> None:
    if rows < devices * each:
        raise InputError(
            f"partition: {rows} training records are too few for {devices} devices with at least {each} each; "
            "choose fewer devices"
        )
