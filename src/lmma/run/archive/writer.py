"""Archive of the current run: known points are looked up, and new evaluations added as they return.

Every evaluation is in a file before the next one starts. A transaction of SQLite takes much longer than
appending to a file. Rows of short calls are therefore first appended to a spool, see
``evaluation/pool/spool.py``, and written to the database together.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from lmma._files import Lock
from lmma._text import one_line
from lmma.evaluation.base import Array, FailureRecord, Values, packed
from lmma.evaluation.cache import Cache, Evaluated, Outcome
from lmma.evaluation.failures import Failure, TaskFailure
from lmma.evaluation.pool import spool
from lmma.run.archive.columns import Columns, clean
from lmma.run.archive.database import (
    ArchiveError,
    DamagedArchive,
    Database,
    all_columns,
    check_file,
    checksum,
    error_of,
    is_intact,
    key_of,
    numbers_of,
    quoted,
    text_of,
    translated_errors,
)
from lmma.run.archive.reader import Archive
from lmma.run.checkpoint import differences

RETRY = 1.0  # seconds between two attempts to write after a failed one
SHORT = 0.01  # seconds: rows of calls that take longer are written at once
INTERVAL = 0.5  # seconds between transactions if calls are short
LONGEST = 10_000  # characters of a reason or a traceback
CODE = "code of fun, its arguments or its constraints (digest)"

Violation = Callable[[Array, Values | None], float | None]


@dataclass(frozen=True)
class Policy:
    """Selection of the earlier outcomes that a run uses."""

    reuses: bool = True  # False if values vary between calls
    failures: bool = True  # False if failures end the run: failed points are then evaluated again
    timeout: float | None = None  # points that timed out earlier than this are evaluated again


class Entry(NamedTuple):
    """An evaluation that becomes row ``number``."""

    number: int
    one: Evaluated
    generation: int
    time: datetime


@final
class ArchiveWriter(Cache):
    """An archive file that one run writes to.

    Parameters
    ----------
    path : Path
        The file; created if missing. Only one run at a time may use it.
    columns : Columns
        The variables.
    identity : dict
        Properties of the objective that must match those in the file, see
        :func:`~lmma.run.archive.identity.identity_of`.
    policy : Policy
        Selection of the outcomes to use again.
    new : bool
        Whether to rename an existing file and start a new one.
    violation : callable, optional
        Returns the violation of constraints from a point and the constraint values that its evaluation
        returned.
    functions : int
        The number of constraint functions besides fun.
    feasibility_tol : float
        Largest violation of a feasible point.

    Attributes
    ----------
    generation : callable
        Returns the number of the current generation, from 1.
    warnings : list of str
        Warnings for the user.
    """

    def __init__(
        self,
        path: Path,
        columns: Columns,
        identity: dict[str, Any],
        policy: Policy,
        *,
        new: bool = False,
        violation: Violation | None = None,
        functions: int = 0,
        feasibility_tol: float = 0.0,
    ) -> None:
        self.path = path.absolute()  # fun may change the current folder
        self.columns, self.policy, self.reuses = columns, policy, policy.reuses
        self.generation: Callable[[], int] = lambda: 0
        self.warnings: list[str] = []
        self._violation, self._functions = violation, functions
        self._unsaved: list[tuple[Any, ...]] = []  # rows that could not be written yet
        self._waiting: list[Entry] = []
        self._outcomes: dict[bytes, Outcome] = {}  # of those that wait, by key
        self._own_spool: spool.SpoolWriter | None = None  # contains those that wait
        self._is_torn = False  # True if what is appended to the spool could not be read
        self._next_write = self._next_try = 0.0
        self._tracebacks = FailureRecord.MAX_ERRORS  # still to be stored
        self._run: int | None = None
        self._distrusted = 0  # failures up to this row are of runs in which fun never returned a value
        folder = self.path.parent
        if self.path.is_dir() or not folder.is_dir():
            raise ArchiveError(
                f"archive={str(path)!r} cannot be written: the path must name a file in an existing folder"
            )
        names = all_columns(columns)
        places = ", ".join("?" * len(names))
        self._insert = f"insert into evaluations ({', '.join(map(quoted, names))}) values ({places})"
        self._lock = Lock(self.path, "archive", ArchiveError)
        self._lock.acquire()
        try:
            if new and check_exists(self.path):
                self.warnings.append(f"the archive was renamed to {move_aside(self.path)}")
            self._database = self._open(identity, feasibility_tol)
        except BaseException:
            self._lock.release()
            raise
        self._last_id = _last_id(self._database)
        self._keys = KeyFilter()
        if self.reuses:
            self._keys.fill(self._database.db)
            self.spool = spool_of(self.path)
            self._take_spooled(self.spool)

    # Opening

    def _open(self, identity: dict[str, Any], feasibility_tol: float) -> Database:
        database = Database(self.path, write=True)
        try:
            if database.columns is not None:
                unlike = self._differences(database.info, identity)
                self._answered = _has_values(database)
                if not self._answered:
                    self._distrusted = _last_id(database)
                if unlike and self._answered:
                    raise ArchiveError(
                        f"archive {self.path} belongs to another objective: {'; '.join(unlike)}. Its values "
                        "cannot be used. To rename it and start a new archive, set archive_new=True "
                        "(--archive-new); or use another file"
                    )
                if unlike:  # only failures, for example because of a bug in fun that has been fixed
                    database.close()
                    self.warnings.append(
                        f"the archive had no values; it was renamed to {move_aside(self.path)}"
                    )
                    database = Database(self.path, write=True)
            if database.columns is None:
                self._answered = False
                created = {"lmma": _version(), "created": _now()}
                database.create(self.columns, {**identity, **created, "feasibility_tol": feasibility_tol})
            elif "code" not in database.info:
                with translated_errors(self.path), database.transaction():
                    database.put_info({"code": identity["code"]})
        except BaseException:
            database.close()
            raise
        return database

    def _differences(self, there: dict[str, Any], here: dict[str, Any]) -> list[str]:
        there, here = dict(there), dict(here)
        # bytecode of another Python version cannot be compared
        saved, code = str(there.pop("code", "")), here.pop("code")
        comparable = saved.partition(" ")[0] == code.partition(" ")[0]
        return differences({**there, CODE: saved if comparable else code}, {**here, CODE: code})

    def _take_spooled(self, files: str) -> None:
        """Add the values that workers of a killed process had computed."""
        generation = 1
        latest = "select max(run), coalesce(max(generation), 1) from evaluations"
        with contextlib.suppress(sqlite3.Error):
            self._run, generation = self._database.db.execute(latest).fetchone()
        for task in spool.read(files, self.columns.n):
            values, constraint_values = task.answers
            g = [None] * len(values) if constraint_values is None else list(constraint_values)
            for x, value, numbers in zip(task.x, values.tolist(), g, strict=True):
                key = self.key(x)
                if self.find(key) is None:
                    outcome = Outcome(value, numbers)
                    self._keys.add(key)
                    self._last_id += 1
                    one = Evaluated(key, x, outcome, task.seconds, task.worker)
                    self._write([Entry(self._last_id, one, generation, datetime.now(UTC))])
        spool.remove(files)

    def start(self, method: str, popsize: int, seed: str) -> None:
        """Add a row for this run to the table of runs, before its first evaluation."""
        row = (_now(), method, popsize, seed, _version())
        with translated_errors(self.path):
            added = self._database.db.execute(
                "insert into runs (started, method, popsize, seed, lmma) values (?, ?, ?, ?, ?)", row
            )
        self._run = added.lastrowid

    def close(self) -> None:
        """Write pending rows, close the file and release its lock."""
        if self._unsaved or self._waiting:
            self._next_try = 0.0
            self._write_waiting()
        self._database.close()
        if self._own_spool is not None:
            self._own_spool.close()
        if self.spool is not None and not self._unsaved:
            spool.remove(self.spool)
        self._lock.release()

    def reader(self) -> Archive | None:
        """Return the closed archive as a table; None, with a warning, if it cannot be read."""
        try:
            return Archive(self.path)
        except ArchiveError as error:
            self._warn(str(error))
            return None

    # Looking up

    def key(self, x: Array) -> bytes:
        """Return a digest of the point."""
        return key_of(x[: self.columns.n])  # seeds may be appended to it

    def find(self, key: bytes) -> Outcome | None:
        """Return the known outcome of the point with this key, or None."""
        if key not in self._keys:
            return None
        if (waiting := self._outcomes.get(key)) is not None:
            return waiting
        query = (
            "select value, constraints, status, reason, seconds, traceback, checksum from evaluations "
            "where key = ? and (id > ? or status = 'ok') order by id desc limit 1"
        )
        try:
            row = self._database.db.execute(query, (key, self._distrusted)).fetchone()
        except sqlite3.Error as error:
            self._warn(f"{error_of(self.path, error)}. The run continues without the archive")
            return None
        return None if row is None else self._outcome(key, *row)

    def _outcome(
        self,
        key: bytes,
        value: Any,
        g: Any,
        status: Any,
        reason: Any,
        seconds: Any,
        traceback: Any,
        check: Any,
    ) -> Outcome | None:
        """Return the outcome stored in a row; None if ``policy`` excludes it or the row is damaged."""
        try:
            if not is_intact(key, value, g, status, reason, check):
                raise ValueError("a row does not match its checksum")
            constraint_values = None if g is None else numbers_of(g)
        except (ValueError, TypeError, AttributeError) as error:
            self._warn(f"{error_of(self.path, error)}. The point is evaluated again")
            return None
        if status == "ok":
            return Outcome(value, constraint_values)
        policy = self.policy
        if not (policy.failures and self._answered):
            return None
        if status == "timeout" and (policy.timeout is None or not (seconds or 0) >= policy.timeout):
            return None
        kind, _, message = str(reason).partition(": ")
        if kind in ("nan", "inf", "constraint"):
            return Outcome(math.nan if value is None else value, constraint_values)
        return Outcome(failed=TaskFailure(Failure(kind, message, traceback or "")))

    # Adding

    def add(self, evaluated: Sequence[Evaluated]) -> None:
        """Write evaluations that have just ended; on failure, keep them and warn once."""
        self.calls += len(evaluated)
        generation, now = self.generation(), datetime.now(UTC)
        urgent = []
        for one in evaluated:
            self._keys.add(one.key)
            self._last_id += 1
            entry = Entry(self._last_id, one, generation, now)
            if self._spooled(one):
                self._waiting.append(entry._replace(one=one._replace(x=one.x.copy())))
                self._outcomes[one.key] = one.outcome
                self._answered = True
            else:
                urgent.append(entry)
        if urgent:
            self._write(urgent)
        if (self._waiting or self._is_torn) and (
            time.monotonic() >= self._next_write or not evaluated[-1].seconds < SHORT
        ):
            self._write_waiting()

    def _spooled(self, one: Evaluated) -> bool:
        """Append an evaluation to the spool, unless it failed; return whether it is there."""
        outcome = one.outcome
        if self.spool is None or self._is_torn or _status(outcome)[0] != "ok":
            return False
        try:
            if self._own_spool is None:
                self._own_spool = spool.SpoolWriter(self.spool, "")
        except OSError:
            return False
        g = outcome.constraint_values
        answers = np.array([outcome.value]), None if g is None else g[np.newaxis]
        x = one.x[np.newaxis, : self.columns.n]
        self._is_torn = not self._own_spool.add(x, packed(answers), one.seconds)  # such as on a full disk
        return not self._is_torn

    def _write_waiting(self) -> None:
        """Write the rows that wait, and then empty the spool."""
        waiting, self._waiting = self._waiting, []
        self._next_write = time.monotonic() + INTERVAL
        if self._write(waiting) and self._own_spool is not None:
            self._outcomes.clear()
            self._own_spool.empty()
            self._is_torn = False

    def _row(self, number: int, one: Evaluated, generation: int, now: datetime) -> tuple[Any, ...]:
        outcome, g = one.outcome, one.outcome.constraint_values
        x = one.x[: self.columns.n]
        value: float | None = outcome.value
        status, reason, traceback = _status(outcome)
        if outcome.failed is not None or value != value:
            value = None
        if traceback is not None:
            self._tracebacks -= 1
            traceback = traceback if self._tracebacks >= 0 else None
        constraints = None if g is None else text_of(g, self._functions)
        violation = None
        if status == "ok":
            self._answered = True
            if self._violation is not None:
                violation = self._violation(x, g)
        key = one.key if self.reuses else None
        return (
            number, self._run, generation, *(self.columns.cells(x) if self.columns.separate else ()),
            value, constraints, violation, status, reason, one.seconds, one.worker or None, _text(now),
            *(() if self.columns.exact else (x.astype(np.float64).tobytes(),)),
            key, traceback, checksum(key, value, constraints, status, reason),
        )  # fmt: skip

    def _write(self, entries: Sequence[Entry]) -> bool:
        """Write evaluations, and those that could not be written; return whether they are in the file."""
        rows = [self._row(*entry) for entry in entries]
        if self._unsaved:
            rows = self._unsaved + rows
            if time.monotonic() < self._next_try:
                self._unsaved = rows
                return False
        try:
            if len(rows) == 1:
                self._database.db.execute(self._insert, rows[0])
            else:
                with self._database.transaction():
                    self._database.db.executemany(self._insert, rows)
        except sqlite3.Error as error:
            self._unsaved, self._next_try = rows, time.monotonic() + RETRY
            self._warn(f"evaluations were not written to the archive; the run continues: {one_line(error)}")
            return False
        self._unsaved = []
        return True

    def _warn(self, text: str) -> None:
        """Warn once for each problem."""
        if text not in self.warnings:
            self.warnings.append(text)
            with contextlib.suppress(RuntimeWarning):  # a warning turned into an error must not end the run
                warnings.warn(text, RuntimeWarning, stacklevel=2)


@final
class KeyFilter:
    """A set of keys that may seem to contain other keys: a bit for each value of the first 24 bits.

    Most points of a run are new. Asking the filter is much faster than a query.
    """

    def __init__(self) -> None:
        self._bits = bytearray(1 << 21)

    def __contains__(self, key: bytes) -> bool:
        place = int.from_bytes(key[:3], "big")
        return bool(self._bits[place >> 3] >> (place & 7) & 1)

    def add(self, key: bytes) -> None:
        """Add a key."""
        place = int.from_bytes(key[:3], "big")
        self._bits[place >> 3] |= 1 << (place & 7)

    def fill(self, db: sqlite3.Connection) -> None:
        """Add the keys of all rows."""
        try:
            for (key,) in db.execute("select key from evaluations where key is not null"):
                self.add(key)
        except (sqlite3.Error, TypeError):  # damaged: queries report it
            self._bits = bytearray(b"\xff" * len(self._bits))


def _status(outcome: Outcome) -> tuple[str, str | None, str | None]:
    """Return status, reason and traceback of an outcome."""
    if outcome.failed is not None:
        failure = outcome.failed.failure
        status = "timeout" if failure.kind == "timeout" else "failed"
        reason = clean(f"{failure.kind}: {failure.message}"[:LONGEST])
        return status, reason, clean(failure.traceback[-LONGEST:]) or None
    if math.isnan(outcome.value):
        return "failed", "nan: fun returned NaN", None
    if math.isinf(outcome.value):
        return "failed", "inf: fun returned an infinite value", None
    g = outcome.constraint_values
    if g is not None and not np.isfinite(g).all():
        return "failed", f"constraint: a constraint is {g[~np.isfinite(g)][0]}", None
    return "ok", None, None


def _last_id(database: Database) -> int:
    with translated_errors(database.path):
        return int(database.db.execute("select coalesce(max(id), 0) from evaluations").fetchone()[0])


def _has_values(database: Database) -> bool:
    with translated_errors(database.path):
        found = database.db.execute("select 1 from evaluations where status = 'ok' limit 1").fetchone()
    return found is not None


def check_exists(path: Path) -> bool:
    """Return whether there is an archive, damaged or not, at ``path``; raise if it is another file."""
    try:
        return check_file(path)
    except DamagedArchive:
        return True


def spool_of(path: Path) -> str:
    """Return the path prefix of the files in which workers keep values until these are in the archive."""
    return str(path.with_name(f".{path.name}.spool"))


def move_aside(path: Path) -> Path:
    """Rename an archive and its journal to an unused name; return the new path."""
    number = 1
    while (aside := path.with_name(f"{path.stem}-{number}{path.suffix}")).exists():
        number += 1
    with contextlib.suppress(sqlite3.Error, DamagedArchive):  # the journal of a damaged file is renamed below
        database = Database(path, write=True)
        database.close()  # moves the journal into the file
    try:
        path.rename(aside)
        spool.remove(spool_of(path))  # its values belong to the renamed archive's objective
        for end in ("-wal", "-shm"):
            journal = Path(f"{path}{end}")
            if journal.exists():
                journal.rename(f"{aside}{end}")
    except OSError as error:
        raise ArchiveError(f"archive {path} cannot be renamed: {error.strerror or error}") from None
    return aside


def _version() -> str:
    return str(import_module("lmma").__version__)  # not a static import: the package is above this module


def _now() -> str:
    return _text(datetime.now(UTC))


def _text(when: datetime) -> str:
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")
