"""What shields on updates cost, relative to DP-Gaussian by `torch.normal`, in one run and one process (Table 1).

Times depend on what a zoo has learned only through how often the largest entry of a pool changes; so members are drawn,
not fitted, and pull in one direction, as fitted members do. For each shield `change_all` is timed, or `change` client
by client if the shield has no `change_all`. Checks of the result and the measurement of damage are the same for all;
they are left out, and timed separately.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from fedveil.core.errors import InputError
from fedveil.core.models import mlp
from fedveil.core.randomness import torch_generator
from fedveil.shields import (
    Context,
    Damage,
    DPGaussian,
    DPLaplace,
    Kind,
    Message,
    PublishesWhatItHides,
    Quantise,
    RecUP,
    Samples,
    Shield,
    Soteria,
    Sparsify,
)
from fedveil.shields.recup import Zoo
from fedveil.shields.recup.members import frozen, hidden_sizes, spread_widths
from fedveil.studies.units import Report
from fedveil.updates import Segment, features
from fedveil.updates.gradients import network_segments, per_sample_gradients
from fedveil_papers.experiment import Experiment, Measured, Part
from fedveil_papers.recup.laboratory.networks import network
from fedveil_papers.rows import PaperFigures, Row, notes_of

if TYPE_CHECKING:
    from rich.table import Table

PAPER = {"recup": 12.2, "dp-gaussian": 1.0, "dp-laplace": 31.8, "sparsify": 2.8, "soteria": 875.0}
SHAPE = (3, 62, 47)
BUDGET = 3.0
"""The total L∞ budget, in medians of the features. It gives a change of about a tenth of the update's norm, with which
a pool's largest entry changes often; smaller budgets cost a little less."""

LEFT_OUT = 0.2
"""Soteria's share of features: fewer than are live, so that their norms must be computed. With 0.8 all live features
are left out, and no norm is computed."""


@dataclass(frozen=True)
class Costs:
    """What shields cost in one run.

    Attributes:
        clients, members, threads: the numbers of clients, of members of the zoo, and of threads.
        weights, features: the numbers of weights and features of an update.
        turns: the number of turns, of which the fastest counts.
        relative_change: the median norm of RecUP's change relative to the update's.
        seconds_per_client, relative_to_dp_gaussian: times by shield.
        paper: what the preset quotes from the paper.
    """

    clients: int
    weights: int
    features: int
    members: int
    threads: int
    turns: int
    relative_change: float
    seconds_per_client: dict[str, float]
    relative_to_dp_gaussian: dict[str, float]
    paper: PaperFigures = ()


@dataclass(frozen=True)
class ShieldCost(Experiment[Costs]):
    """A round of clients with one record each, RecUP-FL's LFW network, a zoo with widths spread over 128–2048, float32.

    Attributes:
        clients: the number of clients.
        turns: the number of turns, of which the fastest counts; all shields take part in each, so that they meet the
            same disturbances.
        threads: the number of torch's threads; with one, times are steady even on a busy machine.
        few: whether to time only DP-Gaussian, RecUP and Soteria.
    """

    kind: ClassVar[str] = "shield-cost"
    clients: int = 100
    turns: int = 3
    threads: int = 1
    few: bool = False

    def check(self) -> None:
        """Refuse numbers below 1."""
        if min(self.clients, self.turns, self.threads) < 1:
            raise InputError("experiment: clients, turns and threads must be at least 1")

    def parts(self) -> list[Part]:
        """Return the one part; it is never read from a folder, since a time belongs to the run that took it."""
        settings = {"clients": self.clients, "turns": self.turns, "threads": self.threads, "few": self.few}
        return [Part(settings, "fedveil_papers.recup.shield_cost:time_shields", "timing", reused=False)]

    def gather(self, measured: Measured, paper: PaperFigures) -> Costs:
        """Return the times."""
        (part,) = self.parts()
        return Costs(**measured[part], paper=paper)

    def rows(self, results: Costs) -> list[Row]:
        """Return a row per shield; times are in `more`."""
        return [
            Row(
                method=name,
                paper={"Table 1": {"relative_to_dp_gaussian": PAPER[name]}} if name in PAPER else {},
                more={"seconds_per_client": results.seconds_per_client[name], "relative_to_dp_gaussian": ratio},
            )
            for name, ratio in results.relative_to_dp_gaussian.items()
        ]

    def tables(self, results: Costs) -> list[Table]:
        """Lay out one row per shield."""
        from rich.table import Table

        about = f"{results.clients} clients, {results.weights:,} weights, {results.members} members"
        table = Table(title=f"{about}, {results.threads} threads, the fastest of {results.turns} turns")
        table.add_column("shield")
        for heading in ("ms per client", "relative to DP-Gaussian", "paper"):
            table.add_column(heading, justify="right")
        for name, ratio in results.relative_to_dp_gaussian.items():
            each = f"{1000 * results.seconds_per_client[name]:.2f}"
            table.add_row(name, each, f"{ratio:.2f}", f"{PAPER[name]:g}" if name in PAPER else "")
        return [table]

    def notes(self, results: Costs) -> list[str]:
        """Say what the figures are based on."""
        return [
            f"RecUP's change is {results.relative_change:.1%} of the update's norm, with which pools' largest entries "
            "change often.",
            "Only ratios within this run are meaningful. The paper's ratios are for one client on a graphics card.",
            *notes_of(results.paper),
        ]

    def draw(self, results: Costs, canvas: Any) -> None:
        """Draw the ratios on a logarithmic scale, with the paper's beside them."""
        canvas.set_size_inches(5.5, 3.2)
        axis = canvas.subplots()
        names = list(results.relative_to_dp_gaussian)
        axis.barh(names, list(results.relative_to_dp_gaussian.values()), label="measured")
        printed = [name for name in names if name in PAPER]
        axis.plot([PAPER[name] for name in printed], printed, "kx", label="paper")
        axis.set_xscale("log")
        axis.invert_yaxis()
        axis.set_xlabel("time relative to DP-Gaussian")
        axis.legend(frameon=False)


def time_shields(payload: Mapping[str, Any], report: Report) -> dict[str, Any]:
    """Return seconds per client, and ratios to DP-Gaussian: the task of the part."""
    clients, turns, threads = payload["clients"], payload["turns"], payload["threads"]
    report.progress(0.0, f"{clients} clients, {turns} turns")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        generator = torch_generator(0, "people")
        model = network("lfw", SHAPE, generator)
        segments = network_segments(model)
        x = torch.rand(clients, *SHAPE, generator=generator)
        y = torch.randint(2, (clients,), generator=generator)
        updates = per_sample_gradients(model, _loss, x, y).detach().contiguous()
        zoo = drawn_zoo(updates, segments)
        codes = torch.randint(3, (clients,), generator=generator)
        contexts = [
            Context(
                client,
                1,
                torch_generator(0, client),
                data={"u:race": codes[client : client + 1]},
                segments=segments,
                networks={"model": model},
                samples=Samples(model, _loss, x[client : client + 1], y[client : client + 1]),
            )
            for client in range(clients)
        ]
        pooled = features(updates, segments, "max")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PublishesWhatItHides)
            recup = RecUP(zoo, budget=BUDGET * float(pooled[pooled > 0].median()))
        seconds = fastest(_timed(recup, contexts, payload["few"]), updates, turns)
        change = recup.change_all(updates, contexts) - updates
    finally:
        torch.set_num_threads(before)
    return {
        "clients": clients,
        "weights": updates.shape[1],
        "features": pooled.shape[1],
        "members": len(zoo),
        "threads": threads,
        "turns": turns,
        "relative_change": float((change.norm(dim=1) / updates.norm(dim=1)).median()),
        "seconds_per_client": {name: total / clients for name, total in seconds.items()},
        "relative_to_dp_gaussian": {name: total / seconds["dp-gaussian"] for name, total in seconds.items()},
    }


def _loss(outputs: Tensor, labels: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, labels, reduction="none")


def _timed(recup: RecUP, contexts: Sequence[Context], few: bool) -> dict[str, Callable[[Tensor], Tensor]]:
    soteria, at_default = Soteria(LEFT_OUT), Soteria()
    timed: dict[str, Callable[[Tensor], Tensor]] = {
        "dp-gaussian": gaussian,
        "recup": lambda rows: recup.change_all(rows, contexts),
        "soteria": lambda rows: soteria.change_all(rows, contexts),
    }
    if not few:
        timed |= {
            "soteria, p = 0.8: nothing to rank": lambda rows: at_default.change_all(rows, contexts),
            "sparsify": one_by_one(Sparsify(0.9), contexts),
            "quantise": one_by_one(Quantise(8), contexts),
            "dp-laplace": one_by_one(DPLaplace(0.01), contexts),
            "fedveil's DPGaussian (float64)": one_by_one(DPGaussian(0.01), contexts),
            "checks and damage, for all alike": checked,
        }
    return timed


def gaussian(updates: Tensor, clip: float = 1.0, sigma: float = 0.01) -> Tensor:
    """DP-Gaussian in its simplest form: clip every row, draw noise with `torch.normal`, add it."""
    norms: Tensor = torch.linalg.vector_norm(updates, dim=1, keepdim=True)
    sent: Tensor = updates * (clip / norms.clamp_min(1e-30)).clamp_max(1.0)
    return sent.add_(torch.normal(0.0, sigma, updates.shape))


def drawn_zoo(updates: Tensor, segments: tuple[Segment, ...], classes: int = 3) -> Zoo:
    """Return members with random weights and a common part, so that they pull in one direction."""
    pooled = features(updates, segments, "max")
    sizes = tuple(hidden_sizes(width) for width in spread_widths())
    common = torch.randn(pooled.shape[1], generator=torch_generator(0, "common"))
    members = []
    for number, hidden in enumerate(sizes):
        generator = torch_generator(0, "member", number)
        member = mlp([pooled.shape[1], *hidden, classes], generator)
        with torch.no_grad():
            next(member.parameters()).add_(torch.randn(hidden[0], 1, generator=generator) * common * 0.02)
        members.append(frozen(member))
    return Zoo(
        "race",
        tuple("abc"[:classes]),
        torch.full((classes,), 1 / classes),
        "max",
        segments,
        pooled.mean(dim=0),
        pooled.std(dim=0).clamp_min(1e-6),
        tuple(members),
        sizes,
    )


def one_by_one(shield: Shield, contexts: Sequence[Context]) -> Callable[[Tensor], Tensor]:
    """Return a function that changes every client's update separately."""

    def change(updates: Tensor) -> Tensor:
        sent = torch.empty_like(updates)
        for client, context in enumerate(contexts):
            row = Message(Kind.UPDATE, updates[client : client + 1])
            sent[client] = shield.change(row, context).values[0]
        return sent

    return change


def checked(updates: Tensor) -> Tensor:
    """Do what `apply_all` does around any shield that treats many clients together."""
    for rows in (updates, updates):  # before and after the shield
        torch.isfinite(rows.abs().amax(dim=1))
    Damage.of_rows(updates, updates, [0] * len(updates))
    return updates


def fastest(shields: dict[str, Callable[[Tensor], Tensor]], updates: Tensor, turns: int) -> dict[str, float]:
    """Return each shield's shortest time; all take turns."""
    best = dict.fromkeys(shields, float("inf"))
    for _ in range(turns):
        for name, change in shields.items():
            start = time.perf_counter()
            change(updates)
            best[name] = min(best[name], time.perf_counter() - start)
    return best
