"""Objectives on their way to other processes, lambdas, closures and notebook functions included."""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Callable
from typing import Any

from lmma.evaluation.base import Array, Failure, as_number


def dumps(thing: Any) -> bytes:
    """Return ``thing`` pickled, by value where plain pickle can only name it or refuses."""
    try:
        import cloudpickle
    except ImportError:  # a minimal installation: named functions of importable modules still travel
        return pickle.dumps(thing)
    nameless = [
        module
        for part in (thing if isinstance(thing, tuple) else (thing,))
        if (module := sys.modules.get(getattr(part, "__module__", None) or "")) is not None
        and getattr(module, "__spec__", None) is None  # made by runpy or exec: nobody else can import it
        and module.__name__ != "__main__"
    ]
    for module in nameless:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(thing))
    finally:
        for module in nameless:
            cloudpickle.unregister_pickle_by_value(module)


class Guarded:
    """Calls ``fun(x, *args)`` and returns a number, or the failure as data: nothing is raised.

    It travels through plain pickle whatever ``fun`` is, so any map or executor can carry it.
    """

    def __init__(self, fun: Callable[..., Any], args: tuple[Any, ...] = ()) -> None:
        self.fun = fun
        self.args = args

    def __call__(self, x: Array) -> float | tuple[Failure, BaseException]:
        """Return the value of ``fun`` at ``x``, or what went wrong with the exception itself."""
        try:
            return as_number(self.fun(x, *self.args))
        except Exception as error:
            failure = Failure(type(error).__name__, str(error), "".join(traceback.format_exception(error)))
            return failure, portable_error(error)

    def __reduce__(self) -> tuple[Any, ...]:
        return _guarded, (dumps((self.fun, self.args)),)


def _guarded(pickled: bytes) -> Guarded:
    return Guarded(*pickle.loads(pickled))


class Prepared:
    """``fun`` with data that every process loads for itself, once: ``fun(x, *args, initializer())``.

    Where the initialiser returns None, it has put its data somewhere itself and ``fun`` gets nothing more.
    """

    def __init__(self, fun: Callable[..., Any], initializer: Callable[[], Any]) -> None:
        self.fun = fun
        self.initializer = initializer

    def __reduce__(self) -> tuple[Any, ...]:
        return _prepared, (dumps((self.fun, self.initializer)),)


def _prepared(pickled: bytes) -> Callable[..., Any]:
    fun, initializer = pickle.loads(pickled)
    data = initializer()
    return fun if data is None else lambda x, *args: fun(x, *args, data)


def portable_error(error: BaseException) -> BaseException:
    """Return ``error``, or where it would not survive a trip between processes, its words."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
