"""Few variables: share of COCO's targets met within small budgets, with and without a box.

    python benchmarks/few_variables.py --dims 2,3,5,10 --instances 7-9 --method auto
    python benchmarks/few_variables.py --dims 5 --instances 7-9 --method pycma --box

Functions of the suite bbob, 51 targets from 1e2 to 1e-8, one run with nine restarts (and further runs until
the budget is used), start 0, sigma0 = 2; in the box [-5, 5]^n lmma uses its default step. Needs
`pip install coco-experiment`, and `cma` for pycma. Constants were chosen on instances 1 to 6.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from typing import Any

import numpy as np

import lmma

TARGETS = 10.0 ** np.linspace(2, -8, 51)
BUDGETS = (100, 300, 1000, 3000, 10_000)  # times n
GROUPS = ((1, 5), (6, 9), (10, 14), (15, 19), (20, 24), (1, 24))


class Done(BaseException):
    """The budget is used, or the last target reached."""


class Watched:
    """A function of COCO that records its best value at each budget."""

    def __init__(self, problem: Any, budget: int) -> None:
        self.problem, self.n, self.budget = problem, problem.dimension, budget * problem.dimension
        self.calls, self.best, self.at = 0, math.inf, {}
        problem._best_parameter("print")  # COCO's way to tell the optimum: a file in the current folder
        self.optimum = problem(np.loadtxt("._bbob_problem_best_parameter.txt"))

    def __call__(self, x: np.ndarray) -> float:
        value = float(self.problem(x))
        self.calls += 1
        self.best = min(self.best, value)
        if self.calls % self.n == 0:
            self.at[self.calls // self.n] = self.best
        if self.calls >= self.budget or self.best - self.optimum <= TARGETS[-1]:
            raise Done
        return value

    def shares(self, budgets: list[int]) -> list[float]:
        """Return the share of targets met within each budget."""
        return [float(np.mean(self.at.get(k, self.best) - self.optimum <= TARGETS)) for k in budgets]


def run(fun: Watched, method: str, box: bool, seed: int) -> None:
    """Run ``method`` again and again until the budget is used."""
    while True:
        if method == "pycma":
            import cma

            options = {"verbose": -9, "verb_log": 0, "seed": seed} | ({"bounds": [-5, 5]} if box else {})
            cma.fmin2(fun, np.zeros(fun.n), 2.0, options, restarts=9)
        else:
            bounds = [-5, 5] if box else None
            lmma.minimize(fun, np.zeros(fun.n), 2.0, method=method, bounds=bounds, rng=seed, restarts=9)
        seed += 1000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dims", default="2,3,5,10")
    parser.add_argument("--instances", default="7-9")
    parser.add_argument("--budget", type=int, default=1000, help="evaluations, times n")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--box", action="store_true")
    arguments = parser.parse_args()
    import cocoex

    budgets = [k for k in BUDGETS if k <= arguments.budget]
    print("| n | method | " + " | ".join(f"f{a}-{b}" for a, b in GROUPS) + " |")
    print("|---|---|" + "---|" * len(GROUPS))
    for n in map(int, arguments.dims.split(",")):
        found: dict[int, list[list[float]]] = {}
        suite = f"dimensions:{n} instance_indices:{arguments.instances}"
        for problem in cocoex.Suite("bbob", "", suite):
            fun = Watched(problem, arguments.budget)
            try:
                run(fun, arguments.method, arguments.box, problem.id_instance + 100 * problem.id_function)
            except Done:
                found.setdefault(problem.id_function, []).append(fun.shares(budgets))
        cells = []
        for first, last in GROUPS:
            rows = [row for number, each in found.items() if first <= number <= last for row in each]
            cells.append(" / ".join(f"{share:.2f}" for share in np.mean(rows, axis=0)))
        print(f"| {n} | {arguments.method} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        main()
