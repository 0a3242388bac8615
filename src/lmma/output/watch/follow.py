"""Logs followed while runs write them: grown, cut short, amended, replaced or not there yet."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lmma.output.watch.records import LONGEST, Columns, is_likely

MOST = 1600  # records kept for a picture; every second one is dropped when there are more
HEAD = 512  # bytes, in which times are that no two runs share
CHUNK = 1 << 24  # bytes read at a time
LOGS = 7  # on one page: one for each colour


class Follower:
    """Keeps a thinned record of a log; :meth:`update` reads what was added since.

    A line is only looked into where it is kept: of a hundred thousand some thousand are parsed.

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
        self.changed = 0.0  # when something was last written, in seconds of the system's clock
        self._forget()

    def _forget(self) -> None:
        self._file: tuple[int, int] | None = None
        self._at = 0
        self._rest = b""
        self._head = b""  # by which another run's log is told from this one
        self._last = b""  # the last line that is a record
        self._columns = Columns()
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
                self.changed = about.st_mtime
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
            if self.records % self._stride and is_likely(line):
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
        """Return whether a line is the end of the last record, to which its run has added why it ended."""
        whole = self._last[:-1] + b", " + line.lstrip()
        if not (line.startswith(b'"reason": ') and self._columns.amend(whole)):
            return False
        self._last = whole
        return True

    def data(self) -> dict[str, Any]:
        """Return what the page draws, for JSON."""
        return {
            "name": self.path.name, "records": self.records, "odd": self.odd, "problem": self.problem,
            "changed": round(self.changed, 1), **self._columns.data(self._last),
        }  # fmt: skip


class Logs:
    """The logs that files and folders mean: a folder's are looked up again each time, the newest first.

    Parameters
    ----------
    sources : iterable of paths
        Files, which may be missing yet, and folders, which stand for the .jsonl files in them.
    """

    def __init__(self, sources: Iterable[str | os.PathLike[str]]) -> None:
        self.sources = [Path(source) for source in sources]
        self._followers: dict[Path, Follower] = {}
        self.left_out = 0  # logs for which there is no room

    @property
    def followers(self) -> list[Follower]:
        """The logs as they were when they were last read."""
        return list(self._followers.values())

    def update(self) -> list[Follower]:
        """Read what was added to each; return them."""
        files = self.files()
        self._followers = {path: self._followers.get(path) or Follower(path) for path in files}
        for follower in self._followers.values():
            follower.update()
        return self.followers

    def files(self) -> list[Path]:
        """Return the logs that are meant: files as they were named, then the newest of folders."""
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
        """Return what the page draws, for JSON, as it is now."""
        return {"logs": [follower.data() for follower in self.update()], "left_out": self.left_out}


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
