"""Evaluations to 1e-10 of our methods and of other packages', side by side, on plain and rotated functions.

    python benchmarks/frontier.py --n 128 --methods pycma,pulse [--problems sphere,cigar] [--seeds 401-403]
    python benchmarks/frontier.py --table lab/results/frontier

Paper protocol: start uniform in [-5, 5]^n, the same for all methods of one seed, sigma0 = 3; evaluations up
to and including the first candidate at or below the target. Seeds from 401 on: nobody tuned on them. Peers
are as published (lmma_lab.peers), from pip install 'lmma-lab[bench]'. Finished runs are kept in --store
and never done twice; --seconds starts no run after that time, so that a campaign can be done in pieces.
"""

import argparse
import csv
import time
from pathlib import Path

from one_thread import use_one_thread

use_one_thread()

import numpy as np

from lmma._files import write_text
from lmma_lab.report.tables import as_csv, markdown_table
from lmma_lab.schedule.execute import perform
from lmma_lab.store import Store
from lmma_lab.tasks import Solve, record_fault

PLAIN = ("sphere", "ellipsoid", "rosenbrock", "discus", "cigar", "different-powers")
ROTATED = tuple(
    f"rotated-{name}" for name in ("cigar", "different-powers", "discus", "ellipsoid", "rosenbrock")
)
PROBLEMS = PLAIN + ROTATED
OURS = ("pulse-full", "pulse", "d-lm-ma-es", "lm-ma-es", "lm-cma-es")
THEIRS = ("pycma", "pycma-vkd", "fcmaes-crfmnes", "cmaes-sep", "cmaes-dxnesic", "pypop7-lmcma")
# Thousands of evaluations after which a run ends unsolved, at n = 128; in proportion to n elsewhere.
BUDGET = dict.fromkeys(PROBLEMS, 1_000) | {"ellipsoid": 2_000, "rotated-ellipsoid": 2_000}
PATIENT = {"lm-ma-es": 5, "d-lm-ma-es": 5}  # their evaluations cost a tenth of the others'


def budget(method: str, problem: str, n: int) -> int:
    """Return the evaluations a run may use."""
    factor = PATIENT.get(method, 1)
    if factor > 1 and problem == "rotated-discus":  # one axis to shorten, which direction vectors cannot do
        factor *= 2
    return BUDGET[problem] * factor * 1000 * n // 128


def do(tasks: list[Solve], store: Store, seconds: float) -> None:
    """Do what is missing, one run after the other."""
    end = time.monotonic() + seconds
    done = store.done([task.key for task in tasks])
    left = [task for task in tasks if task.key not in done]
    print(f"{len(tasks)} runs, {len(tasks) - len(left)} done before", flush=True)
    for task in left:
        if time.monotonic() > end:
            print("time is up; the same command goes on", flush=True)
            return
        if not store.claim([task.key]):  # another process does it
            continue
        record = perform(task)
        store.put(task.key, task.kind, record)
        shown = record["evaluations_to_target"] or f"not in {record['evaluations']}: {record['best_fun']}"
        print(f"{task.label}: {shown} ({record['cpu_seconds']:.0f} s)", flush=True)
    print("nothing left to do", flush=True)


def cell(records: list[dict]) -> str:
    """Return median thousands of evaluations over the runs that reached the target."""
    if not records:
        return ""
    hits = [r["evaluations_to_target"] for r in records if r["success"]]
    if not hits and all(r["reason"] == "tolfun" for r in records):  # Rosenbrock's local optimum
        return f"stuck at {records[0]['best_fun']:.3g} (0/{len(records)})"
    if not hits:
        most = max(r["evaluations"] for r in records)
        count = f" (0/{len(records)})" if len(records) != 3 else ""
        return f"not in {most / 1000:,.0f}{count}"
    text = f"{np.median(hits) / 1000:,.3g}" if np.median(hits) < 1e6 else f"{np.median(hits) / 1000:,.0f}"
    return text if len(hits) == len(records) == 3 else f"{text} ({len(hits)}/{len(records)})"


def table(records: list[dict], n: int) -> str:
    """Return a Markdown table of all methods at ``n``."""
    methods = [m for m in OURS + THEIRS if any(r["spec"]["method"] == m for r in records)]
    rows = [[f"n = {n}", *(p.replace("rotated-", "rot. ").replace("-", " ") for p in PROBLEMS)]]
    for method in methods:
        cells = [
            cell([r for r in records if (r["spec"]["method"], r["spec"]["problem"]) == (method, problem)])
            for problem in PROBLEMS
        ]
        rows.append([method, *cells])
    return markdown_table(rows, right=range(1, len(rows[0])))


def earlier(path: Path) -> list[dict]:
    """Return the runs of a runs.csv, as far as the tables need them."""
    found = []
    for row in csv.DictReader(path.open()):
        reached = int(row["evaluations_to_target"]) if row["evaluations_to_target"] else None
        found.append({
            "spec": {k: row[k] if k in ("method", "problem") else int(row[k])
                     for k in ("method", "problem", "n", "seed", "budget")},
            "evaluations_to_target": reached, "success": reached is not None, "versions": {},
            "evaluations": int(row["evaluations"]), "popsize": int(row["popsize"]), "reason": row["reason"],
            "best_fun": float(row["best_fun"]), "cpu_seconds": float(row["cpu_seconds"]),
        })  # fmt: skip
    return found


def identity(record: dict) -> tuple:
    """Return what tells one run from another."""
    return tuple(record["spec"][name] for name in ("method", "problem", "n", "seed"))


def publish(records: list[dict], folder: Path) -> None:
    """Write every run as CSV and one table for each n as Markdown."""
    dims = sorted({r["spec"]["n"] for r in records})
    packages = sorted(
        {
            f"{k} {v}"
            for r in records
            for k, v in r["versions"].items()
            if k not in ("kernels", "python", "numpy")
        }
    )
    text = [
        "# Side by side on eleven functions",
        "Evaluations to 1e-10 in thousands, median of the runs that reached it; three runs unless counts "
        "stand beside the figure, seeds from 401 on for pulse, from 101 on for the others. Written by "
        "`benchmarks/frontier.py`; the runs are in "
        "[runs.csv](runs.csv). Empty: not run.",
        *(table([r for r in records if r["spec"]["n"] == n], n) for n in dims),
        f"Versions: {', '.join(packages)}.",
    ]
    write_text(folder / "table.md", "\n\n".join(text) + "\n")
    order = {name: i for i, name in enumerate(OURS + THEIRS + PROBLEMS)}
    records = [r for r in records if {r["spec"]["method"], r["spec"]["problem"]} <= set(order)]
    rows = [
        {
            **{k: r["spec"][k] for k in ("method", "problem", "n", "seed", "budget")},
            **{k: r[k] for k in ("evaluations_to_target", "evaluations", "popsize", "reason")},
            "best_fun": f"{r['best_fun']:.3g}",
            "cpu_seconds": f"{r['cpu_seconds']:.3g}",
        }
        for r in records
    ]
    rows.sort(key=lambda r: (r["n"], order[r["method"]], order[r["problem"]], r["seed"]))
    write_text(folder / "runs.csv", as_csv(rows))


def main() -> None:
    """Run, or write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--n", type=int, default=128)
    parser.add_argument("--methods", default=",".join(OURS + THEIRS))
    parser.add_argument("--problems", default=",".join(PROBLEMS))
    parser.add_argument("--seeds", default="401-403", help="first-last")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no run after this time")
    parser.add_argument("--store", type=Path, default=Path("frontier.sqlite"))
    parser.add_argument("--table", type=Path, metavar="DIR", help="run nothing, write tables to DIR")
    parser.add_argument(
        "--more", type=Path, nargs="*", default=[], help="stores whose runs the tables also show"
    )
    parser.add_argument("--earlier", type=Path, help="a runs.csv whose runs the tables also show")
    options = parser.parse_args()
    with Store(options.store, record_fault) as store:
        if options.table:
            records = store.records("run")
            for path in options.more:
                with Store(path, record_fault) as other:
                    records += other.records("run")
            if options.earlier:
                known = {identity(r) for r in records}
                records += [r for r in earlier(options.earlier) if identity(r) not in known]
            publish(records, options.table)
            return
        first, _, last = options.seeds.partition("-")
        tasks = [
            Solve(problem, method, options.n, seed, budget(method, problem, options.n))
            for seed in range(int(first), int(last or first) + 1)
            for method in options.methods.split(",")
            for problem in options.problems.split(",")
        ]
        for task in tasks:
            task.check_names()
        do(tasks, store, options.seconds)


if __name__ == "__main__":
    main()
