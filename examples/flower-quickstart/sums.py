"""What SecAgg+ leaves to be read: the server sees the sum of a cohort's updates, and no single one.

    python examples/flower-quickstart/sums.py [--phones 540] [--shadows 540] [--seed 0] [--json]

Phones train the first weights in this process, through the example's ClientApp: as it is, and behind the mod with
policy.toml. Their updates are averaged over cohorts of 1 (no SecAgg+), 3 and 9 phones, as SecAgg+ hands them to the
server (tests/flower/test_secagg.py: equal to 1e-4). The attacker is trained anew on averages of shadow phones' updates
for each question and each size, chosen on validation cohorts, and scored on cohorts that share no phone:

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
KNOWN_COHORTS = 1500
"""Cohorts that the attacker draws from its own phones; they may share phones, the victims' do not."""


def pool(updates: np.ndarray, sexes: np.ndarray, cohorts: np.ndarray, question: str, first: int) -> Pool:
    """Average updates over cohorts (rows of phones' numbers), and say what is true of each."""
    codes = sexes[cohorts[:, 0]] if question == "member" else (sexes[cohorts].mean(axis=1) > 0.5).astype(np.int64)
    groups = first + np.arange(len(cohorts))
    return Pool(updates[cohorts].mean(axis=1).astype(np.float64), {"sex": Attribute("sex", codes, SEXES)}, groups)


def view(
    known: tuple[np.ndarray, np.ndarray], victims: tuple[np.ndarray, np.ndarray], size: int, question: str, seed: int
) -> View:
    """Let the attacker learn from two thirds of its phones, choose on the rest, and try disjoint cohorts of others."""
    rng, cut = np.random.default_rng([seed, size]), 2 * len(known[1]) // 3
    parts = [
        np.stack([low + rng.choice(high - low, size, replace=False) for _ in range(count)])
        for low, high, count in ((0, cut, KNOWN_COHORTS), (cut, len(known[1]), KNOWN_COHORTS // 3))
    ]
    tried = rng.permutation(len(victims[1]))[: len(victims[1]) // size * size].reshape(-1, size)
    return View(
        pool(*known, parts[0], question, 0),
        pool(*known, parts[1], question, 10_000),
        pool(*victims, tried, question, 20_000),
        grants=EVERY_OBSERVER | {Capability.SENDERS},
    )


def main() -> None:
    """Measure and print every size, question and arm."""
    parser = argparse.ArgumentParser(description="What sums of updates give away.")
    parser.add_argument("--phones", type=int, default=540)
    parser.add_argument("--shadows", type=int, default=540)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", type=Path, default=HERE / "policy.toml")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        for arm, changes in (("no shield", []), ("shield", ["two-lines.diff"])):
            work = Path(place) / arm.replace(" ", "-")
            app = app_with(work / "app", *changes)
            known = shadows(app, work / "known", asked.policy, asked.shadows, asked.seed)
            victims = shadows(app, work / "victims", asked.policy, asked.phones, asked.seed + 50_000)
            for question in ("member", "cohort"):
                for size in SIZES if question == "member" else SIZES[1:]:
                    seen = view(known, victims, size, question, asked.seed)
                    found = panel(ATTACKERS, seed=asked.seed, device="cpu").judge(seen)
                    read, prior = found.worst.balanced_accuracy, found.prior
                    rows.append(
                        {
                            "arm": arm,
                            "question": question,
                            "size": size,
                            "cohorts": len(seen.victims),
                            "balanced_accuracy": read.as_dict(),
                            "prior": prior.as_dict(),
                            "attacker": found.worst.name,
                        }
                    )
                    sys.stdout.write(
                        f"{arm}, {question} of {size}: {read.estimate:.3f} [{read.low:.3f}, {read.high:.3f}] "
                        f"(prior {prior.estimate:.3f}, {len(seen.victims)} cohorts, {found.worst.name})\n"
                    )
                    sys.stdout.flush()
    if asked.json:
        sys.stdout.write(json.dumps({"seed": asked.seed, "rows": rows}) + "\n")


if __name__ == "__main__":
    main()
