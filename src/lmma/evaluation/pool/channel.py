"""Interface between a pool and the transport of its tasks and reports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy.typing as npt

from lmma.evaluation.base import Array
from lmma.evaluation.batch import EvaluationBatch
from lmma.evaluation.pool.processes import WorkerProcess

Worker = TypeVar("Worker", bound=WorkerProcess)


class Task(NamedTuple):
    """The task that a worker is evaluating."""

    first: int  # row
    generation: int
    started: float  # on the monotonic clock


class Channel(ABC, Generic[Worker]):
    """Sends tasks to the workers of a pool and receives their reports."""

    spool: str | None = None  # for workers that are started from now on; see spool.py

    @abstractmethod
    def accepts(self, n: int, dtype: npt.DTypeLike) -> bool:
        """Return whether the running workers can evaluate candidates of this shape and type."""

    @abstractmethod
    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array:
        """Return an array for candidates, and open the channel if necessary."""

    @abstractmethod
    def begin(self, generation: int) -> None:
        """Begin the next generation; its candidates are in the buffer."""

    @abstractmethod
    def cancel(self) -> None:
        """Cancel the tasks of this generation that no worker has started."""

    @abstractmethod
    def send(self, batch: EvaluationBatch, workers: Collection[Worker]) -> None:
        """Send as many tasks of the queue as the workers can take now."""

    @abstractmethod
    def unread(self) -> int:
        """Return the number of tasks that were sent and that no worker has read yet."""

    @abstractmethod
    def task(self, worker: Worker) -> Task | None:
        """Return the task of ``worker``, or None if it is idle."""

    @abstractmethod
    def wait(self, seconds: float) -> Sequence[Worker]:
        """Wait until a worker reports or exits, at most ``seconds``; return the workers that did."""

    @abstractmethod
    def start(self, slot: int) -> Worker:
        """Start a worker; raise OSError if that is impossible."""

    @abstractmethod
    def end(self, worker: Worker) -> None:
        """Kill a worker and release its pipes."""

    @abstractmethod
    def close(self) -> None:
        """Release the resources of the channel, whose workers have ended."""
