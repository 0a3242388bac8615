"""A run in progress, kept beside the store: killed, it goes on where it was, to the record it would have had.

A checkpoint of the run (:mod:`lmma.run.checkpoint`) lies in the folder ``unfinished`` under the key of its
task. Its header carries what the watched objective knows: curve, targets met, seconds spent. A folder copied
to another machine goes on there.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lmma import kernels
from lmma.experiments.schedule.objective import WatchedObjective
from lmma.run.checkpoint import Checkpoint, previous
from lmma.run.checkpoint_file import UNREADABLE, CheckpointError, header_of

if TYPE_CHECKING:
    from lmma.run.run import Run

FOLDER = "unfinished"  # beside the store
PATIENCE = 10.0  # seconds for the worker of a killed process to end
EVERY = 20.0  # seconds between two checkpoints: what a kill may cost


class Stopwatch:
    """Wall-clock and CPU seconds of a run, those before it was interrupted included."""

    def __init__(self) -> None:
        self.before = (0.0, 0.0)
        self._start = (time.perf_counter(), time.process_time())

    def read(self) -> tuple[float, float]:
        """Return wall-clock and CPU seconds so far."""
        now = (time.perf_counter(), time.process_time())
        wall, cpu = (past + t - start for past, t, start in zip(self.before, now, self._start, strict=True))
        return wall, cpu


class UnfinishedRun(Checkpoint):
    """The checkpoint of a task, with what its objective has seen.

    Parameters
    ----------
    path : Path
        The file.
    objective : WatchedObjective
        What the run minimises; put back to where the checkpoint was when the run is.
    every : float
        Least number of seconds between two checkpoints.

    Attributes
    ----------
    watch : Stopwatch
        Runs from now on.
    kernels : list of str
        Those the run has used so far, on whatever machines, the present ones last.
    refused : bool
        Whether what the file held could not be continued.
    """

    def __init__(self, path: Path, objective: WatchedObjective, every: float = EVERY) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        super().__init__(path, every)
        self.objective = objective
        self.watch = Stopwatch()
        self.kernels = [str(kernels.backend())]
        self.refused = False
        self._wait_for_the_last_owner()

    def _wait_for_the_last_owner(self) -> None:
        """Wait for the worker of a process that was killed: it ends a moment after that."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                self.lock.acquire()
            except CheckpointError:
                if time.monotonic() >= deadline:
                    return  # whoever uses it is alive; the run says so
                time.sleep(0.1)
            else:
                self.lock.release()
                return

    def save(self, run: Run) -> None:
        """Do nothing: a run that ends has its record, and one cut short its last checkpoint."""

    def save_if_due(self, run: Run) -> None:
        """Write ``run`` and what its objective has seen, if the last checkpoint is old enough."""
        if time.monotonic() < self._due:
            return
        self.extra = {
            "objective": self.objective.state(run.counters.evaluations, run.counters.best_fun),
            "watch": self.watch.read(),
            "kernels": self.kernels,
        }
        super().save(run)

    def restore(self, run: Run) -> bool:
        """Put ``run`` and its objective where the checkpoint left off; return False if there is none."""
        try:
            if not super().restore(run):
                return False
            extra = header_of(self.file)["extra"]
            self.objective.go_on_from(extra["objective"])
            wall, cpu = extra["watch"]
            before = [str(name) for name in extra["kernels"]]
        except (CheckpointError, KeyError, TypeError, ValueError) as error:
            self.refused = True
            raise CheckpointError(f"{self.file} cannot be continued: {error}") from None
        self.watch.before = (float(wall), float(cpu))
        self.kernels = list(dict.fromkeys([*before, *self.kernels]))
        return True


@dataclass(frozen=True)
class UnfinishedRuns:
    """A folder of runs in progress, each under the key of its task."""

    folder: Path
    every: float = EVERY

    def path(self, key: str) -> Path:
        """Return where the run of the task ``key`` is kept until it is finished."""
        return self.folder / f"{key}.npz"

    def keep(self, key: str, objective: WatchedObjective) -> UnfinishedRun:
        """Return the checkpoint with which the run of the task ``key`` is kept."""
        return UnfinishedRun(self.path(key), objective, self.every)

    def evaluations(self, key: str) -> int:
        """Return how many evaluations a kept run has behind it, 0 where nothing readable is there."""
        try:
            return int(header_of(self.path(key))["counters"]["evaluations"])
        except (OSError, *UNREADABLE):
            return 0

    def forget(self, key: str) -> None:
        """Remove what is kept of a run, once its record is safe; others may be about to use the folder."""
        path = self.path(key)
        with contextlib.suppress(OSError):  # it costs disk space, nothing else
            for file in (path, previous(path)):
                file.unlink(missing_ok=True)

    def set_aside(self, key: str) -> None:
        """Move a checkpoint that cannot be continued out of the way."""
        path = self.path(key)
        os.replace(path, path.with_name(f"{path.name}.refused"))
        previous(path).unlink(missing_ok=True)
