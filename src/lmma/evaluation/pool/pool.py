"""Evaluation in worker processes of this machine.

Candidates lie in shared memory (``shared_memory.py``); a task names rows of it. All tasks of a generation go
into one pipe that every worker reads, so a free worker takes the next one without asking, and the pool sleeps
until reports come in. Values depend on the candidate alone, not on who evaluated it when.
"""

from __future__ import annotations

import array
import contextlib
import math
import os
import pickle
import selectors
import time
from typing import final

try:
    import fcntl
    import termios
except ImportError:
    raise ImportError("worker processes need pipes and signals as Linux and macOS have them") from None

import numpy as np
import numpy.typing as npt

from lmma.evaluation.base import Array, EvaluationOptions, Evaluator, Values, unpacked
from lmma.evaluation.batch import EvaluationBatch, settled
from lmma.evaluation.failures import TaskFailure, WorkersError
from lmma.evaluation.pool.processes import FEWER, WorkerProcess, module_path, spawn, why_it_ended
from lmma.evaluation.pool.shared_memory import IDLE, MemoryLayout, SharedMemory, anonymous_file
from lmma.evaluation.pool.worker import BROKEN, DONE, FAILED, READY, TASK, WorkerSetup

HEARTBEAT = 0.2  # seconds between two looks at the workers while nothing is reported
IN_PIPE = 1024  # tasks in the pipe at a time: within the 64 kB that a pipe holds
CHUNKS = 4  # blocks of rows per worker and generation if fun is vectorised
FAILED_STARTS = 3  # workers in a row that may end before they are ready


@final
class Pool(Evaluator):
    """Calls the objective in ``workers`` processes.

    Parameters
    ----------
    objective : bytes
        ``(fun, args)`` as :func:`lmma.evaluation.pickling.dumps` pickles it: lambdas, closures and functions
        of a notebook work.
    options : EvaluationOptions
        As for every evaluator. A vectorised ``fun`` gets blocks of rows; a process that exceeds the time
        allowed is killed and replaced.
    workers : int
        How many processes.
    threads : int, optional
        Threads of BLAS in each of them; by default they share the cores.
    """

    def __init__(
        self, objective: bytes, options: EvaluationOptions, *, workers: int, threads: int | None = None
    ) -> None:
        super().__init__(options.on_error)
        self.options = options
        self.workers = workers
        self.threads = threads or max(1, (os.cpu_count() or 1) // workers)
        self.stopped = False  # set by another thread to end an evaluation
        self._objective = objective
        self._processes: dict[int, WorkerProcess] = {}  # by slot
        self._memory: SharedMemory | None = None
        self._descriptors: list[int] = []
        self._generation = 0
        self._next_check = 0.0  # when to look after the workers again
        self._failed_starts = 0  # workers in a row that ended before they were ready
        self._task_lost = False  # whether a worker may have died between taking a task and saying so
        self._quiet_checks = 0  # checks in a row at which nobody was busy

    # A generation

    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array:
        """Return shared memory for candidates: what is put there need not be copied again."""
        name = np.dtype(dtype).name
        held = None if self._memory is None else self._memory.layout
        if held is None or (held.n, held.dtype) != (n, name) or held.rows < rows:
            self.close()
            self._open(MemoryLayout(self.workers, rows, n, name))
        return self.memory.candidates[:rows]

    @property
    def memory(self) -> SharedMemory:
        """What the pool and its workers share."""
        if self._memory is None:
            raise RuntimeError("the pool is closed")
        return self._memory

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        rows = len(candidates)
        block = max(1, rows // (CHUNKS * self.workers)) if self.options.vectorized else 1
        return settled(self, self.evaluate(candidates, block))

    def evaluate(self, candidates: Array, block: int, *, until_death: bool = False) -> EvaluationBatch:
        """Evaluate ``candidates``, ``block`` rows per task; return what came of it, failures as data.

        With ``until_death`` the first death of a worker ends it, and rows may be without an answer.
        """
        rows = len(candidates)
        place = self.buffer(rows, candidates.shape[1], candidates.dtype)
        if not np.shares_memory(place, candidates):
            np.copyto(place, candidates)
        batch = EvaluationBatch(rows, block, self.options.quorum)
        self._generation += 1
        self._task_lost, self._quiet_checks = False, 0
        self.memory.current[0] = self._generation
        try:
            self._work_off(batch, self.deaths if until_death else math.inf)
        except BaseException:
            self.close()  # Ctrl-C, or on_error="raise": no process may outlive the run
            raise
        return batch

    def _work_off(self, batch: EvaluationBatch, deaths: float) -> None:
        """Put tasks into the pipe and read reports until enough rows have an answer, or more have died."""
        self._feed_tasks(batch)
        while not batch.complete:
            if self.deaths > deaths:
                self.memory.current[0] = 0  # no generation: what is in the pipe is not begun any more
                return
            if self.stopped:
                raise InterruptedError("the pool was stopped")
            for key, _ in self._selector.select(max(0.0, self._next_check - time.monotonic())):
                self._receive(key.data, batch)
            if time.monotonic() >= self._next_check and not batch.complete:
                self._check_workers(batch)
                self._recover_lost_tasks(batch)
                self._next_check = time.monotonic() + min(HEARTBEAT, self._next_deadline())
            if batch.queue:
                self._feed_tasks(batch)

    # Tasks

    def _feed_tasks(self, batch: EvaluationBatch) -> None:
        """Put tasks into the pipe, as many as fit."""
        room = IN_PIPE - self._tasks_in_pipe()
        if room > 0 and batch.queue:
            tasks, batch.queue = batch.queue[:room], batch.queue[room:]
            records = [TASK.pack(self._generation, first, batch.rows_at(first), 0) for first in tasks]
            os.write(self._feed, b"".join(records))  # at most IN_PIPE records: all fit, none is cut

    def _tasks_in_pipe(self) -> int:
        """Return how many tasks no worker has taken yet."""
        size = array.array("i", [0])
        fcntl.ioctl(self._tasks, termios.FIONREAD, size)
        return size[0] // TASK.size

    def _recover_lost_tasks(self, batch: EvaluationBatch) -> None:
        """Put tasks that died with a worker before it could say which, back into the queue."""
        busy = any(self.memory.first[slot] != IDLE for slot in self._processes)
        if not self._task_lost or batch.queue or self._tasks_in_pipe() or busy:
            self._quiet_checks = 0
            return
        self._quiet_checks += 1
        if self._quiet_checks > 2:  # longer than any worker needs from taking a task to saying so
            batch.queue = batch.pending_tasks()
            self._task_lost = False

    # Workers

    def _receive(self, worker: WorkerProcess, batch: EvaluationBatch) -> None:
        """Take in the reports of a worker; replace it if it has ended."""
        alive = worker.receive()
        self._read_reports(worker, batch)
        if not alive and worker.slot in self._processes:
            self._reap(worker, batch)

    def _read_reports(self, worker: WorkerProcess, batch: EvaluationBatch) -> None:
        while (report := worker.next_report()) is not None:
            if report.kind == READY:
                worker.ready = True
                self._failed_starts = 0
            elif report.kind == BROKEN:
                raise _cannot_load(pickle.loads(report.content))
            elif report.generation == self._generation and batch.pending[report.first]:
                if report.kind == DONE:
                    batch.take(report.first, *unpacked(report.content, report.rows))
                elif report.kind == FAILED:
                    batch.fail(report.first, pickle.loads(report.content))

    def _reap(self, worker: WorkerProcess, batch: EvaluationBatch) -> None:
        """Replace a worker that died; its task is begun again, unless that has killed too often."""
        if not worker.ready:
            self._failed_starts += 1
            if self._failed_starts > FAILED_STARTS:
                raise WorkersError(
                    f"worker processes end before they have loaded fun: {why_it_ended(worker.process.poll())}"
                )
        first, generation = int(self.memory.first[worker.slot]), int(self.memory.generation[worker.slot])
        self.deaths += worker.ready
        if first == IDLE:
            self._task_lost = True
        elif generation == self._generation and batch.pending[first]:
            batch.retry(first, "worker process")
        self._replace(worker)

    def _check_workers(self, batch: EvaluationBatch) -> None:
        """Kill and replace workers that exceed the time allowed; notice any that died unheard."""
        now, timeout = time.monotonic(), self.options.timeout
        for slot, worker in list(self._processes.items()):
            if worker.process.poll() is not None:
                self._receive(worker, batch)
                if self._processes.get(slot) is worker:  # a child of it keeps its pipe open
                    self._reap(worker, batch)
                continue
            first, started = int(self.memory.first[slot]), float(self.memory.started[slot])
            if timeout is None or first == IDLE or now - started < timeout:
                continue
            generation = int(self.memory.generation[slot])
            worker.kill()
            worker.receive()  # it may have finished at the last moment
            self._read_reports(worker, batch)
            if generation == self._generation and batch.pending[first]:
                batch.time_out(first, timeout)
            self._replace(worker)

    def _next_deadline(self) -> float:
        """Return the seconds until the first evaluation may be overdue."""
        if self.options.timeout is None:
            return math.inf
        memory, now = self.memory, time.monotonic()
        started = [float(memory.started[slot]) for slot in self._processes if memory.first[slot] != IDLE]
        return max(0.0, min([*started, now]) + self.options.timeout - now)

    def _replace(self, worker: WorkerProcess) -> None:
        self._end(worker)
        self._spawn(worker.slot)

    def _end(self, worker: WorkerProcess) -> None:
        self._selector.unregister(worker.reports)
        worker.kill()
        worker.close()
        del self._processes[worker.slot]

    def _spawn(self, slot: int) -> None:
        self.memory.first[slot] = IDLE

        def setup(reports: int) -> WorkerSetup:
            return WorkerSetup(
                slot=slot, tasks=self._tasks, reports=reports, memory=self._memory_file,
                objective=self._objective_file, length=len(self._objective), layout=self.memory.layout,
                vectorized=self.options.vectorized, pool=os.getpid(), path=module_path(),
            )  # fmt: skip

        try:
            worker = spawn(setup, self.threads)
        except OSError as error:  # no memory or no room for another process
            raise WorkersError(
                f"a worker process cannot be started ({error.strerror or error}): {FEWER}"
            ) from None
        self._processes[slot] = worker
        self._selector.register(worker.reports, selectors.EVENT_READ, worker)

    # Opening and closing

    def _open(self, layout: MemoryLayout) -> None:
        self._memory_file = anonymous_file(layout.size)
        self._descriptors.append(self._memory_file)
        self._objective_file = anonymous_file(len(self._objective))
        self._descriptors.append(self._objective_file)
        written = 0
        while written < len(self._objective):
            written += os.pwrite(self._objective_file, self._objective[written:], written)
        self._tasks, self._feed = os.pipe()
        self._descriptors += [self._tasks, self._feed]
        self._selector = selectors.DefaultSelector()
        self._memory = SharedMemory(self._memory_file, layout)
        for slot in range(self.workers):
            self._spawn(slot)

    def close(self) -> None:
        """End all workers and give the memory back."""
        for worker in list(self._processes.values()):
            self._end(worker)
        if self._memory is not None:
            self._selector.close()
        self._memory = None
        while self._descriptors:
            os.close(self._descriptors.pop())

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def _cannot_load(failed: TaskFailure) -> WorkersError:
    failure = failed.failure
    hint = f"; {FEWER}" if failure.kind == "MemoryError" or "allocat" in failure.message else ""
    error = WorkersError(f"worker processes cannot load fun: {failure.kind}: {failure.message}{hint}")
    error.add_note(f"In a worker process:\n{failure.traceback}")
    return error
