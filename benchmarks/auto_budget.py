"""Value of a full matrix with a budget too short to learn it: `pulse-full` compared with `pulse`.

    python benchmarks/auto_budget.py runs.json

Every function of `benchmarks/auto.py`, n = 20 to 300, budgets below 4 n^2, seeds 51 to 55: how often each is
lower at the end of the budget, and by what factor. The table stands in docs/research.md.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from auto import NAMES, values

SIZES = {20: (30,), 40: (30, 100), 80: (30, 100, 300), 160: (30, 100, 300), 300: (30, 100)}  # times n
SEEDS = range(51, 56)
EQUAL = 1e-10  # lower values are the same


def main():
    """Run what is missing and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("store", type=Path)
    store = parser.parse_args().store
    found = json.loads(store.read_text()) if store.exists() else {}

    def end(name, n, budget, method):
        key = f"{name} {n} {budget} {method}"
        if key not in found:
            found[key] = float(np.median([values(name, n, budget, method, seed)[1] for seed in SEEDS]))
            store.write_text(json.dumps(found))
        return max(found[key], EQUAL)

    print("| n | evaluations | pulse-full lower by 5% | pulse lower by 5% | ratio, median | worst | best |")
    print("|---:|---:|---:|---:|---:|---:|---:|")
    for n, factors in SIZES.items():
        for budget in (n * factor for factor in factors):
            ratios = np.array([end(x, n, budget, "pulse-full") / end(x, n, budget, "pulse") for x in NAMES])
            counts = f"{np.sum(ratios < 0.95)} | {np.sum(ratios > 1.05)}"
            spread = " | ".join(f"{ratio:.2f}" for ratio in (np.median(ratios), max(ratios), min(ratios)))
            print(f"| {n} | {budget:,} | {counts} | {spread} |", flush=True)


if __name__ == "__main__":
    main()
