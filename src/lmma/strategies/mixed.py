"""Choices beside any strategy: it searches the numbers, a categorical distribution the choices.

Coordinates of a candidate that are choices hold the number of a value. The strategy inside sees the others
alone: its constants, paths and matrices have the size of what they are about. Both learn from the same ranks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma.strategies.base import Strategy
from lmma.strategies.parts.bounds import read_bounds
from lmma.strategies.parts.checks import checked_x0
from lmma.strategies.parts.choices import Choices
from lmma.strategies.parts.integers import checked_integrality
from lmma.strategies.parts.noise import Treatment
from lmma.strategies.parts.recombination import Array, Indices, default_popsize
from lmma.strategies.parts.settling import Settling
from lmma.strategies.parts.state import State, labels

STREAM = 2**32  # of random numbers, apart from those that a strategy of one's own may take
INSIDE = "inner."  # begins the names of the state of the strategy inside

Categories = Mapping[int, range]  # coordinate -> its values


@final
class Mixed(Strategy):
    """A strategy for numbers with a distribution over choices at its side.

    Parameters
    ----------
    x0, sigma0, popsize, bounds, boundary, integrality, rng, dtype, tolx, tolfun, threads
        As of :class:`lmma.Strategy`, for all coordinates. A choice whose ``x0`` is one of its values begins
        with half of its probability there; otherwise all values begin alike.
    method : Strategy class
        What searches the numbers.
    categories : mapping
        Coordinate -> range of its values.
    **options
        Constants of the method.
    """

    name = "mixed"

    def __init__(
        self, x0: npt.ArrayLike, sigma0: float | npt.ArrayLike, *, method: type[Strategy],
        categories: Categories, popsize: int | None = None, **options: Any,
    ) -> None:  # fmt: skip
        start = checked_x0(x0, np.float64)
        n = len(start)
        self.columns: Indices = np.array(sorted(categories), dtype=np.intp)
        self.numbers: Indices = np.setdiff1d(np.arange(n), self.columns)
        self.offsets = np.array([categories[int(j)].start for j in self.columns], dtype=np.intp)
        self.sizes = np.array([len(categories[int(j)]) for j in self.columns], dtype=np.intp)
        self._given = (method, categories, sigma0, options)
        shared = {
            name: options[name] for name in ("rng", "dtype", "tolx", "tolfun", "threads") if name in options
        }
        super().__init__(start, 1.0, popsize=popsize, **shared)

    def _initialise(self) -> None:
        method, _, sigma0, options = self._given
        integrality = checked_integrality(options.get("integrality", 0), self.n)
        discrete = len(np.union1d(integrality, self.columns))
        preferred = self.mean[self.columns].astype(np.float64) - self.offsets
        known = (preferred == np.rint(preferred)) & (preferred >= 0) & (preferred < self.sizes)
        self.choices = Choices(self.sizes, discrete, np.where(known, preferred, -1).astype(np.intp))
        self._drawn: Indices = np.zeros((self.popsize, len(self.columns)), dtype=np.intp)
        self.inner: Strategy | None = None
        if len(self.numbers):
            given = {**options, "popsize": self.popsize, "rng": self.key}
            if given.get("bounds") is not None:
                given["bounds"] = _at(given["bounds"], self.numbers, self.n)
            mask = np.isin(self.numbers, integrality)
            given["integrality"] = mask if mask.any() else None
            steps = np.asarray(sigma0, dtype=np.float64)
            own = steps[self.numbers] if steps.ndim and steps.size == self.n else steps
            inner = method(self.mean[self.numbers], own, **{k: v for k, v in given.items() if v is not None})
            if inner.integers is not None:
                inner.integers.among(discrete)
            self.inner, self.sigma0 = inner, inner.sigma0
            # what a strategy says of itself
            self.can_inject, self.can_resample = inner.can_inject, inner.can_resample  # type: ignore[misc]
        else:
            self.can_inject = self.can_resample = True  # type: ignore[misc]
        self.name = method.name  # type: ignore[misc]
        self.judged = 0.6
        numbers = 0 if self.inner is None or self.inner.integers is None else len(self.inner.integers.columns)
        self.settling = Settling(2 * numbers + int(np.sum(self.sizes - 1)), self.popsize)
        self._follow()
        self.best_x = self._inside(self.mean)

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return about how many bytes candidates and choices need; the strategy inside sees to itself."""
        return 4 * popsize * n * itemsize

    @property
    def scale(self) -> Array | None:
        """The factors of the step size of the strategy inside."""
        inner = getattr(self, "inner", None)
        return None if inner is None else inner.scale

    @scale.setter
    def scale(self, scale: Array | None) -> None:
        if getattr(self, "inner", None) is not None:
            self.inner.scale = scale  # type: ignore[union-attr]

    # Candidates

    def _sample(self, out: Array) -> None:
        self._drawn = self.choices.draw(self._uniform(0))
        out[:, self.columns] = self._drawn + self.offsets
        if self.inner is not None:
            if self._injected:
                self.inner.inject(self.injected[: self.popsize, self.numbers])
            out[:, self.numbers] = self.inner.ask()

    def _uniform(self, attempt: int) -> npt.NDArray[np.float64]:
        return self.generator(STREAM + attempt).random((self.popsize, len(self.columns)))

    def _place(self, points: list[Array], out: Array) -> None:
        for row, x in enumerate(points, start=self.popsize - len(points)):
            out[row] = x
            self._drawn[row] = x[self.columns].astype(np.intp) - self.offsets

    def _resample(self, rows: Indices, attempt: int, out: Array) -> None:
        self._drawn[rows] = self.choices.draw(self._uniform(attempt))[rows]
        out[np.ix_(rows, self.columns)] = self._drawn[rows] + self.offsets
        if self.inner is not None:
            self.inner.resample(rows, attempt)
            assert self.inner.candidates is not None  # they were drawn with these
            out[np.ix_(rows, self.numbers)] = self.inner.candidates[rows]

    def _checked_points(self, points: npt.ArrayLike) -> Array:
        rows = super()._checked_points(points)
        values = rows[:, self.columns] - self.offsets
        if np.any((values != np.rint(values)) | (values < 0) | (values >= self.sizes)):
            raise ValueError("injected points must hold the number of a value, from 0 on, for each choice")
        if self.inner is not None:
            self.inner._checked_points(rows[:, self.numbers])
        return rows

    # Learning

    def tell(
        self,
        values: npt.ArrayLike,
        *,
        constraints: npt.ArrayLike | None = None,
        again: npt.ArrayLike | None = None,
    ) -> None:
        """Learn from the values of the last candidates, in the order of :meth:`ask`."""
        super().tell(values, constraints=constraints, again=again)
        if self.inner is not None and self.inner.candidates is not None:  # nothing had a value
            self.inner.tell(np.full(self.popsize, np.nan))

    def handle_noise(self, noise: Treatment | None) -> None:
        """Begin to watch for noise, and to evaluate candidates more often where it hides the ranks."""
        if noise == "population":
            raise ValueError("noise='population' cannot be had with choices: use noise='average'")
        super().handle_noise(noise)

    def averaged_mean(self) -> Array:
        """Return the mean of the numbers, averaged over the last generations, and the present choices."""
        averaged = super().averaged_mean()
        averaged[self.columns] = self.mean[self.columns]
        return averaged

    def _update(self, order: Indices, values: Array) -> None:
        if self.inner is not None:
            told = np.full(self.popsize, np.nan)
            told[order] = values
            self.inner.told_places = self._by_ranks_alone
            self.inner.tell(told)
        weights = self._selection_weights()[: len(order)]
        self.choices.learn(self._drawn[order[: len(weights)]], weights)
        self._follow()

    def _follow(self) -> None:
        """Take over what the parts have come to."""
        self.mean[self.columns] = self.choices.modes() + self.offsets
        if self.inner is not None:
            self.mean[self.numbers] = self.inner.mean
            self.sigma = self.inner.sigma

    def _selection_weights(self) -> Array:
        return super()._selection_weights() if self.inner is None else self.inner._selection_weights()

    def _measure_spread(self) -> float:
        return math.inf if self.inner is None else self.inner.spread

    def _inside(self, x: Array) -> Array:
        inside = x.copy()
        if getattr(self, "inner", None) is not None:
            inside[self.numbers] = self.inner._inside(x[self.numbers])  # type: ignore[union-attr]
        return inside

    # State

    def _parts(self) -> dict[str, object]:
        inner = {} if self.inner is None else self.inner._parts()
        return {"choices": self.choices, **{f"{INSIDE}{name}": part for name, part in inner.items()}}

    def get_state(self) -> State:
        """Return all that a run needs to go on, as named arrays and numbers (copies)."""
        state = super().get_state()
        if self.inner is not None:
            inner = self.inner.get_state() | {"injected": np.empty((0, len(self.numbers)))}  # kept here
            state |= {f"{INSIDE}{name}": value for name, value in inner.items()}
        return state

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`."""
        own = labels(self._all_parts())
        super().set_state({k: v for k, v in state.items() if k in own or not k.startswith(INSIDE)})
        if self.inner is not None:
            self.inner.set_state(
                {k.removeprefix(INSIDE): v for k, v in state.items() if k.startswith(INSIDE)}
            )

    def recipe(self) -> tuple[type[Strategy], dict[str, Any]]:
        """Return a class and arguments besides ``x0`` and ``sigma0`` that make a strategy like this one."""
        method, categories, _, given = self._given
        kept = {name: value for name, value in given.items() if name != "rng"}
        return Mixed, {**kept, "method": method, "categories": categories, "popsize": self.popsize}


def _at(bounds: Any, columns: Indices, n: int) -> SimpleNamespace:
    """Return the bounds of some coordinates."""
    lower, upper = read_bounds(bounds, n)
    return SimpleNamespace(lb=lower[columns], ub=upper[columns])


def make_strategy(
    cls: type[Strategy], x0: npt.ArrayLike, sigma0: float | npt.ArrayLike, *,
    categories: Mapping[int, int | range] | None = None, **options: Any,
) -> Strategy:  # fmt: skip
    """Return a strategy of class ``cls``, with choices at its side where there are any.

    ``categories`` says for coordinates that are choices how many values they have, or which. An integer with
    two values is a choice too: a distribution over them learns faster than a step between them.
    """
    choices = {int(j): k if isinstance(k, range) else range(k) for j, k in (categories or {}).items()}
    for column, values in choices.items():
        if len(values) < 2:
            raise ValueError(f"categories: coordinate {column} must have two or more values, got {values!r}")
    choices |= _two_valued(x0, options.get("bounds"), options.get("integrality"))
    if not choices:
        return cls(x0, sigma0, **options)
    popsize = options.pop("popsize", None)
    if popsize is None:
        popsize = default_popsize(max(2, np.size(np.asarray(x0))))
    return Mixed(x0, sigma0, method=cls, categories=choices, popsize=popsize, **options)


def _two_valued(x0: npt.ArrayLike, bounds: Any, integrality: Any) -> dict[int, range]:
    """Return the integer coordinates whose bounds leave two values, and these."""
    if bounds is None or integrality is None:
        return {}
    n = len(checked_x0(x0, np.float64))
    columns = checked_integrality(integrality, n)
    lower, upper = read_bounds(bounds, n)
    low, high = np.ceil(lower[columns]), np.floor(upper[columns])
    two = high == low + 1
    return {
        int(column): range(int(first), int(first) + 2)
        for column, first in zip(columns[two], low[two], strict=True)
    }
