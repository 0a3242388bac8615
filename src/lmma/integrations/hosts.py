"""Strategies for hosts that request one candidate at a time and return values in any order, or never.

Parameters of any kind are mapped to coordinates between 0 and 1 (:class:`UnitSpace`).

Candidates are functions of (seed, generation, number). The host stores generation and number with each value,
and any process rebuilds the search from them. Candidate number k belongs to row k modulo the population size.
A generation is complete when each row has a value. Until then, further candidates are drawn for the rows
without a value, and the first result per row counts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lmma.methods import Strategy

Array = npt.NDArray[np.floating]
MakeStrategy = Callable[[int, int | None], Strategy]  # (restart number, population size) -> new strategy


@dataclass(frozen=True)
class Outcome:
    """State of one candidate: its value, NaN if it failed, None if it is pending."""

    generation: int  # over all restarts
    number: int
    value: float | None
    violation: float = 0.0  # of constraints; 0 if they are satisfied


@dataclass(frozen=True)
class Candidate:
    """A point to evaluate, with the numbers that the host stores with it."""

    generation: int
    number: int
    x: Array


class OneByOne:
    """A search that issues candidates one by one and is updated with the outcomes of all candidates.

    Parameters
    ----------
    make_strategy : callable
        Creates a strategy from the restart number and a population size (None: the default).
    restarts : int
        Number of restarts when the strategy stops, each with twice the population.
    """

    def __init__(self, make_strategy: MakeStrategy, restarts: int = 0) -> None:
        self.make_strategy, self.restarts = make_strategy, restarts
        self.generation = 0  # over all restarts
        self.restart_reasons: list[str] = []  # reason of each restart
        self.strategy = make_strategy(0, None)
        self._attempts: dict[int, int] = {}  # attempt number of rows whose candidate was redrawn after ask()

    def next(
        self, known: Iterable[Outcome], reread: Callable[[], Iterable[Outcome]] | None = None
    ) -> Candidate:
        """Return the next candidate, given the ``known`` outcomes in order of completion.

        ``reread`` reads the outcomes again, a moment later. It is called if a row of a complete generation
        has another candidate under evaluation, whose result may be older but not visible yet.
        """
        return self._issue(self._learn(known, reread).get(self.generation, []))

    def instead(self, known: Iterable[Outcome], skip: int = 0) -> Candidate:
        """Return another candidate of the same generation, because another process issued the same one.

        Processes that replace a candidate at the same time give different ``skip``, the number of further
        candidates to leave to others. Nothing is learned from ``known``: a host may already have recorded the
        generation of the candidate to be replaced.
        """
        return self._issue([outcome for outcome in known if outcome.generation == self.generation], skip)

    def _issue(self, outcomes: list[Outcome], skip: int = 0) -> Candidate:
        """Return a candidate of this generation that is not in ``outcomes``."""
        size = self.strategy.batch_size
        attempts = [0] * size
        finished = [False] * size
        for outcome in outcomes:
            row, attempt = self._row_and_attempt(outcome.number)
            attempts[row] = max(attempts[row], attempt + 1)
            finished[row] |= outcome.value is not None
        rows = [row for row in range(size) if not finished[row]] or list(range(size))
        for _ in range(skip):
            attempts[min(rows, key=lambda r: (attempts[r], r))] += 1
        row = min(rows, key=lambda r: (attempts[r], r))
        return Candidate(self.generation, attempts[row] * size + row, self._draw(row, attempts[row]).copy())

    def repeat(self, known: Iterable[Outcome], generation: int, number: int) -> Array | None:
        """Return a candidate that was issued before, or None if its generation is complete."""
        self._learn(known)
        return self._draw(*self._row_and_attempt(number)).copy() if generation == self.generation else None

    def _learn(
        self, known: Iterable[Outcome], reread: Callable[[], Iterable[Outcome]] | None = None
    ) -> dict[int, list[Outcome]]:
        """Tell every complete generation to the strategy; return the outcomes by generation."""
        by_generation = _by_generation(known)
        while True:
            outcomes = by_generation.get(self.generation, [])
            if reread is not None and self._has_pending_duplicate(outcomes):
                by_generation, reread = _by_generation(reread()), None
                outcomes = by_generation.get(self.generation, [])
            if not self._tell(outcomes):
                return by_generation

    def _has_pending_duplicate(self, outcomes: list[Outcome]) -> bool:
        """Return whether each row has a value, and some row has another candidate under evaluation."""
        rows = {value: set[int]() for value in (True, False)}  # by whether there is a value
        for outcome in outcomes:
            rows[outcome.value is not None].add(self._row_and_attempt(outcome.number)[0])
        return len(rows[True]) == self.strategy.batch_size and bool(rows[False])

    def _tell(self, outcomes: list[Outcome]) -> bool:
        """Tell this generation to the strategy if each row has a value; return False if it is incomplete."""
        first: dict[int, Outcome] = {}
        for outcome in outcomes:
            if outcome.value is not None:
                first.setdefault(self._row_and_attempt(outcome.number)[0], outcome)
        if len(first) < self.strategy.batch_size:
            return False
        chosen = [first[row] for row in range(self.strategy.batch_size)]
        attempts = [self._row_and_attempt(outcome.number)[1] for outcome in chosen]
        for row, attempt in enumerate(attempts):
            self._draw(row, attempt)
        self.strategy.tell(_ranked(chosen))
        self._attempts = {}
        self.generation += 1
        reasons = self.strategy.stop()
        if reasons and len(self.restart_reasons) < self.restarts:
            self.restart_reasons.append(", ".join(reasons))
            self.strategy = self.make_strategy(len(self.restart_reasons), 2 * self.strategy.popsize)
        return True

    def _row_and_attempt(self, number: int) -> tuple[int, int]:
        """Return the row of candidate ``number``, and the number of earlier candidates for this row."""
        attempt, row = divmod(number, self.strategy.batch_size)
        return row, attempt

    def _draw(self, row: int, attempt: int) -> Array:
        """Return a candidate and store it in its row of the strategy."""
        held = self._attempts.get(row, 0)
        if self.strategy.candidates is not None and attempt == 0 < held:
            # restores the state before ask(), so that all rows are drawn again
            self.strategy.set_state(self.strategy.get_state())
            others = {r: a for r, a in self._attempts.items() if r != row}
            self._attempts = {}
            for other, times in others.items():
                self._draw(other, times)
        if self.strategy.candidates is None:
            self.strategy.ask()
        if attempt != self._attempts.get(row, 0):
            self.strategy.resample([row], attempt)
            self._attempts[row] = attempt
        assert self.strategy.candidates is not None
        candidate: Array = self.strategy.candidates[row]
        return candidate


def _by_generation(known: Iterable[Outcome]) -> dict[int, list[Outcome]]:
    found: dict[int, list[Outcome]] = {}
    for outcome in known:
        found.setdefault(outcome.generation, []).append(outcome)
    return found


def _ranked(outcomes: list[Outcome]) -> list[float]:
    """Return values for ranking; infeasible candidates rank after feasible ones."""
    values = [math.nan if o.value is None or not math.isfinite(o.value) else o.value for o in outcomes]
    kept = [v for v, o in zip(values, outcomes, strict=True) if o.violation <= 0 and v == v]
    worst = max(kept, default=0.0)
    return [
        v if o.violation <= 0 or v != v else worst + o.violation
        for v, o in zip(values, outcomes, strict=True)
    ]


CHOSEN = 0.75  # coordinate of the initial choice; the others are 0.5


class Parameter(ABC):
    """One parameter, represented by ``width`` coordinates."""

    width = 1

    @abstractmethod
    def value(self, u: Array) -> Any:
        """Return the value for the coordinates ``u``."""

    @abstractmethod
    def coordinates(self, value: Any) -> list[float]:
        """Return coordinates for ``value``; raise ValueError if it is invalid."""


@dataclass(frozen=True)
class Real(Parameter):
    """A number in a range, on a linear or logarithmic scale, and on a grid if ``step`` is given."""

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def value(self, u: Array) -> float:
        """Return the number at coordinate ``u``."""
        if self.log:
            low, high = math.log(self.low), math.log(self.high)
            return min(max(math.exp(low + float(u[0]) * (high - low)), self.low), self.high)
        if self.step is not None:
            count = round((self.high - self.low) / self.step) + 1
            return min(self.low + min(int(float(u[0]) * count), count - 1) * self.step, self.high)
        return min(max(self.low + float(u[0]) * (self.high - self.low), self.low), self.high)

    def coordinates(self, value: Any) -> list[float]:
        """Return the coordinate of a number: its position in [0, 1] on its scale or grid."""
        _check_range(value, self.low, self.high)
        if self.log:
            return [(math.log(value) - math.log(self.low)) / (math.log(self.high) - math.log(self.low))]
        if self.step is not None:
            count = round((self.high - self.low) / self.step) + 1
            return [(round((value - self.low) / self.step) + 0.5) / count]
        return [(value - self.low) / (self.high - self.low)]


@dataclass(frozen=True)
class Integer(Parameter):
    """An integer in a range; each has an equal share of the coordinate, on a linear or logarithmic scale."""

    low: int
    high: int
    log: bool = False
    step: int = 1

    def value(self, u: Array) -> int:
        """Return the integer at coordinate ``u``."""
        if self.log:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return min(max(round(math.exp(low + float(u[0]) * (high - low))), self.low), self.high)
        count = (self.high - self.low) // self.step + 1
        return self.low + min(int(float(u[0]) * count), count - 1) * self.step

    def coordinates(self, value: Any) -> list[float]:
        """Return the coordinate of an integer, the middle of its share."""
        _check_range(value, self.low, self.high)
        if self.log:
            low, high = math.log(self.low - 0.5), math.log(self.high + 0.5)
            return [(math.log(value) - low) / (high - low)]
        count = (self.high - self.low) // self.step + 1
        return [((value - self.low) // self.step + 0.5) / count]


@dataclass(frozen=True)
class Choice(Parameter):
    """An unordered choice, with one coordinate per option; the largest coordinate selects the option."""

    choices: tuple[Any, ...]

    @property
    def width(self) -> int:  # type: ignore[override]  # 1 for other parameters
        """Number of coordinates."""
        return len(self.choices)

    def value(self, u: Array) -> Any:
        """Return the option with the largest coordinate."""
        return self.choices[int(np.argmax(u))]

    def coordinates(self, value: Any) -> list[float]:
        """Return coordinates that select ``value``."""
        if value not in self.choices:
            raise ValueError(f"{value!r} is not one of {self.choices!r}")
        return [CHOSEN if choice == value else 0.5 for choice in self.choices]


@dataclass(frozen=True)
class UnitSpace:
    """Named parameters as a box of coordinates between 0 and 1."""

    parameters: Mapping[str, Parameter]

    @property
    def n(self) -> int:
        """Number of coordinates."""
        return sum(parameter.width for parameter in self.parameters.values())

    def values(self, u: Array) -> dict[str, Any]:
        """Return the parameter values for a point of the box."""
        found, at = {}, 0
        for name, parameter in self.parameters.items():
            found[name] = parameter.value(u[at : at + parameter.width])
            at += parameter.width
        return found

    def start(self, values: Mapping[str, Any]) -> Array:
        """Return the starting point: ``values`` where given, the middle of the range elsewhere."""
        coordinates: list[float] = []
        for name, parameter in self.parameters.items():
            if name not in values:
                coordinates += [0.5] * parameter.width
                continue
            try:
                coordinates += parameter.coordinates(values[name])
            except (ValueError, TypeError) as error:
                raise ValueError(f"x0[{name!r}]: {error}") from None
        return np.array(coordinates)


def step_sizes(sigma0: float | Mapping[str, float], space: UnitSpace, usual: float) -> float | Array:
    """Return the step size in the box: one number, or one per coordinate."""
    if not isinstance(sigma0, Mapping):
        return sigma0
    steps: list[float] = []
    for name, parameter in space.parameters.items():
        steps += [sigma0.get(name, usual)] * parameter.width
    return np.array(steps)


def _check_range(value: Any, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{value!r} is not between {low!r} and {high!r}")
