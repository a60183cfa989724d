"""Errors that are the user's to mend, told in one line."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Input that cannot be used: one line that says what, where, and what to do.

    The command line prints the line and exits with 2; nothing has been written by then.
    """

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split()))


class InterruptedWork(Exception):  # noqa: N818 (a person stopped it: that is no error)
    """Work that a person stopped, with a line about what is left of it; the command line exits with 130."""


def closest(name: str, choices: Iterable[str]) -> str | None:
    """Return the choice closest to a misspelt name, or None where all are far from it.

    >>> closest("s3", ["s2", "t"]), closest("missing", ["inf"])
    ('s2', None)
    """
    by_lower_case = {choice.lower(): choice for choice in choices}
    # Of two letters one may be wrong; in longer names that much likeness means nothing.
    close = difflib.get_close_matches(name.lower(), list(by_lower_case), n=1, cutoff=0.5 if len(name) < 3 else 0.6)
    return by_lower_case[close[0]] if close else None


def nearest(name: str, choices: Iterable[str]) -> str:
    """Return a hint that names the choice closest to a misspelt name, or lists the choices.

    >>> nearest("sexx", ["sex", "race"])
    "did you mean 'sex'?"
    >>> nearest("zzz", ["sex", "race"])
    'there are: sex, race'
    """
    known = [str(choice) for choice in choices]
    close = closest(name, known)
    if close is not None:
        return f"did you mean {close!r}?"
    shown = ", ".join(known[:12]) + (f", … ({len(known)} in all)" if len(known) > 12 else "")
    return f"there are: {shown}" if known else "there are none"
