"""What experiments on updates are made of: data sets, shields with their strengths, and what shields are fitted on."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from fedveil.config import parts
from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.data.catalogue import find_source
from fedveil.data.locate import locate
from fedveil.studies.units import Report

if TYPE_CHECKING:
    from torch import Tensor

    from fedveil.shields.recup import Zoo
    from fedveil.shields.shield import Shield
    from fedveil.updates.segments import Segment
    from fedveil_papers.recup.laboratory import Laboratory, Task


@dataclass(frozen=True)
class Case:
    """A data set, its people's attributes, and the rounds whose updates are examined.

    Attributes:
        source: adult, lfw, audiomnist or celeba.
        attributes: the data's attributes, for which zoos are fitted.
        asked: the attributes that are attacked; default: all.
        rounds: the rounds whose updates are examined.
        length: rounds of a run; default: up to the last that is examined.
        people: the maximum numbers of train, validation and test people.
        options: options of the data source.
        settings: settings of `laboratory.Task`.
        name: what the case is called; default: the source.
        given: the case's JSON values, which identify stored parts.
    """

    source: str
    attributes: list[str]
    asked: list[str] = field(default_factory=list)
    rounds: list[int] = field(default_factory=lambda: [1])
    length: int | None = None
    people: dict[str, int] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    given: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str = "experiment: case") -> Case:
        """Return a case from JSON values, checked."""
        case: Case = parts.make(cls, {"name": str(values.get("source")), **values, "given": dict(values)}, where)
        if not case.rounds or min(case.rounds) < 1:
            raise InputError(f"{where}.rounds: {case.rounds} is not allowed; rounds count from 1")
        return case

    @property
    def attacked(self) -> list[str]:
        """The attributes that are attacked."""
        return self.asked or self.attributes

    @property
    def target(self) -> str:
        """What the model learns."""
        from fedveil_papers.recup.laboratory.task import DEFAULTS

        return str(self.settings.get("target", DEFAULTS.get(self.source, {}).get("target")))

    def locate(self) -> None:
        """Find the data set's files, or download them."""
        locate(find_source(self.source))

    def task(self, seed: int) -> Task:
        """Load the data and return the task."""
        from fedveil_papers.recup.laboratory import make_task

        return make_task(
            self.source, self.attributes, seed=seed, people=self.people, options=self.options, **self.settings
        )


@dataclass(frozen=True)
class Trial:
    """A shield with its strengths.

    Attributes:
        name: the curve's name.
        shield: its kind and settings.
        setting: the setting whose values are the strengths.
        values: strengths as values of that setting.
        norms: strengths as relative L2 norms of the change, in place of values; the setting's value is searched in each
            round.
        span: the range of the setting's values in which norms are searched.
        zoo: settings of the shield's zoos, one per attribute: features, members, widths, depth, bits, attributes
            (default: all).
        only: names of the cases that it is tried on; default: all.
        utility: whether a run is played under it.
        given: the trial's JSON values.
    """

    name: str
    shield: dict[str, Any]
    setting: str | None = None
    values: list[float] = field(default_factory=list)
    norms: list[float] = field(default_factory=list)
    span: tuple[float, float] = (1e-6, 10.0)
    zoo: dict[str, Any] | None = None
    only: list[str] = field(default_factory=list)
    utility: bool = True
    given: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str = "experiment: method") -> Trial:
        """Return a trial from JSON values, checked."""
        trial: Trial = parts.make(cls, {**values, "given": dict(values)}, where)
        if (trial.values or trial.norms) and trial.setting is None:
            raise InputError(f"{where}: strengths need `setting`, the shield's setting that they are")
        if trial.values and trial.norms:
            raise InputError(f"{where}: give values or norms, not both")
        return trial

    @property
    def identity(self) -> dict[str, Any]:
        """What identifies the shield, independent of the strengths and cases that it is tried with."""
        norms = {"as_norms": bool(self.norms)}
        return {key: value for key, value in self.given.items() if key not in ("values", "norms", "only")} | norms

    @property
    def strengths(self) -> list[float | None]:
        """All strengths; a single None if the shield has none."""
        return [*self.values] or [*self.norms] or [None]

    def check(self) -> None:
        """Refuse a shield that does not exist or lacks the setting."""
        kind = parts.shield_class(str(self.shield.get("kind")))
        if self.setting is not None and self.setting not in parts.settings_of(kind):
            raise InputError(f"method {self.name!r}: shield {self.shield['kind']!r} has no setting {self.setting!r}")

    def make(self, strength: float | None, zoos: Mapping[str, Zoo]) -> Shield:
        """Return the shield at a strength."""
        kind = parts.shield_class(str(self.shield["kind"]))
        settings = {key: value for key, value in self.shield.items() if key != "kind"}
        if self.setting is not None and strength is not None:
            annotation = str(parts.settings_of(kind)[self.setting].annotation)
            whole = "int" in annotation and "float" not in annotation
            settings[self.setting] = int(strength) if whole else float(strength)
        if self.zoo is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that a form publishes what it hides is measured here
                return kind(list(zoos.values()), **settings)  # type: ignore[no-any-return]
        shield: Shield = parts.make(kind, settings, f"method {self.name!r}")
        return shield


def laboratory_key(
    case: Case,
    seed: int,
    attributes: Sequence[str],
    *,
    static: Sequence[Sequence[str]] = (),
    adaptive: Sequence[Sequence[str]] = (),
    pool: Sequence[Sequence[str]] = (),
    length: int | None = None,
    draws: int = 400,
) -> str:
    """Return the settings of a case's laboratory as JSON, for `laboratory`; the arguments are `Laboratory`'s."""
    settings = {"case": case.given, "seed": seed, "attributes": list(attributes), "length": length, "draws": draws}
    return json.dumps({**settings, "static": static, "adaptive": adaptive, "pool": pool}, sort_keys=True)


def laboratory(key: str, report: Report) -> Laboratory:
    """Return a case's laboratory; all parts that a process measures in turn share its undefended run and its zoos."""
    lab = _laboratory(key)
    lab.progress = lambda what: report.progress(0.0, what)
    return lab


@lru_cache(maxsize=1)
def _laboratory(key: str) -> Laboratory:
    from fedveil_papers.recup.laboratory import Laboratory

    settings = json.loads(key)
    case = Case.of(settings.pop("case"))
    task = case.task(settings.pop("seed"))
    for name in ("static", "adaptive", "pool"):
        settings[name] = [(features, attacker) for features, attacker in settings[name]]
    return Laboratory(task, case.rounds, **settings)


def trials_on(case: Case, methods: Sequence[Mapping[str, Any]]) -> list[Trial]:
    """Return those of an experiment's methods that are tried on a case."""
    trials = [Trial.of(values, f"experiment: methods[{index}]") for index, values in enumerate(methods)]
    return [trial for trial in trials if not trial.only or case.name in trial.only]


@dataclass(frozen=True, eq=False)
class MadeShields:
    """A trial's shields at a strength.

    Attributes:
        run: the shield of the run whose learning is measured.
        by_round: the shields of rounds that need a strength of their own.
        settings: what was chosen: the setting's value by round, and the sizes of zoos.
    """

    run: Shield
    by_round: dict[int, Shield]
    settings: dict[str, Any]


def make_shields(lab: Laboratory, trial: Trial, strength: float | None) -> MadeShields | None:
    """Return a trial's shields at a strength; None if no value of the setting reaches the norm.

    If strengths are norms, the setting's value is searched in each round; the run has the shield of its first round.
    """
    from fedveil_papers.recup.laboratory.matching import at_norm

    zoos = {} if trial.zoo is None else kept_zoos(lab, trial.zoo)
    memory = {name: {"members": len(zoo), "bytes": zoo.bytes, "bits": zoo.bits} for name, zoo in zoos.items()}
    settings: dict[str, Any] = {"zoos": memory} if zoos else {}
    if not trial.norms:
        return MadeShields(fitted(lab, trial.make(strength, zoos)), {}, settings)
    assert strength is not None
    by_round: dict[int, Shield] = {}
    values: dict[str, float] = {}
    for number in lab.rounds:
        match = at_norm(lab, lambda value: fitted(lab, trial.make(value, zoos)), strength, trial.span, number)
        if match is None:
            return None
        values[str(number)], by_round[number] = match
    return MadeShields(by_round[lab.rounds[0]], by_round, {**settings, "values": values})


@runtime_checkable
class FromShadows(Protocol):
    """A shield that is fitted on clean updates of clients whose attributes are known."""

    def fitted(
        self, updates: Tensor, codes: Mapping[str, IntArray], segments: Sequence[Segment], labels: IntArray | None
    ) -> Shield:
        """Return the fitted shield."""


NUMBERS = 2**26
"""How many numbers of shadow clients' updates are in memory at once."""


def fitted(lab: Laboratory, shield: Shield) -> Shield:
    """Fit a shield, if it needs fitting, on updates of shadow clients in all rounds that are examined.

    Shadow clients are every second training client: half of those that an attacker learns from.
    """
    import torch

    from fedveil.data import Split

    if not isinstance(shield, FromShadows):
        return shield
    task = lab.task
    most = max(1, NUMBERS // (task.segments[-1].stop * len(lab.rounds)))
    people = task.people(Split.TRAIN)[::2][:most]
    models = [task.model(lab.undefended.weights[number]) for number in lab.rounds]
    updates = torch.cat([task.gradients(model, people) for model in models])
    times = len(lab.rounds)
    codes = {name: np.tile(task.labels(people, name).codes, times) for name in lab.attributes}
    assert task.data.y is not None
    return shield.fitted(updates, codes, task.segments, np.tile(task.data.y.codes[people[:, 0]], times))


def kept_zoos(lab: Laboratory, settings: Mapping[str, Any]) -> dict[str, Zoo]:
    """Return the laboratory's zoos with these settings, which are fitted when they are first needed."""
    key = json.dumps(dict(settings), sort_keys=True)
    if key not in lab.zoos:
        lab.say("zoo")
        lab.zoos[key] = fit_zoos(lab, settings)
    return lab.zoos[key]


def fit_zoos(lab: Laboratory, settings: Mapping[str, Any]) -> dict[str, Zoo]:
    """Fit one zoo per attribute on the clean updates of training people in all rounds that are examined."""
    import torch

    from fedveil.shields.recup import fit_zoo
    from fedveil.shields.recup.members import spread_widths

    rest = dict(settings)
    bits, members, how = rest.pop("bits", 32), rest.pop("members", 20), str(rest.pop("features", "max"))
    widths = rest.pop("widths", None) or spread_widths(members)
    seed = lab.task.seed + rest.pop("seed_of_members", 0)
    zoos = {}
    for name in rest.pop("attributes", None) or list(lab.task.data.attributes):
        rounds = [lab.clean[number] for number in lab.rounds]
        updates, held_out = (np.concatenate([seen.pools[index][how] for seen in rounds]) for index in (0, 1))
        codes, held_out_codes = (
            np.concatenate([seen.labels[index][name].codes for seen in rounds]) for index in (0, 1)
        )
        zoo = fit_zoo(
            torch.from_numpy(updates).float(),
            codes,
            lab.task.data.attribute(name).values,
            name,
            lab.task.segments,
            how,
            widths,
            seed=seed,
            validation=(torch.from_numpy(held_out).float(), held_out_codes) if _enough(held_out_codes) else 0.2,
            started_from={number: lab.undefended.weights[number] for number in lab.rounds},
            precomputed=True,
            **rest,
        )
        zoos[name] = zoo if bits == 32 else zoo.quantised(bits)
    return zoos


def _enough(codes: IntArray) -> bool:
    """Return whether there are enough held-out people to stop and score members; if not, training people are used."""
    values, counts = np.unique(codes[codes >= 0], return_counts=True)
    return len(values) > 1 and int(counts.min()) > 1 and int(counts.sum()) >= 20
