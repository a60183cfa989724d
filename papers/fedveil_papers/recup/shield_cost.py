"""What shields on updates cost, relative to DP-Gaussian by `torch.normal`, in one run and one process (Table 1).

Times do not depend on what a zoo has learned but for how often the largest entry of a pool changes; so members are
drawn, not fitted, and pull in one direction, as fitted ones do. All shields' `change_all` is timed, or `change` client
by client where a shield has no other; checks of the result and the measuring of damage, which are the same for all, are
left out and timed by themselves.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
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
from fedveil.updates import Segment, features
from fedveil_papers.experiment import Experiment, Kept, Say
from fedveil_papers.recup.laboratory import network, network_segments, per_sample_gradients
from fedveil_papers.shown import PaperFigures

if TYPE_CHECKING:
    from rich.table import Table

PAPER = {"recup": 12.2, "dp-gaussian": 1.0, "dp-laplace": 31.8, "sparsify": 2.8, "soteria": 875.0}
SHAPE = (3, 62, 47)
BUDGET = 3.0
"""The total L∞ budget in medians of the features: it makes a change of about a tenth of the update's norm, in which a
pool's largest entry changes often; smaller budgets cost a little less."""

LEFT_OUT = 0.2
"""Soteria's share of features: fewer than are live, so that their norms must be known. With 0.8 all live ones are left
out, and no norm is computed."""


@dataclass(frozen=True)
class ShieldCost(Experiment):
    """A round of clients with one record each, RecUP-FL's LFW network, a zoo with widths spread over 128–2048, float32.

    Attributes:
        clients: how many.
        turns: of which the fastest counts; in each all shields take part, so that they meet the same disturbances.
        threads: of torch; one holds on a busy machine, too.
        few: only DP-Gaussian, RecUP and Soteria.
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

    def run(self, kept: Kept, say: Say, paper: PaperFigures) -> dict[str, Any]:
        """Time all shields; never read from a folder, for a time belongs to the run that it stands beside others in."""
        say("timing")
        return {**self.measure(), "paper": [dict(one) for one in paper]}

    def measure(self) -> dict[str, Any]:
        """Return seconds per client, and ratios to DP-Gaussian."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.threads)
        try:
            return self._measured()
        finally:
            torch.set_num_threads(before)

    def _measured(self) -> dict[str, Any]:
        generator = torch_generator(0, "people")
        model = network("lfw", SHAPE, generator)
        segments = network_segments(model)
        x = torch.rand(self.clients, *SHAPE, generator=generator)
        y = torch.randint(2, (self.clients,), generator=generator)

        def loss(outputs: Tensor, labels: Tensor) -> Tensor:
            return functional.cross_entropy(outputs, labels, reduction="none")

        updates = per_sample_gradients(model, loss, x, y).detach().contiguous()
        zoo = drawn_zoo(updates, segments)
        codes = torch.randint(3, (self.clients,), generator=generator)
        contexts = [
            Context(
                place,
                1,
                torch_generator(0, place),
                data={"u:race": codes[place : place + 1]},
                segments=segments,
                networks={"model": model},
                samples=Samples(model, loss, x[place : place + 1], y[place : place + 1]),
            )
            for place in range(self.clients)
        ]
        found = features(updates, segments, "max")
        budget = BUDGET * float(found[found > 0].median())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", PublishesWhatItHides)
            recup = RecUP(zoo, budget=budget)
        seconds = fastest(self._timed(recup, contexts), updates, self.turns)
        change = recup.change_all(updates, contexts) - updates
        return {
            "kind": self.kind,
            "clients": self.clients,
            "weights": updates.shape[1],
            "features": found.shape[1],
            "members": len(zoo),
            "threads": self.threads,
            "turns": self.turns,
            "relative_change": float((change.norm(dim=1) / updates.norm(dim=1)).median()),
            "seconds_per_client": {name: taken / self.clients for name, taken in seconds.items()},
            "relative_to_dp_gaussian": {name: taken / seconds["dp-gaussian"] for name, taken in seconds.items()},
        }

    def _timed(self, recup: RecUP, contexts: Sequence[Context]) -> dict[str, Callable[[Tensor], Tensor]]:
        soteria, at_default = Soteria(LEFT_OUT), Soteria()
        timed: dict[str, Callable[[Tensor], Tensor]] = {
            "dp-gaussian": gaussian,
            "recup": lambda rows: recup.change_all(rows, contexts),
            "soteria": lambda rows: soteria.change_all(rows, contexts),
        }
        if not self.few:
            timed |= {
                "soteria, p = 0.8: nothing to rank": lambda rows: at_default.change_all(rows, contexts),
                "sparsify": one_by_one(Sparsify(0.9), contexts),
                "quantise": one_by_one(Quantise(8), contexts),
                "dp-laplace": one_by_one(DPLaplace(0.01), contexts),
                "fedveil's DPGaussian (float64)": one_by_one(DPGaussian(0.01), contexts),
                "checks and damage, for all alike": checked,
            }
        return timed

    def tables(self, found: dict[str, Any]) -> list[Table]:
        """One row per shield."""
        from rich.table import Table

        about = f"{found['clients']} clients, {found['weights']:,} weights, {found['members']} members"
        table = Table(title=f"{about}, {found['threads']} threads, the fastest of {found['turns']} turns")
        table.add_column("shield")
        for heading in ("ms per client", "relative to DP-Gaussian", "paper"):
            table.add_column(heading, justify="right")
        for name, ratio in found["relative_to_dp_gaussian"].items():
            each = f"{1000 * found['seconds_per_client'][name]:.2f}"
            table.add_row(name, each, f"{ratio:.2f}", f"{PAPER[name]:g}" if name in PAPER else "")
        return [table]

    def notes(self, found: dict[str, Any]) -> list[str]:
        """Say what the figures rest on."""
        lines = [
            f"RecUP's change is {found['relative_change']:.1%} of the update's norm, in which pools' largest entries "
            "change often.",
            "Only ratios within this run mean something. The paper's are of one client on a graphics card.",
        ]
        return lines + [str(one["note"]) for one in found["paper"] if "note" in one]

    def draw(self, found: dict[str, Any], canvas: Any) -> None:
        """Draw the ratios, on a logarithmic scale, the paper's beside them."""
        canvas.set_size_inches(5.5, 3.2)
        axis = canvas.subplots()
        names = list(found["relative_to_dp_gaussian"])
        axis.barh(names, [found["relative_to_dp_gaussian"][name] for name in names], label="measured")
        printed = [name for name in names if name in PAPER]
        axis.plot([PAPER[name] for name in printed], printed, "kx", label="paper")
        axis.set_xscale("log")
        axis.invert_yaxis()
        axis.set_xlabel("time relative to DP-Gaussian")
        axis.legend(frameon=False)


def gaussian(updates: Tensor, clip: float = 1.0, sigma: float = 0.01) -> Tensor:
    """DP-Gaussian as anybody would write it: clip every row, draw by `torch.normal`, add."""
    norms: Tensor = torch.linalg.vector_norm(updates, dim=1, keepdim=True)
    sent: Tensor = updates * (clip / norms.clamp_min(1e-30)).clamp_max(1.0)
    return sent.add_(torch.normal(0.0, sigma, updates.shape))


def drawn_zoo(updates: Tensor, segments: tuple[Segment, ...], classes: int = 3) -> Zoo:
    """Members with random weights that answer much alike: what they have in common pulls in one direction."""
    found = features(updates, segments, "max")
    sizes = tuple(hidden_sizes(width) for width in spread_widths())
    common = torch.randn(found.shape[1], generator=torch_generator(0, "common"))
    members = []
    for place, hidden in enumerate(sizes):
        generator = torch_generator(0, "member", place)
        member = mlp([found.shape[1], *hidden, classes], generator)
        with torch.no_grad():
            next(member.parameters()).add_(torch.randn(hidden[0], 1, generator=generator) * common * 0.02)
        members.append(frozen(member))
    return Zoo(
        "race",
        tuple("abc"[:classes]),
        torch.full((classes,), 1 / classes),
        "max",
        segments,
        found.mean(dim=0),
        found.std(dim=0).clamp_min(1e-6),
        tuple(members),
        sizes,
    )


def one_by_one(shield: Shield, contexts: Sequence[Context]) -> Callable[[Tensor], Tensor]:
    """Change every client's update by itself."""

    def change(updates: Tensor) -> Tensor:
        sent = torch.empty_like(updates)
        for place, context in enumerate(contexts):
            row = Message(Kind.UPDATE, updates[place : place + 1])
            sent[place] = shield.change(row, context).values[0]
        return sent

    return change


def checked(updates: Tensor) -> Tensor:
    """What `apply_all` does around any shield that treats many clients together."""
    for rows in (updates, updates):  # as given, and as sent
        torch.isfinite(rows.abs().amax(dim=1))
    Damage.of_rows(updates, updates, [0] * len(updates))
    return updates


def fastest(shields: dict[str, Callable[[Tensor], Tensor]], updates: Tensor, turns: int) -> dict[str, float]:
    """Return each one's shortest time; all take turns."""
    best = dict.fromkeys(shields, float("inf"))
    for _ in range(turns):
        for name, change in shields.items():
            start = time.perf_counter()
            change(updates)
            best[name] = min(best[name], time.perf_counter() - start)
    return best
