"""Where a page may be written."""

from __future__ import annotations

from pathlib import Path

from fedveil.core.errors import InputError


def check_place(out: Path, source: Path | None = None) -> None:
    """Refuse a place for the page that cannot be written, before time is spent."""
    if out.is_dir():
        raise InputError(f"{out}: is a directory; name a file with --out")
    if not out.parent.is_dir():
        raise InputError(f"{out}: there is no directory {out.parent}; make it first")
    if source is not None and out.exists() and source.exists() and out.samefile(source):
        raise InputError(f"{out}: is the file that is audited; name another with --out")
