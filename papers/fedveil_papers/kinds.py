"""What a preset can name: kinds of experiments, and kinds of tables and figures made of studies.

Each kind is a class, imported when a preset names it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from pydantic import ValidationError

from fedveil.core.errors import InputError
from fedveil_papers.experiment import Experiment
from fedveil_papers.shown import Shown

EXPERIMENTS = {
    # Attri-Fed
    "attri-fed": "attri_fed.study:AttriFedStudy",
    "attri-fed-accounting": "attri_fed.accounting_study:AttriFedAccounting",
    # Honest-but-curious classifiers, and audits of them
    "audit-verdicts": "audit_verdicts.experiment:AuditVerdicts",
    "curious-distillation": "curious.experiments.distillation:CuriousDistillation",
    "curious-pruning": "curious.experiments.pruning:CuriousPruning",
    "curious-synthetic": "curious.experiments.synthetic:CuriousSynthetic",
    "curious-tables": "curious.experiments.tables:CuriousTables",
    # RecUP-FL
    "convergence": "recup.convergence:Convergence",
    "reconstruction": "recup.reconstruction:Reconstructions",
    "shield-cost": "recup.shield_cost:ShieldCost",
    "transfer": "recup.transfer:Transfer",
    "update-curves": "recup.update_curves:UpdateCurves",
}
"""What a preset may measure in place of studies."""

SHOWN = {
    # TAPPFL
    "method-matrix": "tappfl.method_matrix:MethodMatrix",
    "losses-by-strength": "tappfl.losses_by_strength:LossesByStrength",
    "maps": "tappfl.maps:Maps",
    "matched-leakage": "tappfl.matched_leakage:MatchedLeakage",
}
"""What a preset may show of its studies beyond their rows."""


def make_experiment(settings: Any, where: str) -> Experiment[Any]:
    """Return what a preset's `experiment` names: a mapping with `kind` and settings."""
    from fedveil.config import parts

    if not isinstance(settings, dict) or settings.get("kind") not in EXPERIMENTS:
        raise InputError(f"{where}: {settings!r} is not allowed; its kind is one of {', '.join(EXPERIMENTS)}")
    kind = _load(EXPERIMENTS[settings["kind"]])
    experiment: Experiment[Any] = parts.make(kind, {k: v for k, v in settings.items() if k != "kind"}, where)
    return experiment


def make_shown(settings: Any, where: str) -> Shown[Any]:
    """Return what a preset's `shows` names: a kind, or a mapping with `kind` and settings."""
    from fedveil.config import parts
    from fedveil.config.study import PartSettings

    try:
        part = PartSettings.model_validate({"kind": settings} if isinstance(settings, str) else settings)
    except ValidationError:
        raise InputError(f"{where}: {settings!r} is not allowed; name one of {', '.join(SHOWN)}") from None
    kinds = {name: _load(path) if name == part.kind else Shown for name, path in SHOWN.items()}
    shown: Shown[Any] = parts.choose(kinds, part, where)
    return shown


def _load(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(f"fedveil_papers.{module}"), name)
