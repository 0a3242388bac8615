"""Doing one task: spec in, record out."""

from __future__ import annotations

import math
import os
import platform
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import asdict
from functools import cache
from importlib import metadata
from statistics import median
from typing import Any

import numpy as np

import lmma
from lmma import kernels, problems
from lmma.experiments.own_problems import find_problem
from lmma.experiments.peers import ADAPTORS, PEERS
from lmma.experiments.schedule import coco, coco_limits
from lmma.experiments.schedule.objective import Array, Report, WatchedObjective
from lmma.experiments.schedule.unfinished import Stopwatch, UnfinishedRun, UnfinishedRuns
from lmma.experiments.tasks import (
    Invariance,
    LargeScale,
    Memory,
    Race,
    Solve,
    Task,
    Timing,
    find_method,
)
from lmma.experiments.timing import race
from lmma.kernels.blas import THREAD_VARIABLES
from lmma.run.checkpoint_file import CheckpointError
from lmma.store import Record
from lmma.strategies import Strategy

Rowwise = Callable[[Array], Array]

# What may differ between two runs of one spec. CPU seconds of a process with one thread are its wall-clock
# time on a quiet machine, and stay so on a busy one: figures and claims use them.
MEASURED = ("seconds", "cpu_seconds", "internal_seconds", "peak_bytes")
AROUND = ("versions", "machine")


def perform(task: Task, report: Report | None = None, unfinished: UnfinishedRuns | None = None) -> Record:
    """Return the record of ``task``, done now; ``report`` is called now and then on the way.

    A run is kept in ``unfinished`` while it lasts and goes on from what is there; who has stored the record
    removes it (:meth:`UnfinishedRuns.forget`).
    """
    if isinstance(task, Solve):
        result = _solve(task, report, unfinished)
    elif isinstance(task, Timing):
        result = _time(task)
    elif isinstance(task, Memory):
        result = _measure_memory(task)
    elif isinstance(task, Invariance):
        result = _compare(task)
    elif isinstance(task, LargeScale):
        result = (coco_limits if task.others else coco).solve(task, report)
    elif isinstance(task, Race):
        _import_what_a_run_needs()
        result = race.solve(task)
    else:
        raise TypeError(f"nobody knows how to perform {task!r}")
    used = result.pop("versions", {})
    return {
        "kind": task.kind,
        "spec": asdict(task),
        "versions": versions() | package_versions(task) | used,
        "machine": machine(),
        **result,
    }


def timeless(record: Record) -> Record:
    """Return what must be the same whenever, and however often interrupted, a task is done."""
    return {name: value for name, value in record.items() if name not in (*MEASURED, *AROUND)}


@cache
def versions() -> dict[str, str]:
    """Return what the numbers may depend on."""
    return {
        "lmma": getattr(lmma, "__version__", "unknown"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernels": str(kernels.backend()),
    }


def package_versions(task: Task) -> dict[str, str]:
    """Return the versions of the other packages that ``task`` needs."""
    method = getattr(task, "method", "")
    needed = [ADAPTORS[method].package] if method in ADAPTORS else []
    if isinstance(task, LargeScale):
        needed.append("coco-experiment")
    if method == "cobyqa":
        needed.append("scipy")
    return {package: metadata.version(package) for package in needed}


@cache
def machine() -> dict[str, str | int]:
    """Return what the times may depend on."""
    return {"system": platform.system(), "processor": _processor(), "cores": os.cpu_count() or 0}


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _solve(task: Solve, report: Report | None, unfinished: UnfinishedRuns | None) -> dict[str, Any]:
    problem = find_problem(task.problem)
    # The start depends on the seed alone, so that all methods set out from the same point.
    x0 = problems.suites.start(problem, task.n, np.random.default_rng([task.seed, task.n]))
    problem.function(x0[np.newaxis])  # draws the rotation, if there is one, before the clock starts
    _import_what_a_run_needs()
    objective = WatchedObjective(problem.function, (task.target,), report, task.label)
    if unfinished is None or task.method in PEERS:  # whose state is inside another package
        watch = Stopwatch()
        result = _search(task, objective, x0, None)
        used = [versions()["kernels"]]
    else:
        objective, result, kept = _go_on(task, objective, x0, unfinished)
        watch, used = kept.watch, kept.kernels
    seconds, cpu = watch.read()
    objective.raise_error()
    if result.reason == "memory":  # which says something of the machine, not of the method
        raise MemoryError(result.message)
    return {
        "success": bool(objective.hits),
        "evaluations_to_target": objective.hits[0] if objective.hits else None,
        "evaluations": int(result.nfev),
        "generations": int(result.nit),
        "popsize": objective.popsize,
        "best_fun": float(result.fun) if math.isfinite(result.fun) else None,
        "reason": result.reason,
        "seconds": seconds,
        "cpu_seconds": cpu,
        # CPU time is not asked for in every generation: that is a call to the system, and not a cheap one.
        "internal_seconds": cpu * (1.0 - objective.seconds / seconds),
        "curve": objective.curve(),
        "versions": {"kernels": ", then ".join(used)},
    }


def _go_on(
    task: Solve, objective: WatchedObjective, x0: Array, unfinished: UnfinishedRuns
) -> tuple[WatchedObjective, Any, UnfinishedRun]:
    """Return what a run from its checkpoint came to, or from the start if there is none that fits."""
    kept = unfinished.keep(task.key, objective)
    try:
        return objective, _search(task, objective, x0, kept), kept
    except CheckpointError:
        if not kept.refused:  # it is in use: somebody else does this task
            raise
    unfinished.set_aside(task.key)
    objective = objective.anew()
    kept = unfinished.keep(task.key, objective)
    return objective, _search(task, objective, x0, kept), kept


def _search(task: Solve, objective: WatchedObjective, x0: Array, kept: UnfinishedRun | None) -> Any:
    # Only a search that is stuck stops before the target. With the default tolfun a slow one ends just above
    # 1e-10: on the ellipsoid at n = 128 f falls by 5% in the generations that tolfun looks at. A run in
    # Rosenbrock's local optimum, f = 3.99, still stops: in the end its values vary by rounding alone.
    return lmma.minimize(
        objective, x0, task.sigma0, method=find_method(task.method), rng=task.seed, vectorized=True,
        stagnation=False, maxfevals=task.budget, ftarget=task.target, tolx=0.0,
        tolfun=1e-4 * abs(task.target), on_interrupt="raise", checkpoint=kept,
    )  # fmt: skip


@cache
def _import_what_a_run_needs() -> None:
    """Make a run of one generation: what is imported on first use is no part of the next run's time."""
    lmma.minimize(lambda X: X[:, 0], [0.0, 0.0], 1.0, method="csa-es", vectorized=True, maxiter=1)


# Internal cost and memory: no objective, ranks at random

SHORTEST, LONGEST = 0.4, 8.0  # seconds spent on timing one method at one n
TURNS = 40


def _time(task: Timing) -> dict[str, Any]:
    """Return CPU seconds per sample, warm and with all direction vectors in use, over many short turns."""
    es = find_method(task.method)(np.zeros(task.n), 1.0, rng=1)
    values = np.random.default_rng(1).standard_normal((64, es.popsize))
    out = np.empty((es.popsize, task.n))
    begin = time.perf_counter()
    warm = 0
    # Every direction vector takes part from generation m on. A full matrix needs no such start.
    while warm < 2 or (warm < es.popsize + 4 and time.perf_counter() - begin < LONGEST / 4):
        _generation(es, values[warm % 64], out)
        warm += 1
    took = (time.perf_counter() - begin) / warm
    batch = max(1, round(SHORTEST / TURNS / took))
    turns: list[float] = []
    begin = time.perf_counter()
    while len(turns) < 3 or (len(turns) < TURNS and time.perf_counter() - begin < LONGEST):
        start = time.process_time()
        for g in range(batch):
            _generation(es, values[g % 64], out)
        turns.append((time.process_time() - start) / (batch * es.popsize))
    return {
        "popsize": int(es.popsize),
        "seconds": {
            "rounds": len(turns),
            "best": min(turns),
            "lower": float(np.quantile(turns, 0.25)),
            "median": median(turns),
            "upper": float(np.quantile(turns, 0.75)),
        },
    }


def _generation(es: Strategy, values: Array, out: Array) -> None:
    es.ask(out)
    es.tell(values)


def _measure_memory(task: Memory) -> dict[str, Any]:
    """Return the most bytes held at once during a few generations, as Python and NumPy count them."""
    cls = find_method(task.method)
    _few_generations(cls, 8)  # what is imported on first use is not the method's memory
    tracemalloc.start()
    try:
        es = _few_generations(cls, task.n)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return {"popsize": int(es.popsize), "peak_bytes": int(peak)}


def _few_generations(cls: type[Strategy], n: int) -> Strategy:
    es = cls(np.zeros(n), 1.0, rng=1)
    for _ in range(3):
        es.ask()
        es.tell(np.arange(es.popsize, dtype=np.float64))
    return es


# Runs that ought to be one


def _compare(task: Invariance) -> dict[str, Any]:
    """Return how far the means of two runs are apart, relative to their distance from the start."""
    cls = find_method(task.method)
    rng = np.random.default_rng([task.seed, task.n])
    x0, offset = rng.uniform(-5, 5, task.n), rng.uniform(-5, 5, task.n)
    function = problems.get("ellipsoid").function
    shift, scale = np.zeros(task.n), 1.0
    options: dict[str, Any] = {}
    changed: Rowwise = function
    if task.change == "monotone":
        changed = _third_root_of(function)
    elif task.change == "translation":
        shift = offset
    elif task.change == "scale":
        scale = 1024.0  # a power of two, so that no rounding blurs the comparison
    else:
        options = {"update": "multiplicative"}
    one = cls(x0, 3.0, rng=task.seed)
    two = cls((x0 + shift) * scale, 3.0 * scale, rng=task.seed, **options)
    for _ in range(task.generations):
        one.tell(function(one.ask()))
        two.tell(changed(two.ask() / scale - shift))
    apart = float(np.max(np.abs(two.mean / scale - shift - one.mean)))
    return {"difference": apart / float(np.max(np.abs(one.mean - x0)))}


def _third_root_of(function: Rowwise) -> Rowwise:
    return lambda X: np.cbrt(function(X)) - 7.0


def one_thread() -> dict[str, str]:
    """Return the environment under which every library uses one thread: runs are what is parallel."""
    return dict.fromkeys((*THREAD_VARIABLES, "LMMA_NUM_THREADS"), "1")
