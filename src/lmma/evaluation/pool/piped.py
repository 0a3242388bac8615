"""Candidates in messages on the standard input and output of each worker, where memory cannot be shared.

Windows cannot pass descriptors to a new process or wait for several pipes. It does have pipes as standard
streams, so the pool has two threads per worker: one writes tasks, the other reads reports. The pool sends a
task to a worker that is idle. This module only uses features that exist on all systems.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import IO, final

import numpy as np
import numpy.typing as npt

from lmma.evaluation.base import Array
from lmma.evaluation.batch import EvaluationBatch
from lmma.evaluation.pool.channel import Channel, Task
from lmma.evaluation.pool.processes import WorkerProcess, module_path, start_interpreter
from lmma.evaluation.pool.worker import DONE, FAILED, PIPED_TASK, Report

CLOSING_TIME = 5.0  # seconds for the threads to notice that their worker has been killed


@final
@dataclass(eq=False)
class PipedWorker(WorkerProcess):
    """A worker that receives candidates and sends reports through its standard streams."""

    task: Task | None = None
    closed: bool = False  # whether the reports have ended
    chunks: deque[bytes] = field(default_factory=deque)  # appended by the reading thread
    outbox: queue.SimpleQueue[bytes | None] = field(default_factory=queue.SimpleQueue)
    threads: list[threading.Thread] = field(default_factory=list)

    def run_threads(self, notify: Callable[[PipedWorker], object]) -> None:
        """Start the threads of the pipes; the reader calls ``notify`` after each chunk and at the end."""
        process = self.process
        assert process.stdin is not None
        assert process.stdout is not None
        for target, *arguments in ((self._write, process.stdin), (self._read, process.stdout, notify)):
            thread = threading.Thread(target=target, args=arguments, name="lmma pipe", daemon=True)
            thread.start()
            self.threads.append(thread)

    def _write(self, pipe: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):  # the worker has exited
            while (message := self.outbox.get()) is not None:
                pipe.write(message)
                pipe.flush()

    def _read(self, pipe: IO[bytes], notify: Callable[[PipedWorker], object]) -> None:
        with contextlib.suppress(OSError):
            while chunk := os.read(pipe.fileno(), 65536):
                self.chunks.append(chunk)
                notify(self)
        self.closed = True
        notify(self)

    def receive(self) -> bool:
        """Take the chunks read so far; return False if there will be no more."""
        closed = self.closed  # before the last chunk is taken
        while self.chunks:
            self.unread += self.chunks.popleft()
        return not closed

    def next_report(self) -> Report | None:
        """Return the next complete report, or None; a worker that has answered its task is idle."""
        report = Report.read(self.unread)
        if report is not None and report.kind in {DONE, FAILED}:
            self.task = None
        return report

    def kill(self) -> None:
        """Kill the process, wait until its last reports have been read, and close its pipes."""
        super().kill()
        self.outbox.put(None)
        for thread in self.threads:
            thread.join(CLOSING_TIME)
        if not any(thread.is_alive() for thread in self.threads):
            for pipe in (self.process.stdin, self.process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # tasks that the worker did not read
                        pipe.close()


@final
class PipedChannel(Channel[PipedWorker]):
    """Sends the rows of a task to one idle worker.

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
        self._threads = threads
        self._candidates: Array = np.empty((0, 0))
        self._generation = 0
        self._reported: queue.SimpleQueue[PipedWorker] = queue.SimpleQueue()

    def accepts(self, n: int, dtype: npt.DTypeLike) -> bool:
        """Return True: each message states its shape and type."""
        return True

    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array:
        """Return memory of this process, which is reused."""
        held = self._candidates
        if held.shape[1] != n or held.dtype != dtype or len(held) < rows:
            self._candidates = np.empty((rows, n), dtype=dtype)
        return self._candidates[:rows]

    def begin(self, generation: int) -> None:
        """Begin the next generation."""
        self._generation = generation

    def cancel(self) -> None:
        """Do nothing: a worker that has been sent a task has started it."""

    def send(self, batch: EvaluationBatch, workers: Collection[PipedWorker]) -> None:
        """Send one task to each idle worker."""
        for worker in workers:
            if not batch.queue:
                return
            if worker.ready and worker.task is None and worker.process.poll() is None:
                first = batch.queue.pop(0)
                x = self._candidates[first : first + batch.rows_at(first)]
                header = PIPED_TASK.pack(self._generation, first, *x.shape, x.dtype.str.encode())
                worker.task = Task(first, self._generation, time.monotonic())
                worker.outbox.put(header + x.tobytes())

    def unread(self) -> int:
        """Return 0: the pool knows the worker of each task."""
        return 0

    def task(self, worker: PipedWorker) -> Task | None:
        """Return the task that was sent to ``worker`` and is not answered yet."""
        return worker.task

    def wait(self, seconds: float) -> list[PipedWorker]:
        """Return the workers that have sent something or exited."""
        found: list[PipedWorker] = []
        with contextlib.suppress(queue.Empty):
            found.append(self._reported.get(timeout=seconds))
            while True:
                found.append(self._reported.get_nowait())
        return list(dict.fromkeys(found))

    def start(self, slot: int) -> PipedWorker:
        """Start a worker and send it the objective."""
        setup = json.dumps([self._vectorized, len(self._objective), module_path(), self.spool, slot])
        process = start_interpreter(
            "main_piped", setup, self._threads, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        worker = PipedWorker(slot, process)
        worker.outbox.put(self._objective)
        try:
            worker.run_threads(self._reported.put)
        except RuntimeError as error:  # no more threads
            worker.kill()
            raise OSError(str(error)) from None
        return worker

    def end(self, worker: PipedWorker) -> None:
        """Kill a worker, which ends its threads and closes its pipes."""
        worker.kill()

    def close(self) -> None:
        """Forget the workers that have ended."""
        self._reported = queue.SimpleQueue()
