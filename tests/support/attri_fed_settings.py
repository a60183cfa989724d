"""Settings of Attri-Fed's experiments, small enough to be run in seconds."""

from __future__ import annotations

from typing import Any

STUDY: dict[str, Any] = {
    "kind": "attri-fed",
    "data": {
        "source": "coloured_digits",
        "target": "digit",
        "attribute": "colour",
        "test": 200,
        "options": {"limit": 1500},
    },
    "participants": [2],
    "samples": 100,
    "game": {"width": 3, "initial_rounds": 1, "private_rounds": 2, "federated_rounds": 1, "steps": 2},
    "methods": [
        {"name": "none", "game": {"variant": "none"}},
        {"name": "grey", "game": {"variant": "none"}, "data": {"greyscale": True}},
        {"name": "eeo", "game": {"variant": "eeo"}},
        {"name": "dp", "dp": {"epsilon": 8.0, "epochs": 1, "width": 3}},
        {"name": "adversarial", "game": {"kind": "adversarial", "hidden": [8], "width": 4}},
    ],
    "panel": "logistic",
}
ACCOUNTING: dict[str, Any] = {
    **STUDY,
    "kind": "attri-fed-accounting",
    "methods": [
        {"name": "none", "game": {"variant": "none"}},
        {"name": "eeo", "game": {"variant": "eeo", "reach": 1}},
        {"name": "certified", "game": {"variant": "none"}, "shield": {"kind": "certified", "sigma": 2.0}},
    ],
}
