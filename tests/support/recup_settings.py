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
