"""Algorithm 1 of the paper, the black lines, shared by CMA-ES, MA-ES and LM-MA-ES.

The coloured lines are the *transform*, in one file for each strategy. Tags such as ``[A1:12]`` name lines of
Algorithm 1.

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
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from lmma.kernels.blas import limited_threads
from lmma.methods.base import Method
from lmma.numerics.checks import checked_flag
from lmma.numerics.linalg import padded_rows
from lmma.numerics.parameters import Parameters
from lmma.numerics.recombination import (
    Array,
    Indices,
    Selection,
    squared_length,
    weighted_mean,
)
from lmma.numerics.sampling import (
    Batch,
    Source,
    Streamed,
    mirrored_mu_w,
    redrawn_mean,
    rows_per_block,
    sample_mirrored,
)
from lmma.numerics.state import Declared
from lmma.numerics.stepsize import CSA, StepSizeRule

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator

    from lmma.layers.layer import Told
    from lmma.numerics.linalg import Factors
    from lmma.numerics.metric import Metric


TIE_STEP_LIMIT = 1e3  # upper limit on step growth caused by ties, relative to sigma0


class Transform(ABC):
    """The learned linear map M in d = M z, the coloured lines of Algorithm 1."""

    STATE: ClassVar[Declared] = ()
    keeps_directions: ClassVar[bool] = False  # True if ``update`` reads ``best.d``
    threads: int = 0  # for kernels; 0: their default

    def __init__(self, n: int, parameters: Any, dtype: npt.DTypeLike) -> None:  # noqa: B027
        """Initialise M to the identity."""

    def sample(self, batch: Batch) -> None:
        """Draw z and set ``out`` to the candidates ``mean + step * d``."""
        out, z, d = batch.out, batch.z, batch.d
        batch.source.draw(batch.generation, batch.first, z)  # [A1:5]
        self.apply(z, out=d)  # [A1:6]
        np.multiply(d, batch.step, out=out)
        out += batch.mean  # [A1:11]

    def parts(self) -> Mapping[str, Any]:
        """Return the stateful components of M, by name."""
        return {}

    @abstractmethod
    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return M z for each row of ``z``, or for a single vector."""

    @abstractmethod
    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of M times each row of ``d``."""

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return the diagonal of M M^T at ``columns``.

        ``like`` is any vector of the shape and dtype of z. By default this computes one row of M at a time.
        """
        unit, rows = np.zeros_like(like), []
        for column in columns.tolist():
            unit[column] = 1
            rows.append(squared_length(self.apply_transposed(unit)))
            unit[column] = 0
        return np.array(rows)

    def solve(self, d: Array) -> Array:
        """Return z with M z = d for one vector ``d``; by default with an iterative least-squares solver."""
        from scipy.sparse.linalg import LinearOperator, lsqr

        n = len(d)
        operator = LinearOperator((n, n), matvec=self.apply, rmatvec=self.apply_transposed, dtype=d.dtype)
        return np.asarray(lsqr(operator, d, atol=1e-10, btol=1e-10)[0], dtype=d.dtype)

    def paired(self, count: int) -> None:  # noqa: B027 (most store no samples)
        """Update stored samples: each was followed by its negative, which makes ``count`` candidates."""

    def replaced(self, rows: Indices, z: Array) -> None:  # noqa: B027 (most store no samples)
        """Update stored samples: the candidates at ``rows`` were replaced by those of ``z``."""

    def mean_direction(self, order: Indices, weights: Array, z_mean: Array) -> Array:
        """Return the weighted mean of the selected d, which equals M z_mean because M is linear."""
        return self.apply(z_mean)

    @abstractmethod
    def update(self, best: Selection, p_sigma: Array) -> None:
        """Learn from one ranked generation and the updated evolution path."""

    @abstractmethod
    def factors(self) -> Factors:
        """Return the factors of M: a diagonal, a matrix, a few directions."""

    def without_sample(self) -> Transform:
        """Return a copy that shares the arrays of M but does not hold the last sample."""
        return copy.copy(self)

    def balance(self, generation: int) -> float:
        """Divide M by its overall scale and return this factor, for sigma; 1 if M is unchanged.

        Only the product sigma M matters. If M could shrink indefinitely, sigma would appear to diverge.
        """
        return 1.0


class StreamingTransform(Transform):
    """A transform that does not need a stored generation: ``update`` does not read ``best.z``."""

    @abstractmethod
    def sample_block(self, batch: Batch) -> None:
        """Set ``out`` to the candidates from index ``first``, without storing their z."""


class ES(Method):
    """Base class with the shared lines of Algorithm 1.

    A subclass sets ``define`` (the class of its constants) and ``learns`` (the class of its transform), and
    provides :meth:`rows` (its memory). It may override ``_make_source``, ``_make_step`` and
    ``_make_transform``. With the option ``mirrored``, candidates come in mirrored pairs; its default is
    ``mirrored_by_default``.
    """

    can_inject = True
    can_resample = True
    can_damp = True
    mirrored_by_default: ClassVar[bool] = False
    define: ClassVar[type[Parameters]] = Parameters
    learns: ClassVar[type[Transform]]
    parameters: Parameters

    def initialise(self) -> None:
        """Create constants, step-size rule and transform."""
        known = self.define.options()
        given = {name: self.options[name] for name in known if name in self.options}
        # A method with a constant ``mirrored`` draws mirrored pairs in its source
        self.mirrored = "mirrored" not in known and checked_flag(
            "mirrored", self.options.get("mirrored", self.mirrored_by_default)
        )
        self.parameters = self.define(self.n, self.popsize, **given)  # [A1:1]
        self.step = self._make_step()  # [A1:2]
        self.transform = self._make_transform()  # [A1:2]
        for part in (self.transform, *self.transform.parts().values()):
            part.threads = self.threads
        self._renew_source()
        self.z: Array = padded_rows(self.popsize, self.n, self.dtype)
        self.d = np.empty(self.z.shape, self.dtype) if self.transform.keeps_directions else None
        self._typical_step = math.inf
        dense = self.rows(self.n, self.popsize) >= self.n  # stores a matrix
        self._blas = limited_threads(self.n, self.popsize, dense=dense)
        self._streamed: Streamed | None = None  # replaces the candidates after ask_blocks()

    @classmethod
    def known_options(cls) -> tuple[str, ...]:
        """Return the options of this method, beyond those common to all strategies."""
        known = cls.define.options()
        return (*known, *(() if "mirrored" in known else ("mirrored",)), *super().known_options())

    def _make_source(self) -> Source:
        return Source(self.key)

    def _renew_source(self) -> None:
        self.source = self._make_source()
        self.source.threads = self.threads

    def _make_step(self) -> StepSizeRule:
        p = self.parameters
        return CSA(
            self.n,
            p.c_sigma,
            dtype=self.dtype,
            damping=p.d_sigma,
            norm=p.norm,
            population_damping=p.population_damping,
        )

    def _make_transform(self) -> Transform:
        return self.learns(self.n, self.parameters, self.dtype)

    @staticmethod
    @abstractmethod
    def rows(n: int, popsize: int) -> int:
        """Return the approximate memory of a run in vectors of n numbers, including candidates."""

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return the approximate memory of a run in bytes, including candidates and kernel workspace."""
        return cls.rows(n, popsize) * n * itemsize + cls.workspace(n, popsize, itemsize)

    @classmethod
    def memory_of_options(cls, n: int, popsize: int, itemsize: int, options: Mapping[str, Any]) -> int:
        """Return the approximate memory in bytes that :meth:`memory` omits and ``options`` require."""
        return itemsize * cls.define.numbers_stored_for(n, popsize, options)

    @staticmethod
    def workspace(n: int, popsize: int, itemsize: int) -> int:
        """Return the temporary memory of the kernels in bytes."""
        return 0

    def sample(self, out: Array) -> None:
        """Draw the candidates of this generation."""
        self._streamed = None
        d = out if self.d is None else self.d
        batch = Batch(self.source, self.generation, self.mean, self.steps, out, self.z, d)
        with self._blas:
            if self.mirrored:
                sample_mirrored(self.transform, batch)
            else:
                self.transform.sample(batch)  # [A1:4]

    def update(self, told: Told) -> None:
        """Update the mean, the step size and the transform."""
        with self._blas:
            self._learn(told)

    def _learn(self, told: Told) -> None:
        factor = self.transform.balance(self.generation)
        if factor != 1.0:
            self._absorb_scale(factor)
        best = self._select(told)
        self._record_spread(best)
        move = self.steps * best.d_mean
        self.mean += move if told.rate == 1.0 else told.rate * move  # [A1:12]
        self.step.pace = told.rate
        self.step.update(best)  # [A1:13]
        self.transform.update(best, self.step.path)
        self.sigma *= self.step.factor()  # [A1:19]
        if told.rate != 1.0:  # apply the learning rate to the scale of M as well
            factor = self.transform.balance(0)
            self.sigma *= factor**told.rate if 0.5 < factor < 2 else factor
        if told.tied and self._typical_step < self._longest_step():
            # Not in [A1]: docs/departures.md
            self.sigma *= math.exp(0.2 + self.parameters.c_sigma / self.parameters.d_sigma)

    def _longest_step(self) -> float:
        """Return the length per coordinate beyond which ties no longer lengthen steps."""
        scale = 1.0
        if self.scale is not None:
            integers = self.settings.integers
            given = self.scale if integers is None else self.scale[integers.continuous]
            scale = math.sqrt(squared_length(given) / max(1, len(given)))
        return TIE_STEP_LIMIT * self.sigma0 * scale

    def _select(self, told: Told) -> Selection:
        """Return the ranked generation; if too few candidates have values, renormalise the weights."""
        order = told.order
        weights, mu_w = self.parameters.weights, self.parameters.mu_w
        if len(order) < len(weights):
            weights = weights[: len(order)] / weights[: len(order)].sum()
            mu_w = 1.0 / float(weights @ weights)
        if self.mirrored:
            mu_w = mirrored_mu_w(mu_w, self.popsize)
        if self._streamed is not None:
            z, z_mean = self.z[:0], redrawn_mean(self.source, self.generation, weights, order, self.mean)
        else:
            z, z_mean = self.z, weighted_mean(weights, order, self.z, self.source.threads)
        d_mean = self.transform.mean_direction(order, weights, z_mean)
        return Selection(order, told.ranked, weights, mu_w, z_mean, d_mean, z, self.d, self.source.threads)

    def _absorb_scale(self, factor: float) -> None:
        """Move a factor of the transform into sigma; rescale the directions of this generation."""
        self.sigma *= factor
        if self.d is not None:
            self.d /= factor

    def _record_spread(self, best: Selection) -> None:
        """Estimate the typical distance of candidates from the mean, using the mean step, for ``tolx``."""
        d = best.d_mean if self._scale is None else best.d_mean * self._scale
        if self.settings.integers is not None:  # integer steps have a lower limit
            d = d[self.settings.integers.continuous]
        # Multiply by sigma last: squares of the steps of a diverging run overflow in single precision
        step = math.sqrt(best.mu_w * squared_length(d) / len(d)) if len(d) else math.inf
        self._typical_step = self.sigma * step

    def spread(self, candidates: Array) -> float:
        """Return the typical step length, per coordinate."""
        return self._typical_step

    def deviations(self, columns: Indices, mean: Array, unrounded: Array) -> Array:
        """Return the standard deviations of candidates in ``columns``, from the transform."""
        roots = np.sqrt(self.transform.variances_at(columns, self.mean))
        return roots * (self.sigma if self.scale is None else self.sigma * self.scale[columns])

    def selection_weights(self) -> Array:
        """Return the weights of the better half."""
        return self.parameters.weights

    # Injected, redrawn and streamed candidates

    def place(self, points: list[Array], out: Array) -> None:
        """Write ``points`` to the last rows of ``out``."""
        for row, x in enumerate(points, start=len(out) - len(points)):
            # Hansen 2011: evaluate the point itself, learn from a step of limited length
            z = self._shortened(x - self.mean, math.sqrt(self.n) + 2 * self.n / (self.n + 2))
            self._replace(np.array([row]), z[np.newaxis], out)
            out[row] = x

    def _shortened(self, away: Array, longest: float) -> Array:
        """Return the z of the step ``away`` from the mean, shortened to the length ``longest``."""
        with np.errstate(over="ignore", invalid="ignore"):
            z = self.transform.solve(away / self.steps)
            length = float(np.linalg.norm(z))
        if not math.isfinite(length):  # the squared length overflows: use only the direction
            away = away / np.abs(away).max() * (np.min(self.steps) / self.steps)
            z = self.transform.solve(away)
            length = max(float(np.linalg.norm(z)), float(np.finfo(self.dtype).tiny))
            return z * (longest / length)
        if length > longest:
            z *= longest / length
        return z

    def resample(self, rows: Indices, attempt: int, out: Array) -> None:
        """Redraw the candidates at ``rows`` of ``out``."""
        if self._streamed is not None:
            raise ValueError("resample() does not support candidates of ask_blocks(): use ask() instead")
        z = np.empty((len(rows), self.n), dtype=self.dtype)
        for row, numbers in zip(rows.tolist(), z, strict=True):
            self.source.draw(self.generation, attempt * self.popsize + row, numbers[np.newaxis])
        self._replace(rows, z, out)

    def _replace(self, rows: Indices, z: Array, out: Array) -> None:
        """Replace the candidates at ``rows`` by those of ``z``."""
        d = self.transform.apply(z)
        self.z[rows] = z
        if self.d is not None:
            self.d[rows] = d
        out[rows] = self.mean + self.steps * d
        self.transform.replaced(rows, z)

    def blocks(self, rows: int | None) -> Iterator[tuple[int, Array]]:
        """Return an iterator over (index of first candidate, block of up to ``rows`` candidates)."""
        assert isinstance(self.transform, StreamingTransform)  # can_stream is set
        if self.mirrored:
            raise ValueError("ask_blocks() does not support mirrored=True: use ask() or mirrored=False")
        return self._stream(self.transform, rows_per_block(rows, self.popsize, self.n))

    def _stream(self, transform: StreamingTransform, rows: int) -> Iterator[tuple[int, Array]]:
        steps, buffer = self.steps, np.empty((rows, self.n), dtype=self.dtype)
        for first in range(0, self.popsize, rows):
            block = buffer[: self.popsize - first]
            batch = Batch(self.source, self.generation, self.mean, steps, block, self.z[:0], block, first)
            transform.sample_block(batch)
            if first + rows >= self.popsize:
                self._streamed = Streamed(transform, batch)
            yield first, block

    def candidate(self, row: int) -> Array:
        """Regenerate a candidate of the last :meth:`blocks`."""
        assert self._streamed is not None
        return self._streamed[row]

    # Learned metric and state

    def begin_from(self, root: npt.NDArray[np.float64], sigma: float) -> None:
        """Begin with steps of the length ``sigma`` along the columns of ``root``, (n, n).

        A diagonal ``root`` may be given as its diagonal, (n,). A method without a matrix takes the typical
        length of the columns.
        """
        if self._scale is not None:
            scale = self._scale.astype(np.float64)
            root = root / (scale if root.ndim == 1 else scale[:, np.newaxis])
        length = float(np.linalg.norm(root)) / math.sqrt(self.n)
        self.sigma = sigma * length
        self._take_metric(root / length)

    def _take_metric(self, root: npt.NDArray[np.float64]) -> None:
        """Set M M^T to root root^T, as far as the transform can."""

    def hess_inv(self) -> LinearOperator:
        """Return the learned metric C = M M^T as an operator, the inverse Hessian up to a factor."""
        from lmma.numerics.metric import MetricOperator

        return MetricOperator(self.transform, self.scale, self.n, self.dtype)

    def metric(self) -> Metric:
        """Return the learned metric as a record, from which another search can start."""
        from lmma.numerics.metric import Metric

        return Metric.of(self.mean, self.sigma, self.scale, self.transform)

    def restored(self) -> None:
        """Recreate the source of random numbers with the restored key."""
        self._renew_source()

    def parts(self) -> dict[str, object]:
        """Return the step-size rule, the transform and its components, by name."""
        return {"step": self.step, "transform": self.transform, **self.transform.parts()}
