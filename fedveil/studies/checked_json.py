"""JSON files whose shapes and types are checked while they are read; an error names the faulty part by its path."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from fedveil.core.figures import Estimate

JsonObject = dict[str, object]


class Damaged(Exception):  # noqa: N818 (it says what a file is)
    """A file that does not hold what it must; the message says which part, and why."""


def read_json(path: Path) -> JsonObject | None:
    """Return a JSON object; None if the file is missing, damaged, or holds something else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


@dataclass(frozen=True)
class Part:
    """A part of a JSON file, with its path in the file; each method checks that the part has the type it returns."""

    value: object
    path: str

    def fail(self, why: str) -> NoReturn:
        """Raise `Damaged`, with the path of this part and what is wrong with it."""
        raise Damaged(f"{self.path or 'it'} {why}")

    def fields(self) -> JsonObject:
        """Return an object."""
        if not isinstance(self.value, dict):
            self.fail("is not an object")
        return self.value

    def get(self, key: str) -> Part:
        """Return a field; if it is missing, its value is None."""
        return Part(self.fields().get(key), f"{self.path}.{key}" if self.path else key)

    def __getitem__(self, key: str) -> Part:
        field = self.get(key)
        if field.value is None:
            field.fail("is missing")
        return field

    def items(self) -> list[tuple[str, Part]]:
        """Return the names and values of an object."""
        return [(Part(key, f"{self.path}: the name {key!a}").text(), self.get(key)) for key in self.fields()]

    def items_of(self, key: str) -> list[tuple[str, Part]]:
        """Return the names and values of an object that earlier versions did not write."""
        return [] if self.get(key).value is None else self[key].items()

    def entries(self) -> list[Part]:
        """Return the entries of a list."""
        if not isinstance(self.value, list):
            self.fail("is not a list")
        return [Part(value, f"{self.path}[{index}]") for index, value in enumerate(self.value)]

    def entries_of(self, key: str) -> list[Part]:
        """Return the entries of a list that earlier versions did not write."""
        return [] if self.get(key).value is None else self[key].entries()

    def text(self) -> str:
        """Return text."""
        if not isinstance(self.value, str) or not can_be_written(self.value):
            self.fail("is not a text")
        return self.value

    def whole(self) -> int:
        """Return a whole number."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.fail("is not a whole number")
        return self.value

    def whole_of(self, key: str) -> int:
        """Return a count that earlier versions did not write; 0 if it is missing."""
        return 0 if self.get(key).value is None else self[key].whole()

    def number(self) -> float:
        """Return a number; NaN for null."""
        if self.value is None:
            return math.nan
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self.fail("is not a number")
        if abs(self.value) > sys.float_info.max:
            self.fail("is not a finite number")
        return float(self.value)

    def share(self) -> float:
        """Return a number in [0, 1]."""
        share = self.number()
        if not 0 <= share <= 1:
            self.fail("is not in [0, 1]")
        return share

    def estimate(self, confidence: float = 0.95) -> Estimate:
        """Return an estimate with its interval, whose ends may be null."""
        if "estimate" not in self.fields():
            self.fail("has no estimate")
        estimate, low, high = (self.get(name).number() for name in ("estimate", "low", "high"))
        return Estimate(estimate, low, high, confidence)


def can_be_written(text: str) -> bool:
    """Return whether a text can be encoded: JSON can contain single surrogates, which no encoding can write."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)
