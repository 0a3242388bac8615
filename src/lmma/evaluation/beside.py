"""An objective with constraint functions beside it: one call in one process gives the values of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import final

import numpy as np

from lmma.evaluation.base import Array, Function, Values, as_answer, as_answers
from lmma.evaluation.failures import WrongType
from lmma.evaluation.pickling import dumps


@final
class Beside:
    """Calls ``fun`` and then each function of ``functions``, and returns ``(f, g)``.

    ``g`` begins with how many numbers each of them gave, ``fun`` itself first, so that whoever reads it can
    tell them apart.

    Parameters
    ----------
    fun : callable
        The objective, which may return ``(f, g)`` itself.
    functions : sequence of (callable, args)
        Constraint functions, called as ``function(x, *args)``.
    vectorized : bool
        Whether all of them take many candidates at once, one per row.
    """

    def __init__(
        self, fun: Function, functions: Sequence[tuple[Function, tuple[object, ...]]], vectorized: bool
    ) -> None:
        self.fun = fun
        self.functions = tuple(functions)
        self.vectorized = vectorized

    def __call__(self, x: Array, *args: object, **more: object) -> tuple[float | Values, Values]:
        """Return the objective and its constraints at ``x``; all are shown the same numbers."""
        return self._rows(x, args, more) if self.vectorized else self._one(x, args, more)

    def _one(self, x: Array, args: tuple[object, ...], more: dict[str, object]) -> tuple[float, Values]:
        f, own = as_answer(self.fun(x.copy(), *args, **more))
        parts = [np.empty(0) if own is None else own]
        parts += [_vector(function(x.copy(), *theirs)) for function, theirs in self.functions]
        return f, np.concatenate([[len(part) for part in parts], *parts])

    def _rows(self, x: Array, args: tuple[object, ...], more: dict[str, object]) -> tuple[Values, Values]:
        rows = len(x)
        f, own = as_answers(self.fun(x, *args, **more), rows)
        parts = [np.empty((rows, 0)) if own is None else own]
        parts += [_matrix(function(x, *theirs), rows) for function, theirs in self.functions]
        counts = np.tile([float(part.shape[1]) for part in parts], (rows, 1))
        return f, np.concatenate([counts, *parts], axis=1)

    def __reduce__(self) -> tuple[Callable[[bytes, bool], Beside], tuple[bytes, bool]]:
        return _load, (dumps((self.fun, self.functions)), self.vectorized)


def _load(pickled: bytes, vectorized: bool) -> Beside:
    import pickle

    fun, functions = pickle.loads(pickled)
    return Beside(fun, functions, vectorized)


def _vector(given: object) -> Values:
    values = np.asarray(given)
    if values.dtype.kind not in "fiub" or values.ndim > 1:
        raise WrongType(
            "constraints must return a number or a vector of numbers for each candidate; got dtype "
            f"{values.dtype}, shape {values.shape}"
        )
    return np.atleast_1d(values).astype(np.float64)


def _matrix(given: object, rows: int) -> Values:
    values = np.asarray(given)
    if values.dtype.kind not in "fiub" or values.ndim not in (1, 2) or len(values) != rows:
        raise WrongType(
            f"constraints with vectorized=True must return numbers of shape ({rows},) or ({rows}, count) for "
            f"{rows} rows; got dtype {values.dtype}, shape {values.shape}"
        )
    return values.reshape(rows, -1).astype(np.float64)
