"""Follow an archive while a run writes to it, for the live page."""

from __future__ import annotations

import math
from datetime import datetime
from pathlib import Path
from typing import Any, final

from lmma.output.watch.follow import DRAWN, MOST, QUANTILES, TEXT, VARIABLES
from lmma.run.archive.database import ArchiveError
from lmma.run.archive.reader import Archive

BEST = 20  # points drawn as lines
AXES = 20  # variables of these points
SHOWN = ("evaluations", "best_fun", "value", "seconds", "failures")

Row = tuple[int, float | None, float | None, float | None, int]  # as in SHOWN


@final
class ArchiveFollower:
    """A thinned copy of an archive, with the interface of :class:`lmma.output.watch.follow.Follower`.

    Attributes
    ----------
    records : int
        The number of evaluations.
    problem : str
        Reason why the file cannot be read; empty if it can.
    """

    odd = 0
    is_foreign = False

    def __init__(self, path: Path) -> None:
        self.path = path
        self.changed = 0.0
        self._reset()

    def _reset(self) -> None:
        self._archive: Archive | None = None
        self._last = 0  # id of the last row
        self._began: datetime | None = None
        self._rows: list[Row] = []
        self._newest: list[Row] = []  # the last row, if it is not among them
        self._stride = 1
        self._best_fun = math.inf
        self._failures = 0
        self._best: dict[str, Any] = {}  # the best row
        self._axes: list[tuple[str, str, str, list[float]]] = []  # of Archive.positions()
        self.records = 0
        self.problem = ""

    def update(self) -> None:
        """Read the rows added; start again if the file was replaced."""
        try:
            self.path.stat()
            if self._archive is None or not self._archive.is_current():
                self._reset()
                self._archive = Archive(self.path)
            rows = self._archive.since(self._last)
            if rows and (points := self._archive.best(BEST)):
                self._best, self._axes = points[0], self._archive.positions(points, AXES)
        except OSError as error:
            self.problem = error.strerror or str(error)
            return
        except ArchiveError as error:
            self.problem = str(error).replace(str(self.path.absolute()), self.path.name)
            return
        self.problem = ""
        for row in rows:
            self._add(*row)

    def _add(self, number: int, value: float | None, status: str, when: str | None) -> None:
        self._last = number
        self.records += 1
        self._failures += status != "ok"
        if value is not None and value < self._best_fun:
            self._best_fun = value
        seconds = self._seconds(when)
        best = self._best_fun if math.isfinite(self._best_fun) else None
        row = self.records, best, value, seconds, self._failures
        self._newest = [row]
        if (self.records - 1) % self._stride:
            return
        self._rows.append(row)
        self._newest = []
        if len(self._rows) >= MOST:
            self._rows, self._stride = self._rows[::2], 2 * self._stride

    def _seconds(self, when: str | None) -> float | None:
        """Return the seconds since the first row."""
        try:
            time = datetime.fromisoformat(str(when))
            self._began = self._began or time
            self.changed = time.timestamp()
            return (time - self._began).total_seconds()
        except (ValueError, TypeError):
            return None

    def data(self) -> dict[str, Any]:
        """Return the data for the page, for JSON."""
        columns: dict[str, list[Any]] = {name: [] for name in DRAWN}
        table = [*self._rows, *self._newest]
        columns |= {name: [row[at] for row in table] for at, name in enumerate(SHOWN)}
        archive, best, run = self._archive, [], {}
        if archive is not None:
            run = {"method": str(archive.info.get("fun", ""))[:TEXT], "n": archive.info.get("n")}
            if self._best:
                best = [
                    (name[:TEXT], f"{_text(self._best[name])} {archive.units.get(name, '')}".rstrip())
                    for name in archive.variables[:VARIABLES]
                ]
        return {
            "name": self.path.name, "records": self.records, "odd": 0, "problem": self.problem,
            "changed": round(self.changed, 1), "columns": columns, "steps": [[]] * QUANTILES, "names": [],
            "means": [], "deviations": [], "shortest": [], "longest": [], "best": best, "reason": "",
            "run": run,
            "axes": [
                {"name": name[:TEXT], "ends": [low[:TEXT], high[:TEXT]], "at": [round(k, 4) for k in at]}
                for name, low, high, at in self._axes
            ],
        }  # fmt: skip


def _text(value: Any) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)[:TEXT]
