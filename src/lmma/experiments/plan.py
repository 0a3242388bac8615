"""What to do with the hours there are: first what decides a claim that lacks data, then the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from lmma.experiments.claims import judge
from lmma.experiments.claims.ledger import Claim
from lmma.experiments.tasks import Solve, Task
from lmma.output.progress import readable
from lmma.store import Record

MANY = 12  # groups of tasks that are named one by one


@dataclass(frozen=True)
class Plan:
    """Tasks in the order of what they decide, cut where the time ends.

    Attributes
    ----------
    tasks : tuple of Task
        All of them, the most deciding first.
    seconds : dict
        About how long each takes, by its key.
    reached : int
        How many of the first fit.
    open : tuple of Claim
        Claims without a verdict on which a task bears.
    """

    tasks: tuple[Task, ...]
    seconds: dict[str, float]
    reached: int
    open: tuple[Claim, ...]

    def words(self) -> str:
        """Return what will be done and what not."""
        first, rest = self.tasks[: self.reached], self.tasks[self.reached :]
        lines = [f"In this time: {len(first)} of {len(self.tasks)} tasks, about {self._long(first)}."]
        tried = [c.id for c in self.open if any(c.about(task) for task in first)]
        if tried:
            lines.append(f"First those for claims that lack data: {', '.join(tried)}.")
        if not rest:
            return "\n".join(lines)
        lines.append(f"Not reached: {len(rest)} tasks, about {self._long(rest)}.")
        counts = Counter(map(_group, rest))
        groups = dict.fromkeys(counts, 0.0)
        for task in rest:
            groups[_group(task)] += self.seconds[task.key]
        shown = sorted(groups, key=lambda name: groups[name])
        lines += [f"  {name}: {counts[name]}, about {readable(groups[name])}" for name in shown[:MANY]]
        if len(shown) > MANY:
            left = sum(groups[name] for name in shown[MANY:])
            lines.append(f"  and {len(shown) - MANY} more groups, about {readable(left)}")
        untouched = [c.id for c in self.open if c.id not in tried]
        if untouched:
            lines.append(f"No task that is reached bears on: {', '.join(untouched)}.")
        return "\n".join(lines)

    def _long(self, tasks: Iterable[Task]) -> str:
        return f"{readable(sum(self.seconds[task.key] for task in tasks))} of one core"


def plan(
    tasks: Sequence[Task], records: Sequence[Record], expected: Callable[[Task], float], seconds: float
) -> Plan:
    """Return ``tasks`` in the order of what they decide, and how many fit into ``seconds`` of one core.

    First what bears on a claim without a verdict, in cells (function, method, n) that have no run yet and
    then in others; then the rest likewise; the shorter first. Where a task does not fit, shorter ones may.
    """
    undecided = tuple(
        row.claim
        for row in judge(records)
        if row.finding.verdict == "not enough data" and any(row.claim.about(task) for task in tasks)
    )
    cells = Counter(_cell(record["spec"]) for record in records if record["kind"] == "run")
    times = {task.key: expected(task) for task in tasks}
    runs_before: dict[str, int] = {}
    for task in tasks:  # the first run of a cell, the second, ...
        if isinstance(task, Solve):
            cell = (task.problem, task.method, task.n)
            runs_before[task.key] = cells[cell]
            cells[cell] += 1

    def order(task: Task) -> tuple[bool, bool, int, float]:
        bears = any(claim.about(task) for claim in undecided)
        return (not task.exclusive, not bears, runs_before.get(task.key, 0), times[task.key])

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
