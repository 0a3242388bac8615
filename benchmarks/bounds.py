"""Compare the boundary treatments: evaluations to the target, by position of the optimum.

    python benchmarks/bounds.py                    # n = 100, a few minutes
    python benchmarks/bounds.py --n 1000           # LM-MA-ES alone
    python benchmarks/bounds.py --n 10 --methods auto

The box is [-1, 3]^n. ``touching``: the optimum of the unbounded function lies on the faces. ``pressing``:
it lies 1 beyond them, and fun falls towards the face. ``half open``: every other coordinate has no upper
bound.
Cells are medians over seeds of evaluations to fun - optimum <= 1e-8, in thousands; a number in brackets
counts the runs that reached it if not all did.
"""

from __future__ import annotations

import argparse

import numpy as np

import lmma
from lmma.layers.bounds import BOXES

WAYS = [way for way in BOXES if way != "wrap"]  # which is for periodic variables
TARGET = 1e-8
LOW, HIGH = -1.0, 3.0


def weights(name: str, n: int) -> np.ndarray:
    return np.ones(n) if name == "sphere" else 10.0 ** (2 * np.arange(n) / (n - 1))


def positions(n: int) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return for each case the unbounded optimum and the upper bounds."""
    rng = np.random.default_rng(5)
    inside = rng.uniform(LOW + 0.5, HIGH - 0.5, n)
    some = rng.random(n) < 0.1
    high = np.full(n, HIGH)
    half = np.where(np.arange(n) % 2, np.inf, HIGH)
    return {
        "inside": (inside, high),
        "face, touching": (np.where(some, LOW, inside), high),
        "face, pressing": (np.where(some, LOW - 1, inside), high),
        "corner, touching": (np.full(n, LOW), high),
        "corner, pressing": (np.full(n, LOW - 1), high),
        "half open, pressing": (np.where(some, LOW - 1, inside), half),
    }


def once(name: str, method: str, case: str, way: str, n: int, seed: int, budget: int) -> int | None:
    optimum, high = positions(n)[case]
    scale = weights(name, n)
    low = np.full(n, LOW)
    outside = 0

    def fun(X: np.ndarray) -> np.ndarray:
        nonlocal outside
        outside += int(np.count_nonzero(np.clip(X, low, high) != X))
        # The part that cannot be lowered is left out before squares are summed: no cancellation at 1e-8
        there = np.clip(optimum, low, high)
        return np.square(X - there) @ scale + 2 * ((X - there) * (there - optimum)) @ scale

    x0 = np.random.default_rng(seed).uniform(LOW, HIGH, n)
    result = lmma.minimize(
        fun, x0, 1.0, method=method, bounds=(low, high), boundary=way, vectorized=True, rng=seed,
        ftarget=TARGET, maxfevals=budget, tolx=0, tolfun=0, stagnation=False,
    )  # fmt: skip
    if outside:
        raise AssertionError(f"{outside} coordinates outside the box")
    return result.nfev if result.success else None


def cell(found: list[int | None]) -> str:
    reached = [count for count in found if count is not None]
    if not reached:
        return "-"
    text = f"{np.median(reached) / 1000:.1f}"
    return text if len(reached) == len(found) else f"{text} ({len(reached)}/{len(found)})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--budget", type=int, default=1_000_000)
    parser.add_argument("--problems", nargs="+", default=["sphere", "ellipsoid"])
    parser.add_argument("--methods", nargs="+", help="default: ma-es up to n = 200, and lm-ma-es")
    arguments = parser.parse_args()
    n, seeds = arguments.n, range(arguments.seeds)
    methods = arguments.methods or (["ma-es", "lm-ma-es"] if n <= 200 else ["lm-ma-es"])
    print(f"n = {n}; thousands of evaluations to {TARGET:g}; ellipsoid of condition 100\n")
    print("| problem | method | optimum | " + " | ".join(WAYS) + " |")
    print("|---|---|---|" + "---|" * len(WAYS))
    for name in arguments.problems:
        for method in methods:
            for case in positions(n):
                cells = [
                    cell([once(name, method, case, way, n, k, arguments.budget) for k in seeds])
                    for way in WAYS
                ]
                print(f"| {name} | {method} | {case} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
