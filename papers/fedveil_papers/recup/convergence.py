"""How training goes while clients hide different attributes (RecUP-FL §6.5): participation and robust aggregators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from fedveil.config import parts
from fedveil.config.study import PartSettings
from fedveil.core.errors import InputError
from fedveil.core.policy import Policy
from fedveil.data import Split
from fedveil.studies.units import Report
from fedveil_papers.experiment import Experiment, Measured, Part
from fedveil_papers.recup.cases import Case, Trial, kept_zoos, laboratory, laboratory_key, trials_on
from fedveil_papers.recup.laboratory.kept import share_kept
from fedveil_papers.rows import Figure, PaperFigures, Row, notes_of
from fedveil_papers.shown import at

if TYPE_CHECKING:
    from rich.table import Table

    from fedveil.federation.aggregation import Aggregator
    from fedveil_papers.recup.laboratory import Laboratory


@dataclass(frozen=True)
class TrainingRun:
    """One run.

    Attributes:
        method, strength: the clients' shield.
        participation: the share of clients that take part in a round.
        aggregation: how the server aggregates updates.
        losses: the test people's loss, by round.
        reduction: how much the loss fell, from the start to the end.
        kept: the reduction relative to the run without a shield, with the same server and participation; None if the
            loss of that run did not fall.
        clients: the number of clients.
        silent: how often a client could not send anything.
        relative_l2: the mean norm of the shield's change over the mean norm of the update.
    """

    method: str
    strength: float | None
    participation: float
    aggregation: str
    losses: dict[int, float]
    reduction: float
    kept: float | None
    clients: int
    silent: int
    relative_l2: float


@dataclass(frozen=True)
class TrainingRuns:
    """The results."""

    runs: list[TrainingRun]
    paper: PaperFigures


@dataclass(frozen=True)
class Convergence(Experiment[TrainingRuns]):
    """Runs of one task in which each client hides one of several attributes, assigned in turn.

    Attributes:
        case: data set, attributes, people; `rounds` are those that the zoo learns from, `length` is that of each run.
        methods: shields, each at its strengths.
        participation: shares of clients that take part in a round.
        aggregations: how the server aggregates, by name; all but the first are tried only at the last participation.
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
        for trial in trials_on(Case.of(self.case), self.methods):
            trial.check()
        for share in self.participation:
            if not 0 < share <= 1:
                raise InputError(f"experiment: participation must lie in (0, 1], got {share}")
        for name in self.aggregations:
            aggregator(name)

    def locate_data(self) -> None:
        """Find all data, or download it."""
        Case.of(self.case).locate()

    def parts(self) -> list[Part]:
        """Return a part for each run."""
        return [part for _, part in self._runs()]

    def _runs(self) -> list[tuple[dict[str, Any], Part]]:
        """Return a description of each run, and the part that measures it."""
        case = Case.of(self.case)
        servers = [(share, self.aggregations[0]) for share in self.participation]
        servers += [(self.participation[-1], name) for name in self.aggregations[1:]]
        tried: list[tuple[Trial | None, float | None]] = [(None, None)]
        tried += [(trial, strength) for trial in trials_on(case, self.methods) for strength in trial.strengths]
        reads = [("max", "stru-nn")]  # what a zoo learns from; nobody attacks here
        key = laboratory_key(case, self.seed, case.attributes, static=reads, length=max(case.rounds))
        runs = []
        for share, aggregation in servers:
            for trial, strength in tried:
                about = {
                    "method": "no shield" if trial is None else trial.name,
                    "strength": strength,
                    "participation": share,
                    "aggregation": aggregation,
                }
                settings = {**about, "case": self.case, "told": None if trial is None else trial.identity}
                part = Part(
                    {**settings, "every": self.every, "seed": self.seed},
                    "fedveil_papers.recup.convergence:play",
                    f"{about['method']}: {share:g} of the clients, {aggregation}",
                    payload={
                        **about,
                        "laboratory": key,
                        "trial": None if trial is None else trial.given,
                        "length": case.length or max(case.rounds),
                        "every": self.every,
                    },
                    shares=key,
                )
                runs.append((about, part))
        return runs

    def gather(self, measured: Measured, paper: PaperFigures) -> TrainingRuns:
        """Return all runs, each compared with the run without a shield."""
        runs = []
        for about, part in self._runs():
            figures = measured[part]
            if about["method"] == "no shield":
                bare = figures["reduction"]  # it comes first among the runs with the same server and participation
            runs.append(
                TrainingRun(
                    **about,
                    losses={int(number): loss for number, loss in figures["losses"].items()},
                    reduction=figures["reduction"],
                    kept=share_kept(figures["reduction"], bare),
                    clients=figures["clients"],
                    silent=figures["silent"],
                    relative_l2=figures["relative_l2"],
                )
            )
        return TrainingRuns(runs, paper)

    def rows(self, results: TrainingRuns) -> list[Row]:
        """Return a row per run."""
        return [
            Row(
                method=run.method,
                strength=run.strength,
                task=Case.of(self.case).target,
                seeds=[self.seed],
                utility={"loss": Figure(list(run.losses.values())[-1]), "loss_kept": Figure.of(run.kept)},
                more={
                    "participation": run.participation,
                    "aggregation": run.aggregation,
                    "losses": run.losses,
                    "relative_l2": run.relative_l2,
                    "clients": run.clients,
                    "silent": run.silent,
                },
            )
            for run in results.runs
        ]

    def tables(self, results: TrainingRuns) -> list[Table]:
        """Lay out one row per run."""
        from rich.table import Table

        table = Table(title=f"Training of {results.runs[0].clients} clients who hide different attributes")
        headings = ("method", "strength", "participation", "server", "first loss", "last loss", "kept", "relative L2")
        for heading in headings:
            table.add_column(heading, justify="left" if heading in ("method", "server") else "right")
        for run in results.runs:
            first, *_, last = run.losses.values()
            table.add_row(
                run.method,
                at(run.strength),
                f"{run.participation:g}",
                run.aggregation,
                f"{first:.4f}",
                f"{last:.4f}",
                "–" if run.kept is None else f"{run.kept:.3f}",
                f"{run.relative_l2:.3f}",
            )
        table.caption = (
            "Test people's loss. Kept: as a share of the fall without a shield, with the same server and participation "
            "(– if that loss did not fall)."
        )
        return [table]

    def notes(self, results: TrainingRuns) -> list[str]:
        """Say what the figures are based on."""
        return [
            "This shows only learning; what attackers read is measured by recup/single-attribute and others.",
            *notes_of(results.paper),
        ]

    def draw(self, results: TrainingRuns, canvas: Any) -> None:
        """Draw the loss over rounds, a panel per participation and server."""
        servers = list(dict.fromkeys((run.participation, run.aggregation) for run in results.runs))
        canvas.set_size_inches(3.4 * len(servers), 3.2)
        axes = canvas.subplots(1, len(servers), squeeze=False, sharey=True)[0]
        for axis, (share, aggregation) in zip(axes, servers, strict=True):
            for run in results.runs:
                if (run.participation, run.aggregation) == (share, aggregation):
                    name = f"{run.method} {at(run.strength)}".strip()
                    axis.plot(list(run.losses), list(run.losses.values()), label=name, linewidth=1)
            axis.set_title(f"{share:g} of the clients, {aggregation}")
            axis.set_xlabel("round")
        axes[0].set_ylabel("test loss")
        axes[0].legend(frameon=False)


def aggregator(name: str) -> Aggregator:
    """Return an aggregator by name."""
    chosen: Aggregator = parts.choose(parts.aggregators(), PartSettings(kind=name), "experiment: aggregations")
    return chosen


def play(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Play one run: the task of a part."""
    from fedveil.shields.shield import Identity
    from fedveil_papers.recup.laboratory.sending import Sender
    from fedveil_papers.recup.laboratory.training import train

    lab, length = laboratory(payload["laboratory"], report), payload["length"]
    trial = None if payload["trial"] is None else Trial.of(payload["trial"])
    zoos = {} if trial is None or trial.zoo is None else kept_zoos(lab, trial.zoo)
    shield = Identity() if trial is None else trial.make(payload["strength"], zoos)
    run = train(
        Sender.prepare(lab.task, shield, _policies(lab)),
        length,
        keep=range(1, length + 1, payload["every"]),
        aggregation=aggregator(payload["aggregation"]),
        fraction=payload["participation"],
        progress=lambda number: report.progress(number / length, f"round {number} of {length}"),
    )
    return {
        "losses": {str(number): loss for number, loss in sorted(run.losses.items())},
        "reduction": run.reduction,
        "clients": len(lab.task.people(Split.TRAIN)),
        "silent": run.silent,
        "relative_l2": run.tally.as_dict()["relative_l2"],
    }


def _policies(lab: Laboratory) -> Callable[[int], Policy]:
    """Assign the attributes to clients in turn; each client hides one of them completely."""
    names = list(lab.attributes)
    policies = {
        int(rows[0]): Policy(hide={names[number % len(names)]: 1.0}, shield="recup")
        for number, rows in enumerate(lab.task.people(Split.TRAIN))
    }
    return policies.__getitem__
