"""Planning of a limited time: tasks for undecided claims first, then those for the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lmma._text import readable_time
from lmma_lab.claims import judge
from lmma_lab.claims.ledger import Claim
from lmma_lab.store import Record
from lmma_lab.tasks import Solve, Task

GROUPS_SHOWN = 12  # groups of tasks listed individually


@dataclass(frozen=True)
class Plan:
    """Tasks in order of priority, and the number that fit into the time.

    Attributes
    ----------
    tasks : tuple of Task
        All tasks, those that fit first.
    seconds : dict
        Estimated duration of each task, by its key.
    reached : int
        Number of leading tasks that fit.
    open : tuple of Claim
        Claims without a verdict that depend on at least one task.
    """

    tasks: tuple[Task, ...]
    seconds: dict[str, float]
    reached: int
    open: tuple[Claim, ...]

    def summary(self) -> str:
        """Return a description of the tasks that fit and of those that do not."""
        first, rest = self.tasks[: self.reached], self.tasks[self.reached :]
        lines = [f"Planned: {len(first)} of {len(self.tasks)} tasks, about {self._core_time(first)}."]
        tried = [c.id for c in self.open if any(c.about(task) for task in first)]
        if tried:
            lines.append(f"Tasks for claims that lack data come first: {', '.join(tried)}.")
        if not rest:
            return "\n".join(lines)
        lines.append(f"Not reached: {len(rest)} tasks, about {self._core_time(rest)}.")
        counts = Counter(map(_group, rest))
        groups = dict.fromkeys(counts, 0.0)
        for task in rest:
            groups[_group(task)] += self.seconds[task.key]
        shown = sorted(groups, key=lambda name: groups[name])
        lines += [
            f"  {name}: {counts[name]}, about {readable_time(groups[name])}" for name in shown[:GROUPS_SHOWN]
        ]
        if len(shown) > GROUPS_SHOWN:
            left = sum(groups[name] for name in shown[GROUPS_SHOWN:])
            lines.append(f"  and {len(shown) - GROUPS_SHOWN} more groups, about {readable_time(left)}")
        untouched = [c.id for c in self.open if c.id not in tried]
        if untouched:
            lines.append(f"Claims without any planned task: {', '.join(untouched)}.")
        return "\n".join(lines)

    def _core_time(self, tasks: Iterable[Task]) -> str:
        return f"{readable_time(sum(self.seconds[task.key] for task in tasks))} of one core"


def plan(
    tasks: Sequence[Task], records: Sequence[Record], expected: Callable[[Task], float], seconds: float
) -> Plan:
    """Return ``tasks`` in order of priority, and the number that fit into ``seconds`` of one core.

    Exclusive tasks come first, then tasks for claims without a verdict. Ties are broken by the number of
    runs in the task's cell (function, method, n), then by duration. A task that does not fit is skipped;
    shorter ones may still fit.
    """
    undecided = tuple(
        row.claim
        for row in judge(records)
        if row.finding.verdict == "not enough data" and any(row.claim.about(task) for task in tasks)
    )
    cells = Counter(_cell(record["spec"]) for record in records if record["kind"] == "run")
    times = {task.key: expected(task) for task in tasks}
    runs_before: dict[str, int] = {}
    for task in tasks:  # number the runs of each cell
        if isinstance(task, Solve):
            cell = (task.problem, task.method, task.n)
            runs_before[task.key] = cells[cell]
            cells[cell] += 1

    def order(task: Task) -> tuple[bool, bool, int, float]:
        decides = any(claim.about(task) for claim in undecided)
        return (not task.exclusive, not decides, runs_before.get(task.key, 0), times[task.key])

    first: list[Task] = []
    later: list[Task] = []
    left = seconds
    for task in sorted(tasks, key=order):
        fits = times[task.key] <= left
        (first if fits else later).append(task)
        left -= times[task.key] if fits else 0.0
    return Plan((*first, *later), times, len(first), undecided)


def _cell(spec: Record) -> tuple[str, str, int]:
    return (spec["problem"], spec["method"], spec["n"])


def _group(task: Task) -> str:
    if isinstance(task, Solve):
        return f"runs of {task.method}, n = {task.n:,}"
    return f"{task.kind}s"
