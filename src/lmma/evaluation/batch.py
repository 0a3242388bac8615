"""One generation under evaluation by workers: which rows are pending, which came back, which failed."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from lmma.evaluation.base import Evaluator, Values
from lmma.evaluation.failures import Failure, TaskFailure

Failures = dict[int, tuple[TaskFailure, int]]  # first row -> why it and those after it failed, how many

RETRIES = 2  # how often a candidate whose worker died is begun again


class EvaluationBatch:
    """The rows of one generation as tasks, each named by its first row.

    Parameters
    ----------
    rows : int
        Candidates of the generation.
    block : int
        Rows per task.
    quorum : float
        Share of the rows that is enough.
    """

    def __init__(self, rows: int, block: int = 1, quorum: float = 1.0) -> None:
        self.block = block
        self.queue = list(range(0, rows, block))  # first rows of tasks no worker has
        self.pending = np.ones(rows, dtype=np.bool_)  # rows without an answer
        self.values: Values = np.full(rows, np.nan)
        self.beside: dict[int, Values] = {}  # constraints, by row, where fun returns them
        self.failures: Failures = {}
        self.needed = max(1, math.ceil(quorum * rows - 1e-9))
        self.deaths: dict[int, int] = {}  # of workers under a task, by its first row
        self._sizes: dict[int, int] = {}  # rows of tasks that were split, by first row

    @property
    def complete(self) -> bool:
        """Whether enough answers are there."""
        return len(self.pending) - int(np.count_nonzero(self.pending)) >= self.needed

    def rows_at(self, first: int) -> int:
        """Return how many rows the task that starts at ``first`` has."""
        return self._sizes.get(first) or min(self.block, len(self.pending) - first)

    def take(self, first: int, values: Values, beside: Iterable[Values] | None = None) -> None:
        """Take values, and what stands beside each, as the answer for the rows from ``first`` on."""
        self.values[first : first + len(values)] = values
        self.pending[first : first + len(values)] = False
        if beside is not None:
            self.beside |= {first + k: numbers for k, numbers in enumerate(beside)}

    def fail(self, first: int, failed: TaskFailure, rows: int | None = None) -> None:
        """Take a failure as the answer for a whole task, or for ``rows`` rows."""
        rows = self.rows_at(first) if rows is None else rows
        self.failures[first] = (failed, rows)
        self.pending[first : first + rows] = False

    def time_out(self, first: int, timeout: float) -> None:
        """Take it as an answer that there was none in time."""
        self.fail(first, TaskFailure(Failure("timeout", f"no value after timeout = {timeout:g} s")))

    def pending_tasks(self) -> list[int]:
        """Return the first rows of tasks without an answer."""
        return [first for first in range(0, len(self.pending), self.block) if self.pending[first]]

    def split(self, first: int) -> list[int]:
        """Make every row of a task a task of its own; return their first rows."""
        rows = range(first, first + self.rows_at(first))
        self._sizes.update(dict.fromkeys(rows, 1))
        return list(rows)

    def unanswered(self) -> list[int]:
        """Return the rows without an answer."""
        return [int(row) for row in np.flatnonzero(self.pending)]

    def retry(self, first: int, worker: str) -> None:
        """Put a task under which a worker died back in front, or fail it if it has killed too often."""
        self.deaths[first] = self.deaths.get(first, 0) + 1
        if self.deaths[first] > RETRIES:
            self.fail(first, TaskFailure(Failure("died", f"the {worker} died {RETRIES + 1} times on it")))
        else:
            self.queue.insert(0, first)


def settled(evaluator: Evaluator, batch: EvaluationBatch) -> Values:
    """Return the values of a batch, after counting failures in the order of candidates, not of arrival."""
    late = int(np.count_nonzero(batch.pending))
    evaluator.dropped += late
    evaluator.late = batch.pending.copy() if late else None
    returned = ~batch.pending
    for first, (_, rows) in batch.failures.items():
        returned[first : first + rows] = False
    evaluator.answered = evaluator.answered or bool(returned.any())
    for first in sorted(batch.failures):
        evaluator.fail(*batch.failures[first])
    values = np.full(len(returned), np.nan)
    values[returned] = evaluator.finite(batch.values[returned])
    return evaluator.with_beside(values, {row: g for row, g in batch.beside.items() if returned[row]})
