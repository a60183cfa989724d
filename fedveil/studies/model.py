"""The model of a study's results: what a finished cell holds, and what a study's directory says about the study.

Cells write these values to result.json (`CellFigures.as_dict`), and `reading.py` reads them back. Tables, frontiers,
tuning, sinks and the report all work with these types. Figures are estimates against the attackers tried. Certificates
are kept apart from them, as `StatedCertificate`: reading a statement from a file does not prove it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fedveil.attacks.judgement import AttackerFigures, Decensoring, Judgement
from fedveil.certificates.certificate import Certificate, Direction, rounded_outward
from fedveil.config.cells import Cell
from fedveil.core.figures import Estimate
from fedveil.federation.utility import Utility
from fedveil.studies.checked_json import JsonObject

FORMAT = 1
"""The version of the files that hold this model; files of any other version are refused."""


@dataclass(frozen=True)
class StatedCertificate:
    """A certificate as a result states it: what the cell's run certified, not what this process has proved.

    It has the fields of `Certificate`, but is unrelated to it by type and cannot be turned into one.
    """

    quantity: str
    bound: float
    direction: Direction
    assumptions: Mapping[str, object]
    does_not_cover: tuple[str, ...]
    method: str
    citation: str
    confidence: float | None = None
    stricter: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of(cls, certificate: Certificate) -> StatedCertificate:
        """State what was certified."""
        return cls(
            certificate.quantity,
            certificate.bound,
            certificate.direction,
            certificate.as_dict()["assumptions"],
            certificate.does_not_cover,
            certificate.method,
            certificate.citation,
            certificate.confidence,
            certificate.stricter,
        )

    @property
    def held_out(self) -> bool:
        """Whether it holds with a probability over the draw of held-out people, and not always."""
        return self.confidence is not None

    def shared_among(self, number: int) -> StatedCertificate:
        """Return it as one of several held-out certificates whose smallest is chosen: at α/m or a smaller share of α.

        A certificate that always holds needs no correction. One that states no bound at such a share, such as those of
        earlier versions, is returned as it is.
        """
        if self.confidence is None or number < 2:
            return self
        share = (1.0 - self.confidence) / number * (1.0 + 1e-9)
        for level, bound in self.stricter:
            if 1.0 - level <= share:
                return replace(self, bound=bound, confidence=level, stricter=())
        return self

    @property
    def binds(self) -> bool:
        """Whether the bound is finite: an infinite one excludes nothing."""
        return math.isfinite(self.bound)

    @property
    def looseness(self) -> float:
        """A number that is larger the less is excluded, to compare certificates of one quantity and direction."""
        return self.bound if self.direction == "upper" else -self.bound

    def rounded(self) -> str:
        """Return the bound as text, rounded to the safe side."""
        return rounded_outward(self.bound, self.direction)

    def as_dict(self) -> dict[str, Any]:
        """Return the form on disk, which is that of `Certificate.as_dict`."""
        return {
            "certified": True,
            "quantity": self.quantity,
            "bound": self.bound,
            "direction": self.direction,
            "confidence": self.confidence,
            "assumptions": dict(self.assumptions),
            "does_not_cover": list(self.does_not_cover),
            "method": self.method,
            "citation": self.citation,
            **({"stricter": [list(pair) for pair in self.stricter]} if self.stricter else {}),
        }


def weakest_certificates(by_cell: Sequence[Sequence[StatedCertificate]]) -> list[StatedCertificate]:
    """Return what holds in all cells: for each quantity that every cell bounds, the loosest of the cells' bounds.

    If one cell has several bounds of a quantity, all of them hold, and the tightest counts. If some of them hold with a
    probability only, have them share it first (`fedveil.studies.choosing`). The loosest over seeds needs no correction:
    it is too small only if the bound of the seed that leaks most is.
    """
    by_quantity: dict[tuple[str, str], list[StatedCertificate]] = {}
    for certificates in by_cell:
        tightest: dict[tuple[str, str], StatedCertificate] = {}
        for certificate in certificates:
            key: tuple[str, str] = (certificate.quantity, certificate.direction)
            if key not in tightest or certificate.looseness < tightest[key].looseness:
                tightest[key] = certificate
        for quantity, certificate in tightest.items():
            by_quantity.setdefault(quantity, []).append(certificate)
    return [
        max(certificates, key=lambda certificate: certificate.looseness)
        for certificates in by_quantity.values()
        if len(certificates) == len(by_cell)
    ]


@dataclass(frozen=True)
class SpentOnUpdates:
    """The ε that a noise shield on updates has spent, on the device that sent most often; infinite without clipping."""

    certificate: StatedCertificate
    covers: str = "updates, not representations"

    @property
    def epsilon(self) -> float:
        """The ε, or infinity."""
        return self.certificate.bound

    @property
    def delta(self) -> float | None:
        """The δ that goes with it; None for pure differential privacy."""
        delta = self.certificate.assumptions.get("delta")
        return float(delta) if isinstance(delta, int | float) else None

    @property
    def releases(self) -> int | None:
        """How many updates it covers."""
        releases = self.certificate.assumptions.get("releases")
        return releases if isinstance(releases, int) else None

    def as_dict(self) -> dict[str, Any]:
        """Return the form on disk."""
        return {**self.certificate.as_dict(), "infinite": math.isinf(self.epsilon), "covers": self.covers}


@dataclass(frozen=True)
class TheoryFacts:
    """What TAPPFL's theorems need to know about the test people, for one attribute.

    Attributes:
        entropy_bits: H(u).
        gap: by task, Δ = |P(y=1|u=0) − P(y=1|u=1)|; None unless the attribute and the task have two values each.
    """

    entropy_bits: float
    gap: Mapping[str, float | None]


@dataclass(frozen=True)
class CellFigures:
    """What was measured for a finished cell: the content of its result.json.

    Attributes:
        utility: by task, how well it can be done with what was released.
        leakage: by attribute, what the panel's retrained attackers read.
        cotrained: by attribute, what the game's own adversary reads, if it has one; this is weak evidence.
        decensoring: by attribute, what de-censoring reads beside the panel, where the study asks for it.
        floor: by task, attribute and measure, what the true task label alone gives away.
        certificates: by attribute, what the run certified about what the study's observer sees.
        spent: what each noise shield on updates has spent.
        utility_only: for each attribute that the game hides, how many devices have nothing to hide.
        devices: the number of devices.
        theory: by attribute, what TAPPFL's theorems need.
        paths: by player, the path of its network through the engine.
        rounds, bytes_up: how many rounds were played, and what the devices sent in total.
    """

    utility: Mapping[str, Utility]
    leakage: Mapping[str, Judgement]
    cotrained: Mapping[str, AttackerFigures] = field(default_factory=dict)
    decensoring: Mapping[str, Decensoring] = field(default_factory=dict)
    floor: Mapping[str, Mapping[str, Mapping[str, Estimate]]] = field(default_factory=dict)
    certificates: Mapping[str, tuple[StatedCertificate, ...]] = field(default_factory=dict)
    spent: tuple[SpentOnUpdates, ...] = ()
    utility_only: Mapping[str, int] = field(default_factory=dict)
    devices: int = 0
    theory: Mapping[str, TheoryFacts] = field(default_factory=dict)
    paths: Mapping[str, str] = field(default_factory=dict)
    rounds: int = 0
    bytes_up: int = 0

    def lacks(self, task: str, attribute: str) -> str | None:
        """Say which of the two figures of a frontier's point is missing; None if both exist."""
        served, judged = self.utility.get(task), self.leakage.get(attribute)
        missing = []
        if served is None or not math.isfinite(served.accuracy.estimate):
            missing.append(f"no utility of {task}")
        if judged is None or not math.isfinite(judged.worst.balanced_accuracy.estimate):
            missing.append(f"no leakage of {attribute}")
        return " and ".join(missing) or None

    def strongest(self, attribute: str) -> AttackerFigures:
        """Return the panel's strongest attacker, with the validation figure that a choice of strength may look at."""
        judged = self.leakage[attribute]
        if judged.validation_leakage is None:
            return judged.worst
        return replace(judged.worst, validation_balanced_accuracy=judged.validation_leakage.estimate)

    def beside_panel(self, attribute: str) -> dict[str, AttackerFigures]:
        """Return the attackers that are not members of the panel, by their kind in rows and tables."""
        beside = {}
        if attribute in self.cotrained:
            beside["cotrained"] = self.cotrained[attribute]
        if attribute in self.decensoring:
            beside["decensoring"] = self.decensoring[attribute].attack
            beside["decensoring-control"] = self.decensoring[attribute].control
        return beside

    def floor_of(self, task: str, attribute: str) -> Estimate | None:
        """Return the balanced accuracy of reading an attribute from the true task label; None if not measured."""
        return self.floor.get(task, {}).get(attribute, {}).get("balanced_accuracy")

    def binding_certificates(self, attribute: str) -> list[StatedCertificate]:
        """Return the certificates about an attribute whose bounds are finite."""
        return [certificate for certificate in self.certificates.get(attribute, ()) if certificate.binds]

    def as_dict(self) -> dict[str, Any]:
        """Return the form on disk; a figure that is not a number is written as null (`fedveil.core.files.plain`)."""
        return {
            "utility": {task: served.as_dict() for task, served in self.utility.items()},
            "leakage": {attribute: judged.as_dict() for attribute, judged in self.leakage.items()},
            "cotrained": {attribute: figures.as_dict() for attribute, figures in self.cotrained.items()},
            "decensoring": {attribute: undone.as_dict() for attribute, undone in self.decensoring.items()},
            "floor": {
                task: {
                    attribute: {measure: figure.as_dict() for measure, figure in figures.items()}
                    for attribute, figures in by_attribute.items()
                }
                for task, by_attribute in self.floor.items()
            },
            "certificates": {
                attribute: [certificate.as_dict() for certificate in stated]
                for attribute, stated in self.certificates.items()
            },
            "spent": [spent.as_dict() for spent in self.spent],
            "utility_only": dict(self.utility_only),
            "devices": self.devices,
            "theory": {
                attribute: {"entropy_bits": facts.entropy_bits, "gap": dict(facts.gap)}
                for attribute, facts in self.theory.items()
            },
            "paths": dict(self.paths),
            "rounds": self.rounds,
            "bytes_up": self.bytes_up,
        }


@dataclass(frozen=True)
class CellConfig:
    """How a cell was computed: its settings, the versions of the libraries, the revision of a checkout, the threads."""

    settings: Mapping[str, JsonObject] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    revision: str | None = None
    threads: int | None = None


@dataclass(frozen=True)
class PlannedMethod:
    """A method of a study.

    Attributes:
        game: the kind of its game.
        shielded, swept: whether it has a shield, and whether it is tried at several strengths.
        varies: the setting that takes the strength as its value.
    """

    name: str
    game: str | None
    shielded: bool
    swept: bool
    varies: str


@dataclass(frozen=True)
class StudyFacts:
    """What a study's directory says about the study: the content of study.json.

    Attributes:
        name, description: as the study gives them.
        cells: all planned cells, in order.
        study: the study in full, as plain values.
        command, version, revision: what a person typed to run it, and the code that ran.
        data, data_seed: a digest of the records, and the seed with which they were split for this digest.
        source, devices, view: the data set, the number of devices, and what the observer sees.
        tasks, attributes, methods: those that the study names.
    """

    name: str
    cells: tuple[Cell, ...]
    study: JsonObject
    description: str = ""
    command: str = ""
    version: str = ""
    revision: str = ""
    data: str | None = None
    data_seed: int | None = None
    source: str | None = None
    devices: int | None = None
    view: str | None = None
    tasks: tuple[str, ...] = ()
    attributes: tuple[str, ...] = ()
    methods: tuple[PlannedMethod, ...] = ()
