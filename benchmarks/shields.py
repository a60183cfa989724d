"""What shields on updates cost, relative to DP-Gaussian by `torch.normal`, in one run and one process.

    python benchmarks/shields.py [--quick] [--json] [--threads N] [--turns N]

A round of 100 clients with one record each, RecUP-FL's LFW network (62×47 pixels, three channels: 880,450 weights), a
zoo of 20 members with widths spread over 128–2048, P = 10, Q = 5, float32. All shields' `change_all` is timed, or
`change` client by client where a shield has no other; checks of the result and the measuring of damage, which are the
same for all, are left out and timed by themselves. The zoo lies in memory. Each figure is the fastest of several turns,
in which the shields take part one after another, so that all meet the same disturbances, on one thread: `torch.normal`
has no more, and waiting for a thread that the machine gave to somebody else is no shield's work. Times do not depend on
what a zoo has learned but for how often the largest entry of a pool changes; so members are drawn, not fitted, and pull
in one direction, as fitted ones do. With `--json` the last line of stdout is
`{"relative_to_dp_gaussian": {"recup": …, "soteria": …, …}}`. The paper's Table 1, on a graphics card, has RecUP-FL at
12.2, DP-Laplace at 31.8, sparsification at 2.8 and Soteria at 875. `--quick` times the first three alone.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional

from fedveil.exposure import network, network_segments, per_sample_gradients
from fedveil.models import mlp
from fedveil.randomness import torch_generator
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
from fedveil.updates import Segment, features
from fedveil.zoo import Zoo
from fedveil.zoo.members import frozen, hidden_sizes, spread_widths

PAPER = {"recup": 12.2, "dp-gaussian": 1.0, "dp-laplace": 31.8, "sparsify": 2.8, "soteria": 875.0}
SHAPE = (3, 62, 47)
BUDGET = 3.0
"""The total L∞ budget in medians of the features: it makes a change of about a tenth of the update's norm, in which a
pool's largest entry changes often; smaller budgets cost a little less."""

LEFT_OUT = 0.2
"""Soteria's share of features: fewer than are live, so that their norms must be known. With 0.8 all live ones are left
out, and no norm is computed."""


def gaussian(updates: Tensor, clip: float = 1.0, sigma: float = 0.01) -> Tensor:
    """DP-Gaussian as anybody would write it: clip every row, draw by `torch.normal`, add."""
    norms = torch.linalg.vector_norm(updates, dim=1, keepdim=True)
    sent = updates * (clip / norms.clamp_min(1e-30)).clamp_max(1.0)
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
            member[0].weight.add_(torch.randn(hidden[0], 1, generator=generator) * common * 0.02)
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


def main() -> None:
    """Time all of them and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="only the three that matter most")
    parser.add_argument("--json", action="store_true", help="a last line in JSON")
    parser.add_argument("--threads", type=int, default=1, help="of torch; one holds on a busy machine, too")
    parser.add_argument("--turns", type=int, default=3, help="of which the fastest counts")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clients, turns = 100, options.turns
    generator = torch_generator(0, "people")
    model = network("lfw", SHAPE, generator)
    segments = network_segments(model)
    x, y = torch.rand(clients, *SHAPE, generator=generator), torch.randint(2, (clients,), generator=generator)

    def loss(outputs: Tensor, labels: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, labels, reduction="none")

    updates = per_sample_gradients(model, loss, x, y).detach().contiguous()
    zoo = drawn_zoo(updates, segments)
    codes = torch.randint(3, (clients,), generator=generator)
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
        for place in range(clients)
    ]
    found = features(updates, segments, "max")
    budget = BUDGET * float(found[found > 0].median())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PublishesWhatItHides)
        recup = RecUP(zoo, budget=budget)
    soteria, at_default = Soteria(LEFT_OUT), Soteria()
    timed: dict[str, Callable[[Tensor], Tensor]] = {
        "dp-gaussian": gaussian,
        "recup": lambda rows: recup.change_all(rows, contexts),
        "soteria": lambda rows: soteria.change_all(rows, contexts),
    }
    if not options.quick:
        timed |= {
            "soteria, p = 0.8: nothing to rank": lambda rows: at_default.change_all(rows, contexts),
            "sparsify": one_by_one(Sparsify(0.9), contexts),
            "quantise": one_by_one(Quantise(8), contexts),
            "dp-laplace": one_by_one(DPLaplace(0.01), contexts),
            "fedveil's DPGaussian (float64)": one_by_one(DPGaussian(0.01), contexts),
            "checks and damage, for all alike": checked,
        }
    seconds = fastest(timed, updates, turns)
    ratios = {name: taken / seconds["dp-gaussian"] for name, taken in seconds.items()}
    change = recup.change_all(updates, contexts) - updates
    relative = float((change.norm(dim=1) / updates.norm(dim=1)).median())
    print(f"{clients} clients, {updates.shape[1]:,} weights, {found.shape[1]:,} features, {len(zoo)} members")
    print(f"recup: budget {budget:.2g}, a change of {relative:.1%} of the update's norm")
    print(f"{torch.get_num_threads()} threads; the fastest of {turns} turns")
    print(f"{'shield':34}{'ms per client':>14}{'relative':>10}{'paper':>8}")
    for name, taken in seconds.items():
        print(f"{name:34}{1000 * taken / clients:14.2f}{ratios[name]:10.2f}{PAPER.get(name, ''):>8}")
    if options.json:
        shown = {name: round(ratio, 2) for name, ratio in ratios.items()}
        print(json.dumps({"relative_to_dp_gaussian": shown}))


if __name__ == "__main__":
    main()
