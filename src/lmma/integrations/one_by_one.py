"""A strategy for hosts that ask for one candidate at a time and get values back in any order, or never.

Candidates are functions of (seed, generation, number): the host keeps these two integers beside each value,
and any process rebuilds the search from them. Number k stands in row k modulo the population size of its
generation. A generation is told when each row has a value; while some are out, further candidates are drawn
for the rows without one, and the first that comes back counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lmma.strategies import Strategy

Array = npt.NDArray[np.floating]
Begin = Callable[[int, int | None], Strategy]  # (number of the restart, population size) -> a new strategy


@dataclass(frozen=True)
class Outcome:
    """What is known of one candidate: its value, NaN if it failed, None while it is out."""

    generation: int  # over all restarts
    number: int
    value: float | None
    violation: float = 0.0  # of constraints, 0 if they hold


@dataclass(frozen=True)
class Candidate:
    """A point to evaluate, and what the host is to keep with it."""

    generation: int
    number: int
    x: Array


class OneByOne:
    """A search that hands out candidates one by one; it is told by what is known of all of them.

    Parameters
    ----------
    begin : callable
        Makes a new strategy from the number of the restart and a population size, None for the usual one.
    restarts : int
        How often to start again when the strategy says to stop, each time with twice the population.
    """

    def __init__(self, begin: Begin, restarts: int = 0) -> None:
        self.begin, self.restarts = begin, restarts
        self.generation = 0  # over all restarts
        self.endings: list[str] = []  # why each restart was made
        self.strategy = begin(0, None)
        self._again: dict[int, int] = {}  # rows that hold another candidate than ask() gave: the attempt

    def next(self, known: Iterable[Outcome]) -> Candidate:
        """Return the next candidate, given what is ``known``, in the order in which it came back."""
        by_generation = self._learn(known)
        begun = [0] * self.strategy.popsize
        back = [False] * self.strategy.popsize
        for outcome in by_generation.get(self.generation, []):
            row, attempt = self._place(outcome.number)
            begun[row] = max(begun[row], attempt + 1)
            back[row] |= outcome.value is not None
        row = min((r for r in range(len(begun)) if not back[r]), key=lambda r: (begun[r], r))
        number = begun[row] * self.strategy.popsize + row
        return Candidate(self.generation, number, self._draw(row, begun[row]).copy())

    def again(self, known: Iterable[Outcome], generation: int, number: int) -> Array | None:
        """Return a candidate that was handed out before; None if its generation has been told."""
        self._learn(known)
        return self._draw(*self._place(number)).copy() if generation == self.generation else None

    def _learn(self, known: Iterable[Outcome]) -> dict[int, list[Outcome]]:
        """Tell every generation that is complete; return what is known, by generation."""
        by_generation: dict[int, list[Outcome]] = {}
        for outcome in known:
            by_generation.setdefault(outcome.generation, []).append(outcome)
        while self._tell(by_generation.get(self.generation, [])):
            pass
        return by_generation

    def _tell(self, outcomes: list[Outcome]) -> bool:
        """Tell the strategy this generation if each row has a value; return whether that was so."""
        first: dict[int, Outcome] = {}
        for outcome in outcomes:
            if outcome.value is not None:
                first.setdefault(self._place(outcome.number)[0], outcome)
        if len(first) < self.strategy.popsize:
            return False
        chosen = [first[row] for row in range(self.strategy.popsize)]
        attempts = [self._place(outcome.number)[1] for outcome in chosen]
        for row, attempt in enumerate(attempts):
            self._draw(row, attempt)
        self.strategy.tell(_ranked(chosen))
        self._again = {}
        self.generation += 1
        reasons = self.strategy.stop()
        if reasons and len(self.endings) < self.restarts:
            self.endings.append(", ".join(reasons))
            self.strategy = self.begin(len(self.endings), 2 * self.strategy.popsize)
        return True

    def _place(self, number: int) -> tuple[int, int]:
        """Return the row of a candidate, and how often candidates were drawn for it before."""
        attempt, row = divmod(number, self.strategy.popsize)
        return row, attempt

    def _draw(self, row: int, attempt: int) -> Array:
        """Return a candidate, which the strategy has in its row from now on."""
        held = self._again.get(row, 0)
        if self.strategy.candidates is not None and attempt == 0 < held:
            self.strategy.set_state(
                self.strategy.get_state()
            )  # as before it was asked: all rows are drawn anew
            others = {r: a for r, a in self._again.items() if r != row}
            self._again = {}
            for other, times in others.items():
                self._draw(other, times)
        if self.strategy.candidates is None:
            self.strategy.ask()
        if attempt != self._again.get(row, 0):
            self.strategy.resample([row], attempt)
            self._again[row] = attempt
        assert self.strategy.candidates is not None
        candidate: Array = self.strategy.candidates[row]
        return candidate


def _ranked(outcomes: list[Outcome]) -> list[float]:
    """Return values as a strategy ranks them: what violates constraints comes after what does not."""
    values = [math.nan if o.value is None or not math.isfinite(o.value) else o.value for o in outcomes]
    kept = [v for v, o in zip(values, outcomes, strict=True) if o.violation <= 0 and v == v]
    worst = max(kept, default=0.0)
    return [
        v if o.violation <= 0 or v != v else worst + o.violation
        for v, o in zip(values, outcomes, strict=True)
    ]
