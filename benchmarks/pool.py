"""Utilisation of the workers of a process pool, and overhead per task.

    python benchmarks/pool.py [--workers 2] [--n 1000] [--ms 1] [--seconds 5]

The objective waits for the given time without using the processor, as one that calls a simulator does, so
that the figure is about the pool and not about how many cores are free; ``--spin`` computes instead. ``busy``
is the time workers spent inside the objective, by their own clocks, as a share of workers x elapsed time;
asking, telling and the wait for the last candidate of each generation count as idle.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import lmma
from lmma.evaluation import evaluator


def objective(seconds: float, spin: bool):
    def fun(x: np.ndarray) -> float:
        begin = time.perf_counter()
        if spin:
            while time.perf_counter() - begin < seconds:
                pass
        else:
            time.sleep(seconds)
        return time.perf_counter() - begin  # the value itself is the time spent inside

    return fun


def busy(
    workers: int, n: int, milliseconds: float, seconds: float, spin: bool, method: str
) -> tuple[float, int]:
    """Return the share of time workers spend inside the objective, and the number of evaluations."""
    evaluate = evaluator(objective(milliseconds / 1000, spin), workers=workers)
    es = lmma.strategy(method, np.zeros(n), 1.0, rng=1)
    evaluate(es.ask(evaluate.buffer(es.popsize, n, "float64")))  # workers have started
    es.tell(np.arange(es.popsize))
    inside, count = 0.0, 0
    begin = time.perf_counter()
    while time.perf_counter() - begin < seconds:
        spent = evaluate(es.ask(evaluate.buffer(es.popsize, n, "float64")))
        inside += float(spent.sum())
        count += len(spent)
        es.tell(spent)
    elapsed = time.perf_counter() - begin
    evaluate.close()
    return inside / (workers * elapsed), count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--ms", type=float, default=1.0)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--method", default="lm-ma-es")
    parser.add_argument("--spin", action="store_true", help="compute instead of waiting")
    a = parser.parse_args()
    found = [busy(a.workers, a.n, a.ms, a.seconds, a.spin, a.method) for _ in range(a.repeats)]
    print(
        f"{a.workers} workers, n = {a.n}, {a.ms:g} ms: busy "
        + ", ".join(f"{share:.1%}" for share, _ in found)
        + f" (best of {a.repeats}: {max(found)[0]:.1%})"
    )


if __name__ == "__main__":
    main()
