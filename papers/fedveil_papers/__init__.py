"""What a preset shows beyond its studies' rows, and experiments that are no studies: one short file per kind.

A preset names it (`shows: matched-leakage`, or a mapping with `kind` and settings); presets of several papers may show
the same kind.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pydantic import ValidationError

from fedveil.core.errors import InputError
from fedveil_papers.experiment import Experiment, Kept
from fedveil_papers.shown import Played, Shown
from fedveil_papers.tappfl.losses_by_strength import LossesByStrength
from fedveil_papers.tappfl.maps import Maps
from fedveil_papers.tappfl.matched_leakage import MatchedLeakage
from fedveil_papers.tappfl.method_matrix import MethodMatrix

__all__ = ["EXPERIMENTS", "KINDS", "Experiment", "Kept", "Played", "Shown", "make_experiment", "make_shown"]

KINDS: dict[str, type[Shown]] = {kind.kind: kind for kind in (MethodMatrix, LossesByStrength, Maps, MatchedLeakage)}

EXPERIMENTS = {
    "attri-fed": "attri_fed.study:AttriFedStudy",
    "attri-fed-accounting": "attri_fed.accounting:AttriFedAccounting",
    "audit-verdicts": "audit_verdicts:AuditVerdicts",
    "convergence": "convergence:Convergence",
    "curious-distillation": "curious_distillation:CuriousDistillation",
    "curious-pruning": "curious_pruning:CuriousPruning",
    "curious-synthetic": "curious_synthetic:CuriousSynthetic",
    "curious-tables": "curious_tables:CuriousTables",
    "reconstruction": "reconstruction:Reconstructions",
    "shield-cost": "shield_cost:ShieldCost",
    "transfer": "transfer:Transfer",
    "update-curves": "update_curves:UpdateCurves",
}
"""What a preset may run in place of studies; each is loaded when asked for, and torch with it."""


def make_experiment(told: Any, where: str) -> Experiment:
    """Return what a preset's `experiment` asks for: a mapping with `kind` and its settings."""
    if not isinstance(told, dict) or told.get("kind") not in EXPERIMENTS:
        raise InputError(f"{where}: {told!r} is not allowed; its kind is one of {', '.join(EXPERIMENTS)}")
    module, _, name = EXPERIMENTS[told["kind"]].partition(":")
    kind = getattr(import_module(f"fedveil_papers.{module}"), name)
    from fedveil.config import parts

    made: Experiment = parts.make(kind, {key: value for key, value in told.items() if key != "kind"}, where)
    return made


def make_shown(told: Any, where: str) -> Shown:
    """Return what a preset's `shows` asks for: a kind's name, or a mapping with `kind` and its settings."""
    from fedveil.config import parts
    from fedveil.config.study import PartSettings

    try:
        part = PartSettings.model_validate({"kind": told} if isinstance(told, str) else told)
    except ValidationError:
        raise InputError(f"{where}: {told!r} is not allowed; name one of {', '.join(KINDS)}") from None
    made: Shown = parts.choose(KINDS, part, where)
    return made
