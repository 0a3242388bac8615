"""Time per sample and memory of the linear methods as n grows, with the exponent of a fitted power law.

    python benchmarks/family_scaling.py [--largest 65536] [--repeats 5] [--methods lm-cma-es ...]

The time is that of the strategy alone: the values told are random numbers. Dimensions are visited in turn,
several times over, and the best time of each is kept, so that a busy machine slows all of them alike. For
methods with m = O(log n) vectors the exponent is fitted to time / m, which takes the log factor out. Memory
is the peak of ``tracemalloc`` over the life of a run in vectors of n numbers: a small multiple of m + lambda,
where a hidden n x n matrix would show up as n.
"""

import argparse
import math
import time
import tracemalloc

from one_thread import use_one_thread

use_one_thread()

import numpy as np

import lmma

WITH_VECTORS = ("lm-ma-es", "lm-ma-es-archive", "lm-cma-es")
DIAGONAL = ("vd-cma-es", "sep-cma-es")
LIMIT = 1.15


class Run:
    """One strategy that is told random values, which cost next to nothing."""

    def __init__(self, method: str, n: int, warm: int = 60) -> None:
        self.es = lmma.strategy(method, np.zeros(n), 1.0, rng=1)
        self.X = np.empty((self.es.popsize, n))
        self.values = np.random.default_rng(1).random((64, self.es.popsize))
        self.advance(warm)  # until all direction vectors are in use

    def advance(self, generations: int) -> None:
        """Run so many generations."""
        for _ in range(generations):
            self.es.ask(out=self.X)
            self.es.tell(self.values[self.es.generation % 64])
            self.es.sigma = 1.0


def seconds_per_sample(run: Run, least: float) -> float:
    """Return the processor time of one sample, over at least ``least`` seconds."""
    generations = 0
    start = time.process_time()
    while (spent := time.process_time() - start) < least or generations < 2 * 12:
        run.advance(12)  # a whole number of LM-CMA-ES's update periods at most sizes
        generations += 12
    return spent / (generations * run.es.popsize)


def peak_vectors(method: str, n: int) -> float:
    """Return the peak memory of a run in vectors of n numbers."""
    tracemalloc.start()
    Run(method, n, warm=30)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak / (8 * n)


def exponent(sizes: list[int], times: list[float]) -> float:
    """Return the slope of log time over log n, fitted by least squares."""
    return float(np.polyfit(np.log(sizes), np.log(times), 1)[0])


def main() -> None:
    """Measure every method and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--largest", type=int, default=65_536)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--least", type=float, default=0.1, help="seconds for one measurement")
    parser.add_argument("--methods", nargs="+", default=[*WITH_VECTORS, *DIAGONAL])
    options = parser.parse_args()
    sizes = [2**k for k in range(9, int(math.log2(options.largest)) + 1)]
    heads = ["method", *(f"n = {n:,}" for n in sizes), "exponent", "upper half", "vectors"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    for method in options.methods:
        runs = {n: Run(method, n) for n in sizes}
        best = dict.fromkeys(sizes, math.inf)
        for _ in range(options.repeats):
            for n, run in runs.items():
                best[n] = min(best[n], seconds_per_sample(run, options.least))
        factor = {n: 4 + math.floor(3 * math.log(n)) if method in WITH_VECTORS else 1 for n in sizes}
        upper = sizes[len(sizes) // 2 :]  # where fixed costs no longer hide the growth
        slopes = [exponent(part, [best[n] / factor[n] for n in part]) for part in (sizes, upper)]
        verdicts = [f"{slope:.2f}" + ("" if slope <= LIMIT else f" (above {LIMIT})") for slope in slopes]
        del runs
        held = f"{peak_vectors(method, sizes[0]):.0f}, {peak_vectors(method, sizes[-1]):.0f}"
        cells = [method, *(f"{best[n] * 1e6:.3g} µs" for n in sizes), *verdicts, held]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
