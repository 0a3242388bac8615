"""Execution of a single task, which returns its record."""

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
from lmma._archive import CheckpointError
from lmma.kernels.blas import THREAD_VARIABLES
from lmma.methods import Strategy
from lmma_lab.peers import ADAPTORS, PEERS
from lmma_lab.schedule import coco, coco_limits
from lmma_lab.schedule.objective import Array, Report, WatchedObjective
from lmma_lab.schedule.partial_runs import PartialRun, PartialRuns, Stopwatch
from lmma_lab.store import Record
from lmma_lab.tasks import (
    Invariance,
    LargeScale,
    Memory,
    Race,
    Solve,
    Task,
    Timing,
    find_method,
)
from lmma_lab.timing import race
from lmma_lab.user_problems import find_problem

Rowwise = Callable[[Array], Array]

# Fields that may differ between two runs of one spec. CPU seconds of a single-threaded process equal
# wall-clock time on an idle machine and do not depend on its load; figures and claims use them.
MEASURED = ("seconds", "cpu_seconds", "internal_seconds", "peak_bytes")
ENVIRONMENT = ("versions", "machine")


def perform(task: Task, report: Report | None = None, partial_runs: PartialRuns | None = None) -> Record:
    """Run ``task`` and return its record; ``report`` is called regularly with the progress.

    A run is checkpointed in ``partial_runs`` and resumes from a checkpoint found there. The caller removes
    the checkpoint after storing the record (:meth:`PartialRuns.forget`).
    """
    if isinstance(task, Solve):
        result = _solve(task, report, partial_runs)
    elif isinstance(task, Timing):
        result = _time(task)
    elif isinstance(task, Memory):
        result = _measure_memory(task)
    elif isinstance(task, Invariance):
        result = _compare(task)
    elif isinstance(task, LargeScale):
        result = (coco_limits if task.others else coco).solve(task, report)
    elif isinstance(task, Race):
        _import_lazy_modules()
        result = race.solve(task)
    else:
        raise TypeError(f"unknown kind of task: {task!r}")
    used = result.pop("versions", {})
    return {
        "kind": task.kind,
        "spec": asdict(task),
        "versions": versions() | package_versions(task) | used,
        "machine": machine(),
        **result,
    }


def timeless(record: Record) -> Record:
    """Return the reproducible fields: those that do not depend on time, machine or interruptions."""
    return {name: value for name, value in record.items() if name not in (*MEASURED, *ENVIRONMENT)}


@cache
def versions() -> dict[str, str]:
    """Return the versions that results may depend on."""
    return {
        "lmma": getattr(lmma, "__version__", "unknown"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "kernels": str(kernels.backend()),
    }


def package_versions(task: Task) -> dict[str, str]:
    """Return the versions of the other packages that ``task`` uses."""
    method = getattr(task, "method", "")
    needed = [ADAPTORS[method].package] if method in ADAPTORS else []
    if isinstance(task, LargeScale):
        needed.append("coco-experiment")
    if method == "cobyqa":
        needed.append("scipy")
    return {package: metadata.version(package) for package in needed}


@cache
def machine() -> dict[str, str | int]:
    """Return the properties of the machine that times may depend on."""
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


def _solve(task: Solve, report: Report | None, partial_runs: PartialRuns | None) -> dict[str, Any]:
    problem = find_problem(task.problem)
    # The start depends only on the seed, so that all methods start from the same point.
    x0 = problem.start(task.n, np.random.default_rng([task.seed, task.n]))
    problem.function(x0[np.newaxis])  # draws the rotation, if any, before the timing starts
    _import_lazy_modules()
    objective = WatchedObjective(problem.function, (task.target,), report, task.label)
    if partial_runs is None or task.method in PEERS:  # peers cannot be checkpointed
        watch = Stopwatch()
        result = _search(task, objective, x0, None)
        used = [versions()["kernels"]]
    else:
        objective, result, kept = _resume(task, objective, x0, partial_runs)
        watch, used = kept.watch, kept.kernels
    seconds, cpu = watch.read()
    objective.raise_error()
    if result.reason == "memory":  # a property of the machine, not of the method
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
        # CPU time is not read in every generation, because that is an expensive system call.
        "internal_seconds": cpu * (1.0 - objective.seconds / seconds),
        "curve": objective.curve(),
        "versions": {"kernels": ", then ".join(used)},
    }


def _resume(
    task: Solve, objective: WatchedObjective, x0: Array, partial_runs: PartialRuns
) -> tuple[WatchedObjective, Any, PartialRun]:
    """Run from the checkpoint, or from the start if there is no usable one."""
    kept = partial_runs.keep(task.key, objective)
    try:
        return objective, _search(task, objective, x0, kept), kept
    except CheckpointError:
        if not kept.unusable:  # it is in use: another process runs this task
            raise
    partial_runs.set_aside(task.key)
    objective = objective.fresh_copy()
    kept = partial_runs.keep(task.key, objective)
    return objective, _search(task, objective, x0, kept), kept


def _search(task: Solve, objective: WatchedObjective, x0: Array, kept: PartialRun | None) -> Any:
    # Only a search that is stuck stops before the target. With the default tolfun a slow search would stop
    # just above 1e-10: on the ellipsoid at n = 128, f falls by 5% within the window of tolfun. A run in
    # Rosenbrock's local optimum, f = 3.99, still stops, because its values finally vary only by rounding.
    return lmma.minimize(
        objective, x0, task.sigma0, method=find_method(task.method, task.n), rng=task.seed, vectorized=True,
        stagnation=False, noise=None, maxfevals=task.budget, ftarget=task.target, tolx=0.0,
        tolfun=1e-4 * abs(task.target), on_interrupt="raise", checkpoint=kept,
    )  # fmt: skip


@cache
def _import_lazy_modules() -> None:
    """Run one generation, so that imports on first use do not count in the time of the next run."""
    lmma.minimize(lambda X: X[:, 0], [0.0, 0.0], 1.0, method="csa-es", vectorized=True, maxiter=1)


# Internal cost and memory, with random ranks instead of an objective

SHORTEST, LONGEST = 0.4, 8.0  # seconds spent on timing one method at one n
ROUNDS = 40


def _time(task: Timing) -> dict[str, Any]:
    """Return CPU seconds per sample over many short rounds, measured with all direction vectors in use."""
    es = find_method(task.method, task.n)(np.zeros(task.n), 1.0, rng=1)
    values = np.random.default_rng(1).standard_normal((64, es.popsize))
    out = np.empty((es.popsize, task.n))
    begin = time.perf_counter()
    warm = 0
    # All direction vectors are in use from generation m on. Methods with a full matrix need no such warm-up.
    while warm < 2 or (warm < es.popsize + 4 and time.perf_counter() - begin < LONGEST / 4):
        _generation(es, values[warm % 64], out)
        warm += 1
    took = (time.perf_counter() - begin) / warm
    batch = max(1, round(SHORTEST / ROUNDS / took))
    rounds: list[float] = []
    begin = time.perf_counter()
    while len(rounds) < 3 or (len(rounds) < ROUNDS and time.perf_counter() - begin < LONGEST):
        start = time.process_time()
        for g in range(batch):
            _generation(es, values[g % 64], out)
        rounds.append((time.process_time() - start) / (batch * es.popsize))
    return {
        "popsize": int(es.popsize),
        "seconds": {
            "rounds": len(rounds),
            "best": min(rounds),
            "lower": float(np.quantile(rounds, 0.25)),
            "median": median(rounds),
            "upper": float(np.quantile(rounds, 0.75)),
        },
    }


def _generation(es: Strategy, values: Array, out: Array) -> None:
    es.ask(out)
    es.tell(values)


def _measure_memory(task: Memory) -> dict[str, Any]:
    """Return the peak memory of a few generations, as traced by tracemalloc."""
    cls = find_method(task.method, task.n)
    _few_generations(cls, 8)  # imports on first use are not the method's memory
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


# Invariances: pairs of runs that should coincide


def _compare(task: Invariance) -> dict[str, Any]:
    """Return the difference between the means of two runs, relative to their distance from the start."""
    cls = find_method(task.method, task.n)
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
        scale = 1024.0  # a power of two, so that scaling causes no rounding
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
    """Return environment variables that limit every library to one thread, because runs are parallel."""
    return dict.fromkeys((*THREAD_VARIABLES, "LMMA_NUM_THREADS"), "1")
