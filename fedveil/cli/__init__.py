"""The command line: `fedveil …`, one file per command; `commands.py` puts them together.

A user's mistake gets one line on stderr and exit code 2, never a traceback.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.cli.commands import app as app
    from fedveil.cli.commands import main as main

__getattr__, __dir__, __all__ = lazy(__name__)
