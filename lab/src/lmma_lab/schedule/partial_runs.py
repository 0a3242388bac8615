"""Checkpoints of runs in progress; a killed run resumes and ends with the same record.

A checkpoint of each run (:mod:`lmma.run.checkpoint`) is saved in the folder ``unfinished`` next to the store,
under the key of its task. Its header holds the state of the watched objective: curve, targets reached,
seconds spent. The folder can be copied to another machine.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lmma import kernels
from lmma._archive import UNREADABLE, CheckpointError, header_of
from lmma.run.checkpoint import Checkpoint, previous
from lmma_lab.schedule.objective import WatchedObjective

if TYPE_CHECKING:
    from lmma.run.state import RunState

FOLDER = "unfinished"  # next to the store
PATIENCE = 10.0  # seconds to wait for the worker of a killed process to end
EVERY = 20.0  # seconds between checkpoints; at most this much work is lost


class Stopwatch:
    """Wall-clock and CPU seconds, including the time before an interruption."""

    def __init__(self) -> None:
        self.before = (0.0, 0.0)
        self._start = (time.perf_counter(), time.process_time())

    def read(self) -> tuple[float, float]:
        """Return wall-clock and CPU seconds so far."""
        now = (time.perf_counter(), time.process_time())
        wall, cpu = (past + t - start for past, t, start in zip(self.before, now, self._start, strict=True))
        return wall, cpu


class PartialRun(Checkpoint):
    """The checkpoint of a task, including the state of its objective.

    Parameters
    ----------
    path : Path
        The file.
    objective : WatchedObjective
        Objective of the run; restored together with the run.
    every : float
        Minimum seconds between two checkpoints.

    Attributes
    ----------
    watch : Stopwatch
        Started when this object is created.
    kernels : list of str
        Kernels used so far, possibly on several machines; the current ones are last.
    unusable : bool
        True if the file could not be restored.
    """

    def __init__(self, path: Path, objective: WatchedObjective, every: float = EVERY) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, every)
        self.objective = objective
        self.watch = Stopwatch()
        self.kernels = [str(kernels.backend())]
        self.unusable = False
        self._wait_for_previous_owner()

    def _wait_for_previous_owner(self) -> None:
        """Wait for the worker of a killed process, which ends shortly after it."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.lock.acquire()
            except CheckpointError:
                if time.monotonic() >= deadline:
                    return  # the owner is alive; restore() reports the error
                time.sleep(0.1)
            else:
                self.lock.release()
                return

    def save(self, state: RunState, ended: str | None = None) -> None:
        """Do nothing: a finished run has its record, an interrupted one its last checkpoint."""

    def save_if_due(self, state: RunState) -> None:
        """Save the run and the state of its objective if a checkpoint is due."""
        if time.monotonic() < self._due:
            return
        self.extra = {
            "objective": self.objective.state(state.counters.evaluations, state.counters.best_fun),
            "watch": self.watch.read(),
            "kernels": self.kernels,
        }
        super().save(state)

    def restore(self, state: RunState, *, seeded: bool) -> list[str] | None:
        """Restore a run and its objective from the checkpoint; return None if there is none."""
        try:
            notes = super().restore(state, seeded=seeded)
            if notes is None:
                return None
            extra = header_of(self.file)["extra"]
            self.objective.restore(extra["objective"])
            wall, cpu = extra["watch"]
            before = [str(name) for name in extra["kernels"]]
        except (CheckpointError, KeyError, TypeError, ValueError) as error:
            self.unusable = True
            raise CheckpointError(f"{self.file} cannot be restored: {error}") from None
        self.watch.before = (float(wall), float(cpu))
        self.kernels = list(dict.fromkeys([*before, *self.kernels]))
        return notes


@dataclass(frozen=True)
class PartialRuns:
    """A folder of runs in progress, each under the key of its task."""

    folder: Path
    every: float = EVERY

    def path(self, key: str) -> Path:
        """Return the path of the checkpoint for the task ``key``."""
        return self.folder / f"{key}.npz"

    def keep(self, key: str, objective: WatchedObjective) -> PartialRun:
        """Return the checkpoint object for the run of the task ``key``."""
        return PartialRun(self.path(key), objective, self.every)

    def evaluations(self, key: str) -> int:
        """Return the number of evaluations in a checkpoint, or 0 if there is no readable one."""
        try:
            return int(header_of(self.path(key))["counters"]["evaluations"])
        except (OSError, *UNREADABLE):
            return 0

    def forget(self, key: str) -> None:
        """Remove the checkpoint of a run whose record is stored; keep the folder, which others may use."""
        path = self.path(key)
        with contextlib.suppress(OSError):  # a leftover file only takes disk space
            for file in (path, previous(path)):
                file.unlink(missing_ok=True)

    def set_aside(self, key: str) -> None:
        """Rename a checkpoint that cannot be restored."""
        path = self.path(key)
        os.replace(path, path.with_name(f"{path.name}.refused"))
        previous(path).unlink(missing_ok=True)
