"""Recovery of the rows of a damaged archive, without SQLite's own bookkeeping.

SQLite rejects a file in which certain pages are damaged. Its rows are still on the leaf pages of the
table: each page has a list of its rows, and each row describes its own fields (SQLite's file format,
https://www.sqlite.org/fileformat2.html, sections 1.6 and 2.1). Rows are accepted if their checksum matches.
"""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from lmma._files import write
from lmma.run.archive.columns import Columns
from lmma.run.archive.database import (
    AFTER,
    BEFORE,
    ArchiveError,
    Database,
    all_columns,
    is_intact,
    key_matches,
    quoted,
)

PAGE = 4096  # bytes, SQLite's default
LOG_HEADER, FRAME_HEADER = 32, 24  # bytes of the write-ahead log and of each page in it
LEAF = 0x0D  # type of a page with rows of a table
MOST_FIELDS = 2000

Record = list[Any]


def rescue(path: Path, output: Path) -> int:
    """Write the readable rows of the damaged archive ``path`` to ``output``; return their number."""
    try:
        pages = _pages(path)
    except OSError as error:
        raise ArchiveError(f"archive {path} cannot be read: {error.strerror or error}") from None
    info: dict[str, Any] = {}
    rows: dict[int, Record] = {}
    runs: dict[int, Record] = {}
    misplaced: list[tuple[int, Record]] = []  # rows whose number may be damaged
    for page in pages.values():
        found = list(_records(page, pages))
        numbers = [-1, *(rowid for rowid, _ in found), math.inf]
        for k, (rowid, record) in enumerate(found):
            if len(record) == 2 and all(isinstance(field, str) for field in record):
                with contextlib.suppress(ValueError):
                    info[record[0]] = json.loads(record[1])
            elif len(record) == 6 and record[0] is None:
                runs[rowid] = [rowid, *record[1:]]
            elif _matches(record):
                if numbers[k] < rowid < numbers[k + 2]:
                    rows[rowid] = [rowid, *record[1:]]
                else:
                    misplaced.append((rowid, record))
    for rowid, record in misplaced:
        free = rowid if rowid not in rows else max(rows) + 1
        rows[free] = [free, *record[1:]]
    try:
        columns = Columns.from_json(json.dumps(info.pop("columns")))
    except (KeyError, ValueError):
        raise ArchiveError(
            f"nothing can be read from {path}: the description of its variables is damaged"
        ) from None
    names = all_columns(columns)
    key, end = names.index("key"), len(BEFORE) + columns.n
    kept = [
        row
        for row in rows.values()
        if len(row) == len(names) and (not columns.exact or key_matches(row[key], row[len(BEFORE) : end]))
    ]

    def save(aside: Path) -> None:
        copy = Database(aside, write=True)
        try:
            copy.create(columns, info)
            with copy.transaction():
                places = ", ".join("?" * len(names))
                copy.db.executemany(
                    f"insert into evaluations ({', '.join(map(quoted, names))}) values ({places})", kept
                )
                copy.db.executemany("insert into runs values (?, ?, ?, ?, ?, ?)", runs.values())
        finally:
            copy.close()

    write(output, save)
    return len(kept)


def _matches(record: Record) -> bool:
    """Return whether a record ends with the fields of an evaluation and the checksum of its outcome."""
    for hidden in (3, 4):  # without and with a vector
        tail = record[-len(AFTER) - hidden :]
        if len(tail) == len(AFTER) + hidden:
            fields = dict(zip(AFTER, tail, strict=False))
            outcome = (fields["value"], fields["constraints"], fields["status"], fields["reason"])
            if is_intact(record[-3], *outcome, record[-1]):
                return True
    return False


# Pages and records


def _pages(path: Path) -> dict[int, bytes]:
    """Return the pages by number, those of the write-ahead log in place of older ones."""
    data = path.read_bytes()
    declared = int.from_bytes(data[16:18], "big")
    size = declared if declared in {512 << k for k in range(7)} else PAGE
    pages = {k + 1: data[k * size : (k + 1) * size] for k in range(-(-len(data) // size))}
    with contextlib.suppress(OSError):
        log = Path(f"{path}-wal").read_bytes()
        for at in range(LOG_HEADER, len(log) - FRAME_HEADER, FRAME_HEADER + size):
            if log[at + 8 : at + 16] != log[16:24]:  # left over from before the log was last emptied
                continue
            page = log[at + FRAME_HEADER : at + FRAME_HEADER + size]
            if len(page) == size:
                pages[int.from_bytes(log[at : at + 4], "big")] = page
    return pages


def _records(page: bytes, pages: Mapping[int, bytes]) -> Iterator[tuple[int, Record]]:
    """Yield number and fields of the rows on a leaf page of a table; skip unreadable ones."""
    start = 100 if page.startswith(b"SQLite format 3") else 0
    if len(page) < start + 8 or page[start] != LEAF:
        return
    count = int.from_bytes(page[start + 3 : start + 5], "big")
    for k in range(count):
        at = int.from_bytes(page[start + 8 + 2 * k : start + 10 + 2 * k], "big")
        with contextlib.suppress(IndexError, ValueError, struct.error, KeyError):
            length, at = _varint(page, at)
            rowid, at = _varint(page, at)
            yield rowid, _fields(_payload(page, at, length, pages))


def _payload(page: bytes, at: int, length: int, pages: Mapping[int, bytes]) -> bytes:
    """Return the bytes of one row, including its overflow pages."""
    size = len(page)
    if length <= size - 35:
        return page[at : at + length]
    least = (size - 12) * 32 // 255 - 23
    local = least + (length - least) % (size - 4)
    local = local if local <= size - 35 else least
    found, following = page[at : at + local], page[at + local : at + local + 4]
    if length > len(pages) * size:
        raise ValueError("length")
    while len(found) < length:
        overflow = pages[int.from_bytes(following, "big")]
        found += overflow[4:]
        following = overflow[:4]
    return found[:length]


def _fields(payload: bytes) -> Record:
    header, at = _varint(payload, 0)
    kinds = []
    while at < header:
        kind, at = _varint(payload, at)
        kinds.append(kind)
        if len(kinds) > MOST_FIELDS:
            raise ValueError("fields")
    fields: Record = []
    at = header
    for kind in kinds:
        size = _size(kind)
        data = payload[at : at + size]
        if len(data) != size:
            raise ValueError("fields")
        fields.append(_field(kind, data))
        at += size
    return fields


def _size(kind: int) -> int:
    return (kind - 12) // 2 if kind >= 12 else (0, 1, 2, 3, 4, 6, 8, 8, 0, 0)[kind]


def _field(kind: int, data: bytes) -> Any:
    if kind >= 12:
        return data.decode() if kind % 2 else data
    if kind == 7:
        return struct.unpack(">d", data)[0]
    return None if kind == 0 else kind - 8 if kind in (8, 9) else int.from_bytes(data, "big", signed=True)


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a variable-length integer and the offset after it."""
    value = 0
    for k in range(9):
        byte = data[at + k]
        if k == 8:
            return value << 8 | byte, at + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at + k + 1
    raise ValueError("varint")
