"""Audit: whether a classifier's outputs carry a sensitive attribute that its task does not explain.

`outputs.py` holds the outputs and what attackers see in them; `reading.py` reads them from a table. `models.py` reads a
model file instead, a `ScoringModel` (`scoring_model.py`) that scores labelled inputs (`labelled_inputs.py`).
`explained.py` counts what labels reveal, `excess.py` measures what scores add to that, `graded.py` measures how much of
it is honest, and `output_entropy.py` measures how certain the outputs are. `codes.py` searches `readings.py`, ways to
read the digits (`digits.py`) and repetitions of scores, for codes. `auditing.py` joins these, `verdict.py` decides,
`evidence.py` says why, `page.py` writes the result as HTML. `percent.py` recognises scores in per cent. `vectors.py`
reads any other vectors, for `fedveil leak`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.audit.auditing import Audit as Audit
    from fedveil.audit.auditing import audit as audit
    from fedveil.audit.auditing import audit_all as audit_all
    from fedveil.audit.labelled_inputs import LabelledInputs as LabelledInputs
    from fedveil.audit.labelled_inputs import Wanted as Wanted
    from fedveil.audit.labelled_inputs import outputs_of as outputs_of
    from fedveil.audit.labelled_inputs import read_inputs as read_inputs
    from fedveil.audit.models import read_model as read_model
    from fedveil.audit.outputs import Outputs as Outputs
    from fedveil.audit.page import write_page as write_page
    from fedveil.audit.reading import read_outputs as read_outputs
    from fedveil.audit.scoring_model import ScoringModel as ScoringModel
    from fedveil.audit.verdict import LIMITS as LIMITS
    from fedveil.audit.verdict import Limits as Limits

__all__ = lazy(__name__)
