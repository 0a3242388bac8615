"""Follow logs while runs write them: growing, truncated, amended, replaced or not yet created."""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

MOST = 1600  # records kept per log; every second one is dropped when there are more
HEAD = 512  # leading bytes that identify the run: they contain times
CHUNK = 1 << 24  # bytes read at a time
LOGS = 7  # maximum number of logs on one page, one per colour


class Follower:
    """A thinned copy of a log; :meth:`update` reads the lines added since the last call.

    Only lines that are kept are parsed: a few thousand of a log of 100,000.

    Attributes
    ----------
    records : int
        Number of records in the log.
    odd : int
        Number of lines that are not records.
    problem : str
        Reason why the file cannot be read; empty if it can.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.changed = 0.0  # modification time of the file
        self._reset()

    def _reset(self) -> None:
        self._file: tuple[int, int] | None = None
        self._at = 0
        self._rest = b""
        self._head = b""  # differs if another run replaced the log
        self._last = b""  # the last line that is a record
        self._columns = Columns()
        self._stride = 1
        self.records = self.odd = 0
        self.problem = ""

    def update(self) -> None:
        """Read the lines added; start again if the file was replaced or has become shorter."""
        try:
            with open(self.path, "rb", opener=_open_without_waiting) as file:
                about = os.fstat(file.fileno())
                if not stat.S_ISREG(about.st_mode):
                    self._reset()
                    self.problem = "not a regular file"
                    return
                same = (about.st_dev, about.st_ino) == self._file and about.st_size >= self._at
                if not (same and file.read(len(self._head)) == self._head):
                    self._reset()  # a new run writes to the same file
                    self._file = (about.st_dev, about.st_ino)
                self.problem = ""
                self.changed = about.st_mtime
                file.seek(self._at)
                left = about.st_size - self._at  # limit: the file may grow faster than it is read
                while left > 0 and (chunk := file.read(min(CHUNK, left))):
                    left -= len(chunk)
                    if self._at < HEAD:
                        self._head += chunk[: HEAD - self._at]
                    self._at += len(chunk)
                    self._add(chunk)
        except OSError as error:
            self.problem = error.strerror or str(error)

    @property
    def is_foreign(self) -> bool:
        """True if the file has content but no records and therefore is not a log."""
        return not self.records and bool(self.odd or (self._rest and not self._rest.startswith(b"{")))

    def _add(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST:
            self._rest = b""
        for line in lines:
            if self.records % self._stride and looks_like_record(line) and DESCRIPTION not in line:
                self.records += 1
                self._last = line
            elif self._columns.add(line):
                self.records += 1
                self._last = line
                if len(self._columns) >= MOST:
                    self._columns.thin()
                    self._stride *= 2
            elif not self._amends(line):
                self.odd += 1

    def _amends(self, line: bytes) -> bool:
        """Append to the last record the reason that the run added when it ended; return whether it did."""
        amended = self._last[:-1] + b", " + line.lstrip()
        if not (line.startswith(b'"reason": ') and self._columns.amend(amended)):
            return False
        self._last = amended
        return True

    def data(self) -> dict[str, Any]:
        """Return the data for the page, for JSON."""
        return {
            "name": self.path.name, "records": self.records, "odd": self.odd, "problem": self.problem,
            "changed": round(self.changed, 1), **self._columns.data(self._last),
        }  # fmt: skip


class Source(Protocol):
    """A file that the page shows; see :class:`Follower`."""

    path: Path
    problem: str
    records: int

    @property
    def is_foreign(self) -> bool:
        """True if the file has content of another kind."""

    def update(self) -> None:
        """Read what was added."""

    def data(self) -> dict[str, Any]:
        """Return the data for the page, for JSON."""


class Logs:
    """The logs in a set of files and folders; folders are listed again at each update.

    Parameters
    ----------
    sources : iterable of paths
        Files, which need not exist yet, and folders of .jsonl files.
    follow : callable
        Returns the follower of a file; :class:`Follower` reads logs.
    """

    def __init__(
        self, sources: Iterable[str | os.PathLike[str]], follow: Callable[[Path], Source] | None = None
    ) -> None:
        self.sources = [Path(source) for source in sources]
        self._follow = follow or Follower
        self._followers: dict[Path, Source] = {}
        self.left_out = 0  # logs beyond LOGS, which are not shown

    @property
    def followers(self) -> list[Source]:
        """The logs as of the last update."""
        return list(self._followers.values())

    def update(self) -> list[Source]:
        """Update all logs and return them."""
        files = self.files()
        self._followers = {path: self._followers.get(path) or self._follow(path) for path in files}
        for follower in self._followers.values():
            follower.update()
        return self.followers

    def files(self) -> list[Path]:
        """Return the paths of the logs: the files in the given order, then the newest in folders."""
        named = [source for source in self.sources if not source.is_dir()]
        inside: list[tuple[float, Path]] = []
        for folder in self.sources:
            if folder.is_dir():
                inside += [(_written(path), path) for path in folder.glob("*.jsonl") if path.is_file()]
        inside.sort(reverse=True)
        room = max(0, LOGS - len(named))
        self.left_out = len(inside[room:])
        return [*named, *sorted(path for _, path in inside[:room] if path not in named)]

    def data(self) -> dict[str, Any]:
        """Update all logs and return the data for the page, for JSON."""
        return {"logs": [follower.data() for follower in self.update()], "left_out": self.left_out}


def _open_without_waiting(path: str, flags: int) -> int:
    """Open a file; without the flag, opening a named pipe would wait for a writer."""
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


DESCRIPTION = b', "run": {'  # in the first record of each process
LONGEST = 1 << 20  # bytes; longer lines are not records
DRAWN = (
    "evaluations", "best_fun", "median_fun", "sigma", "step", "axis_ratio", "seconds", "failures", "late",
    "restarts", "popsize", "violation", "quality", "repeats", "rate", "average_fun", "generation", "slopes",
)  # fmt: skip
FACTS = ("n", "seed", "popsize", "maxfevals", "maxiter", "maxtime", "ftarget")  # numbers about a run
QUANTILES = 5  # of the steps: minimum, quartiles, maximum
NAMES = 8  # coordinates whose mean and step are drawn
VARIABLES = 60  # of the best point that are listed
TEXT = 80  # characters of a name or value


class Columns:
    """Numeric columns of a log, with None for missing or invalid numbers."""

    def __init__(self) -> None:
        self.names: list[str] = []  # coordinates that are drawn
        self.run: dict[str, Any] = {}  # description of the run
        self._rows: list[list[float | None]] = []

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, line: bytes) -> bool:
        """Add a line; return whether it is a record."""
        record = _record(line)
        if record is None:
            return False
        self._rows.append(self._row(record))
        return True

    def amend(self, line: bytes) -> bool:
        """Return whether ``line``, the amended last record, is a record."""
        return _record(line) is not None

    def thin(self) -> None:
        """Drop every second row."""
        self._rows = self._rows[::2]

    def _row(self, record: dict[str, Any]) -> list[float | None]:
        if isinstance(record.get("run"), dict):
            self.run = _facts(record["run"])
        row = [_number(record.get(name)) for name in DRAWN]
        steps = record.get("steps")
        row += _row_of(steps, QUANTILES)
        found = record.get("coordinates")
        coordinates = found if isinstance(found, dict) else {}
        if not self.names:
            self.names = list(coordinates)[:NAMES]
        for name in self.names:
            row += _row_of(coordinates.get(name), 2)
        return row

    def data(self, last: bytes) -> dict[str, Any]:
        """Return the columns, the names, and the text fields of the ``last`` line, for JSON."""
        rows = list(self._rows)
        record = _record(last) or {}
        if record:
            row = self._row(record)
            if not rows or rows[-1] != row:
                rows.append(row)
        width = len(DRAWN) + QUANTILES
        rows = [row + [None] * (width + 2 * len(self.names) - len(row)) for row in rows]
        place = {name: number for number, name in enumerate(DRAWN)}
        return {
            "columns": {name: [row[at] for row in rows] for name, at in place.items()},
            "steps": [[row[len(DRAWN) + k] for row in rows] for k in range(QUANTILES)],
            "names": [name[:TEXT] for name in self.names],
            "means": [[row[width + 2 * k] for row in rows] for k in range(len(self.names))],
            "deviations": [[row[width + 2 * k + 1] for row in rows] for k in range(len(self.names))],
            "shortest": _numbers(record.get("shortest")),
            "longest": _numbers(record.get("longest")),
            "best": _texts(record.get("x")),
            "reason": str(record.get("reason", ""))[:TEXT],
            "run": self.run,
        }


def _facts(found: dict[str, Any]) -> dict[str, Any]:
    """Return the first record's description: method, numbers, and whether lengths are relative to bounds."""
    numbers = {name: _number(found.get(name)) for name in FACTS}
    facts: dict[str, Any] = {name: value for name, value in numbers.items() if value is not None}
    return {"method": str(found.get("method", ""))[:TEXT], "relative": found.get("relative") is True} | facts


def looks_like_record(line: bytes) -> bool:
    """Return whether a line looks like a record, without parsing it."""
    return line.startswith(b'{"evaluations": ') and line.endswith(b"}") and len(line) <= LONGEST


def _record(line: bytes) -> dict[str, Any] | None:
    """Parse a record; return None if the line is not one."""
    if len(line) > LONGEST:
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or _number(found.get("evaluations")) is None:
        return None
    return found


def _number(value: Any) -> float | None:
    if type(value) not in (int, float) or not -1e308 < value < 1e308:
        return None
    if not math.isfinite(value):
        return None
    return value if type(value) is int else float(f"{value:.7g}")


def _row_of(found: Any, size: int) -> list[float | None]:
    """Return ``found`` as ``size`` numbers, all None if it is not a list of that length."""
    if not isinstance(found, list) or len(found) != size:
        return [None] * size
    return [_number(value) for value in found]


def _numbers(found: Any) -> list[tuple[str, float]]:
    pairs = found.items() if isinstance(found, dict) else ()
    numbers = [(str(name)[:TEXT], _number(value)) for name, value in list(pairs)[:NAMES]]
    return [(name, value) for name, value in numbers if value is not None]


def _texts(found: Any) -> list[tuple[str, str]]:
    pairs = found.items() if isinstance(found, dict) else ()
    return [(str(name)[:TEXT], _text(value)) for name, value in list(pairs)[:VARIABLES]]


def _text(value: Any) -> str:
    text = f"{value:.7g}" if type(value) is float else str(value)
    return text if len(text) <= TEXT else text[: TEXT - 1] + "…"
