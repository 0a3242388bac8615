"""Write summaries of the records of the paper's experiments, and of missing runs, into their pages.

python docs/tools/paper.py

lab/results/paper/README.md lists the runs of REACHABLE that are not in lab/results/paper/records, with
estimates; README.md has the methods side by side at n = 512.
"""

import json
import re
from pathlib import Path
from typing import Any

from lmma._text import readable_time
from lmma_lab.analysis.figures import NAMES, problem_name
from lmma_lab.analysis.tables import by_method
from lmma_lab.presets import (
    ACMA,
    CMA,
    CURVES,
    ENOUGH_FOR_VD,
    LM,
    LMCMA,
    MA,
    ROTATED,
    SIX,
    VD,
)
from lmma_lab.report.tables import markdown_table
from lmma_lab.schedule.eta import Clock
from lmma_lab.tasks import Grid, Solve, task_from, unique

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "lab" / "results" / "paper"
N = 512  # of the table in the README

# What two cores can do of the preset ``paper`` in a day: fewer seeds as n grows, no full matrix beyond 1,024
REACHABLE = (
    Grid(SIX, (LM,), (128, 256), 5),
    Grid(SIX, (LM,), (512,), 3),
    Grid(SIX, (LM,), (1024,), 1),
    Grid(("sphere", "cigar", "different-powers", "ellipsoid"), (LM,), (2048, 4096), 1),
    Grid(("sphere", "cigar"), (LM,), (8192,), 1),
    Grid(tuple(f"rotated-{name}" for name in CURVES), (LM,), (256, 512), 5),
    Grid(SIX, (MA, LMCMA), (128, 256, 512, 1024), 1),
    Grid(SIX, (VD,), (128, 256, 512, 1024), 1, ENOUGH_FOR_VD),
    Grid(ROTATED, (VD,), (128, 256, 512), 1, ENOUGH_FOR_VD),
    Grid(SIX, (CMA, ACMA), (128, 256, 512), 1),
)

# Seconds a generation, on the machine of the records; only where no record tells the growth they are used
CALIBRATION = {(LM, 128): 3.0e-5, (LM, 2048): 2.7e-4, (MA, 128): 8.9e-5, (MA, 512): 7.8e-4}

Record = dict[str, Any]
Group = tuple[str, int]  # method and n


def records() -> list[Record]:
    """Return all that are committed."""
    return [
        json.loads(line)
        for path in sorted((RESULTS / "records").glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def missing(found: list[Record]) -> dict[Group, dict[Solve, float]]:
    """Return the runs of REACHABLE that are not among the records, with about how many seconds they take."""
    clock, done = Clock(CALIBRATION), set()
    for record in found:
        task = task_from(record["kind"], record["spec"])
        clock.learn(task, record)
        done.add(task.key)
    groups: dict[Group, dict[Solve, float]] = {}
    for run in _reachable():
        if run.key not in done:
            rotated = ", rotated" if "rotated-" in run.problem else ""
            group = groups.setdefault((NAMES[run.method] + rotated, run.n), {})
            group[run] = clock.expected(run)
    return groups


def _reachable() -> list[Solve]:
    return unique(task for grid in REACHABLE for task in grid.tasks())


def not_run(groups: dict[Group, dict[Solve, float]]) -> str:
    """Return the missing runs as a table below a sentence."""
    head = ["method", "n", "runs", "functions", "one core"]
    rows = []
    for (method, n), runs in groups.items():
        names = dict.fromkeys(run.problem.removeprefix("rotated-") for run in runs)
        rows.append([method, f"{n:,}", str(len(runs)), ", ".join(names), readable_time(sum(runs.values()))])
    count = sum(map(len, groups.values()))
    seconds = sum(sum(runs.values()) for runs in groups.values())
    lead = (
        f"Of {len(_reachable())} runs that two cores can do in a day, {count} are not here. They need about "
        f"{readable_time(seconds)} of one core, by the growth of the times in these records:"
    )
    return f"{lead}\n\n{markdown_table([head, *rows], right=(1, 2, 4))}"


def side_by_side(found: list[Record], groups: dict[Group, dict[Solve, float]]) -> str:
    """Return the table of the six methods at one n; a cell without runs says how long one would take."""
    rows = by_method(found, N)
    head = ["function", *(NAMES[method] for method in (LM, MA, LMCMA, VD, CMA, ACMA))]
    waiting = {
        (method, problem_name(run.problem)): f"not run ({readable_time(seconds)})"
        for (method, n), runs in groups.items()
        for run, seconds in runs.items()
        if n == N
    }
    body = [
        [row["function"], *(row.get(m) or waiting.get((m, row["function"]), "not run") for m in head[1:])]
        for row in rows
    ]
    return markdown_table([head, *body], right=range(1, len(head)))


def with_part(text: str, name: str, made: str) -> str:
    """Return a page whose part between the marks is what was made."""
    begin, end = f"<!-- {name}: made by docs/tools/paper.py -->\n", f"<!-- end of {name} -->"
    pattern = re.escape(begin) + ".*?" + re.escape(end)
    return re.sub(pattern, lambda _: f"{begin}\n{made.strip()}\n\n{end}", text, count=1, flags=re.DOTALL)


def pages() -> dict[Path, str]:
    """Return what the pages should say."""
    found = records()
    groups = missing(found)
    parts = {
        RESULTS / "README.md": ("not run", not_run(groups)),
        ROOT / "README.md": ("methods", side_by_side(found, groups)),
    }
    return {
        path: with_part(path.read_text(encoding="utf-8"), name, made) for path, (name, made) in parts.items()
    }


def main() -> None:
    """Write them."""
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
