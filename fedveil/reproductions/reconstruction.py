"""Pictures from updates: each shield against gradient inversion (RecUP-FL §6.3, Figures 6 and 13)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.data.catalogue import find_source
from fedveil.data.locate import find
from fedveil.errors import InputError
from fedveil.files import write_atomically
from fedveil.reproductions import picture_grid
from fedveil.reproductions.experiment import Experiment, Kept, Say
from fedveil.reproductions.inverting import RECOGNISABLE, Shielding, invert_people
from fedveil.reproductions.shown import PaperFigures, at, with_interval
from fedveil.reproductions.update_parts import Case, Trial, kept_zoos
from fedveil.studies import parts

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.attacks.reconstruction import Inversion
    from fedveil.exposure import Laboratory
    from fedveil.shields.shield import Shield

PAGE = "reconstruction.html"


@dataclass(frozen=True)
class Reconstructions(Experiment):
    """Invert the updates of test people under each shield, and set pictures and figures beside each other.

    Attributes:
        cases: data set, attributes, rounds, people (see `Case`), and `inversion`, the attack's settings, whose
            `tv_weight` and `over` may be lists: the attacker chooses on validation people's updates under the same
            shield. With `where_present`, a case whose data is not here is left out and said so.
        methods: shields with their strengths; see `Trial`.
        victims: how many test people are attacked.
        defended: how many of these are attacked under each shield; all if unsaid.
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
        for told in self._attacked():
            for method in self._trials(told.case):
                method.check(told.case)

    @property
    def _defended(self) -> int:
        return self.victims if self.defended is None else min(self.defended, self.victims)

    def _attacked(self) -> list[_Attacked]:
        return [_Attacked.of(told, f"experiment: cases[{place}]") for place, told in enumerate(self.cases)]

    def _trials(self, case: Case) -> list[Trial]:
        made = [Trial.of(told, f"experiment: methods[{place}]") for place, told in enumerate(self.methods)]
        return [one for one in made if not one.only or case.name in one.only]

    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Attack every case, round, method and strength; what was measured before is read. Writes the page as well."""
        panels, absent = [], []
        for attacked in self._attacked():
            if attacked.absent:
                absent.append(attacked.case.name)
                continue
            case, trials = attacked.case, self._trials(attacked.case)
            bench = _Bench(case, trials, self.seed, say)
            for number in case.rounds:
                rows = [self._part(kept, attacked, bench, number, None, None, say)]
                for method in trials:
                    for strength in method.strengths:
                        rows.append(self._part(kept, attacked, bench, number, method, strength, say))
                rows = [{**row, "paper": _printed(paper, case.name, number, row["method"])} for row in rows]
                panels.append({"case": case.name, "round": number, "rows": rows})
        found = {
            "kind": self.kind,
            "panels": panels,
            "paper": [dict(one) for one in paper],
            "absent": absent,
            "page": PAGE,
        }
        kept.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(kept.folder / PAGE, self._page(found))
        return found

    def _part(
        self,
        kept: Kept,
        attacked: _Attacked,
        bench: _Bench,
        number: int,
        method: Trial | None,
        strength: float | None,
        say: Say,
    ) -> dict[str, Any]:
        settings = {
            "case": attacked.told,
            "round": number,
            "method": None if method is None else method.told,
            "strength": strength,
            "people": [self.victims if method is None else self._defended, self.tuning, self.shown],
            "seed": self.seed,
        }
        name = "no shield" if method is None else f"{method.name} {at(strength)}".strip()

        def measure() -> dict[str, Any]:
            found = invert_people(
                bench.laboratory,
                None if method is None else bench.shielding(method, strength),
                number,
                attacked.inversions,
                victims=self.victims if method is None else self._defended,
                tuning=self.tuning,
                shown=self.shown,
                progress=lambda share: say(f"{attacked.case.name}, round {number}: {name}: {share:.0%}"),
            )
            return {"method": "no shield" if method is None else method.name, "strength": strength, **found}

        return kept.part(settings, measure)

    def tables(self, found: dict[str, Any]) -> list[Table]:
        """One table per case and round; a row per method and strength, and what is guessed without an update."""
        from rich.table import Table

        made = []
        for panel in found["panels"]:
            first = panel["rows"][0]
            table = Table(title=f"{panel['case']}, round {panel['round']}")
            table.add_column("method")
            for heading in ("strength", "relative L2", "MSE (0–255)", "paper", "PSNR dB", "SSIM"):
                table.add_column(heading, justify="right")
            table.add_column(f"≥ {RECOGNISABLE:g} dB", justify="right")
            table.add_column("labels", justify="right")
            guess = first["guess"]
            table.add_row(
                "mean training picture",
                "",
                "",
                *_figures(guess, {}),
                f"{guess['recognisable']}/{first['victims']}",
                "–",
            )
            for row in panel["rows"]:
                counts = (f"{row['recognisable']}/{row['victims']}", f"{row['labels_right']}/{row['victims']}")
                norm = f"{row['relative_l2']:.3f}"
                table.add_row(row["method"], at(row["strength"]), norm, *_figures(row, row["paper"]), *counts)
                if row is first and self._defended < first["victims"]:
                    table.add_row(f"no shield, the first {self._defended}", *_of_first(row["each"], self._defended))
            table.caption = "Means over victims with 95% bootstrap intervals; labels: how many were recovered rightly."
            made.append(table)
        ratios = _ratios(found)
        if ratios:
            table = Table("case", "round", "MSE of", "paper", "ours", title="RecUP-FL's MSE over a baseline's")
            for line in ratios:
                table.add_row(*line)
            made.append(table)
        return made

    def notes(self, found: dict[str, Any]) -> list[str]:
        """Say what the figures rest on."""
        return [
            "One attacker (Geiping et al. 2020), which knows the weights and recovers labels from the update; of "
            "several weights of the total variation it takes the best on validation people's updates under the same "
            "shield. A high error shows that this attacker failed, not that the picture is safe.",
            "The mean training picture is a guess that needs no update. Where a defence's MSE lies above it, this "
            "attacker would do better not to look: such figures say how odd its pictures are, not how private.",
            "RecUP-FL's figures are at equal learning loss. Here each victim's change has the same L2 norm relative to "
            "its own update, the strength being found for each; where a shield cannot reach it, its strongest is used.",
            "RecUP-FL as printed publishes the attribute that it hides to an attacker who has seen defended updates.",
            f"Pictures: {found['page']} in the folder of results.",
            *(f"{name}: not measured, its data is not here (fedveil data list)." for name in found["absent"]),
        ]

    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """Draw the grid of each case and round: rows victims, columns the original and each defence."""
        panels = [_shown(panel) for panel in found["panels"]]
        width = max(1 + len(panel["columns"]) for panel in panels)
        heights = [len(panel["originals"]) for panel in panels]
        canvas.set_size_inches(1.15 * width, 0.6 + sum(1.75 * height + 0.5 for height in heights))
        for panel, part in zip(
            panels, canvas.subfigures(len(panels), 1, height_ratios=heights, squeeze=False), strict=True
        ):
            part[0].suptitle(panel["title"], fontsize=10)
            axes = part[0].subplots(len(panel["originals"]), width, squeeze=False)
            for axis in axes.flat:
                axis.set_axis_off()
            for place, original in enumerate(panel["originals"]):
                axes[place][0].imshow(picture_grid.from_png(original))
                for column, one in enumerate(panel["columns"], start=1):
                    picture = one["pictures"][place]
                    if picture is not None:
                        axes[place][column].imshow(picture_grid.from_png(picture["png"]))
                        _under(axes[place][column], picture["told"])
            for column, name in enumerate(["original", *(one["title"] for one in panel["columns"])]):
                axes[0][column].text(
                    0.5, 1.05, name.replace(" ", "\n", 1), fontsize=7, ha="center", transform=axes[0][column].transAxes
                )

    def _page(self, found: dict[str, Any]) -> str:
        panels = [_shown(panel) for panel in found["panels"]]
        return picture_grid.page("Pictures reconstructed from updates", self.notes(found)[:3], panels)


def _under(axis: Any, told: Sequence[str]) -> None:
    axis.text(0.5, -0.03, "\n".join(told), fontsize=6, ha="center", va="top", transform=axis.transAxes)


@dataclass(frozen=True)
class _Attacked:
    """A case, and the attacks among which validation people choose."""

    case: Case
    inversions: list[Inversion]
    told: dict[str, Any]
    absent: bool

    @classmethod
    def of(cls, told: Mapping[str, Any], where: str) -> _Attacked:
        from fedveil.attacks.reconstruction import Inversion

        settings = dict(told.get("inversion") or {})
        lists = {}
        for name, usual in (("over", "all"), ("tv_weight", 1e-4)):
            told_so = settings.pop(name, usual)
            lists[name] = told_so if isinstance(told_so, list) else [told_so]
            if not lists[name]:
                raise InputError(f"{where}.inversion.{name}: name at least one")
        attacks = [
            parts.make(Inversion, {**settings, "over": over, "tv_weight": weight}, f"{where}.inversion")
            for over, weight in product(*lists.values())
        ]
        case = Case.of({key: value for key, value in told.items() if key not in ("inversion", "where_present")}, where)
        absent = bool(told.get("where_present")) and find(find_source(case.source)) is None
        return cls(case, attacks, dict(told), absent)


class _Bench:
    """A case's laboratory and shields, made when first asked for: what is read from the folder needs neither."""

    def __init__(self, case: Case, trials: Sequence[Trial], seed: int, say: Say) -> None:
        self.case, self.trials, self.seed, self.say = case, trials, seed, say

    @cached_property
    def laboratory(self) -> Laboratory:
        """Nothing is read in it, and features are made only where a zoo needs them."""
        from fedveil.exposure import Laboratory

        hows = {str(trial.zoo.get("features", "max")) for trial in self.trials if trial.zoo is not None}
        return Laboratory(
            self.case.task(self.seed),
            self.case.rounds,
            self.case.attributes,
            static=[(how, "stru-nn") for how in sorted(hows)],
            adaptive=(),
            length=self.case.length,
            progress=lambda what: self.say(f"{self.case.name}: {what}"),
        )

    def shielding(self, method: Trial, strength: float | None) -> Shielding:
        """Return how people are shielded: a strength for all, or each at the strength that has this relative norm."""
        zoos = {} if method.zoo is None else kept_zoos(self.laboratory, method.zoo)

        def make(value: float | None) -> Shield:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # RecUP warns that it publishes what it hides; the notes say so once
                return method.make(value, zoos)

        return Shielding(make, strength, method.span if method.norms else None)


def _printed(paper: PaperFigures, case: str, number: int, method: str) -> dict[str, Any]:
    """Return what the paper prints for a row; empty where it prints nothing."""
    own = [one for one in paper if (one.get("case"), one.get("round"), one.get("method")) == (case, number, method)]
    return dict(own[0]) if own else {}


def _figures(row: Mapping[str, Any], paper: Mapping[str, Any]) -> list[str]:
    printed = "" if paper.get("mse") is None else f"{paper['mse']:.0f}"
    return [with_interval(row["mse"], 0), printed, with_interval(row["psnr"], 1), with_interval(row["ssim"], 2)]


def _of_first(each: Mapping[str, list[float]], count: int) -> list[str]:
    """Return the cells of those victims without a shield who are attacked under shields, too: like with like."""
    own = {name: values[:count] for name, values in each.items()}
    mse, psnr, ssim = (sum(own[name]) / count for name in ("mse", "psnr", "ssim"))
    good = sum(value >= RECOGNISABLE for value in own["psnr"])
    return ["", "0.000", f"{mse:.0f}", "", f"{psnr:.1f}", f"{ssim:.2f}", f"{good}/{count}", ""]


def _ratios(found: Mapping[str, Any]) -> list[list[str]]:
    """Return the paper's ratios of MSEs beside ours, strongest setting of each."""
    lines = []
    for one in found["paper"]:
        if "ratio" not in one:
            continue
        ours = "not measured"
        for panel in found["panels"]:
            if (panel["case"], panel["round"]) == (one["case"], one["round"]):
                last = {row["method"]: row for row in panel["rows"]}
                if one["method"] in last and one["over"] in last:
                    above, below = (last[name]["mse"]["estimate"] for name in (one["method"], one["over"]))
                    ours = f"{above / below:.1f}"
        about = f"{one['method']} over {one['over']}"
        lines.append([one["case"], str(one["round"]), about, f"{one['ratio']:g}", ours])
    return lines


def _shown(panel: Mapping[str, Any]) -> dict[str, Any]:
    """Return a panel as the grid shows it."""
    columns = []
    for row in panel["rows"]:
        pictures = [
            None if one is None else {"png": one["png"], "told": [f"MSE {one['mse']:.0f}", f"{one['psnr']:.1f} dB"]}
            for one in row["pictures"]
        ]
        columns.append({"title": f"{row['method']} {at(row['strength'])}".strip(), "pictures": pictures})
    first = panel["rows"][0]
    caption = (
        "Left: the victims' pictures. Beside them: what the server reconstructs from one update of round "
        f"{panel['round']}, without a shield and under each (strengths are relative L2 norms of the change, or the "
        "shield's own setting). Below each: mean squared error on the scale 0–255, and peak signal-to-noise ratio."
    )
    return {
        "title": f"{panel['case']}, round {panel['round']}",
        "columns": columns,
        "originals": first["originals"][: min(len(one["pictures"]) for one in columns)],
        "caption": caption,
    }
