"""Evaluation in this process: one candidate after another, or all at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import numpy as np

from lmma.evaluation.base import Array, Evaluator, OnError, Values, as_number


@final
class Serial(Evaluator):
    """Calls ``fun(x, *args)`` for one candidate after another."""

    def __init__(
        self, fun: Callable[..., Any], args: tuple[Any, ...] = (), on_error: OnError = "worst"
    ) -> None:
        super().__init__(on_error)
        self.fun = fun
        self.args = args

    def __call__(self, candidates: Array) -> Values:
        """Return one value for each row."""
        return np.array([self._value(x) for x in candidates], dtype=np.float64)

    def _value(self, x: Array) -> float:
        try:
            value = self.fun(x.copy(), *self.args)  # a copy: fun may keep or alter what it is given
        except Exception as error:
            return self.failed(error)
        number = as_number(value)
        if number != number:
            self.note("nan", "fun returned NaN")
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
            raw = np.asarray(self.fun(candidates, *self.args))
        except Exception as error:
            return np.full(len(candidates), self.failed(error))
        if raw.dtype.kind not in "fiub" or raw.shape != (len(candidates),):
            raise TypeError(
                f"fun with vectorized=True must return {len(candidates)} real numbers, shape "
                f"({len(candidates)},), for rows of shape {candidates.shape}; got dtype {raw.dtype}, "
                f"shape {raw.shape}"
            )
        values = raw.astype(np.float64)
        if np.isnan(values).any():
            self.note("nan", "fun returned NaN")
        return values
