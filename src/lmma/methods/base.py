"""The interface of a method, the part of a strategy that draws candidates and learns from their ranks.

A method has a mean, a step size and random numbers. Bounds, noise and failures are handled by the layers
(``lmma.layers``) that :class:`lmma.Strategy` (``ask_tell.py``) puts around it. ``es.py`` is the base of the
methods that share Algorithm 1.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from lmma.kernels import Key
from lmma.layers.layer import ORDER
from lmma.numerics.recombination import Array, Indices, log_weights
from lmma.numerics.state import (
    ANY,
    COUNT,
    DISTANCE,
    FINITE,
    POSITIVE,
    Declared,
    collect,
    restore,
    state_names,
)

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

    from lmma.layers.integers import Integers
    from lmma.layers.layer import Told
    from lmma.numerics.metric import Metric

CHUNK = 1 << 16  # numbers processed at a time, to limit temporaries


class Settings(NamedTuple):
    """Constructor arguments of a method other than its starting point."""

    popsize: int  # candidates per generation
    key: Key  # seed of all random numbers
    dtype: np.dtype[Any]
    threads: int = 0  # for kernels; 0: their default
    options: Mapping[str, Any] = {}  # constants given by the user
    integers: Integers | None = None  # integer columns, whose steps have a lower limit
    bounds: tuple[Array, Array] | None = None  # lower and upper, for a method that ``keeps_bounds``


class Method(ABC):
    """A search distribution that draws candidates around a mean and is updated from their ranks.

    Parameters
    ----------
    mean : ndarray, (n,)
        Starting point; used without a copy.
    sigma : float
        Initial step size.
    scale : ndarray, (n,), optional
        Factors of the step size, one for each coordinate.
    settings : Settings
        All other arguments.

    Attributes
    ----------
    mean, sigma, scale
        Current values of the above.
    sigma0, max_sigma : float
        The initial step size and its upper limit.
    generation : int
        Number of completed generations.

    Notes
    -----
    A subclass provides :meth:`sample`, :meth:`update` and :meth:`memory`. It may create further state in
    :meth:`initialise`, and lists in ``STATE`` the arrays and numbers that change between generations.
    """

    name: ClassVar[str] = ""  # the name of the class, unless set or registered
    can_inject: ClassVar[bool] = False  # implements ``place``
    can_resample: ClassVar[bool] = False  # implements ``resample``
    can_stream: ClassVar[bool] = False  # implements ``blocks``
    can_damp: ClassVar[bool] = False  # multiplies the steps of the mean by the learning rate under noise
    fixed_step: ClassVar[bool] = False  # sigma does not adapt, which limits the accuracy
    uses_values: ClassVar[bool] = False  # learns from values, not from ranks; popsize has no meaning then
    supports: ClassVar[frozenset[str]] = frozenset(ORDER)  # layers that may be put around the method
    keeps_bounds: ClassVar[bool] = False  # draws candidates inside the box itself
    STATE: ClassVar[Declared] = {
        "mean": FINITE, "sigma": DISTANCE, "sigma0": POSITIVE, "max_sigma": DISTANCE, "generation": COUNT,
        "key": ANY, "scale": POSITIVE,
    }  # fmt: skip
    VARIABLE: ClassVar[tuple[str, ...]] = ("scale",)

    def __init__(self, mean: Array, sigma: float, scale: Array | None, settings: Settings) -> None:
        self.settings = settings
        self.mean = mean
        self.sigma = self.sigma0 = sigma
        self.max_sigma = math.inf
        self._scale = scale
        self.generation = 0
        self.initialise()

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        state_names(cls)  # validates STATE
        if "name" not in vars(cls):
            cls.name = cls.__name__

    @classmethod
    def known_options(cls) -> tuple[str, ...]:
        """Return the options of this method, beyond those common to all strategies."""
        return ()

    # Required methods

    @abstractmethod
    def sample(self, out: Array) -> None:
        """Fill ``out``, (rows, n), with the next candidates."""

    @abstractmethod
    def update(self, told: Told) -> None:
        """Learn from the candidates at ``told.order``, best first, without failed ones."""

    @classmethod
    @abstractmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return the approximate memory of a run in bytes, including candidates."""

    # Optional methods

    @classmethod
    def memory_of_options(cls, n: int, popsize: int, itemsize: int, options: Mapping[str, Any]) -> int:
        """Return the approximate memory in bytes that :meth:`memory` omits and ``options`` require."""
        return 0

    def initialise(self) -> None:  # noqa: B027 (many need nothing)
        """Create the state beyond mean and sigma, for ``self.popsize`` candidates per generation."""

    @property
    def batch_size(self) -> int:
        """Number of rows of the next :meth:`sample`."""
        return self.settings.popsize

    @property
    def continues(self) -> bool:
        """True if the next batch is a part of a larger one, and not the last: convergence is not judged."""
        return False

    def spread(self, candidates: Array) -> float:
        """Return the typical distance of a candidate from the centre of all, per coordinate, for ``tolx``.

        Called after :meth:`update`. It reads every number of the batch: override it if a cheaper way exists.
        """
        return root_mean_variance(candidates) if len(candidates) > 1 else math.inf

    def deviations(self, columns: Indices, mean: Array, unrounded: Array) -> Array:
        """Return the standard deviations of candidates in ``columns``, which are integer coordinates.

        Called after :meth:`update`. By default they are estimated from ``mean``, the previous mean in these
        columns, and ``unrounded``, the candidates before rounding.
        """
        deviations: Array = np.sqrt(np.mean(np.square(unrounded - mean), axis=0))
        return deviations

    def selection_weights(self) -> Array:
        """Return the weights of the better candidates, best first; by default those of Algorithm 1."""
        return log_weights(self.popsize, self.popsize // 2)

    def failed(self, rows: int) -> None:  # noqa: B027 (most draw other candidates next time)
        """Learn that all ``rows`` candidates of a batch failed; called in place of :meth:`update`."""

    def stop(self) -> dict[str, float]:
        """Return reasons to stop that only the method knows, as reason -> value."""
        return {}

    def stabilise(self, rate: float) -> None:  # noqa: B027 (most need no help)
        """Prevent drift of learned parameters under noise, given the learning rate of the mean."""

    def place(self, points: list[Array], out: Array) -> None:
        """Write ``points``, in the coordinates of the method, to the last rows of ``out``."""
        raise NotImplementedError(f"{self.name} sets can_inject but does not implement place()")

    def resample(self, rows: Indices, attempt: int, out: Array) -> None:
        """Redraw the candidates at ``rows`` of ``out``."""
        raise NotImplementedError(f"{self.name} sets can_resample but does not implement resample()")

    def blocks(self, rows: int | None) -> Iterator[tuple[int, Array]]:
        """Return an iterator over (index of first candidate, block of up to ``rows`` candidates)."""
        raise NotImplementedError(f"{self.name} sets can_stream but does not implement blocks()")

    def candidate(self, row: int) -> Array:
        """Regenerate a candidate of the last :meth:`blocks`."""
        raise NotImplementedError(f"{self.name} sets can_stream but does not implement candidate()")

    def restored(self) -> None:  # noqa: B027 (most need nothing)
        """Recompute attributes derived from the state; called after it was restored."""

    def parts(self) -> Mapping[str, object]:
        """Return the stateful components, by name."""
        return {}

    def learned_parts(self) -> Mapping[str, object]:
        """Return the components that results keep and later runs start from: all, by default."""
        return self.parts()

    def hess_inv(self) -> LinearOperator | None:
        """Return the learned metric as an operator, or None."""
        return None

    def metric(self) -> Metric | None:
        """Return the learned metric as a record, or None."""
        return None

    # Available to subclasses

    @property
    def n(self) -> int:
        """Number of variables."""
        return len(self.mean)

    @property
    def popsize(self) -> int:
        """Number of candidates per generation."""
        return self.settings.popsize

    @property
    def dtype(self) -> np.dtype[Any]:
        """Precision of the state and of the candidates."""
        return self.settings.dtype

    @property
    def threads(self) -> int:
        """Number of kernel threads; 0 for the default."""
        return self.settings.threads

    @property
    def options(self) -> Mapping[str, Any]:
        """Constants given by the user."""
        return self.settings.options

    @property
    def key(self) -> Key:
        """Seed of all random numbers, two integers."""
        return self.settings.key

    @key.setter
    def key(self, key: Any) -> None:
        self.settings = self.settings._replace(key=(int(key[0]), int(key[1])))

    @property
    def scale(self) -> Array | None:
        """Factors of the step size, one for each coordinate, or None."""
        return self._scale

    @scale.setter
    def scale(self, scale: Array | None) -> None:
        self._scale = None if scale is None or not len(scale) else np.array(scale, dtype=self.dtype)

    @property
    def steps(self) -> float | Array:
        """Step size: sigma, or sigma times ``scale`` if ``sigma0`` was given for each coordinate."""
        return self.sigma if self._scale is None else (self.sigma * self._scale).astype(self.dtype)

    def generator(self, stream: int = 0) -> np.random.Generator:
        """Return a random generator for this generation, a pure function of (key, generation, stream).

        Every call starts at the same number. Use another ``stream``, 0 or more, for independent numbers.
        """
        counter = np.array([0, self.generation, 1 + stream, 0], dtype=np.uint64)  # word 2 is 0 in ``kernels``
        return np.random.Generator(np.random.Philox(key=np.array(self.key, dtype=np.uint64), counter=counter))

    def resize(self, popsize: int) -> None:
        """Change the number of candidates per generation and keep the learned state.

        Arrays whose shape depends on ``popsize`` are reset. A component with ``RESET_TOGETHER = True`` is
        reset completely if any of its arrays is.
        """
        old = {label: collect({label: part}) for label, part in self.parts().items()}
        self.settings = self.settings._replace(popsize=popsize)
        self.initialise()
        for label, part in self.parts().items():
            fresh = collect({label: part})
            kept = {name: was for name, was in old[label].items() if np.shape(was) == np.shape(fresh[name])}
            if len(kept) == len(fresh) or not getattr(type(part), "RESET_TOGETHER", False):
                restore({label: part}, fresh | kept)


def root_mean_variance(candidates: Array) -> float:
    """Return the root mean square over coordinates of the candidates' standard deviations.

    Computed in double precision.
    """
    rows, n = candidates.shape
    columns = max(1, CHUNK // rows)
    total = 0.0
    for start in range(0, n, columns):
        part = candidates[:, start : start + columns]
        total += float(part.var(axis=0, ddof=1, dtype=np.float64).sum())
    return math.sqrt(total / n)
