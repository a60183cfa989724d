"""Strict reading of CSV: for a row that does not match the header, or text that is not UTF-8, the error names the line.

Files are read by Arrow, which counts the fields of every row. (pandas fills short rows with NaN and may turn the first
fields of long ones into an index; both would shift records against their labels.) Only if something is wrong does a
second, slower pass look for the line.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import unicodedata
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from fedveil.core.errors import InputError

MISSING_MARKS = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL")
"""Cells that count as missing. "None" and "?" do not: in some tables they are values (no religion; Adult)."""


def read_csv(
    data: bytes,
    where: str,
    delimiter: str = ",",
    choose: Callable[[list[str]], Sequence[str] | None] = lambda _: None,
    text: Sequence[str] = (),
) -> Any:
    """Return CSV text as an Arrow table.

    Args:
        data: the file's content.
        where: the file's name in error messages.
        delimiter: what separates columns.
        choose: takes the header's names and returns those of the columns to read, or None for all.
        text: columns that remain text whatever they look like: an id of twenty digits fits no numeric type.
    """
    import pyarrow as pa
    import pyarrow.csv as arrow_csv

    data = _utf8(data, where)
    names = _header(data, where, delimiter)
    chosen = choose(names)

    def parse(block_size: int) -> Any:
        return arrow_csv.read_csv(
            pa.BufferReader(memoryview(data)[_blank_start(data) :]),
            read_options=arrow_csv.ReadOptions(column_names=names, skip_rows_after_names=1, block_size=block_size),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in data),
            convert_options=arrow_csv.ConvertOptions(
                null_values=list(MISSING_MARKS),
                strings_can_be_null=True,
                column_types={name: pa.string() for name in text if name in names},
                include_columns=None if chosen is None else list(chosen),
            ),
        )

    if len(names) == 1:
        _refuse_blank_lines(data, where)
    try:
        try:
            table = parse(1 << 22)
        except pa.ArrowInvalid as fault:
            if "straddl" not in str(fault):
                raise
            table = parse(min(len(data) + 1, 2**31 - 1))  # a row is longer than a block: read all as one block
    except (pa.ArrowException, ValueError) as fault:
        raise _ragged(data, where, delimiter, len(names), fault) from fault
    _refuse_bad_quotes(data, where, delimiter, table.num_rows)
    return _trimmed(table)


def decompressed(data: bytes, where: str) -> bytes:
    """Unpack gzip; a file that is truncated or not gzip is an `InputError`."""
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as fault:
        raise InputError(f"{where}: not a complete gzip file ({fault}); fetch or compress it again") from fault


def _utf8(data: bytes, where: str) -> bytes:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InputError(f"{where}: is UTF-16 text (by its first two bytes); save it as UTF-8")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise InputError(f"{where}: is empty; give a file with a header line and rows")
    if b"\0" in data:
        raise InputError(f"{where}: holds zero bytes (first at byte {data.find(0)}): not UTF-8 text; save it as UTF-8")
    if not data.isascii():
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as fault:
            line = data.count(b"\n", 0, fault.start) + 1
            raise InputError(
                f"{where}: line {line}, byte {fault.start} (0x{data[fault.start]:02x}) is not UTF-8; "
                "convert it, for instance: iconv -f latin1 -t utf-8"
            ) from fault
    return data


def _header(data: bytes, where: str, delimiter: str) -> list[str]:
    """Return the names in the header, or refuse a first line that is not a header."""
    try:
        first = next(_rows(data[_blank_start(data) :][: 1 << 26], delimiter))
    except (csv.Error, StopIteration) as fault:
        raise InputError(
            f"{where}: its header line cannot be read ({fault}); write one line of column names"
        ) from fault
    names = [one_spelling(name.strip()) for name in first]
    if _all_numbers(names):
        raise InputError(f"{where}: its first line holds numbers, not names; add a header line of column names")
    if len(names) == 1 and delimiter == "," and (separator := re.search(r"[;\t|]", names[0])):
        raise InputError(f"{where}: columns seem to be separated by {separator[0]!r}; save it comma-separated")
    names = [name or f"unnamed {position}" for position, name in enumerate(names, 1)]
    refuse_duplicates(names, where)
    return names


def one_spelling(name: str) -> str:
    """Return a name in Unicode's composed form (NFC): é can be one code point, or an e and an accent."""
    return unicodedata.normalize("NFC", name)


def refuse_duplicates(names: Sequence[str], where: str) -> None:
    """Refuse a table in which two columns have the same name."""
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise InputError(f"{where}: has {names.count(repeated[0])} columns named {repeated[0]!r}; rename one")


def _blank_start(data: bytes) -> int:
    """Return the length of the blank lines before the header."""
    blank = re.match(rb"(?:[ \t]*(?:\r\n|\n|\r))*", data)
    return blank.end() if blank else 0


def _all_numbers(names: list[str]) -> bool:
    """Whether a first line is data. 0, 1, 2 … count as names: pandas and numpy give them to unnamed columns."""
    try:
        numbers = [float(name) for name in names]
    except ValueError:
        return False
    return numbers not in ([float(i) for i in range(len(names))], [float(i + 1) for i in range(len(names))])


def _rows(data: bytes, delimiter: str) -> Any:
    # newline="" leaves line ends to the csv module, as its documentation requires
    return csv.reader(
        io.TextIOWrapper(io.BytesIO(data), encoding="utf-8", newline=""), delimiter=delimiter, strict=True
    )


def _refuse_bad_quotes(data: bytes, where: str, delimiter: str, rows: int) -> None:
    """Refuse a quote that is not closed; checked only if quotes are unpaired or there are fewer rows than lines.

    An unclosed quote turns all lines up to the next quote into one cell, which shifts every later row.
    """
    quotes = data.count(b'"')
    body = data.rstrip()
    lines = (body.count(b"\n") or body.count(b"\r")) + 1
    if not quotes or (quotes % 2 == 0 and lines == rows + 1):
        return
    reader, start = _rows(data, delimiter), 1
    try:
        for _ in reader:
            start = reader.line_num + 1
    except csv.Error as fault:
        raise InputError(
            f"{where}: a quote opened on line {start} is not closed, or closed inside a cell ({fault}); "
            "correct it (a quote inside a quoted cell is written twice)"
        ) from fault


def _refuse_blank_lines(data: bytes, where: str) -> None:
    """Refuse blank lines in a file of one column: they may mean a missing value or nothing, so rows could shift."""
    blank = re.compile(rb"(\r\n|\n|\r)[ \t]*(\r\n|\n|\r)").search(data.rstrip(), _blank_start(data))
    if blank:
        line = len(re.findall(rb"\r\n|\n|\r", data[: blank.end(1)])) + 1
        raise InputError(f'{where}: line {line} is blank; remove it, or write "" for a missing value')


def _ragged(data: bytes, where: str, delimiter: str, expected: int, fault: Exception) -> InputError:
    """Return the error for a file that Arrow refused, with the first line at fault."""
    reader, start = _rows(data, delimiter), 1
    try:
        for row in reader:
            if row and len(row) != expected:
                return InputError(
                    f"{where}: line {start} has {len(row)} field{'s' * (len(row) != 1)}, the header has {expected}; "
                    "correct that line (quote a value that holds a comma)"
                )
            start = reader.line_num + 1
    except csv.Error as second:
        return InputError(f"{where}: line {start} cannot be read ({second}); correct that line")
    return InputError(f"{where}: cannot be read as CSV ({fault}); check the file")


def _trimmed(table: Any) -> Any:
    """Strip blanks around text; a cell that is then empty or a mark of a missing value becomes missing."""
    import pyarrow as pa
    import pyarrow.compute as compute

    for position, field in enumerate(table.schema):
        column = table.column(position)
        if pa.types.is_string(field.type) or pa.types.is_large_string(field.type):
            text = compute.utf8_trim_whitespace(column)
            missing = compute.is_in(text, value_set=pa.array(MISSING_MARKS, type=field.type))
            column = compute.if_else(missing, pa.scalar(None, type=field.type), text)
        elif pa.types.is_time(field.type):
            column = column.cast(pa.string())
        else:
            continue
        table = table.set_column(position, field.name, column)
    return table
