"""Evaluation in this process: one candidate at a time, or vectorised."""

from __future__ import annotations

import math
import time
from typing import final

import numpy as np
import numpy.typing as npt

from lmma.evaluation.base import (
    Answers,
    Array,
    Evaluator,
    Function,
    OnError,
    RandomNumbers,
    Values,
    VectorizedCall,
    as_answer,
)
from lmma.evaluation.batch import collect_values, new_batch
from lmma.evaluation.cache import Evaluated, Outcome
from lmma.evaluation.failures import TaskFailure, is_failure
from lmma.evaluation.objective import Seeded


class InProcess(Evaluator):
    """Calls ``fun`` in this process."""

    def __init__(self, fun: Function, args: tuple[object, ...] = (), on_error: OnError = "worst") -> None:
        super().__init__(on_error)
        self.fun = fun
        self.args = args

    def _with_seed(self, candidates: Array, seed: RandomNumbers) -> Array:
        """Set the seed on ``fun`` directly; return the candidates unchanged."""
        if not isinstance(self.fun, Seeded):
            return super()._with_seed(candidates, seed)
        self.fun.numbers = seed
        return candidates


@final
class Serial(InProcess):
    """Calls ``fun(x, *args)`` for one candidate at a time."""

    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array:
        """Return the same array for every generation; ``fun`` receives copies of its rows."""
        return self._reused_buffer(rows, n, dtype)

    def __call__(self, candidates: Array, seed: RandomNumbers | None = None) -> Values:
        """Return one value per row."""
        if seed is not None:
            candidates = self._with_seed(candidates, seed)
        self._rows: dict[int, Values] = {}
        value_of = self._value if self.cache is None else self._known_value
        values = np.array([value_of(row, x) for row, x in enumerate(candidates)], dtype=np.float64)
        return self.store_constraint_values(values, self._rows)

    def _value(self, row: int, x: Array) -> float:
        try:
            value = self.fun(x.copy(), *self.args)  # fun may keep or modify its argument
            number, constraint_values = as_answer(value)
        except BaseException as error:
            if not is_failure(error):
                raise
            self.fail(TaskFailure.of(error))
            return math.nan
        return self._take(row, number, constraint_values)

    def _known_value(self, row: int, x: Array) -> float:
        """Return the value from the cache, or evaluate the point and add it."""
        assert self.cache is not None
        key = self.cache.key(x)
        known = self.cache.find(key) if self.cache.reuses else None
        if known is None:
            began = time.perf_counter()
            known = self._evaluate(x)
            self.cache.add([Evaluated(key, x, known, time.perf_counter() - began)])
        if known.failed is not None:
            self.fail(known.failed)
            return math.nan
        return self._take(row, known.value, known.constraint_values)

    def _evaluate(self, x: Array) -> Outcome:
        try:
            return Outcome(*as_answer(self.fun(x.copy(), *self.args)))
        except BaseException as error:
            if not is_failure(error):
                raise
            return Outcome(failed=TaskFailure.of(error))

    def _take(self, row: int, number: float, constraint_values: Values | None) -> float:
        self.answered = True
        if constraint_values is not None:
            self._rows[row] = constraint_values
        if number - number != 0.0:  # NaN or infinite
            return float(self.mark_nonfinite(np.array([number]))[0])
        return number


@final
class Vectorized(InProcess):
    """Calls ``fun(X, *args)`` once per generation; ``X`` has one candidate per row."""

    def __init__(self, fun: Function, args: tuple[object, ...] = (), on_error: OnError = "worst") -> None:
        super().__init__(fun, args, on_error)
        self._call = VectorizedCall(fun, args)

    def __call__(self, candidates: Array, seed: RandomNumbers | None = None) -> Values:
        """Return one value per row."""
        if seed is not None:
            candidates = self._with_seed(candidates, seed)
        if self.cache is not None:
            return self._known_values(candidates)
        rows = len(candidates)
        try:
            values, constraint_values = self._call(candidates)
        except BaseException as error:
            if not is_failure(error):
                raise
            self.fail(TaskFailure.of(error), rows)
            return np.full(rows, np.nan)
        self.answered = True
        return self.store_constraint_values(
            self.mark_nonfinite(values),
            {} if constraint_values is None else dict(enumerate(constraint_values)),
        )

    def _known_values(self, candidates: Array) -> Values:
        """Return the values from the cache; evaluate the other rows in one call and add them."""
        batch = new_batch(self, candidates)
        rows = batch.queue
        if rows:
            some = candidates if len(rows) == len(candidates) else candidates[rows]
            began = time.perf_counter()
            try:
                values, constraint_values = self._call(some)
            except BaseException as error:
                if not is_failure(error):
                    raise
                answers: Answers | TaskFailure = TaskFailure.of(error)
            else:
                answers = values, constraint_values
            batch.record_rows(rows, answers, (time.perf_counter() - began) / len(rows))
        return collect_values(self, batch)
