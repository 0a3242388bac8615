"""Adapter that makes a method of a user's subclass of :class:`lmma.Strategy`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, final

from lmma.methods.ask_tell import Strategy
from lmma.methods.base import Method, Settings
from lmma.numerics.recombination import Array, Indices
from lmma.numerics.state import state_names

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

    from lmma.layers.layer import Told


class UserMethod(Method):
    """Method that calls the implementation in a user's subclass of :class:`Strategy`."""

    def __init__(
        self, strategy: Strategy, mean: Array, sigma: float, scale: Array | None, settings: Settings
    ) -> None:
        self.strategy: Strategy | None = None  # set below: Strategy.__init__ calls _initialise later
        super().__init__(mean, sigma, scale, settings)
        self.strategy = strategy
        self.name = strategy.name  # type: ignore[misc]

    @property
    def _user(self) -> Strategy:
        assert self.strategy is not None
        return self.strategy

    def initialise(self) -> None:
        """Initialise the strategy again, after a change of popsize."""
        if self.strategy is not None:
            self.strategy._initialise()

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return 0: ``memory`` of the strategy is used instead."""
        return 0

    def sample(self, out: Array) -> None:
        """Fill ``out`` with the next candidates."""
        self._user._sample(out)

    def update(self, told: Told) -> None:
        """Learn from the ranked candidates."""
        self._user._update(told.order, told.ranked)

    def spread(self, candidates: Array) -> float:
        """Return the spread measured by the strategy."""
        return self._user._measure_spread()

    def selection_weights(self) -> Array:
        """Return the weights of the strategy."""
        return self._user._selection_weights()

    def place(self, points: list[Array], out: Array) -> None:
        """Write ``points`` to the last rows of ``out``."""
        self._user._place(points, out)

    def resample(self, rows: Indices, attempt: int, out: Array) -> None:
        """Redraw the candidates at ``rows`` of ``out``."""
        self._user._resample(rows, attempt, out)

    def blocks(self, rows: int | None) -> Iterator[tuple[int, Array]]:
        """Return an iterator over (index of first candidate, block of up to ``rows`` candidates)."""
        first = 0
        for block in self._user._blocks(rows):
            yield first, block
            first += len(block)

    def parts(self) -> dict[str, object]:
        """Return the strategy, if it has state, and its components, by name."""
        strategy = self._user
        return {**({"own": strategy} if state_names(type(strategy)) else {}), **strategy._parts()}

    def hess_inv(self) -> LinearOperator | None:
        """Return the learned metric of the strategy, or None."""
        return self._user._hess_inv()


@final
class EmptyMethod(Method):
    """Placeholder method for problems in which all coordinates are choices."""

    can_inject = True
    can_resample = True

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return 0."""
        return 0

    def sample(self, out: Array) -> None:
        """Do nothing: ``out`` has no columns."""

    def update(self, told: Told) -> None:
        """Do nothing."""

    def spread(self, candidates: Array) -> float:
        """Return infinity: no steps can be measured."""
        return math.inf

    def place(self, points: list[Array], out: Array) -> None:
        """Do nothing."""

    def resample(self, rows: Indices, attempt: int, out: Array) -> None:
        """Do nothing."""


def wrapped_for_choices(cls: type[Strategy]) -> type[Strategy]:
    """Return a strategy class that handles choices and searches the other columns with ``cls``."""

    class Inside(UserMethod):
        """Method that applies a user's strategy to the columns that are not choices."""

        name = cls.name
        can_inject, can_resample, fixed_step = cls.can_inject, cls.can_resample, cls.fixed_step

        def __init__(self, mean: Array, sigma: float, scale: Array | None, settings: Settings) -> None:
            strategy = cls(
                mean, sigma, popsize=settings.popsize, rng=settings.key, dtype=settings.dtype,
                threads=settings.threads or None, **settings.options,
            )  # fmt: skip
            super().__init__(strategy, mean, sigma, scale, settings)
            strategy.method = self  # so that both share mean and step size

        known_options = cls.known_options
        memory = cls.memory

    return type(cls.__name__, (Strategy,), {"METHOD": Inside, "__doc__": cls.__doc__})
