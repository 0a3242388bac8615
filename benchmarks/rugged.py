"""Rugged problems of engineering and physics: best values within 10 n to 1000 n, next to other packages.

    python benchmarks/rugged.py run --set held-out --methods auto,ranks,pycma,biteopt --seeds 1-3
    python benchmarks/rugged.py run --set tuning --methods auto:restarts=5,popsize=40 --each-budget
    python benchmarks/rugged.py table --set held-out

The problems are those of lmma_lab.rugged. `held-out` is for reports: choose constants on `tuning`.
Every method searches the unit cube, from the same start: the centre of the box, or a random point where the
centre is degenerate. One run of 1000 n gives the values at all budgets. With --each-budget every budget is a
run of its own, whose method knows it, and the table takes the values of such runs where they exist. A run
that ends early is followed by others from random points. A method may have options of lmma.minimize after a
colon. Finished runs are kept as lines of a file and not made again. Needs SciPy and, for some methods,
`pip install cma cmaes fcmaes`.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from one_thread import use_one_thread

use_one_thread()

import numpy as np

import lmma
from lmma_lab import rugged

BUDGETS = (10, 30, 100, 300, 1000)  # times n
SOLVED = 1e-8  # values this close to the best known or found are equal, relative to it where it exceeds 1
OURS = {"auto": {}, "ranks": {"values": "ranks"}}


class Watched:
    """A problem on the unit cube that records its best value at each budget."""

    def __init__(self, problem: rugged.Rugged, budget: int) -> None:
        self.problem, self.n, self.budget = problem, problem.n, budget
        self.lower, self.width = problem.lower, problem.upper - problem.lower
        self.calls, self.best, self.at = 0, math.inf, {}

    @property
    def left(self) -> int:
        return self.budget - self.calls

    def rows(self, units: np.ndarray) -> np.ndarray:
        values = self.problem(self.lower + np.clip(units, 0, 1) * self.width)
        values = np.where(np.isfinite(values), values, 1e300)
        for value in values:
            self.calls += 1
            self.best = min(self.best, float(value)) if self.left >= 0 else self.best
            if self.calls % self.n == 0 and self.calls // self.n in BUDGETS and self.left >= 0:
                self.at[str(self.calls // self.n)] = self.best
        return values

    def __call__(self, unit: np.ndarray) -> float:
        return float(self.rows(np.asarray(unit, dtype=float)[None])[0])


def use_lmma(fun: Watched, x0: np.ndarray, seed: int, **options: Any) -> None:
    lmma.minimize(
        fun.rows, x0, bounds=[0, 1], vectorized=True, rng=seed,
        maxfevals=max(fun.left, 10 * fun.n),  # a last run may need room for a generation; the rest is ignored
        **{"restarts": 9} | options,
    )  # fmt: skip


def pycma(fun: Watched, x0: np.ndarray, seed: int) -> None:
    """Run pycma with up to nine restarts, each with a doubled population."""
    import cma

    options = {"bounds": [0, 1], "maxfevals": fun.left, "seed": seed, "verbose": -9, "verb_log": 0}
    cma.fmin2(fun, x0, 0.3, options, restarts=9)


def cmaes(fun: Watched, x0: np.ndarray, seed: int) -> None:
    """Run CMA-ES of `cmaes`, Optuna's sampler, restarted with a doubled population as in its manual."""
    from cmaes import CMA

    rng, popsize = np.random.default_rng(seed), None
    box = np.tile([0.0, 1.0], (fun.n, 1))
    while fun.left > 0:
        search = CMA(
            mean=x0, sigma=0.3, bounds=box, seed=int(rng.integers(2**31)), population_size=popsize,
            n_max_resampling=10,  # with 100, its default, a run of 1000 n takes 13 minutes at n = 150
        )  # fmt: skip
        while fun.left > 0 and not search.should_stop():
            points = np.array([search.ask() for _ in range(search.population_size)])
            search.tell(list(zip(points, fun.rows(points).tolist(), strict=True)))
        x0, popsize = rng.random(fun.n), 2 * search.population_size


def biteopt(fun: Watched, x0: np.ndarray, seed: int) -> None:
    from fcmaes import bitecpp

    bitecpp.minimize(fun, unit_box(fun.n), x0, max_evaluations=fun.left, rg=np.random.default_rng(seed))


def crfmnes(fun: Watched, x0: np.ndarray, seed: int) -> None:
    from fcmaes import crfmnescpp

    crfmnescpp.minimize(fun, unit_box(fun.n), x0, max_evaluations=fun.left, rg=np.random.default_rng(seed))


def fcmaes_de(fun: Watched, x0: np.ndarray, seed: int) -> None:
    from fcmaes import decpp

    decpp.minimize(fun, fun.n, unit_box(fun.n), max_evaluations=fun.left, rg=np.random.default_rng(seed))


def scipy_de(fun: Watched, x0: np.ndarray, seed: int) -> None:
    from scipy.optimize import differential_evolution

    rounds = 10**6  # the callback ends the run
    differential_evolution(
        lambda unit: fun(unit) if fun.left > 0 else 1e300, unit_box(fun.n), x0=x0, rng=seed, maxiter=rounds,
        callback=lambda intermediate_result: fun.left <= 0, polish=False,
    )  # fmt: skip


def unit_box(n: int) -> Any:
    from scipy.optimize import Bounds

    return Bounds(np.zeros(n), np.ones(n))


PEERS = {
    "pycma": pycma,
    "cmaes": cmaes,
    "crfmnes": crfmnes,
    "biteopt": biteopt,
    "fcmaes-de": fcmaes_de,
    "scipy-de": scipy_de,
}


def solver(method: str) -> Callable[[Watched, np.ndarray, int], None]:
    """Return the function that runs ``method``, a peer or ours, ``name:key=value,key=value``."""
    if method in PEERS:
        return PEERS[method]
    name, _, chosen = method.partition(":")
    if name not in OURS:
        raise SystemExit(f"unknown method {name!r}; the names are {', '.join([*OURS, *PEERS])}")
    pairs = [pair.split("=", 1) for pair in chosen.split(",") if pair]
    return functools.partial(use_lmma, **OURS[name] | {key: parsed(value) for key, value in pairs})


def parsed(text: str) -> Any:
    """Return a number, true, false or null as in JSON, and anything else as text."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def one_run(task: dict[str, Any]) -> dict[str, Any]:
    """Run a task and return it with the best values at the budgets."""
    problem = rugged.get(task["problem"])
    fun = Watched(problem, task["budget"] * problem.n)
    x0, seed = (problem.start(task["seed"]) - fun.lower) / fun.width, task["seed"]
    rng, started = np.random.default_rng([seed, 1]), time.perf_counter()
    np.seterr(all="ignore")
    while fun.left > 0:
        solver(task["method"])(fun, x0, seed)
        x0, seed = rng.random(fun.n), seed + 1000
    best = {str(task["budget"]): fun.best} if task["each"] else fun.at
    return task | {"best": best, "seconds": round(time.perf_counter() - started, 2)}


def split_methods(text: str) -> list[str]:
    """Split at commas, but keep ``auto:a=1,b=2`` in one piece."""
    methods: list[str] = []
    for part in text.split(","):
        if "=" in part and ":" not in part:
            methods[-1] += f",{part}"
        else:
            methods.append(part)
    return methods


def numbers(text: str) -> list[int]:
    """Return the numbers of ``1-3`` or ``1,4``."""
    parts = [part.partition("-") for part in text.split(",")]
    return [k for first, _, last in parts for k in range(int(first), int(last or first) + 1)]


def tasks(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the runs that are asked for, one seed after the other."""
    budgets = [k for k in BUDGETS if k <= given.budget] if given.each_budget else [given.budget]
    for seed in numbers(given.seeds):
        for problem in rugged.SETS[given.set]:
            for method in split_methods(given.methods):
                for budget in budgets:
                    yield {"problem": problem.name, "method": method, "seed": seed, "budget": budget,
                           "each": given.each_budget}  # fmt: skip


def key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("problem", "method", "seed", "budget", "each"))


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def make_runs(given: argparse.Namespace) -> None:
    for method in split_methods(given.methods):
        solver(method)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    done = set(map(key, read(given.out)))
    left = [task for task in tasks(given) if key(task) not in done]
    with open(given.out, "a", encoding="utf-8") as file, ProcessPoolExecutor(given.workers) as pool:
        for record in pool.map(one_run, left) if given.workers > 1 else map(one_run, left):
            file.write(json.dumps(record) + "\n")
            file.flush()
            print(*key(record)[:4], f"{record['seconds']} s", file=sys.stderr, flush=True)


def values_at(records: list[dict[str, Any]], each: bool) -> dict[tuple[str, str, int], dict[str, float]]:
    """Return values by (problem, method, seed) and budget; values as good as the best known are equal.

    If ``each``, values of runs that knew their budget replace those of longer runs.
    """
    lowest: dict[str, float] = {}
    for record in records:
        known = lowest.get(record["problem"], rugged.get(record["problem"]).best)
        lowest[record["problem"]] = min(known, *record["best"].values())
    found: dict[tuple[str, str, int], dict[str, float]] = {}
    for record in sorted(records, key=lambda record: record["each"]):
        if each or not record["each"]:
            best = lowest[record["problem"]]
            values = {k: max(value, best + SOLVED * max(1, abs(best))) for k, value in record["best"].items()}
            found.setdefault((record["problem"], record["method"], record["seed"]), {}).update(values)
    return found


def print_table(given: argparse.Namespace) -> None:
    """Print mean ranks by budget, then medians by function, of runs that all methods have finished."""
    from scipy.stats import rankdata

    found = values_at(read(given.out), given.each_budget)
    methods = split_methods(given.methods) if given.methods else list(dict.fromkeys(key[1] for key in found))
    names = [problem.name for problem in rugged.SETS[given.set]]
    runs = [(p, s) for p in names for s in numbers(given.seeds) if all((p, m, s) in found for m in methods)]
    budgets = [str(k) for k in BUDGETS if all(str(k) in found[p, m, s] for p, s in runs for m in methods)]
    if not methods or not runs:
        raise SystemExit(f"{given.out} has no run that all methods have finished: {', '.join(methods)}")
    ranks = np.array([[rankdata([found[p, m, s][k] for m in methods]) for k in budgets] for p, s in runs])
    functions = len({p for p, _ in runs})
    print(f"Mean rank of {len(methods)} methods, {functions} functions, {len(runs)} runs each\n")
    print("| method | " + " | ".join(f"{k} n" for k in budgets) + " | mean |")
    print("|---|" + "---:|" * (len(budgets) + 1))
    means = ranks.mean(axis=0)
    for index in np.argsort(means.mean(axis=0)):
        cells = [*means[:, index], means[:, index].mean()]
        print(f"| {methods[index]} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")
    for k in budgets:
        print(f"\nMedian at {k} n\n\n| function | n | best known | " + " | ".join(methods) + " |")
        print("|---|---:|---:|" + "---:|" * len(methods))
        for name in dict.fromkeys(p for p, _ in runs):
            problem, seeds = rugged.get(name), [s for p, s in runs if p == name]
            cells = [f"{np.median([found[name, m, s][k] for s in seeds]):.6g}" for m in methods]
            best = f"{problem.best:.10g}" if math.isfinite(problem.best) else "-"
            print(f"| {name} | {problem.n} | {best} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("--set", choices=tuple(rugged.SETS), default="held-out")
    parser.add_argument("--methods", help="default: all for run, those in the file for table")
    parser.add_argument("--seeds", default="1-3")
    parser.add_argument("--budget", type=int, default=1000, choices=BUDGETS, help="evaluations, times n")
    parser.add_argument("--each-budget", action="store_true", help="one run for each budget up to --budget")
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    parser.add_argument("--out", type=Path, help="default: lab/results/rugged/SET.jsonl")
    given = parser.parse_args()
    given.out = given.out or Path(f"lab/results/rugged/{given.set}.jsonl")
    if given.action == "run":
        given.methods = given.methods or ",".join([*OURS, *PEERS])
    (make_runs if given.action == "run" else print_table)(given)


if __name__ == "__main__":
    main()
