"""The decimal digits and the binary digits of released numbers, as a reader of the file sees them.

A number's decimals are those of the shortest text that stands for it: 0.1 is one decimal, though a computer stores
0.1000000000000000055. Numbers that all fit into 32 bits are read as such, since models often compute with these.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import FloatArray, IntArray

PLACES = 17
"""No double has more decimals that matter, unless it is small: significant digits are looked at as well."""


@dataclass(frozen=True, eq=False)
class Digits:
    """The digits of n numbers; the sign is left out.

    Attributes:
        decimals: (n, 17), the digits after the point, 0 where the number has ended.
        significant: (n, 17), the digits from the first that is not 0.
        printed: (n,), how many decimals the shortest text has, at most 17.
        whole: (n,), the last digit before the point.
        bits: (n, b), bits of the fraction that the computer stores, the least significant first.
        stored: "float32" or "float64".
    """

    decimals: IntArray
    significant: IntArray
    printed: IntArray
    whole: IntArray
    bits: IntArray
    stored: str


def digits_of(numbers: FloatArray) -> Digits:
    """Return the digits of finite numbers.

    >>> digits = digits_of(np.array([0.125, 7.0, 3e-05]))
    >>> digits.decimals[:, :5].tolist(), digits.printed.tolist(), digits.whole.tolist()
    ([[1, 2, 5, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 3]], [3, 0, 5], [0, 7, 0])
    """
    magnitude = np.abs(numbers)
    with np.errstate(over="ignore"):
        narrow = magnitude.astype(np.float32)
    single = bool((narrow.astype(np.float64) == magnitude).all())
    stored: npt.NDArray[np.floating] = narrow if single else magnitude
    texts = [np.format_float_positional(number, unique=True, trim="-") for number in stored]
    wholes, _, fractions = zip(*(text.partition(".") for text in texts), strict=True)
    return Digits(
        decimals=_columns(fractions),
        significant=_columns(
            [(whole + fraction).lstrip("0") for whole, fraction in zip(wholes, fractions, strict=True)]
        ),
        printed=np.array([min(len(fraction), PLACES) for fraction in fractions], dtype=np.int64),
        whole=np.array([int(whole[-1:] or "0") for whole in wholes], dtype=np.int64),
        bits=_fraction_bits(narrow.view(np.uint32), 23) if single else _fraction_bits(magnitude.view(np.uint64), 52),
        stored="float32" if single else "float64",
    )


def _columns(texts: list[str] | tuple[str, ...]) -> IntArray:
    padded = "".join(text[:PLACES].ljust(PLACES, "0") for text in texts)
    codes = np.frombuffer(padded.encode("ascii"), dtype=np.uint8).reshape(-1, PLACES)
    return np.asarray(codes - ord("0"), dtype=np.int64)


def _fraction_bits(patterns: npt.NDArray[np.unsignedinteger], count: int) -> IntArray:
    shifts = np.arange(count, dtype=patterns.dtype)
    return np.asarray((patterns[:, None] >> shifts) & patterns.dtype.type(1), dtype=np.int64)
