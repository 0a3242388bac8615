"""Tables of records as flat rows, one table per kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lmma._text import text_table
from lmma_lab.analysis.figures import NAMES, problem_name
from lmma_lab.analysis.samples import Evidence, Sample
from lmma_lab.presets import SIX
from lmma_lab.report.tables import columns_of
from lmma_lab.store import Record

Rows = list[dict[str, Any]]


def runs(records: Iterable[Record]) -> Rows:
    """Return one row per run, without its curve."""
    wanted = (
        "success", "evaluations_to_target", "evaluations", "generations", "popsize", "best_fun", "reason",
        "seconds", "cpu_seconds", "internal_seconds",
    )  # fmt: skip
    rows = [
        {**r["spec"], **{name: _plain(r[name]) for name in wanted}, "kernels": r["versions"]["kernels"]}
        for r in records
        if r["kind"] == "run"
    ]
    return sorted(rows, key=lambda row: (row["problem"], row["method"], row["n"], row["seed"]))


def measurements(records: Iterable[Record]) -> Rows:
    """Return one row per measured time, memory or invariance."""
    rows: Rows = []
    for record in records:
        spec, kind = record["spec"], record["kind"]
        row = {"kind": kind, "method": spec.get("method"), "n": spec.get("n")}
        if kind == "timing":
            seconds = record["seconds"]
            row |= {"quantity": "CPU seconds per sample, best", "value": _plain(seconds["best"])}
            rows.append(
                row | {"quantity": "CPU seconds per sample, median", "value": _plain(seconds["median"])}
            )
        elif kind == "memory":
            row |= {"quantity": "peak bytes", "value": record["peak_bytes"]}
        elif kind == "invariance":
            row |= {
                "quantity": f"{spec['change']}, seed {spec['seed']}",
                "value": _plain(record["difference"]),
            }
        else:
            continue
        rows.append(row)
    return sorted(rows, key=lambda row: (row["kind"], row["method"], row["n"], row["quantity"]))


def medians(records: Iterable[Record]) -> Rows:
    """Return one row per problem, method and n: successes, median evaluations and seconds."""
    records = [record for record in records if record["kind"] == "run"]
    rows: Rows = []
    for protocol in sorted({(r["spec"]["target"], r["spec"]["sigma0"]) for r in records}):
        evidence = Evidence(records, protocol=protocol)
        for problem, method, n in evidence.runs:
            sample = evidence.sample(problem, method, n)
            if sample is not None:
                rows.append({
                    "problem": problem, "method": method, "n": n,
                    "reached": f"{len(sample.evaluations)}/{sample.runs}",
                    "median evaluations": round(sample.median) if sample.solved else "",
                    "median CPU seconds": float(f"{sample.median_seconds:.3g}") if sample.solved else "",
                    "most spent without success": sample.spent or "",
                })  # fmt: skip
    return rows


def by_method(records: Iterable[Record], n: int) -> Rows:
    """Return one row per function of the paper: median evaluations of every method that ran at ``n``.

    If not all runs reached the target, the cell also gives their number; if none did, the evaluations spent.
    """
    evidence = Evidence(records)
    methods = [method for method in NAMES if any((p, method, n) in evidence.runs for p in SIX)]
    rows: Rows = []
    for problem in SIX:
        row: dict[str, Any] = {"function": problem_name(problem)}
        for method in methods:
            row[NAMES[method]] = _median_cell(evidence.sample(problem, method, n))
        if any(value for name, value in row.items() if name != "function"):
            rows.append(row)
    return rows


def _median_cell(sample: Sample | None) -> str:
    if sample is None:
        return ""
    reached, runs = len(sample.evaluations), sample.runs
    if not reached:
        return f"none of {runs} in {sample.spent:,}"
    return f"{sample.median:,.0f}" + ("" if reached == runs else f" ({reached} of {runs})")


def _plain(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def as_text(rows: Rows) -> str:
    """Return rows as an aligned table for a terminal."""
    return text_table(*columns_of(rows)) if rows else "(nothing)"
