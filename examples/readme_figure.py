"""Draw the picture of the README: evaluations to the optimum, and what one of them costs.

Usage: python examples/readme_figure.py [FILE]        (about half a minute)
"""

import sys
import time
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import lmma
from lmma import problems
from lmma.evaluation import Vectorized
from lmma.output.plotting.style import COLOURS, quieten, save
from lmma.run.generation import run
from lmma.run.observers import Recorder
from lmma.run.stopping import Limits

N = 100
BUDGET = 400_000
METHODS = dict(zip(("lm-ma-es", "ma-es", "csa-es"), COLOURS, strict=False))
SIZES = {
    "lm-ma-es": (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000),
    "ma-es": (100, 300, 1_000, 3_000),  # at 100,000 its matrix alone would take 80 GB
    "csa-es": (100, 300, 1_000, 3_000, 10_000, 30_000, 100_000),
}


def descend(method: str) -> dict[str, list[float]]:
    """Return the record of one run on the rotated cigar, from the paper's start."""
    cigar = problems.get("rotated-cigar")
    es = lmma.strategy(method, problems.suites.start(cigar, N, 1), cigar.sigma0, rng=1)
    recorder = Recorder(1000)
    run(es, Vectorized(cigar), Limits(maxfevals=BUDGET, ftarget=1e-10), [recorder])
    return recorder.columns()


def microseconds(method: str, n: int) -> float:
    """Return the processor time a method itself spends on one candidate, the least of several."""
    es = lmma.strategy(method, np.zeros(n), 1.0, rng=1)
    out = es.ask()
    values = np.arange(es.popsize, dtype=float)
    es.tell(values)
    times = []
    until = time.perf_counter() + 0.3
    while len(times) < 5 or time.perf_counter() < until:
        start = time.process_time()
        es.ask(out)
        es.tell(values)
        times.append(time.process_time() - start)
    return 1e6 * min(times) / es.popsize


def main(path: str) -> None:
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    for method, colour in METHODS.items():
        record = descend(method)
        left.plot(record["evaluations"], record["best_fun"], color=colour, linewidth=2, label=method)
        cost = [microseconds(method, n) for n in SIZES[method]]
        right.plot(SIZES[method], cost, "o-", color=colour, linewidth=2, markersize=4, label=method)
    left.set(
        title=f"rotated cigar, n = {N}, condition $10^6$",
        xlabel="evaluations", ylabel="best value", xscale="log", yscale="log", xlim=(1_000, BUDGET),
    )  # fmt: skip
    right.set(
        title="processor time for a candidate",
        xlabel="number of variables n", ylabel="microseconds", xscale="log", yscale="log",
    )  # fmt: skip
    left.legend(frameon=False, loc="lower left")
    for axes in (left, right):
        quieten(axes)
        axes.title.set_fontsize(11)
    save(figure, path)
    print(f"wrote {path}")


if __name__ == "__main__":
    default = Path(__file__).resolve().parent.parent / "docs" / "images" / "convergence.svg"
    main(sys.argv[1] if len(sys.argv) > 1 else str(default))
