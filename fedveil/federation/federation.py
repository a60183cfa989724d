"""Federation: who takes part, how devices are sampled, and what the server does with what they send."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from fedveil.core.arrays import IntArray, digest
from fedveil.core.errors import InputError
from fedveil.core.models import pick_device
from fedveil.core.policy import Policy
from fedveil.core.randomness import numpy_generator
from fedveil.data.attribute import Attribute
from fedveil.data.attribute_data import AttributeData
from fedveil.data.partition import IID, Partition, Partitioner
from fedveil.federation.aggregation import Aggregator, WeightedMean
from fedveil.federation.engine_plain import PlainEngine
from fedveil.federation.engine_stacked import StackedEngine
from fedveil.federation.fleet import Fleet
from fedveil.federation.progress import RoundRecord
from fedveil.federation.run import Run, begin
from fedveil.federation.work import Engine, alternatives_to_engine
from fedveil.games.game import Game
from fedveil.shields.shield import Identity, Shield

PerDevice = float | Sequence[float] | npt.NDArray[np.floating]


@dataclass(frozen=True, eq=False)
class Federation:
    """Devices with data, and a server that is honest but curious.

    Attributes:
        data: what the devices hold together.
        devices: how many devices share the training records evenly, or a partitioner of another kind.
        fraction: the share of devices sampled in each round, in (0, 1].
        seed: all randomness derives from it: one generator per device, round and purpose.
        shield: what every device does to a message before it leaves.
        aggregation: how the server combines the updates.
        engine: "stacked" (fast), "plain" (the readable reference), or "flower" (each device is a separate machine,
            where the stacked engine plays its share).
        unreliable: the probability that a sampled device drops out of a round.
        device: the torch device of all tensors; "auto" for a GPU if there is one, else the CPU.
        dtype: "float32" or "float64".
        settings: hyper-parameters by name, one number for all devices or one for each.
        batch_sizes: one per device, instead of the stage's.
        local_epochs: one per device, instead of the stage's.
        rate_scales: one factor per device on every learning rate.
        own_attribute: the attribute that each device protects; losses read it as "own".
        policies: what people have chosen to hide, one policy for all devices or one for each; the shield reads it.
        local_limit: how many bytes of local players' state are held in memory; the rest goes to memory-mapped files.
        partition: which device holds which training records; derived from `devices`.
    """

    data: AttributeData
    devices: int | Partitioner = 100
    fraction: float = 1.0
    seed: int = 0
    shield: Shield = field(default_factory=Identity)
    aggregation: Aggregator = field(default_factory=WeightedMean)
    engine: str = "stacked"
    unreliable: float = 0.0
    device: str = "auto"
    dtype: str = "float32"
    settings: Mapping[str, PerDevice] = field(default_factory=dict)
    batch_sizes: Sequence[int] | None = None
    local_epochs: Sequence[int] | None = None
    rate_scales: Sequence[float] | None = None
    own_attribute: Sequence[str] | None = None
    policies: Policy | Sequence[Policy] | None = None
    local_limit: int = 2**31

    partition: Partition = field(init=False)

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise InputError(f"fraction must lie in (0, 1], got {self.fraction}")
        if not 0 <= self.unreliable < 1:
            raise InputError(f"unreliable is a probability below 1, got {self.unreliable}")
        if (engines := alternatives_to_engine(self.engine)) is not None:
            raise InputError(f"engine {self.engine!r} is not known: choose {engines}")
        if self.dtype not in ("float32", "float64"):
            raise InputError(f"dtype {self.dtype!r} is not known: choose float32 or float64")
        partitioner = self.devices if isinstance(self.devices, Partitioner) else IID(int(self.devices))
        object.__setattr__(self, "partition", partitioner.deal(self.data, self.seed))
        count = len(self.partition)
        each: dict[str, Any] = {
            name: getattr(self, name) for name in ("batch_sizes", "local_epochs", "rate_scales", "own_attribute")
        }
        if isinstance(self.policies, Sequence):
            each["policies"] = self.policies
        each |= {f"setting {n!r}": v for n, v in self.settings.items() if np.ndim(v)}
        for name, values in each.items():
            if values is not None and len(values) != count:
                raise InputError(f"{name}: {len(values)} values for {count} devices; give one per device")
        for name in ("batch_sizes", "local_epochs"):
            values = getattr(self, name)
            if values is not None and any(value < 1 for value in values):
                raise InputError(f"{name}: every device needs at least 1")
        numbers = {"rate_scales": self.rate_scales} | {f"setting {n!r}": v for n, v in self.settings.items()}
        for name, values in numbers.items():
            if values is not None and not np.isfinite(np.asarray(values, dtype=np.float64)).all():
                raise InputError(f"{name}: holds a value that is NaN or infinite")
        for name in () if self.own_attribute is None else self.own_attribute:
            self.data.attribute(name)
        if self.policies is not None:
            self._check_policies()

    def __repr__(self) -> str:
        who = f"records={len(self.data)}, devices={len(self.partition)}, fraction={self.fraction:g}"
        how = f"shield={self.shield.name!r}, engine={self.engine!r}, seed={self.seed}"
        return f"Federation({self.data.name!r}, {who}, {how})"

    def _check_policies(self) -> None:
        """Refuse policies that the shield does not fulfil: nothing may leave under a promise that is not kept."""
        from fedveil.shields.policies import unmet  # imports scikit-learn, which takes a second

        policies = self.policies if isinstance(self.policies, Sequence) else (self.policies,)
        for policy in policies:
            if not isinstance(policy, Policy):
                raise InputError(f"policies: {policy!r} is not a policy; read one by fedveil.config.read_policy(file)")
            policy.check(tuple(self.data.attributes))
            reason = unmet(policy, self.shield)
            if reason is not None:
                raise InputError(f"policies: {reason}; make it by fedveil.config.shield_for(policy)")

    def begin(self, game: Game, fleet: Fleet | None = None) -> Run:
        """Return a run of a game that is ready for its first round; see `fedveil.federation.run.begin`."""
        return begin(self, game, fleet)

    def play(
        self,
        game: Game,
        rounds: int | None = None,
        *,
        callbacks: Sequence[Callable[[RoundRecord], None]] = (),
        record: Sequence[int] = (),
        shadows: int = 0,
        checkpoint: str | Path | None = None,
    ) -> Run:
        """Begin a game and play it to its end; see `Run.play`."""
        run = begin(self, game)
        return run.play(rounds, callbacks=callbacks, record=record, shadows=shadows, checkpoint=checkpoint)

    def sample(self, stage: str, round_number: int) -> IntArray:
        """Return the devices that answer in a round: drawn without replacement, except those that drop out."""
        rng = numpy_generator(self.seed, "sample", stage, round_number)
        count = len(self.partition)
        drawn = np.sort(rng.choice(count, max(1, round(self.fraction * count)), replace=False, shuffle=False))
        answers = rng.random(len(drawn)) >= self.unreliable
        return np.asarray(drawn[answers], dtype=np.int64)

    def make_engine(self) -> Engine:
        """Return a fresh engine."""
        return PlainEngine() if self.engine == "plain" else StackedEngine()

    @property
    def torch_device(self) -> torch.device:
        """The torch device of all tensors."""
        return pick_device(self.device)

    @property
    def number_type(self) -> torch.dtype:
        """The type of all weights and features."""
        return torch.float64 if self.dtype == "float64" else torch.float32

    @cached_property
    def data_digest(self) -> str:
        """A digest of all records, computed once: a run that is saved every round need not read them again."""
        return self.data.digest()

    @cached_property
    def partition_digest(self) -> str:
        """A digest of who holds what."""
        return digest(self.partition.order, self.partition.offsets)

    def setting(self, values: PerDevice, devices: IntArray) -> npt.NDArray[np.float64]:
        """Return a setting's value on some devices."""
        if not np.ndim(values):
            return np.full(len(devices), float(np.asarray(values)))
        return np.asarray(values, dtype=np.float64)[devices]

    def policy(self, device: int) -> Policy | None:
        """Return the policy of a device; shadows, numbered after the real devices, take the policies in turn."""
        if isinstance(self.policies, Sequence):
            return self.policies[device % len(self.policies)]
        return self.policies

    def own_codes(self) -> Attribute | None:
        """Return each training record's value of the attribute that its device protects; None if none is chosen."""
        if self.own_attribute is None:
            return None
        codes = np.full(len(self.data), -1, dtype=np.int64)
        for device, name in enumerate(self.own_attribute):
            rows = self.partition.device(device)
            codes[rows] = self.data.attributes[name].codes[rows]
        most = max(len(self.data.attributes[name].values) for name in self.own_attribute)
        return Attribute("own", codes, tuple(str(code) for code in range(most)))
