"""Evaluation in this process: one candidate after another, or all at once."""

from __future__ import annotations

import math
from typing import final

import numpy as np
import numpy.typing as npt

from lmma.evaluation.base import Array, Evaluator, Function, OnError, Values, as_answer, call_with_rows
from lmma.evaluation.failures import TaskFailure, is_failure
from lmma.evaluation.seeded import Seeded


class InProcess(Evaluator):
    """Calls ``fun`` in this process."""

    def __init__(self, fun: Function, args: tuple[object, ...] = (), on_error: OnError = "worst") -> None:
        super().__init__(on_error)
        self.fun = fun
        self.args = args

    def with_seed(self, candidates: Array, seed: int, generation: int) -> Array:
        """Let ``fun`` know the random numbers to use; the candidates stay as they are."""
        if not isinstance(self.fun, Seeded):
            return super().with_seed(candidates, seed, generation)
        self.fun.numbers = (seed, generation)
        return candidates


@final
class Serial(InProcess):
    """Calls ``fun(x, *args)`` for one candidate after another."""

    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array:
        """Return the same array for every generation: ``fun`` is given copies of its rows."""
        return self._reused_buffer(rows, n, dtype)

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        self._rows: dict[int, Values] = {}
        values = np.array([self._value(row, x) for row, x in enumerate(candidates)], dtype=np.float64)
        return self.with_beside(values, self._rows)

    def _value(self, row: int, x: Array) -> float:
        try:
            value = self.fun(x.copy(), *self.args)  # a copy: fun may keep or alter what it is given
            number, beside = as_answer(value)
        except BaseException as error:
            if not is_failure(error):
                raise
            self.fail(TaskFailure.of(error))
            return math.nan
        self.answered = True
        if beside is not None:
            self._rows[row] = beside
        if number - number != 0.0:  # NaN or infinite
            return float(self.finite(np.array([number]))[0])
        return number


@final
class Vectorized(InProcess):
    """Calls ``fun(X, *args)`` once per generation, with one candidate per row, read-only."""

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        rows = len(candidates)
        try:
            values, beside = call_with_rows(self.fun, candidates, self.args)
        except BaseException as error:
            if not is_failure(error):
                raise
            self.fail(TaskFailure.of(error), rows)
            return np.full(rows, np.nan)
        self.answered = True
        return self.with_beside(self.finite(values), {} if beside is None else dict(enumerate(beside)))
