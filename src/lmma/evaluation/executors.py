"""Evaluation through what a user brings: a map-like callable, or anything with ``submit``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, final

import numpy as np

from lmma.evaluation.base import Answer, Array, EvaluationOptions, Evaluator, OnError, Values
from lmma.evaluation.batch import EvaluationBatch, settled
from lmma.evaluation.failures import TaskFailure
from lmma.evaluation.pickling import Guarded

if TYPE_CHECKING:
    from lmma.evaluation.choose import Submitter

POLL = 0.05  # seconds between two looks at futures that may be overdue

Outcome = Answer | TaskFailure


@final
class Mapped(Evaluator):
    """Evaluates a generation by ``map(fun, candidates)``, such as ``multiprocessing.Pool.map``."""

    def __init__(
        self, call: Guarded, on_error: OnError = "worst", *, map: Callable[..., Iterable[Outcome]]
    ) -> None:
        super().__init__(on_error)
        self._call = call
        self._map = map

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        answers = list(self._map(self._call, [x.copy() for x in candidates]))
        if len(answers) != len(candidates):
            raise ValueError(
                f"workers(fun, candidates) gave {len(answers)} answers for {len(candidates)} candidates: "
                "it must work like map"
            )
        batch = EvaluationBatch(len(candidates))
        for row, answer in enumerate(answers):
            _take(batch, row, answer)
        return settled(self, batch)


@final
class Submitted(Evaluator):
    """Evaluates each candidate as a future of ``executor.submit``.

    ``timeout`` and ``quorum`` are as for :class:`~lmma.evaluation.pool.pool.Pool`, except that a future which
    runs too long can only be abandoned, not killed: it holds its worker until it ends.
    """

    def __init__(self, call: Guarded, options: EvaluationOptions, *, executor: Submitter) -> None:
        super().__init__(options.on_error)
        self.options = options
        self._call = call
        self._executor = executor

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        try:
            futures = [self._executor.submit(self._call, x.copy()) for x in candidates]
        except Exception as error:  # a broken executor stays broken: everything fails, and a rule says so
            self.fail(TaskFailure.of(error), len(candidates))
            return np.full(len(candidates), np.nan)
        batch = EvaluationBatch(len(candidates), quorum=self.options.quorum)
        overdue = self._wait(futures, batch.needed)
        for row, future in enumerate(futures):
            if self.options.timeout is not None and future in overdue:
                batch.time_out(row, self.options.timeout)
            elif future.done():
                _take(batch, row, _answer(future))
            future.cancel()
        return settled(self, batch)

    def _wait(self, futures: list[Future[Outcome]], needed: int) -> set[Future[Outcome]]:
        """Wait until ``needed`` futures are done or overdue; return those that ran too long."""
        timeout = self.options.timeout
        began: dict[Future[Outcome], float] = {}
        overdue: set[Future[Outcome]] = set()
        pending = set(futures)
        while len(futures) - len(pending) < needed:
            _, pending = wait(pending, timeout=None if timeout is None else POLL, return_when=FIRST_COMPLETED)
            if timeout is None:
                continue
            now = time.monotonic()
            for future in list(pending):
                if future.running() and now - began.setdefault(future, now) >= timeout:
                    overdue.add(future)
                    pending.discard(future)
        return overdue


def _answer(future: Future[Outcome]) -> Outcome:
    """Return what a finished future holds, a failure of the executor itself included."""
    try:
        return future.result()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return TaskFailure.of(error)


def _take(batch: EvaluationBatch, row: int, answer: Outcome) -> None:
    if isinstance(answer, TaskFailure):
        batch.fail(row, answer)
    else:
        value, beside = answer
        batch.take(row, np.array([value]), None if beside is None else [beside])
