"""What the example's server reads about phones' wearers from real, captured updates: before the mod and after it.

    python examples/flower-quickstart/measure.py [--runs 6] [--nodes 8] [--shadows 400] [--seed 0] [--json]

A real SuperLink and SuperNodes on loopback run the app once unchanged and once with two-lines.diff; capture.diff keeps
what the server receives. After each run the phones get other wearers: runs × nodes victims in total. The attacker is
the server: it has the app, the weights that it sent, and phones (shadows) whose wearers it knows. It is trained on
updates under the same policy, chosen on validation shadows, and scored on the captured updates.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import ArrayRecord

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from make_phones import SEXES, make_phone  # noqa: E402

from fedveil.attacks.judgement import Judgement  # noqa: E402
from fedveil.attacks.panel import panel  # noqa: E402
from fedveil.data.attribute import Attribute  # noqa: E402
from fedveil.flower.captured import Captured  # noqa: E402
from fedveil.flower.loopback import Loopback  # noqa: E402
from fedveil.flower.shadows import shadow_updates  # noqa: E402
from fedveil.updates.features import features  # noqa: E402
from fedveil.view import EVERY_OBSERVER, Capability, Pool, View  # noqa: E402

FEATURES = ("whole", "direction", "recovered")
ATTACKERS = "updates,logistic,stru-nn"
SETTINGS: dict[str, str | int | float | bool] = {"local-epochs": 5, "learning-rate": 0.1}


def app_with(folder: Path, *changes: str) -> Path:
    """Copy the app and apply the changes to it, as a user would."""
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__", "*.diff", "*.py"))
    shutil.copytree(HERE / "quickstart", folder / "quickstart", dirs_exist_ok=True)
    for change in changes:
        with (HERE / change).open("rb") as diff:
            subprocess.run(["patch", "-p1", "--quiet"], stdin=diff, cwd=folder, check=True)  # noqa: S607
    return folder


def phone(folder: Path, seed: int, number: int, policy: Path) -> tuple[dict[str, str], int]:
    """Create a phone with its policy; return its node config and its wearer's sex."""
    folder.mkdir(parents=True, exist_ok=True)
    sex = SEXES.index(make_phone(folder / "records.csv", seed, number))
    shutil.copy(policy, folder / "policy.toml")
    return {"data": str(folder / "records.csv"), "fedveil-policy": str(folder / "policy.toml")}, sex


def deployed(app: Path, work: Path, policy: Path, runs: int, nodes: int, seed: int) -> tuple[Any, np.ndarray, Captured]:
    """Run the app on real processes, each time with other wearers; return the updates that the server received."""
    phones = work / "phones"
    configs = [phone(phones / str(node), seed, node, policy)[0] for node in range(nodes)]
    updates, sexes = [], []
    with Loopback(work / "loopback", nodes=configs) as loopback:
        ids = {str(node.id): number for number, node in enumerate(loopback.started)}
        for run in range(runs):
            wearers = [phone(phones / str(number), seed, run * nodes + number, policy)[1] for number in range(nodes)]
            into = work / f"captured-{run}"
            one_round = {"num-server-rounds": 1, "min-nodes": nodes, "capture": str(into), **SETTINGS}
            loopback.run_app(app, one_round, timeout=600)
            captured = Captured.load(into)
            updates.append(captured.updates)
            sexes += [wearers[ids[node]] for node in captured.nodes]
    return np.concatenate(updates), np.array(sexes), captured


def shadows(app: Path, work: Path, policy: Path, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Have the server's phones train the first weights with the same app, mod and policy."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "quickstart"]:
        del sys.modules[name]
    sys.path.insert(0, str(app))
    try:
        from quickstart.client_app import app as client
        from quickstart.task import make_model

        phones = [phone(work / "shadows" / str(number), seed + 1000, number, policy) for number in range(count)]
        first = ArrayRecord(make_model().state_dict())
        return shadow_updates(client, first, [config for config, _ in phones], SETTINGS), np.array(
            [s for _, s in phones]
        )
    finally:
        sys.path.remove(str(app))


def judge(
    shadow: np.ndarray, shadow_sex: np.ndarray, seen: Captured, victims: np.ndarray, sex: np.ndarray, seed: int
) -> tuple[Judgement, str]:
    """Train attackers on shadows, choose features and attacker on validation shadows, try them on captured updates."""
    split = np.arange(len(shadow)) < 0.7 * len(shadow)
    judgements = []
    for how in FEATURES:
        mean = shadow.mean(axis=0)
        ours, others = (
            features(torch.from_numpy(block - (mean if how == "direction" else 0)), seen.segments, how).numpy()
            for block in (shadow, victims)
        )
        pools = [
            Pool(block.astype(np.float64), {"sex": Attribute("sex", codes, SEXES)}, groups)
            for block, codes, groups in (
                (ours[split], shadow_sex[split], np.flatnonzero(split)),
                (ours[~split], shadow_sex[~split], np.flatnonzero(~split)),
                (others, sex, len(shadow) + np.arange(len(sex))),
            )
        ]
        view = View(*pools, grants=EVERY_OBSERVER | {Capability.SENDERS})
        judgements.append((panel(ATTACKERS, seed=seed, device="cpu").judge(view), how))
    return max(judgements, key=lambda pair: pair[0].worst.balanced_accuracy.estimate)


def accuracy(update: np.ndarray, folder: Path, seed: int) -> float:
    """Return how well the model after one round recognises walking on phones of new people."""
    from quickstart.task import load_data, make_model

    model = make_model()
    flat = torch.nn.utils.parameters_to_vector(model.parameters()).detach() + torch.from_numpy(update).float()
    torch.nn.utils.vector_to_parameters(flat, model.parameters())
    right = []
    for number in range(50):
        make_phone(folder / "fresh.csv", seed + 2000, number)
        x, y = load_data(folder / "fresh.csv")
        right.append((model(x).argmax(1) == y).float().mean().item())
    return float(np.mean(right))


def main() -> None:
    """Measure both arms and print them."""
    parser = argparse.ArgumentParser(description="Leakage of the example before and after the mod.")
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--nodes", type=int, default=8)
    parser.add_argument("--shadows", type=int, default=400)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", type=Path, default=HERE / "policy.toml")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    answer: dict[str, Any] = {
        "seed": arguments.seed,
        "victims": arguments.runs * arguments.nodes,
        "shadows": arguments.shadows,
    }
    with tempfile.TemporaryDirectory() as scratch:
        for arm, changes in (("before", ["capture.diff"]), ("after", ["capture.diff", "two-lines.diff"])):
            work = Path(scratch) / arm
            app = app_with(work / "app", *changes)
            shadow, shadow_sex = shadows(app, work, arguments.policy, arguments.shadows, arguments.seed)
            victims, sex, seen = deployed(app, work, arguments.policy, arguments.runs, arguments.nodes, arguments.seed)
            judgement, how = judge(shadow, shadow_sex, seen, victims, sex, arguments.seed)
            read, useful = judgement.worst.balanced_accuracy, accuracy(victims.mean(axis=0), work, arguments.seed)
            answer[arm] = {
                "balanced_accuracy": read.as_dict(),
                "prior": judgement.prior.as_dict(),
                "attacker": judgement.worst.name,
                "features": how,
                "accuracy_after_one_round": useful,
            }
            sys.stdout.write(
                f"{arm}: sex read at {read.estimate:.3f} [{read.low:.3f}, {read.high:.3f}] (balanced accuracy; "
                f"prior {judgement.prior.estimate:.3f}; {judgement.worst.name} on {how}), {len(sex)} victims; the "
                f"model after one round is right on {useful:.3f} of new people's windows\n"
            )
    if arguments.json:
        sys.stdout.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
