"""Audit: whether a classifier's outputs carry a sensitive attribute that its task does not explain.

`outputs.py` holds what is looked at, `reading.py` reads it from a file, `seen.py` says what attackers see of it;
`explained.py` counts what labels give away, `excess.py` measures what scores add, `spread.py` their entropy;
`auditing.py` joins these, `verdict.py` decides by the limits of `calibration.py`, `page.py` shows it all.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedveil.audit.auditing import Audit, audit, audit_all
    from fedveil.audit.calibration import LIMITS, Limits
    from fedveil.audit.outputs import Outputs
    from fedveil.audit.page import write_page
    from fedveil.audit.reading import read_outputs

__all__ = ["LIMITS", "Audit", "Limits", "Outputs", "audit", "audit_all", "read_outputs", "write_page"]

_HOME = {
    "LIMITS": "calibration",
    "Audit": "auditing",
    "Limits": "calibration",
    "Outputs": "outputs",
    "audit": "auditing",
    "audit_all": "auditing",
    "read_outputs": "reading",
    "write_page": "page",
}


def __getattr__(name: str) -> Any:
    # Looked up when first used: whoever makes outputs need not wait for the attackers to load.
    if name in _HOME:
        return getattr(importlib.import_module(f"fedveil.audit.{_HOME[name]}"), name)
    raise AttributeError(f"module 'fedveil.audit' has no attribute {name!r}")
