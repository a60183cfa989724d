"""Errors that a user can correct, each described in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Input that cannot be used. The message is one line that says what is wrong, where, and what to do about it.

    The command line prints this line and exits with status 2, before anything has been written.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class InterruptedWork(Exception):  # noqa: N818 (a person stopped it: that is not an error)
    """Work that a person stopped, with a line that says what was saved; the command line then exits with 130."""


def closest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice closest to a misspelt name, or None if none is close.

    >>> closest("s3", ["s2", "t"]), closest("missing", ["inf"])
    ('s2', None)
    """
    by_lower_case = {choice.lower(): choice for choice in choices}
    # In a name of two letters, one may be wrong; for longer names, half of the letters would match by chance.
    close = difflib.get_close_matches(name.lower(), list(by_lower_case), n=1, cutoff=0.5 if len(name) < 3 else 0.6)
    return by_lower_case[close[0]] if close else None


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return a hint that names the choice closest to a misspelt name, or lists the choices.

    >>> nearest("sexx", ["sex", "race"])
    "did you mean 'sex'?"
    >>> nearest("zzz", ["sex", "race"])
    'choose from: sex, race'
    """
    names = [str(choice) for choice in choices]
    close = closest(name, names)
    if close is not None:
        return f"did you mean {close!r}?"
    listed = ", ".join(names[:12]) + (f", … ({len(names)} in total)" if len(names) > 12 else "")
    return f"choose from: {listed}" if names else "there are none"
