"""Settings of the experiments on curious classifiers and on audits of them, small enough to be run in seconds."""

from __future__ import annotations

from typing import Any

SYNTHETIC: dict[str, Any] = {
    "kind": "curious-synthetic",
    "runs": 2,
    "train": 600,
    "validation": 300,
    "test": 800,
    "margins": [0.1],
    "convex_margins": [0.6],
    "betas": [0.0, 0.2],
    "ridges": [0.1],
    "panel": "rbf-svm",
}
TABLES: dict[str, Any] = {
    "kind": "curious-tables",
    "data": {"source": "synthetic", "options": {"n": 2000, "bits": 0.8}},
    "epochs": 6,
    "runs": 2,
    "panel": "logistic",
    "draws": 100,
    "settings": {
        "Std": {"beta_y": 1.0, "beta_s": 0.0},
        "RawHBC": {"beta_y": 0.7, "beta_s": 0.3},
        "regularised": {"beta_y": 0.5, "beta_s": 0.5, "output": "soft", "attack": "regularised"},
    },
    "blocks": [
        {"name": "dedicated", "target": "u", "secrets": ["u"], "settings": ["Std"]},
        {
            "name": "T",
            "target": "y",
            "secrets": ["u"],
            "settings": ["Std", "RawHBC", "regularised"],
            "pictures": ["roc", "histogram"],
            "joint": True,
        },
    ],
}
DIGITS: dict[str, Any] = {
    "name": "digits",
    "source": "coloured_digits",
    "target": "digit",
    "secret": "colour",
    "options": {"limit": 1200, "correlation": 0.0},
    "merge": {"warm": ["red", "yellow", "orange", "magenta", "brown"], "cool": ["green", "blue", "cyan", "white"]},
    "widths": [8, 8, 8, 8, 16],
    "epochs": 2,
}
"""Needs the published data set mnist."""

_QUICKLY: dict[str, Any] = {"runs": 1, "panel": "logistic", "most": 300, "draws": 100, "fresh": False}
PRUNING: dict[str, Any] = {
    "kind": "curious-pruning",
    "cases": [{**DIGITS, "widths": [16, 16, 16, 16, 32], "epochs": 12}],
    "betas": [[0.0, 0.5, 0.5]],
    "amounts": [0.0, 0.9],
    "listed": [0.9],
    **_QUICKLY,
}
DISTILLATION: dict[str, Any] = {
    "kind": "curious-distillation",
    "cases": [DIGITS],
    "shares": [0.2, 0.5],
    "temperatures": [1.0, 5.0],
    "student_steps": 5,
    **_QUICKLY,
}
AUDIT_CASE: dict[str, Any] = {
    "name": "made up",
    "source": "synthetic",
    "target": "y",
    "secret": "u",
    "options": {"n": 2000, "bits": 0.8, "test": 0.5, "overlap": 0.2},
    "half": "calibration",
    "curve": ["standard", "curious"],
    "recipes": ["standard", "logistic", "curious", "given up", "digit code"],
}
AUDIT: dict[str, Any] = {
    "kind": "audit-verdicts",
    "audited_rows": 700,
    "row_counts": [300, 90000],
    "panel": "logistic",
    "recipes": {
        "standard": {"maker": "network", "epochs": 3},
        "logistic": {"maker": "logistic", "output": "soft"},
        "curious": {"maker": "parameterised", "epochs": 8},
        "given up": {"maker": "parameterised", "epochs": 3, "beta_y": 1.0, "beta_s": 0.0},
        "digit code": {"maker": "logistic", "output": "soft", "code": "fourth decimal"},
    },
    "cases": [AUDIT_CASE],
}
SETTINGS: dict[str, dict[str, Any]] = {
    str(settings["kind"]): settings for settings in (SYNTHETIC, TABLES, PRUNING, DISTILLATION, AUDIT)
}
"""By kind."""
