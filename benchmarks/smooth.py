"""Smooth functions, exact and disturbed: evaluations of the default and of other methods to a target.

    python benchmarks/smooth.py --n 128 --seeds 401-405
    python benchmarks/smooth.py --n 16,64 --seeds 401-403 --target 1e-8 --how 6-digits,4-digits,float32 \
        --functions sphere,ellipsoid,rosenbrock --methods auto,ranks
    python benchmarks/smooth.py --gate --n 5,10,20,40

Starts are uniform in [-5, 5]^n, sigma0 = 3. Evaluations count until the exact value, not the disturbed one,
meets the target. Entries are medians in thousands, with the number of runs that met it if not all did.
Constants were chosen on seeds 1 to 8. ``--gate`` prints what the default begins with on each function.
"""

from __future__ import annotations

import argparse
import contextlib
import math
from collections.abc import Callable

import numpy as np

import lmma
from lmma import problems

Values = np.ndarray
PLAIN = ("sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers")
ELEVEN = (*PLAIN, *(f"rotated-{name}" for name in PLAIN[1:]))


def wood(X: Values) -> Values:
    """Wood's function, summed over blocks of four variables."""
    a, b, c, d = (X[:, i::4] for i in range(4))
    curved = 100 * (b - a * a) ** 2 + (1 - a) ** 2 + 90 * (d - c * c) ** 2 + (1 - c) ** 2
    return (curved + 10.1 * ((b - 1) ** 2 + (d - 1) ** 2) + 19.8 * (b - 1) * (d - 1)).sum(1)


def powell(X: Values) -> Values:
    """Powell's extended singular function."""
    a, b, c, d = (X[:, i::4] for i in range(4))
    return ((a + 10 * b) ** 2 + 5 * (c - d) ** 2 + (b - 2 * c) ** 4 + 10 * (a - d) ** 4).sum(1)


def sum_of_powers(X: Values) -> Values:
    """A sum of |x|^1.2, with a kink at the optimum."""
    return (np.abs(X) ** 1.2).sum(1)


def largest(X: Values) -> Values:
    """The maximum norm, with kinks everywhere."""
    return np.abs(X).max(1)


MORE: dict[str, Callable[[Values], Values]] = {
    "wood": wood, "powell": powell, "sum-of-powers": sum_of_powers, "maximum": largest,
    "sum": lambda X: np.abs(X).sum(1), "steps": lambda X: np.floor(np.abs(X) * 10).sum(1),
}  # fmt: skip


def printed(digits: int) -> Callable[..., Values]:
    """Return a disturbance that rounds values to ``digits`` significant decimal digits."""
    return lambda values, _: np.array([float(f"{value:.{digits - 1}e}") for value in values])


DISTURBANCES: dict[str, Callable[[Values, np.random.Generator], Values]] = {
    "exact": lambda values, _: values,
    "6-digits": printed(6),
    "4-digits": printed(4),
    "float32": lambda values, _: values.astype(np.float32).astype(float),
    "offset": lambda values, _: values + 1e6,
    "noise": lambda values, rng: values * (1 + 1e-6 * rng.standard_normal(len(values))),
    "root": lambda values, _: values**0.25,
    "failures": lambda values, rng: np.where(rng.random(len(values)) < 0.05, math.nan, values),
}


class Done(BaseException):
    """The target is reached, or the budget used."""


class Counted:
    """A disturbed function that counts evaluations until its exact value meets the target."""

    def __init__(self, name: str, how: str, seed: int, target: float, budget: int) -> None:
        self.function = MORE[name] if name in MORE else problems.get(name).function
        self.disturb, self.rng = DISTURBANCES[how], np.random.default_rng(seed + 77777)
        self.target, self.budget, self.calls, self.reached, self.best = target, budget, 0, 0, math.inf

    def __call__(self, X: Values) -> Values:
        exact = np.asarray(self.function(X), dtype=float)
        met = np.flatnonzero(exact <= self.target)
        if len(met):
            self.reached = self.calls + int(met[0]) + 1
            raise Done
        self.calls += len(X)
        self.best = min(self.best, float(exact.min()))
        if self.calls >= self.budget:
            raise Done
        with np.errstate(over="ignore"):
            return self.disturb(exact, self.rng)


def newuoa(fun: Counted, x0: Values) -> None:
    """Minimise with NLopt's NEWUOA, whose initial trust region has radius 1."""
    import nlopt

    search, ended = nlopt.opt(nlopt.LN_NEWUOA, len(x0)), []

    def one(x: Values, _: Values) -> float:
        try:
            return float(fun(x[None])[0])
        except Done:
            ended.append(True)
            raise nlopt.ForcedStop from None

    search.set_min_objective(one)
    search.set_initial_step(1.0)
    search.set_maxeval(10**7)
    with contextlib.suppress(nlopt.ForcedStop, nlopt.RoundoffLimited, RuntimeError):
        search.optimize(x0)


def solve(name: str, how: str, n: int, method: str, seed: int, target: float, per_variable: int) -> Counted:
    """Run ``method`` once, with restarts if it is one of ours."""
    fun = Counted(name, how, seed, target, per_variable * n)
    x0 = np.random.default_rng(seed).uniform(-5, 5, n)
    try:
        if method == "newuoa":
            newuoa(fun, x0)
        else:
            chosen = {"values": "ranks"} if method == "ranks" else {}
            lmma.minimize(fun, x0, 3.0, method="auto" if method == "ranks" else method, vectorized=True,
                          rng=seed, restarts=9, **chosen)  # fmt: skip
    except Done:
        pass
    return fun


def cell(runs: list[Counted]) -> str:
    """Return the median of the runs that met the target, or the best value."""
    met = [run.reached for run in runs if run.reached]
    if not met:
        return f"({np.median([run.best for run in runs]):.0e})"
    share = "" if len(met) == len(runs) else f" ({len(met)}/{len(runs)})"
    return f"{np.median(met) / 1000:.3g}{share}"


def begins_with(name: str, how: str, n: int, seed: int) -> str:
    """Return the search that the gate of the default lets begin."""
    fun = Counted(name, how, seed, -math.inf, 10**9)
    es = lmma.strategy("portfolio", np.random.default_rng(seed).uniform(-5, 5, n), 3.0, rng=seed)
    while es.turns[-1][1] == "look":
        es.tell(fun(es.ask()))
    return es.turns[-1][1]


def print_gate(dims: list[int], seeds: list[int]) -> None:
    print("| function | " + " | ".join(f"n = {n}" for n in dims) + " |")
    print("|---|" + "---|" * len(dims))
    for name in (*ELEVEN, "rastrigin", "rotated-rastrigin", *MORE):
        for how in DISTURBANCES:
            shares = []
            for n in dims:
                began = [
                    begins_with(name, how, n, seed)
                    for seed in seeds
                    if n % 4 == 0 or name not in ("wood", "powell")
                ]
                shares.append(f"{began.count('quasi-newton')} of {len(began)}")
            print(f"| {name}, {how} | " + " | ".join(shares) + " |", flush=True)


def numbers(text: str) -> list[int]:
    """Return the numbers in a list such as "1,2" or a range such as "401-405"."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last) + 1)) if last else [int(each) for each in text.split(",")]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=numbers, default=[128])
    parser.add_argument("--seeds", type=numbers, default=list(range(401, 406)))
    parser.add_argument("--target", type=float, default=1e-10)
    parser.add_argument("--how", default="exact")
    parser.add_argument("--functions", default=",".join(ELEVEN))
    parser.add_argument("--methods", default="auto")
    parser.add_argument("--budget", type=int, default=4000, help="evaluations per variable")
    parser.add_argument("--gate", action="store_true", help="print what the default begins with")
    given = parser.parse_args()
    if given.gate:
        print_gate(given.n, given.seeds)
        return
    functions = given.functions.split(",")
    print("| n | values | method | " + " | ".join(functions) + " |")
    print("|---|---|---|" + "---|" * len(functions))
    for n in given.n:
        for how in given.how.split(","):
            for method in given.methods.split(","):
                cells = [
                    cell([solve(name, how, n, method, s, given.target, given.budget) for s in given.seeds])
                    for name in functions
                ]
                print(f"| {n} | {how} | {method} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
