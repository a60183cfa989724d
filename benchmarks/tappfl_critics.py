"""TAPPFL's printed critic against the light one: what each costs, and what the extractor keeps of x under each.

    python benchmarks/tappfl_critics.py

Twenty devices with Adult (sex), two a round, λ = 0, the same steps, the same f and g; only the critic h differs. The
printed one, of sixteen layers, starts from He's weights (ours) and, in a row of its own, from torch's default. Cost is
processor time of one thread per round of the whole game. Quality is judged on validation people: the JSD loss of a
fresh critic, the same for all, trained on the finished r (2 ln 2 = 1.386: r tells nothing of x beyond u; lower is
better); the share of x's variance that a linear map finds in r; and income by the best of three heads. The last line is
JSON.
"""

import json
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import softplus

import fedveil as fv
from fedveil.data import AttributeData, Split
from fedveil.federation import Federation, Run
from fedveil.games import TAPPFL, Adam, Player
from fedveil.games.losses import one_hot
from fedveil.games.networks import LIGHT_CRITIC, PAPER_CRITIC
from fedveil.games.pairing import partners
from fedveil.models import Start, mlp

ROUNDS, JUDGE_STEPS, JUDGE_BATCH = 5, 600, 256


@dataclass(frozen=True)
class WithCritic(TAPPFL):
    """TAPPFL with a critic of any shape and start."""

    hidden: tuple[int, ...] = LIGHT_CRITIC
    start: Start = "torch"

    def players(self, shape):
        """TAPPFL's, but for the critic."""
        sizes = [shape.features[0] + self.width + shape.attributes["sex"], *self.hidden, 1]
        critic = Player(lambda generator: mlp(sizes, generator, start=self.start), self.optimiser)
        return {**super().players(shape), "utility": critic}


def measure(data: AttributeData, hidden: tuple[int, ...], start: Start, rounds: int) -> dict[str, float]:
    """Train by one critic; return its cost and what is left of x in r."""
    game = WithCritic("sex", 0.0, optimiser=Adam(0.001), batch_size=50, local_epochs=2, hidden=hidden, start=start)
    run = Run(Federation(data, devices=20, fraction=0.1, seed=0), game)
    clock = [time.process_time()]
    run.play(rounds, callbacks=[lambda _: clock.append(time.process_time())])
    released = {split: torch.as_tensor(run.release(split)).float() for split in (Split.TRAIN, Split.VALIDATION)}
    income = run.fit_head("income", heads=("mlp", "boosting", "logistic"), draws=100)[0]
    return {
        "critic_weights": run.layouts["utility"].trained,
        "seconds_per_round": float(np.median(np.diff(clock))) if rounds else 0.0,
        "jsd_of_its_own_critic": run.history[-1].losses["JSD"] if rounds else 2 * math.log(2),
        "jsd_of_a_fresh_critic": fresh_jsd(data, released),
        "linear_share_of_x": linear_share(data, released),
        "income_validation_accuracy": income.validation_accuracy,
    }


def fresh_jsd(data: AttributeData, released: dict[Split, torch.Tensor]) -> float:
    """Train a critic of 128-128 on training people's r, and return its JSD loss on validation people."""
    dice = torch.Generator().manual_seed(0)
    people = {}
    for split, r in released.items():
        rows = data.rows(split)
        codes = torch.from_numpy(data.attribute("sex").codes[rows])
        people[split] = torch.from_numpy(data.x[rows]), (r - r.mean(dim=0)) / (r.std(dim=0) + 1e-6), codes

    def jsd(x, r, codes):
        places, found = partners(torch.rand(len(x), generator=dice), codes, None)
        behind = torch.cat([r, one_hot(codes, 2, x)], dim=1)
        true, false = critic(torch.cat([x, behind], dim=1)), critic(torch.cat([x[places], behind], dim=1))
        return (softplus(-true) + softplus(false))[found].mean()

    x, r, codes = people[Split.TRAIN]
    critic = mlp([x.shape[1] + r.shape[1] + 2, 128, 128, 1], dice)
    descent = torch.optim.Adam(critic.parameters(), 0.001)
    for _ in range(JUDGE_STEPS):
        rows = torch.randint(len(x), (JUDGE_BATCH,), generator=dice)
        descent.zero_grad()
        jsd(x[rows], r[rows], codes[rows]).backward()
        descent.step()
    with torch.no_grad():
        return float(torch.stack([jsd(*people[Split.VALIDATION]) for _ in range(10)]).mean())


def linear_share(data: AttributeData, released: dict[Split, torch.Tensor]) -> float:
    """Return 1 − (squared error of ridge regression from r to x) / (variance of x), on validation people."""
    r, x = {}, {}
    for split, values in released.items():
        r[split] = np.hstack([values.double().numpy(), np.ones((len(values), 1))])
        x[split] = data.x[data.rows(split)].astype(np.float64)
    gram = r[Split.TRAIN].T @ r[Split.TRAIN]
    weights = np.linalg.solve(gram + 1e-3 * np.eye(len(gram)), r[Split.TRAIN].T @ x[Split.TRAIN])
    error = np.square(x[Split.VALIDATION] - r[Split.VALIDATION] @ weights).sum()
    return float(1 - error / np.square(x[Split.VALIDATION] - x[Split.TRAIN].mean(axis=0)).sum())


def main() -> None:
    """Print a line per critic, and all of it as JSON."""
    torch.set_num_threads(1)
    data = fv.data.load("adult", target="income", sensitive="sex")
    found = {}
    for name, hidden, start, rounds in (
        ("f before training", LIGHT_CRITIC, "torch", 0),
        ("light", LIGHT_CRITIC, "torch", ROUNDS),
        ("light before, 256-256", (256, 256), "torch", ROUNDS),
        ("printed, He's start", PAPER_CRITIC, "he", ROUNDS),
        ("printed, torch's start", PAPER_CRITIC, "torch", ROUNDS),
    ):
        found[name] = measure(data, hidden, start, rounds)
        print(f"{name:24s}", {key: round(value, 4) for key, value in found[name].items()}, flush=True)
    ratio = found["printed, He's start"]["seconds_per_round"] / found["light"]["seconds_per_round"]
    print(json.dumps({"critics": found, "cost_ratio": ratio}))


if __name__ == "__main__":
    main()
