"""The SQLite file of an archive: its tables, its metadata, and readable errors.

============ ========================================================================================
table        one row is
============ ========================================================================================
evaluations  an evaluation: variables in the user's units, value, status, ...
runs         a process that wrote evaluations: method, seed, start
info         a property of the file: the objective, the variables, lmma's version
============ ========================================================================================

``vector`` is the point as 64-bit floats, present if the variables do not give it exactly. ``key`` is a digest
of the point, used to look it up; NULL if values vary between calls. ``checksum`` is the checksum of the
outcome, because SQLite itself does not detect changed bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import math
import os
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from lmma._files import read_json
from lmma._text import one_line
from lmma.run.archive.columns import Columns, unique_names

APPLICATION = 0x6C6D6D65  # "lmme" in ASCII, in the header of the file
FORMAT = 1  # increased whenever an older lmma would misread the file
MAGIC = b"SQLite format 3\0"
BEFORE = ("id", "run", "generation")  # columns before the variables
AFTER = ("value", "constraints", "violation", "status", "reason", "seconds", "worker", "time")  # and after
HIDDEN = ("vector", "key", "traceback", "checksum")
JOURNAL_PAGES = 10_000  # 40 MB: moving the journal into the file waits for the disk
CHECKED_UP_TO = 64 << 20  # bytes: a larger file is not read completely when it is opened
DAMAGED = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT")


class ArchiveError(ValueError):
    """An archive cannot be used; the message gives the reason and the remedy."""


class DamagedArchive(ArchiveError):
    """The file of an archive is damaged; readable rows can be copied to a new archive."""


@contextlib.contextmanager
def translated_errors(path: Path) -> Iterator[None]:
    """Convert SQLite's errors to ArchiveError."""
    try:
        yield
    except sqlite3.Error as error:
        raise error_of(path, error) from None


def error_of(path: Path, error: Exception) -> ArchiveError:
    """Return the error to raise for an error of SQLite, or for invalid content."""
    name, text = getattr(error, "sqlite_errorname", "") or "", str(error)
    # every archive has the same tables, and its texts are UTF-8
    content = any(word in text for word in ("no such", "decode", "malformed"))
    if isinstance(error, sqlite3.Error) and not (name.startswith(DAMAGED) or content):
        return ArchiveError(f"archive {path} cannot be used: {error}")
    return DamagedArchive(
        f"archive {path} is damaged ({one_line(error)}). To copy the readable rows to a new archive, run "
        f"lmma export {path} {path.with_name(path.stem + '-rescued.db')}"
    )


def is_archive(head: bytes) -> bool:
    """Return whether a file with these first 72 bytes is an archive."""
    return head.startswith(MAGIC) and int.from_bytes(head[68:72], "big") == APPLICATION


def check_file(path: Path) -> bool:
    """Return whether there is an archive at ``path``; raise ArchiveError if the file is something else."""
    try:
        with open(path, "rb") as file:
            head = file.read(72)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ArchiveError(f"archive {path} cannot be read: {error.strerror or error}") from None
    if not head:
        return False
    if head.startswith(MAGIC):
        return True  # Database.__init__ checks its contents
    if os.path.exists(f"{path}-wal"):  # only a database has one
        raise error_of(path, ValueError("the header is not that of a database"))
    raise ArchiveError(f"{path} is not an lmma archive: use another file")


class Database:
    """An open archive file.

    Parameters
    ----------
    path : Path
        The file.
    write : bool
        Whether to open it for writing; it is then created if missing.
    check : bool
        Whether to check all pages of a file of moderate size.

    Attributes
    ----------
    info : dict
        Properties of the file by name; empty for a new one.
    columns : Columns or None
        The variables; None for a new file.
    """

    def __init__(self, path: Path, *, write: bool = False, check: bool = True) -> None:
        self.path, self._write, self._check = path, write, check
        self.info: dict[str, Any] = {}
        self.columns: Columns | None = None
        exists = check_file(path)
        if not exists and not write:
            raise ArchiveError(f"archive {path} does not exist")
        with translated_errors(path):
            self.db = self._connect(write)
            try:
                self._read_info()
                if write:
                    # WAL: a commit survives the end of the process, and readers do not block the run
                    self.db.execute("pragma journal_mode = wal")
                    self.db.execute("pragma synchronous = normal")
                    self.db.execute(f"pragma wal_autocheckpoint = {JOURNAL_PAGES}")
            except BaseException:
                self.db.close()
                raise

    def _connect(self, write: bool) -> sqlite3.Connection:
        address = f"file:{quote(str(self.path.absolute()))}"
        if write:
            return sqlite3.connect(
                address, timeout=5, isolation_level=None, check_same_thread=False, uri=True
            )
        try:
            db = sqlite3.connect(f"{address}?mode=ro", timeout=5, isolation_level=None, uri=True)
            db.execute("pragma schema_version").fetchone()
        except sqlite3.OperationalError:
            if os.path.exists(f"{self.path}-wal"):
                raise
            # in a folder without write permission, SQLite cannot create its index of the log
            db = sqlite3.connect(f"{address}?immutable=1", isolation_level=None, uri=True)
        return db

    def _read_info(self) -> None:
        application = self.db.execute("pragma application_id").fetchone()[0]
        version = self.db.execute("pragma user_version").fetchone()[0]
        tables = {name for (name,) in self.db.execute("select name from sqlite_master where type = 'table'")}
        if not tables and application in (0, APPLICATION):
            return  # new, or its creator was killed
        if application != APPLICATION:
            raise ArchiveError(f"{self.path} is a database of another program: choose another name")
        if version > FORMAT:
            raise ArchiveError(
                f"archive {self.path} was written by a newer lmma (format {version}, this version reads "
                f"{FORMAT}): upgrade lmma, or choose another name"
            )
        if self._check and self.path.stat().st_size <= CHECKED_UP_TO:
            found = self.db.execute("pragma quick_check(1)").fetchone()[0]
            if found != "ok":
                raise error_of(self.path, ValueError(found))
        try:
            self.info = {
                name: read_json(value) for name, value in self.db.execute("select name, value from info")
            }
            self.columns = Columns.from_json(json.dumps(self.info["columns"]))
        except (ValueError, KeyError, TypeError) as error:
            raise error_of(self.path, error) from None

    def create(self, columns: Columns, info: dict[str, Any]) -> None:
        """Create the tables of a new file."""
        self.columns, self.info = columns, {**info, "columns": read_json(columns.to_json())}
        types = {
            **dict.fromkeys(BEFORE, "integer"), "id": "integer primary key",
            **dict(zip(variable_columns(columns), columns.affinities(), strict=False)),
            "value": "real", "violation": "real", "seconds": "real", "checksum": "integer", "vector": "blob",
            "key": "blob",
        }  # fmt: skip
        each = [f"{quoted(name)} {types.get(name, 'text')}".rstrip() for name in all_columns(columns)]
        with translated_errors(self.path), self.transaction():
            self.db.execute("create table info (name text primary key, value text not null)")
            self.db.execute(
                "create table runs (id integer primary key, started text, method text, popsize integer, "
                "seed text, lmma text)"
            )
            self.db.execute(f"create table evaluations ({', '.join(each)})")
            self.db.execute("create index evaluations_key on evaluations (key) where key is not null")
            self.put_info(self.info)
            self.db.execute(f"pragma application_id = {APPLICATION}")
            self.db.execute(f"pragma user_version = {FORMAT}")

    def put_info(self, info: dict[str, Any]) -> None:
        """Set properties of the file."""
        rows = [(name, json.dumps(value)) for name, value in info.items()]
        self.db.executemany("insert or replace into info values (?, ?)", rows)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Run the block as one transaction; roll back if it raises."""
        self.db.execute("begin immediate")
        try:
            yield
        except BaseException:
            if self.db.in_transaction:
                self.db.execute("rollback")
            raise
        self.db.execute("commit")

    def close(self) -> None:
        """Close the file; after writing, also remove the journal, so that one file remains."""
        if self._write:
            with contextlib.suppress(sqlite3.Error):  # another program may be reading the journal
                self.db.execute("pragma journal_mode = delete")
        with contextlib.suppress(sqlite3.Error):
            self.db.close()


# Rows


def variable_columns(columns: Columns) -> list[str]:
    """Return the names of the columns of variables; none if only vectors are stored."""
    return unique_names(columns.labels, (*BEFORE, *AFTER, *HIDDEN)) if columns.separate else []


def all_columns(columns: Columns) -> list[str]:
    """Return the names of all columns of the table of evaluations, in order."""
    hidden = [name for name in HIDDEN if name != "vector" or not columns.exact]
    return [*BEFORE, *variable_columns(columns), *AFTER, *hidden]


def quoted(name: str) -> str:
    """Return a name quoted for SQL."""
    return '"' + name.replace('"', '""') + '"'


def key_of(x: npt.NDArray[np.floating]) -> bytes:
    """Return a digest of a point; -0.0 and 0.0 are equal."""
    return hashlib.blake2b(np.add(x, 0.0, dtype=np.float64).tobytes(), digest_size=16).digest()


def checksum(
    key: bytes | None, value: float | None, constraints: str | None, status: str, reason: str | None
) -> int:
    """Return the checksum of an outcome."""
    head = struct.pack("<d", math.nan if value is None else value + 0.0)  # SQLite stores -0.0 as 0
    words = (status, constraints or "", reason or "")
    return zlib.crc32(b"\0".join([key or b"", head, *(word.encode() for word in words)]))


def key_matches(key: Any, x: Any) -> bool:
    """Return whether the key, if any, is that of the point ``x``."""
    try:
        return key is None or bool(key == key_of(np.array(x, dtype=np.float64)))
    except (TypeError, ValueError):
        return False


def is_intact(key: Any, value: Any, constraints: Any, status: Any, reason: Any, check: Any) -> bool:
    """Return whether an outcome matches its checksum."""
    try:
        return bool(checksum(key, value, constraints, status, reason) == check)
    except (TypeError, ValueError, AttributeError, struct.error):
        return False


def text_of(numbers: npt.NDArray[np.float64], functions: int = 0) -> str:
    """Return constraint values as JSON; infinity is written as 9e999, which is valid JSON, and NaN as null.

    With constraint ``functions``, the values start with the number of those of fun and of each function. The
    text then has a list for each of them.
    """
    values: list[Any] = numbers.tolist()
    if functions:
        counts, rest = [int(count) for count in values[: functions + 1]], iter(values[functions + 1 :])
        values = [list(itertools.islice(rest, count)) for count in counts]
    text = json.dumps(values)
    if "N" in text or "I" in text:
        text = text.replace("Infinity", "9e999").replace("NaN", "null")
    return text


def numbers_of(text: str) -> npt.NDArray[np.float64]:
    """Parse the output of :func:`text_of`; raise ValueError for any other text."""
    found = read_json(text)
    if not isinstance(found, list):
        raise ValueError("constraints")
    if found and all(isinstance(part, list) for part in found):
        found = [*map(len, found), *itertools.chain(*found)]
    if not all(isinstance(number, float | int | None) for number in found):
        raise ValueError("constraints")
    return np.array([math.nan if number is None else number for number in found], dtype=np.float64)
