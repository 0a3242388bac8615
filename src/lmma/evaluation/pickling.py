"""Objectives on their way to other processes, lambdas, closures and notebook functions included."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable

from lmma.evaluation.base import Answer, Array, Function, as_answer
from lmma.evaluation.failures import TaskFailure, is_failure


def dumps(thing: object) -> bytes:
    """Return ``thing`` pickled, by value where plain pickle can only name it or refuses."""
    try:
        import cloudpickle
    except ImportError:  # a minimal installation: named functions of importable modules still travel
        return pickle.dumps(thing)
    not_importable = [
        module
        for part in (thing if isinstance(thing, tuple) else (thing,))
        if (module := sys.modules.get(getattr(part, "__module__", None) or "")) is not None
        and getattr(module, "__spec__", None) is None  # made by runpy or exec: nobody else can import it
        and module.__name__ != "__main__"
    ]
    for module in not_importable:
        cloudpickle.register_pickle_by_value(module)
    try:
        return bytes(cloudpickle.dumps(thing))
    finally:
        for module in not_importable:
            cloudpickle.unregister_pickle_by_value(module)


class Guarded:
    """Calls ``fun(x, *args)`` and returns its answer, or the failure as data: nothing is raised.

    It travels through plain pickle whatever ``fun`` is, so any map or executor can carry it.
    """

    def __init__(self, fun: Function, args: tuple[object, ...] = ()) -> None:
        self.fun = fun
        self.args = args

    def __call__(self, x: Array) -> Answer | TaskFailure:
        """Return the value of ``fun`` at ``x``, or what went wrong."""
        try:
            return as_answer(self.fun(x, *self.args))
        except BaseException as error:
            if not is_failure(error):
                raise
            return TaskFailure.of(error)

    def __reduce__(self) -> tuple[Callable[[bytes], Guarded], tuple[bytes]]:
        return _load_guarded, (dumps((self.fun, self.args)),)


def _load_guarded(pickled: bytes) -> Guarded:
    return Guarded(*pickle.loads(pickled))


class WithData:
    """``fun`` with data that every process loads for itself, once: ``fun(x, *args, initializer())``.

    Where the initialiser returns None, it has put its data somewhere itself and ``fun`` gets nothing more.
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
