"""Reading a user's tables and vectors: every fault is an `InputError` that says what, where, and what to do.

Nothing in a file is ever executed: numpy files that hold Python objects are refused.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedveil.data.csv_reading import decompressed, read_csv, refuse_duplicates
from fedveil.data.encoding import encode_columns, numbers_of
from fedveil.errors import InputError, nearest

__all__ = ["FloatArray", "column", "encode_columns", "read_table", "read_vectors", "same_rows"]

FloatArray = npt.NDArray[np.floating[Any]]

_TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_ARRAYS = (".npy", ".npz")


def read_table(path: str | Path, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a CSV (.csv, .tsv, each also .gz; UTF-8, with a header line) or Parquet file.

    Args:
        path: the file.
        columns: the columns wanted, in that order; all by default.

    Cells that are empty, NA, N/A, NaN or null are missing. Blanks around text are stripped.
    """
    path = Path(path)
    suffix = _suffix(path, _TABLES)
    data = _bytes(path)
    if suffix == ".parquet":
        table = _parquet(data, path, columns)
    else:
        text = decompressed(data, str(path)) if suffix.endswith(".gz") else data
        table = read_csv(
            text, str(path), "\t" if suffix.startswith(".tsv") else ",", lambda names: _wanted(names, columns, path)
        )
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, date_as_object=False)
    if not len(frame):
        raise InputError(f"{path}: has a header but no rows; give a file with rows")
    return frame


def column(frame: pd.DataFrame, name: str, where: str | Path) -> pd.Series:
    """Return one column; a misspelt name is answered with the nearest."""
    if name not in frame.columns:
        raise InputError(f"{where}: no column {name!r}: {nearest(name, map(str, frame.columns))}")
    return frame[name]


def read_vectors(
    path: str | Path, *, key: str | None = None, columns: Sequence[str] | None = None, drop: Sequence[str] = ()
) -> tuple[FloatArray, list[str]]:
    """Read one vector per row from .npy, .npz, CSV or Parquet; return (n, d) floats and the d names.

    Args:
        path: the file.
        key: which array of an .npz file; needed only where it holds several.
        columns: the columns wanted; of an array, their positions ("0", "1", …).
        drop: columns to leave out.

    Arrays of more than two dimensions are flattened to (n, d); a one-dimensional one is a single
    column. float32 stays float32, all else becomes float64. NaN, infinities, text, complex numbers
    and Python objects are refused.
    """
    path = Path(path)
    if _suffix(path, _ARRAYS + _TABLES) in _ARRAYS:
        vectors, names = _flat(_array(path, key), path)
        if columns is None:
            _wanted(names, drop, path)
        chosen = _wanted(names, columns, path)
        kept = [name for name in (names if chosen is None else chosen) if name not in drop]
        if kept != names:
            vectors, names = vectors[:, [int(name) for name in kept]], kept
    else:
        if key is not None:
            raise InputError(f"{path}: a key chooses an array of an .npz file; choose columns of a table")
        frame = read_table(path, columns)
        if columns is None:
            _wanted([str(name) for name in frame.columns], drop, path)
        vectors, names = _columns_as_vectors(frame.drop(columns=[*drop], errors="ignore"), path)
    if not names:
        raise InputError(f"{path}: no column is left to read; drop fewer, or choose others")
    _refuse_non_finite(vectors, names, path)
    return vectors, names


def same_rows(rows: Mapping[str, int]) -> int:
    """Return how many rows all of several files have, or say which two differ.

    >>> same_rows({"vectors.npy": 3, "labels.csv": 3})
    3
    """
    (first, count), *others = rows.items()
    for other, length in others:
        if length != count:
            raise InputError(f"{other} has {length} rows, {first} has {count}; they must match row by row")
    return count


def _suffix(path: Path, known: Sequence[str]) -> str:
    for suffix in sorted(known, key=len, reverse=True):
        if path.name.lower().endswith(suffix):
            return suffix
    raise InputError(f"{path}: cannot tell its format by its name; give one of {', '.join(known)}")


def _bytes(path: Path) -> bytes:
    """Return a file's content, or say why it cannot be had."""
    try:
        data = path.read_bytes()
    except FileNotFoundError as fault:
        raise InputError(f"{path}: no such file{_nearest_file(path)}") from fault
    except IsADirectoryError as fault:
        raise InputError(f"{path}: is a directory; give a file") from fault
    except PermissionError as fault:
        raise InputError(f"{path}: permission denied; make it readable (chmod u+r)") from fault
    except OSError as fault:
        raise InputError(f"{path}: cannot be read ({fault.strerror or fault}); check the path") from fault
    if not data:
        raise InputError(f"{path}: is empty (0 bytes); give a file with rows")
    return data


def _nearest_file(path: Path) -> str:
    try:
        hint = nearest(path.name, (other.name for other in path.parent.iterdir()))
    except OSError:
        return f": there is no folder {path.parent}; check the path"
    return f": {hint}" if hint.startswith("did") else "; check the path"


def _wanted(names: Sequence[str], columns: Sequence[str] | None, where: Path) -> Sequence[str] | None:
    known = set(names)
    for name in columns or ():
        if name not in known:
            raise InputError(f"{where}: no column {name!r}: {nearest(name, names)}")
    if columns is not None:
        refuse_duplicates(list(columns), f"{where}: columns asked for")
    return columns


def _parquet(data: bytes, path: Path, columns: Sequence[str] | None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        file = parquet.ParquetFile(pa.BufferReader(data))
        names = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
        refuse_duplicates(names, str(path))
        table = file.read(columns=list(_wanted(names, columns, path) or names), use_threads=False)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as fault:
        raise InputError(f"{path}: not a whole Parquet file ({_first_line(fault)}); write or fetch it again") from fault
    return table.select(list(columns)) if columns is not None else table


def _array(path: Path, key: str | None) -> npt.NDArray[Any]:
    data = _bytes(path)
    try:
        loaded = np.load(io.BytesIO(data), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            if key is not None:
                raise InputError(f"{path}: holds one array without a name; leave the key {key!r} out")
            return loaded
        with loaded:
            names = list(loaded.files)
            if key is None and len(names) != 1:
                raise InputError(f"{path}: holds {len(names)} arrays ({', '.join(names[:12])}); choose one by key")
            if key is not None and key not in names:
                raise InputError(f"{path}: no array {key!r}: {nearest(key, names)}")
            array = loaded[key if key is not None else names[0]]
    except InputError:
        raise
    except (ValueError, EOFError, OSError, MemoryError, KeyError, zipfile.BadZipFile, zlib.error) as fault:
        if "Object arrays" in str(fault):
            raise InputError(
                f"{path}: holds Python objects, which could run code when read; save plain numbers (float32)"
            ) from fault
        raise InputError(f"{path}: not a whole numpy file; save it again with numpy.save or numpy.savez") from fault
    if not isinstance(array, np.ndarray):  # a zip may hold members that are no arrays
        raise InputError(f"{path}: {key or names[0]!r} is no numpy array; save it again with numpy.savez")
    return array


def _flat(array: npt.NDArray[Any], path: Path) -> tuple[FloatArray, list[str]]:
    if array.dtype.kind == "c":
        raise InputError(f"{path}: holds complex numbers; save real and imaginary parts as columns")
    if array.dtype.kind not in "biuf":
        what = "text" if array.dtype.kind in "US" else f"{array.dtype} values"
        raise InputError(f"{path}: holds {what}, not numbers; save numbers")
    if array.ndim == 0:
        raise InputError(f"{path}: holds a single number; give one vector per row")
    if not len(array):
        raise InputError(f"{path}: has no rows (shape {array.shape}); give one vector per row")
    flat = array.reshape(len(array), -1)
    if array.dtype.kind != "f" or array.dtype.itemsize != 4:
        flat = flat.astype(np.float64)
    return flat.astype(flat.dtype.newbyteorder("="), copy=False), [str(i) for i in range(flat.shape[1])]


def _columns_as_vectors(frame: pd.DataFrame, path: Path) -> tuple[FloatArray, list[str]]:
    blocks: list[FloatArray] = []
    names: list[str] = []
    for name in map(str, frame.columns):
        series = frame[name]
        numbers = None if series.dtype.kind in "mM" else numbers_of(series)
        if numbers is not None:
            blocks.append(numbers[:, None])
            names.append(name)
        elif series.dtype == object and isinstance(series.iloc[0], np.ndarray):  # Parquet: a list per row
            try:
                block = np.stack([np.asarray(row, dtype=np.float64).reshape(-1) for row in series])
            except (TypeError, ValueError) as fault:
                raise InputError(f"{path}: the lists in column {name!r} differ in length or are no numbers") from fault
            blocks.append(block)
            names += [f"{name}[{i}]" for i in range(block.shape[1])]
        else:
            known = series.dropna()
            example = f" (such as {str(known.iloc[0])[:30]!r})" if len(known) else ""
            raise InputError(f"{path}: column {name!r} holds text{example}, not numbers; name others by --columns")
    return np.concatenate([np.zeros((len(frame), 0)), *blocks], axis=1), names


def _refuse_non_finite(vectors: FloatArray, names: Sequence[str], path: Path) -> None:
    finite = np.isfinite(vectors)
    if finite.all():
        return
    bad = np.argwhere(~finite)
    row, position = map(int, bad[0])
    raise InputError(
        f"{path}: {len(bad)} of {vectors.size} values are missing, NaN or infinite (first: row {row + 1}, "
        f"column {names[position]!r}); fill or remove them"
    )


def _first_line(fault: Exception) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0][:120]
