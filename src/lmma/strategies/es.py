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
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.strategies.base import DEFAULT_TOLERANCE, Strategy, reject_unknown_options
from lmma.strategies.parts.aligned import spaced
from lmma.strategies.parts.recombination import (
    Array,
    Indices,
    Recombination,
    Selection,
    squared_length,
    weighted_mean,
)
from lmma.strategies.parts.stepsize import StepSizeRule
from lmma.strategies.parts.streaming import Streamed, redrawn_mean, rows_of_a_block

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator


class Parameters(Protocol):
    """The constants of one algorithm, a frozen dataclass."""

    @property
    def recombination(self) -> Recombination:
        """Population size and weights."""


class Source:
    """The standard normal vectors of a run, a pure function of (key, generation, candidate)."""

    threads: int = 0  # for kernels; 0: their default

    def __init__(self, key: kernels.Key) -> None:
        self.key = key

    def draw(self, generation: int, first: int, z: Array) -> None:
        """Fill row ``r`` of ``z`` with the vector of candidate ``first + r``."""
        kernels.normals(self.key, generation, first, z, threads=self.threads)


class Transform(ABC):
    """The learned linear map M that turns z into d = M z: the coloured lines of Algorithm 1."""

    STATE: ClassVar[tuple[str, ...]] = ()
    keeps_directions: ClassVar[bool] = False  # whether ``update`` reads ``best.d``
    threads: int = 0  # for kernels; 0: their default

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

    def solve(self, d: Array) -> Array:
        """Return z with M z = d for one vector ``d``; by least squares unless a transform knows better."""
        from scipy.sparse.linalg import LinearOperator, lsqr

        n = len(d)
        operator = LinearOperator((n, n), matvec=self.apply, rmatvec=self.apply_transposed, dtype=d.dtype)
        return np.asarray(lsqr(operator, d, atol=1e-10, btol=1e-10)[0], dtype=d.dtype)

    def replaced(self, rows: Indices, z: Array) -> None:  # noqa: B027 (most keep nothing of a sample)
        """Take note that the candidates at ``rows`` of the last sample were made from ``z`` after all."""

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


class StreamingTransform(Transform):
    """A transform that can do without the whole generation: ``update`` does not read ``best.z``."""

    @abstractmethod
    def sample_block(
        self, source: Source, generation: int, first: int, mean: Array, step: float | Array, out: Array
    ) -> None:
        """Set ``out`` to the candidates from number ``first`` on, without keeping their z."""


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
        threads: int | None = None,
        **overrides: Any,
    ) -> None:
        reject_unknown_options(type(self), overrides)
        super().__init__(
            x0, sigma0, popsize=popsize, rng=rng, dtype=dtype, tolx=tolx, tolfun=tolfun, threads=threads
        )
        self.overrides = overrides
        self.parameters = type(self).define(self.n, self.popsize, **overrides)  # [A1:1]
        self.source = self._make_source()
        self.step = self._make_step()  # [A1:2]
        self.transform = self._make_transform()  # [A1:2]
        self.source.threads = self.transform.threads = self.threads
        self.z: Array = spaced(self.popsize, self.n, self.dtype)
        self.d = np.empty(self.z.shape, self.dtype) if self.transform.keeps_directions else None
        self._injected: list[Array] = []  # points that wait for the next ask()
        self._streamed: Streamed | None = None  # in place of the candidates after ask_blocks()

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

    def ask(self, out: Array | None = None) -> Array:
        """Return the candidates of this generation; injected points take the place of its last rows."""
        out = super().ask(out)
        self._streamed = None
        if not self._injected:
            return out
        points, self._injected = self._injected[: self.popsize], self._injected[self.popsize :]
        for row, x in enumerate(points, start=self.popsize - len(points)):
            z = self.transform.solve((x - self.mean) / self._scaled_sigma())
            length = float(np.linalg.norm(z))
            longest = math.sqrt(self.n) + 2 * self.n / (self.n + 2)
            if length > longest:  # Hansen 2011: evaluated where it is, learned from as a step of usual length
                z *= longest / length
            self._replace(np.array([row]), z[np.newaxis])
            out[row] = x
        return out

    def ask_blocks(self, rows: int | None = None) -> Iterator[Array]:
        """Return an iterator over the candidates of this generation, ``rows`` of them at a time.

        Each block is an array (up to ``rows``, n) that the next one overwrites, so that a generation is
        never held as a whole; after the last one :meth:`tell` takes all values, in order. The candidates
        are those of :meth:`ask`; their random numbers are drawn a second time for it.
        """
        if not isinstance(self.transform, StreamingTransform):
            raise TypeError(f"{self.name} cannot give its candidates in blocks: use ask(), or lm-ma-es")
        if self._asked is not None:
            raise ValueError(
                "ask_blocks() came before tell(): tell() the values of the last candidates first"
            )
        return self._blocks(self.transform, rows_of_a_block(rows, self.popsize, self.n))

    def _blocks(self, transform: StreamingTransform, rows: int) -> Iterator[Array]:
        step = self._scaled_sigma()
        buffer = np.empty((rows, self.n), dtype=self.dtype)
        for first in range(0, self.popsize, rows):
            block = buffer[: self.popsize - first]
            transform.sample_block(self.source, self.generation, first, self.mean, step, block)
            if first + rows >= self.popsize:
                self._streamed = Streamed(transform, self.source, self.generation, self.mean, step)
                self._asked = buffer[:0]
            yield block

    def _candidate(self, row: int) -> Array:
        return super()._candidate(row) if self._streamed is None else self._streamed[row]

    def inject(self, points: npt.ArrayLike) -> None:
        """Have ``points``, one or one a row, evaluated among the next candidates.

        A good one pulls the search towards it. Far ones are learned from as if they were at the edge of
        what the search would have tried itself, so that they cannot throw it off (Hansen 2011, Injecting
        external solutions into CMA-ES).
        """
        rows = np.atleast_2d(np.asarray(points, dtype=self.dtype))
        if rows.ndim != 2 or rows.shape[1] != self.n or not np.all(np.isfinite(rows)):
            raise ValueError(
                f"points must be finite and have shape ({self.n},) or (rows, {self.n}), "
                f"got shape {np.shape(points)}"
            )
        self._injected += [row.copy() for row in rows]

    def resample(self, rows: npt.ArrayLike, attempt: int = 1) -> None:
        """Draw the candidates at ``rows`` of the last :meth:`ask` anew, in place.

        ``attempt`` counts how often that has been done: like all candidates, the new ones are a pure
        function of (seed, generation, number), numbered on from those of the generation.
        """
        rows = np.asarray(rows, dtype=np.intp)
        if attempt < 1:
            raise ValueError(f"attempt counts from 1, got {attempt}")
        z = np.empty((len(rows), self.n), dtype=self.dtype)
        for row, numbers in zip(rows.tolist(), z, strict=True):
            self.source.draw(self.generation, attempt * self.popsize + row, numbers[np.newaxis])
        self._replace(rows, z)

    def _replace(self, rows: Indices, z: Array) -> None:
        """Make the candidates at ``rows`` those of ``z``."""
        if self._asked is None:
            raise ValueError("there are no candidates to draw again: call ask() first")
        if self._streamed is not None:
            raise ValueError("candidates given in blocks cannot be replaced: call ask() instead")
        d = self.transform.apply(z)
        self.z[rows] = z
        if self.d is not None:
            self.d[rows] = d
        self._asked[rows] = self.mean + self._scaled_sigma() * d
        self.transform.replaced(rows, z)

    def _update(self, order: Indices, values: Array) -> None:
        best = self._select(order, values)
        self._note_spread(best)
        self.mean += self._scaled_sigma() * best.d_mean  # [A1:12]
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
        if self._streamed is not None:
            z, z_mean = self.z[:0], redrawn_mean(self.source, self.generation, weights, order, self.mean)
        else:
            z, z_mean = self.z, weighted_mean(weights, order, self.z, self.threads)
        d_mean = self.transform.mean_direction(order, weights, z_mean)
        return Selection(order, values, weights, mu_w, z_mean, d_mean, z, self.d, self.threads)

    def _note_spread(self, best: Selection) -> None:
        """Note how far a typical candidate lies from the mean, for ``tolx``."""
        d = best.d_mean if self.scale is None else best.d_mean * self.scale
        # sigma stays outside: squared in single precision, the steps of a diverging run overflow
        self._spread_x = self.sigma * math.sqrt(best.mu_w * squared_length(d) / self.n)

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
        self.source.threads = self.threads

    def _parts(self) -> dict[str, Any]:
        return {"step": self.step, "transform": self.transform}
