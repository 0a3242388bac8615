"""Which evaluator ``workers=`` and its companions ask for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeGuard, TypeVar

import numpy as np

from lmma.evaluation import pickling
from lmma.evaluation.base import EvaluationOptions, Evaluator, Function, OnError
from lmma.evaluation.cluster.address import find_transport
from lmma.evaluation.serial import Serial, Vectorized
from lmma.kernels.words import shown

if TYPE_CHECKING:
    from concurrent.futures import Future

T = TypeVar("T")

MOST_WORKERS = 1 << 15  # as many processes as Linux has numbers for, unless it is told otherwise


class Submitter(Protocol):
    """An executor: anything with the method ``submit`` of those in ``concurrent.futures``."""

    def submit(self, fn: Callable[..., T], /, *args: object) -> Future[T]:
        """Have ``fn(*args)`` called."""
        ...


class OwnEvaluator(Protocol):
    """Workers that bring their own evaluator, as :class:`lmma.cluster.Replicated` does."""

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
        """Return what evaluates ``fun``."""
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
    """Return what evaluates ``fun`` in the way asked for, or say which wishes contradict one another."""
    options = EvaluationOptions(on_error, vectorized, timeout, quorum)
    if _brings_evaluator(workers):
        return workers.evaluator(fun, args, on_error, vectorized=vectorized, timeout=timeout, quorum=quorum)
    transport = None if isinstance(workers, int) or workers is map else find_transport(workers)
    if transport is not None:
        from lmma.evaluation.cluster.driver import VectorDriver

        return VectorDriver(pickling.dumps((fun, args)), options, transport)
    if _can_submit(workers):
        from lmma.evaluation.executors import Submitted

        _refuse_vectorized(options, "an executor")
        return Submitted(pickling.Guarded(fun, args), options, executor=workers)
    if callable(workers):
        from lmma.evaluation.executors import Mapped

        _refuse_vectorized(options, "a map")
        if timeout is not None or quorum < 1:
            raise ValueError(
                "timeout and quorum need workers that can be watched: an integer or an executor, not a map"
            )
        return Mapped(pickling.Guarded(fun, args), on_error, map=workers)
    count = _processes(workers)
    if count > 1 or timeout is not None:  # a process of its own is the only one that can be stopped
        try:
            from lmma.evaluation.pool.pool import Pool
        except ImportError as error:
            raise ValueError(_no_pool_here(count, timeout, str(error))) from None
        return Pool(pickling.dumps((fun, args)), options, workers=count)
    if quorum < 1:
        raise ValueError(f"quorum={quorum} needs workers: with one, nobody else is there to be waited for")
    return (Vectorized if vectorized else Serial)(fun, args, on_error)


def _brings_evaluator(workers: object) -> TypeGuard[OwnEvaluator]:
    return hasattr(workers, "evaluator")


def _can_submit(workers: object) -> TypeGuard[Submitter]:
    return hasattr(workers, "submit")


def _processes(workers: object) -> int:
    if isinstance(workers, bool) or not isinstance(workers, int | np.integer):
        raise TypeError(
            "workers must be an integer, -1 for all cores, a map-like callable, an executor or a cluster "
            f"(Dask, Ray, MPI); got {shown(workers)}"
        )
    if workers == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers < 1:
        raise ValueError(f"workers must be at least 1, or -1 for all cores; got {workers}")
    if workers > MOST_WORKERS:
        raise ValueError(
            f"workers must be at most {MOST_WORKERS}, and no more than there are cores to be of use, "
            f"-1 for all cores; got {workers}"
        )
    return int(workers)


def _no_pool_here(count: int, timeout: float | None, why: str) -> str:
    asked = f"workers={count}" if count > 1 else f"timeout={timeout}"
    executor = f"workers=concurrent.futures.ProcessPoolExecutor({max(count, 2)})"
    return (
        f"{asked} cannot be had on this system ({why}): pass an executor, such as {executor} under "
        'if __name__ == "__main__"; with one, an evaluation that exceeds timeout= is given up, not killed'
    )


def _refuse_vectorized(options: EvaluationOptions, what: str) -> None:
    if options.vectorized:
        raise ValueError(
            f"vectorized=True cannot be split by {what}: pass workers as an integer, or vectorized=False"
        )
