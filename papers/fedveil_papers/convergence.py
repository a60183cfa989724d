"""How training goes while clients hide different attributes (RecUP-FL §6.5): participation and robust aggregators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.config import parts
from fedveil.core.errors import InputError
from fedveil_papers.experiment import Experiment, Kept, Say
from fedveil_papers.shown import PaperFigures
from fedveil_papers.update_parts import Case, Trial, kept_zoos, trials_on

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.core.policy import Policy
    from fedveil.federation.aggregation import Aggregator
    from fedveil_papers.exposure import Laboratory


@dataclass(frozen=True)
class Convergence(Experiment):
    """Runs of one task in which each client hides one of several attributes, by turns.

    Attributes:
        case: data set, attributes, people; `rounds` are where the zoo learns, `length` how long each run is.
        methods: shields, each at its strengths.
        participation: shares of clients that take part in a round.
        aggregations: what the server does, by name; those behind the first are tried at the last participation.
        every: how often the test people's loss is measured, in rounds.
        seed: all randomness derives from it.
    """

    kind: ClassVar[str] = "convergence"
    case: dict[str, Any]
    methods: list[dict[str, Any]]
    participation: list[float] = field(default_factory=lambda: [0.2, 0.4, 0.6, 0.8, 1.0])
    aggregations: list[str] = field(default_factory=lambda: ["mean"])
    every: int = 5
    seed: int = 0

    def check(self) -> None:
        """Refuse what cannot be run."""
        case = Case.of(self.case, "experiment: case")
        for trial in trials_on(case, self.methods):
            trial.check(case)
        for share in self.participation:
            if not 0 < share <= 1:
                raise InputError(f"experiment: participation must lie in (0, 1], got {share}")
        for name in self.aggregations:
            self._aggregation(name)

    @staticmethod
    def _aggregation(name: str) -> Aggregator:
        from fedveil.config.study import PartSettings

        made: Aggregator = parts.choose(parts.aggregators(), PartSettings(kind=name), "experiment: aggregations")
        return made

    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Play every run that is not in the folder yet."""
        case = Case.of(self.case, "experiment: case")
        lab = cache(partial(self._laboratory, case, say))  # made when the first part is missing
        settings = [(share, self.aggregations[0]) for share in self.participation]
        settings += [(self.participation[-1], name) for name in self.aggregations[1:]]
        methods: list[tuple[Trial | None, float | None]] = [(None, None)]
        methods += [(trial, strength) for trial in trials_on(case, self.methods) for strength in trial.strengths]
        runs = []
        for share, aggregation in settings:
            for method, strength in methods:
                about = {
                    "method": "no shield" if method is None else method.name,
                    "strength": strength,
                    "participation": share,
                    "aggregation": aggregation,
                }
                key = {**about, "case": self.case, "told": None if method is None else method.itself}
                key |= {"every": self.every, "seed": self.seed}
                say(f"{about['method']}: {share:g} of the clients, {aggregation}")
                figures = kept.part(key, partial(self._play, lab, method, strength, share, aggregation))
                runs.append({**about, **figures})
        return {"kind": self.kind, "runs": runs, "paper": [dict(one) for one in paper]}

    def _laboratory(self, case: Case, say: Say) -> Laboratory:
        from fedveil_papers.exposure import Laboratory

        reads = [("max", "stru-nn")]  # what a zoo learns from; nobody attacks here
        return Laboratory(
            case.task(self.seed), case.rounds, case.attributes, reads, (), length=max(case.rounds), progress=say
        )

    def _play(
        self,
        ready: Callable[[], Laboratory],
        method: Trial | None,
        strength: float | None,
        share: float,
        aggregation: str,
    ) -> dict[str, Any]:
        from fedveil.data import Split
        from fedveil.shields.shield import Identity
        from fedveil_papers.exposure.sending import Sender
        from fedveil_papers.exposure.training import train

        lab = ready()
        length = Case.of(self.case, "experiment: case").length or max(lab.rounds)
        zoos = {} if method is None or method.zoo is None else kept_zoos(lab, method.zoo)
        shield = Identity() if method is None else method.make(strength, zoos)
        sender = Sender(lab.task, shield, self._policies(lab))
        run = train(
            sender,
            length,
            keep=range(1, length + 1, self.every),
            aggregation=self._aggregation(aggregation),
            fraction=share,
        )
        clients = len(lab.task.people(Split.TRAIN))
        told = run.tally.as_dict()
        return {
            "losses": {str(number): loss for number, loss in sorted(run.losses.items())},
            "reduction": run.reduction,
            "clients": clients,
            "silent": run.silent,
            "relative_l2": told["relative_l2"],
        }

    @staticmethod
    def _policies(lab: Laboratory) -> Any:
        """Let clients hide the attributes by turns, each one of them wholly."""
        from fedveil.core.policy import Policy
        from fedveil.data import Split

        names = list(lab.attributes)
        own: dict[int, Policy] = {
            int(rows[0]): Policy(hide={names[place % len(names)]: 1.0}, shield="recup")
            for place, rows in enumerate(lab.task.people(Split.TRAIN))
        }
        return own.__getitem__

    def tables(self, found: dict[str, Any]) -> list[Table]:
        """One row per run."""
        from rich.table import Table

        table = Table(title=f"Training of {found['runs'][0]['clients']} clients who hide different attributes")
        for heading in (
            "method",
            "strength",
            "participation",
            "server",
            "first loss",
            "last loss",
            "kept",
            "relative L2",
        ):
            table.add_column(heading, justify="left" if heading in ("method", "server") else "right")
        for run in found["runs"]:
            losses = list(run["losses"].values())
            table.add_row(
                run["method"],
                "" if run["strength"] is None else f"{run['strength']:g}",
                f"{run['participation']:g}",
                run["aggregation"],
                f"{losses[0]:.4f}",
                f"{losses[-1]:.4f}",
                f"{_kept(run, found['runs']):.3f}",
                f"{run['relative_l2']:.3f}",
            )
        table.caption = (
            "Test people's loss. Kept: of the fall in the run without a shield, same server and participation."
        )
        return [table]

    def notes(self, found: dict[str, Any]) -> list[str]:
        """Say what the figures rest on."""
        lines = ["This shows learning alone; what attackers read is measured by recup/single-attribute and others."]
        return lines + [str(one["note"]) for one in found["paper"] if "note" in one]

    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """Draw the loss over rounds, a panel per participation and server."""
        keys = list(dict.fromkeys((run["participation"], run["aggregation"]) for run in found["runs"]))
        canvas.set_size_inches(3.4 * len(keys), 3.2)
        axes = canvas.subplots(1, len(keys), squeeze=False, sharey=True)[0]
        for axis, (share, aggregation) in zip(axes, keys, strict=True):
            for run in found["runs"]:
                if (run["participation"], run["aggregation"]) == (share, aggregation):
                    rounds = [int(number) for number in run["losses"]]
                    name = run["method"] if run["strength"] is None else f"{run['method']} {run['strength']:g}"
                    axis.plot(rounds, list(run["losses"].values()), label=name, linewidth=1)
            axis.set_title(f"{share:g} of the clients, {aggregation}")
            axis.set_xlabel("round")
        axes[0].set_ylabel("test loss")
        axes[0].legend(frameon=False)


def _kept(run: Mapping[str, Any], runs: list[dict[str, Any]]) -> float:
    """Return the share of the unshielded run's fall of the loss."""
    same = ("participation", "aggregation")
    bare = next(one for one in runs if one["method"] == "no shield" and all(one[key] == run[key] for key in same))
    return float(run["reduction"] / bare["reduction"]) if bare["reduction"] else float("nan")
