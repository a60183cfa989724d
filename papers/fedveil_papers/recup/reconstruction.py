"""Pictures from updates: each shield against gradient inversion (RecUP-FL §6.3, Figures 6 and 13)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.config import parts
from fedveil.core.errors import InputError
from fedveil.core.files import write_atomically
from fedveil.data.catalogue import find_source
from fedveil.data.locate import find
from fedveil_papers.experiment import Experiment, Kept, Say
from fedveil_papers.recup import picture_grid
from fedveil_papers.recup.cases import Case, Trial, kept_zoos, trials_on
from fedveil_papers.recup.inverting import Shielding, invert_people
from fedveil_papers.recup.reconstruction_layout import draw_grids, shown_panel, tables_of
from fedveil_papers.shown import PaperFigures, at

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.attacks.reconstruction import Inversion
    from fedveil_papers.recup.laboratory import Laboratory

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
            for method in trials_on(told.case, self.methods):
                method.check(told.case)

    @property
    def _defended(self) -> int:
        return self.victims if self.defended is None else min(self.defended, self.victims)

    def _attacked(self) -> list[_Attacked]:
        return [_Attacked.of(told, f"experiment: cases[{place}]") for place, told in enumerate(self.cases)]

    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Attack every case, round, method and strength; what was measured before is read. Writes the page as well."""
        panels, absent = [], []
        for attacked in self._attacked():
            if attacked.absent:
                absent.append(attacked.case.name)
                continue
            case, trials = attacked.case, trials_on(attacked.case, self.methods)
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
            "method": None if method is None else method.itself,
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
        return tables_of(found, self._defended)

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
        draw_grids(found, canvas)

    def _page(self, found: dict[str, Any]) -> str:
        panels = [shown_panel(panel) for panel in found["panels"]]
        return picture_grid.page("Pictures reconstructed from updates", self.notes(found)[:3], panels)


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
        from fedveil_papers.recup.laboratory import Laboratory

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
        return Shielding(lambda value: method.make(value, zoos), strength, method.span if method.norms else None)


def _printed(paper: PaperFigures, case: str, number: int, method: str) -> dict[str, Any]:
    """Return what the paper prints for a row; empty where it prints nothing."""
    own = [one for one in paper if (one.get("case"), one.get("round"), one.get("method")) == (case, number, method)]
    return dict(own[0]) if own else {}
