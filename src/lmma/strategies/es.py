"""Algorithm 1 of the paper, the black lines: what CMA-ES, MA-ES and LM-MA-ES share.

The coloured lines are the *transform*, one short file for each strategy. Tags such as ``[A1:12]`` name
lines of Algorithm 1.

========  =================  ========  ====================================================
paper     code               shape     meaning
========  =================  ========  ====================================================
y         ``mean``           (n,)      estimate of the optimum (y means values elsewhere)
sigma     ``sigma``          float     global step size
t         ``generation``     int       iterations done
z_i       ``z``              (lam, n)  standard normal vectors, one a row
d_i       ``d``              (lam, n)  mutation directions, d_i = M z_i
p_sigma   ``step.path``      (n,)      evolution path, in ``stepsize.py``
f_i       ``values``         (lam,)    objective values
========  =================  ========  ====================================================
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.strategies.base import DEFAULT_TOLERANCE, Strategy, reject_unknown_options
from lmma.strategies.recombination import (
    Array,
    Indices,
    Recombination,
    Selection,
    weighted_mean,
)
from lmma.strategies.stepsize import StepSizeRule

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator


class Parameters(Protocol):
    """The constants of one algorithm, a frozen dataclass."""

    @property
    def recombination(self) -> Recombination:
        """Population size and weights."""


class Source:
    """The standard normal vectors of a run, a pure function of (key, generation, candidate)."""

    def __init__(self, key: kernels.Key) -> None:
        self.key = key

    def draw(self, generation: int, first: int, z: Array) -> None:
        """Fill row ``r`` of ``z`` with the vector of candidate ``first + r``."""
        kernels.normals(self.key, generation, first, z)


class Transform(ABC):
    """The learned linear map M that turns z into d = M z: the coloured lines of Algorithm 1."""

    STATE: ClassVar[tuple[str, ...]] = ()
    keeps_directions: ClassVar[bool] = False  # whether ``update`` reads ``best.d``

    def sample(
        self,
        source: Source,
        generation: int,
        mean: Array,
        step: float | Array,
        z: Array,
        d: Array,
        out: Array,
    ) -> None:
        """Draw z and set ``out`` to the candidates ``mean + step * d``; ``d`` may be ``out`` itself."""
        source.draw(generation, 0, z)  # [A1:5]
        self.apply(z, out=d)  # [A1:6]
        np.multiply(d, step, out=out)
        out += mean  # [A1:11]

    @abstractmethod
    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return M z for each row of ``z``, or for a single vector."""

    @abstractmethod
    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of M times each row of ``d``."""

    def mean_direction(self, order: Indices, weights: Array, z_mean: Array) -> Array:
        """Return the weighted mean of the selected d, which is M z_mean as M is linear."""
        return self.apply(z_mean)

    @abstractmethod
    def update(self, best: Selection, p_sigma: Array) -> None:
        """Learn from one ranked generation and the evolution path after its update."""

    def balance(self) -> float:
        """Take a power of two out of M and return it, for sigma to take; 1 while M keeps its size.

        sigma M is what counts; where M can shrink without end, sigma would seem to diverge in its stead.
        """
        return 1.0


class ES(Strategy):
    """The shared lines of Algorithm 1, waiting for constants, a transform and a step-size rule."""

    define: ClassVar[Callable[..., Any]]  # (n, lam, **overrides) -> the parameters

    def __init__(
        self,
        x0: npt.ArrayLike,
        sigma0: float | npt.ArrayLike,
        *,
        popsize: int | None = None,
        rng: Any = None,
        dtype: npt.DTypeLike = "float64",
        tolx: float = DEFAULT_TOLERANCE,
        tolfun: float = DEFAULT_TOLERANCE,
        **overrides: Any,
    ) -> None:
        reject_unknown_options(type(self), overrides)
        super().__init__(x0, sigma0, popsize=popsize, rng=rng, dtype=dtype, tolx=tolx, tolfun=tolfun)
        self.parameters = type(self).define(self.n, self.popsize, **overrides)  # [A1:1]
        self.source = self._make_source()
        self.step = self._make_step()  # [A1:2]
        self.transform = self._make_transform()  # [A1:2]
        self.z = np.empty((self.popsize, self.n), dtype=self.dtype)
        self.d = np.empty_like(self.z) if self.transform.keeps_directions else None

    def _make_source(self) -> Source:
        return Source(self.key)

    @abstractmethod
    def _make_step(self) -> StepSizeRule: ...

    @abstractmethod
    def _make_transform(self) -> Transform: ...

    def _sample(self, out: Array) -> None:
        d = out if self.d is None else self.d
        self.transform.sample(  # [A1:4]
            self.source, self.generation, self.mean, self._scaled_sigma(), self.z, d, out
        )

    def _update(self, order: Indices, values: Array) -> None:
        best = self._select(order, values)
        self.mean += self._moved(self._scaled_sigma() * best.d_mean, best.mu_w)  # [A1:12]
        self.step.follow(best)  # [A1:13]
        self.transform.update(best, self.step.path)
        self.sigma *= self.step.factor()  # [A1:19]
        self.sigma *= self.transform.balance()
        self.generation += 1  # [A1:20]

    def _select(self, order: Indices, values: Array) -> Selection:
        """Return the ranked generation; if few candidates have values, the weights close ranks."""
        recombination = self.parameters.recombination
        weights, mu_w = recombination.weights, recombination.mu_w
        if len(order) < len(weights):
            weights = weights[: len(order)] / weights[: len(order)].sum()
            mu_w = 1.0 / float(weights @ weights)
        z_mean = weighted_mean(weights, order, self.z)
        d_mean = self.transform.mean_direction(order, weights, z_mean)
        return Selection(order, values, weights, mu_w, z_mean, d_mean, self.z, self.d)

    def _moved(self, step: Array, mu_w: float) -> Array:
        """Note how far a typical candidate lies from the mean, for ``tolx``; return ``step``."""
        self._spread_x = math.sqrt(mu_w * float(np.dot(step, step)) / self.n)
        return step

    def _hess_inv(self) -> LinearOperator:
        """Return the learned metric C = M M^T, the inverse Hessian up to a factor, as an operator."""
        from scipy.sparse.linalg import LinearOperator

        def times(vector: Array) -> Array:
            scale = 1.0 if self.scale is None else self.scale
            v = np.ravel(vector).astype(self.dtype) * scale
            return self.transform.apply(self.transform.apply_transposed(v)) * scale

        return LinearOperator((self.n, self.n), matvec=times, rmatvec=times, dtype=self.dtype)

    def _take_key(self, key: kernels.Key) -> None:
        super()._take_key(key)
        self.source = self._make_source()

    def _parts(self) -> dict[str, Any]:
        return {"step": self.step, "transform": self.transform}
