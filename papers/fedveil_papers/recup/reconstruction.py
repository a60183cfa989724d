"""Pictures from updates: each shield against gradient inversion (RecUP-FL §6.3, Figures 6 and 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.attacks.reconstruction import Inversion
from fedveil.config import parts
from fedveil.core.errors import InputError
from fedveil.data.catalogue import find_source
from fedveil.data.locate import find
from fedveil.studies.units import Report
from fedveil_papers.experiment import Experiment, Measured, Part
from fedveil_papers.recup import picture_grid
from fedveil_papers.recup.cases import Case, Trial, kept_zoos, laboratory, laboratory_key, trials_on
from fedveil_papers.recup.inversion import RECOGNISABLE, Inverted, Quality, Shielding, invert_people
from fedveil_papers.recup.picture_grid import Column, Grid, ShownPicture
from fedveil_papers.rows import PaperFigures, Row
from fedveil_papers.shown import at

if TYPE_CHECKING:
    from rich.table import Table

PAGE = "reconstruction.html"
GUESS = "mean training picture"


@dataclass(frozen=True)
class Attacked:
    """A method at a strength: how well people's pictures are reconstructed, and what the paper prints."""

    method: str
    strength: float | None
    inverted: Inverted
    paper: Mapping[str, Any]

    @property
    def title(self) -> str:
        """The method with its strength."""
        return f"{self.method} {at(self.strength)}".strip()


@dataclass(frozen=True)
class Panel:
    """A case in a round, without a shield first, then under each."""

    case: str
    task: str
    round: int
    attacked: list[Attacked]

    def grid(self) -> Grid:
        """Return the panel's pictures as a grid: a row per victim, columns for the original and each defence."""
        columns = [
            Column(
                attacked.title,
                [
                    None
                    if picture is None
                    else ShownPicture(picture.png, [f"MSE {picture.mse:.0f}", f"{picture.psnr:.1f} dB"])
                    for picture in attacked.inverted.pictures
                ],
            )
            for attacked in self.attacked
        ]
        caption = (
            "Left: the victims' pictures. Beside them: what the server reconstructs from one update of round "
            f"{self.round}, without a shield and under each shield (strengths are relative L2 norms of the change, or "
            "values of the shield's setting). Below each: mean squared error on the scale 0–255, and peak "
            "signal-to-noise ratio."
        )
        shown = min(len(column.pictures) for column in columns)
        originals = self.attacked[0].inverted.originals[:shown]
        return Grid(f"{self.case}, round {self.round}", originals, columns, caption)


@dataclass(frozen=True)
class ReconstructionResults:
    """The results: a panel per case and round, and the cases whose data is not on this machine."""

    panels: list[Panel]
    absent: list[str]
    paper: PaperFigures


@dataclass(frozen=True)
class Reconstructions(Experiment[ReconstructionResults]):
    """Invert the updates of test people under each shield, and show pictures and figures side by side.

    Attributes:
        cases: data set, attributes, rounds, people (see `Case`), and `inversion`, the attack's settings, whose
            `tv_weight` and `over` may be lists: the attacker chooses on validation people's updates under the same
            shield. With `where_present`, a case whose data is not on this machine is left out, with a note.
        methods: shields with their strengths; see `Trial`.
        victims: how many test people are attacked.
        defended: how many of these are attacked under each shield; default: all.
        tuning: how many validation people choose the weight of the total variation.
        shown: how many victims' pictures are shown.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "reconstruction"
    cases: list[dict[str, Any]]
    methods: list[dict[str, Any]] = field(default_factory=list)
    victims: int = 4
    defended: int | None = None
    tuning: int = 2
    shown: int = 4
    seed: int = 0

    def check(self) -> None:
        """Refuse cases, attacks and methods that cannot be made."""
        if not self.cases:
            raise InputError("experiment: needs cases; name some")
        if min(self.victims, self._defended) < 2 or self.tuning < 1 or self.shown < 1:
            raise InputError("experiment: victims and defended must be at least 2, tuning and shown at least 1")
        for attacked in self._cases():
            for trial in trials_on(attacked.case, self.methods):
                trial.check()

    @property
    def _defended(self) -> int:
        return self.victims if self.defended is None else min(self.defended, self.victims)

    def _cases(self) -> list[_AttackedCase]:
        return [_AttackedCase.of(values, f"experiment: cases[{index}]") for index, values in enumerate(self.cases)]

    def locate_data(self) -> None:
        """Find all data, or download it."""
        for attacked in self._cases():
            if not attacked.absent:
                attacked.case.locate()

    def parts(self) -> list[Part]:
        """Return a part for each case, round, method and strength."""
        return [
            part
            for case in self._cases()
            if not case.absent
            for number in case.case.rounds
            for _, part in self._parts(case, number)
        ]

    def _parts(self, attacked: _AttackedCase, number: int) -> list[tuple[tuple[str, float | None], Part]]:
        """Return what is attacked in a round of a case: the method's name and strength, and the part."""
        trials = trials_on(attacked.case, self.methods)
        tried: list[tuple[Trial | None, float | None]] = [(None, None)]
        tried += [(trial, strength) for trial in trials for strength in trial.strengths]
        return [
            (
                ("no shield" if trial is None else trial.name, strength),
                self._part(attacked, trials, number, trial, strength),
            )
            for trial, strength in tried
        ]

    def _part(
        self, attacked: _AttackedCase, trials: Sequence[Trial], number: int, trial: Trial | None, strength: float | None
    ) -> Part:
        case, victims = attacked.case, self.victims if trial is None else self._defended
        settings = {
            "case": attacked.given,
            "round": number,
            "method": None if trial is None else trial.identity,
            "strength": strength,
            "people": [victims, self.tuning, self.shown],
            "seed": self.seed,
        }
        # Nobody reads attributes here: features are computed only if a zoo needs them.
        features = {str(each.zoo.get("features", "max")) for each in trials if each.zoo is not None}
        reads = [(how, "stru-nn") for how in sorted(features)]
        key = laboratory_key(case, self.seed, case.attributes, static=reads, length=case.length)
        name = "no shield" if trial is None else f"{trial.name} {at(strength)}".strip()
        return Part(
            settings,
            "fedveil_papers.recup.reconstruction:attack",
            f"{case.name}, round {number}: {name}",
            payload={
                "laboratory": key,
                "case": attacked.given,
                "trial": None if trial is None else trial.given,
                "strength": strength,
                "round": number,
                "people": {"victims": victims, "tuning": self.tuning, "shown": self.shown},
            },
            shares=key,
        )

    def gather(self, measured: Measured, paper: PaperFigures) -> ReconstructionResults:
        """Return a panel per case and round."""
        panels = []
        for attacked in self._cases():
            case = attacked.case
            for number in [] if attacked.absent else case.rounds:
                rows = [
                    Attacked(name, strength, Inverted.of(measured[part]), _printed(paper, case.name, number, name))
                    for (name, strength), part in self._parts(attacked, number)
                ]
                panels.append(Panel(case.name, case.target, number, rows))
        absent = [attacked.case.name for attacked in self._cases() if attacked.absent]
        return ReconstructionResults(panels, absent, paper)

    def rows(self, results: ReconstructionResults) -> list[Row]:
        """Return a row for each case, round, method and strength, and one for what is guessed without an update."""
        rows = []
        for panel in results.panels:
            first = panel.attacked[0].inverted
            rows.append(self._row(panel, GUESS, None, first.guess, {"victims": first.victims}))
            for attacked in panel.attacked:
                inverted = attacked.inverted
                names = ("victims", "silent", "labels_right", "relative_l2", "cosine", "tv_weight", "over")
                more = {name: getattr(inverted, name) for name in names}
                row = self._row(panel, attacked.method, attacked.strength, inverted.quality, more, attacked.paper)
                rows.append(row)
        return rows

    def _row(
        self,
        panel: Panel,
        method: str,
        strength: float | None,
        quality: Quality,
        more: Mapping[str, Any],
        paper: Mapping[str, Any] | None = None,
    ) -> Row:
        return Row(
            method=method,
            strength=strength,
            task=panel.task,
            attacker="gradient inversion" if method != GUESS else "none",
            seeds=[self.seed],
            leakage={"mse": quality.mse, "psnr": quality.psnr, "ssim": quality.ssim},
            paper={"paper": {"mse": paper["mse"]}} if paper and paper.get("mse") is not None else {},
            more={"case": panel.case, "round": panel.round, "recognisable": quality.recognisable, **more},
        )

    def tables(self, results: ReconstructionResults) -> list[Table]:
        """Lay out one table per case and round, and one with the paper's ratios of errors beside ours."""
        from rich.table import Table

        tables = [_figures_table(panel, self._defended) for panel in results.panels]
        ratios = _ratios(results)
        if ratios:
            table = Table("case", "round", "MSE of", "paper", "ours", title="RecUP-FL's MSE over a baseline's")
            for line in ratios:
                table.add_row(*line)
            tables.append(table)
        return tables

    def notes(self, results: ReconstructionResults) -> list[str]:
        """Say what the figures are based on."""
        return [
            *LEAD,
            "RecUP-FL as printed publishes the attribute that it hides to an attacker who has seen defended updates.",
            f"Pictures: {PAGE} in the folder of results.",
            *(f"{name}: not measured, its data is not here (fedveil data list)." for name in results.absent),
        ]

    def draw(self, results: ReconstructionResults, canvas: Any) -> None:
        """Draw the grid of each case and round: a row per victim, columns for the original and each defence."""
        grids = [panel.grid() for panel in results.panels]
        width = max(1 + len(grid.columns) for grid in grids)
        heights = [len(grid.originals) for grid in grids]
        canvas.set_size_inches(1.15 * width, 0.6 + sum(1.75 * height + 0.5 for height in heights))
        figures = canvas.subfigures(len(grids), 1, height_ratios=heights, squeeze=False)
        for grid, (figure,) in zip(grids, figures, strict=True):
            figure.suptitle(grid.title, fontsize=10)
            _draw_grid(grid, figure.subplots(len(grid.originals), width, squeeze=False))

    def pages(self, results: ReconstructionResults) -> dict[str, str]:
        """Return the page of pictures."""
        grids = [panel.grid() for panel in results.panels]
        return {PAGE: picture_grid.page("Pictures reconstructed from updates", LEAD, grids)}

    def shows(self, results: ReconstructionResults) -> dict[str, Any]:
        """Return all figures and pictures, by case and round."""
        panels = [
            {
                "case": panel.case,
                "round": panel.round,
                "rows": [
                    {
                        "method": attacked.method,
                        "strength": attacked.strength,
                        **attacked.inverted.as_dict(),
                        "paper": dict(attacked.paper),
                    }
                    for attacked in panel.attacked
                ],
            }
            for panel in results.panels
        ]
        paper = [dict(entry) for entry in results.paper]
        return {"kind": self.kind, "panels": panels, "paper": paper, "absent": results.absent, "page": PAGE}


LEAD = [
    "There is one attacker (Geiping et al. 2020), which knows the weights and recovers labels from the update; of "
    "several weights of the total variation it uses the one that is best on validation people's updates under the same "
    "shield. A high error shows that this attacker failed, not that the picture is safe.",
    "The mean training picture is a guess that needs no update. If a defence's MSE lies above it, this attacker would "
    "do better not to look at the update: such figures say how odd its pictures are, not how private.",
    "RecUP-FL's figures are at equal learning loss. Here each victim's change has the same L2 norm relative to its "
    "update, and the strength is searched for each victim; if a shield cannot reach the norm, its strongest setting is "
    "used.",
]
"""What figures and pictures are based on."""


@dataclass(frozen=True)
class _AttackedCase:
    """A case, and the attacks to choose from on validation people; `absent`: its data is not on this machine."""

    case: Case
    inversions: list[Inversion]
    given: dict[str, Any]
    absent: bool

    @classmethod
    def of(cls, values: Mapping[str, Any], where: str = "experiment: case") -> _AttackedCase:
        settings = dict(values.get("inversion") or {})
        choices = {}
        for name, default in (("over", "all"), ("tv_weight", 1e-4)):
            choice = settings.pop(name, default)
            choices[name] = choice if isinstance(choice, list) else [choice]
            if not choices[name]:
                raise InputError(f"{where}.inversion.{name}: name at least one")
        inversions = [
            parts.make(Inversion, {**settings, "over": over, "tv_weight": weight}, f"{where}.inversion")
            for over, weight in product(*choices.values())
        ]
        case = Case.of(
            {key: value for key, value in values.items() if key not in ("inversion", "where_present")}, where
        )
        absent = bool(values.get("where_present")) and find(find_source(case.source)) is None
        return cls(case, inversions, dict(values), absent)


def attack(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Invert the updates of a round's victims under one shield: the task of a part."""
    lab = laboratory(payload["laboratory"], report)
    trial = None if payload["trial"] is None else Trial.of(payload["trial"])
    shielding = None
    if trial is not None:
        zoos = {} if trial.zoo is None else kept_zoos(lab, trial.zoo)
        span = trial.span if trial.norms else None
        shielding = Shielding(lambda value: trial.make(value, zoos), payload["strength"], span)
    inverted = invert_people(
        lab,
        shielding,
        payload["round"],
        _AttackedCase.of(payload["case"]).inversions,
        **payload["people"],
        progress=lambda share: report.progress(share, "inverting"),
    )
    method = "no shield" if trial is None else trial.name
    return {"method": method, "strength": payload["strength"], **inverted.as_dict()}


def _printed(paper: PaperFigures, case: str, number: int, method: str) -> dict[str, Any]:
    """Return what the paper prints for a row; empty if it prints nothing."""
    wanted = (case, number, method)
    entries = (entry for entry in paper if (entry.get("case"), entry.get("round"), entry.get("method")) == wanted)
    return dict(next(entries, {}))


def _figures_table(panel: Panel, defended: int) -> Table:
    """Lay out one row per method and strength, and what is guessed without an update."""
    from rich.table import Table

    first = panel.attacked[0].inverted
    table = Table(title=f"{panel.case}, round {panel.round}")
    table.add_column("method")
    for heading in ("strength", "relative L2", "MSE (0–255)", "paper", "PSNR dB", "SSIM"):
        table.add_column(heading, justify="right")
    table.add_column(f"≥ {RECOGNISABLE:g} dB", justify="right")
    table.add_column("labels", justify="right")
    recognisable = f"{first.guess.recognisable}/{first.victims}"
    table.add_row(GUESS, "", "", *_cells(first.guess, {}), recognisable, "–")
    for attacked in panel.attacked:
        inverted = attacked.inverted
        victims = inverted.victims
        counts = (f"{inverted.quality.recognisable}/{victims}", f"{inverted.labels_right}/{victims}")
        cells = _cells(inverted.quality, attacked.paper)
        table.add_row(attacked.method, at(attacked.strength), f"{inverted.relative_l2:.3f}", *cells, *counts)
        if inverted is first and defended < victims:
            table.add_row(f"no shield, the first {defended}", *_cells_of_first(inverted.each, defended))
    table.caption = "Means over victims with 95% bootstrap intervals; labels: how many were recovered correctly."
    return table


def _cells(quality: Quality, paper: Mapping[str, Any]) -> list[str]:
    printed = "" if paper.get("mse") is None else f"{paper['mse']:.0f}"
    return [quality.mse.shown(0), printed, quality.psnr.shown(1), quality.ssim.shown(2)]


def _cells_of_first(each: Mapping[str, list[float]], count: int) -> list[str]:
    """Return the cells, without a shield, of only those victims who are also attacked under shields."""
    first = {name: values[:count] for name, values in each.items()}
    mse, psnr, ssim = (sum(first[name]) / count for name in ("mse", "psnr", "ssim"))
    good = sum(value >= RECOGNISABLE for value in first["psnr"])
    return ["", "0.000", f"{mse:.0f}", "", f"{psnr:.1f}", f"{ssim:.2f}", f"{good}/{count}", ""]


def _ratios(results: ReconstructionResults) -> list[list[str]]:
    """Return the paper's ratios of MSEs beside ours, at the last strength of each method."""
    lines = []
    for entry in results.paper:
        if "ratio" not in entry:
            continue
        ours = "not measured"
        for panel in results.panels:
            if (panel.case, panel.round) == (entry["case"], entry["round"]):
                last = {attacked.method: attacked.inverted.quality.mse.estimate for attacked in panel.attacked}
                if entry["method"] in last and entry["over"] in last:
                    ours = f"{last[entry['method']] / last[entry['over']]:.1f}"
        about = f"{entry['method']} over {entry['over']}"
        lines.append([entry["case"], str(entry["round"]), about, f"{entry['ratio']:g}", ours])
    return lines


def _draw_grid(grid: Grid, axes: Any) -> None:
    for axis in axes.flat:
        axis.set_axis_off()
    for row, original in enumerate(grid.originals):
        axes[row][0].imshow(picture_grid.from_png(original))
        for axis, column in zip(axes[row][1:], grid.columns, strict=False):
            picture = column.pictures[row]
            if picture is not None:
                axis.imshow(picture_grid.from_png(picture.png))
                lines = "\n".join(picture.lines)
                axis.text(0.5, -0.03, lines, fontsize=6, ha="center", va="top", transform=axis.transAxes)
    for axis, name in zip(axes[0], ["original", *(column.title for column in grid.columns)], strict=False):
        axis.text(0.5, 1.05, name.replace(" ", "\n", 1), fontsize=7, ha="center", transform=axis.transAxes)
