"""Evaluation by a user-supplied map-like callable or executor."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, final

import numpy as np

from lmma.evaluation.base import Array, EvaluationOptions, Evaluator, OnError, RandomNumbers, Values
from lmma.evaluation.batch import EvaluationBatch, collect_values, new_batch
from lmma.evaluation.failures import TaskFailure
from lmma.evaluation.objective import Guarded, TimedAnswer

if TYPE_CHECKING:
    from lmma.evaluation import Submitter

POLL = 0.05  # seconds between checks for overdue futures


@final
class Mapped(Evaluator):
    """Evaluates a generation with ``map(fun, candidates)``, such as ``multiprocessing.Pool.map``."""

    def __init__(
        self, call: Guarded, on_error: OnError = "worst", *, map: Callable[..., Iterable[TimedAnswer]]
    ) -> None:
        super().__init__(on_error)
        self._call = call
        self._map = map

    def __call__(self, candidates: Array, seed: RandomNumbers | None = None) -> Values:
        """Return one value per row."""
        if seed is not None:
            candidates = self._with_seed(candidates, seed)
        batch = new_batch(self, candidates)
        rows, count = batch.queue, 0
        for answer in self._map(self._call, [candidates[row].copy() for row in rows]):
            if count < len(rows) and isinstance(answer, TimedAnswer):
                _record(batch, rows[count], answer)
            count += 1
        if count != len(rows) or batch.pending.any():
            raise ValueError(
                f"workers(fun, candidates) returned {count} answers for {len(rows)} candidates, or "
                "objects that fun did not return: it must behave like map"
            )
        return collect_values(self, batch)


@final
class Submitted(Evaluator):
    """Evaluates each candidate as a future of ``executor.submit``.

    ``timeout`` and ``quorum`` are as for :class:`~lmma.evaluation.pool.pool.Pool`, but an overdue future is
    abandoned rather than killed: it occupies its worker until it ends.
    """

    def __init__(self, call: Guarded, options: EvaluationOptions, *, executor: Submitter) -> None:
        super().__init__(options.on_error)
        self.options = options
        self._call = call
        self._executor = executor

    def __call__(self, candidates: Array, seed: RandomNumbers | None = None) -> Values:
        """Return one value per row."""
        if seed is not None:
            candidates = self._with_seed(candidates, seed)
        batch = new_batch(self, candidates, quorum=self.options.quorum)
        try:
            futures = {self._executor.submit(self._call, candidates[row].copy()): row for row in batch.queue}
        except Exception as error:  # a broken executor stays broken; a stopping rule ends the run
            self.fail(TaskFailure.of(error), len(candidates))
            return np.full(len(candidates), np.nan)
        self._wait(futures, batch)
        for future, row in futures.items():
            if batch.pending[row] and future.done():
                _record(batch, row, _answer(future))
            future.cancel()
        return collect_values(self, batch)

    def _wait(self, futures: dict[Future[TimedAnswer], int], batch: EvaluationBatch) -> None:
        """Record futures as they are done or overdue, until the batch is complete."""
        timeout = self.options.timeout
        began: dict[Future[TimedAnswer], float] = {}
        pending = set(futures)
        while not batch.complete:
            done, pending = wait(
                pending, timeout=None if timeout is None else POLL, return_when=FIRST_COMPLETED
            )
            for future in done:
                _record(batch, futures[future], _answer(future))
            if timeout is None:
                continue
            now = time.monotonic()
            for future in list(pending):
                if future.running() and now - began.setdefault(future, now) >= timeout:
                    batch.record_timeout(futures[future], timeout)
                    pending.discard(future)


def _answer(future: Future[TimedAnswer]) -> TimedAnswer:
    """Return the answer of a finished future; an error of the executor counts as a failure."""
    try:
        return future.result()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return TimedAnswer(TaskFailure.of(error))


def _record(batch: EvaluationBatch, row: int, timed: TimedAnswer) -> None:
    answer, seconds, worker = timed
    if isinstance(answer, TaskFailure):
        batch.record_failure(row, answer, seconds=seconds, worker=worker)
        return
    value, g = answer
    batch.record_values(row, np.array([value]), None if g is None else [g], seconds=seconds, worker=worker)
