"""Evaluation of candidates: in this process, in worker processes, or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeGuard, TypeVar

import numpy as np

from lmma._text import shown
from lmma.evaluation.base import EvaluationOptions, Evaluator, Function, OnError
from lmma.evaluation.failures import EvaluationError, Failure
from lmma.evaluation.serial import Serial, Vectorized

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

MAX_WORKERS = 1 << 15  # the default pid_max of Linux


class Submitter(Protocol):
    """An object with the ``submit`` method of a ``concurrent.futures`` executor."""

    def submit(self, fn: Callable[..., T], /, *args: object) -> Future[T]:
        """Schedule ``fn(*args)`` and return its future."""
        ...


class EvaluatorFactory(Protocol):
    """A value of ``workers=`` that creates its own evaluator, such as :class:`lmma.cluster.Replicated`."""

    def evaluator(
        self,
        fun: Function,
        args: tuple[object, ...],
        on_error: OnError,
        *,
        vectorized: bool,
        timeout: float | None,
        quorum: float,
    ) -> Evaluator:
        """Return an evaluator of ``fun``."""
        ...


def evaluator(
    fun: Function,
    args: tuple[object, ...] = (),
    on_error: OnError = "worst",
    *,
    workers: object = 1,
    vectorized: bool = False,
    timeout: float | None = None,
    quorum: float = 1.0,
) -> Evaluator:
    """Return the evaluator for these options; raise ValueError if they cannot be combined."""
    options = EvaluationOptions(on_error, vectorized, timeout, quorum)
    if _has_evaluator(workers):
        return workers.evaluator(fun, args, on_error, vectorized=vectorized, timeout=timeout, quorum=quorum)
    if not isinstance(workers, int):
        external = _external_evaluator(fun, args, options, workers)
        if external is not None:
            return external
    count = process_count(workers)
    if count > 1 or timeout is not None:  # only a separate process can be killed
        from lmma.evaluation.pool.pool import Pool

        return Pool(_pickled(fun, args), options, workers=count)
    if quorum < 1:
        raise ValueError(f"quorum={quorum} needs more than one worker: set workers=, or quorum=1")
    return (Vectorized if vectorized else Serial)(fun, args, on_error)


def _external_evaluator(
    fun: Function, args: tuple[object, ...], options: EvaluationOptions, workers: object
) -> Evaluator | None:
    """Return an evaluator that uses a cluster, an executor or a map; None if ``workers`` is none of these."""
    from lmma.evaluation.cluster import find_transport
    from lmma.evaluation.objective import Guarded

    transport = None if workers is map else find_transport(workers)
    if transport is not None:
        from lmma.evaluation.cluster.driver import VectorDriver

        return VectorDriver(_pickled(fun, args), options, transport)
    if _can_submit(workers):
        from lmma.evaluation.executors import Submitted

        _check_not_vectorized(options, "an executor")
        return Submitted(Guarded(fun, args), options, executor=workers)
    if callable(workers):
        from lmma.evaluation.executors import Mapped

        _check_not_vectorized(options, "a map")
        if options.timeout is not None or options.quorum < 1:
            raise ValueError(
                "timeout and quorum cannot be used with a map: pass workers as an integer or an executor"
            )
        return Mapped(Guarded(fun, args), options.on_error, map=workers)
    return None


def _pickled(fun: Function, args: tuple[object, ...]) -> bytes:
    """Return ``fun`` and ``args`` pickled for worker processes; raise TypeError if that is impossible."""
    from lmma.evaluation.objective import dumps

    try:
        return dumps((fun, args))
    except Exception as error:
        raise TypeError(
            f"fun or args cannot be sent to worker processes: {error}; remove this object or create it "
            "inside fun, or set workers=1 without timeout="
        ) from error


def _has_evaluator(workers: object) -> TypeGuard[EvaluatorFactory]:
    return hasattr(workers, "evaluator")


def _can_submit(workers: object) -> TypeGuard[Submitter]:
    return hasattr(workers, "submit")


def process_count(workers: object) -> int:
    """Return the number of worker processes for an integer ``workers``, -1 for all cores."""
    if isinstance(workers, bool) or not isinstance(workers, int | np.integer):
        raise TypeError(
            "workers must be an integer, -1 for all cores, a map-like callable, an executor or a cluster "
            f"(Dask, Ray, MPI); got {shown(workers)}"
        )
    if workers == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers < 1:
        raise ValueError(f"workers must be at least 1, or -1 for all cores; got {workers}")
    if workers > MAX_WORKERS:
        raise ValueError(
            f"workers must be at most {MAX_WORKERS}, or -1 for all cores; got {workers}: "
            "more workers than cores rarely help"
        )
    return int(workers)


def _check_not_vectorized(options: EvaluationOptions, what: str) -> None:
    if options.vectorized:
        raise ValueError(
            f"vectorized=True cannot be used with {what}: pass workers as an integer, or vectorized=False"
        )


__all__ = [
    "EvaluationError", "EvaluationOptions", "Evaluator", "Failure", "Serial", "Vectorized", "evaluator",
]  # fmt: skip
