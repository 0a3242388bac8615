"""Seconds to the target by function and n, from records of timed runs: a table, a figure and files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lmma._files import write_text
from lmma_lab.analysis.samples import Records
from lmma_lab.peers import PEERS
from lmma_lab.plotting.data import FigureData, Panel, Series, Unreached
from lmma_lab.plotting.paper import write_pictures
from lmma_lab.report.tables import as_csv, markdown_table
from lmma_lab.store import Record

SHORT = {"maxtime": "too slow", "maxfevals": "too many", "stuck": "stuck", "tolfun": "stuck", "flat": "stuck"}


def seconds_table(records: Records, methods: Sequence[str]) -> str:
    """Return a table of CPU seconds to the target, one row per n and function, with the minimum in bold."""
    cells = {(r["spec"]["n"], r["spec"]["problem"], r["spec"]["method"]): r for r in records}
    head = ["n", "function", *methods]
    rows = [
        [str(n), problem, *_row([cells.get((n, problem, method)) for method in methods])]
        for n, problem in _cases(records)
    ]
    return markdown_table([head, *rows])


def wins(records: Records, method: str) -> tuple[int, int]:
    """Return the number of cases in which ``method`` is faster than all other packages, and of all cases."""
    ahead, cases = 0, _cases(records)
    for case in cases:
        here = {
            r["spec"]["method"]: r["cpu_seconds"]
            for r in records
            if (r["spec"]["n"], r["spec"]["problem"]) == case and r["success"]
        }
        others = [seconds for name, seconds in here.items() if name in PEERS]
        ahead += method in here and here[method] < min(others, default=float("inf"))
    return ahead, len(cases)


def seconds_figure(records: Records, methods: Sequence[str]) -> FigureData:
    """Return a figure of CPU seconds to the target over n, one panel per function, with peers dashed.

    Runs that did not reach the target are marked at the time they ended.
    """
    panels = []
    for problem in dict.fromkeys(problem for _, problem in _cases(records)):
        series = []
        for method in methods:
            here = [r for r in records if (r["spec"]["problem"], r["spec"]["method"]) == (problem, method)]
            points = sorted((r["spec"]["n"], r["cpu_seconds"]) for r in here if r["success"])
            x, y = zip(*points, strict=True) if points else ((), ())
            ended = [
                Unreached(r["spec"]["n"], r["cpu_seconds"], SHORT.get(r["reason"], "failed"))
                for r in here
                if not r["success"]
            ]
            if here:
                series.append(Series(method, x, y, dashed=method in PEERS, unreached=tuple(ended)))
        panels.append(Panel(problem, "variables n", "seconds to the target", tuple(series)))
    return FigureData(
        "seconds", "Seconds to the target, one core", "CPU seconds to the target, one run each."
,
        tuple(panels), columns=4, order=tuple(methods),
    )  # fmt: skip


def publish_seconds(records: Records, out: Path, command: str, methods: Sequence[str]) -> str:
    """Write the figure, a CSV file and a Markdown page to ``out``; return the table and a summary."""
    table = seconds_table(records, methods)
    lines = []
    for method in (method for method in methods if method not in PEERS):
        ahead, cases = wins(records, method)
        lines.append(f"{method} is faster than every other package in {ahead} of {cases} cases.")
    data = seconds_figure(records, methods)
    write_text(out / "seconds.csv", as_csv([_flat(r) for r in records]))
    picture = [f"![{data.title}]({data.name}.png)"] if write_pictures(data, out) else []
    targets = sorted({r["spec"]["target"] for r in records})
    text = [
        "# Seconds to the target",
        f"CPU seconds of one run on one core until f <= {' or '.join(f'{t:g}' for t in targets)}. All "
        "methods have the same start and step size and evaluate a generation in one call. Imports and "
        "just-in-time compilation are not counted. Written by",
        f"    {command}",
        table,
        *lines,
        *picture,
        f"Versions: {_versions(records)}. The runs are in [seconds.csv](seconds.csv).",
    ]
    write_text(out / "README.md", "\n\n".join(text) + "\n")
    return "\n\n".join([table, *lines])


def _cases(records: Records) -> list[tuple[int, str]]:
    """Return n and function of all records, sorted by n and then in order of appearance."""
    found = dict.fromkeys((r["spec"]["n"], r["spec"]["problem"]) for r in records)
    return sorted(found, key=lambda case: case[0])


def _row(records: Sequence[Record | None]) -> list[str]:
    reached = [r["cpu_seconds"] for r in records if r is not None and r["success"]]
    return [_cell(r, min(reached, default=0.0)) for r in records]


def _cell(record: Record | None, least: float) -> str:
    if record is None:
        return ""
    if not record["success"]:
        return SHORT.get(record["reason"], "failed")
    text = f"{record['cpu_seconds']:.2g}"
    return f"**{text}**" if record["cpu_seconds"] == least else text


def _flat(record: Record) -> dict[str, Any]:
    spec = ("n", "problem", "method", "seed", "budget", "patience", "target", "sigma0")
    found = ("success", "cpu_seconds", "seconds", "evaluations", "best_fun", "reason")
    return {name: record["spec"][name] for name in spec} | {name: record[name] for name in found}


def _versions(records: Records) -> str:
    found = {f"{k} {v}" for r in records for k, v in r["versions"].items() if k not in ("python", "kernels")}
    return ", ".join(sorted(found))
