"""The command line: `fedveil …`, one file per command; `commands.py` joins them into one program.

The program is put together when `app` or `main` is first used, since a distribution that adds a command imports parts
of this package while it is being loaded itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedveil.core.lazy import lazy

if TYPE_CHECKING:
    from fedveil.cli.commands import app as app
    from fedveil.cli.commands import main as main

__all__ = lazy(__name__)
