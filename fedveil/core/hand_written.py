"""Small files that people write by hand: studies and policies. Every fault is told in one line with the file's name."""

from __future__ import annotations

from pathlib import Path

from fedveil.core.errors import InputError


def read_hand_written(path: Path, kind: str, wanted: str, most: int) -> str:
    """Read a file's text.

    Args:
        path: the file.
        kind: what it should be, in a word.
        wanted: what should have been named where it is none.
        most: bytes, far more than any person writes.
    """
    try:
        if path.is_dir():
            raise InputError(f"{path}: is a folder; name {wanted}")
        size = path.stat().st_size
        if size > most:
            raise InputError(f"{path}: {size:,} bytes are more than any {kind} needs ({most:,}); is it a {kind}?")
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; name {wanted}") from None
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror})") from fault
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text; name {wanted}") from None
