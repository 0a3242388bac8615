"""Evaluation in worker processes of this machine.

Candidates lie in shared memory (``arena.py``); a task names rows of it. All tasks of a generation go into
one pipe that every worker reads, so a free worker takes the next one without asking, and the pool sleeps
until reports come in. Values depend on the candidate alone, not on who evaluated it when.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import math
import os
import pickle
import selectors
import termios
import time
from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma.evaluation import pickling
from lmma.evaluation.base import Array, Evaluator, OnError, Values
from lmma.evaluation.pool.batch import Round, settled
from lmma.evaluation.pool.processes import Worker, hire
from lmma.evaluation.pool.shared_memory import IDLE, Arena, Shape, nameless_file
from lmma.evaluation.pool.worker import BROKEN, DONE, FAILED, READY, TASK

HEARTBEAT = 0.2  # seconds between two looks at the workers while nothing is reported
BATCH = 1024  # tasks in the pipe at a time: within the 64 kB that a pipe holds
CHUNKS = 4  # blocks of rows a worker and generation if fun is vectorised


@final
class Pool(Evaluator):
    """Calls ``fun`` in ``workers`` processes.

    Parameters
    ----------
    fun, args, on_error
        As for every evaluator. Lambdas, closures and functions of a notebook work; so do ``fun`` and
        ``args`` pickled already.
    workers : int
        How many processes.
    vectorized : bool
        Whether ``fun`` takes rows; each worker then gets blocks of them.
    timeout : float, optional
        Seconds after which an evaluation is given up: its process is killed and replaced.
    quorum : float
        Share of a generation that must have returned before it closes; what comes later is dropped.
    """

    def __init__(
        self,
        fun: Callable[..., Any] | bytes,
        args: tuple[Any, ...] = (),
        on_error: OnError = "worst",
        *,
        workers: int = 2,
        vectorized: bool = False,
        timeout: float | None = None,
        quorum: float = 1.0,
    ) -> None:
        super().__init__(on_error)
        self.workers = workers
        self.vectorized = vectorized
        self.timeout = timeout
        self.quorum = quorum
        self.crowd = workers  # processes that share this machine's cores
        self.stopped = False  # set by another thread to end an evaluation
        self._objective = fun if isinstance(fun, bytes) else pickling.dumps((fun, args))
        self._crew: dict[int, Worker] = {}  # by slot
        self._arena: Arena | None = None
        self._descriptors: list[int] = []
        self._generation = 0
        self._look = 0.0  # when to look after the workers again
        self._still_born = 0  # workers in a row that ended before they were ready

    # A generation

    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array:
        """Return shared memory for candidates: what is put there need not be copied again."""
        name = np.dtype(dtype).name
        held = self._arena
        if held is None or (held.shape.n, held.shape.dtype) != (n, name) or held.shape.rows < rows:
            self.close()
            self._open(Shape(self.workers, rows, n, name))
        assert self._arena is not None
        return self._arena.candidates[:rows]

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        return settled(self, self.work(candidates, self._block(len(candidates))))

    def work(self, candidates: Array, block: int) -> Round:
        """Evaluate ``candidates``, ``block`` rows a task; return what came of it, failures as data."""
        rows = len(candidates)
        place = self.buffer(rows, candidates.shape[1], candidates.dtype)
        if not np.shares_memory(place, candidates):
            np.copyto(place, candidates)
        round_ = Round(rows, block, self.quorum)
        self._generation += 1
        assert self._arena is not None
        self._arena.current[0] = self._generation
        try:
            self._work_off(round_)
        except BaseException:
            self.close()  # Ctrl-C, or on_error="raise": no process may outlive the run
            raise
        return round_

    def _block(self, rows: int) -> int:
        return max(1, rows // (CHUNKS * self.workers)) if self.vectorized else 1

    def _work_off(self, todo: Round) -> None:
        """Hand out tasks and listen until enough of them are done."""
        self._hand_out(todo)
        while not todo.closed:
            if self.stopped:
                raise InterruptedError("the pool was stopped")
            for key, _ in self._selector.select(max(0.0, self._look - time.monotonic())):
                self._hear(key.data, todo)
            if time.monotonic() >= self._look and not todo.closed:
                self._look_after(todo)
                self._recover_lost(todo)
                self._look = time.monotonic() + min(HEARTBEAT, self._next_deadline())
            if todo.queue:
                self._hand_out(todo)
        self.dropped += int(todo.open.sum())

    # Tasks

    def _hand_out(self, todo: Round) -> None:
        """Put tasks into the pipe, as many as fit."""
        room = BATCH - self._waiting()
        if room > 0 and todo.queue:
            batch, todo.queue = todo.queue[:room], todo.queue[room:]
            records = [TASK.pack(self._generation, first, todo.rows_at(first), 0) for first in batch]
            os.write(self._feed, b"".join(records))  # at most BATCH records: all fit, none is cut

    def _waiting(self) -> int:
        """Return how many tasks lie in the pipe, taken by nobody yet."""
        size = array.array("i", [0])
        fcntl.ioctl(self._tasks, termios.FIONREAD, size)
        return size[0] // TASK.size

    def _recover_lost(self, todo: Round) -> None:
        """Put tasks that a worker took to its grave before it could say which, back into the queue."""
        assert self._arena is not None
        busy = [self._arena.first[slot] != IDLE for slot in self._crew]
        if not todo.suspicious or todo.queue or self._waiting() or any(busy):
            todo.quiet = 0
            return
        todo.quiet += 1
        if todo.quiet > 2:  # looks: longer than any worker needs from taking a task to saying so
            todo.queue = todo.missing()
            todo.suspicious = False

    # Workers

    def _hear(self, worker: Worker, todo: Round) -> None:
        """Take in the reports of a worker; replace it if it has ended."""
        alive = worker.listen()
        self._read_reports(worker, todo)
        if not alive and worker.slot in self._crew:
            self._bury(worker, todo)

    def _read_reports(self, worker: Worker, todo: Round) -> None:
        while (report := worker.next_report()) is not None:
            what, generation, first, rows, text = report
            if what == READY:
                worker.ready = True
                self._still_born = 0
            elif what == BROKEN:
                raise _cannot_load(*pickle.loads(text)[:3])
            elif generation == self._generation and todo.open[first]:
                if what == DONE:
                    todo.close(first, np.frombuffer(text, np.float64, rows))
                elif what == FAILED:
                    todo.fail(first, *pickle.loads(text))

    def _bury(self, worker: Worker, todo: Round) -> None:
        """Replace a worker that died; its task is begun again, unless that has killed too often."""
        assert self._arena is not None
        if not worker.ready:
            self._still_born += 1
            if self._still_born > 3:
                raise RuntimeError(
                    "worker processes end before they have loaded fun: does importing what it needs crash? "
                    f"The last one ended with status {worker.process.poll()}"
                )
        first, generation = int(self._arena.first[worker.slot]), int(self._arena.generation[worker.slot])
        self.deaths += worker.ready
        if first == IDLE:
            todo.suspicious = True
        elif generation == self._generation and todo.open[first]:
            todo.begin_again(first, "process")
        self._replace(worker)

    def _look_after(self, todo: Round) -> None:
        """Kill and replace workers that exceed the time allowed; notice any that died unheard."""
        assert self._arena is not None
        now = time.monotonic()
        for slot, worker in list(self._crew.items()):
            if worker.process.poll() is not None:
                self._hear(worker, todo)
                if self._crew.get(slot) is worker:  # a child of it keeps its pipe open
                    self._bury(worker, todo)
                continue
            first, started = int(self._arena.first[slot]), float(self._arena.started[slot])
            if self.timeout is None or first == IDLE or now - started < self.timeout:
                continue
            generation = int(self._arena.generation[slot])
            worker.kill()
            worker.listen()  # it may have finished at the last moment
            self._read_reports(worker, todo)
            if generation == self._generation and todo.open[first]:
                todo.fail(first, "timeout", f"no value after timeout = {self.timeout:g} s", "", b"")
            self._replace(worker)

    def _next_deadline(self) -> float:
        """Return the seconds until the first evaluation may be overdue."""
        if self.timeout is None:
            return math.inf
        assert self._arena is not None
        busy = [float(self._arena.started[slot]) for slot in self._crew if self._arena.first[slot] != IDLE]
        return max(0.0, min([*busy, time.monotonic()]) + self.timeout - time.monotonic())

    def _replace(self, worker: Worker) -> None:
        self._dismiss(worker)
        self._hire(worker.slot)

    def _dismiss(self, worker: Worker) -> None:
        self._selector.unregister(worker.reports)
        worker.kill()
        worker.forget()
        del self._crew[worker.slot]

    def _hire(self, slot: int) -> None:
        assert self._arena is not None
        self._arena.first[slot] = IDLE
        shape = self._arena.shape
        setup = {
            "tasks": self._tasks,
            "arena": self._memory,
            "objective": self._payload,
            "length": len(self._objective),
            "shape": [shape.slots, shape.rows, shape.n, shape.dtype],
            "vectorized": self.vectorized,
        }
        worker = hire(slot, setup, (self._tasks, self._memory, self._payload), self.crowd)
        self._crew[slot] = worker
        self._selector.register(worker.reports, selectors.EVENT_READ, worker)

    # Opening and closing

    def _open(self, shape: Shape) -> None:
        self._memory = nameless_file(shape.size)
        self._descriptors.append(self._memory)
        self._payload = nameless_file(len(self._objective))
        self._descriptors.append(self._payload)
        written = 0
        while written < len(self._objective):
            written += os.pwrite(self._payload, self._objective[written:], written)
        self._tasks, self._feed = os.pipe()
        self._descriptors += [self._tasks, self._feed]
        self._selector = selectors.DefaultSelector()
        self._arena = Arena(self._memory, shape)
        for slot in range(self.workers):
            self._hire(slot)

    def close(self) -> None:
        """End all workers and give the memory back."""
        for worker in list(self._crew.values()):
            self._dismiss(worker)
        if self._arena is not None:
            self._selector.close()
        self._arena = None
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def _cannot_load(kind: str, message: str, trace: str) -> RuntimeError:
    error = RuntimeError(f"worker processes cannot load fun: {kind}: {message}")
    error.add_note(f"In a worker process:\n{trace}")
    return error
