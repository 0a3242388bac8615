"""Durable records: one SQLite file in which every finished piece of work is one row.

Why SQLite: it is embedded (part of Python, nothing to install or to start), durable (a commit outlives
SIGKILL and power loss), safe for several processes at once, and inspectable with tools everybody has
(``sqlite3 store.sqlite "select record from records"``). A folder of JSON files would need a lock and an
atomic rename of our own for each of these.

========== =====================================================================================
table      one row is
========== =====================================================================================
records    a finished piece of work: key, kind, the record as JSON, its SHA-256
claims     work in flight: key, the process that does it, when it last gave a sign of life
set_aside  a row that was not a record of ours, with the reason
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

from lmma.store.owner import Owner, is_dead, myself
from lmma.store.rescue import Identity, file_at, locked, move_aside, rescue
from lmma.store.untrusted import read_json

T = TypeVar("T")
Record = dict[str, Any]
Check = Callable[[str, str, Record], str | None]  # (key, kind, record) -> what is wrong with it, or None

FILE = "store.sqlite"  # what commands call it in their folder
APPLICATION = 0x6C6D6D61  # "lmma" in ASCII: tells our files from other people's databases
SCHEMA = 1  # raised together with a change in the text of the tables
LEASE = 600.0  # seconds without a sign of life after which a claim of another machine is void
_MANY = 500  # keys in one statement; SQLite allows 999 everywhere

_TABLES = """
create table if not exists records (
    key text primary key, kind text not null, record text not null, sha256 text not null) without rowid;
create table if not exists claims (
    key text primary key, owner text not null, seen real not null) without rowid;
create table if not exists set_aside (
    key text, kind text, record text, reason text not null);
"""


def key_of(kind: str, spec: Mapping[str, Any]) -> str:
    """Return the key of a piece of work: a hash of everything that decides its outcome."""
    return _digest(json.dumps([kind, spec], sort_keys=True))[:32]


class StoreError(OSError):
    """The store cannot be read or written; the message says why and what to do."""


class Damaged(StoreError):
    """The file is damaged; records that are whole can be rescued."""


class Store:
    """Records by key in one file, shared by any number of processes.

    Parameters
    ----------
    path : str or Path
        The file; it and its folder are made if missing.
    check : callable, optional
        Called with (key, kind, record) for every record read; returns what is wrong with it, or None.
        Such records, and those whose text does not match its checksum, are moved to ``set_aside``.

    Notes
    -----
    Killing the process at any moment loses at most the work in flight: a record is committed before
    :meth:`put` returns. A claim ends with its process; on another machine, after ten minutes without
    :meth:`renew`. Any thread may use a store, one thread at a time.
    """

    def __init__(self, path: str | Path, check: Check | None = None) -> None:
        self.path = Path(path)
        self.check = check
        self.words: list[str] = []  # what was set aside since opening, for the user to read
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(
                f"cannot make the folder {self.path.parent}: {error.strerror or error}"
            ) from None
        self._set_aside_what_is_no_database()
        try:
            self._open()
        except Damaged:
            self._rescue()

    def _open(self) -> None:
        with self._in_words():
            self._db = sqlite3.connect(self.path, timeout=60.0, isolation_level=None, check_same_thread=False)
        self._db.text_factory = _text
        self._file = file_at(self.path)  # another process may put a new file in its place
        try:
            self._prepare()
        except BaseException:
            self._db.close()
            raise

    # Opening

    def _prepare(self) -> None:
        with self._in_words():
            application = self._db.execute("pragma application_id").fetchone()[0]
            tables = {plain_sql(sql) for (sql,) in self._db.execute("select sql from sqlite_master") if sql}
            # with our tables, it is the number that is damaged
            if application != APPLICATION and tables and not tables >= OUR_TABLES:
                raise StoreError(
                    f"{self.path} is a database of another program: give another --out, or move it"
                )
            version = self._db.execute("pragma user_version").fetchone()[0]
            flipped = (
                version ^ SCHEMA
            ).bit_count() == 1 and tables == OUR_TABLES  # a newer one has other tables
            if version > SCHEMA and not flipped:
                raise StoreError(
                    f"{self.path} was written by a newer lmma (schema {version}, this one knows {SCHEMA}): "
                    "upgrade, or give another --out"
                )
            # WAL lets readers and a writer work side by side; where a file system cannot do it,
            # SQLite keeps its rollback journal, which is slower and as safe.
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = full")
            with self._transaction():
                for statement in _TABLES.split(";"):
                    self._db.execute(statement)
                self._db.execute(f"pragma application_id = {APPLICATION}")
                self._db.execute(f"pragma user_version = {SCHEMA}")

    def _set_aside_what_is_no_database(self) -> None:
        try:
            with self.path.open("rb") as file:
                head = file.read(24)
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error.strerror or error}") from None
        database = head[:16] == b"SQLite format 3\0"
        # versions of the format and the layout of pages: with others, SQLite misreads or will not write
        if not head or (database and set(head[18:20]) <= {1, 2} and head[20:] == b"\0\x40\x20\x20"):
            return
        if database and not rescue(self.path):
            return  # another program's, perhaps
        self._replace(file_at(self.path))

    def _rescue(self) -> None:
        """Go on with a new file that has the records that are whole in the damaged one, which is kept."""
        self._db.close()
        if not self._replace(self._file):
            self._open()  # another process was first

    def _replace(self, damaged: Identity | None) -> bool:
        """Begin a new file in place of the damaged one; return False if another process has done so.

        The file is moved before it is read: what others add to it meanwhile they notice, and add again.
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
            self._keep(rows, aside)
        return True

    def _keep(self, rows: Mapping[str, tuple[str, str, str, str]], aside: Path) -> None:
        with self._in_words(), self._transaction():
            self._db.executemany("insert or ignore into records values (?, ?, ?, ?)", rows.values())
        if not rows:
            self.words.append(f"{self.path} was no database; it is kept as {aside.name}, and a new one begun")
            return
        self.words.append(
            f"{self.path} was damaged: {len(rows)} records were rescued, the work of others will be done "
            f"again; the damaged file is kept as {aside.name}"
        )

    def _mended(self, query: Callable[[], T]) -> T:
        """Return what ``query`` gives, if need be after rescuing the records of a file found damaged."""
        try:
            found = query()
        except Damaged:
            self._rescue()
            found = query()
        for _ in range(3):
            if file_at(self.path) == self._file:
                break
            self._db.close()  # another process has put a new one in its place
            self._open()
            found = query()
        return found

    # Records

    def put(self, key: str, kind: str, record: Record) -> None:
        """Keep ``record`` for good and end the claim on ``key``; an earlier record stays."""
        self.put_all(kind, {key: record})

    def put_all(self, kind: str, records: Mapping[str, Record]) -> None:
        """Keep several records at the price of one: the disk is waited for once."""
        texts = {
            key: json.dumps(record, sort_keys=True, separators=(",", ":"), allow_nan=False)
            for key, record in records.items()
        }

        def insert() -> None:
            with self._in_words(), self._transaction():
                self._db.executemany(
                    "insert or ignore into records values (?, ?, ?, ?)",
                    [(key, kind, text, _digest(text)) for key, text in texts.items()],
                )
                self._db.executemany("delete from claims where key = ?", [(key,) for key in texts])

        self._mended(insert)

    def records(self, kind: str | None = None) -> list[Record]:
        """Return all sound records, of one kind or of all, in the order of their keys."""
        where, values = ("", ()) if kind is None else ("where kind = ?", (kind,))

        def select() -> list[tuple[str, str, str, str]]:
            with self._in_words():
                return self._db.execute(f"select * from records {where} order by key", values).fetchall()

        return [record for _, record in self._sound(self._mended(select))]

    def get(self, keys: Sequence[str]) -> dict[str, Record]:
        """Return the sound records among ``keys``."""
        found = self._sound(self._mended(lambda: self._rows(keys)))
        asked = set(keys)  # of a damaged page SQLite may return another row
        return {key: record for key, record in found if key in asked}

    def done(self, keys: Sequence[str]) -> set[str]:
        """Return which of ``keys`` have a record, without reading it."""
        return self._mended(lambda: self._done(keys))

    def _done(self, keys: Sequence[str]) -> set[str]:
        found: set[str] = set()
        for part in _parts(keys):
            marks = ",".join("?" * len(part))
            with self._in_words():
                rows = self._db.execute(f"select key from records where key in ({marks})", part)
                found.update(row[0] for row in rows)
        return found & set(keys)

    def verify(self) -> int:
        """Read every record, set aside those that are not sound, and return how many are."""
        return len(self.records())

    def set_aside(self) -> list[tuple[str, str]]:
        """Return (key, reason) of every row that was set aside."""
        with self._in_words():
            return [(k or "", r) for k, r in self._db.execute("select key, reason from set_aside")]

    def _rows(self, keys: Sequence[str]) -> list[tuple[str, str, str, str]]:
        rows: list[tuple[str, str, str, str]] = []
        for part in _parts(keys):
            marks = ",".join("?" * len(part))
            with self._in_words():
                rows += self._db.execute(f"select * from records where key in ({marks})", part).fetchall()
        return rows

    def _sound(self, rows: Iterable[tuple[str, str, str, str]]) -> Iterator[tuple[str, Record]]:
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
            return {}, "it is not a record"
        return record, self.check(key, kind, record) if self.check else None

    def _move_aside(self, key: str, kind: str, text: str, reason: str) -> None:
        def move() -> None:
            with self._in_words(), self._transaction():
                self._db.execute("insert into set_aside values (?, ?, ?, ?)", (key, kind, text, reason))
                self._db.execute("delete from records where key is ?", (key,))

        self._mended(move)
        self.words.append(f"record {str(key)[:12]} was set aside: {reason}; its work will be done again")

    # Claims

    def claim(self, keys: Sequence[str], limit: int = 1) -> list[str]:
        """Claim the first ``limit`` of ``keys`` that nobody has done or does; return them."""
        return self._mended(lambda: self._claim(keys, limit))

    def _claim(self, keys: Sequence[str], limit: int) -> list[str]:
        if limit < 1 or not keys:
            return []
        me, now = myself().text(), time.time()
        claimed: list[str] = []
        with self._in_words(), self._transaction():
            for key, owner, seen in self._db.execute("select key, owner, seen from claims").fetchall():
                if owner != me and _is_void(owner, seen, now):
                    self._db.execute("delete from claims where key = ?", (key,))
            taken = {row[0] for row in self._db.execute("select key from claims")}
            for part in _parts(keys):
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
        """Give a sign of life for all claims of this process."""
        with self._in_words():
            self._db.execute("update claims set seen = ? where owner = ?", (time.time(), myself().text()))

    def release(self, keys: Iterable[str] | None = None) -> None:
        """Give up the claims of this process on ``keys``, or on everything."""
        me = myself().text()
        with self._in_words(), self._transaction():
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
        self._db.execute("begin immediate")  # takes the write lock before reading what it depends on
        try:
            yield
            self._db.execute("commit")
        except BaseException:
            if self._db.in_transaction:
                self._db.execute("rollback")
            raise

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Turn SQLite's errors into words that say what to do."""
        try:
            yield
        except UnicodeDecodeError:  # SQLite's words about a damaged table quote its bytes
            raise Damaged(f"{self.path} is damaged: the names of its tables are no text") from None
        except sqlite3.Error as error:
            name = getattr(error, "sqlite_errorname", "") or ""
            damaged = name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")) or "file format" in str(error)
            words = self._explain(error)  # of a damaged file they may quote any bytes
            words = "".join(c if c.isprintable() else "?" for c in words)
            raise (Damaged if damaged else StoreError)(words) from error

    def _explain(self, error: sqlite3.Error) -> str:
        name = getattr(error, "sqlite_errorname", "") or ""
        safe = "records written before are safe"
        if name.startswith("SQLITE_FULL"):
            return f"no room left for {self.path}: free some space and start again; {safe}"
        if name.startswith("SQLITE_READONLY"):
            return f"{self.path} cannot be written (read-only): give another --out, or change its permissions"
        if name.startswith("SQLITE_CANTOPEN"):
            return f"cannot open {self.path}: its folder is read-only, full or missing; give another --out"
        if name.startswith("SQLITE_IOERR"):
            return f"cannot read or write {self.path} ({error}): is the disk full or gone? {safe}"
        if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            return (
                f"{self.path} is damaged ({error}): move it away to start afresh, or rescue its rows with "
                f"'sqlite3 {self.path} .recover'"
            )
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            return f"{self.path} is locked by another process for over a minute: end it, or wait"
        return f"{self.path}: {error}"


def _is_void(owner: str, seen: float, now: float) -> bool:
    known = Owner.parse(owner)
    dead = None if known is None else is_dead(known)
    return dead if dead is not None else not abs(now - seen) < LEASE


def plain_sql(sql: str) -> str:
    """Return a statement that makes a table as SQLite remembers it, but for blanks and case."""
    return " ".join(sql.lower().replace("if not exists ", "").split())


OUR_TABLES = frozenset(plain_sql(sql) for sql in _TABLES.split(";") if sql.strip())


def _text(data: bytes) -> str:
    """Return a text as it was written; damaged, it is one that matches no checksum."""
    return data.decode("utf-8", "replace")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _parts(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    for first in range(0, math.ceil(len(keys) / _MANY) * _MANY, _MANY):
        yield keys[first : first + _MANY]
