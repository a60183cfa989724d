"""Settings of RecUP-FL's experiments, small enough to be run in seconds."""

from __future__ import annotations

from typing import Any

PEOPLE = {"train": 300, "validation": 150, "test": 200}
RECUP: dict[str, Any] = {
    "name": "recup",
    "shield": {"kind": "recup"},
    "setting": "epsilon",
    "values": [0.001],
    "zoo": {"members": 2, "widths": [128, 128]},
}
CASE: dict[str, Any] = {"name": "small", "source": "adult", "attributes": ["sex"], "rounds": [1, 2], "people": PEOPLE}
CURVES: dict[str, Any] = {
    "kind": "update-curves",
    "cases": [CASE],
    "methods": [
        {"name": "sparsify", "shield": {"kind": "sparsify"}, "setting": "p", "norms": [0.3, 9.0], "span": [0.0, 0.99]},
        RECUP,
    ],
    "static": [["max", "logistic"]],
    "adaptive": [["recovered", "logistic"]],
    "pool": [["recovered", "logistic"]],
    "draws": 100,
}
CONVERGENCE: dict[str, Any] = {
    "kind": "convergence",
    "case": {
        "source": "adult",
        "attributes": ["sex", "race"],
        "rounds": [1],
        "length": 3,
        "people": PEOPLE,
        "settings": {"records": 2, "together": "sex"},
    },
    "methods": [RECUP],
    "participation": [0.5, 1.0],
    "aggregations": ["mean", "median"],
    "every": 1,
}
TRANSFER: dict[str, Any] = {
    "kind": "transfer",
    "case": CASE,
    "clients": 40,
    "zoo": {"members": 5, "widths": [128] * 5},
}
COST: dict[str, Any] = {"kind": "shield-cost", "clients": 2, "turns": 1, "few": True}
RECONSTRUCTION: dict[str, Any] = {
    "kind": "reconstruction",
    "cases": [
        {
            "name": "made faces",
            "source": "celeba",
            "attributes": ["age"],
            "rounds": [1, 2],
            "options": {"size": 16},
            "settings": {"clients": 8},
            "inversion": {"iterations": 6, "tv_weight": [0.001, 0.1], "over": ["all", "tensor"]},
        }
    ],
    "methods": [
        {
            "name": "DP-Gaussian",
            "shield": {"kind": "dp-gaussian", "clip": None},
            "setting": "sigma",
            "norms": [0.3],
            "span": [1e-12, 10],
        },
        {"name": "sparsify", "shield": {"kind": "sparsify"}, "setting": "p", "values": [0.5]},
    ],
    "victims": 3,
    "defended": 2,
    "tuning": 1,
    "shown": 2,
}
"""Needs a CelebA in FEDVEIL_DATA; `synthetic_celeba` writes one."""

SETTINGS: dict[str, dict[str, Any]] = {
    str(settings["kind"]): settings for settings in (CURVES, CONVERGENCE, TRANSFER, COST, RECONSTRUCTION)
}
"""By kind."""
