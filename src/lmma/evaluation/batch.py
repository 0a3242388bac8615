"""One generation under evaluation by workers: pending, finished and failed rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from lmma.evaluation.base import Answers, Array, Evaluator, Values
from lmma.evaluation.cache import Cache, Evaluated, Outcome
from lmma.evaluation.failures import Failure, TaskFailure

Failures = dict[int, tuple[TaskFailure, int]]  # first row -> failure, number of rows it applies to

RETRIES = 2  # times a task is repeated after its worker died


class EvaluationBatch:
    """The tasks of one generation, each identified by its first row.

    Parameters
    ----------
    rows : int
        Number of candidates.
    block : int
        Rows per task.
    quorum : float
        Share of the rows needed to complete the batch.
    """

    def __init__(self, rows: int, block: int = 1, quorum: float = 1.0) -> None:
        self.block = block
        self.queue = list(range(0, rows, block))  # first rows of tasks not yet assigned
        self.pending = np.ones(rows, dtype=np.bool_)  # rows without an answer
        self.values: Values = np.full(rows, np.nan)
        self.constraint_values: dict[int, Values] = {}  # by row
        self.failures: Failures = {}
        self.needed = max(1, math.ceil(quorum * rows - 1e-9))
        self.deaths: dict[int, int] = {}  # worker deaths by task
        self._sizes: dict[int, int] = {}  # rows per task, for tasks that were split
        self._cache: Cache | None = None
        self._candidates: Array | None = None  # this and the next two are used with a cache
        self._keys: list[bytes] = []
        self._copies: dict[int, list[int]] = {}  # row -> later rows with the same candidate

    def use_cache(self, cache: Cache, candidates: Array) -> None:
        """Look up the candidates in ``cache``; evaluate unknown ones once, and add them when they return."""
        self._cache, self._candidates = cache, candidates
        self._keys = [cache.key(x) for x in candidates]
        if not cache.reuses:
            return
        firsts: dict[bytes, int] = {}
        for row, key in enumerate(self._keys):
            first = firsts.setdefault(key, row)
            if first != row:
                self._copies.setdefault(first, []).append(row)
        for key, row in firsts.items():
            known = cache.find(key)
            if known is not None:
                for same in (row, *self._copies.get(row, ())):
                    self._fill(same, known)
        self.queue.clear()
        for row in firsts.values():
            if not self.pending[row]:
                continue
            task = self.queue[-1] if self.queue else row
            size = self._sizes.get(task, 0)
            if task + size == row and size < self.block:
                self._sizes[task] = size + 1
            else:
                self._sizes[row] = 1
                task = row
            if not self.queue or self.queue[-1] != task:
                self.queue.append(task)

    @property
    def complete(self) -> bool:
        """True if enough rows have an answer."""
        return len(self.pending) - int(np.count_nonzero(self.pending)) >= self.needed

    def rows_at(self, first: int) -> int:
        """Return the number of rows of the task that starts at ``first``."""
        return self._sizes.get(first) or min(self.block, len(self.pending) - first)

    def record_values(
        self,
        first: int,
        values: Values,
        constraint_values: Iterable[Values] | None = None,
        *,
        seconds: float = math.nan,
        worker: str = "",
    ) -> None:
        """Record values, and constraints if any, for the rows starting at ``first``.

        ``seconds`` is the time per row and ``worker`` the name of the worker, if known.
        """
        self.values[first : first + len(values)] = values
        self.pending[first : first + len(values)] = False
        if constraint_values is not None:
            self.constraint_values |= {first + k: numbers for k, numbers in enumerate(constraint_values)}
        if self._cache is not None:
            self._remember(range(first, first + len(values)), seconds, worker)

    def record_failure(
        self,
        first: int,
        failed: TaskFailure,
        rows: int | None = None,
        *,
        seconds: float = math.nan,
        worker: str = "",
    ) -> None:
        """Record a failure for a whole task, or for ``rows`` rows."""
        rows = self.rows_at(first) if rows is None else rows
        self.pending[first : first + rows] = False
        if self._cache is None:
            self.failures[first] = (failed, rows)
            return
        each = range(first, first + rows)  # one by one, as they are found in the cache later
        self.failures |= dict.fromkeys(each, (failed, 1))
        self._remember(each, seconds, worker)

    def record_rows(
        self, rows: Sequence[int], answers: Answers | TaskFailure, seconds: float, worker: str = ""
    ) -> None:
        """Record the values or the failure of one call that evaluated ``rows``."""
        if isinstance(answers, TaskFailure):
            self.failures |= dict.fromkeys(rows, (answers, 1))
        else:
            self.values[rows] = answers[0]
            if answers[1] is not None:
                self.constraint_values |= dict(zip(rows, answers[1], strict=True))
        self.pending[rows] = False
        self._remember(rows, seconds, worker)

    def _fill(self, row: int, known: Outcome) -> None:
        """Record a known outcome."""
        self.pending[row] = False
        if known.failed is not None:
            self.failures[row] = (known.failed, 1)
            return
        self.values[row] = known.value
        if known.constraint_values is not None:
            self.constraint_values[row] = known.constraint_values

    def _outcome(self, row: int) -> Outcome:
        if row in self.failures:
            return Outcome(failed=self.failures[row][0])
        return Outcome(float(self.values[row]), self.constraint_values.get(row))

    def _remember(self, rows: Sequence[int], seconds: float, worker: str) -> None:
        """Add answered rows to the cache, and record their outcome for the same candidates in later rows."""
        if self._cache is None or self._candidates is None:
            return
        outcomes = {row: self._outcome(row) for row in rows}
        self._cache.add([
            Evaluated(self._keys[row], self._candidates[row], outcome, seconds, worker)
            for row, outcome in outcomes.items()
        ])  # fmt: skip
        for row, outcome in outcomes.items():
            for same in self._copies.get(row, ()):
                self._fill(same, outcome)

    def record_timeout(self, first: int, timeout: float, worker: str = "") -> None:
        """Record a timeout for this task."""
        failed = TaskFailure(Failure("timeout", f"no value within timeout = {timeout:g} s"))
        self.record_failure(first, failed, seconds=timeout, worker=worker)

    def pending_tasks(self) -> list[int]:
        """Return the first rows of tasks without an answer."""
        if self._cache is not None and self._cache.reuses:
            return [first for first in self._sizes if self.pending[first]]
        return [first for first in range(0, len(self.pending), self.block) if self.pending[first]]

    def split(self, first: int) -> list[int]:
        """Split a task into tasks of one row each; return their first rows."""
        rows = range(first, first + self.rows_at(first))
        self._sizes.update(dict.fromkeys(rows, 1))
        return list(rows)

    def unanswered(self) -> list[int]:
        """Return the rows without an answer."""
        return [int(row) for row in np.flatnonzero(self.pending)]

    def retry(self, first: int, worker: str) -> None:
        """Requeue a task whose worker died; fail it after more than RETRIES deaths."""
        self.deaths[first] = self.deaths.get(first, 0) + 1
        if self.deaths[first] > RETRIES:
            self.record_failure(
                first, TaskFailure(Failure("died", f"the {worker} died {RETRIES + 1} times on this task"))
            )
        else:
            self.queue.insert(0, first)


def new_batch(
    evaluator: Evaluator, candidates: Array, block: int = 1, quorum: float = 1.0
) -> EvaluationBatch:
    """Return a batch of ``candidates``; those in the cache of ``evaluator`` are already answered."""
    batch = EvaluationBatch(len(candidates), block, quorum)
    if evaluator.cache is not None:
        batch.use_cache(evaluator.cache, candidates)
    return batch


def collect_values(evaluator: Evaluator, batch: EvaluationBatch) -> Values:
    """Return the values of a batch; count failures in candidate order, to be reproducible."""
    late = int(np.count_nonzero(batch.pending))
    evaluator.late = batch.pending.copy() if late else None
    returned = ~batch.pending
    for first, (_, rows) in batch.failures.items():
        returned[first : first + rows] = False
    for first in sorted(batch.failures):
        evaluator.answered = evaluator.answered or bool(returned[:first].any())
        evaluator.fail(*batch.failures[first])
    evaluator.answered = evaluator.answered or bool(returned.any())
    values = np.full(len(returned), np.nan)
    values[returned] = evaluator.mark_nonfinite(batch.values[returned])
    return evaluator.store_constraint_values(
        values, {row: g for row, g in batch.constraint_values.items() if returned[row]}
    )
