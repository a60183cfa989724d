"""Arrays of bytes from a Python pickle that is not trusted.

A pickle is a program: unpickling one may run whatever its author wrote. Here every name that it asks for is refused,
but the three by which numpy writes arrays; and those are answered by stand-ins that only take notes, so that no code of
numpy's ever sees the pickle's own idea of a data type. Numbers, texts, lists and dictionaries need no names.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np

from fedveil.core.errors import InputError

_LARGEST = 256 * 2**20
"""Bytes of a pickle that are read at most."""


class _Dtype:
    """numpy.dtype as a pickle writes it; its further state (byte order) says nothing about single bytes."""

    def __init__(self, code: object = None, *further: object) -> None:
        self.code = code.decode("latin-1") if isinstance(code, bytes) else code

    def __setstate__(self, state: object) -> None:
        pass


class _Array:
    """numpy.ndarray as a pickle writes it."""

    state: Any = None

    def __setstate__(self, state: object) -> None:
        self.state = state


def _reconstruct(*asked: object) -> _Array:
    return _Array()


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
}


class _Reader(pickle.Unpickler):
    """Knows the stand-ins, and no other name."""

    def find_class(self, module: str, name: str) -> Any:
        """Answer a name that the pickle asks for."""
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which data has no need of")
        return _STAND_INS[module, name]

    def persistent_load(self, key: object) -> Any:
        """Refuse references to what lies elsewhere."""
        raise pickle.UnpicklingError("it refers to something outside itself")


def read_pickled_arrays(told: bytes, where: str) -> Any:
    """Return what a pickle holds, texts for bytes among the keys; anything but plain values and bytes is refused.

    Args:
        told: the pickle, of Python 2 or 3.
        where: its name in error messages.
    """
    if len(told) > _LARGEST:
        raise InputError(f"{where}: {len(told)} bytes are more than any batch has; it is not read")
    try:
        return _plain(_Reader(io.BytesIO(told), encoding="bytes").load())
    except Exception as fault:  # a broken pickle may fail in any way
        why = str(fault) or type(fault).__name__
        raise InputError(f"{where}: not a pickle of plain arrays ({' '.join(why.split())}); fetch it again") from fault


def _plain(held: Any) -> Any:
    if isinstance(held, dict):
        return {_text(key): _plain(value) for key, value in held.items()}
    if isinstance(held, list):
        return [_plain(value) for value in held]
    if isinstance(held, _Array):
        return _bytes_of(held)
    if type(held) in (int, float, bool, str, bytes, type(None)):
        return held
    raise ValueError(f"it holds a {type(held).__name__.lstrip('_')}")


def _text(key: object) -> object:
    return key.decode("utf-8") if isinstance(key, bytes) else key


def _bytes_of(array: _Array) -> np.ndarray[Any, np.dtype[np.uint8]]:
    _, shape, dtype, in_columns, raw = array.state
    if not isinstance(dtype, _Dtype) or dtype.code != "u1" or not isinstance(raw, bytes):
        raise ValueError("it holds an array of something else than bytes")
    if not all(type(size) is int and size >= 0 for size in shape) or math.prod(shape) != len(raw):
        raise ValueError(f"it holds {len(raw)} bytes for an array of shape {shape}")
    values = np.frombuffer(raw, dtype=np.uint8)
    return values.reshape(shape[::-1]).T if in_columns else values.reshape(shape)
