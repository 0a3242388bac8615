"""Whether a record from somewhere else can be true: fields, types, and numbers that must agree."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any

from lmma.experiments.tasks import record_fault
from lmma.store import Record


def fault_of(key: str, kind: str, record: Record) -> str | None:
    """Return what cannot be right about a record that was made elsewhere, or None."""
    check = _CHECKS.get(kind)
    if check is None:
        return f"records of kind {kind!r} are not exchanged"
    if fault := record_fault(key, kind, record):
        return fault
    try:
        if record["kind"] != kind:
            return f"it says that it is a {record['kind']}"
        if not all(_is_text_map(record[name]) for name in ("versions", "machine")):
            return "it does not say which versions and which machine it comes from"
        return check(record)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        return f"it is not that of a {kind} ({type(error).__name__}: {error})"


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
        return "its counts are no counts"
    evaluations, generations, popsize = counts
    if evaluations > spec["budget"]:
        return f"it used {evaluations:,} evaluations of {spec['budget']:,}"
    if not generations <= evaluations <= generations * max(popsize, 1) + popsize:
        return f"{generations:,} generations of {popsize} do not make {evaluations:,} evaluations"
    if record["success"] is not (hit is not None):
        return "it says that the target was met, or not, and contradicts itself"
    best = record["best_fun"]
    if hit is not None and not (0 < hit <= evaluations and best <= spec["target"]):
        return "it met the target outside its evaluations, or with a value above it"
    if best is not None and hit is None and best <= spec["target"]:
        return "it has a value at the target that was not met"
    if any(not _is_time(record[name]) for name in ("seconds", "cpu_seconds", "internal_seconds")):
        return "its times are no times"
    return _curve(record["curve"], evaluations)


def _curve(curve: Mapping[str, Any], evaluations: int) -> str | None:
    x, y = curve["evaluations"], curve["best_fun"]
    if len(x) != len(y) or any(not math.isfinite(value) for value in (*x, *y)):
        return "its curve has no value for each point"
    if any(b <= a for a, b in pairwise(x)) or any(b > a for a, b in pairwise(y)):
        return "its curve goes back, or up"
    return None if not x or x[-1] <= evaluations else "its curve goes on after its end"


def _timing(record: Record) -> str | None:
    seconds = record["seconds"]
    ranked = [seconds[name] for name in ("best", "lower", "median", "upper")]
    fine = all(_is_time(value) for value in ranked) and ranked == sorted(ranked) and seconds["rounds"] > 0
    return None if fine else "its times are no times"


def _memory(record: Record) -> str | None:
    return None if isinstance(record["peak_bytes"], int) and record["peak_bytes"] > 0 else "it used no memory"


def _invariance(record: Record) -> str | None:
    return None if _is_time(record["difference"]) else "its difference is none"


def _is_time(value: Any) -> bool:
    return isinstance(value, float | int) and not isinstance(value, bool) and 0 <= value < math.inf


_CHECKS: dict[str, Callable[[Record], str | None]] = {
    "run": _run, "timing": _timing, "memory": _memory, "invariance": _invariance,
}  # fmt: skip

EXCHANGED = tuple(_CHECKS)
