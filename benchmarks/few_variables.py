"""COCO's suite bbob: share of targets met within budgets, by the default and by other packages.

    python benchmarks/few_variables.py run --dims 5,10 --methods auto,ranks,pycma --budget 1000
    python benchmarks/few_variables.py run --dims 5 --methods auto,pycma --box
    python benchmarks/few_variables.py table

51 targets from 1e2 to 1e-8; every method is run until the budget is used; start 0, sigma0 = 2;
in the box [-5, 5]^n lmma uses its default step. Finished runs are kept as lines of a file and not made again,
so the command continues where it was interrupted. Needs `pip install coco-experiment`, and `cma`, `nlopt`,
`Py-BOBYQA` or `fcmaes` for those. --instances are COCO's indices: 1 to 5 are instances 1 to 5, 6 to 15 are 71
to 80. Constants of pulse-full were chosen on the indices 1 to 6, of the default on 3 to 6.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import lmma

TARGETS = 10.0 ** np.linspace(2, -8, 51)
BUDGETS = (5, 10, 30, 100, 300, 1000, 2000, 3000, 10_000)  # times n
GROUPS = ((1, 5), (6, 9), (10, 14), (15, 19), (20, 24), (1, 24))
METHODS = (
    "auto", "ranks", "acma-es", "pycma", "slsqp-pycma", "bfgs", "newuoa", "cobyla", "cobyqa", "py-bobyqa",
    "de", "crfmnes", "pycma-bipop", "biteopt", "quasi-newton",
)  # fmt: skip
OURS = ("auto", "ranks", "acma-es", "quasi-newton")


class Done(BaseException):
    """The budget is used, or the last target reached."""


class Watched:
    """A function of COCO that records its best value at each budget."""

    def __init__(self, problem: Any, budget: int) -> None:
        self.problem, self.n, self.budget = problem, problem.dimension, budget * problem.dimension
        self.calls, self.best, self.solved_at, self.at = 0, math.inf, 0, {}
        problem._best_parameter("print")  # COCO's way to tell the optimum: a file in the current folder
        self.optimum = problem(np.loadtxt("._bbob_problem_best_parameter.txt"))

    def __call__(self, x: np.ndarray) -> float:
        value = float(self.problem(np.asarray(x, dtype=float)))
        value = value if value < 1e300 else 1e300
        self.calls += 1
        self.best = min(self.best, value)
        if not self.solved_at and self.best - self.optimum <= 1e-7:
            self.solved_at = self.calls
        if self.calls % self.n == 0 and self.calls // self.n in BUDGETS:
            self.at[self.calls // self.n] = self.best
        if self.calls >= self.budget or self.best - self.optimum <= TARGETS[-1]:
            raise Done
        return value

    def met(self) -> dict[str, int]:
        """Return the number of targets met within each budget."""
        return {
            str(k): int(np.sum(self.at.get(k, self.best) - self.optimum <= TARGETS))
            for k in BUDGETS
            if k * self.n <= self.budget
        }


def run(fun: Watched, method: str, box: bool, seed: int) -> None:
    """Run ``method`` again and again until the budget is used."""
    rng, first = np.random.default_rng(seed), True
    while True:
        x0 = np.zeros(fun.n) if first else rng.uniform(-4, 4, fun.n)
        if method in ("pycma", "pycma-bipop") or (method == "slsqp-pycma" and not first):
            import cma

            options = {"verbose": -9, "verb_log": 0, "seed": seed} | ({"bounds": [-5, 5]} if box else {})
            cma.fmin2(fun, np.zeros(fun.n), 2.0, options, restarts=9, bipop=method == "pycma-bipop")
        elif method in ("bfgs", "slsqp-pycma"):
            from scipy.optimize import minimize

            name = "SLSQP" if method == "slsqp-pycma" else "L-BFGS-B" if box else "BFGS"
            options = {"maxiter": 10**6} | ({} if name == "SLSQP" else {"gtol": 0})
            limits = [(-5, 5)] * fun.n if box else None
            minimize(fun, x0, method=name, bounds=limits, options=options, tol=1e-12)
        elif method == "newuoa":
            newuoa(fun, x0, box)
        elif method not in OURS:
            model_based_or_global(fun, method, x0, box, seed)
        else:
            chosen = {"values": "ranks"} if method == "ranks" else {}
            left = max(fun.budget - fun.calls, 4 * fun.n + 20)  # the default adapts to small budgets
            chosen |= {"bounds": [-5, 5]} if box else {"sigma0": 2.0}
            chosen["method"] = "auto" if method == "ranks" else method
            lmma.minimize(fun, np.zeros(fun.n), rng=seed, restarts=9, maxfevals=left, **chosen)
        seed, first = seed + 1000, False


def model_based_or_global(fun: Watched, method: str, x0: np.ndarray, box: bool, seed: int) -> None:
    """Minimise with a package whose methods are for small budgets or for boxes."""
    limits = [(-5, 5)] * fun.n
    if method in ("cobyla", "cobyqa"):
        from scipy.optimize import minimize

        radius = {"rhobeg": 2.0} if method == "cobyla" else {"initial_tr_radius": 2.0}
        minimize(fun, x0, method=method, bounds=limits if box else None, options=radius)
    elif method == "py-bobyqa":
        import pybobyqa

        bounds = (np.full(fun.n, -5.0), np.full(fun.n, 5.0)) if box else None
        quiet = {"do_logging": False, "print_progress": False}
        pybobyqa.solve(fun, x0, bounds=bounds, rhobeg=2.0, maxfun=10**6, **quiet)
    elif method == "de":
        from scipy.optimize import differential_evolution

        differential_evolution(fun, limits, seed=seed, polish=False, maxiter=10**6, tol=0)
    elif method == "biteopt":
        biteopt(fun, x0, seed)
    else:
        from fcmaes import crfmnes
        from scipy.optimize import Bounds

        bounds = Bounds([-5] * fun.n, [5] * fun.n) if box else None
        crfmnes.minimize(fun, bounds, x0, 2.0, max_evaluations=10**6,
                         rg=np.random.Generator(np.random.MT19937(seed)))  # fmt: skip


def biteopt(fun: Watched, x0: np.ndarray, seed: int) -> None:
    """Minimise with BiteOpt of fcmaes, which needs a box and cannot be interrupted."""
    from fcmaes import bitecpp
    from scipy.optimize import Bounds

    ended = []

    def one(x: np.ndarray) -> float:
        if not ended:
            try:
                return fun(x)
            except Done:
                ended.append(True)
        return math.inf

    bitecpp.minimize(one, Bounds([-5] * fun.n, [5] * fun.n), x0, max_evaluations=fun.budget - fun.calls,
                     rg=np.random.Generator(np.random.MT19937(seed)))  # fmt: skip
    if ended:
        raise Done


def newuoa(fun: Watched, x0: np.ndarray, box: bool) -> None:
    """Minimise with NLopt's NEWUOA, or BOBYQA in a box."""
    import nlopt

    search, ended = nlopt.opt(nlopt.LN_BOBYQA if box else nlopt.LN_NEWUOA, fun.n), []

    def one(x: np.ndarray, _: np.ndarray) -> float:
        try:
            return fun(x)
        except Done:
            ended.append(True)
            raise nlopt.ForcedStop from None

    search.set_min_objective(one)
    search.set_initial_step(2.0)
    search.set_xtol_abs(1e-10)
    search.set_maxeval(10**7)
    if box:
        search.set_lower_bounds(-5.0)
        search.set_upper_bounds(5.0)
    with contextlib.suppress(nlopt.ForcedStop, nlopt.RoundoffLimited, RuntimeError, ValueError, SystemError):
        search.optimize(x0)
    if ended:
        raise Done


def make_runs(given: argparse.Namespace) -> None:
    import cocoex

    kept = [json.loads(line) for line in given.out.read_text().splitlines()] if given.out.exists() else []
    done = {(r["n"], r["box"], r["method"], r["function"], r["instance"]) for r in kept
            if r["budget"] >= given.budget}  # fmt: skip
    with open(given.out, "a", encoding="utf-8") as file, tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        for n in map(int, given.dims.split(",")):
            for method in given.methods.split(","):
                suite = f"dimensions:{n} instance_indices:{given.instances}"
                for problem in cocoex.Suite("bbob", "", suite):
                    key = (n, given.box, method, problem.id_function, problem.id_instance)
                    if key in done:
                        continue
                    fun = Watched(problem, given.budget)
                    with contextlib.suppress(Done):
                        run(fun, method, given.box, problem.id_instance + 100 * problem.id_function)
                    names = ("n", "box", "method", "function", "instance")
                    row = dict(zip(names, key, strict=True)) | {"budget": given.budget, "met": fun.met()}
                    file.write(json.dumps(row | {"to 1e-7": fun.solved_at or None}) + "\n")
                    file.flush()
                print(n, method, "box" if given.box else "", "done", file=sys.stderr, flush=True)


def print_table(given: argparse.Namespace) -> None:
    """Print the shares of targets, by groups of functions."""
    rows = [json.loads(line) for line in given.out.read_text().splitlines()]
    budgets = [str(k) for k in map(int, given.at.split(","))]
    print("| n | box | method | runs | " + " | ".join(f"f{a}-{b}" for a, b in GROUPS) + " |")
    print("|---|---|---|---|" + "---|" * len(GROUPS))
    for n, box, method in sorted({(r["n"], r["box"], METHODS.index(r["method"])) for r in rows}):
        own = {(r["function"], r["instance"]): r["met"] for r in rows
               if (r["n"], r["box"], r["method"]) == (n, box, METHODS[method])}  # fmt: skip
        cells = []
        for first, last in GROUPS:
            some = [met for (function, _), met in own.items() if first <= function <= last]
            shares = [
                np.mean([met[k] for met in some if k in met] or [math.nan]) / len(TARGETS) for k in budgets
            ]
            cells.append(" / ".join("-" if math.isnan(share) else f"{share:.2f}" for share in shares))
        name = f"`{METHODS[method]}`" if METHODS[method] in OURS else METHODS[method]
        print(f"| {n} | {'yes' if box else 'no'} | {name} | {len(own)} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("--dims", default="2,3,5,10")
    parser.add_argument("--instances", default="7-9")
    parser.add_argument("--budget", type=int, default=1000, help="evaluations, times n")
    parser.add_argument("--methods", default="auto")
    parser.add_argument("--box", action="store_true")
    parser.add_argument("--at", default="100,300,1000", help="budgets of the table, times n")
    parser.add_argument("--out", type=Path, default=Path("lab/results/portfolio/bbob.jsonl"))
    given = parser.parse_args()
    given.out = given.out.resolve()
    np.seterr(all="ignore")
    (make_runs if given.action == "run" else print_table)(given)


if __name__ == "__main__":
    main()
