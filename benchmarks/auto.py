"""Quality of the choice by `method="auto"` on forty problems with budgets drawn after the rule was fixed.

    python benchmarks/auto.py [--store auto.json] [--seconds 1800]      runs what is missing, then the table
    python benchmarks/auto.py --pairs                                   lists the pairs
    python benchmarks/auto.py --draw 20261116 ...                       another forty

Each pair is run with every method of the list below, fifteen seeds each up to n = 20, where runs are short
and chance is large, three beyond. That says which is the best; it and what `auto` picks are then run with
as many other seeds, since the lowest of eight medians is as low by luck as by merit. What counts: the value
that the best method has reached after 80% of the budget (median over the other seeds) must be reached by
`auto` within the budget, that is, with at most 25% more evaluations. Start uniform in [-5, 5]^n, sigma0 = 3.
"""

import argparse
import json
import time
from pathlib import Path

from one_thread import use_one_thread

use_one_thread()

import numpy as np

import lmma
from lmma.minimize import choose_method
from lmma.problems import get

METHODS = ("pulse-full", "pulse", "d-lm-ma-es", "lm-ma-es", "ma-es", "lm-cma-es", "sep-cma-es", "vd-cma-es")
PLAIN = ("sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers", "rastrigin")
DIMS = (5, 10, 20, 40, 80, 160, 320, 640, 1280)
PER_VARIABLE = (30, 100, 300, 1000)
SEEDS, MORE_SEEDS, FEW = 3, 15, 20  # more where there are few variables
AGAIN = 1001  # the first seed of those that compare
MOST = 300_000  # evaluations of a pair
BLOCKS = (2, 5, 20)
NAMES = [*PLAIN, *(f"rotated-{name}" for name in PLAIN), *(f"blocks-{size}" for size in BLOCKS)]

Pair = tuple[str, int, int]  # problem, n, budget


def blocks(n: int, size: int):
    """Return the ellipsoid, rotated within blocks of coordinates, its scales shuffled."""
    rng = np.random.default_rng([n, size])
    scales = rng.permutation(10.0 ** (6 * np.arange(n) / (n - 1)))
    turns = [np.linalg.qr(rng.standard_normal((min(size, n - i),) * 2))[0] for i in range(0, n, size)]

    def fun(X):
        parts = (X[:, i * size : (i + 1) * size] @ turn for i, turn in enumerate(turns))
        return np.square(np.hstack(list(parts))) @ scales

    return fun


def pairs(draw: int) -> list[Pair]:
    """Return forty pairs: drawn from the seed ``draw``, none twice."""
    rng = np.random.default_rng(draw)
    found: dict[Pair, None] = {}
    while len(found) < 40:
        name, n = str(rng.choice(NAMES)), int(rng.choice(DIMS))
        budget = n * int(rng.choice(PER_VARIABLE))
        if budget <= MOST:
            found[name, n, budget] = None
    return list(found)


def seeds(n: int, first: int = 1) -> range:
    """Return the seeds of runs with ``n`` variables."""
    return range(first, first + (MORE_SEEDS if n <= FEW else SEEDS))


def values(name: str, n: int, budget: int, method: str, seed: int) -> tuple[float, float]:
    """Return the best value after 80% of the budget, and at its end."""
    fun = blocks(n, int(name.split("-")[1])) if name.startswith("blocks") else get(name)
    x0 = np.random.default_rng([seed, n]).uniform(-5, 5, n)
    es = lmma.strategy(method, x0, 3.0, rng=seed)
    early = np.inf
    while es.evaluations + es.popsize <= budget and not (es.stop() and es.best_fun < 1e-12):
        es.tell(fun(es.ask()))
        if es.evaluations <= 0.8 * budget:
            early = es.best_fun
    return early, es.best_fun


class Runs:
    """Runs that are there, and those that are missing as they are asked for."""

    def __init__(self, store: Path, seconds: float) -> None:
        self.store, self.end = store, time.monotonic() + seconds
        self.found = json.loads(store.read_text()) if store.exists() else {}

    def medians(self, pair: Pair, method: str, first: int) -> tuple[float, float] | None:
        """Return the medians after 80% of the budget and at its end; None where time is over."""
        name, n, budget = pair
        keys = {seed: f"{name} {n} {budget} {method} {seed}" for seed in seeds(n, first)}
        for seed, key in keys.items():
            if key not in self.found:
                if time.monotonic() > self.end:
                    return None
                self.found[key] = values(*pair, method, seed)
        self.store.write_text(json.dumps(self.found))
        early, late = np.median([self.found[key] for key in keys.values()], axis=0)
        return float(early), float(late)


def compared(pair: Pair, runs: Runs) -> tuple[str, float, str, float] | None:
    """Return what auto picks and its value, the best method and its value after 80% of the budget."""
    early = {}
    for method in METHODS:
        medians = runs.medians(pair, method, 1)
        if medians is None:
            return None
        early[method] = medians[0]
    best = min(early, key=early.__getitem__)
    chosen = choose_method(pair[1])
    ours, theirs = runs.medians(pair, chosen, AGAIN), runs.medians(pair, best, AGAIN)
    return None if ours is None or theirs is None else (chosen, ours[1], best, theirs[0])


def main() -> None:
    """Run what is missing and print how auto does."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--store", type=Path, default=Path("auto.json"))
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--pairs", action="store_true")
    parser.add_argument("--draw", type=int, default=20_261_118, metavar="SEED", help="of the pairs")
    options = parser.parse_args()
    drawn = pairs(options.draw)
    if options.pairs:
        for name, n, budget in drawn:
            print(f"{name} {n} {budget}")
        return
    runs = Runs(options.store, options.seconds)
    outcomes = {pair: compared(pair, runs) for pair in sorted(drawn, key=lambda pair: pair[1] * pair[2])}
    good = total = 0
    print("| problem | n | evaluations | auto | its value | best of ours after 80% | by | within |")
    print("|---|---:|---:|---|---:|---:|---|---|")
    for (name, n, budget), outcome in sorted(outcomes.items()):
        if outcome is None:
            continue
        chosen, reached, best, early = outcome
        within = reached <= max(early, 1e-10)
        good, total = good + within, total + 1
        row = [name, n, f"{budget:,}", chosen, f"{reached:.3g}", f"{early:.3g}", best, within]
        print(f"| {' | '.join(map(str, row))} |")
    print(f"\nwithin 25% of the best in {good} of {total} pairs")


if __name__ == "__main__":
    main()
