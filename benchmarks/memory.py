"""Peak memory of a run, each measured in a new process.

    python benchmarks/memory.py ask [--n 1000000] [--dtype float64] [--generations 5]
    python benchmarks/memory.py blocks [--n 10000000] [--dtype float32] [--generations 20]

``ask`` holds a generation as a user of ask and tell does; the bound is (m + 2 lambda + 8) n numbers + 100 MB.
``blocks`` streams it by ask_blocks(): direction vectors, one block of candidates and a few vectors, never a
whole generation.
"""

import argparse
import resource
import subprocess
import sys
import time

import numpy as np

import lmma
from lmma.numerics.recombination import default_popsize


def sphere(X: np.ndarray) -> np.ndarray:
    """Return |x|^2 of each row without a temporary of the size of X."""
    return np.array([float(np.dot(row, row)) for row in X])


def run(way: str, n: int, dtype: str, generations: int) -> None:
    start = np.ones(n, dtype=dtype)
    es = lmma.LMMAES(start, 0.1, rng=1, dtype=dtype)
    del start
    out = np.empty((es.popsize, n), dtype) if way == "ask" else None
    for generation in range(generations):
        begin = time.perf_counter()
        if out is not None:
            values = sphere(es.ask(out=out))
        else:
            values = np.concatenate([sphere(rows) for rows in es.ask_blocks()])
        es.tell(values)
        seconds = time.perf_counter() - begin
        print(f"  generation {generation + 1}: {seconds:.2f} s, f = {es.best_fun:.6g}", flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    lam, m, item = es.popsize, default_popsize(n), np.dtype(dtype).itemsize
    bound = (m + 2 * lam + 8) * n * item + 100e6
    print(f"{way}: n = {n:,}, {dtype}, lambda = m = {lam}, {generations} generations")
    print(f"  peak {peak / 1e6:,.0f} MB; all of V, z and X with 8 vectors and 100 MB: {bound / 1e6:,.0f} MB")
    print(f"  V alone: {m * n * item / 1e6:,.0f} MB; a generation: {lam * n * item / 1e6:,.0f} MB")
    sys.exit(0 if peak <= bound else 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("way", choices=("ask", "blocks"))
    parser.add_argument("--n", type=int)
    parser.add_argument("--dtype")
    parser.add_argument("--generations", type=int)
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    large = given.way == "blocks"
    n = given.n or (10_000_000 if large else 1_000_000)
    dtype = given.dtype or ("float32" if large else "float64")
    generations = given.generations or (20 if large else 5)
    if given.here:
        run(given.way, n, dtype, generations)
    words = [given.way, "--n", str(n), "--dtype", dtype, "--generations", str(generations), "--here"]
    return subprocess.run([sys.executable, __file__, *words]).returncode


if __name__ == "__main__":
    sys.exit(main())
