"""Reading a user's tables and vectors: every fault is an `InputError` that says what is wrong, where, and what to do.

Nothing in a file is ever executed; numpy files that hold Python objects are refused.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fedveil.core.arrays import FloatingArray, first_non_finite
from fedveil.core.errors import InputError, closest, nearest
from fedveil.data.csv_reading import decompressed, one_spelling, read_csv, refuse_duplicates
from fedveil.data.encoding import nested_kind, numbers_of, text_of

_TABLES = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".parquet")
_ARRAYS = (".npy", ".npz")


def read_table(path: str | Path, columns: Sequence[str] | None = None, *, text: Sequence[str] = ()) -> pd.DataFrame:
    """Read a CSV (.csv, .tsv, each also .gz; UTF-8, with a header line) or Parquet file.

    Args:
        path: the file.
        columns: the columns to read, in this order (default: all).
        text: columns of a CSV file that stay text even if they look like numbers.

    Cells that are empty, NA, N/A, NaN or null are missing. Blanks around text are stripped. Names are compared,
    and returned, in Unicode's composed form (NFC).
    """
    path = Path(path)
    suffix = _suffix(path, _TABLES)
    data = _bytes(path)
    if suffix == ".parquet":
        table = _parquet(data, path, columns)
    else:
        content = decompressed(data, str(path)) if suffix.endswith(".gz") else data
        delimiter = "\t" if suffix.startswith(".tsv") else ","
        table = read_csv(content, str(path), delimiter, lambda names: _wanted(names, columns, path), text)
    frame: pd.DataFrame = table.to_pandas(ignore_metadata=True, date_as_object=False)
    if not len(frame):
        raise InputError(f"{path}: has a header but no rows; give a file with rows")
    return frame


def column(frame: pd.DataFrame, name: str, where: str | Path) -> pd.Series:
    """Return one column; for a misspelt name the error suggests the nearest. Lists, structs and maps are refused."""
    name = one_spelling(name)
    if name not in frame.columns:
        raise InputError(f"{where}: no column {name!r}: {nearest(name, map(str, frame.columns))}")
    kind = nested_kind(frame[name])
    if kind is not None:
        raise InputError(f"{where}: column {name!r} holds {kind}, not one value per row; choose another")
    return frame[name]


def read_vectors(
    path: str | Path,
    *,
    key: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    mapped: bool = False,
) -> tuple[FloatingArray, list[str]]:
    """Read one vector per row from .npy, .npz, CSV or Parquet; return (n, d) floats and the d names.

    Args:
        path: the file.
        key: which array of an .npz file; needed only if it holds several.
        columns: the columns to read; of an array, their positions ("0", "1", …).
        drop: columns to leave out.
        mapped: leave an .npy file on disk and read its rows when they are used, which saves its size in memory; the
            file must not be written while the vectors are in use.

    Arrays of more than two dimensions are flattened to (n, d); an array of one dimension is a single
    column. float32 stays float32, other numbers become float64. NaN, infinities, text, complex numbers
    and Python objects are refused.
    """
    path = Path(path)
    drop = [one_spelling(name) for name in drop]
    if _suffix(path, _ARRAYS + _TABLES) in _ARRAYS:
        vectors, names = _flat(_array(path, key, mapped), path)
        if columns is None:
            _wanted(names, drop, path)
        chosen = _wanted(names, columns, path)
        selected = [name for name in (names if chosen is None else chosen) if name not in drop]
        if selected != names:
            vectors, names = vectors[:, [int(name) for name in selected]], selected
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


def read_array(path: str | Path, key: str | None = None) -> FloatingArray:
    """Read numbers from .npy or .npz as `read_vectors` does, but keep their shape (n, …); one dimension is (n, 1)."""
    path = Path(path)
    _suffix(path, _ARRAYS)
    array = _array(path, key)
    vectors, names = _flat(array, path)
    _refuse_non_finite(vectors, names, path)
    return vectors if array.ndim < 3 else vectors.reshape(array.shape)


def same_rows(rows: Mapping[str, int]) -> int:
    """Return the number of rows that several files have in common, or raise an error that says which two differ.

    >>> same_rows({"vectors.npy": 3, "labels.csv": 3})
    3
    """
    (first, count), *others = rows.items()
    for other, length in others:
        if length != count:
            raise InputError(f"{other} has {length} rows, {first} has {count}; they must match row by row")
    return count


def _suffix(path: Path, allowed: Sequence[str]) -> str:
    for suffix in sorted(allowed, key=len, reverse=True):
        if path.name.lower().endswith(suffix):
            return suffix
    raise InputError(f"{path}: its name does not show its format; give one of {', '.join(allowed)}")


def _bytes(path: Path) -> bytes:
    """Return a file's content, or raise an error that says why it cannot be read."""
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
        names = sorted(other.name for other in path.parent.iterdir())
    except OSError:
        return f": there is no folder {path.parent}; check the path"
    # Names are compared without their endings, which unrelated files share; among equal names, the same ending wins.
    names.sort(key=lambda name: _parts(name)[1] == _parts(path.name)[1])
    by_stem = {_parts(name)[0]: name for name in names if _parts(name)[1]}
    close = closest(_parts(path.name)[0], by_stem)
    return "; check the path" if close is None else f": did you mean {by_stem[close]!r}?"


def _parts(name: str) -> tuple[str, str]:
    """Split a file's name before the ending that shows its format; the ending is empty if we do not know it."""
    endings = (ending for ending in sorted(_TABLES + _ARRAYS, key=len, reverse=True) if name.lower().endswith(ending))
    ending = next(endings, "")
    return name[: len(name) - len(ending)], ending


def _wanted(names: Sequence[str], columns: Sequence[str] | None, where: Path) -> list[str] | None:
    """Return the chosen columns in the table's spelling; refuse one that the table lacks."""
    if columns is None:
        return None
    existing, chosen = set(names), [one_spelling(name) for name in columns]
    for position, name in enumerate(chosen):
        if name not in existing:
            raise InputError(f"{where}: no column {name!r}: {nearest(name, names)}")
        if name in chosen[:position]:
            raise InputError(f"{where}: column {name!r} is named twice; name it once")
    return chosen


def _parquet(data: bytes, path: Path, columns: Sequence[str] | None) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        file = parquet.ParquetFile(pa.BufferReader(data), page_checksum_verification=True)
        stored = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
        names = [one_spelling(name) for name in stored]
        refuse_duplicates(names, str(path))
        in_file, chosen = dict(zip(names, stored, strict=True)), _wanted(names, columns, path) or names
        table = file.read(columns=[in_file[name] for name in chosen], use_threads=False)
    except InputError:
        raise
    except (pa.ArrowException, OSError, ValueError) as fault:
        raise InputError(
            f"{path}: not a complete Parquet file ({_first_line(fault)}); write or fetch it again"
        ) from fault
    return _text_decoded(table.select([in_file[name] for name in chosen]).rename_columns(chosen))


def _text_decoded(table: Any) -> Any:
    """Return the table with columns of bytes as text, if all of the column is UTF-8."""
    import pyarrow as pa

    for position, field in enumerate(table.schema):
        if pa.types.is_binary(field.type) or pa.types.is_large_binary(field.type):
            try:
                table = table.set_column(position, field.name, table.column(position).cast(pa.string()))
            except pa.ArrowException:
                continue
    return table


def _array(path: Path, key: str | None, mapped: bool = False) -> npt.NDArray[Any]:
    if mapped and key is None and path.name.lower().endswith(".npy"):
        with suppress(ValueError, EOFError, OSError):  # below, the same fault is put in words
            return np.asarray(np.load(path, mmap_mode="r", allow_pickle=False))
    data = _bytes(path)
    try:
        loaded = np.load(io.BytesIO(data), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            if key is not None:
                raise InputError(f"{path}: holds a single array without a name; leave out the key {key!r}")
            return loaded
        with loaded:
            names = list(loaded.files)
            if key is None and len(names) != 1:
                raise InputError(f"{path}: holds {len(names)} arrays ({', '.join(names[:12])}); choose one by --key")
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
        raise InputError(f"{path}: not a complete numpy file; save it again with numpy.save or numpy.savez") from fault
    if not isinstance(array, np.ndarray):  # a zip may hold files that are not arrays
        raise InputError(f"{path}: {key or names[0]!r} is not a numpy array; save it again with numpy.savez")
    return array


def _flat(array: npt.NDArray[Any], path: Path) -> tuple[FloatingArray, list[str]]:
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


def _columns_as_vectors(frame: pd.DataFrame, path: Path) -> tuple[FloatingArray, list[str]]:
    blocks: list[FloatingArray] = []
    names: list[str] = []
    for name in map(str, frame.columns):
        series = frame[name]
        numbers = None if series.dtype.kind in "mM" else numbers_of(series)
        if numbers is not None:
            blocks.append(numbers[:, None])
            names.append(name)
        elif nested_kind(series) == "lists":  # Parquet: a list per row
            blocks.append(_lists_as_vectors(series, path))
            names += [f"{name}[{i}]" for i in range(blocks[-1].shape[1])]
        else:
            raise InputError(f"{path}: column {name!r} holds {_no_numbers(series)}; name others by --columns")
    return np.concatenate([np.zeros((len(frame), 0)), *blocks], axis=1), names


def _lists_as_vectors(series: pd.Series, path: Path) -> FloatingArray:
    rows: list[npt.NDArray[np.float64]] = []
    for number, row in enumerate(series, 1):
        if not isinstance(row, np.ndarray | list | tuple):
            raise InputError(f"{path}: column {series.name!r} has no list in row {number}; fill or remove that row")
        try:
            rows.append(np.asarray(row, dtype=np.float64))
        except (TypeError, ValueError) as fault:
            raise InputError(
                f"{path}: the list in row {number} of column {series.name!r} holds more than numbers; save numbers"
            ) from fault
        if len(rows[-1]) != len(rows[0]):
            raise InputError(
                f"{path}: the lists in column {series.name!r} differ in length ({len(rows[0])} in row 1, "
                f"{len(rows[-1])} in row {number}); save lists of one length"
            )
    return np.stack(rows)


def _no_numbers(series: pd.Series) -> str:
    """Return what a column holds instead of numbers, in words."""
    kind = nested_kind(series)
    if kind is not None:
        return f"{kind}, not numbers or lists of numbers"
    present = series.dropna()
    example = f" (such as {text_of(present.iloc[0])[:30]!r})" if len(present) else ""
    what = {"m": "durations", "M": "dates"}.get(series.dtype.kind, "text" if len(present) else "nothing")
    return f"{what}{example}, not numbers"


def _refuse_non_finite(vectors: FloatingArray, names: Sequence[str], path: Path) -> None:
    if first_non_finite(vectors) is None:
        return
    bad = np.argwhere(~np.isfinite(vectors))
    row, position = map(int, bad[0])
    raise InputError(
        f"{path}: {len(bad)} of {vectors.size} values are missing, NaN or infinite (first: row {row + 1}, "
        f"column {names[position]!r}); fill or remove them"
    )


def _first_line(fault: Exception) -> str:
    return (str(fault).splitlines() or [type(fault).__name__])[0][:120]
