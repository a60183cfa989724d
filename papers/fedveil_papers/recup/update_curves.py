"""Curves of shields on updates against attackers: leakage, learning and realised norm at several strengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.core.errors import InputError
from fedveil.studies.units import Report
from fedveil_papers.experiment import Experiment, Measured, Part
from fedveil_papers.recup.cases import Case, Trial, laboratory, laboratory_key, make_shields, trials_on
from fedveil_papers.recup.laboratory.kept import fall_of
from fedveil_papers.recup.laboratory.point import Point
from fedveil_papers.recup.laboratory.readers import Reading, strongest
from fedveil_papers.rows import Figure, PaperFigures, Row, notes_of
from fedveil_papers.shown import at

if TYPE_CHECKING:
    from rich.table import Table

ENOUGH = 0.97
"""The share of the loss's fall that methods must keep to be compared."""

MODES = {"static": "static", "retrained": "retrained", "pooled": "retrained, rounds pooled"}


@dataclass(frozen=True)
class Tried:
    """A method at a strength on a case.

    Attributes:
        method, strength: what was tried.
        point: what was measured; None if no setting of the shield reaches the norm.
        settings: what was chosen: the setting's values by round, and the sizes of zoos.
    """

    method: str
    strength: float | None
    point: Point | None
    settings: Mapping[str, Any]

    @classmethod
    def of(cls, figures: Mapping[str, Any]) -> Tried:
        """Return it from a part's figures."""
        point = None if figures.get("unreachable") else Point.of(figures)
        return cls(figures["method"], figures["strength"], point, figures.get("settings") or {})

    def without_share(self) -> Tried:
        """Return it without the share of the test loss's fall that was kept."""
        return self if self.point is None else replace(self, point=replace(self.point, kept=None))

    def worst(self, attribute: str, mode: str) -> Reading | None:
        """Return the attacker, in whatever round, that reads test people best; see `strongest`."""
        readings = [] if self.point is None else self.point.read(attribute, mode)
        return strongest(readings) if readings else None

    def mean_static(self, attribute: str, attacker: str) -> float | None:
        """Return a static attacker's balanced accuracy, averaged over the rounds."""
        readings = [] if self.point is None else self.point.read(attribute, "static")
        values = [
            reading.balanced_accuracy.estimate
            for reading in readings
            if reading.attacker == attacker and reading.balanced_accuracy is not None
        ]
        return sum(values) / len(values) if values else None

    @property
    def relative_l2(self) -> float | None:
        """The mean norm of the change over the mean norm of the update, averaged over rounds."""
        if self.point is None:
            return None
        norms = [damage["relative_l2"] for damage in self.point.damage.values()]
        return sum(norms) / len(norms)


@dataclass(frozen=True)
class Panel:
    """A case with everything that was tried on it; the first is no shield."""

    case: str
    task: str
    attributes: list[str]
    tried: list[Tried]

    @classmethod
    def of(cls, case: Case, figures: Sequence[Mapping[str, Any]]) -> Panel:
        """Return a case with the figures of its parts.

        Parts that older versions measured hold a share even if the undefended loss rose; it is left out here.
        """
        panel = cls(case.name, case.target, case.attacked, [Tried.of(part) for part in figures])
        if panel.undefended_fall is None or panel.undefended_fall > 0:
            return panel
        return replace(panel, tried=[tried.without_share() for tried in panel.tried])

    @property
    def undefended_fall(self) -> float | None:
        """How much the test loss fell without a shield, from the first to the last round; None if it was not played."""
        point = self.tried[0].point
        return None if point is None or not point.losses else fall_of(point.losses)

    def prior(self, attribute: str) -> float:
        """Return the accuracy of always guessing the most frequent value."""
        first = self.tried[0]
        reading = first.worst(attribute, "retrained") or first.worst(attribute, "static")
        return float("nan") if reading is None or reading.prior is None else reading.prior.estimate


@dataclass(frozen=True)
class Curves:
    """The results: a panel per case."""

    panels: list[Panel]
    paper: PaperFigures


@dataclass(frozen=True)
class UpdateCurves(Experiment[Curves]):
    """Each shield at each strength on each case: what it does, what attackers read, and how well the model learns.

    Attributes:
        cases: data set, attributes, rounds, people; see `Case`.
        methods: shields with their strengths; see `Trial`.
        static, adaptive, pool: pairs of features and attackers; see `laboratory.Laboratory`.
        draws: bootstrap draws for each interval.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "update-curves"
    cases: list[dict[str, Any]]
    methods: list[dict[str, Any]]
    static: list[tuple[str, str]] = field(default_factory=lambda: [("max", "stru-nn"), ("max", "unkwn-nn")])
    adaptive: list[tuple[str, str]] = field(default_factory=lambda: [("max", "boosting"), ("recovered", "boosting")])
    pool: list[tuple[str, str]] = field(default_factory=list)
    draws: int = 400
    seed: int = 0

    def check(self) -> None:
        """Refuse cases and methods that cannot be made."""
        if not self.cases or not self.methods:
            raise InputError("experiment: needs cases and methods; name some")
        for case in self._cases():
            for trial in trials_on(case, self.methods):
                trial.check()

    def _cases(self) -> list[Case]:
        return [Case.of(values, f"experiment: cases[{index}]") for index, values in enumerate(self.cases)]

    def locate_data(self) -> None:
        """Find all data, or download it."""
        for case in self._cases():
            case.locate()

    def parts(self) -> list[Part]:
        """Return a part for each case without a shield, and for each method at each strength on it."""
        return [part for case in self._cases() for part in self._parts(case)]

    def _parts(self, case: Case) -> list[Part]:
        tried: list[tuple[Trial | None, float | None]] = [(None, None)]
        tried += [(trial, strength) for trial in trials_on(case, self.methods) for strength in trial.strengths]
        return [self._part(case, trial, strength) for trial, strength in tried]

    def _part(self, case: Case, trial: Trial | None, strength: float | None) -> Part:
        settings = {
            "case": case.given,
            "method": None if trial is None else trial.identity,
            "strength": strength,
            "readers": [self.static, self.adaptive, self.pool, self.draws],
            "seed": self.seed,
        }
        key = laboratory_key(
            case,
            self.seed,
            case.attacked,
            static=self.static,
            adaptive=self.adaptive,
            pool=self.pool,
            length=case.length,
            draws=self.draws,
        )
        return Part(
            settings,
            "fedveil_papers.recup.update_curves:measure_point",
            f"{case.name}: {'no shield' if trial is None else f'{trial.name} {at(strength)}'.strip()}",
            payload={"laboratory": key, "method": None if trial is None else trial.given, "strength": strength},
            shares=key,
        )

    def gather(self, measured: Measured, paper: PaperFigures) -> Curves:
        """Return a panel per case."""
        panels = [Panel.of(case, [measured[part] for part in self._parts(case)]) for case in self._cases()]
        return Curves(panels, paper)

    def rows(self, results: Curves) -> list[Row]:
        """Return a row for each case, attribute, method, strength and mode of attack, with the strongest attacker."""
        return [
            self._row(panel, tried, attribute, mode)
            for panel in results.panels
            for attribute in panel.attributes
            for tried in panel.tried
            for mode in MODES
            if tried.worst(attribute, mode) is not None or (tried.point is None and mode == "retrained")
        ]

    def _row(self, panel: Panel, tried: Tried, attribute: str, mode: str) -> Row:
        reading = tried.worst(attribute, mode)
        leakage, more = None, {"case": panel.case, "unreachable": tried.point is None}
        if reading is not None:
            leakage = {name: getattr(reading, name) for name in ("balanced_accuracy", "accuracy", "auc", "prior")}
            more |= {"attacker_name": reading.attacker, "features": reading.features, "round": reading.round}
        kept = None if tried.point is None else tried.point.kept
        return Row(
            method=tried.method,
            strength=tried.strength,
            task=panel.task,
            attribute=attribute,
            attacker=mode,
            seeds=[self.seed],
            utility=None if kept is None else {"loss_kept": Figure(kept)},
            leakage=leakage,
            more={**more, "relative_l2": tried.relative_l2},
        )

    def tables(self, results: Curves) -> list[Table]:
        """Lay out two tables per case and attribute: every method and strength, and methods at equal learning."""
        return [
            table
            for panel in results.panels
            for attribute in panel.attributes
            for table in (_every_strength(panel, attribute), _at_equal_learning(panel, attribute))
        ]

    def notes(self, results: Curves) -> list[str]:
        """Say what the figures are based on."""
        return [
            "Static attackers know only clean updates, as the paper's do; retrained attackers learned from updates "
            "that went through the same shield. All figures are estimates against the attackers tried.",
            "Relative L2: the mean norm of the change over the mean norm of the update. Loss kept: the fall of the "
            "test loss under the shield, as a share of the undefended run's; undefined (–) if that loss did not fall.",
            *_did_not_fall(results),
            *_zoo_sizes(results),
            *notes_of(results.paper),
        ]

    def draw(self, results: Curves, canvas: Any) -> None:
        """Draw the worst retrained and the static attacker against what learning keeps; a panel per case, attribute."""
        panels = [(panel, attribute) for panel in results.panels for attribute in panel.attributes]
        canvas.set_size_inches(4.2 * len(panels), 6.4)
        axes = canvas.subplots(2, len(panels), squeeze=False, sharex="col")
        for column, (panel, attribute) in enumerate(panels):
            for row, mode in enumerate(("static", "retrained")):
                _draw_curve(axes[row][column], panel, attribute, mode)
            axes[0][column].set_title(f"{panel.case}: {attribute}")
            axes[1][column].set_xlabel("share of the loss's fall that is kept")
        canvas.legend(
            *axes[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=min(4, 2 * len(panels))
        )

    def shows(self, results: Curves) -> dict[str, Any]:
        """Return every reading of every attacker, by case and method."""
        panels = []
        for panel in results.panels:
            points = []
            for tried in panel.tried:
                point = {"unreachable": True} if tried.point is None else tried.point.as_dict()
                start = {"method": tried.method, "strength": tried.strength}
                points.append({**start, **point, "settings": dict(tried.settings)})
            panels.append({"case": panel.case, "attributes": panel.attributes, "points": points})
        return {"kind": self.kind, "panels": panels, "paper": [dict(entry) for entry in results.paper]}


def measure_point(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Measure one method at one strength: the task of a part."""
    lab = laboratory(payload["laboratory"], report)
    if payload["method"] is None:
        return {**lab.measure("no shield").as_dict(), "segment": lab.task.segments[-1].stop}
    trial, strength = Trial.of(payload["method"]), payload["strength"]
    shields = make_shields(lab, trial, strength)
    if shields is None:
        return {"method": trial.name, "strength": strength, "unreachable": True}
    point = lab.measure(trial.name, shields.run, strength, at=shields.by_round, utility=trial.utility)
    return {**point.as_dict(), "settings": shields.settings, "norm": strength if trial.norms else None}


def _every_strength(panel: Panel, attribute: str) -> Table:
    from rich.table import Table

    table = Table(title=f"{panel.case}: {attribute} (prior {panel.prior(attribute):.3f})")
    for heading in ("method", "strength", "relative L2", "loss kept", "static stru-nn", "static unkwn-nn"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    table.add_column("worst retrained", justify="right")
    table.add_column("by")
    table.add_column("pooled", justify="right")
    for tried in panel.tried:
        table.add_row(*_cells(tried, attribute))
    table.caption = (
        "Balanced accuracy with 95% intervals. Static attackers and norms: means over rounds; the worst attacker is "
        "the strongest of all in any round, with an interval that holds although the largest was taken."
    )
    return table


def _cells(tried: Tried, attribute: str) -> Sequence[str]:
    """Return a row of the table."""
    if tried.point is None:
        return [tried.method, at(tried.strength), "unreachable", *["–"] * 6]
    worst, pooled = tried.worst(attribute, "retrained"), tried.worst(attribute, "pooled")
    static = [tried.mean_static(attribute, name) for name in ("stru-nn", "unkwn-nn")]
    return [
        tried.method,
        at(tried.strength),
        f"{tried.relative_l2:.3f}",
        _kept(tried.point),
        *("–" if mean is None else f"{mean:.3f}" for mean in static),
        "–" if worst is None else str(worst.balanced_accuracy),
        "" if worst is None else f"{worst.attacker} on {worst.features}, round {worst.round}",
        "–" if pooled is None else str(pooled.balanced_accuracy),
    ]


def _at_equal_learning(panel: Panel, attribute: str) -> Table:
    """Lay out each method at its least leaking strength that keeps enough, chosen on validation people."""
    from rich.table import Table

    table = Table(title=f"{panel.case}: {attribute}, at {ENOUGH:.0%} of the loss's fall or more")
    for heading in ("method", "strength", "loss kept", "worst retrained"):
        table.add_column(heading, justify="left" if heading == "method" else "right")
    for name in dict.fromkeys(tried.method for tried in panel.tried):
        able = [
            (worst, tried.point)
            for tried in panel.tried
            if tried.method == name
            and tried.point is not None
            and _keeps_enough(tried.point)
            and (worst := tried.worst(attribute, "retrained")) is not None
        ]
        if able:
            worst, point = min(able, key=lambda pair: pair[0].validation)
            table.add_row(name, at(point.strength), _kept(point), str(worst.balanced_accuracy))
        else:
            table.add_row(name, "", "no strength keeps enough, or not measured", "–")
    return table


def _keeps_enough(point: Point) -> bool:
    """Return whether learning is kept, by validation people if they were measured; not if the share is undefined."""
    kept = point.kept if point.validation_kept is None else point.validation_kept
    return kept is not None and kept >= ENOUGH


def _kept(point: Point) -> str:
    return "–" if point.kept is None else f"{point.kept:.3f}"


def _did_not_fall(results: Curves) -> list[str]:
    """Name the cases whose undefended loss did not fall, so that no share of its fall is defined."""
    lines = []
    for panel in results.panels:
        fall = panel.undefended_fall
        if fall is not None and fall <= 0:
            rose = f"rose by {-fall:.4f}" if fall < 0 else "stayed the same"
            lines.append(
                f"On {panel.case}, the test loss {rose} without a shield: there is no fall of which to keep a share."
            )
    return lines


def _zoo_sizes(results: Curves) -> list[str]:
    """Say how large zoos are, once for each method."""
    lines: dict[str, None] = {}
    for panel in results.panels:
        for tried in panel.tried:
            for name, zoo in tried.settings.get("zoos", {}).items():
                size = f"{zoo['members']} members, {zoo['bytes'] / 1e6:.1f} MB"
                lines[f"Zoo of {tried.method} on {panel.case} for {name}: {size}."] = None
    return list(lines)


def _draw_curve(axis: Any, panel: Panel, attribute: str, mode: str) -> None:
    """Draw what attackers of a mode read against what learning keeps, a line for each method."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for tried in panel.tried:
        worst = tried.worst(attribute, mode)
        if worst is not None and worst.balanced_accuracy is not None and tried.point and tried.point.kept is not None:
            curves.setdefault(tried.method, []).append((tried.point.kept, worst.balanced_accuracy.estimate))
    for name, curve in curves.items():
        axis.plot(*zip(*sorted(curve), strict=True), marker="o", markersize=3, linewidth=1, label=name)
    axis.set_ylabel(f"{MODES[mode]} attacker, balanced accuracy")
    axis.set_xlim(left=max(-0.1, axis.get_xlim()[0]))
