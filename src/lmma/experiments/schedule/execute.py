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
import numpy.typing as npt

import lmma
from lmma import kernels, problems
from lmma.evaluation import Evaluator
from lmma.experiments.peers import PEERS
from lmma.experiments.schedule import coco
from lmma.experiments.tasks import Invariance, LargeScale, Memory, Run, Task, Timing, find_method
from lmma.run.generation import run
from lmma.run.observers import Progress
from lmma.run.stopping import Limits
from lmma.strategies import Strategy

Report = Callable[[int, float], None]  # evaluations so far, best value so far
Array = npt.NDArray[np.floating]

GROWTH = 1.05  # evaluations between two points of a curve grow by this factor: 280 points for 10^7
# What may differ between two runs of one spec. CPU seconds of a process with one thread are its wall-clock
# time on a quiet machine, and stay so on a busy one: figures and claims use them.
MEASURED = ("seconds", "cpu_seconds", "internal_seconds", "peak_bytes")
AROUND = ("versions", "machine")


def perform(task: Task, report: Report | None = None) -> dict[str, Any]:
    """Return the record of ``task``, done now; ``report`` is called now and then on the way."""
    if isinstance(task, Run):
        result = _run(task, report)
    elif isinstance(task, Timing):
        result = _time(task)
    elif isinstance(task, Memory):
        result = _measure_memory(task)
    elif isinstance(task, Invariance):
        result = _compare(task)
    elif isinstance(task, LargeScale):
        result = coco.solve(task, report)
    else:
        raise TypeError(f"nobody knows how to perform {task!r}")
    return {
        "kind": task.kind,
        "spec": asdict(task),
        "versions": versions() | package_versions(task),
        "machine": machine(),
        **result,
    }


def timeless(record: dict[str, Any]) -> dict[str, Any]:
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
    needed = [PEERS[method].package] if method in PEERS else []
    if isinstance(task, LargeScale):
        needed.append("coco-experiment")
    return {package: metadata.version(package) for package in needed}


@cache
def machine() -> dict[str, Any]:
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


class _Counted(Evaluator):
    """Evaluates a problem; knows when the target was first met, and the time it took."""

    def __init__(self, function: Callable[[Array], Any], target: float) -> None:
        super().__init__("raise")
        self.function = function
        self.target = target
        self.evaluations = 0
        self.hit: int | None = None  # evaluations up to and including the first at or below the target
        self.seconds = 0.0

    def __call__(self, candidates: Array) -> npt.NDArray[np.float64]:
        """Return one value for each row."""
        start = time.perf_counter()
        values: npt.NDArray[np.float64] = self.function(candidates)
        self.seconds += time.perf_counter() - start
        if self.hit is None and values.min() <= self.target:
            self.hit = self.evaluations + int(np.argmax(values <= self.target)) + 1
        self.evaluations += len(values)
        return values


class _Curve:
    """Keeps a point whenever the evaluations have grown by a constant factor, and the last."""

    def __init__(self, report: Report | None) -> None:
        self.points: list[tuple[int, float]] = []
        self._due = 0.0
        self._last = (0, math.inf)
        self._report = report

    def __call__(self, progress: Progress) -> None:
        self._last = (progress.evaluations, progress.best_fun)
        if progress.evaluations >= self._due:
            self.points.append(self._last)
            self._due = progress.evaluations * GROWTH
        if self._report is not None and progress.generation % 256 == 0:
            self._report(*self._last)

    def columns(self) -> dict[str, list[Any]]:
        """Return the curve as two lists, without what JSON cannot say."""
        points = self.points if self.points and self.points[-1] == self._last else [*self.points, self._last]
        points = [point for point in points if math.isfinite(point[1])]
        return {"evaluations": [p[0] for p in points], "best_fun": [float(f"{p[1]:.6g}") for p in points]}


def _run(task: Run, report: Report | None) -> dict[str, Any]:
    problem = problems.get(task.problem)
    cls = find_method(task.method)
    # The start depends on the seed alone, so that all methods set out from the same point.
    x0 = problems.suites.start(problem, task.n, np.random.default_rng([task.seed, task.n]))
    problem.function(x0[np.newaxis])  # draws the rotation, if there is one, before the clock starts
    evaluate = _Counted(problem.function, task.target)
    curve = _Curve(report)
    start, cpu = time.perf_counter(), time.process_time()
    es = cls(x0, task.sigma0, rng=task.seed)
    _search_beyond_the_target(es, task.target)
    limits = Limits(maxfevals=task.budget, ftarget=task.target)
    limits.refuse_less_than_a_generation(es.popsize)
    stop = run(es, evaluate, limits, (curve,))
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    best = float(es.best_fun)
    return {
        "success": evaluate.hit is not None,
        "evaluations_to_target": evaluate.hit,
        "evaluations": int(es.evaluations),
        "generations": int(es.generation),
        "popsize": int(es.popsize),
        "best_fun": best if math.isfinite(best) else None,
        "reason": stop.reason,
        "seconds": seconds,
        "cpu_seconds": cpu,
        # CPU time is not asked for in every generation: that is a call to the system, and not a cheap one.
        "internal_seconds": cpu * (1.0 - evaluate.seconds / seconds),
        "curve": curve.columns(),
    }


def _search_beyond_the_target(es: Any, target: float) -> None:
    """Set the tolerances so that only a search that is stuck stops before the target.

    With the default ``tolfun`` a slow search ends just above 1e-10: on the ellipsoid at n = 128 f falls by 5%
    in the generations that ``tolfun`` looks at. A run in Rosenbrock's local optimum, f = 3.99, still stops,
    since its values vary by rounding alone in the end.
    """
    for name, value in (("tolx", 0.0), ("tolfun", 1e-4 * abs(target))):
        if hasattr(es, name):
            setattr(es, name, value)


# Internal cost and memory: no objective, ranks at random

SHORTEST, LONGEST = 0.4, 8.0  # seconds spent on timing one method at one n
ROUNDS = 40


def _time(task: Timing) -> dict[str, Any]:
    """Return CPU seconds a sample, warm and with all direction vectors in use, over many short rounds."""
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


def _generation(es: Any, values: Array, out: Array) -> None:
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
    changed: Callable[[Array], Any] = function
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


def _third_root_of(function: Callable[[Array], Any]) -> Callable[[Array], Any]:
    return lambda X: np.cbrt(function(X)) - 7.0


def processor_threads_one() -> dict[str, str]:
    """Return the environment under which every library uses one thread: runs are what is parallel."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "LMMA_NUM_THREADS")
    return dict.fromkeys(names, "1")
