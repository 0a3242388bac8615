"""Cost of noise detection without noise: evaluations to 1e-10 with noise="auto" and with None.

    python benchmarks/noise_free.py [--n 128] [--seeds 101-109] [--functions rotated-ellipsoid ...]

The eleven functions of docs/research.md, start uniform in [-5, 5]^n, sigma0 = 3. No run may be judged noisy.
The table stands in docs/noise.md.
"""

import argparse

from one_thread import use_one_thread

use_one_thread()

import numpy as np

import lmma
from lmma import problems

PLAIN = ("sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers")
ROTATED = ("cigar", "different-powers", "discus", "ellipsoid", "rosenbrock")
PROBLEMS = (*PLAIN, *(f"rotated-{name}" for name in ROTATED))


def run(problem, n, seed, noise):
    """Return evaluations, None where the target was not reached, and whether noise was found."""
    f = problems.get(problem)
    x0 = f.start(n, np.random.default_rng([seed, n]))
    result = lmma.minimize(
        f, x0, 3.0, rng=seed, vectorized=True, noise=noise, ftarget=1e-10, tolx=0, tolfun=1e-14,
        maxfevals=8000 * n,
    )  # fmt: skip
    return (result.nfev if result.reason == "ftarget" else None), bool(noise and result.noise["found"])


def main():
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=128)
    parser.add_argument("--seeds", default="101-109")
    parser.add_argument("--functions", nargs="+", choices=PROBLEMS, default=PROBLEMS)
    args = parser.parse_args()
    first, last = map(int, args.seeds.split("-"))
    print("| function | pairs that arrived | None, median | ratio, median | ratio, largest | judged noisy |")
    print("|---|---:|---:|---:|---:|---:|")
    for problem in args.functions:
        plain = [run(problem, args.n, seed, None)[0] for seed in range(first, last + 1)]
        watched = [run(problem, args.n, seed, "auto") for seed in range(first, last + 1)]
        ratios = [w / p for (w, _), p in zip(watched, plain, strict=True) if w and p]
        cells = (
            problem, f"{len(ratios)} of {len(plain)}", f"{np.median([p for p in plain if p]):,.0f}",
            f"{np.median(ratios):.3f}", f"{max(ratios):.3f}", sum(bool(found) for _, found in watched),
        )  # fmt: skip
        print("|", " | ".join(map(str, cells)), "|", flush=True)


if __name__ == "__main__":
    main()
