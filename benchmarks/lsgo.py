"""CEC'2013 LSGO, n = 1000: best values at 120,000, 600,000 and 3,000,000 evaluations, next to published ones.

    python benchmarks/lsgo.py run --functions 1-15 --methods auto,ranks --budget 120000 --seeds 1-3
    python benchmarks/lsgo.py run --methods auto:restarts=5 --budget 600000 --seeds 1 --workers 2
    python benchmarks/lsgo.py table

Start uniform in the box, drawn from the seed, or with --start centre at its centre; one call of lmma.minimize
with restarts=9, which knows the budget. A method may have options of lmma.minimize after a colon. Finished
runs are kept as lines of a file and not made again. A run of a larger budget counts at a smaller one only
where no run of that was made. Needs the data of cec2013lsgo; lmma_lab/lsgo.py has the command that installs
it. "in function" is the part of a run's seconds that the function took.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from one_thread import use_one_thread

use_one_thread()

import numpy as np
from rugged import OURS, numbers, parsed, read, split_methods

import lmma
from lmma_lab import lsgo

BUDGETS = (120_000, 600_000, 3_000_000)
_ = math.nan

# Means of 25 runs of f1 to f15, rounded to two digits; medians of MLSHADE-SPA, and of SHADE-ILS below
# 3,000,000. SHADE-ILS: Molina, LaTorre and Herrera, CEC 2018, Table VI, and its published raw runs.
# MLSHADE-SPA: Hadi, Mohamed and Jambi, 2019. MPCE+SSALS, MOS (LaTorre, Muelas and Pena, CEC 2013), CC-CMA-ES
# (Liu and Tang, 2013) and IHDELS (Molina and Herrera, CEC 2015): as listed by the competition. "best of five"
# is the lowest of five entries, of which not all were read one by one; DECC-G is not among them.
PUBLISHED = {
    120_000: {
        "SHADE-ILS": (6.1e4, 2.6e3, 20.1, 2.6e10, 2.5e6, 1.05e6, 3.6e8, 1.6e14, 2.9e8, 9.4e7, 4.2e9, 2.6e3,
                      1.3e10, 1.1e11, 8.1e7),
        "MOS": (2.7e7, _, _, 3.5e10, _, _, 3.5e8, 3.7e14, _, _, 3.1e9, 1.2e4, 8.4e9, 4.6e10, 1.5e7),
        "CC-CMA-ES": (1.1e8, _, _, 6.1e11, _, _, 5.8e9, 2.9e16, _, _, 6.0e11, 6.9e3, 5.4e10, 8.2e11, 1.3e8),
        "IHDELS": (1.3e1, _, _, 1.8e10, _, _, 2.9e8, 1.7e14, _, _, 7.2e9, 1.8e3, 1.2e10, 6.8e10, 6.0e7),
        "best of five": (1.3e1, 1.4e3, 0.04, 1.8e10, 2.5e6, 3.1e5, 2.9e8, 1.6e14, 2.9e8, 1.2e6, 3.1e9, 1.8e3,
                         8.4e9, 4.6e10, 1.5e7),
    },
    600_000: {
        "SHADE-ILS": (5e-25, 1.7e3, 20.1, 1.3e9, 2.3e6, 1.04e6, 7.7e5, 6.2e12, 2.5e8, 9.3e7, 1.2e8, 1.3e3,
                      4.1e7, 6.4e7, 1.3e7),
        "MOS": (3.5, _, _, 2.6e9, _, _, 8.2e6, 8.4e13, _, _, 8.1e8, 2.2e3, 8.1e8, 2.0e8, 6.3e6),
        "IHDELS": (1.8e-23, _, _, 2.2e9, _, _, 6.9e6, 1.7e13, _, _, 4.6e8, 1.2e3, 7.3e8, 1.5e8, 1.7e7),
    },
    3_000_000: {
        "SHADE-ILS": (2.7e-24, 1.0e3, 2.0e1, 1.5e8, 1.4e6, 1.0e6, 7.4e1, 3.2e11, 1.6e8, 9.2e7, 5.1e5, 6.2e1,
                      1.0e5, 5.8e6, 6.3e5),
        "MLSHADE-SPA": (4.9e-23, 8.0e1, 1.0e-13, 5.8e8, 1.8e6, 1.9e1, 5.1e4, 8.4e12, 1.6e8, 5.0e2, 4.0e7,
                        9.7e1, 5.1e7, 1.5e7, 2.9e7),
        "MPCE+SSALS": (1.5e-27, 1.4, 3.6e-13, 3.6e9, 1.2e6, 7.5e2, 4.4e3, 1.8e14, 9.0e7, 5.0e4, 3.3e6, 5.9e1,
                       3.6e6, 5.5e6, 5.8e5),
        "MOS": (0.0, 8.3e2, 9.2e-13, 1.7e8, 6.9e6, 1.5e5, 1.6e4, 8.0e12, 3.8e8, 9.0e5, 5.2e7, 2.5e2, 3.4e6,
                2.6e7, 2.4e6),
        "CC-CMA-ES": (5.8e-9, 1.3e3, 1.5e-13, 2.2e9, 7.3e14, 5.9e5, 7.4e6, 3.9e14, 3.7e8, 7.6e5, 1.6e8, 1.3e3,
                      6.7e8, 7.1e7, 3.0e7),
    },
}  # fmt: skip


def one_run(task: dict[str, Any]) -> dict[str, Any]:
    """Run a task and return it with the best values at the budgets."""
    fun, at, calls, best = lsgo.get(task["function"]), {}, 0, math.inf
    inside = 0.0  # seconds in the function

    def counted(rows: np.ndarray) -> np.ndarray:
        nonlocal calls, best, inside
        before = time.perf_counter()
        values = fun(rows)
        inside += time.perf_counter() - before
        for budget in BUDGETS:
            if calls < budget <= calls + len(values):
                at[str(budget)] = min(best, float(values[: budget - calls].min()))
        calls, best = calls + len(values), min(best, float(np.nanmin(values)))
        return values

    name, _, chosen = task["method"].partition(":")
    options = dict(pair.split("=", 1) for pair in chosen.split(",") if pair)
    x0 = np.zeros(fun.n)  # the centre of every box
    if task["start"] == "random":
        x0 = np.random.default_rng(task["seed"]).uniform(fun.lower, fun.upper, fun.n)
    started = time.perf_counter()
    found = lmma.minimize(
        counted, x0, bounds=[fun.lower, fun.upper], vectorized=True, maxfevals=task["budget"],
        rng=task["seed"], **{"restarts": 9} | OURS[name] | {key: parsed(v) for key, v in options.items()},
    )  # fmt: skip
    for budget in BUDGETS:  # a run may end early, or a few evaluations before its budget
        if budget <= task["budget"]:
            at.setdefault(str(budget), best)
    seconds = time.perf_counter() - started
    return task | {
        "best": at, "evaluations": calls, "reason": found.reason, "seconds": round(seconds, 1),
        "in function": round(inside, 1),
    }  # fmt: skip


def tasks(given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the runs that are asked for, one seed after the other."""
    for seed in numbers(given.seeds):
        for function in numbers(given.functions):
            for method in split_methods(given.methods):
                yield {"function": function, "method": method, "seed": seed, "budget": given.budget,
                       "start": given.start}  # fmt: skip


def key(record: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(record[name] for name in ("function", "method", "seed", "budget", "start"))


def make_runs(given: argparse.Namespace) -> None:
    for method in split_methods(given.methods):
        if method.partition(":")[0] not in OURS:
            raise SystemExit(f"unknown method {method!r}; the names are {', '.join(OURS)}")
    given.out.parent.mkdir(parents=True, exist_ok=True)
    done = set(map(key, read(given.out)))
    left = [task for task in tasks(given) if key(task) not in done]
    with open(given.out, "a", encoding="utf-8") as file, ProcessPoolExecutor(given.workers) as pool:
        for record in pool.map(one_run, left) if given.workers > 1 else map(one_run, left):
            file.write(json.dumps(record) + "\n")
            file.flush()
            print(*key(record), f"{record['seconds']} s", record["best"], file=sys.stderr, flush=True)


def means(records: list[dict[str, Any]], budget: int) -> dict[tuple[int, str], tuple[float, int]]:
    """Return mean values at ``budget`` and numbers of runs, by function and method."""
    found: dict[tuple[int, str, int], tuple[int, float]] = {}
    for record in records:
        run, value = key(record)[:3], record["best"].get(str(budget))
        if value is not None and (run not in found or record["budget"] < found[run][0]):
            found[run] = record["budget"], value
    groups: dict[tuple[int, str], list[float]] = {}
    for (function, method, _), (_, value) in sorted(found.items()):
        groups.setdefault((function, method), []).append(value)
    return {group: (float(np.mean(values)), len(values)) for group, values in groups.items()}


def print_table(given: argparse.Namespace) -> None:
    """Print means next to published values, and on how many functions ours is lower than all of them."""
    records = [record for record in read(given.out) if record["start"] == given.start]
    methods = (
        split_methods(given.methods) if given.methods else list(dict.fromkeys(r["method"] for r in records))
    )
    for budget in BUDGETS:
        ours, published = means(records, budget), PUBLISHED[budget]
        if not ours:
            continue
        print(f"\n{budget:,} evaluations\n\n| f | seeds | " + " | ".join([*methods, *published]) + " |")
        print("|---|---:|" + "---:|" * (len(methods) + len(published)))
        first = dict.fromkeys(methods, 0)
        made = dict.fromkeys(methods, 0)
        for function in numbers(given.functions):
            others = [values[function - 1] for values in published.values()]
            cells, seeds = [], []
            for method in methods:
                value, count = ours.get((function, method), (math.nan, 0))
                won = value <= np.nanmin(others)
                first[method], made[method] = first[method] + won, made[method] + (count > 0)
                cells.append("-" if not count else f"**{value:.2e}**" if won else f"{value:.2e}")
                seeds.append(str(count))
            cells += ["-" if math.isnan(value) else f"{value:.1e}" for value in others]
            print(f"| {function} | {'/'.join(dict.fromkeys(seeds))} | " + " | ".join(cells) + " |")
        print("\nLower than all published values: " +
              ", ".join(f"{m} on {first[m]} of {made[m]}" for m in methods) + ".")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=("run", "table"))
    parser.add_argument("--functions", default="1-15")
    parser.add_argument("--methods", help="default: auto for run, those in the file for table")
    parser.add_argument("--budget", type=int, default=120_000)
    parser.add_argument("--seeds", default="1-3")
    parser.add_argument("--start", choices=("random", "centre"), default="random")
    parser.add_argument("--workers", type=int, default=1, help="number of processes")
    parser.add_argument("--out", type=Path, default=Path("lab/results/lsgo/lsgo.jsonl"))
    given = parser.parse_args()
    if given.action == "run":
        given.methods = given.methods or "auto"
    (make_runs if given.action == "run" else print_table)(given)


if __name__ == "__main__":
    main()
