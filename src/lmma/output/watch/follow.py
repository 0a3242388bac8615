"""A log followed while a run writes it: grown, cut short, replaced or not there yet."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

DRAWN = ("evaluations", "best_fun", "sigma", "step", "seconds", "failures", "restarts", "popsize")
MOST = 2000  # records kept for a picture; every second one is dropped when there are more
LONGEST = 1 << 20  # bytes of a line; what is longer is no record
HEAD = 512  # bytes, in which times are that no two runs share
CHUNK = 1 << 24  # bytes read at a time


class Follower:
    """Keeps a thinned record of a log; :meth:`update` reads what was added since.

    Attributes
    ----------
    records : int
        How many records the log has.
    odd : int
        Lines that were none.
    problem : str
        Why the file cannot be read, in words; empty if it can.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._forget()

    def _forget(self) -> None:
        self._file: tuple[int, int] | None = None
        self._at = 0
        self._rest = b""
        self._head = b""  # by which another run's log is told from this one
        self._kept: list[list[float | None]] = []
        self._last: list[float | None] | None = None
        self._stride = 1
        self.records = self.odd = 0
        self.problem = ""

    def update(self) -> None:
        """Read what was added; start anew if the file was replaced or has become shorter."""
        try:
            with open(self.path, "rb") as file:
                about = os.fstat(file.fileno())
                same = (about.st_dev, about.st_ino) == self._file and about.st_size >= self._at
                if not (same and file.read(len(self._head)) == self._head):
                    self._forget()  # a new run writes into the same file
                    self._file = (about.st_dev, about.st_ino)
                self.problem = ""
                file.seek(self._at)
                left = about.st_size - self._at  # and no further: the file may grow faster than it is read
                while left > 0 and (chunk := file.read(min(CHUNK, left))):
                    left -= len(chunk)
                    if self._at < HEAD:
                        self._head += chunk[: HEAD - self._at]
                    self._at += len(chunk)
                    self._take(chunk)
        except OSError as error:
            self.problem = error.strerror or str(error)

    def _take(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LONGEST:
            self._rest = b""
        for line in lines:
            record = _record(line)
            if record is None:
                self.odd += 1
                continue
            if self.records % self._stride == 0:
                self._kept.append(record)
                if len(self._kept) >= MOST:
                    self._kept = self._kept[::2]
                    self._stride *= 2
            self.records += 1
            self._last = record

    def data(self) -> dict[str, Any]:
        """Return what the page draws, for JSON."""
        rows = list(self._kept)
        if self._last is not None and rows[-1] is not self._last:
            rows.append(self._last)
        columns = {name: [row[place] for row in rows] for place, name in enumerate(DRAWN)}
        return {
            "name": self.path.name, "records": self.records, "odd": self.odd, "problem": self.problem,
            "columns": columns,
        }  # fmt: skip


def _record(line: bytes) -> list[float | None] | None:
    """Return the drawn quantities of a line, None in place of what is no number; None for no record."""
    if len(line) > LONGEST:
        return None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or _number(found.get("evaluations")) is None:
        return None
    return [_number(found.get(name)) for name in DRAWN]


def _number(value: Any) -> float | None:
    if type(value) not in (int, float) or not -1e308 < value < 1e308:
        return None
    return value if math.isfinite(value) else None
