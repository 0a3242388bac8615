"""Pulse for many variables: evaluations and time to 1e-4 at n = 10^4 and 10^5.

    python benchmarks/many_variables.py runs.jsonl [--n 10000] [--methods pulse ...] [--minutes 20]
    python benchmarks/many_variables.py runs.jsonl --n 100000 --methods pulse --axes 4 --dtype float32
    python benchmarks/many_variables.py runs.jsonl --table

Start uniform in [-5, 5]^n, sigma0 = 3, seed 401; rotations cost O(n): at 10^5 one reflection takes the axis
of cigar or discus to a random direction, at 10^4 it is six layers of them, which any function would notice.
A run that is not there after so many minutes is kept with the value that it had reached. A run that is
interrupted goes on from its checkpoint, beside the file. --axes sets k_F and k_H of pulse: with few an
evaluation takes half the time. The table stands in docs/research.md.
"""

import argparse
import json
from pathlib import Path

from one_thread import use_one_thread

use_one_thread()

import numpy as np

import lmma
from lmma import problems
from lmma.checkpoint import Checkpoint

METHODS = ("pulse", "d-lm-ma-es", "lm-cma-es")
PROBLEMS = ("sphere", "rotated-cigar", "rotated-discus", "ellipsoid")
TARGET = 1e-4
SEED = 401


def get(problem, n):
    """Return a problem, rotated in O(n)."""
    name = problem.removeprefix("rotated-")
    if name != problem and n > 10_000:
        return problems.rotated(problems.get(name), n, SEED, kind="axis")
    return problems.get(problem)


def run(method, problem, n, minutes, dtype, axes, folder):
    """Return what one run did."""
    options = {} if axes is None else {"k_long": axes, "k_short": axes}
    f = get(problem, n)
    x0 = f.start(n, np.random.default_rng([SEED, n]))
    saved = folder / f"{method}.{problem}.{n}.{dtype}.{axes}.npz"
    found = lmma.minimize(
        f, x0, 3.0, method=method, rng=SEED, tolx=0, tolfun=0, stagnation=False, ftarget=TARGET, dtype=dtype,
        vectorized=True, maxtime=60 * minutes, history=True, checkpoint=Checkpoint(saved, every=60),
        **options,
    )  # fmt: skip
    if found.reason == "interrupted":
        raise KeyboardInterrupt
    for file in folder.glob(saved.name + "*"):
        file.unlink()
    return {
        "method": method, "problem": problem, "n": n, "seed": SEED, "evaluations": found.nfev,
        "value": found.fun, "seconds": round(found.history["seconds"][-1], 1), "dtype": dtype, **options,
    }  # fmt: skip


def table(records):
    """Print evaluations in thousands and minutes, or how far a run came."""
    for n in sorted({r["n"] for r in records}):
        names = [p for p in PROBLEMS if any(r["problem"] == p and r["n"] == n for r in records)]
        print(f"\n| n = {n:,} |", " | ".join(names), "|")
        print("|---" * (len(names) + 1) + "|")
        rows = sorted({key_of(r)[1:] for r in records if r["n"] == n}, key=str)
        for row in rows:
            found = {r["problem"]: cell(r) for r in records if r["n"] == n and key_of(r)[1:] == row}
            print(f"| {label(*row)} |", " | ".join(found.get(name, "not run") for name in names), "|")


def key_of(record):
    """Return what tells one run from another of the same size: the problem, then what solved it."""
    return record["problem"], record["method"], record.get("dtype", "float64"), record.get("k_short")


def label(method, dtype, axes):
    """Return a method and its options in words."""
    parts = [method, dtype if dtype != "float64" else "", f"{axes} axes" if axes is not None else ""]
    return ", ".join(filter(None, parts))


def cell(record):
    """Return one run in words."""
    spent = f"{record['evaluations'] / 1000:,.0f}, {record['seconds'] / 60:.1f} min"
    return spent if record["value"] <= TARGET else f"{record['value']:.0e} after {spent}"


def main():
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--problems", nargs="+", default=PROBLEMS)
    parser.add_argument("--minutes", type=float, default=20)
    parser.add_argument("--dtype", choices=("float32", "float64"), default="float64")
    parser.add_argument("--axes", type=int, help="k_F and k_H of pulse; 3.3 log n unless told")
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    records = [json.loads(line) for line in args.file.open()] if args.file.exists() else []
    done = {(*key_of(r), r["n"]) for r in records}
    for problem in args.problems:
        for method in args.methods:
            axes = args.axes if method == "pulse" else None
            if not args.table and (problem, method, args.dtype, axes, args.n) not in done:
                records.append(run(method, problem, args.n, args.minutes, args.dtype, axes, args.file.parent))
                with args.file.open("a") as file:
                    print(json.dumps(records[-1]), file=file)
    table(records)


if __name__ == "__main__":
    main()
