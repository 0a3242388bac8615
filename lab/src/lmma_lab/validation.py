"""Validation of imported records: fields, types and consistent numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from lmma_lab.store import Record
from lmma_lab.tasks import record_fault


def fault_of(key: str, kind: str, record: Record) -> str | None:
    """Return the fault of an imported record, or None if it is valid."""
    check = _CHECKS.get(kind)
    if check is None:
        return f"records of kind {kind!r} cannot be imported"
    if fault := record_fault(key, kind, record):
        return fault
    try:
        if record["kind"] != kind:
            return f"its kind is {record['kind']!r}, expected {kind!r}"
        if not all(_is_text_map(record[name]) for name in ("versions", "machine")):
            return "its versions or machine field is missing or invalid"
        return check(record)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        return f"it is not a valid record of kind {kind!r} ({type(error).__name__}: {error})"


def _is_text_map(value: Any) -> bool:
    return isinstance(value, Mapping) and all(
        isinstance(name, str) and isinstance(entry, str | int) for name, entry in value.items()
    )


def _run(record: Record) -> str | None:
    spec, hit = record["spec"], record["evaluations_to_target"]
    counts = [record[name] for name in ("evaluations", "generations", "popsize")]
    if any(not isinstance(count, int) or count < 1 for count in counts) or not isinstance(
        record["reason"], str
    ):
        return "its counts must be integers >= 1 and its reason a string"
    evaluations, generations, popsize = counts
    if evaluations > spec["budget"]:
        return f"it used {evaluations:,} evaluations, more than its budget of {spec['budget']:,}"
    if not generations <= evaluations <= generations * max(popsize, 1) + popsize:
        return f"{generations:,} generations of {popsize} contradict its {evaluations:,} evaluations"
    if record["success"] is not (hit is not None):
        return "its success and evaluations_to_target contradict each other"
    best = record["best_fun"]
    if hit is not None and not (0 < hit <= evaluations and best <= spec["target"]):
        return "its evaluations_to_target exceeds its evaluations, or best_fun is above the target"
    if best is not None and hit is None and best <= spec["target"]:
        return "its best_fun reaches the target but evaluations_to_target is missing"
    if any(not _is_time(record[name]) for name in ("seconds", "cpu_seconds", "internal_seconds")):
        return "its times must be finite and >= 0"
    return _curve(record["curve"], evaluations)


def _curve(curve: Mapping[str, Any], evaluations: int) -> str | None:
    x, y = curve["evaluations"], curve["best_fun"]
    if len(x) != len(y) or any(not math.isfinite(value) for value in (*x, *y)):
        return "its curve must have one finite value per point"
    if any(b <= a for a, b in pairwise(x)) or any(b > a for a, b in pairwise(y)):
        return "its curve must increase in evaluations and not increase in best_fun"
    return None if not x or x[-1] <= evaluations else "its curve extends beyond its last evaluation"


def _timing(record: Record) -> str | None:
    seconds = record["seconds"]
    ranked = [seconds[name] for name in ("best", "lower", "median", "upper")]
    fine = all(_is_time(value) for value in ranked) and ranked == sorted(ranked) and seconds["rounds"] > 0
    return None if fine else "its times must be finite, >= 0 and in order"


def _memory(record: Record) -> str | None:
    fine = isinstance(record["peak_bytes"], int) and record["peak_bytes"] > 0
    return None if fine else "its peak_bytes must be a positive integer"


def _invariance(record: Record) -> str | None:
    return None if _is_time(record["difference"]) else "its difference must be finite and >= 0"


def _is_time(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and 0 <= value < math.inf


_CHECKS: dict[str, Callable[[Record], str | None]] = {
    "run": _run, "timing": _timing, "memory": _memory, "invariance": _invariance,
}  # fmt: skip

EXCHANGED = tuple(_CHECKS)
