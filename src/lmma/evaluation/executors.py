"""Evaluation through what a user brings: a map-like callable, or anything with ``submit``."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, CancelledError, wait
from typing import Any, final

import numpy as np

from lmma.evaluation.base import Array, EvaluationError, Evaluator, Failure, OnError, Values
from lmma.evaluation.pickling import Guarded

LOOK = 0.05  # seconds between two looks at futures that may be overdue


@final
class Mapped(Evaluator):
    """Evaluates a generation by ``map(fun, candidates)``, such as ``multiprocessing.Pool.map``."""

    def __init__(
        self,
        fun: Callable[..., Any],
        args: tuple[Any, ...] = (),
        on_error: OnError = "worst",
        *,
        map: Callable[..., Iterable[Any]],
    ) -> None:
        super().__init__(on_error)
        self._call = Guarded(fun, args)
        self._map = map

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        answers = list(self._map(self._call, [x.copy() for x in candidates]))
        if len(answers) != len(candidates):
            raise ValueError(
                f"workers(fun, candidates) gave {len(answers)} answers for {len(candidates)} candidates: "
                "it must work like map"
            )
        return _settled(self, answers)


@final
class Submitted(Evaluator):
    """Evaluates each candidate as a future of ``executor.submit``.

    ``timeout`` and ``quorum`` are as for :class:`~lmma.evaluation.pool.pool.Pool`, except that a future which
    runs too long can only be abandoned, not killed: it holds its worker until it ends.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        args: tuple[Any, ...] = (),
        on_error: OnError = "worst",
        *,
        executor: Any,
        timeout: float | None = None,
        quorum: float = 1.0,
    ) -> None:
        super().__init__(on_error)
        self._call = Guarded(fun, args)
        self._executor = executor
        self.timeout = timeout
        self.quorum = quorum

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        try:
            futures = [self._executor.submit(self._call, x.copy()) for x in candidates]
        except Exception as error:  # a broken executor stays broken: everything fails, and a rule says so
            self.failures[type(error).__name__] += len(candidates) - 1
            return np.full(len(candidates), self.failed(error))
        overdue = self._await(futures)
        late = np.zeros(len(futures), dtype=np.bool_)
        answers: list[Any] = []
        for row, future in enumerate(futures):
            if future in overdue:
                words = f"no value after timeout = {self.timeout:g} s"
                answers.append((Failure("timeout", words), EvaluationError(words)))
            elif future.done():
                answers.append(_answer(future))
            else:
                late[row] = True
                answers.append(math.nan)
            future.cancel()
        self.dropped += int(late.sum())
        self.late = late if late.any() else None
        return _settled(self, answers, late)

    def _await(self, futures: list[Any]) -> set[Any]:
        """Wait until enough futures are done; return those that ran too long."""
        needed = max(1, math.ceil(self.quorum * len(futures) - 1e-9))
        began: dict[Any, float] = {}
        overdue: set[Any] = set()
        pending = set(futures)
        while len(futures) - len(pending) < needed:
            _, pending = wait(
                pending, timeout=None if self.timeout is None else LOOK, return_when=FIRST_COMPLETED
            )
            if self.timeout is None:
                continue
            now = time.monotonic()
            for future in list(pending):
                if future.running() and now - began.setdefault(future, now) >= self.timeout:
                    overdue.add(future)
                    pending.discard(future)
        return overdue


def _answer(future: Any) -> Any:
    """Return what a finished future holds, a failure of the executor itself included."""
    try:
        return future.result()
    except (Exception, CancelledError) as error:
        return Failure(type(error).__name__, str(error)), error


def _settled(evaluator: Evaluator, answers: list[Any], late: Any = None) -> Values:
    """Return answers as values, with failures noted in the order of candidates."""
    values = np.full(len(answers), np.nan)
    number = np.zeros(len(answers), dtype=np.bool_)
    evaluator.answered = evaluator.answered or any(not isinstance(answer, tuple) for answer in answers)
    for row, answer in enumerate(answers):
        if isinstance(answer, tuple):
            failure, error = answer
            evaluator.refuse_mistake(failure.kind, failure.message)
            if evaluator.on_error == "raise":
                raise error
            evaluator.note(failure.kind, failure.message, failure.traceback)
        elif late is None or not late[row]:
            values[row] = answer
            number[row] = True
    values[number] = evaluator.finite(values[number])
    return values
