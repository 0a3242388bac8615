"""Records as flat rows, one table for each kind."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lmma.experiments.analysis.samples import Evidence
from lmma.output.tables import columns_of, text_table
from lmma.store import Record

Rows = list[dict[str, Any]]


def runs(records: Iterable[Record]) -> Rows:
    """Return one row for each run, without its curve."""
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
    """Return one row for each time, memory and invariance measured."""
    rows: Rows = []
    for record in records:
        spec, kind = record["spec"], record["kind"]
        row = {"kind": kind, "method": spec.get("method"), "n": spec.get("n")}
        if kind == "timing":
            seconds = record["seconds"]
            row |= {"quantity": "CPU seconds a sample, best", "value": _plain(seconds["best"])}
            rows.append(
                row | {"quantity": "CPU seconds a sample, median", "value": _plain(seconds["median"])}
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
    """Return one row for each problem, method and n: successes, median evaluations and seconds."""
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


def _plain(value: Any) -> Any:
    return float(f"{value:.6g}") if isinstance(value, float) else value


def as_text(rows: Rows) -> str:
    """Return rows as an aligned table for a terminal."""
    return text_table(*columns_of(rows)) if rows else "(nothing)"
