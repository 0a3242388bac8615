"""Evaluation in this process: one candidate after another, or all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma.evaluation.base import (
    Array,
    Evaluator,
    OnError,
    Values,
    as_number,
    as_numbers,
)


@final
class Serial(Evaluator):
    """Calls ``fun(x, *args)`` for one candidate after another."""

    def __init__(
        self, fun: Callable[..., Any], args: tuple[Any, ...] = (), on_error: OnError = "worst"
    ) -> None:
        super().__init__(on_error)
        self.fun = fun
        self.args = args
        self._buffer: Array | None = None

    def buffer(self, rows: int, n: int, dtype: npt.DTypeLike) -> Array | None:
        """Return the same array for every generation: ``fun`` is given copies of its rows."""
        if self._buffer is None or self._buffer.shape != (rows, n) or self._buffer.dtype != dtype:
            self._buffer = np.empty((rows, n), dtype=dtype)
        return self._buffer

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        return np.array([self._value(x) for x in candidates], dtype=np.float64)

    def _value(self, x: Array) -> float:
        try:
            value = self.fun(x.copy(), *self.args)  # a copy: fun may keep or alter what it is given
            number = as_number(value)
        except Exception as error:
            self.refuse_mistake(type(error).__name__, str(error))
            return self.failed(error)
        self.answered = True
        if number - number != 0.0:  # NaN or infinite
            return float(self.finite(np.array([number]))[0])
        return number


@final
class Vectorized(Evaluator):
    """Calls ``fun(X, *args)`` once a generation, with one candidate a row."""

    def __init__(
        self, fun: Callable[..., Any], args: tuple[Any, ...] = (), on_error: OnError = "worst"
    ) -> None:
        super().__init__(on_error)
        self.fun = fun
        self.args = args

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        try:
            values = as_numbers(self.fun(candidates, *self.args), len(candidates))
        except Exception as error:
            self.refuse_mistake(type(error).__name__, str(error))
            nothing = np.full(len(candidates), self.failed(error))
            self.failures[type(error).__name__] += len(candidates) - 1  # one is counted already
            return nothing
        self.answered = True
        return self.finite(values)
