"""Which evaluator ``workers=`` and its companions ask for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from lmma.evaluation.base import Evaluator, OnError
from lmma.evaluation.cluster.address import find_engine
from lmma.evaluation.serial import Serial, Vectorized


def evaluator(
    fun: Callable[..., Any],
    args: tuple[Any, ...] = (),
    on_error: OnError = "worst",
    *,
    workers: Any = 1,
    vectorized: bool = False,
    timeout: float | None = None,
    quorum: float = 1.0,
) -> Evaluator:
    """Return what evaluates ``fun`` in the way asked for, or say which wishes contradict one another."""
    if timeout is not None and not timeout > 0:
        raise ValueError(f"timeout must be a positive number of seconds, or None; got {timeout!r}")
    if not 0 < quorum <= 1:
        raise ValueError(f"quorum must be a share of the generation in (0, 1], got {quorum!r}")
    if hasattr(
        workers, "evaluator"
    ):  # workers that bring a way of their own, such as lmma.run.replicas.replicated.Replicated
        brought: Evaluator = workers.evaluator(
            fun, args, on_error, vectorized=vectorized, timeout=timeout, quorum=quorum
        )
        return brought
    engine = None if isinstance(workers, int) or workers is map else find_engine(workers)
    if engine is not None:
        from lmma.evaluation.cluster.driver import Cluster

        return Cluster(
            fun, args, on_error, engine=engine, vectorized=vectorized, timeout=timeout, quorum=quorum
        )
    if hasattr(workers, "submit"):
        from lmma.evaluation.executors import Submitted

        _refuse_rows(vectorized, "an executor")
        return Submitted(fun, args, on_error, executor=workers, timeout=timeout, quorum=quorum)
    if callable(workers):
        from lmma.evaluation.executors import Mapped

        _refuse_rows(vectorized, "a map")
        if timeout is not None or quorum < 1:
            raise ValueError(
                "timeout and quorum need workers that can be watched: an integer or an executor, not a map"
            )
        return Mapped(fun, args, on_error, map=workers)
    count = _processes(workers)
    if count > 1 or timeout is not None:  # a process of its own is the only one that can be stopped
        from lmma.evaluation.pool.pool import Pool

        return Pool(fun, args, on_error, workers=count, vectorized=vectorized, timeout=timeout, quorum=quorum)
    if quorum < 1:
        raise ValueError(f"quorum={quorum} needs workers: with one, nobody else is there to be waited for")
    return (Vectorized if vectorized else Serial)(fun, args, on_error)


def _processes(workers: Any) -> int:
    if isinstance(workers, bool) or not isinstance(workers, int | np.integer):
        raise TypeError(
            "workers must be an integer, -1 for all cores, a map-like callable, an executor or a cluster "
            f"(Dask, Ray, MPI); got {workers!r}"
        )
    if workers == -1:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if workers < 1:
        raise ValueError(f"workers must be at least 1, or -1 for all cores; got {workers}")
    return int(workers)


def _refuse_rows(vectorized: bool, what: str) -> None:
    if vectorized:
        raise ValueError(
            f"vectorized=True cannot be split by {what}: pass workers as an integer, or vectorized=False"
        )
