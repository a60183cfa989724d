"""Logistic regressions that may stop before they converge: they are judged on validation like any other."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from sklearn.exceptions import ConvergenceWarning

from fedveil.core.shared_context import SharedContext


@contextmanager
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


may_stop_early = SharedContext(_without_warnings)
"""Within it scikit-learn does not warn; shared, since filters of warnings are those of all threads.

scikit-learn's forests replace the filters, too, while they run: whoever runs attackers in threads should restore the
filters afterwards, by `warnings.catch_warnings()` around all of them.
"""
