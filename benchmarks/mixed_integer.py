"""Compare searches of integers and reals: successes and evaluations of lmma and of peers.

    python benchmarks/mixed_integer.py run records.jsonl --seeds 10      # goes on where it was stopped
    python benchmarks/mixed_integer.py run records.jsonl --n 1000 --solvers lmma --functions SphereOneMax
    python benchmarks/mixed_integer.py table records.jsonl
    python benchmarks/mixed_integer.py cost --n 1000                     # integers beside none, a ratio

The functions are those of Hamano, Saito, Nomura and Shirakawa (GECCO 2022): half of the variables real, half
integers in [-10, 10] (Int) or binary (OneMax, LeadingOnes); the target is 1e-10. All start at reals and
integers drawn from [1, 3], binary variables in the middle, with step size 1; everybody has their own defaults
otherwise and no restarts. A run ends at the target, when the solver says so, or after 2,500 n evaluations.
Peers: pycma's ``integer_variables`` (cma), CMA-ES with margin and CatCMA with margin (cmaes), binary
variables as categorical there as its documentation advises.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

TARGET = 1e-10
Record = dict[str, object]
Rows = Callable[[np.ndarray], np.ndarray]


class Problem:
    """One function of the test bed: its first half of variables is real."""

    def __init__(self, name: str, n: int) -> None:
        self.name, self.n, self.real = name, n, n // 2
        self.binary = not name.endswith("Int")
        size = n if not self.binary else self.real
        powers = np.arange(size) / max(1, size - 1) if name.startswith("Ellipsoid") else np.zeros(size)
        self.weights = 1000.0**powers
        self.low, self.high = (0, 1) if self.binary else (-10, 10)

    def __call__(self, X: np.ndarray) -> np.ndarray:
        if not self.binary:
            return np.square(X * self.weights).sum(axis=1)
        ones = X[:, self.real :]
        if self.name.endswith("LeadingOnes"):
            ones = np.cumprod(ones, axis=1)
        missing = (self.n - self.real) - ones.sum(axis=1)
        return np.square(X[:, : self.real] * self.weights).sum(axis=1) + missing

    def start(self, seed: int) -> np.ndarray:
        x0 = np.random.default_rng(seed).uniform(1, 3, self.n)
        if self.binary:
            x0[self.real :] = 0.5
        return x0

    @property
    def integers(self) -> np.ndarray:
        return np.arange(self.n) >= self.real

    @property
    def bounds(self) -> np.ndarray:
        bounds = np.tile([-np.inf, np.inf], (self.n, 1))
        bounds[self.real :] = self.low, self.high
        return bounds


FUNCTIONS = tuple(
    f"{real}{integer}" for integer in ("Int", "OneMax", "LeadingOnes") for real in ("Sphere", "Ellipsoid")
)


def lmma_run(problem: Problem, seed: int, budget: int, method: str = "auto") -> Iterator[tuple[int, float]]:
    import lmma
    from lmma.minimize import choose_method

    if method == "auto":
        method = choose_method(problem.real if problem.binary else problem.n)
    bounds = [tuple(pair) for pair in problem.bounds]
    es = lmma.strategy(
        method, problem.start(seed), 1.0, bounds=bounds, integrality=problem.integers, rng=seed
    )
    while not es.stop():
        es.tell(problem(es.ask()))
        yield es.evaluations, es.best_fun


def pycma_run(problem: Problem, seed: int, budget: int) -> Iterator[tuple[int, float]]:
    import cma

    lower = [None] * problem.real + [problem.low] * (problem.n - problem.real)
    upper = [None] * problem.real + [problem.high] * (problem.n - problem.real)
    options = {"integer_variables": np.flatnonzero(problem.integers).tolist(), "bounds": [lower, upper],
               "seed": seed + 1, "verbose": -9, "maxfevals": budget}  # fmt: skip
    es = cma.CMAEvolutionStrategy(problem.start(seed), 1.0, options)
    best = np.inf
    while not es.stop():
        X = np.array(es.ask())
        values = problem(X)
        es.tell(list(X), list(values))
        best = min(best, float(values.min()))
        yield es.countevals, best


def cmawm_run(problem: Problem, seed: int, budget: int) -> Iterator[tuple[int, float]]:
    from cmaes import CMAwM

    steps = np.where(problem.integers, 1.0, 0.0)
    es = CMAwM(mean=problem.start(seed), sigma=1.0, bounds=problem.bounds, steps=steps, seed=seed)
    best, count = np.inf, 0
    while not es.should_stop():
        pairs = [es.ask() for _ in range(es.population_size)]
        values = problem(np.array([x for x, _ in pairs]))
        es.tell([(raw, float(value)) for (_, raw), value in zip(pairs, values, strict=True)])
        best, count = min(best, float(values.min())), count + len(pairs)
        yield count, best


def catcmawm_run(problem: Problem, seed: int, budget: int) -> Iterator[tuple[int, float]]:
    from cmaes import CatCMAwM

    x0, rest = problem.start(seed), problem.n - problem.real
    space: dict[str, object] = {"x_space": problem.bounds[: problem.real]}
    if problem.binary:
        space |= {"c_space": [2] * rest, "mean": x0[: problem.real]}
    else:
        space |= {"z_space": [list(range(problem.low, problem.high + 1))] * rest, "mean": x0}
    es = CatCMAwM(**space, sigma=1.0, seed=seed)
    best, count = np.inf, 0
    while not es.should_stop():
        solutions = [es.ask() for _ in range(es.population_size)]
        discrete = [s.c.argmax(axis=1) if problem.binary else s.z for s in solutions]
        rows = [np.concatenate((s.x, d)) for s, d in zip(solutions, discrete, strict=True)]
        values = problem(np.array(rows))
        es.tell([(s, float(value)) for s, value in zip(solutions, values, strict=True)])
        best, count = min(best, float(values.min())), count + len(solutions)
        yield count, best


SOLVERS = {"lmma": lmma_run, "pycma": pycma_run, "CMAwM": cmawm_run, "CatCMAwM": catcmawm_run}


def once(solver: str, problem: Problem, seed: int) -> Record:
    budget, count, best = 2_500 * problem.n, 0, np.inf
    began = time.perf_counter()
    error = ""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            for count, best in SOLVERS[solver](problem, seed, budget):
                if best <= TARGET or count >= budget:
                    break
    except Exception as raised:  # a peer's trouble is its result
        error = f"{type(raised).__name__}: {raised}"[:200]
    return {"solver": solver, "function": problem.name, "n": problem.n, "seed": seed, "evaluations": count,
            "best": best, "solved": bool(best <= TARGET), "seconds": time.perf_counter() - began,
            "error": error}  # fmt: skip


def read(path: Path) -> list[Record]:
    with contextlib.suppress(FileNotFoundError):
        return [json.loads(line) for line in path.read_text().splitlines()]
    return []


def run(args: argparse.Namespace) -> None:
    done = {(r["solver"], r["function"], r["n"], r["seed"]) for r in read(args.file)}
    for seed in range(args.seeds):
        for n in args.n:
            for function in args.functions:
                for solver in args.solvers:
                    if (solver, function, n, seed) not in done:
                        record = once(solver, Problem(function, n), seed)
                        with args.file.open("a") as file:
                            file.write(json.dumps(record) + "\n")
                        print(*record.values(), flush=True)


def table(args: argparse.Namespace) -> None:
    """Print medians of evaluations of successful runs in thousands; successes of seeds before them."""
    records = list({(r["solver"], r["function"], r["n"], r["seed"]): r for r in read(args.file)}.values())
    solvers = [solver for solver in SOLVERS if any(r["solver"] == solver for r in records)]
    print("| function | n |", " | ".join(solvers), "|")
    print("|---|---:|" + "---:|" * len(solvers))
    for function in FUNCTIONS:
        for n in sorted({int(r["n"]) for r in records if r["function"] == function}):  # type: ignore[call-overload]
            cells = []
            for solver in solvers:
                runs = [r for r in records if (r["solver"], r["function"], r["n"]) == (solver, function, n)]
                solved = [float(r["evaluations"]) for r in runs if r["solved"]]  # type: ignore[arg-type]
                middle = f" {np.median(solved) / 1000:.1f}" if solved else ""
                cells.append(f"{len(solved)}/{len(runs)}{middle}" if runs else "")
            print(f"| {function} | {n} |", " | ".join(cells), "|")


def cost(args: argparse.Namespace) -> None:
    """Print how long a generation with integers takes beside one without, both in turn in one process."""
    import lmma
    from lmma.minimize import choose_method

    for n in args.n:
        for method in dict.fromkeys((choose_method(n), "d-lm-ma-es")):
            problem = Problem("EllipsoidInt", n)
            given = {"bounds": [tuple(pair) for pair in problem.bounds], "integrality": problem.integers}
            runs = {
                label: lmma.strategy(method, problem.start(1), 1.0, rng=1, **options)
                for label, options in (("without", {}), ("with integers", given))
            }
            times: dict[str, list[int]] = {label: [] for label in runs}
            for _ in range(args.turns):
                for label, es in runs.items():
                    began = time.process_time_ns()
                    for _ in range(5):
                        es.tell(problem(es.ask()))
                    times[label].append(time.process_time_ns() - began)
            without, mixed = (float(np.quantile(taken, 0.2)) for taken in times.values())
            print(f"{method} n={n}: {mixed / without:.2f} times a generation without integers", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("run", "table", "cost"))
    parser.add_argument("file", nargs="?", type=Path, default=Path("mixed_integer.jsonl"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--n", type=int, nargs="+", default=[20, 40, 60])
    parser.add_argument("--functions", nargs="+", choices=FUNCTIONS, default=FUNCTIONS)
    parser.add_argument("--solvers", nargs="+", choices=tuple(SOLVERS), default=tuple(SOLVERS))
    parser.add_argument("--turns", type=int, default=30)
    args = parser.parse_args()
    {"run": run, "table": table, "cost": cost}[args.what](args)


if __name__ == "__main__":
    main()
