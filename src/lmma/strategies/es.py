"""Algorithm 1 of the paper, the black lines: what CMA-ES, MA-ES and LM-MA-ES share.

The coloured lines are the *transform*, one short file for each strategy. Tags such as ``[A1:12]`` name
lines of Algorithm 1.

========  =================  ========  ====================================================
paper     code               shape     meaning
========  =================  ========  ====================================================
y         ``mean``           (n,)      estimate of the optimum (y means values elsewhere)
sigma     ``sigma``          float     global step size
t         ``generation``     int       iterations done
z_i       ``z``              (lam, n)  standard normal vectors, one per row
d_i       ``d``              (lam, n)  mutation directions, d_i = M z_i
p_sigma   ``step.path``      (n,)      evolution path, in ``stepsize.py``
f_i       ``values``         (lam,)    objective values
========  =================  ========  ====================================================
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.kernels.blas import held_for
from lmma.strategies.base import Strategy
from lmma.strategies.parts.aligned import spaced
from lmma.strategies.parts.checks import checked_flag
from lmma.strategies.parts.pairs import mass_of_pairs, sample_pairs
from lmma.strategies.parts.parameters import Parameters
from lmma.strategies.parts.recombination import (
    Array,
    Indices,
    Selection,
    squared_length,
    weighted_mean,
)
from lmma.strategies.parts.stepsize import CSA, StepSizeRule
from lmma.strategies.parts.streaming import Streamed, redrawn_mean, rows_of_a_block

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator


REACH = 1e3  # times the initial step: so far ties may drive the search from where it began


class Source:
    """The standard normal vectors of a run, a pure function of (key, generation, candidate)."""

    threads: int = 0  # for kernels; 0: their default

    def __init__(self, key: kernels.Key) -> None:
        self.key = key

    def draw(self, generation: int, first: int, z: Array) -> None:
        """Fill row ``r`` of ``z`` with the vector of candidate ``first + r``."""
        kernels.normals(self.key, generation, first, z, threads=self.threads)


class Batch(NamedTuple):
    """Candidates to be drawn: those of a generation from number ``first`` on, one per row of ``out``."""

    source: Source
    generation: int
    mean: Array  # (n,)
    step: float | Array  # sigma, or one for each coordinate
    out: Array  # (rows, n), for the candidates mean + step * d
    z: Array  # (rows, n), for the standard normal vectors; no rows where they are not kept
    d: Array  # (rows, n), for the directions; may be ``out`` itself
    first: int = 0


class Transform(ABC):
    """The learned linear map M that turns z into d = M z: the coloured lines of Algorithm 1."""

    STATE: ClassVar[tuple[str, ...]] = ()
    keeps_directions: ClassVar[bool] = False  # whether ``update`` reads ``best.d``
    threads: int = 0  # for kernels; 0: their default

    def __init__(self, n: int, parameters: Any, dtype: npt.DTypeLike) -> None:  # noqa: B027
        """Begin as the identity, with the constants of the method."""

    def sample(self, batch: Batch) -> None:
        """Draw z and set ``out`` to the candidates ``mean + step * d``."""
        out, z, d = batch.out, batch.z, batch.d
        batch.source.draw(batch.generation, batch.first, z)  # [A1:5]
        self.apply(z, out=d)  # [A1:6]
        np.multiply(d, batch.step, out=out)
        out += batch.mean  # [A1:11]

    def parts(self) -> Mapping[str, Any]:
        """Return the parts of M that have state of their own, by name."""
        return {}

    @abstractmethod
    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return M z for each row of ``z``, or for a single vector."""

    @abstractmethod
    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of M times each row of ``d``."""

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return the diagonal of M M^T at ``columns``; row by row of M unless a transform knows better.

        ``like`` is any vector of the kind that M takes.
        """
        unit, rows = np.zeros_like(like), []
        for column in columns.tolist():
            unit[column] = 1
            rows.append(squared_length(self.apply_transposed(unit)))
            unit[column] = 0
        return np.array(rows)

    def solve(self, d: Array) -> Array:
        """Return z with M z = d for one vector ``d``; by least squares unless a transform knows better."""
        from scipy.sparse.linalg import LinearOperator, lsqr

        n = len(d)
        operator = LinearOperator((n, n), matvec=self.apply, rmatvec=self.apply_transposed, dtype=d.dtype)
        return np.asarray(lsqr(operator, d, atol=1e-10, btol=1e-10)[0], dtype=d.dtype)

    def paired(self, count: int) -> None:  # noqa: B027 (most keep nothing of a sample)
        """Take note that each vector sampled last is followed by its opposite, ``count`` in all."""

    def replaced(self, rows: Indices, z: Array) -> None:  # noqa: B027 (most keep nothing of a sample)
        """Take note that the candidates at ``rows`` of the last sample were made from ``z`` after all."""

    def mean_direction(self, order: Indices, weights: Array, z_mean: Array) -> Array:
        """Return the weighted mean of the selected d, which is M z_mean as M is linear."""
        return self.apply(z_mean)

    @abstractmethod
    def update(self, best: Selection, p_sigma: Array) -> None:
        """Learn from one ranked generation and the evolution path after its update."""

    def at_rest(self) -> Transform:
        """Return a copy that shares the arrays of M and has nothing of the last sample."""
        return copy.copy(self)

    def balance(self, generation: int) -> float:
        """Take a factor out of M and return it, for sigma to take; 1 while M keeps its size.

        sigma M is what counts; where M can shrink without end, sigma would seem to diverge in its stead.
        """
        return 1.0


class StreamingTransform(Transform):
    """A transform that can do without the whole generation: ``update`` does not read ``best.z``."""

    @abstractmethod
    def sample_block(self, batch: Batch) -> None:
        """Set ``out`` to the candidates from number ``first`` on, without keeping their z."""


class ES(Strategy):
    """The shared lines of Algorithm 1, waiting for constants, a transform and a step-size rule.

    A subclass says in ``define`` which constants it has, in ``learns`` what makes its transform, in
    :meth:`rows` how much memory it takes; it may also replace ``_make_source``, ``_make_step`` and
    ``_make_transform``. With the option ``mirrored`` candidates come in opposite pairs, as they do without
    it where ``pairs`` is True.
    """

    can_inject = True
    can_resample = True
    can_damp = True
    pairs: ClassVar[bool] = False
    define: ClassVar[type[Parameters]] = Parameters
    learns: ClassVar[type[Transform]]
    parameters: Parameters

    def _initialise(self) -> None:
        own = self.define.options()
        given = {name: self.options[name] for name in own if name in self.options}
        # A method with a constant of this name has a source of its own that makes pairs
        self.mirrored = "mirrored" not in own and checked_flag(
            "mirrored", self.options.get("mirrored", self.pairs)
        )
        self.parameters = self.define(self.n, self.popsize, **given)  # [A1:1]
        self.step = self._make_step()  # [A1:2]
        self.transform = self._make_transform()  # [A1:2]
        for part in (self.transform, *self.transform.parts().values()):
            part.threads = self.threads
        self._renew_source()
        self.z: Array = spaced(self.popsize, self.n, self.dtype)
        self.d = np.empty(self.z.shape, self.dtype) if self.transform.keeps_directions else None
        self._typical_step = math.inf
        dense = self.rows(self.n, self.popsize) >= self.n  # a matrix is among what is kept
        self._blas = held_for(self.n, self.popsize, dense=dense)
        self._streamed: Streamed | None = None  # in place of the candidates after ask_blocks()

    @classmethod
    def known_options(cls) -> tuple[str, ...]:
        """Return the constants that can be given, and what a subclass takes besides."""
        own = cls.define.options()
        return (*own, *(() if "mirrored" in own else ("mirrored",)), *super().known_options())

    def _make_source(self) -> Source:
        return Source(self.key)

    def _renew_source(self) -> None:
        self.source = self._make_source()
        self.source.threads = self.threads

    def _make_step(self) -> StepSizeRule:
        p = self.parameters
        return CSA(self.n, p.c_sigma, dtype=self.dtype, damping=p.d_sigma, norm=p.norm, crowd=p.crowd)

    def _make_transform(self) -> Transform:
        return self.learns(self.n, self.parameters, self.dtype)

    @staticmethod
    @abstractmethod
    def rows(n: int, popsize: int) -> int:
        """Return about how many vectors of n numbers a run needs, candidates included."""

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return about how many bytes a run needs, candidates included."""
        return cls.rows(n, popsize) * n * itemsize

    def _sample(self, out: Array) -> None:
        self._streamed = None
        d = out if self.d is None else self.d
        batch = Batch(self.source, self.generation, self.mean, self.steps, out, self.z, d)
        with self._blas:
            if self.mirrored:
                sample_pairs(self.transform, batch)
            else:
                self.transform.sample(batch)  # [A1:4]

    def _update(self, order: Indices, values: Array) -> None:
        with self._blas:
            self._learn(order, values)

    def _learn(self, order: Indices, values: Array) -> None:
        factor = self.transform.balance(self.generation)
        if factor != 1.0:
            self._take(factor)
        best = self._select(order, values)
        self._note_spread(best)
        move = self.steps * best.d_mean
        self.mean += move if self.noise.rate == 1.0 else self.noise.rate * move  # [A1:12]
        self.step.pace = self.noise.rate
        self.step.follow(best)  # [A1:13]
        self.transform.update(best, self.step.path)
        self.sigma *= self.step.factor()  # [A1:19]
        if self.noise.rate != 1.0:  # the size of M, too, changes no faster than the rest of the search
            factor = self.transform.balance(0)
            self.sigma *= factor**self.noise.rate if 0.5 < factor < 2 else factor
        if self.ties.hinder and self._typical_step < self._longest_step():
            # Not in [A1]: docs/departures.md
            self.sigma *= math.exp(0.2 + self.parameters.c_sigma / self.parameters.d_sigma)

    def _longest_step(self) -> float:
        """Return how long a typical step, per coordinate, may become for no better reason than ties."""
        scale = 1.0
        if self.scale is not None:
            given = self.scale if self.integers is None else self.scale[self.integers.continuous]
            scale = math.sqrt(squared_length(given) / max(1, len(given)))
        return REACH * self.sigma0 * scale

    def _select(self, order: Indices, values: Array) -> Selection:
        """Return the ranked generation; if few candidates have values, the weights close ranks."""
        weights, mu_w = self.parameters.weights, self.parameters.mu_w
        if len(order) < len(weights):
            weights = weights[: len(order)] / weights[: len(order)].sum()
            mu_w = 1.0 / float(weights @ weights)
        if self.mirrored:
            mu_w = mass_of_pairs(mu_w, self.popsize)
        if self._streamed is not None:
            z, z_mean = self.z[:0], redrawn_mean(self.source, self.generation, weights, order, self.mean)
        else:
            z, z_mean = self.z, weighted_mean(weights, order, self.z, self.threads)
        d_mean = self.transform.mean_direction(order, weights, z_mean)
        return Selection(order, values, weights, mu_w, z_mean, d_mean, z, self.d, self.threads)

    def _take(self, factor: float) -> None:
        """Let sigma take what the transform gives away; the directions of this generation follow."""
        self.sigma *= factor
        if self.d is not None:
            self.d /= factor

    def _note_spread(self, best: Selection) -> None:
        """Note how far a typical candidate lies from the mean, for ``tolx``: known from their mean step."""
        d = best.d_mean if self.scale is None else best.d_mean * self.scale
        if self.integers is not None:  # whose steps are never small
            d = d[self.integers.continuous]
        # sigma stays outside: squared in single precision, the steps of a diverging run overflow
        step = math.sqrt(best.mu_w * squared_length(d) / len(d)) if len(d) else math.inf
        self._typical_step = self.sigma * step

    def _measure_spread(self) -> float:
        return self._typical_step

    def _deviations(self, columns: Indices, mean: Array) -> Array:
        roots = np.sqrt(self.transform.variances_at(columns, self.mean))
        return roots * (self.sigma if self.scale is None else self.sigma * self.scale[columns])

    def _selection_weights(self) -> Array:
        return self.parameters.weights

    # Candidates that do not come from ``_sample`` alone

    def _place(self, points: list[Array], out: Array) -> None:
        for row, x in enumerate(points, start=self.popsize - len(points)):
            # Hansen 2011: evaluated where it is, learned from as a step of usual length
            z = self._shortened(x - self.mean, math.sqrt(self.n) + 2 * self.n / (self.n + 2))
            self._replace(np.array([row]), z[np.newaxis], out)
            out[row] = x

    def _shortened(self, away: Array, longest: float) -> Array:
        """Return the z that leads so far from the mean, or one in that direction of length ``longest``."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = self.transform.solve(away / self.steps)
            length = float(np.linalg.norm(z))
        if not math.isfinite(length):  # so many steps that their square is infinite: the direction will do
            away = away / np.abs(away).max() * (np.min(self.steps) / self.steps)
            z = self.transform.solve(away)
            length = max(float(np.linalg.norm(z)), float(np.finfo(self.dtype).tiny))
            return z * (longest / length)
        if length > longest:
            z *= longest / length
        return z

    def _resample(self, rows: Indices, attempt: int, out: Array) -> None:
        if self._streamed is not None:
            raise ValueError("candidates given in blocks cannot be replaced: call ask() instead")
        z = np.empty((len(rows), self.n), dtype=self.dtype)
        for row, numbers in zip(rows.tolist(), z, strict=True):
            self.source.draw(self.generation, attempt * self.popsize + row, numbers[np.newaxis])
        self._replace(rows, z, out)

    def _replace(self, rows: Indices, z: Array, out: Array) -> None:
        """Make the candidates at ``rows`` those of ``z``."""
        d = self.transform.apply(z)
        self.z[rows] = z
        if self.d is not None:
            self.d[rows] = d
        out[rows] = self.mean + self.steps * d
        self.transform.replaced(rows, z)

    def _blocks(self, rows: int | None) -> Iterator[Array]:
        assert isinstance(self.transform, StreamingTransform)  # it says can_stream
        if self.mirrored:
            raise ValueError("mirrored candidates cannot be given in blocks: call ask(), or mirrored=False")
        return self._stream(self.transform, rows_of_a_block(rows, self.popsize, self.n))

    def _stream(self, transform: StreamingTransform, rows: int) -> Iterator[Array]:
        steps, buffer = self.steps, np.empty((rows, self.n), dtype=self.dtype)
        for first in range(0, self.popsize, rows):
            block = buffer[: self.popsize - first]
            batch = Batch(self.source, self.generation, self.mean, steps, block, self.z[:0], block, first)
            transform.sample_block(batch)
            if self.box is not None:
                self.box.repair_block(block, first, self.popsize)
            if self.integers is not None:
                self.integers.expect(self.popsize, self.dtype)
                self.integers.round(block, first)
            if first + rows >= self.popsize:
                self._streamed = Streamed(transform, batch)
                self._asked = buffer[:0]
            yield block

    def _candidate(self, row: int) -> Array:
        return super()._candidate(row) if self._streamed is None else self._inside(self._streamed[row])

    # What has been learned, and how to go on with it

    def _hess_inv(self) -> LinearOperator:
        """Return the learned metric C = M M^T, the inverse Hessian up to a factor, as an operator."""
        from lmma.strategies.parts.metric import Metric

        return Metric(self.transform, self.scale, self.n, self.dtype)

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Go on from a state of :meth:`get_state`, taken from a strategy of the same kind and size."""
        super().set_state(state)
        self._renew_source()

    def _parts(self) -> dict[str, object]:
        return {"step": self.step, "transform": self.transform, **self.transform.parts()}
