"""What a study of updates is made of: cases, shields with their strengths, and zoos that are built on the way."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from fedveil.config import parts
from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError

if TYPE_CHECKING:
    from fedveil.shields.recup import Zoo
    from fedveil.shields.shield import Shield
    from fedveil_papers.exposure import Laboratory, Task


@dataclass(frozen=True)
class Case:
    """A data set, what is asked about its people, and where updates are looked at.

    Attributes:
        source: adult, lfw, audiomnist or celeba.
        attributes: what the data tells of its people, and what zoos are fitted for.
        asked: which of them attackers are asked about; all if empty.
        rounds: where updates are looked at.
        length: rounds of a run; the last looked at if unsaid.
        people: at most so many train, validation and test people.
        options: of the data source.
        settings: of `fedveil_papers.exposure.Task`.
        name: what the case is called.
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
    told: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, told: Mapping[str, Any], where: str) -> Case:
        """Make a case of plain values."""
        made: Case = parts.make(cls, {"name": str(told.get("source")), **told, "told": dict(told)}, where)
        if not made.rounds or min(made.rounds) < 1:
            raise InputError(f"{where}.rounds: {made.rounds} is not allowed; rounds count from 1")
        return made

    def task(self, seed: int) -> Task:
        """Load the data and make the task."""
        from fedveil_papers.exposure import make_task

        return make_task(
            self.source, self.attributes, seed=seed, people=self.people, options=self.options, **self.settings
        )


@dataclass(frozen=True)
class Trial:
    """A shield with its strengths.

    Attributes:
        name: what the curve is called.
        shield: its kind and settings; a list is a chain.
        setting: which setting the strength is.
        values: strengths as that setting takes them.
        norms: strengths as relative L2 norms of the change, found by bisection in each round, in place of values.
        span: between which values of the setting norms are sought.
        zoo: settings of the zoos that the shield is given, one per attribute: features, members, widths, depth, bits,
            attributes (all if unsaid).
        only: names of the cases that it is tried on; all if empty.
        utility: whether a run is played under it.
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
    told: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, told: Mapping[str, Any], where: str) -> Trial:
        """Make a trial of plain values."""
        made: Trial = parts.make(cls, {**told, "told": dict(told)}, where)
        if (made.values or made.norms) and made.setting is None:
            raise InputError(f"{where}: strengths need `setting`, the shield's setting that they are")
        if made.values and made.norms:
            raise InputError(f"{where}: give values or norms, not both")
        return made

    @property
    def itself(self) -> dict[str, Any]:
        """What it is, whichever strengths it is tried at and on whatever else."""
        norms = {"as_norms": bool(self.norms)}
        return {key: value for key, value in self.told.items() if key not in ("values", "norms", "only")} | norms

    @property
    def strengths(self) -> list[float | None]:
        """All strengths; one without a number where the shield has none."""
        return [*self.values] or [*self.norms] or [None]

    def check(self, case: Case) -> None:
        """Refuse a shield that does not exist or does not know the setting."""
        kind = parts.shield_class(str(self.shield.get("kind")))
        if self.setting is not None and self.setting not in parts.settings_of(kind):
            raise InputError(f"method {self.name!r}: shield {self.shield['kind']!r} has no setting {self.setting!r}")

    def make(self, strength: float | None, zoos: Mapping[str, Zoo]) -> Shield:
        """Make the shield at a strength."""
        kind = parts.shield_class(str(self.shield["kind"]))
        settings = {key: value for key, value in self.shield.items() if key != "kind"}
        known = parts.settings_of(kind)
        if self.setting is not None and strength is not None:
            whole = "int" in str(known[self.setting].annotation) and "float" not in str(known[self.setting].annotation)
            settings[self.setting] = int(strength) if whole else float(strength)
        if self.zoo is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that a form publishes what it hides is measured here
                return kind(list(zoos.values()), **settings)  # type: ignore[no-any-return]
        made: Shield = parts.make(kind, settings, f"method {self.name!r}")
        return made


def trials_on(case: Case, methods: Sequence[Mapping[str, Any]]) -> list[Trial]:
    """Return what is tried on a case, of an experiment's methods."""
    made = [Trial.of(told, f"experiment: methods[{place}]") for place, told in enumerate(methods)]
    return [one for one in made if not one.only or case.name in one.only]


def make_shields(
    lab: Laboratory, method: Trial, strength: float | None
) -> tuple[Shield, dict[int, Shield], dict[str, Any]] | None:
    """Return the shield of the run, those of rounds that need a strength of their own, and what was chosen.

    Strengths that are norms are found for each round; the run has that of its first round. None: out of reach.
    """
    from fedveil_papers.exposure.matching import at_norm
    from fedveil_papers.exposure.shadows import fitted

    zoos = {} if method.zoo is None else kept_zoos(lab, method.zoo)
    about: dict[str, Any] = {"zoos": {name: _memory(zoo) for name, zoo in zoos.items()}} if zoos else {}
    if not method.norms:
        return fitted(lab, method.make(strength, zoos)), {}, about
    assert strength is not None
    by_round: dict[int, Shield] = {}
    chosen: dict[int, float] = {}
    for number in lab.rounds:
        found = at_norm(lab, lambda value: fitted(lab, method.make(value, zoos)), strength, method.span, number)
        if found is None:
            return None
        chosen[number], by_round[number] = found
    about["values"] = {str(number): value for number, value in chosen.items()}
    return by_round[lab.rounds[0]], by_round, about


def _memory(zoo: Zoo) -> dict[str, Any]:
    """Return what a zoo takes on a device."""
    return {"members": len(zoo), "bytes": zoo.bytes, "bits": zoo.bits}


def kept_zoos(lab: Laboratory, settings: Mapping[str, Any]) -> dict[str, Zoo]:
    """Return the laboratory's zoos of these settings, fitted when they are first asked for."""
    key = json.dumps(dict(settings), sort_keys=True)
    if key not in lab.zoos:
        lab.say("zoo")
        lab.zoos[key] = zoos_of(lab, settings)
    return lab.zoos[key]


def zoos_of(lab: Laboratory, settings: Mapping[str, Any]) -> dict[str, Zoo]:
    """Fit one zoo per attribute on the clean updates of training people in all rounds looked at."""
    import torch

    from fedveil.shields.recup import fit_zoo
    from fedveil.shields.recup.members import spread_widths

    own = dict(settings)
    bits, members, how = own.pop("bits", 32), own.pop("members", 20), str(own.pop("features", "max"))
    widths = own.pop("widths", None) or spread_widths(members)
    seed = lab.task.seed + own.pop("seed_of_members", 0)
    found = {}
    for name in own.pop("attributes", None) or list(lab.task.data.attributes):
        pools = [lab.clean[number] for number in lab.rounds]
        updates, held = (np.concatenate([one.pools[place][how] for one in pools]) for place in (0, 1))
        codes, held_codes = (np.concatenate([one.labels[place][name].codes for one in pools]) for place in (0, 1))
        zoo = fit_zoo(
            torch.from_numpy(updates).float(),
            codes,
            lab.task.data.attribute(name).values,
            name,
            lab.task.segments,
            how,
            widths,
            seed=seed,
            validation=(torch.from_numpy(held).float(), held_codes) if _enough(held_codes) else 0.2,
            started_from={number: lab.undefended.weights[number] for number in lab.rounds},
            precomputed=True,
            **own,
        )
        found[name] = zoo if bits == 32 else zoo.quantised(bits)
    return found


def _enough(codes: IntArray) -> bool:
    """Whether people held out can stop and score members: some of two values at least; else training people are."""
    values, counts = np.unique(codes[codes >= 0], return_counts=True)
    return len(values) > 1 and int(counts.min()) > 1 and int(counts.sum()) >= 20
