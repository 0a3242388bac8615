"""Recovery of records from a damaged SQLite file by their checksums.

SQLite cannot read a table that has one damaged page. A row of the store can be recognised without SQLite's
bookkeeping: it consists of four texts preceded by their lengths, and the last is the SHA-256 of the third. So
a row is found wherever its bytes are, and other bytes are never mistaken for one. Rows longer than a quarter
of a page continue on overflow pages, each of which starts with the number of the next.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

Identity = tuple[int, int]  # device and inode of a file
Row = tuple[str, str, str, str]  # key, kind, record, sha256
PAGE = 4096  # bytes, SQLite's default
_FRAME = 24  # bytes before each page in a write-ahead log, after its header of 32
# lengths of key (32), kind, record, sha256 (64), each 13 + 2 * length as a variable-length integer
_LENGTHS = re.compile(
    rb"[\x06-\x0c]\x4d([\x0d-\x7f]|[\x81-\xff][\x00-\x7f])([\x0d-\x7f]|[\x81-\xff][\x80-\xff]{0,3}[\x00-\x7f])\x81\x0d"
)


def file_identity(path: Path) -> Identity | None:
    """Return the identity of the file at ``path``, or None if there is none."""
    try:
        there = path.stat()
    except OSError:
        return None
    return there.st_dev, there.st_ino


@contextlib.contextmanager
def locked(path: Path) -> Iterator[Identity | None]:
    """Lock the file at ``path`` against replacement by other processes; yield its identity or None."""
    try:
        descriptor = os.open(path, os.O_RDWR)
    except OSError:
        yield file_identity(path)  # missing or not writable; move_aside() reports the error
        return
    try:
        if fcntl is not None:
            with contextlib.suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield file_identity(path)
    finally:
        os.close(descriptor)


def move_aside(path: Path) -> Path:
    """Rename a damaged store together with its journal files; return the new path."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    for end in ("-wal", "-shm"):  # SQLite would apply them to the new file
        journal = path.with_name(path.name + end)
        if journal.exists():
            journal.rename(aside.with_name(aside.name + end))
    return aside


def rescue(path: Path) -> dict[str, Row]:
    """Return all intact rows of the table of records, by key."""
    found: dict[str, Row] = {}
    data = path.read_bytes()
    sizes = {PAGE, int.from_bytes(data[16:18], "big")}
    for size in sizes & {512 << k for k in range(8)}:
        pages = {k + 1: data[k * size : (k + 1) * size] for k in range(-(-len(data) // size))}
        log = _read(path.with_name(path.name + "-wal"))
        later = {}
        for at in range(32, len(log) - _FRAME, _FRAME + size):
            page = log[at + _FRAME : at + _FRAME + size]
            later[int.from_bytes(log[at : at + 4], "big")] = page
            found |= _rows(page, pages | later, size)
        for page in pages.values():
            found |= {key: row for key, row in _rows(page, pages | later, size) if key not in found}
            found |= {key: row for key, row in _rows(page, pages, size) if key not in found}
    return found


def _rows(page: bytes, pages: dict[int, bytes], size: int) -> Iterator[tuple[str, Row]]:
    """Yield the rows that start on ``page``, with their keys."""
    for match in _LENGTHS.finditer(page):
        lengths = [32, *((_number(part) - 13) // 2 for part in match.groups()), 64]
        head = match.end() - match.start()
        local = _local(head + sum(lengths), size)
        text = page[match.end() : match.start() + local]
        after = match.start() + local
        follow, seen = page[after : after + 4], set()
        while len(text) < sum(lengths):
            number = int.from_bytes(follow, "big")
            if number in seen or number not in pages:
                break
            seen.add(number)
            text += pages[number][4:size]
            follow = pages[number][:4]
        parts, at = [], 0
        for length in lengths:
            parts.append(text[at : at + length])
            at += length
        if hashlib.sha256(parts[2]).hexdigest().encode() == parts[3]:
            try:
                key, kind, record, digest = (part.decode() for part in parts)
            except UnicodeDecodeError:
                continue
            yield key, (key, kind, record, digest)


def _local(payload: int, size: int) -> int:
    """Return the number of bytes of a row that lie on its first page (SQLite's file format, section 1.6)."""
    most, least = (size - 12) * 64 // 255 - 23, (size - 12) * 32 // 255 - 23
    if payload <= most:
        return payload
    kept = least + (payload - least) % (size - 4)
    return kept if kept <= most else least


def _number(text: bytes) -> int:
    value = 0
    for byte in text:
        value = value << 7 | byte & 0x7F
    return value


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
