"""Audit: whether a classifier's outputs carry a sensitive attribute that its task does not explain.

`outputs.py` holds what is looked at.
"""

from fedveil.audit.outputs import Outputs

__all__ = ["Outputs"]
