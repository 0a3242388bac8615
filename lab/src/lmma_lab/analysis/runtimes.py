"""Empirical runtime distributions from records of COCO's suites: figures, tables and files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lmma._files import write_text
from lmma_lab.analysis.samples import Records
from lmma_lab.peers import PEERS
from lmma_lab.plotting.data import FigureData, Panel, Series
from lmma_lab.plotting.paper import write_pictures
from lmma_lab.report.tables import as_csv, markdown_table
from lmma_lab.schedule.coco import TARGETS
from lmma_lab.store import Record
from lmma_lab.tasks import KINDS, LargeScale

GROUPS = {
    "separable, f1 to f5": range(1, 6),
    "moderate, f6 to f9": range(6, 10),
    "ill-conditioned, f10 to f14": range(10, 15),
    "multimodal, f15 to f19": range(15, 20),
    "weak structure, f20 to f24": range(20, 25),
    "all": range(1, 25),
}
GROUPS_OF: dict[str, dict[str, range]] = {  # suites with other groups
    "bbob-constrained": {
        "sphere, ellipsoids, slope, f1 to f24": range(1, 25),
        "discus, cigar, powers, f25 to f42": range(25, 43),
        "Rastrigin, f43 to f54": range(43, 55),
        "all": range(1, 55),
    },
    "bbob-noisy": {
        "moderate noise, f101 to f106": range(101, 107),
        "severe noise, f107 to f121": range(107, 122),
        "severe, multimodal, f122 to f130": range(122, 131),
        "all": range(101, 131),
    },
}
PROTOCOLS = {  # start and scoring of runs; other suites follow BBOB's workshops
    "bbob-constrained": "A target counts as reached at a point that is feasible within 1e-8. Runs start at "
    "COCO's own point with sigma0 = 2; a run that ends early restarts with twice the population (except "
    "COBYQA).",
    "bbob-mixint": "Runs start uniformly within the bounds, with steps of 0.3 of each variable's range; a "
    "run that ends early restarts with twice the population.",
    "bbob-noisy": "The returned point is scored: the median of 1,001 values there is compared with that at "
    'the optimum. One run, start uniform in [-4, 4]^n, sigma0 = 2; lmma with `noise="auto"`, pycma with its '
    "`NoiseHandler` (up to 30 evaluations).",
}
DEFAULT_PROTOCOL = (
    "Runs start uniformly in [-4, 4]^n with sigma0 = 2. A restart has twice the population and begins at a "
    "point drawn normally around the first start, as in `lmma.minimize`."
)
STEPS = 20  # points of a curve per factor of ten


def distribution(records: Records, grid: Sequence[float]) -> list[float]:
    """Return the share of all targets reached within each of ``grid`` evaluations per variable.

    All functions have the same weight, regardless of the number of instances.
    """
    shares = []
    for group in _by(records, "function").values():
        met = [hit / r["spec"]["n"] for r in group for hit in r["hits"] if hit is not None]
        total = sum(len(r["hits"]) for r in group)
        shares.append(np.searchsorted(np.sort(met), grid, side="right") / total)
    return [float(share) for share in np.mean(shares, axis=0)]


def runtime_figure(records: Records, n: int, order: Sequence[str] = ()) -> FigureData:
    """Return the distributions at ``n``, with one panel per group and one for all; peers are dashed."""
    here = [r for r in records if r["spec"]["n"] == n]
    most = max(r["spec"]["budget"] for r in here) / n
    grid = [10 ** (k / STEPS) for k in range(int(np.ceil(np.log10(most) * STEPS)) + 1)]
    panels = []
    for title, members in GROUPS_OF.get(_suite(here), GROUPS).items():
        series = tuple(
            Series(method, tuple(grid), tuple(distribution(part, grid)), dashed=method in PEERS)
            for method, part in _by([r for r in here if r["spec"]["function"] in members], "method").items()
        )
        panels.append(Panel(title, "evaluations / n", "share of targets", series, log_y=False))
    return FigureData(
        f"runtimes-{n}",
        f"{_suite(here)}, n = {n}",
        "Share of 51 targets, f - f_opt from 100 to 1e-8, reached within the given evaluations.",
        tuple(panels),
        order=tuple(order),
    )


def shares(records: Records) -> list[dict[str, Any]]:
    """Return for each n and method the share of targets met in the end, by group of functions."""
    rows = []
    for n, at_n in sorted(_by(records, "n").items()):
        for method, part in _by(at_n, "method").items():
            row: dict[str, Any] = {"n": n, "method": method, "runs": len(part)}
            for title, members in GROUPS_OF.get(_suite(part), GROUPS).items():
                group = [r for r in part if r["spec"]["function"] in members]
                row[title] = f"{distribution(group, [np.inf])[0]:.3f}" if group else ""
            rows.append(row)
    return rows


def publish_runtimes(records: Records, out: Path, command: str, order: Sequence[str] = ()) -> str:
    """Write figures, CSV and a page of Markdown to ``out``; return the table of shares."""
    rows = shares(sorted(records, key=lambda r: _rank(order, r["spec"]["method"])))
    table = markdown_table([list(rows[0]), *([str(cell) for cell in row.values()] for row in rows)])
    pictures = []
    for n in sorted({r["spec"]["n"] for r in records}):
        data = runtime_figure(records, n, order)
        write_text(out / f"{data.name}.csv", as_csv(_thinned(data)))
        if write_pictures(data, out):
            pictures.append(f"![{data.title}]({data.name}.png)")
    write_text(out / "runs.csv", as_csv(_runs(records)))
    budgets = sorted({r["spec"]["budget"] // r["spec"]["n"] for r in records})
    functions = len({r["spec"]["function"] for r in records})
    text = [
        f"# Empirical distributions of runtimes on {_suite(records)}",
        f"Share of 51 targets, f - f_opt from 100 to 1e-8, reached with a budget of {_either(budgets)} "
        f"evaluations per variable, over {functions} functions with equal weights. "
        f"{PROTOCOLS.get(_suite(records), DEFAULT_PROTOCOL)} Written by",
        f"    {command}",
        table,
        *pictures,
        f"Versions: {_versions(records)}. The runs are in [runs.csv](runs.csv).",
    ]
    write_text(out / "README.md", "\n\n".join(text) + "\n")
    return table


def _suite(records: Records) -> str:
    """Return the name of COCO's suite to which the records belong."""
    kind = KINDS[records[0]["kind"]]
    assert issubclass(kind, LargeScale)
    return kind.suite


def _thinned(data: FigureData) -> list[dict[str, Any]]:
    """Return every fifth point and the last point of each curve."""
    return [
        {"functions": panel.title, "method": s.label, "evaluations/n": f"{x:.4g}", "share": f"{y:.4f}"}
        for panel in data.panels
        for s in panel.series
        for i, (x, y) in enumerate(zip(s.x, s.y, strict=True))
        if i % 5 == 0 or i == len(s.x) - 1
    ]


def _runs(records: Records) -> list[dict[str, Any]]:
    shown = {f"evaluations to {TARGETS[i]:.0e}": i for i in (5, 15, 25, 35, 50)}
    rows = [
        {
            **{name: r["spec"][name] for name in ("n", "method", "function", "instance", "budget")},
            "targets met": sum(hit is not None for hit in r["hits"]),
            "precision": r["precision"],
            "evaluations": r["evaluations"],
            "restarts": _restarts(r),
            **{name: r["hits"][i] for name, i in shown.items()},
        }
        for r in records
    ]
    return sorted(rows, key=lambda row: (row["n"], row["method"], row["function"], row["instance"]))


def _restarts(record: Record) -> int:
    """Return the number of restarts; records of lmma 0.1.0 hold the number of runs."""
    return int(record["restarts"] if "restarts" in record else record["legs"] - 1)


def _by(records: Records, name: str) -> dict[Any, list[Record]]:
    groups: dict[Any, list[Record]] = defaultdict(list)
    for record in records:
        groups[record["spec"][name]].append(record)
    return groups


def _rank(order: Sequence[str], method: str) -> tuple[int, str]:
    return (order.index(method) if method in order else len(order), method)


def _versions(records: Records) -> str:
    found = {f"{k} {v}" for r in records for k, v in r["versions"].items() if k not in ("python", "kernels")}
    return ", ".join(sorted(found))


def _either(values: Sequence[int]) -> str:
    return " or ".join(f"{value:,}" for value in values)
