"""Forecast of the claims that a preset would decide, by applying the rules to estimated records."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from functools import cache

from lmma_lab.claims.ledger import Row, judge
from lmma_lab.presets import PRESETS, preset
from lmma_lab.schedule.eta import expected_evaluations
from lmma_lab.store import Record
from lmma_lab.tasks import Invariance, Memory, Solve, Task, Timing, unique

ATTACKS = "section 4.2"


@cache
def decided_by(name: str) -> frozenset[str]:
    """Return the ids of the claims that the expected records of a preset decide."""
    tasks = unique(task for experiment in preset(name).values() for task in experiment.tasks)
    rows = judge([_guessed(task) for task in tasks])
    return frozenset(row.claim.id for row in rows if row.decided)


def forecast(rows: Sequence[Row]) -> list[str]:
    """Return lines that name, for each preset, the open claims that it would decide."""
    left = [row.claim for row in rows if not row.decided]
    lines = []
    for name in PRESETS:
        found = [claim.id for claim in left if claim.id in decided_by(name)]
        left = [claim for claim in left if claim.id not in found]
        if found:
            lines.append(f"lmma reproduce --preset {name} decides {_these(found)}.")
    attacks = [claim.id for claim in left if claim.where.startswith(ATTACKS)]
    if attacks:
        lines.append(f"lmma attack on MNIST decides {_these(attacks)}.")
    rest = [claim.id for claim in left if claim.id not in attacks]
    if rest:
        lines.append(f"More runs than in the presets may decide {_these(rest)}.")
    return lines


def _these(ids: Sequence[str]) -> str:
    return f"{len(ids)} more: {', '.join(ids)}" if len(ids) > 1 else f"one more: {ids[0]}"


def with_measurements(rows: Iterable[Row]) -> list[Row]:
    """Return the rows with measured values, whether or not they suffice for a verdict."""
    return [row for row in rows if row.decided or not row.finding.measured.startswith("needs ")]


def _guessed(task: Task) -> Record:
    record = {"kind": task.kind, "spec": asdict(task)}
    if isinstance(task, Solve):
        evaluations = round(expected_evaluations(task))
        reached = evaluations < task.budget
        return record | {
            "success": reached,
            "evaluations_to_target": evaluations if reached else None,
            "evaluations": evaluations,
            "reason": "ftarget" if reached else "maxfevals",
            "cpu_seconds": 1e-8 * evaluations * task.n,
        }
    if isinstance(task, Timing):
        return record | {"seconds": {"best": 1e-9 * task.n}}
    if isinstance(task, Memory):
        return record | {"peak_bytes": 1000 * task.n}
    assert isinstance(task, Invariance)
    return record | {"difference": 0.0}
