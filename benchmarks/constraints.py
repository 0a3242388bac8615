"""Constrained problems: evaluations to the optimum, compared with pycma and SciPy's constrained solvers.

    python benchmarks/constraints.py                 # needs cma and scipy; some minutes
    python benchmarks/constraints.py --seeds 9 --problems hs100 hs113

An evaluation is one call of a simulation that gives the value and all constraints. A problem is solved by the
first point that violates no constraint by more than 1e-8 and whose value is within 1e-6 of the optimum,
relative where the optimum is larger than 1. Cells are medians over seeds; a number in brackets counts the
runs that solved it if not all did. COBYQA draws nothing: it runs once. Bounds are bounds for everybody.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import lmma

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from constrained_problems import PROBLEMS, Constrained, large

CLOSE, FEASIBLE = 1e-6, 1e-8
FIRST = 101  # seed: coefficients were chosen on 1 to 5


class Solved(Exception):
    """The simulation has seen a point that is good enough, or one too many."""


class Simulation:
    """Counts calls until a point is good enough."""

    def __init__(self, problem: Constrained, budget: int) -> None:
        self.problem, self.budget = problem, budget
        self.calls = 0
        self.last: tuple[Any, float, Any] | None = None
        self.solved = False

    def __call__(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Return (f, g); of the same point twice in a row only the first call counts."""
        if self.last is not None and np.array_equal(self.last[0], x):
            return self.last[1:]
        f, g = self.problem.one(x)
        self.calls += 1
        self.last = (np.array(x), f, g)
        near = CLOSE * max(1, abs(self.problem.optimum))
        self.solved = self._inside(x) and g.max() <= FEASIBLE and f <= self.problem.optimum + near
        if self.solved or self.calls >= self.budget:
            raise Solved
        return f, g

    def _inside(self, x: np.ndarray) -> bool:
        low, high = sides(self.problem)
        return bool(np.all(x >= low - FEASIBLE) and np.all(x <= high + FEASIBLE))


def sides(problem: Constrained) -> tuple[np.ndarray, np.ndarray]:
    pairs = problem.bounds or [(None, None)] * len(problem.x0)
    return (
        np.array([-np.inf if low is None else low for low, _ in pairs]),
        np.array([np.inf if high is None else high for _, high in pairs]),
    )


def ours(simulation: Simulation, seed: int, **options: Any) -> None:
    p = simulation.problem
    lmma.minimize(
        simulation, p.x0, p.sigma0, bounds=p.bounds, rng=seed, tolx=0, tolfun=0, stagnation=False,
        on_error="raise", constraints=lmma.constraints.Returned(), **options,
    )  # fmt: skip


def by_rank(simulation: Simulation, seed: int) -> None:
    ours(simulation, seed, constraint_handling="rank")


def pycma(simulation: Simulation, seed: int) -> None:
    import cma

    p = simulation.problem
    low, high = sides(p)
    options: dict[str, Any] = {
        "seed": seed,
        "verbose": -9,
        "maxfevals": simulation.budget,
        "tolfun": 0,
        "tolx": 0,
    }
    if p.bounds:
        options["bounds"] = [low.tolist(), high.tolist()]
    cma.fmin_con2(
        lambda x: simulation(np.asarray(x))[0], p.x0, p.sigma0,
        constraints=lambda x: list(simulation(np.asarray(x))[1]), options=options,
    )  # fmt: skip


def cobyqa(simulation: Simulation, seed: int) -> None:
    from scipy.optimize import Bounds, NonlinearConstraint, minimize

    p = simulation.problem
    minimize(
        lambda x: simulation(x)[0], p.x0, method="COBYQA",
        bounds=Bounds(*sides(p)) if p.bounds else None,
        constraints=NonlinearConstraint(lambda x: simulation(x)[1], -np.inf, 0),
        options={"maxfev": simulation.budget, "initial_tr_radius": p.sigma0, "final_tr_radius": 1e-9},
    )  # fmt: skip


SOLVERS: dict[str, Callable[[Simulation, int], None]] = {
    "lmma": ours, "lmma, ranks": by_rank, "pycma": pycma, "COBYQA": cobyqa,
}  # fmt: skip


def cell(problem: Constrained, solver: str, seeds: int, budget: int) -> str:
    calls = []
    runs = 1 if solver == "COBYQA" else seeds
    for seed in range(FIRST, FIRST + runs):
        simulation = Simulation(problem, budget)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(Solved):
                SOLVERS[solver](simulation, seed)
        calls.append(simulation.calls if simulation.solved else np.inf)
    solved = sum(np.isfinite(calls))
    median = float(np.median(calls))
    text = f"{median:,.0f}" if np.isfinite(median) else "-"
    return text if solved == runs else f"{text} ({solved} of {runs})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--budget", type=int, default=20_000)
    parser.add_argument("--problems", nargs="*", default=[*PROBLEMS, "large 20", "large 40"])
    parser.add_argument("--solvers", nargs="*", default=list(SOLVERS))
    args = parser.parse_args()
    print("| problem | n | constraints |", " | ".join(args.solvers), "|", flush=True)
    print("|---" * (3 + len(args.solvers)) + "|", flush=True)
    for name in args.problems:
        problem = PROBLEMS[name] if name in PROBLEMS else large(int(name.split()[1]))[0]
        count = len(problem.one(problem.x0)[1])
        cells = [cell(problem, solver, args.seeds, args.budget) for solver in args.solvers]
        print(f"| {name} | {len(problem.x0)} | {count} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
