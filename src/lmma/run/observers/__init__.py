"""Observers: the progress that they receive, and a recorder."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lmma.numerics.state import ANY, AT_LEAST_ONE, COUNT

Observer = Callable[["Progress"], None]


class Progress(NamedTuple):
    """Progress after one generation."""

    evaluations: int
    generation: int
    best_fun: float
    sigma: float
    failures: int
    seconds: float
    step: float = math.nan  # root mean square distance of candidates from the mean, per coordinate
    popsize: int = 0
    restarts: int = 0
    late: int = 0  # evaluations dropped by quorum=
    violation: float = math.nan  # largest violation at the best point; NaN without constraints
    quality: float = 1.0  # agreement of repeated rankings; 1 without noise
    repeats: float = 1.0  # evaluations per candidate, or population relative to the first one
    rate: float = 1.0  # learning rate of the mean
    average_fun: float = math.nan  # exponentially weighted mean of all values; NaN without noise
    slopes: float = math.nan  # evaluations by quasi-Newton; NaN for methods without it


class Recorder:
    """Keeps at most ``size`` snapshots, evenly spread over the generations of the run.

    When the record is full, every second snapshot is dropped and the stride doubles. The end of the run is
    stored separately, so that a curve always ends with it.
    """

    def __init__(self, size: int = 1000) -> None:
        self.size = max(2, size)
        self._kept: list[Progress] = []
        self._last: Progress | None = None
        self._stride = 1
        self._seen = 0

    def is_due(self) -> bool:
        """Count one generation; return whether its snapshot is to be kept."""
        due = self._seen % self._stride == 0
        self._seen += 1
        return due

    def keep(self, progress: Progress) -> None:
        """Keep a snapshot that is due."""
        self._kept.append(progress)
        if len(self._kept) >= self.size:
            self._kept = self._kept[::2]
            self._stride *= 2

    def end(self, progress: Progress) -> None:
        """Store the end of the run."""
        self._last = progress if progress.evaluations else None

    @property
    def snapshots(self) -> list[Progress]:
        """The snapshots, oldest first."""
        if self._last is None or (self._kept and self._kept[-1].evaluations == self._last.evaluations):
            return list(self._kept)
        return [*self._kept, self._last]

    def columns(self) -> dict[str, list[Any]]:
        """Return the record as one list per quantity."""
        columns = dict(zip(Progress._fields, map(list, zip(*self.snapshots, strict=True)), strict=False))
        return {name: column for name, column in columns.items() if any(v == v for v in column)}  # not NaN

    def get_state(self) -> dict[str, Any]:
        """Return the record as named arrays and numbers."""
        state: dict[str, Any] = {
            name: np.array([getattr(snapshot, name) for snapshot in self._kept], dtype=np.float64)
            for name in Progress._fields
        }
        return state | {"kept": len(self._kept), "stride": self._stride, "seen": self._seen}

    def set_state(self, state: dict[str, Any]) -> None:
        """Restore a state returned by :meth:`get_state`."""
        whole = ("evaluations", "generation", "failures", "popsize", "restarts", "late")
        names = Progress._fields
        for name in names:
            (COUNT if name in whole else ANY).check(name, state[name])
        for name, limits in (("kept", COUNT), ("stride", AT_LEAST_ONE), ("seen", COUNT)):
            limits.check(name, state[name])
        rows = zip(*(state[name].tolist() for name in names), strict=True)
        snapshots = [
            Progress(*(int(v) if k in whole else v for k, v in zip(names, row, strict=True))) for row in rows
        ]
        self._kept, self._last = snapshots[: int(state["kept"])], None
        self._stride, self._seen = int(state["stride"]), int(state["seen"])
