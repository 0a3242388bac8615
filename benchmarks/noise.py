"""Noisy functions: lmma with and without noise handling, pycma with its handler, cmaes with adapted rates.

    pip install 'lmma-lab[bench]' scikit-learn
    python benchmarks/noise.py --out noise.json                       # sphere and ellipsoids, a few minutes
    python benchmarks/noise.py --out noise.json --dimensions 20 100 --seeds 3 --budget 10000
    python benchmarks/noise.py --out noise.json --dimensions 100 --cells 'sphere +' --only 'pulse, auto'
    python benchmarks/noise.py --out noise.json --budget 10000 --table  # nothing is run
    python benchmarks/noise.py --out noise.json --digits              # a network trained with mini-batches

What counts is the function without its noise at the point each package returns, after the same number of
evaluations: `result.x` of ours; pycma's `xfavorite`, the mean it recommends under noise; the mean of cmaes.
Results that the file holds already are not computed again.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import lmma
from lmma_lab.report.tables import markdown_table

Array = npt.NDArray[np.float64]

FUNCTIONS = {"sphere": 1.0, "ellipsoid 1e2": 1e2, "ellipsoid 1e4": 1e4}  # their conditions
NOISES = {
    "+ N(0, 0.01)": (0.01, 0.0), "+ N(0, 1)": (1.0, 0.0), "+ N(0, 100)": (100.0, 0.0),
    "(1 + 0.3 N)": (0.0, 0.3),
}  # fmt: skip
OWN = (14, 33)  # dimensions of pycma's own scenarios
SIGMA0 = 3.0
TIE = 2.0  # a factor that means little
SOLVED = 1e-9  # below, who is lower means nothing
FIRST = 101  # seed: constants were chosen on 1 to 5


class Noisy:
    """An ellipsoid whose values are disturbed: additively, in proportion, or both."""

    def __init__(self, n: int, condition: float, add: float, times: float, seed: int) -> None:
        self.axes = np.logspace(0, math.log10(condition), n) if condition > 1 else np.ones(n)
        self.add, self.times = add, times
        self.rng = np.random.default_rng(seed)
        self.offset = 0.0  # pycma's noisysphere adds so much, uniformly

    def true(self, x: Array) -> float:
        """Return the value without noise."""
        return float(np.square(x) @ self.axes)

    def rows(self, X: Array) -> Array:
        """Return the values of all rows with noise."""
        noise = self.rng.standard_normal((len(X), 2))
        values = np.square(X) @ self.axes * (1 + self.times * noise[:, 0]) + self.add * noise[:, 1]
        return values + self.offset * self.rng.random(len(X)) if self.offset else values

    def __call__(self, x: Array) -> float:
        """Return the value with noise."""
        return float(self.rows(np.asarray(x)[np.newaxis])[0])


def ours(method: str, noise: str | None) -> Callable[..., Array]:
    """Return a solver: ``minimize`` as a user calls it."""

    def solve(fun: Noisy, x0: Array, budget: int, seed: int) -> Array:
        found = lmma.minimize(
            fun.rows, x0, SIGMA0, method=method, noise=noise, maxfevals=budget, rng=seed, vectorized=True
        )
        return np.asarray(found.x)

    return solve


def pycma(fun: Noisy, x0: Array, budget: int, seed: int) -> Array:
    """Solve by fmin2 with pycma's noise handler."""
    import cma

    options = {"maxfevals": budget, "seed": seed + 1, "verbose": -9}
    handler = cma.NoiseHandler(len(x0), maxevals=[1, 1, 30])
    return np.asarray(cma.fmin2(fun, x0, SIGMA0, options, noise_handler=handler)[1].result.xfavorite)


def cmaes_lra(fun: Noisy, x0: Array, budget: int, seed: int) -> Array:
    """Solve by cmaes with adapted learning rates."""
    from cmaes import CMA

    es = CMA(mean=x0.copy(), sigma=SIGMA0, seed=seed, lr_adapt=True)
    for _ in range(budget // es.population_size):
        points = [es.ask() for _ in range(es.population_size)]
        es.tell([(x, fun(x)) for x in points])
    return np.asarray(es.mean)


SOLVERS: dict[str, Callable[..., Array]] = {
    "lm-ma-es, auto": ours("lm-ma-es", "auto"),
    "lm-ma-es, None": ours("lm-ma-es", None),
    "pulse-full, auto": ours("pulse-full", "auto"),
    "pulse-full, None": ours("pulse-full", None),
    "pulse, auto": ours("pulse", "auto"),
    "pulse, None": ours("pulse", None),
    "pycma, handler": pycma,
    "cmaes, lr_adapt": cmaes_lra,
}


def cells(dimensions: list[int], named: list[str]) -> dict[str, tuple[int, float, float, float, float]]:
    """Return what is solved: n, condition, additive and proportional noise, uniform offset.

    ``named`` are words of which each name has one; none of them means all.
    """
    found = {
        f"{name} {noise}, n = {n}": (n, condition, add, times, 0.0)
        for n in dimensions
        if n not in OWN
        for name, condition in FUNCTIONS.items()
        for noise, (add, times) in NOISES.items()
    }
    # pycma's own: noisysphere is elli(x, cond) (1 + noise N/n) + 0.1 U
    own = {
        "pycma's noisysphere, cond 1e4, noise 1, n = 33": (33, 1e4, 0.0, 1 / 33, 0.1),
        "pycma's noisysphere, noise 8.1, n = 14": (14, 1.0, 0.0, 8.1 / 14, 0.1),
    }
    found |= {name: cell for name, cell in own.items() if cell[0] in dimensions}
    return {name: cell for name, cell in found.items() if not named or any(word in name for word in named)}


def measure(args: argparse.Namespace, kept: dict[str, Any]) -> None:
    """Fill in what is missing, and write after each run."""
    for cell, (n, condition, add, times, offset) in cells(args.dimensions, args.cells).items():
        for name in args.only:
            for seed in range(FIRST, FIRST + args.seeds):
                key = f"{cell} | {name} | {args.budget} | {seed}"
                if key in kept:
                    continue
                fun = Noisy(n, condition, add, times, seed)
                fun.offset = offset
                x0 = np.random.default_rng(1000 + seed).uniform(-5, 5, n)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    kept[key] = fun.true(SOLVERS[name](fun, x0, args.budget * n, seed))
                args.out.write_text(json.dumps(kept, indent=1))


def medians(args: argparse.Namespace, kept: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Return the values of all seeds, by cell and solver."""
    rows: dict[str, dict[str, list[float]]] = {cell: {} for cell in cells(args.dimensions, args.cells)}
    for key, value in kept.items():
        cell, _, rest = key.partition(" | ")
        if cell in rows and f" | {args.budget} | " in key:
            rows[cell].setdefault(rest.split(" | ")[0], []).append(value)
    return {cell: found for cell, found in rows.items() if found}


def table(rows: dict[str, dict[str, list[float]]]) -> str:
    """Return medians over seeds as Markdown; with the number of seeds where others have more."""
    most = max(len(values) for found in rows.values() for values in found.values())
    there = [name for name in SOLVERS if any(name in found for found in rows.values())]

    def shown(values: list[float]) -> str:
        seeds = f" ({len(values)})" if values and len(values) < most else ""
        return f"{np.median(values):.2g}{seeds}" if values else ""

    body = [[cell, *(shown(found.get(name, [])) for name in there)] for cell, found in rows.items()]
    return markdown_table([["function and noise", *there], *body])


def verdict(rows: dict[str, dict[str, list[float]]]) -> str:
    """Return where ours leads, ties and loses: each of ours with "auto" against the best of the others."""
    lines = []
    for name in (solver for solver in SOLVERS if solver.endswith("auto")):
        told: dict[str, list[str]] = {"leads": [], "ties": [], "loses": []}
        for cell, found in rows.items():
            others = [
                np.median(found[other]) for other in SOLVERS if not other.endswith("auto") and other in found
            ]
            if name in found and others:
                ratio = max(float(np.median(found[name])), SOLVED) / max(float(min(others)), SOLVED)
                how = "leads" if ratio < 1 / TIE else "ties" if ratio <= TIE else "loses"
                told[how].append(f"{cell} ({ratio:.2g})")
        lines += [f"{name} {how} {len(where)}: " + "; ".join(where) for how, where in told.items() if where]
    return "\n".join(lines)


# A network of 9,610 weights, trained on scikit-learn's digits with mini-batches

HIDDEN, BATCH = 128, 128
WEIGHTS = 64 * HIDDEN + HIDDEN + HIDDEN * 10 + 10


def cross_entropy(w: Array, images: Array, labels: npt.NDArray[np.intp]) -> float:
    """Return the loss of a network 64-128-10 with tanh."""
    a, b = 64 * HIDDEN, 64 * HIDDEN + HIDDEN
    hidden = np.tanh(images @ w[:a].reshape(64, HIDDEN) + w[a:b])
    out = hidden @ w[b:-10].reshape(HIDDEN, 10) + w[-10:]
    out -= out.max(axis=1, keepdims=True)
    return float(np.mean(np.log(np.exp(out).sum(axis=1)) - out[np.arange(len(labels)), labels]))


def digits(args: argparse.Namespace, kept: dict[str, Any]) -> None:
    """Train with fresh batches in each call, and with one batch a generation; keep the loss on all images."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    chosen = np.random.default_rng(0).permutation(len(labels))[:1437]
    images, labels = images[chosen] / 16.0, labels[chosen]

    def batch_loss(w: Array, rng: np.random.Generator) -> float:
        some = rng.integers(0, len(labels), BATCH)
        return cross_entropy(w, images[some], labels[some])

    def common(w: Array, seed: int) -> float:
        return batch_loss(w, np.random.default_rng(seed))

    kinds = ("fresh batches, auto", "common batches, auto", "fresh batches, None")
    for label, seed in product(kinds, range(FIRST, FIRST + args.seeds)):
        rng = np.random.default_rng(100 + seed)
        begin = np.random.default_rng(seed)
        start = np.zeros(WEIGHTS)
        start[: 64 * HIDDEN] = begin.standard_normal(64 * HIDDEN) / 8
        start[65 * HIDDEN : -10] = begin.standard_normal(HIDDEN * 10) / math.sqrt(HIDDEN)

        def fresh(w: Array, rng: np.random.Generator = rng) -> float:
            return batch_loss(w, rng)

        fun = common if label.startswith("common") else fresh
        noise = None if label.endswith("None") else "auto"
        key = f"digits | {label} | {seed}"
        if key not in kept:
            found = lmma.minimize(fun, start, 0.1, noise=noise, maxfevals=20_000, rng=seed)
            points = (found.x, found.mean)
            kept[key] = [*(cross_entropy(x, images, labels) for x in points), found.fun]
            args.out.write_text(json.dumps(kept, indent=1))
        print(key, "loss of x, of the mean, fun:", *(f"{value:.3f}" for value in kept[key]), flush=True)


def main() -> None:
    """Measure what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--dimensions", type=int, nargs="+", default=[20])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--budget", type=int, default=1000, help="evaluations, times n")
    parser.add_argument("--cells", nargs="+", default=[], help="words in the names of what is run")
    parser.add_argument("--table", action="store_true", help="print what is there and run nothing")
    parser.add_argument("--only", nargs="+", choices=list(SOLVERS), default=list(SOLVERS), metavar="SOLVER")
    parser.add_argument("--digits", action="store_true")
    args = parser.parse_args()
    kept = json.loads(args.out.read_text()) if args.out.exists() else {}
    if args.digits:
        digits(args, kept)
        return
    if not args.table:
        measure(args, kept)
    rows = medians(args, kept)
    print(table(rows), verdict(rows), sep="\n\n")


if __name__ == "__main__":
    main()
