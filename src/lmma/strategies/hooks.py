"""What a strategy provides, and what it may use for it; ``base.py`` has what its user calls."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from lmma.kernels import Key
from lmma.strategies.parts.integers import Integers
from lmma.strategies.parts.recombination import Array, Indices, log_weights
from lmma.strategies.parts.spread import root_mean_variance
from lmma.strategies.parts.state import state_names

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator


class Hooks(ABC):
    """The part of :class:`lmma.Strategy` that a strategy fills in."""

    name: ClassVar[str] = ""  # the class's own unless it says or is registered
    can_inject: ClassVar[bool] = False
    can_resample: ClassVar[bool] = False
    can_stream: ClassVar[bool] = False
    fixed_step: ClassVar[bool] = False  # whether sigma never adapts: it comes near an optimum, no nearer
    can_damp: ClassVar[bool] = False  # whether ``noise.rate`` damps the steps of its mean
    STATE: ClassVar[tuple[str, ...]] = ()
    key: Key
    generation: int
    sigma: float
    scale: Array | None
    dtype: np.dtype[Any]
    popsize: int
    integers: Integers | None
    _asked: Array | None

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        state_names(cls)  # refuses what is no name
        if "name" not in vars(cls):
            cls.name = cls.__name__

    # What a strategy must provide

    @abstractmethod
    def _sample(self, out: Array) -> None:
        """Fill ``out``, (popsize, n), with the candidates of this generation."""

    @abstractmethod
    def _update(self, order: Indices, values: Array) -> None:
        """Learn from the candidates at ``order``, best first, and their ``values``, increasing.

        Candidates without a value are not among them. With bounds, values may include penalties: only their
        ranks mean something.
        """

    @classmethod
    @abstractmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return about how many bytes a run needs, candidates included."""

    # What a strategy may provide

    def _initialise(self) -> None:  # noqa: B027 (many need nothing)
        """Make what is needed besides mean and sigma; called at the end of ``__init__``."""

    def _measure_spread(self) -> float:
        """Return how far a typical candidate lies from the others' centre, per coordinate, for ``tolx``.

        Called after :meth:`_update`. It looks at every number of the generation: override it where less
        will do.
        """
        return math.inf if self._asked is None else root_mean_variance(self._asked)

    def _deviations(self, columns: Indices, mean: Array) -> Array:
        """Return the standard deviations of candidates in some coordinates, which are integers.

        Called after :meth:`_update`; ``mean`` is what the mean was there before. What the candidates of this
        generation show is taken unless a strategy knows better.
        """
        if self.integers is None:
            return np.ones(len(columns))
        deviations: Array = np.sqrt(np.mean(np.square(self.integers.unrounded - mean), axis=0))
        return deviations

    def _selection_weights(self) -> Array:
        """Return the weights of the better candidates, best first; Algorithm 1's unless it says."""
        return log_weights(self.popsize, self.popsize // 2)

    def _place(self, points: list[Array], out: Array) -> None:
        """Put ``points``, where the search must stand for them, into the last rows of ``out``."""
        raise NotImplementedError(f"{self.name} says can_inject but has no _place")

    def _resample(self, rows: Indices, attempt: int, out: Array) -> None:
        """Draw the candidates at ``rows`` of ``out`` anew."""
        raise NotImplementedError(f"{self.name} says can_resample but has no _resample")

    def _blocks(self, rows: int | None) -> Iterator[Array]:
        """Return an iterator over the candidates, ``rows`` at a time."""
        raise NotImplementedError(f"{self.name} says can_stream but has no _blocks")

    def _parts(self) -> Mapping[str, object]:
        """Return the parts that carry state of their own, by name."""
        return {}

    def _hess_inv(self) -> LinearOperator | None:
        """Return the learned metric, if there is one."""
        return None

    @abstractmethod
    def _inside(self, x: Array) -> Array:
        """Return a copy of ``x``, moved into the box."""

    # What it may use

    def generator(self, stream: int = 0) -> np.random.Generator:
        """Return the random numbers of this generation, a pure function of (key, generation, stream).

        Every call begins at the same number: draw all that belongs together from one generator, and take
        another ``stream``, 0 or more, for what must be independent of it.
        """
        counter = np.array([0, self.generation, 1 + stream, 0], dtype=np.uint64)  # word 2 is 0 in ``kernels``
        return np.random.Generator(np.random.Philox(key=np.array(self.key, dtype=np.uint64), counter=counter))

    @property
    def steps(self) -> float | Array:
        """The step size: sigma, or sigma times the scale of each coordinate if ``sigma0`` was given so."""
        return self.sigma if self.scale is None else (self.sigma * self.scale).astype(self.dtype)
