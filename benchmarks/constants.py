"""Effect of each part and each constant of pulse: evaluations to 1e-10 without it, halved and doubled.

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
from lmma.methods.pulse import method as pulse, parameters as pulse_parameters

PROBLEMS = (
    "sphere", "ellipsoid", "discus", "cigar", "rotated-cigar", "rotated-discus", "rotated-different-powers",
)  # fmt: skip
METHOD = "pulse-full"
CONSTANTS = (
    "c_sigma", "d_sigma", "c_scale", "path_share", "tau_short", "c_short", "tau_long", "c_c_long",
    "c_1_long", "c_mu_long", "c_mu",
)  # fmt: skip
PARTS = {  # method, options, constants of the module
    "all": (METHOD, {}, {}),
    "without A: pulse": ("pulse", {}, {}),
    "without H": (METHOD, {"k_short": 0}, {}),
    "without F": (METHOD, {"k_long": 0}, {}),
    "without D": (METHOD, {"c_scale": 0.0}, {}),
    "positive weights for the mean, c_m = 1": (METHOD, {"c_m": 1.0}, {"AGAINST": 0.0}),
    "c_m = 1": (METHOD, {"c_m": 1.0}, {}),
    "no rule of concentration": (METHOD, {}, {"SPAN": 0}),
    "learning every generation": (METHOD, {"period": 1}, {}),
    "learning every second": (METHOD, {"period": 2}, {}),
}
BUDGET = 150_000


def evaluations(method, problem, n, seed, options):
    """Return evaluations up to the first candidate at or below the target, infinity where there is none."""
    f = problems.get(problem)
    x0 = f.start(n, np.random.default_rng([seed, n]))
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
    seeds = range(first, last + 1)
    print(f"| n = {args.n} |", " | ".join(PROBLEMS), "|")
    print("|---" * (len(PROBLEMS) + 1) + "|")
    for label, (method, options, patch) in PARTS.items():
        usual = {name: getattr(pulse_parameters, name) for name in patch}
        vars(pulse_parameters).update(patch)
        pulse.weights_of.cache_clear()
        cells = [cell(method, p, args.n, seeds, options) for p in PROBLEMS]
        vars(pulse_parameters).update(usual)
        pulse.weights_of.cache_clear()
        print(f"| {label} |", " | ".join(cells), "|", flush=True)
    parameters = lmma.strategy(METHOD, np.zeros(args.n), 1.0).method.parameters
    for name in CONSTANTS:
        for factor, word in ((0.5, "halved"), (2.0, "doubled")):
            options = {name: factor * getattr(parameters, name)}
            cells = [cell(METHOD, p, args.n, seeds, options) for p in PROBLEMS]
            print(f"| {name} {word} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
