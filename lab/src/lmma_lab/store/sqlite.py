"""Durable records in one SQLite file, with one row per finished task.

SQLite is part of Python, durable (a commit survives SIGKILL and power loss), safe for concurrent processes,
and readable with standard tools (``sqlite3 store.sqlite "select record from records"``). A folder of JSON
files would need its own locks and atomic renames.

========== =====================================================================================
table      one row is
========== =====================================================================================
records    a finished task: key, kind, the record as JSON, its SHA-256
claims     a task in progress: key, the process that runs it, time of its last renewal
set_aside  a row that was not a valid record, with the reason
========== =====================================================================================
"""

from __future__ import annotations

import hashlib
import json
import math
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from lmma._files import read_json
from lmma_lab.store.owner import Owner, is_dead, this_process
from lmma_lab.store.rescue import Identity, file_identity, locked, move_aside, rescue

T = TypeVar("T")
Record = dict[str, Any]
Check = Callable[[str, str, Record], str | None]  # (key, kind, record) -> its fault, or None

FILE = "store.sqlite"  # name of the store in the output folder of a command
APPLICATION = 0x6C6D6D61  # "lmma" in ASCII; distinguishes a store from databases of other programs
SCHEMA = 1  # increase it whenever _TABLES changes
LEASE = 600.0  # seconds without renewal after which a claim from another machine expires
_KEYS_PER_STATEMENT = 500  # every build of SQLite allows 999

_TABLES = """
create table if not exists records (
    key text primary key, kind text not null, record text not null, sha256 text not null) without rowid;
create table if not exists claims (
    key text primary key, owner text not null, seen real not null) without rowid;
create table if not exists set_aside (
    key text, kind text, record text, reason text not null);
"""


def key_of(kind: str, spec: Mapping[str, Any]) -> str:
    """Return the key of a task: a hash of everything that determines its outcome."""
    return _digest(json.dumps([kind, spec], sort_keys=True))[:32]


class StoreError(OSError):
    """The store cannot be read or written; the message gives the reason and a remedy."""


class Damaged(StoreError):
    """The file is damaged; intact records can be rescued."""


class Store:
    """Records by key in one file, shared by any number of processes.

    Parameters
    ----------
    path : str or Path
        The file; it and its folder are created if missing.
    check : callable, optional
        Called with (key, kind, record) for every record read; returns its fault or None. Records with a
        fault, and those whose text does not match its checksum, are moved to ``set_aside``.

    Notes
    -----
    Killing the process loses at most the tasks in progress: a record is committed before :meth:`put`
    returns. A claim ends with its process; a claim from another machine expires after ten minutes without
    :meth:`renew`. Any thread may use a store, but only one at a time.
    """

    def __init__(self, path: str | Path, check: Check | None = None) -> None:
        self.path = Path(path)
        self.check = check
        self.warnings: list[str] = []  # messages for the user about damaged files and records
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot create the folder {self.path.parent}: {error.strerror or error}"
            ) from None
        self._replace_invalid_file()
        try:
            self._open()
        except Damaged:
            self._rescue()

    def _open(self) -> None:
        with self._translate_errors():
            self._db = sqlite3.connect(self.path, timeout=60.0, isolation_level=None, check_same_thread=False)
        self._db.text_factory = _text
        self._file = file_identity(self.path)  # another process may replace the file
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    # Opening

    def _prepare(self) -> None:
        with self._translate_errors():
            application = self._db.execute("pragma application_id").fetchone()[0]
            tables = {plain_sql(sql) for (sql,) in self._db.execute("select sql from sqlite_master") if sql}
            # if the tables are those of a store, the application id itself is damaged
            if application != APPLICATION and tables and not tables >= OUR_TABLES:
                raise StoreError(
                    f"{self.path} is a database of another program: choose another --out, or move the file"
                )
            version = self._db.execute("pragma user_version").fetchone()[0]
            # one flipped bit, not a newer schema: that would have other tables
            flipped = (version ^ SCHEMA).bit_count() == 1 and tables == OUR_TABLES
            if version > SCHEMA and not flipped:
                raise StoreError(
                    f"{self.path} was written by a newer lmma (schema {version}, this version supports "
                    f"{SCHEMA}): upgrade lmma, or choose another --out"
                )
            # WAL allows readers during a write. On a file system that does not support it, SQLite keeps its
            # rollback journal, which is slower but equally safe.
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = full")
            with self._transaction():
                for statement in _TABLES.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"pragma application_id = {APPLICATION}")
                self._db.execute(f"pragma user_version = {SCHEMA}")

    def _replace_invalid_file(self) -> None:
        try:
            with self.path.open("rb") as file:
                head = file.read(24)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror or error}") from None
        database = head[:16] == b"SQLite format 3\0"
        # Format versions and page layout; with other values SQLite misreads the file or refuses to write.
        if not head or (database and set(head[18:20]) <= {1, 2} and head[20:] == b"\0\x40\x20\x20"):
            return
        if database and not rescue(self.path):
            return  # it may belong to another program
        self._replace(file_identity(self.path))

    def _rescue(self) -> None:
        """Replace the damaged file by a new one with its intact records; keep the damaged file."""
        self._db.close()
        if not self._replace(self._file):
            self._open()  # another process has replaced it already

    def _replace(self, damaged: Identity | None) -> bool:
        """Create a new file in place of the damaged one; return False if another process has done so.

        The file is moved before it is read. A process that meanwhile writes to the old file notices the
        replacement and writes again.
        """
        with locked(self.path) as found:
            if found is None or found != damaged:
                return False
            try:
                aside = move_aside(self.path)
            except OSError as error:
                raise StoreError(f"{self.path} is damaged and cannot be moved: {error.strerror}") from None
            rows = rescue(aside)
            self._open()
            self._insert_rescued(rows, aside)
        return True

    def _insert_rescued(self, rows: Mapping[str, tuple[str, str, str, str]], aside: Path) -> None:
        with self._translate_errors(), self._transaction():
            self._db.executemany("insert or ignore into records values (?, ?, ?, ?)", rows.values())
        if not rows:
            self.warnings.append(
                f"{self.path} was not a database; it was renamed to {aside.name} and a new store created"
            )
            return
        self.warnings.append(
            f"{self.path} was damaged: {len(rows)} records were rescued, tasks without a record will be "
            f"repeated; the damaged file was renamed to {aside.name}"
        )

    def _with_rescue(self, query: Callable[[], T]) -> T:
        """Run ``query``; rescue the records and repeat it if the file is damaged or was replaced."""
        try:
            found = query()
        except Damaged:
            self._rescue()
            found = query()
        for _ in range(3):
            if file_identity(self.path) == self._file:
                break
            self._db.close()  # another process has replaced the file
            self._open()
            found = query()
        return found

    # Records

    def put(self, key: str, kind: str, record: Record) -> None:
        """Commit ``record`` and end the claim on ``key``; an existing record is kept instead."""
        self.put_all(kind, {key: record})

    def put_all(self, kind: str, records: Mapping[str, Record]) -> None:
        """Commit several records in one transaction, which waits for the disk only once."""
        texts = {
            key: json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
            for key, record in records.items()
        }

        def insert() -> None:
            with self._translate_errors(), self._transaction():
                self._db.executemany(
                    "insert or ignore into records values (?, ?, ?, ?)",
                    [(key, kind, text, _digest(text)) for key, text in texts.items()],
                )
                self._db.executemany("delete from claims where key = ?", [(key,) for key in texts])

        self._with_rescue(insert)

    def records(self, kind: str | None = None) -> list[Record]:
        """Return all valid records, of one kind or of all, sorted by key."""
        where, values = ("", ()) if kind is None else ("where kind = ?", (kind,))

        def select() -> list[tuple[str, str, str, str]]:
            with self._translate_errors():
                return self._db.execute(f"select * from records {where} order by key", values).fetchall()

        return [record for _, record in self._valid(self._with_rescue(select))]

    def get(self, keys: Sequence[str]) -> dict[str, Record]:
        """Return the valid records among ``keys``."""
        found = self._valid(self._with_rescue(lambda: self._rows(keys)))
        asked = set(keys)  # from a damaged page SQLite may return other rows
        return {key: record for key, record in found if key in asked}

    def done(self, keys: Sequence[str]) -> set[str]:
        """Return those of ``keys`` that have a record, without reading the records."""
        return self._with_rescue(lambda: self._done(keys))

    def _done(self, keys: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for part in _batches(keys):
            marks = ",".join("?" * len(part))
            with self._translate_errors():
                rows = self._db.execute(f"select key from records where key in ({marks})", part)
                found.update(row[0] for row in rows)
        return found & set(keys)

    def verify(self) -> int:
        """Read every record, set aside the invalid ones, and return the number of valid ones."""
        return len(self.records())

    def set_aside(self) -> list[tuple[str, str]]:
        """Return (key, reason) of every row that was set aside."""
        with self._translate_errors():
            return [(k or "", r) for k, r in self._db.execute("select key, reason from set_aside")]

    def _rows(self, keys: Sequence[str]) -> list[tuple[str, str, str, str]]:
        rows: list[tuple[str, str, str, str]] = []
        for part in _batches(keys):
            marks = ",".join("?" * len(part))
            with self._translate_errors():
                rows += self._db.execute(f"select * from records where key in ({marks})", part).fetchall()
        return rows

    def _valid(self, rows: Iterable[tuple[str, str, str, str]]) -> Iterator[tuple[str, Record]]:
        for key, kind, text, digest in rows:
            record, reason = self._read(key, kind, text, digest)
            if reason is None:
                yield key, record
            else:
                self._move_aside(key, kind, text, reason)

    def _read(self, key: str, kind: str, text: str, digest: str) -> tuple[Record, str | None]:
        if not (isinstance(key, str) and isinstance(text, str)) or _digest(text) != digest:
            return {}, "its text does not match its checksum"
        try:
            record = read_json(text)
        except ValueError:
            return {}, "it is not JSON"
        if not isinstance(record, dict):
            return {}, "it is not a JSON object"
        return record, self.check(key, kind, record) if self.check else None

    def _move_aside(self, key: str, kind: str, text: str, reason: str) -> None:
        def move() -> None:
            with self._translate_errors(), self._transaction():
                self._db.execute("insert into set_aside values (?, ?, ?, ?)", (key, kind, text, reason))
                self._db.execute("delete from records where key is ?", (key,))

        self._with_rescue(move)
        self.warnings.append(f"record {str(key)[:12]} was set aside: {reason}; its task will be repeated")

    # Claims

    def claim(self, keys: Sequence[str], limit: int = 1) -> list[str]:
        """Claim the first ``limit`` of ``keys`` that are neither finished nor claimed; return them."""
        return self._with_rescue(lambda: self._claim(keys, limit))

    def _claim(self, keys: Sequence[str], limit: int) -> list[str]:
        if limit < 1 or not keys:
            return []
        me, now = this_process().text(), time.time()
        claimed: list[str] = []
        with self._translate_errors(), self._transaction():
            for key, owner, seen in self._db.execute("select key, owner, seen from claims").fetchall():
                if owner != me and _is_void(owner, seen, now):
                    self._db.execute("delete from claims where key = ?", (key,))
            taken = {row[0] for row in self._db.execute("select key from claims")}
            for part in _batches(keys):
                done = self._done(part)
                for key in part:
                    if key not in done and key not in taken:
                        self._db.execute("insert into claims values (?, ?, ?)", (key, me, now))
                        taken.add(key)
                        claimed.append(key)
                        if len(claimed) == limit:
                            return claimed
        return claimed

    def renew(self) -> None:
        """Renew all claims of this process."""
        with self._translate_errors():
            self._db.execute(
                "update claims set seen = ? where owner = ?", (time.time(), this_process().text())
            )

    def release(self, keys: Iterable[str] | None = None) -> None:
        """Release the claims of this process on ``keys``, or all of its claims."""
        me = this_process().text()
        with self._translate_errors(), self._transaction():
            if keys is None:
                self._db.execute("delete from claims where owner = ?", (me,))
            else:
                rows = [(key, me) for key in keys]
                self._db.executemany("delete from claims where key = ? and owner = ?", rows)

    # Housekeeping

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("begin immediate")  # acquires the write lock before reading
        try:
            yield
            self._db.execute("commit")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("rollback")
            raise

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        """Convert SQLite's errors to StoreError with a remedy."""
        try:
            yield
        except UnicodeDecodeError:  # SQLite's message about a damaged table quotes its bytes
            raise Damaged(f"{self.path} is damaged: its table names are not valid text") from None
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "") or ""
            damaged = name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or "file format" in str(error)
            message = self._explain(error)  # may quote arbitrary bytes of a damaged file
            message = "".join(c if c.isprintable() else "?" for c in message)
            raise (Damaged if damaged else StoreError)(message) from error

    def _explain(self, error: sqlite3.Error) -> str:
        name = getattr(error, "sqlite_errorname", "") or ""
        safe = "records written so far are safe"
        if name.startswith("SQLITE_FULL"):
            return f"no space left for {self.path}: free some space and repeat the command; {safe}"
        if name.startswith("SQLITE_READONLY"):
            return f"{self.path} is read-only: choose another --out, or change its permissions"
        if name.startswith("SQLITE_CANTOPEN"):
            return f"cannot open {self.path}: its folder is read-only, full or missing; choose another --out"
        if name.startswith("SQLITE_IOERR"):
            return f"cannot read or write {self.path} ({error}): the disk may be full or missing; {safe}"
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return (
                f"{self.path} is damaged ({error}): move it to start from scratch, or rescue its rows with "
                f"'sqlite3 {self.path} .recover'"
            )
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return (
                f"{self.path} has been locked by another process for over a minute: wait, or end that process"
            )
        return f"{self.path}: {error}"


def _is_void(owner: str, seen: float, now: float) -> bool:
    known = Owner.parse(owner)
    dead = None if known is None else is_dead(known)
    return dead if dead is not None else not abs(now - seen) < LEASE


def plain_sql(sql: str) -> str:
    """Return a CREATE TABLE statement normalised as SQLite stores it, ignoring whitespace and case."""
    return " ".join(sql.lower().replace("if not exists ", "").split())


OUR_TABLES = frozenset(plain_sql(sql) for sql in _TABLES.split(";") if sql.strip())


def _text(data: bytes) -> str:
    """Decode text; damaged bytes are replaced, so that the checksum does not match."""

    return data.decode("utf-8", "replace")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _batches(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(
        0, math.ceil(len(keys) / _KEYS_PER_STATEMENT) * _KEYS_PER_STATEMENT, _KEYS_PER_STATEMENT
    ):
        yield keys[first : first + _KEYS_PER_STATEMENT]
