"""Writing files atomically, reading files that people wrote by hand, and converting values for JSON."""

from __future__ import annotations

import errno
import math
import os
import threading
from pathlib import Path
from typing import Any

from fedveil.core.errors import InputError

_CANNOT_FLUSH = (errno.EINVAL, errno.ENOTSUP)
"""Error codes of file systems that cannot flush a folder."""


def write_atomically(path: Path, content: bytes | str) -> None:
    """Write a file so that a crash or a power cut leaves either the old file or the new one, complete.

    The content is written to a temporary file in the same folder, flushed to the disk, then renamed. A failure, such
    as a full disk, raises `OSError`, leaves the old file as it was and removes the temporary one.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.new")
    try:
        with temporary.open("wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    sync(path.parent)


def sync(path: Path) -> None:
    """Wait until a file's content, or a folder's list of names, is on the disk."""
    if os.name == "nt":
        return  # Windows cannot flush a file that is open for reading only
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as fault:
        if fault.errno not in _CANNOT_FLUSH:
            raise
    finally:
        os.close(handle)


def read_hand_written(path: Path, kind: str, expected: str, most_bytes: int) -> str:
    """Read the text of a file that a person wrote: a study or a policy.

    A file that is missing, too large, unreadable or not UTF-8 is an `InputError` that names it.

    Args:
        path: the file.
        kind: what it should be, in one word: "study".
        expected: what to name instead, for the error message: "a study, a YAML file".
        most_bytes: the largest plausible size of such a file.
    """
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; name {expected}")
        size = path.stat().st_size
        if size > most_bytes:
            raise InputError(f"{path}: {size:,} bytes are more than any {kind} needs ({most_bytes:,}); is it a {kind}?")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; name {expected}") from None
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror})") from fault
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text; name {expected}") from None


def plain(value: Any) -> Any:
    """Return a value in a form that JSON can hold: tuples become lists, and NaN and infinities become None.

    >>> plain({"a": (1, float("nan"))})
    {'a': [1, None]}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
