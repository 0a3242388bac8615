"""Wrappers around an objective for random numbers, constraint functions, data and pickling."""

from __future__ import annotations

import math
import os
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import numpy.typing as npt

from lmma.evaluation.base import Answer, Array, Function, Values, as_answer, as_answers
from lmma.evaluation.failures import TaskFailure, WrongType, is_failure

# Common random numbers: seed and generation are appended to the candidate as two more coordinates, so that
# pools and clusters need no special case. In this process they are set on the objective directly.


@final
class Seeded:
    """Calls ``fun(x, *args, seed=..., generation=...)`` with the numbers appended by :func:`with_seed`.

    If ``numbers`` is set, ``x`` is the candidate alone.
    """

    def __init__(self, fun: Callable[..., Any], keywords: tuple[str, ...], dtype: str) -> None:
        self.fun = fun
        self.keywords = keywords
        self.dtype = dtype
        self.numbers: tuple[int, int] | None = None  # seed and generation of the current candidates

    def __call__(self, x: npt.NDArray[Any], *args: Any) -> Any:
        """Evaluate one candidate, or several rows that share one seed."""
        point = x
        if self.numbers is None:
            seed, generation = (int(number) for number in np.atleast_2d(x)[0, -2:])
            point = np.ascontiguousarray(x[..., :-2], dtype=self.dtype)
            point.flags.writeable = x.flags.writeable
        else:
            seed, generation = self.numbers
        numbers = {"seed": seed, "generation": generation}
        return self.fun(point, *args, **{name: numbers[name] for name in self.keywords})


def with_seed(candidates: Array, seed: int, generation: int) -> Array:
    """Return candidates with seed and generation appended as two columns."""
    rows, n = candidates.shape
    wide = np.empty((rows, n + 2))  # always float64: float32 cannot hold a 32-bit seed
    wide[:, :n] = candidates
    wide[:, n:] = seed, generation
    return wide


# Constraint functions, evaluated in the same call as the objective


@final
class WithConstraints:
    """Calls ``fun`` and then each function of ``functions``, and returns ``(f, g)``.

    ``g`` starts with the number of constraints from ``fun`` and from each function, so that the caller can
    split it.

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
        """Return the objective and all constraints at ``x``."""
        return self._rows(x, args, more) if self.vectorized else self._one(x, args, more)

    def _one(self, x: Array, args: tuple[object, ...], more: dict[str, object]) -> tuple[float, Values]:
        f, from_fun = as_answer(self.fun(x.copy(), *args, **more))
        parts = [np.empty(0) if from_fun is None else from_fun]
        parts += [_vector(function(x.copy(), *its_args)) for function, its_args in self.functions]
        return f, np.concatenate([[len(part) for part in parts], *parts])

    def _rows(self, x: Array, args: tuple[object, ...], more: dict[str, object]) -> tuple[Values, Values]:
        rows = len(x)
        f, from_fun = as_answers(self.fun(x, *args, **more), rows)
        parts = [np.empty((rows, 0)) if from_fun is None else from_fun]
        parts += [_matrix(function(x, *its_args), rows) for function, its_args in self.functions]
        counts = np.tile([float(part.shape[1]) for part in parts], (rows, 1))
        return f, np.concatenate([counts, *parts], axis=1)

    def __reduce__(self) -> tuple[Callable[[bytes, bool], WithConstraints], tuple[bytes, bool]]:
        return _load_with_constraints, (dumps((self.fun, self.functions)), self.vectorized)


def _load_with_constraints(pickled: bytes, vectorized: bool) -> WithConstraints:
    fun, functions = pickle.loads(pickled)
    return WithConstraints(fun, functions, vectorized)


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


# Pickling


def dumps(thing: object) -> bytes:
    """Return ``thing`` pickled; functions that cannot be imported elsewhere are pickled by value."""
    try:
        import cloudpickle
    except ImportError:  # minimal installation: functions of importable modules still work
        return pickle.dumps(thing)
    not_importable = [
        module
        for part in (thing if isinstance(thing, tuple) else (thing,))
        if (module := sys.modules.get(getattr(part, "__module__", None) or "")) is not None
        and getattr(module, "__spec__", None) is None  # created by runpy or exec: not importable elsewhere
        and module.__name__ != "__main__"
    ]
    for module in not_importable:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(thing))
    finally:
        for module in not_importable:
            cloudpickle.unregister_pickle_by_value(module)


class TimedAnswer(NamedTuple):
    """The answer of an objective, or its failure, with the time it took and the process that ran it."""

    answer: Answer | TaskFailure
    seconds: float = math.nan
    worker: str = ""


class Guarded:
    """Calls ``fun(x, *args)`` and returns its answer, or a :class:`TaskFailure` if it raises.

    Plain pickle can handle it whatever ``fun`` is, so it works with any map or executor.
    """

    def __init__(self, fun: Function, args: tuple[object, ...] = ()) -> None:
        self.fun = fun
        self.args = args

    def __call__(self, x: Array) -> TimedAnswer:
        """Return the value of ``fun`` at ``x``, or the failure."""
        began = time.perf_counter()
        try:
            answer: Answer | TaskFailure = as_answer(self.fun(x, *self.args))
        except BaseException as error:
            if not is_failure(error):
                raise
            answer = TaskFailure.of(error)
        return TimedAnswer(answer, time.perf_counter() - began, str(os.getpid()))

    def __reduce__(self) -> tuple[Callable[[bytes], Guarded], tuple[bytes]]:
        return _load_guarded, (dumps((self.fun, self.args)),)


def _load_guarded(pickled: bytes) -> Guarded:
    return Guarded(*pickle.loads(pickled))


class WithData:
    """``fun`` with data that each process loads once: ``fun(x, *args, initializer())``.

    If the initialiser returns None, ``fun`` is called without the extra argument.
    """

    def __init__(self, fun: Function, initializer: Callable[[], object]) -> None:
        self.fun = fun
        self.initializer = initializer

    def __reduce__(self) -> tuple[Callable[[bytes], Function], tuple[bytes]]:
        return _load_with_data, (dumps((self.fun, self.initializer)),)


def _load_with_data(pickled: bytes) -> Function:
    fun, initializer = pickle.loads(pickled)
    data = initializer()
    return fun if data is None else lambda x, *args: fun(x, *args, data)
