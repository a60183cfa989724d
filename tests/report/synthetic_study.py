"""Synthetic study folders: the layout of a real run and plausible figures, without any training.

The figures follow simple laws (a method's strength lowers leakage and utility), so that tests know what to expect.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file

from fedveil.attacks.judgement import AttackerFigures, Judgement
from fedveil.certificates import GaussianRelease
from fedveil.core.figures import Estimate

ATTACKERS = ("boosting", "mlp-large", "rbf-svm", "logistic")
DRAWS = 200
PEOPLE = 48


@dataclass(frozen=True)
class Law:
    """A method's leakage and utility at each strength, as shares of those of the raw inputs."""

    strengths: Sequence[float | None]
    leaks: Sequence[float]
    serves: Sequence[float]
    cotrained: bool = False
    certified: bool = False


METHODS: dict[str, Law] = {
    "none": Law((None,), (1.0,), (1.0,)),
    "drop-columns": Law((2.0, 5.0, 9.0), (0.8, 0.45, 0.2), (0.97, 0.85, 0.6)),
    "certified-channel": Law((0.5, 1.0, 4.0), (0.9, 0.6, 0.12), (0.95, 0.8, 0.3), certified=True),
    "adversarial": Law((0.5, 2.0), (0.97, 0.9), (0.99, 0.9), cotrained=True),
}


@dataclass
class SyntheticStudy:
    """The study to write; a test sets the fields that it is about."""

    methods: Mapping[str, Law] = field(default_factory=lambda: dict(METHODS))
    seeds: Sequence[int] = (0, 1)
    tasks: Sequence[str] = ("income", "hours")
    attributes: Mapping[str, Sequence[str]] = field(
        default_factory=lambda: {"sex": ("Female", "Male"), "race": ("Black", "Other", "White")}
    )
    unfinished: Sequence[str] = ()
    damaged: Sequence[str] = ()
    without: Mapping[str, Sequence[str]] = field(default_factory=dict)  # cell id -> parts of result.json to remove
    rounds: int = 12
    attackers: Sequence[str] = ATTACKERS
    format: int = 1
    name: str = "adult-small"
    command: str = "fedveil run studies/adult-small.yaml"

    def planned(self) -> list[dict[str, Any]]:
        return [
            {"id": f"m{number}-{index}-seed{seed}", "method": method, "strength": strength, "seed": seed}
            for number, (method, law) in enumerate(self.methods.items())
            for index, strength in enumerate(law.strengths)
            for seed in self.seeds
        ]

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        planned = self.planned()
        facts = {
            "format": self.format,
            "name": self.name,
            "study": {
                "name": self.name,
                "description": "Which defence hides sex and race, and at what cost?",
                "data": {"source": "adult", "target": self.tasks[0], "sensitive": list(self.attributes)},
                "federation": {"devices": 100, "rounds": self.rounds},
                "methods": [
                    {
                        "name": name,
                        "game": {"kind": "fedavg"},
                        "shield": {"kind": "certified"} if law.certified else None,
                        "varies": "shield.sigma" if law.certified else None,
                        "strengths": None if None in law.strengths else list(law.strengths),
                    }
                    for name, law in self.methods.items()
                    if not name.startswith("drop-columns")  # the runner adds it by itself
                ],
                "tasks": list(self.tasks),
                "seeds": list(self.seeds),
                "attacks": {"view": "representations"},
            },
            "command": self.command,
            "version": "0.1.0",
            "revision": "0123abc",
            "cells": planned,
        }
        _json(folder / "study.json", facts)
        for seed in self.seeds:
            save_file(self._inputs(seed), folder / f"inputs-seed{seed}.safetensors")
        for cell in planned:
            home = folder / "cells" / cell["id"]
            home.mkdir(parents=True)
            if cell["id"] in self.damaged:
                (home / "result.json").write_text('{"format": 1, "cell"', encoding="utf-8")
            elif cell["id"] not in self.unfinished:
                self._cell(home, cell)
        return folder

    def _inputs(self, seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        codes = {name: rng.integers(0, len(values), PEOPLE) for name, values in self.attributes.items()}
        first = next(iter(codes.values()))
        x = rng.normal(size=(PEOPLE, 8)).astype(np.float32)
        x[:, 0] += 3 * first
        return {"x": x, **{f"code/{name}": codes[name].astype(np.int64) for name in codes}}

    def _cell(self, home: Path, cell: dict[str, Any]) -> None:
        law = self.methods[cell["method"]]
        at = list(law.strengths).index(cell["strength"])
        rng = np.random.default_rng([cell["seed"], at, list(self.methods).index(cell["method"])])
        draws: dict[str, np.ndarray] = {}
        utility, leakage, cotrained, certificates = {}, {}, {}, {}
        for number, task in enumerate(self.tasks):
            prior, best = (0.75, 0.85) if number == 0 else (0.5, 0.7)
            value = prior + law.serves[at] * (best - prior) + rng.normal(0, 0.002)
            draws[f"utility/{task}"] = np.concatenate([[value], rng.normal(value, 0.004, DRAWS)])
            utility[task] = {
                "task": task,
                "head": "boosting",
                "accuracy": _estimate(value, 0.008),
                "balanced_accuracy": _estimate(value - 0.06, 0.012),
                "prior": prior,
                "validation_accuracy": value + 0.001,
                "by_group": {
                    name: {str(v): _estimate(value + 0.02 * (i - 0.5), 0.015) for i, v in enumerate(values)}
                    for name, values in self.attributes.items()
                },
                "heads": {"boosting": value + 0.001, "mlp": value - 0.004},
                "constants": {"radius": 2.5, "lipschitz": 4.0, "measured": "on test people's releases"},
            }
        for name, values in self.attributes.items():
            chance = 1 / len(values)
            value = chance + law.leaks[at] * 0.3 + rng.normal(0, 0.003)
            draws[f"leakage/{name}"] = np.concatenate([[value], rng.normal(value, 0.006, DRAWS)])
            figures = [_figures(a, value - 0.012 * i, 0.012, chance) for i, a in enumerate(self.attackers)]
            leakage[name] = _judgement(name, values, tuple(figures)).as_dict()
            if law.cotrained:
                cotrained[name] = _figures("co-trained", chance + 0.01 * (1 + at), 0.012, chance).as_dict()
            certificates[name] = []
            if law.certified:
                release = GaussianRelease(1.0, float(cell["strength"]), norm_enforced_at_release=True)
                certificates[name] = [
                    release.certify_balanced_accuracy(len(values)).as_dict(),
                    release.certify_advantage(len(values)).as_dict(),
                    release.certify_accuracy([1 / len(values)] * len(values)).as_dict(),
                ]
        result: dict[str, Any] = {
            "format": 1,
            "cell": cell,
            "utility": utility,
            "leakage": leakage,
            "cotrained": cotrained,
            "floor": {
                task: {
                    name: {
                        "balanced_accuracy": _estimate(1 / len(values) + 0.05, 0.01),
                        "accuracy": _estimate(0.68, 0.01),
                    }
                    for name, values in self.attributes.items()
                }
                for task in self.tasks
            },
            "certificates": certificates,
            "theory": {
                name: {
                    "entropy_bits": 0.92 if len(values) == 2 else 1.3,
                    "gap": {task: 0.2 if len(values) == 2 else None for task in self.tasks},
                }
                for name, values in self.attributes.items()
            },
            "spent": [],
            "utility_only": {},
            "devices": 100,
            "decensoring": {},
            "paths": {"encoder": "stacked"},
            "rounds": self.rounds,
            "bytes_up": 123456,
        }
        for part in self.without.get(cell["id"], ()):
            inner: Any = result
            *above, last = part.split("/")
            for key in above:
                inner = inner[key]
            del inner[last]
        inputs = self._inputs(cell["seed"])
        released = inputs["x"][:, :4] * np.float32(law.leaks[at]) + rng.normal(size=(PEOPLE, 4)).astype(np.float32)
        sample = {key: value for key, value in inputs.items() if key != "x"}
        save_file(
            {"released": released.astype(np.float32), "row": np.arange(PEOPLE), **sample}, home / "sample.safetensors"
        )
        save_file(draws, home / "draws.safetensors")
        save_file({"weight": np.zeros(3, np.float32)}, home / "weights.safetensors")
        versions = {"fedveil": "0.1.0", "torch": "2.9", "python": "3.13", "numpy": "2.3", "sklearn": "1.8"}
        config = {"cell": cell, "study": {}, "versions": versions, "revision": "0123abc", "threads": 1}
        _json(home / "config.json", config)
        losses = [
            {
                "stage": "game",
                "round": r + 1,
                "devices": 100,
                "silent": 0,
                "losses": {
                    "task": 0.3 + 0.5 / (r + 1),
                    **({"adversary": 0.69 - 0.1 / (r + 1)} if law.cotrained else {}),
                },
                "validation": 0.35 + 0.5 / (r + 1),
                "damage": {},
                "bytes_up": 1000,
            }
            for r in range(self.rounds)
        ]
        (home / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in losses), encoding="utf-8")
        _json(home / "timing.json", {"seconds": 1.5, "train": 1.0, "heads": 0.2, "attack": 0.3})
        _json(home / "result.json", result)


def many_cells(settings: int = 500) -> SyntheticStudy:
    """A study of one seed and the given number of settings, as large as a report must handle."""
    strengths = [float(k + 1) for k in range(settings // 4)]
    shares = np.linspace(0.95, 0.05, len(strengths)).tolist()
    return SyntheticStudy(
        methods={
            "none": Law((None,), (1.0,), (1.0,)),
            "drop-columns": Law(strengths[:-1], shares[:-1], [1 - 0.5 * (1 - s) ** 2 for s in shares[:-1]]),
            "certified-channel": Law(strengths, shares, [s**0.5 for s in shares], certified=True),
            "adversarial": Law(strengths, [0.9] * len(shares), [0.95] * len(shares), cotrained=True),
            "other": Law(strengths, [min(1.0, s + 0.1) for s in shares], [s**0.4 for s in shares]),
        },
        seeds=(0,),
        rounds=100,
        attackers=("boosting", "mlp-large", "mlp-small", "rbf-svm", "forest", "logistic"),
    )


def _estimate(value: float, half: float) -> dict[str, float]:
    return Estimate(value, value - half, value + half).as_dict()


def _figures(name: str, value: float, half: float, chance: float) -> AttackerFigures:
    around = Estimate(value, value - half, value + half)
    advantage = Estimate((value - chance) / (1 - chance), 0.0, 1.0)
    return AttackerFigures(name, around, advantage, around, around, advantage, Estimate(0.1, 0.05, 0.15), value + 0.002)


def _judgement(name: str, values: Sequence[str], figures: tuple[AttackerFigures, ...]) -> Judgement:
    return Judgement(
        attribute=name,
        classes=tuple(map(str, values)),
        n=(500, 200, 300),
        unlabelled=0,
        groups=None,
        prior=Estimate(0.67, 0.66, 0.68),
        attackers=figures,
        mutual_information_bits=Estimate(0.1, 0.05, 0.15),
        mutual_information_attacker=figures[0].name,
        detectable_advantage=0.03,
        p_value=1e-9,
        adjusted_p_value=1e-9,
        confidence=0.95,
        seed=0,
    )


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
