"""Which class each score column is about; where that cannot be known it is asked, never guessed."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fedveil.core.errors import InputError

_PREFIX = re.compile(r"(?i)^(?:p|prob|probability|proba|score|logit|z|y|class|out|output)?[\W_]*(.+)$")


def class_order(
    columns: Sequence[str], values: Sequence[str], classes: Sequence[str] | None, where: str, target: str
) -> list[str]:
    """Return the classes in the order of the score columns; for a single column [first, second class].

    Args:
        columns: names of the score columns.
        values: the target's values, sorted.
        classes: the order, where the user says it.
        where, target: for messages.

    Understood without being said: columns that are named like the values (yes, p_yes, score no, p0), and, where no
    column's name says anything, values 0 … Y−1 in the order of the columns. A single column is the score of class 1
    of 0 and 1, of true of false and true, or of the value that it is named like.

    >>> class_order(["p_no", "p_yes"], ["no", "yes"], None, "file.csv", "y")
    ['no', 'yes']
    >>> class_order(["a", "b", "c"], ["0", "2"], None, "file.csv", "y")
    ['0', '1', '2']
    >>> class_order(["risk_yes"], ["no", "yes"], None, "file.csv", "y")
    Traceback (most recent call last):
    fedveil.core.errors.InputError: file.csv: cannot know which value of 'y' column 'risk_yes' is about; ...
    """
    if classes:
        return _said(columns, values, list(classes), where, target)
    if len(columns) == 1:
        return _single(columns[0], values, where, target)
    named = [_class_named(column) for column in columns]
    if len(set(named)) == len(named) and set(values) <= set(named):
        return named
    places = [str(place) for place in range(len(columns))]
    if set(values) <= set(places) and not any(re.search(r"\d", column) for column in columns):
        return places
    if set(values) <= set(places) and named != places:
        raise InputError(
            f"{where}: values of {target!r} are {', '.join(values)}, but the score columns are {', '.join(columns)}; "
            f"say which is which by --classes, such as --classes {','.join(places)}"
        )
    lost = [value for value in values if value not in named]
    if len(lost) < len(values) or len(values) > len(columns):
        raise InputError(
            f"{where}: value {lost[0]!r} of {target!r} has no score column among {', '.join(columns)}; name all score "
            "columns in --scores, or say their order by --classes"
        )
    raise InputError(
        f"{where}: cannot know which score column ({', '.join(columns)}) is about which value of {target!r}; say it in "
        f"their order: --classes {','.join(values)}"
    )


def _class_named(column: str) -> str:
    """Return what a column's name says after p, prob, score, …: "p_yes" and "yes" say yes, "p0" says 0."""
    found = _PREFIX.match(column)
    rest = found[1] if found else column
    glued = len(rest) < len(column) and not re.search(r"[\W_]", column[: len(column) - len(rest)])
    return column if glued and not rest.isdigit() else rest  # "pink" is no p of "ink"


def _said(columns: Sequence[str], values: Sequence[str], classes: list[str], where: str, target: str) -> list[str]:
    wanted = max(2, len(columns))
    if len(classes) != wanted or len(set(classes)) != wanted:
        raise InputError(
            f"--classes {','.join(classes)}: name {wanted} different classes, in the order of the "
            f"{'score columns' if len(columns) > 1 else 'score: first the class of low scores, then that of high ones'}"
        )
    for value in values:
        if value not in classes:
            raise InputError(f"{where}: value {value!r} of {target!r} is not among --classes {','.join(classes)}")
    return classes


def _single(column: str, values: Sequence[str], where: str, target: str) -> list[str]:
    if len(values) > 2:
        raise InputError(
            f"{where}: {target!r} has {len(values)} values ({', '.join(values[:6])}{', …' * (len(values) > 6)}), and "
            f"one score column ({column!r}) tells two apart; name one column per class in --scores"
        )
    if set(values) <= {"0", "1"}:
        return ["0", "1"]
    if {value.lower() for value in values} == {"false", "true"}:
        return sorted(values, key=str.lower)
    about = _class_named(column)
    if len(values) == 2 and about in values:
        return [next(value for value in values if value != about), about]
    raise InputError(
        f"{where}: cannot know which value of {target!r} column {column!r} is about; say it by --classes, the class of "
        f"high scores last, such as --classes {','.join(values)}"
    )
