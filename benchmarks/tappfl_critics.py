"""TAPPFL's printed critic against the light one: what each costs, and what the extractor keeps of x under each.

    python benchmarks/tappfl_critics.py

Adult (sex), λ = 0, the same steps, the same f and g; only the critic h differs. The printed one, of sixteen layers,
starts from He's weights (ours) and, in a row of its own, from torch's default. Cost is processor time of one thread per
round of the whole game by the paper's protocol: ten of a hundred devices, r of 128 numbers; one local epoch.

Quality is judged after the same steps on one of twenty devices a round, on r of four numbers: 128 random features of x
already keep nearly all of it (the first row), so that critics would not differ. On validation people: the
JSD loss of a fresh critic, the same for all, trained on the final r (2 ln 2 = 1.386: r reveals nothing of x beyond u;
lower is better); the share of x's variance that a linear map finds in r; and income by the best of three heads. The
last line is JSON.
"""

import json
import math
import time
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import softplus

import fedveil as fv
from fedveil.core.models import Start, mlp
from fedveil.data import AttributeData, Split
from fedveil.federation import Federation, Run, begin
from fedveil.games import TAPPFL, Adam, Player
from fedveil.games.losses import one_hot
from fedveil.games.play import partners
from fedveil.games.tappfl_networks import LIGHT_CRITIC, PAPER_CRITIC

PRINTED, NARROW = 128, 4  # numbers in r
ROUNDS, TIMED = 4, 2
JUDGE_STEPS, JUDGE_BATCH = 600, 256


@dataclass(frozen=True)
class WithCritic(TAPPFL):
    """TAPPFL with a critic of any shape and start."""

    hidden: tuple[int, ...] = LIGHT_CRITIC
    start: Start = "torch"

    def players(self, shape):
        """Return TAPPFL's players with this critic."""
        sizes = [shape.features[0] + self.width + shape.attributes["sex"], *self.hidden, 1]
        critic = Player(lambda generator: mlp(sizes, generator, start=self.start), self.optimiser)
        return {**super().players(shape), "utility": critic}


def trained(data: AttributeData, hidden: tuple[int, ...], start: Start, width: int, rounds: int) -> tuple[Run, float]:
    """Play with one critic; return the run and the fastest round's processor seconds."""
    timed = width == PRINTED
    game = WithCritic(
        "sex",
        0.0,
        width=width,
        optimiser=Adam(0.001),
        batch_size=50,
        local_epochs=1 if timed else 2,
        hidden=hidden,
        start=start,
    )
    run = begin(Federation(data, devices=100 if timed else 20, fraction=0.1 if timed else 0.05, seed=0), game)
    clock = [time.process_time()]
    run.play(rounds, callbacks=[lambda _: clock.append(time.process_time())])
    return run, float(min(np.diff(clock), default=0.0))


def quality(data: AttributeData, run: Run) -> dict[str, float]:
    """Return what is left of x in r."""
    released = {split: torch.as_tensor(run.release(split)).float() for split in (Split.TRAIN, Split.VALIDATION)}
    income = run.fit_head("income", heads=("mlp", "boosting", "logistic"))[0]
    return {
        "jsd_of_its_own_critic": run.history[-1].losses["JSD"] if run.history else 2 * math.log(2),
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
        partner_index, has_partner = partners(torch.rand(len(x), generator=dice), codes, None)
        behind = torch.cat([r, one_hot(codes, 2, x)], dim=1)
        true, false = critic(torch.cat([x, behind], dim=1)), critic(torch.cat([x[partner_index], behind], dim=1))
        return (softplus(-true) + softplus(false))[has_partner].mean()

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
    figures_by_critic: dict[str, dict[str, float]] = {}

    def report(name: str, **figures: float) -> None:
        figures_by_critic.setdefault(name, {}).update(figures)
        print(f"{name:36s}", {key: round(value, 4) for key, value in figures.items()}, flush=True)

    for width in (PRINTED, NARROW):
        run, _ = trained(data, LIGHT_CRITIC, "torch", width, 0)
        report(f"f before training, r of {width}", **quality(data, run))
    for name, hidden, start, times in (
        ("light", LIGHT_CRITIC, "torch", 1),
        ("light, He's start", LIGHT_CRITIC, "he", 1),
        ("light, four times the steps", LIGHT_CRITIC, "torch", 4),
        ("printed, He's start", PAPER_CRITIC, "he", 1),
        ("printed, torch's start", PAPER_CRITIC, "torch", 1),
    ):
        if name in ("light", "printed, He's start"):  # initial weights do not change the cost
            run, seconds = trained(data, hidden, start, PRINTED, TIMED)
            report(name, critic_weights=run.layouts["utility"].trained, seconds_per_round=seconds)
        run, _ = trained(data, hidden, start, NARROW, times * ROUNDS)
        report(name, **quality(data, run))
    ratio = (
        figures_by_critic["printed, He's start"]["seconds_per_round"] / figures_by_critic["light"]["seconds_per_round"]
    )
    print(json.dumps({"critics": figures_by_critic, "cost_ratio": ratio}))


if __name__ == "__main__":
    main()
