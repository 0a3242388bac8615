"""Candidates in shared memory, and one pipe with the tasks of all workers (Linux and macOS).

All tasks of a generation go into the pipe, so a free worker takes the next task directly. The selector wakes
the pool when a worker reports.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import selectors
import subprocess
import termios
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import final

import numpy as np
import numpy.typing as npt

from lmma.evaluation.base import Array
from lmma.evaluation.batch import EvaluationBatch
from lmma.evaluation.pool.channel import Channel, Task
from lmma.evaluation.pool.processes import WorkerProcess, module_path, start_interpreter
from lmma.evaluation.pool.worker import (
    IDLE,
    TASK,
    MemoryLayout,
    SharedMemory,
    WorkerSetup,
    anonymous_file,
    extend,
)

MAX_PIPED_TASKS = 1024  # 16 kB, well within the 64 kB capacity of a pipe


@final
@dataclass(eq=False)
class SharedWorker(WorkerProcess):
    """A worker that reads candidates from shared memory and reports through a pipe."""

    reports: int = -1  # descriptor of the pipe

    def receive(self) -> bool:
        """Read available reports; return False if the worker has closed its pipe."""
        with contextlib.suppress(BlockingIOError):
            while chunk := os.read(self.reports, 65536):
                self.unread += chunk
            return False
        return True

    def close(self) -> None:
        """Close the pipe of a process that has exited."""
        if self.reports >= 0:
            os.close(self.reports)
            self.reports = -1


@final
class SharedChannel(Channel[SharedWorker]):
    """Sends rows of shared memory as tasks.

    Parameters
    ----------
    objective : bytes
        ``(fun, args)``, pickled.
    vectorized : bool
        Whether ``fun`` takes many rows at once.
    workers : int
        Number of workers.
    threads : int
        BLAS threads per worker.
    """

    def __init__(self, objective: bytes, *, vectorized: bool, workers: int, threads: int) -> None:
        self._objective = objective
        self._vectorized = vectorized
        self._workers = workers
        self._threads = threads
        self._memory: SharedMemory | None = None
        self._descriptors: list[int] = []
        self._generation = 0

    @property
    def memory(self) -> SharedMemory:
        """Memory shared with the workers; RuntimeError if the pool is closed."""
        if self._memory is None:
            raise RuntimeError("the pool is closed")
        return self._memory

    def accepts(self, n: int, dtype: npt.DTypeLike) -> bool:
        """Return whether the memory is closed, or has rows of this length and type."""
        held = None if self._memory is None else self._memory.layout
        return held is None or (held.n, held.dtype) == (n, np.dtype(dtype).name)

    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array:
        """Return the first rows of the shared memory, which saves a copy."""
        if self._memory is None:
            self._open(MemoryLayout(self._workers, rows, n, np.dtype(dtype).name))
        elif self._memory.layout.rows < rows:  # workers remap at the first task beyond the old end
            extend(self._memory_file, replace(self._memory.layout, rows=rows).size)
            self._memory = self._memory.remapped()
        return self.memory.candidates[:rows]

    def begin(self, generation: int) -> None:
        """Begin the next generation; workers skip tasks of other generations."""
        self._generation = self.memory.current[0] = generation

    def cancel(self) -> None:
        """Make workers skip the tasks left in the pipe."""
        self.memory.current[0] = 0  # no generation

    def send(self, batch: EvaluationBatch, workers: Collection[SharedWorker]) -> None:
        """Write as many tasks to the pipe as fit."""
        room = MAX_PIPED_TASKS - self.unread()
        if room > 0 and batch.queue:
            tasks, batch.queue = batch.queue[:room], batch.queue[room:]
            records = [TASK.pack(self._generation, first, batch.rows_at(first), 0) for first in tasks]
            os.write(self._task_writer, b"".join(records))  # they fit, so the write is complete

    def unread(self) -> int:
        """Return the number of tasks in the pipe."""
        size = array.array("i", [0])
        fcntl.ioctl(self._task_reader, termios.FIONREAD, size)
        return size[0] // TASK.size

    def task(self, worker: SharedWorker) -> Task | None:
        """Return the task that ``worker`` has recorded in the shared memory."""
        memory, slot = self.memory, worker.slot
        first = int(memory.first[slot])  # the worker writes it last
        return (
            None if first == IDLE else Task(first, int(memory.generation[slot]), float(memory.started[slot]))
        )

    def wait(self, seconds: float) -> list[SharedWorker]:
        """Return the workers whose pipe has reports or was closed."""
        return [key.data for key, _ in self._selector.select(seconds)]

    def start(self, slot: int) -> SharedWorker:
        """Start a worker, which only inherits the descriptors named in its setup."""
        self.memory.first[slot] = IDLE
        reading, writing = os.pipe()
        try:
            os.set_blocking(reading, False)
            setup = WorkerSetup(
                slot=slot, tasks=self._task_reader, reports=writing, memory=self._memory_file,
                objective=self._objective_file, length=len(self._objective), layout=self.memory.layout,
                vectorized=self._vectorized, pool=os.getpid(), path=module_path(), spool=self.spool,
            )  # fmt: skip
            process = start_interpreter(
                "main", setup.to_json(), self._threads, stdin=subprocess.DEVNULL,
                pass_fds=(setup.tasks, setup.reports, setup.memory, setup.objective),
            )  # fmt: skip
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        worker = SharedWorker(slot, process, reports=reading)
        self._selector.register(reading, selectors.EVENT_READ, worker)
        return worker

    def end(self, worker: SharedWorker) -> None:
        """Kill a worker and close its pipe."""
        self._selector.unregister(worker.reports)
        worker.kill()
        worker.close()

    def _open(self, layout: MemoryLayout) -> None:
        self._memory_file = anonymous_file(layout.size)
        self._descriptors.append(self._memory_file)
        self._objective_file = anonymous_file(len(self._objective))
        self._descriptors.append(self._objective_file)
        written = 0
        while written < len(self._objective):
            written += os.pwrite(self._objective_file, self._objective[written:], written)
        self._task_reader, self._task_writer = os.pipe()
        self._descriptors += [self._task_reader, self._task_writer]
        self._selector = selectors.DefaultSelector()
        self._memory = SharedMemory(self._memory_file, layout)

    def close(self) -> None:
        """Release the shared memory and the pipe."""
        if self._memory is not None:
            self._selector.close()
        self._memory = None
        while self._descriptors:
            os.close(self._descriptors.pop())
