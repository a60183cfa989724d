"""Ledger: what a site has sent, one JSON line per message, in a chain of hashes; kept at the site.

Each entry holds the hash of the entry before it and its own. A second file, the head, holds the number of entries and
the last hash. So entries that were edited, dropped, reordered or cut off at the end are detected, and so is a missing
file of the two. Whoever can write both files can invent a new chain: a ledger guards against accidents, and against
everybody who can write only one of the files. It cannot detect that the whole disk was restored to an earlier state.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout
from pydantic import BaseModel, ConfigDict, Field

from fedveil.core.errors import InputError
from fedveil.core.files import sync, write_atomically
from fedveil.flower.spending import Cost

START = "0" * 64
"""The "hash" before the first entry."""

Sent = Literal["update", "figures"]


class LedgerError(InputError):
    """A ledger that cannot be relied on or written: nothing is sent."""


class Totals(BaseModel):
    """What has been spent up to and including an entry; epsilon is None if it is infinite."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    updates: int = Field(ge=0)
    figures: int = Field(ge=0)
    epsilon: float | None
    delta: float


class Entry(BaseModel):
    """One message that left, or was about to.

    Attributes:
        number: its number, counted from 1.
        time: when it was written, in UTC.
        run, message: Flower's ids of the run and of the message that was answered.
        kind: an update, or figures alone.
        shield: the shield that an update went through.
        costs: what it cost in differential privacy.
        told: the names of the figures that left.
        totals: what has been spent, including this entry.
        policy: SHA-256 of the site's policy file at the time.
        previous, hash: hashes of the entry before and of this one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    number: int = Field(ge=1)
    time: str
    run: int
    message: str
    kind: Sent
    shield: str
    costs: list[Cost]
    told: list[str]
    totals: Totals
    policy: str
    previous: str
    hash: str = ""

    def sealed(self) -> Entry:
        """Return the entry with its hash."""
        return self.model_copy(update={"hash": hashlib.sha256(_canonical(self, seal=False)).hexdigest()})


@dataclass(frozen=True)
class Reading:
    """The content of a ledger whose chain holds.

    Attributes:
        entries: in order.
        size: how many bytes of the file they take; anything after that is an entry whose writing was interrupted, for
            which no message left.
        ahead: whether the last entry is not in the head yet, because writing was interrupted between the two files.
            The entry counts.
    """

    entries: tuple[Entry, ...]
    size: int = 0
    ahead: bool = False

    @property
    def last(self) -> str:
        """The last hash."""
        return self.entries[-1].hash if self.entries else START

    @property
    def costs(self) -> list[Cost]:
        """The costs of all updates."""
        return [cost for entry in self.entries if entry.kind == "update" for cost in entry.costs]

    def count(self, kind: Sent) -> int:
        """Return how many messages of one kind left."""
        return sum(entry.kind == kind for entry in self.entries)


_held: set[tuple[str, int]] = set()
"""Ledgers that a thread of this process holds: a second mod inside the first would wait for it forever."""


class Ledger:
    """A ledger: two files, `FILE` and `FILE.head`, and their lock.

    Attributes:
        path: the file of entries.
        wait: how many seconds to wait for another process that holds the ledger.
    """

    def __init__(self, path: str | Path, wait: float = 10.0) -> None:
        # Links are followed, so that one file has one lock and one head under all its names.
        self.path, self.wait = Path(os.path.realpath(path)), wait
        self.head = self.path.with_name(f"{self.path.name}.head")
        self._seen: tuple[bytes | None, bytes | None, Reading] | None = None

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Hold the ledger, from before the work for a message until its entry is written."""
        key = (str(self.path), threading.get_ident())
        if key in _held:
            raise LedgerError(f"{self.path}: two mods of this app both claim this ledger; keep one shield_mod")
        lock = FileLock(self.path.with_name(f".{self.path.name}.lock"), timeout=self.wait)
        try:
            lock.acquire()
        except Timeout:
            raise LedgerError(
                f"{self.path}: another process has held this ledger for {self.wait:g} s; give each node its own"
            ) from None
        except OSError as fault:
            raise LedgerError(f"{self.path}: cannot be locked ({fault.strerror}); is its folder writable?") from fault
        _held.add(key)
        try:
            yield
        finally:
            _held.discard(key)
            lock.release()

    def read(self) -> Reading:
        """Read the ledger and check all of it."""
        # The head is read first: during a write there may be an entry that the head does not count, but never too few.
        head, content = _content(self.head), _content(self.path)
        if self._seen is None or self._seen[:2] != (content, head):  # unchanged files are not checked again
            self._seen = (content, head, self._checked(content, head))
        return self._seen[2]

    def _checked(self, content: bytes | None, head: bytes | None) -> Reading:
        if head is None:
            if content is None:
                return Reading(())
            raise LedgerError(f"{self.path}: its head, {self.head.name}, is missing; bring both back from a backup")
        count, last = self._headed(head)
        if content is None:
            if count:
                raise LedgerError(f"{self.path}: is missing, but its head counts {count} entries; bring it back")
            content = b""
        lines = content.split(b"\n")[:-1]  # what follows the last line break was interrupted
        entries: list[Entry] = []
        for line in lines:
            entries.append(self._entry(line, len(entries) + 1, entries[-1].hash if entries else START))
        if not count <= len(entries) <= count + 1:
            raise LedgerError(
                f"{self.path}: holds {len(entries)} entries, but its head counts {count}: one of them was changed"
            )
        if (entries[count - 1].hash if count else START) != last:
            raise LedgerError(f"{self.path}: entry {count} is not the one that its head names; one of them was changed")
        return Reading(tuple(entries), sum(len(line) + 1 for line in lines), len(entries) > count)

    def _headed(self, head: bytes) -> tuple[int, str]:
        try:
            content = json.loads(head)
            count, last = content["count"], content["hash"]
            if head != _head(count, last) or type(count) is not int or type(last) is not str or count < 0:
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise LedgerError(f"{self.head}: is not the head of a ledger, or was changed; bring it back") from None
        return count, last

    def _entry(self, line: bytes, number: int, previous: str) -> Entry:
        try:
            entry = Entry.model_validate_json(line)
            unchanged = line == _canonical(entry) and entry.sealed().hash == entry.hash
        except ValueError:  # not JSON, other fields, or a value that is not a number
            raise LedgerError(f"{self.path}: line {number} is not an entry of a ledger, or was changed") from None
        if entry.number != number or entry.previous != previous:
            raise LedgerError(f"{self.path}: line {number} does not follow from the one before: dropped or reordered")
        if not unchanged:
            raise LedgerError(f"{self.path}: line {number} was changed: its hash does not match")
        return entry

    def begin(self, reading: Reading) -> None:
        """Write the head of a new ledger, or of one whose writing was interrupted; fail early if it is not writable.

        Call it while the ledger is claimed.
        """
        if reading.ahead or not self.head.exists():
            self._write_head(reading)

    def append(self, reading: Reading, **facts: Any) -> Reading:
        """Write one entry after those that were read; it is on the disk, and in the head, when this returns.

        Call it while the ledger is claimed. If it fails, nothing may be sent. The entry counts if it reached the disk:
        a crash may count one message too many, but never one too few.
        """
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        entry = Entry(number=len(reading.entries) + 1, time=now, previous=reading.last, **facts).sealed()
        line = _canonical(entry) + b"\n"
        try:
            new = not self.path.exists()
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                os.ftruncate(handle, reading.size)  # drops an entry whose writing was interrupted
                os.lseek(handle, reading.size, os.SEEK_SET)
                if os.write(handle, line) != len(line):
                    raise OSError(errno.ENOSPC, "no space left")
                os.fsync(handle)
            finally:
                os.close(handle)
            if new:
                sync(self.path.parent)
        except OSError as fault:
            raise LedgerError(f"{self.path}: cannot be written ({fault.strerror}); nothing is sent") from fault
        written = Reading((*reading.entries, entry), reading.size + len(line))
        self._write_head(written)
        return written

    def _write_head(self, reading: Reading) -> None:
        try:
            write_atomically(self.head, _head(len(reading.entries), reading.last))
        except OSError as fault:
            raise LedgerError(f"{self.head}: cannot be written ({fault.strerror}); nothing is sent") from fault


def _canonical(entry: Entry, seal: bool = True) -> bytes:
    """Return an entry's only valid spelling: a line that spells the same entry in another way was changed."""
    plain = entry.model_dump(exclude=None if seal else {"hash"})
    return json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _head(count: int, last: str) -> bytes:
    return json.dumps({"count": count, "hash": last}, separators=(",", ":")).encode() + b"\n"


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as fault:
        raise LedgerError(f"{path}: cannot be read ({fault.strerror})") from fault
