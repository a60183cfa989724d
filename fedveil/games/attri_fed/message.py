"""Messages: rounded representations encoded as bytes by range coding (constriction), and decoded exactly.

A header of 22 bytes (format, the code's digest, records and dimensions, a checksum of all) precedes the payload. A
message that was made with another code, cut short or altered is refused.
"""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fedveil.core.arrays import IntArray
from fedveil.core.errors import InputError
from fedveil.games.attri_fed.code import CODED, FAR, FAR_BITS, RAW, RateCode

_MAGIC = b"fvR1"
_HEADER = struct.Struct("<4s8sIHI")
HEADER_BYTES = _HEADER.size
_HALF = 2**16
MOST_RECORDS = 2**20
"""The most records in one message, so that a forged count cannot exhaust memory."""


@dataclass(frozen=True)
class Packed:
    """A message and its cost.

    Attributes:
        data: header and payload.
        escaped: how many records have a number outside the tables and are sent verbatim.
        estimated_bits: the payload's length by the code's probabilities.
    """

    data: bytes
    escaped: int
    estimated_bits: float

    @property
    def payload_bytes(self) -> int:
        """Bytes of the payload, without the header."""
        return len(self.data) - HEADER_BYTES


def pack(values: npt.ArrayLike, code: RateCode) -> Packed:
    """Encode rounded representations (records, dimensions)."""
    coder = _coder()
    ways, bits = code.ways_and_bits(values)
    whole = np.asarray(values).astype(np.int64)
    if len(whole) > MOST_RECORDS:
        raise InputError(f"message: {len(whole)} records are more than {MOST_RECORDS}; send several messages")
    queue = coder.queue.RangeEncoder()
    queue.encode(ways.astype(np.int32), _flags(coder, code))
    for cells, table in zip(code.cells(whole), code.tables, strict=True):
        if table.size > 1:  # a table of one cell needs no bits
            queue.encode(cells[ways == CODED].astype(np.int32), _table(coder, table))
            queue.encode(cells[ways == RAW].astype(np.int32), coder.model.Uniform(table.size))
    far = (whole[ways == FAR].reshape(-1) + 2**31).astype(np.int64)
    for part in (far // _HALF, far % _HALF):
        queue.encode(part.astype(np.int32), coder.model.Uniform(_HALF))
    payload = _trimmed(queue.get_compressed())
    head = (_MAGIC, bytes.fromhex(code.digest)[:8], len(whole), code.width)
    check = zlib.crc32(payload, zlib.crc32(_HEADER.pack(*head, 0)))
    return Packed(_HEADER.pack(*head, check) + payload, int((ways == FAR).sum()), float(bits.sum()))


def unpack(data: bytes, code: RateCode) -> IntArray:
    """Decode a message; refuse one that was made with another code, cut short or altered."""
    if len(data) < HEADER_BYTES:
        raise InputError(f"message: {len(data)} bytes are less than its header of {HEADER_BYTES}; ask for it again")
    magic, digest, count, width, check = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise InputError("message: does not start with the expected header; ask the sender what it is")
    if digest != bytes.fromhex(code.digest)[:8] or width != code.width:
        raise InputError("message: was made with another code; fetch the sender's code, or refuse the message")
    payload = data[HEADER_BYTES:]
    if check != zlib.crc32(payload, zlib.crc32(_HEADER.pack(magic, digest, count, width, 0))):
        raise InputError("message: was cut short or altered (its checksum differs); ask for it again")
    try:
        if count <= MOST_RECORDS:
            return _decoded(payload, count, code)
    except AssertionError:  # how constriction reports bytes that no encoder produced
        pass
    raise InputError("message: is forged (its checksum fits, but its payload does not); do not trust its sender")


def _decoded(payload: bytes, count: int, code: RateCode) -> IntArray:
    coder, width = _coder(), code.width
    words = np.frombuffer(payload + b"\0" * (-len(payload) % 4), dtype="<u4").astype(np.uint32)
    queue = coder.queue.RangeDecoder(words)
    ways = np.asarray(queue.decode(_flags(coder, code), count), dtype=np.int64)
    whole = np.zeros((count, width), dtype=np.int64)
    for run, table in zip(code.runs, code.tables, strict=True):
        cells = np.zeros(count, dtype=np.int64)
        if table.size > 1:
            cells[ways == CODED] = queue.decode(_table(coder, table), int((ways == CODED).sum()))
            cells[ways == RAW] = queue.decode(coder.model.Uniform(table.size), int((ways == RAW).sum()))
        whole[:, run] = np.stack(np.unravel_index(cells, table.shape), axis=1) + code.low[run]
    numbers = int((ways == FAR).sum()) * width
    high, low = (np.asarray(queue.decode(coder.model.Uniform(_HALF), numbers), dtype=np.int64) for _ in range(2))
    whole[ways == FAR] = (high * _HALF + low - 2**31).reshape(-1, width)
    return whole


def verbatim_bytes(count: int, width: int, bits: int = FAR_BITS) -> int:
    """Return the bytes of the same records as plain floats of 32 or 16 bits each."""
    return count * width * bits // 8


def _coder() -> Any:
    try:
        import constriction
    except ImportError:
        raise InputError("messages are coded by constriction: pip install 'fedveil[rate]'") from None
    return constriction.stream


def _flags(coder: Any, code: RateCode) -> Any:
    shares = np.array([1 - code.raw_share - code.far_share, code.raw_share, code.far_share])
    return _table(coder, shares)


def _table(coder: Any, table: Any) -> Any:
    return coder.model.Categorical(np.ascontiguousarray(table).reshape(-1), perfect=False)


def _trimmed(words: Any) -> bytes:
    """Return the words as bytes without trailing zeros, which the decoder restores."""
    return np.asarray(words, dtype="<u4").tobytes().rstrip(b"\0")
