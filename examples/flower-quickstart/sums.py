"""What can be read under SecAgg+: the server sees the sum of a cohort's updates, and no single one.

    python examples/flower-quickstart/sums.py [--phones 540] [--shadows 540] [--seed 0] [--json]

Phones train the first weights in this process with the example's ClientApp: unchanged, and with the mod and
policy.toml. Their updates are averaged over cohorts of 1 (no SecAgg+), 3 and 9 phones, as SecAgg+ gives them to the
server (tests/flower/test_secagg.py: equal to 1e-4). For each question and each size an attacker is trained on averages
of shadow phones' updates, chosen on validation cohorts, and scored on cohorts that share no phone:

    cohort   does the cohort have more women than men?
    member   of which sex is one given member of the cohort?
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import ATTACKERS, HERE, SEXES, app_with, shadows

from fedveil.attacks.panel import panel
from fedveil.data.attribute import Attribute
from fedveil.view import EVERY_OBSERVER, Capability, Pool, View

SIZES = (1, 3, 9)
SHADOW_COHORTS = 1500
"""Cohorts that the attacker draws from its phones; they may share phones, the victims' do not."""


def pool(updates: np.ndarray, sexes: np.ndarray, cohorts: np.ndarray, question: str, first: int) -> Pool:
    """Average updates over cohorts (rows of phones' numbers), with the true answer for each."""
    codes = sexes[cohorts[:, 0]] if question == "member" else (sexes[cohorts].mean(axis=1) > 0.5).astype(np.int64)
    groups = first + np.arange(len(cohorts))
    return Pool(updates[cohorts].mean(axis=1).astype(np.float64), {"sex": Attribute("sex", codes, SEXES)}, groups)


def view(
    shadow: tuple[np.ndarray, np.ndarray], victims: tuple[np.ndarray, np.ndarray], size: int, question: str, seed: int
) -> View:
    """Have the attacker learn from two thirds of its phones, choose on the rest, and try disjoint cohorts of others."""
    rng, cut = np.random.default_rng([seed, size]), 2 * len(shadow[1]) // 3
    parts = [
        np.stack([low + rng.choice(high - low, size, replace=False) for _ in range(count)])
        for low, high, count in ((0, cut, SHADOW_COHORTS), (cut, len(shadow[1]), SHADOW_COHORTS // 3))
    ]
    tried = rng.permutation(len(victims[1]))[: len(victims[1]) // size * size].reshape(-1, size)
    return View(
        pool(*shadow, parts[0], question, 0),
        pool(*shadow, parts[1], question, 10_000),
        pool(*victims, tried, question, 20_000),
        grants=EVERY_OBSERVER | {Capability.SENDERS},
    )


def main() -> None:
    """Measure and print every size, question and arm."""
    parser = argparse.ArgumentParser(description="What sums of updates reveal.")
    parser.add_argument("--phones", type=int, default=540)
    parser.add_argument("--shadows", type=int, default=540)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", type=Path, default=HERE / "policy.toml")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as scratch:
        for arm, changes in (("no shield", []), ("shield", ["two-lines.diff"])):
            work = Path(scratch) / arm.replace(" ", "-")
            app = app_with(work / "app", *changes)
            shadow = shadows(app, work / "shadows", arguments.policy, arguments.shadows, arguments.seed)
            victims = shadows(app, work / "victims", arguments.policy, arguments.phones, arguments.seed + 50_000)
            for question in ("member", "cohort"):
                for size in SIZES if question == "member" else SIZES[1:]:
                    seen = view(shadow, victims, size, question, arguments.seed)
                    judgement = panel(ATTACKERS, seed=arguments.seed, device="cpu").judge(seen)
                    read, prior = judgement.worst.balanced_accuracy, judgement.prior
                    rows.append(
                        {
                            "arm": arm,
                            "question": question,
                            "size": size,
                            "cohorts": len(seen.victims),
                            "balanced_accuracy": read.as_dict(),
                            "prior": prior.as_dict(),
                            "attacker": judgement.worst.name,
                        }
                    )
                    sys.stdout.write(
                        f"{arm}, {question} of {size}: {read.estimate:.3f} [{read.low:.3f}, {read.high:.3f}] "
                        f"(prior {prior.estimate:.3f}, {len(seen.victims)} cohorts, {judgement.worst.name})\n"
                    )
                    sys.stdout.flush()
    if arguments.json:
        sys.stdout.write(json.dumps({"seed": arguments.seed, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
