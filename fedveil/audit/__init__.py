"""Audit: whether a classifier's outputs carry a sensitive attribute that its task does not explain.

`outputs.py` holds what is looked at, `reading.py` reads it from a file, `seen.py` says what attackers see of it;
`explained.py` counts what labels give away, `excess.py` measures what scores add, `spread.py` their entropy;
`auditing.py` joins these, `verdict.py` decides by the limits of `calibration.py`, `page.py` shows it all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.audit.auditing import Audit as Audit
    from fedveil.audit.auditing import audit as audit
    from fedveil.audit.auditing import audit_all as audit_all
    from fedveil.audit.calibration import LIMITS as LIMITS
    from fedveil.audit.calibration import Limits as Limits
    from fedveil.audit.labelled_inputs import LabelledInputs as LabelledInputs
    from fedveil.audit.labelled_inputs import Wanted as Wanted
    from fedveil.audit.labelled_inputs import outputs_of as outputs_of
    from fedveil.audit.labelled_inputs import read_inputs as read_inputs
    from fedveil.audit.models import ScoringModel as ScoringModel
    from fedveil.audit.models import read_model as read_model
    from fedveil.audit.outputs import Outputs as Outputs
    from fedveil.audit.page import write_page as write_page
    from fedveil.audit.reading import read_outputs as read_outputs

__all__ = lazy(__name__)
