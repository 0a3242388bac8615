"""Evaluation in local worker processes.

The pool sends tasks and receives reports through a channel (``channel.py``): shared memory and a pipe
(``shared.py``), or messages (``piped.py``) where the system has no such memory. Retries, timeouts and quorum
do not depend on it. Values depend neither on the channel, nor on the worker, nor on timing.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import time
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma.evaluation.base import Array, EvaluationOptions, Evaluator, RandomNumbers, Values, unpacked
from lmma.evaluation.batch import EvaluationBatch, collect_values, new_batch
from lmma.evaluation.failures import TaskFailure, WorkersError
from lmma.evaluation.pool.channel import Channel
from lmma.evaluation.pool.processes import KILLED_FROM_OUTSIDE, MEMORY_HINT, WorkerProcess, exit_reason
from lmma.evaluation.pool.spool import empty
from lmma.evaluation.pool.worker import BROKEN, DONE, FAILED, READY

HEARTBEAT = 0.2  # seconds between checks of the workers while none reports
CHUNKS = 4  # blocks of rows per worker and generation, for a vectorised fun
FAILED_STARTS = 3  # consecutive workers that may exit by themselves before they are ready
KILLED_STARTS = 20  # the same for workers killed from outside, plus one per worker: all may be killed at once
REFUSED_STARTS = 20  # consecutive checks at which the system may refuse to start a worker while none is left


@final
class Pool(Evaluator):
    """Calls the objective in ``workers`` processes.

    Parameters
    ----------
    objective : bytes
        ``(fun, args)`` pickled by :func:`lmma.evaluation.objective.dumps`, which supports lambdas, closures
        and functions of a notebook.
    options : EvaluationOptions
        As for every evaluator. A vectorised ``fun`` receives blocks of rows. A process that exceeds
        ``timeout`` is killed and replaced.
    workers : int
        Number of processes.
    threads : int, optional
        BLAS threads per process; by default the cores are divided among the processes.
    """

    def __init__(
        self, objective: bytes, options: EvaluationOptions, *, workers: int, threads: int | None = None
    ) -> None:
        super().__init__(options.on_error)
        self.options = options
        self.workers = workers
        self.threads = threads or max(1, (os.cpu_count() or 1) // workers)
        self.stopped = False  # set by another thread to end an evaluation
        self._channel = _channel(objective, options.vectorized, workers, self.threads)
        self._processes: dict[int, WorkerProcess] = {}  # by slot
        self._generation = 0
        self._next_check = 0.0  # time of the next check of the workers
        self._vacant: set[int] = set()  # slots whose worker could not be replaced yet
        self._failed_starts = 0  # consecutive workers that exited by themselves before they were ready
        self._killed_starts = 0  # consecutive workers that were killed before they were ready
        self._refused_starts = 0  # consecutive attempts at which the system refused to start a worker
        self._task_lost = False  # whether a worker may have died between reading a task and recording it
        self._quiet_checks = 0  # consecutive checks without a busy worker

    # A generation

    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array:
        """Return memory for candidates, shared if possible, which saves a copy."""
        if not self._channel.accepts(n, dtype):
            self.close()
        place = self._channel.buffer(rows, n, dtype)
        self._channel.spool = None if self.cache is None else self.cache.spool
        if not self._processes and not self._vacant:
            for slot in range(self.workers):
                self._spawn(slot)
        return place

    def __call__(self, candidates: Array, seed: RandomNumbers | None = None) -> Values:
        """Return one value per row."""
        if seed is not None:
            candidates = self._with_seed(candidates, seed)
        rows = len(candidates)
        block = max(1, rows // (CHUNKS * self.workers)) if self.options.vectorized else 1
        return collect_values(self, self.evaluate(candidates, block))

    def evaluate(self, candidates: Array, block: int, *, until_death: bool = False) -> EvaluationBatch:
        """Evaluate ``candidates`` in tasks of ``block`` rows; return the batch, which includes failures.

        With ``until_death``, return at the first death of a worker, possibly with rows unanswered.
        """
        rows = len(candidates)
        if self.cache is not None and self.cache.spool is not None:
            empty(self.cache.spool, self.workers)
        place = self.buffer(rows, candidates.shape[1], candidates.dtype)
        if not np.shares_memory(place, candidates):
            np.copyto(place, candidates)
        batch = new_batch(self, candidates, block, self.options.quorum)
        self._generation += 1
        self._task_lost, self._quiet_checks = False, 0
        self._channel.begin(self._generation)
        try:
            self._run_batch(batch, self.record.deaths if until_death else math.inf)
        except BaseException:
            self.close()  # Ctrl-C or an error: leave no processes behind
            raise
        return batch

    def _run_batch(self, batch: EvaluationBatch, deaths: float) -> None:
        """Feed tasks and read reports until the batch is complete or the death count exceeds ``deaths``."""
        self._channel.send(batch, self._processes.values())
        while not batch.complete:
            if self.record.deaths > deaths:
                self._channel.cancel()
                return
            if self.stopped:
                raise InterruptedError("the pool was stopped")
            for worker in self._channel.wait(max(0.0, self._next_check - time.monotonic())):
                self._receive(worker, batch)
            if time.monotonic() >= self._next_check and not batch.complete:
                self._check_workers(batch)
                self._recover_lost_tasks(batch)
                self._next_check = time.monotonic() + min(HEARTBEAT, self._next_deadline())
            if batch.queue:
                self._channel.send(batch, self._processes.values())

    def _recover_lost_tasks(self, batch: EvaluationBatch) -> None:
        """Requeue tasks that were lost because a worker died before recording which one it had read."""
        busy = any(self._channel.task(worker) for worker in self._processes.values())
        if not self._task_lost or batch.queue or self._channel.unread() or busy:
            self._quiet_checks = 0
            return
        self._quiet_checks += 1
        if self._quiet_checks > 2:  # longer than a worker takes from reading a task to recording it
            batch.queue = batch.pending_tasks()
            self._task_lost = False

    # Workers

    def _receive(self, worker: WorkerProcess, batch: EvaluationBatch) -> None:
        """Process the reports of a worker; replace it if it has exited."""
        if self._processes.get(worker.slot) is not worker:
            return  # it was replaced in the meantime
        alive = worker.receive()
        self._read_reports(worker, batch)
        if not alive:
            self._reap(worker, batch)

    def _read_reports(self, worker: WorkerProcess, batch: EvaluationBatch) -> None:
        while (report := worker.next_report()) is not None:
            if report.kind == READY:
                worker.ready = True
                self._failed_starts = self._killed_starts = 0
            elif report.kind == BROKEN:
                raise _cannot_load(pickle.loads(report.content))
            elif report.generation == self._generation and batch.pending[report.first]:
                seconds, slot = report.seconds / report.rows, str(worker.slot)
                if report.kind == DONE:
                    values, constraint_values = unpacked(report.content, report.rows)
                    batch.record_values(report.first, values, constraint_values, seconds=seconds, worker=slot)
                elif report.kind == FAILED:
                    failed = pickle.loads(report.content)
                    batch.record_failure(report.first, failed, seconds=seconds, worker=slot)

    def _reap(self, worker: WorkerProcess, batch: EvaluationBatch) -> None:
        """Replace a worker that died and requeue its task, up to RETRIES times."""
        if not worker.ready:
            self._count_failed_start(worker)
        task = self._channel.task(worker)
        self.record.deaths += worker.ready
        if task is None:
            self._task_lost = True
        elif task.generation == self._generation and batch.pending[task.first]:
            batch.retry(task.first, "worker process")
        self._replace(worker)

    def _count_failed_start(self, worker: WorkerProcess) -> None:
        """Count a worker that exited before it was ready; raise WorkersError if there were too many."""
        worker.kill()  # its pipe is closed, but its exit status may not be known yet
        status = worker.process.poll()
        if status in KILLED_FROM_OUTSIDE:
            self._killed_starts += 1
        else:
            self._failed_starts += 1
        if self._failed_starts > FAILED_STARTS or self._killed_starts > KILLED_STARTS + self.workers:
            raise WorkersError(f"worker processes exit before they have loaded fun: {exit_reason(status)}")

    def _check_workers(self, batch: EvaluationBatch) -> None:
        """Replace workers that exceed the timeout, and those whose death the selector did not report."""
        self._fill_vacant_slots()
        now, timeout = time.monotonic(), self.options.timeout
        for slot, worker in list(self._processes.items()):
            if worker.process.poll() is not None:
                self._receive(worker, batch)
                if self._processes.get(slot) is worker:  # one of its children keeps the pipe open
                    self._reap(worker, batch)
                continue
            task = self._channel.task(worker)
            if timeout is None or task is None or now - task.started < timeout:
                continue
            worker.kill()
            worker.receive()  # it may have reported just before
            self._read_reports(worker, batch)
            if task.generation == self._generation and batch.pending[task.first]:
                batch.record_timeout(task.first, timeout, str(slot))
            self._replace(worker)

    def _next_deadline(self) -> float:
        """Return the seconds until the next evaluation may time out."""
        if self.options.timeout is None:
            return math.inf
        tasks, now = map(self._channel.task, self._processes.values()), time.monotonic()
        started = [task.started for task in tasks if task is not None]
        return max(0.0, min([*started, now]) + self.options.timeout - now)

    def _replace(self, worker: WorkerProcess) -> None:
        self._end(worker)
        self._vacant.add(worker.slot)
        if self._refused_starts == 0:  # otherwise wait for the next check
            self._fill_vacant_slots()

    def _fill_vacant_slots(self) -> None:
        """Start the missing workers; if the system refuses, continue with the others until the next check."""
        for slot in sorted(self._vacant):
            try:
                self._spawn(slot)
            except WorkersError:
                self._refused_starts += 1
                if not self._processes and self._refused_starts > REFUSED_STARTS:
                    raise
                return
            self._vacant.remove(slot)
            self._refused_starts = 0

    def _end(self, worker: WorkerProcess) -> None:
        self._channel.end(worker)
        del self._processes[worker.slot]

    def _spawn(self, slot: int) -> None:
        try:
            self._processes[slot] = self._channel.start(slot)
        except OSError as error:  # out of memory, or process limit reached
            raise WorkersError(
                f"cannot start a worker process ({error.strerror or error}): {MEMORY_HINT}"
            ) from None

    def close(self) -> None:
        """Kill all workers and release the memory."""
        for worker in list(self._processes.values()):
            self._end(worker)
        self._vacant.clear()
        self._refused_starts = 0
        self._channel.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):
            self.close()


def _channel(objective: bytes, vectorized: bool, workers: int, threads: int) -> Channel[Any]:
    """Return the best channel that this system supports."""
    try:
        from lmma.evaluation.pool.shared import SharedChannel as ThisChannel
    except ImportError:  # no fcntl: Windows
        from lmma.evaluation.pool.piped import PipedChannel as ThisChannel  # type: ignore[assignment]
    return ThisChannel(objective, vectorized=vectorized, workers=workers, threads=threads)


def _cannot_load(failed: TaskFailure) -> WorkersError:
    failure = failed.failure
    hint = f"; {MEMORY_HINT}" if failure.kind == "MemoryError" or "allocat" in failure.message else ""
    error = WorkersError(f"worker processes cannot load fun: {failure.kind}: {failure.message}{hint}")
    error.add_note(f"In a worker process:\n{failure.traceback}")
    return error
