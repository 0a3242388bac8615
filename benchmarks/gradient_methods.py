"""Comparison with SciPy's gradient methods with finite differences.

    python benchmarks/gradient_methods.py                       # n = 32, some minutes
    python benchmarks/gradient_methods.py --n 128 --method auto

Every call of the function is counted, those for differences too, up to the first value at or below the
target. Starts are uniform in [-5, 5]^n; all contenders set out from the same ones. The first table: eleven
functions to 1e-10, medians over seeds in thousands of calls, the number of runs that arrived in brackets if
not all did, or the value at which the median run ended. The second: two of them as simulators give them, to
1e-8.
"""

from __future__ import annotations

import argparse
import os

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.optimize import minimize

import lmma
from lmma import problems

PLAIN = ("sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers")
ROTATED = tuple(f"rotated-{name}" for name in PLAIN[1:])
SCIPY = {
    "L-BFGS-B, 2-point": {"method": "L-BFGS-B", "jac": "2-point"},
    "L-BFGS-B, 3-point": {"method": "L-BFGS-B", "jac": "3-point"},
    "BFGS, 2-point": {"method": "BFGS", "jac": "2-point"},
    "BFGS, 3-point": {"method": "BFGS", "jac": "3-point"},
}
DISTURBED = {
    "exact": lambda f, rng: f,
    "6 significant digits": lambda f, rng: float(f"{f:.6g}"),
    "f + 1e6": lambda f, rng: (f + 1e6) - 1e6,
    "float32": lambda f, rng: float(np.float32(f)),
    "f^(1/4)": lambda f, rng: f**0.25,
    "noise of 1e-6 f": lambda f, rng: f * (1 + 1e-6 * rng.standard_normal()),
}


class Reached(Exception):
    """Ends a run at its target or at its budget."""


class Counted:
    """A function that counts its calls and ends the run when there is no more to learn from it.

    The search is shown ``disturb``ed values; the target is that of the exact ones.
    """

    def __init__(self, problem, disturb, target: float, budget: int, seed: int) -> None:
        self.problem, self.disturb, self.target, self.budget = problem, disturb, target, budget
        self.rng = np.random.default_rng(seed)
        self.calls, self.best, self.arrived = 0, np.inf, 0

    def __call__(self, x: np.ndarray) -> float:
        value = float(self.problem(x))
        self.calls += 1
        self.best = min(self.best, value)
        if value <= self.target and not self.arrived:
            self.arrived = self.calls
        if self.arrived or self.calls >= self.budget:
            raise Reached
        return self.disturb(value, self.rng)


def once(contender: str, name: str, n: int, seed: int, how: str, target: float, budget: int) -> Counted:
    """Run one contender; return its counts."""
    problem = problems.get(name)
    fun = Counted(problem, DISTURBED[how], target, budget, seed)
    x0 = np.random.default_rng(seed).uniform(-5, 5, n)
    try:
        if contender in SCIPY:
            most = {"maxiter": 10**9}
            if "L-BFGS" in contender:
                most |= {"maxfun": 10**9, "ftol": 0, "gtol": 0}
            else:
                most |= {"gtol": 0}
            with np.errstate(all="ignore"):
                minimize(fun, x0, options=most, **SCIPY[contender])
        else:

            def rows(X: np.ndarray) -> list[float]:
                return [fun(x) for x in X]

            es = lmma.strategy(contender, x0, 3.0, rng=seed)
            while not es.stop():
                es.tell(rows(es.ask()))
    except Reached:
        pass
    return fun


def cell(runs: list[Counted]) -> str:
    """Return what a cell of a table says of some runs."""
    arrived = [run.arrived for run in runs if run.arrived]
    if not arrived:
        ended = sorted(run.best for run in runs)[len(runs) // 2]
        more = "> budget, " if all(run.calls >= run.budget for run in runs) else "ends at "
        return f"{more}{ended:.0e}"
    counted = f"{np.median(arrived) / 1000:.3g}"
    return counted if len(arrived) == len(runs) else f"{counted} ({len(arrived)}/{len(runs)})"


def table(rows: dict[str, list[str]], head: list[str]) -> str:
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    return "\n".join(lines + [f"| {' | '.join([name, *cells])} |" for name, cells in rows.items()])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=32)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--method", default="auto")
    parser.add_argument("--budget", type=int, default=200_000)
    args = parser.parse_args()
    contenders = [*SCIPY, args.method]
    seeds = range(101, 101 + args.seeds)
    exact: dict[str, list[str]] = {}
    for name in (*PLAIN, *ROTATED):
        exact[name] = [
            cell([once(who, name, args.n, seed, "exact", 1e-10, args.budget) for seed in seeds])
            for who in contenders
        ]
        print(name, exact[name], flush=True)
    disturbed: dict[str, list[str]] = {}
    for name in ("sphere", "rosenbrock"):
        for how in DISTURBED:
            disturbed[f"{name}, {how}"] = [
                cell([once(who, name, args.n, seed, how, 1e-8, args.budget) for seed in seeds])
                for who in contenders
            ]
            print(name, how, disturbed[f"{name}, {how}"], flush=True)
    shown = [f"`{who}`" if who == args.method else who for who in contenders]
    print("\n" + table(exact, [f"n = {args.n}, exact, to 1e-10", *shown]))
    print("\n" + table(disturbed, [f"n = {args.n}, to 1e-8", *shown]))


if __name__ == "__main__":
    main()
