"""How much each constant of pulse-full matters: evaluations to 1e-10 with it halved and doubled.

    python benchmarks/constants.py [--n 64] [--seeds 101-103]

Start uniform in [-5, 5]^n, sigma0 = 3, medians in thousands over the runs that reach the target. The table
stands in docs/research.md.
"""

import argparse
import os

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "LMMA_NUM_THREADS"):
    os.environ.setdefault(name, "1")

import numpy as np

import lmma
from lmma import problems

PROBLEMS = (
    "sphere", "ellipsoid", "discus", "cigar", "different-powers", "rosenbrock", "rotated-cigar",
    "rotated-discus",
)  # fmt: skip
CONSTANTS = {
    "pulse-full": ("c_sigma", "d_sigma", "c_scale", "path_share", "tau", "c_c_axes", "c_1_axes", "c_mu_axes"),
    "d-lm-ma-es": ("c_scale",),
}
BUDGET = 300_000


def evaluations(method, problem, n, seed, options):
    """Return evaluations up to the first candidate at or below the target, infinity where there is none."""
    f = problems.get(problem)
    x0 = problems.suites.start(f, n, np.random.default_rng([seed, n]))
    es = lmma.strategy(method, x0, 3.0, rng=seed, tolx=0, tolfun=1e-14, **options)
    while es.evaluations < BUDGET and not es.stop():
        values = f(es.ask())
        es.tell(values)
        if es.best_fun <= 1e-10:
            return es.evaluations - es.popsize + int(np.argmax(values <= 1e-10)) + 1
    return np.inf


def cell(method, problem, n, seeds, options):
    """Return the median of the runs that reached the target, in thousands, and how many did if not all."""
    counts = [evaluations(method, problem, n, seed, options) for seed in seeds]
    reached = [count for count in counts if np.isfinite(count)]
    if not reached:
        return "-"
    share = "" if len(reached) == len(counts) else f" ({len(reached)}/{len(counts)})"
    return f"{np.median(reached) / 1000:.1f}{share}"


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=64)
    parser.add_argument("--seeds", default="101-103")
    args = parser.parse_args()
    first, last = map(int, args.seeds.split("-"))
    print(f"| n = {args.n} |", " | ".join(PROBLEMS), "|")
    print("|---" * (len(PROBLEMS) + 1) + "|")
    for method, names in CONSTANTS.items():
        usual = lmma.strategy(method, np.zeros(args.n), 1.0).parameters
        rows = {method: {}}
        for name in names:
            for factor, word in ((0.5, "halved"), (2.0, "doubled")):
                rows[f"{name} {word}"] = {name: factor * getattr(usual, name)}
        for label, options in rows.items():
            cells = [cell(method, p, args.n, range(first, last + 1), options) for p in PROBLEMS]
            print(f"| {label} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
