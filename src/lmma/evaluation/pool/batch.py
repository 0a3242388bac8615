"""One generation under evaluation by workers: what is open, what came back, what went wrong."""

from __future__ import annotations

import math
import pickle

import numpy as np

from lmma.evaluation.base import EvaluationError, Evaluator, Values

RETRIES = 2  # how often a candidate whose worker died is begun again
Problem = tuple[str, str, str, bytes, int]  # kind, message, traceback, the error pickled if it can be, rows


class Round:
    """The state of one generation."""

    def __init__(self, rows: int, block: int, quorum: float) -> None:
        self.block = block
        self.queue = list(range(0, rows, block))  # first rows of tasks not handed out yet
        self.open = np.ones(rows, dtype=np.bool_)  # rows without an answer
        self.values: Values = np.full(rows, np.nan)
        self.problems: dict[int, Problem] = {}  # by first row
        self.deaths: dict[int, int] = {}
        self.sizes: dict[int, int] = {}  # rows of tasks that were split, by first row
        self.needed = max(1, math.ceil(quorum * rows - 1e-9))
        self.suspicious = False  # whether a worker died between taking a task and saying so
        self.quiet = 0

    @property
    def closed(self) -> bool:
        """Whether enough answers are there."""
        return len(self.open) - int(np.count_nonzero(self.open)) >= self.needed

    def rows_at(self, first: int) -> int:
        """Return how many rows the task that starts at ``first`` has."""
        return self.sizes.get(first) or min(self.block, len(self.open) - first)

    def close(self, first: int, values: Values) -> None:
        """Take an answer."""
        self.values[first : first + len(values)] = values
        self.open[first : first + len(values)] = False

    def fail(self, first: int, kind: str, message: str, trace: str, itself: bytes, rows: int = 0) -> None:
        """Take a failure for an answer, of a whole task unless ``rows`` says otherwise."""
        rows = rows or self.rows_at(first)
        self.problems[first] = (kind, message, trace, itself, rows)
        self.open[first : first + rows] = False

    def missing(self) -> list[int]:
        """Return the tasks without an answer."""
        return [first for first in range(0, len(self.open), self.block) if self.open[first]]

    def split(self, first: int) -> list[int]:
        """Make every row of a task a task of its own; return their first rows."""
        rows = range(first, first + self.rows_at(first))
        self.sizes.update(dict.fromkeys(rows, 1))
        return list(rows)

    def begin_again(self, first: int, what: str) -> None:
        """Put a task whose worker died back in front, unless it has killed too often."""
        self.deaths[first] = self.deaths.get(first, 0) + 1
        if self.deaths[first] > RETRIES:
            self.fail(first, "died", f"the worker {what} died {RETRIES + 1} times on it", "", b"")
        else:
            self.queue.insert(0, first)


def settled(evaluator: Evaluator, done: Round) -> Values:
    """Return the values after noting failures in the order of candidates, not of their arrival."""
    evaluator.late = done.open.copy() if done.open.any() else None
    returned = ~done.open
    for first, problem in done.problems.items():
        returned[first : first + problem[4]] = False
    evaluator.answered = evaluator.answered or bool(returned.any())
    for first in sorted(done.problems):
        kind, message, trace, itself, count = done.problems[first]
        evaluator.refuse_mistake(kind, message)
        if evaluator.on_error == "raise":
            evaluator.close()
            error = pickle.loads(itself) if itself else EvaluationError(f"{kind}: {message}")
            error.add_note(f"In a worker process:\n{trace}" if trace else "In a worker process")
            raise error
        evaluator.note(kind, message, trace, count)
    values = np.full(len(done.open), np.nan)
    values[returned] = evaluator.finite(done.values[returned])
    return values
