"""Files that are whole or not there: written beside their place, flushed to the disk, then renamed."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

_CANNOT = (errno.EINVAL, errno.ENOTSUP)
"""What a file system answers that cannot flush a folder."""


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file so that a crash or a power cut leaves the old one or the new one, whole.

    A failure, such as a full disk, raises `OSError` and leaves the old file and nothing else.
    """
    fresh = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    try:
        with fresh.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(fresh, path)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    if os.name == "nt":
        return  # nothing that is open for reading alone can be flushed there
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as fault:
        if fault.errno not in _CANNOT:
            raise
    finally:
        os.close(handle)
