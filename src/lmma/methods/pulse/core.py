"""The matrix A between a diagonal and a few stretched directions: the identity, or full and learned.

The full matrix is learned like M in MA-ES, with active weights: A <- A (I + G/2). It changes at a rate of
1/n^2, so G is accumulated over several calls before A and its inverse are multiplied.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.layers.integers import as_slice
from lmma.numerics.linalg import row_squares
from lmma.numerics.recombination import Array, Indices, cumulate_all
from lmma.numerics.state import COUNT, FINITE, Declared

RENEW = 250  # products between two exact inversions, to limit rounding errors
CORRELATION_PERIOD = 4  # products between two updates of the correlations, which change slowly


class Core(ABC):
    """A square matrix A with its inverse, applied to rows."""

    STATE: ClassVar[Declared] = ()
    threads: int = 0  # unused by NumPy's BLAS

    @abstractmethod
    def __init__(self, n: int, damping_power: float, dtype: npt.DTypeLike) -> None: ...

    def without_sample(self) -> Core:
        """Return a copy that shares the arrays of A but has no buffers."""
        return self

    @abstractmethod
    def times(self, rows: Array) -> Array:
        """Return A v for each row v."""

    @abstractmethod
    def transposed_times(self, rows: Array) -> Array:
        """Return A^T v for each row v."""

    @abstractmethod
    def solved(self, rows: Array) -> Array:
        """Return A^-1 v for each row v."""

    @abstractmethod
    def rows_at(self, columns: Indices, axes: Array) -> tuple[Array, Array]:
        """Return the squared lengths of rows ``columns`` of A, and their products with each of ``axes``."""

    @abstractmethod
    def update_path(self, steps: Array, rate: float) -> None:
        """Update the path with the selected steps of several generations."""

    @abstractmethod
    def through_core(
        self, z: Array, images: Array, paths_and_axes: Array, metric: kernels.Metric
    ) -> kernels.ThroughCore | None:
        """Return all rows multiplied by A and by A^-T, or None if A is the identity.

        ``images`` are A B L z; ``paths_and_axes`` are two paths and the axes of ``metric``.
        """

    @abstractmethod
    def learn(self, rows: Array, negative: int, fade: float, count: int) -> None:
        """Set A to A (I + G/2), now or later: G = sum_p +-q_p q_p^T - fade I with the rows q_p.

        The last ``negative`` rows are subtracted; ``count`` is the number of rows including
        omitted zero rows.
        """


@final
class IdentityCore(Core):
    """The core A = I of plain pulse, which is not learned."""

    def __init__(self, n: int, damping_power: float, dtype: npt.DTypeLike) -> None:
        """Do nothing."""

    def times(self, rows: Array) -> Array:
        """Return ``rows``."""
        return rows

    transposed_times = times
    solved = times

    def rows_at(self, columns: Indices, axes: Array) -> tuple[Array, Array]:
        """Return ones, and entries of ``axes``."""
        return np.ones(len(columns)), axes[:, as_slice(columns)]

    def update_path(self, steps: Array, rate: float) -> None:
        """Do nothing."""

    def through_core(self, z: Array, images: Array, paths_and_axes: Array, metric: kernels.Metric) -> None:
        """Return None."""

    def learn(self, rows: Array, negative: int, fade: float, count: int) -> None:
        """Do nothing."""


@final
class FullCore(Core):
    """A full matrix and its inverse.

    ===========  =================  ========  ==========================================================
    symbol       code               shape     meaning
    ===========  =================  ========  ==========================================================
    A            ``matrix``         (n, n)    and its ``inverse``
    G            ``change``         (n, n)    by which A will be multiplied; its lower triangle
    p_A          ``path``           (n,)      evolution path of z
    -            ``damping``        (n,)      ((1 + kappa_j)/2)^-caution, kappa_j = C_jj (C^-1)_jj, C = A A^T
    -            ``waiting``        int       number of rows summed in G
    ===========  =================  ========  ==========================================================
    """

    STATE: ClassVar[Declared] = {
        "matrix": FINITE, "inverse": FINITE, "change": FINITE, "path": FINITE, "damping": FINITE,
        "waiting": COUNT, "age": COUNT,
    }  # fmt: skip

    def __init__(self, n: int, damping_power: float, dtype: npt.DTypeLike) -> None:
        self.matrix = np.eye(n, dtype=dtype).T  # in column order: each generation multiplies rows by A^T
        self.inverse = np.eye(n, dtype=dtype)
        self.change = np.zeros((n, n), dtype=dtype)
        self.path = np.zeros(n, dtype=dtype)
        self.damping = np.ones(n, dtype=dtype)  # of D, because A must compensate for D on a rotated function
        self.damping_power = damping_power
        self.waiting = 0
        self.age = 0
        self.enough = max(4 * n, n * n // 10)  # rows: each of them changes A by about 1/n^2
        self._buffers: tuple[Array, Array, Array] | None = None  # duals, images and duals of paths and axes

    def without_sample(self) -> FullCore:
        """Return a copy that shares the arrays of A but has no buffers."""
        stripped = copy.copy(self)
        stripped._buffers = None
        return stripped

    def times(self, rows: Array) -> Array:
        """Return A v for each row v."""
        return rows @ self.matrix.T

    def transposed_times(self, rows: Array) -> Array:
        """Return A^T v for each row v."""
        return rows @ self.matrix

    def solved(self, rows: Array) -> Array:
        """Return A^-1 v for each row v."""
        return rows @ self.inverse.T

    def update_path(self, steps: Array, rate: float) -> None:
        """Update the path with the selected steps of several generations."""
        self.path += cumulate_all(self.path, rate, steps)

    def rows_at(self, columns: Indices, axes: Array) -> tuple[Array, Array]:
        """Return the squared lengths of rows ``columns`` of A, and their products with each of ``axes``."""
        return row_squares(self.matrix, columns), axes @ self.matrix[as_slice(columns)].T

    def through_core(
        self, z: Array, images: Array, paths_and_axes: Array, metric: kernels.Metric
    ) -> kernels.ThroughCore:
        """Return all rows multiplied by A and by A^-T, and the damping of D due to correlations in A.

        Images of V and duals of U are only computed up to the last axis with a gain.
        """
        used, first = metric.gains.nonzero()[0], 2 + metric.longs
        longs = 2 + int(used.searchsorted(metric.longs))  # axes with a gain come first
        shorts = max(first, 3 + used.item(-1)) if len(used) else first
        if self._buffers is None or self._buffers[0].shape != z.shape:
            self._buffers = (
                np.empty(z.shape, z.dtype),
                np.zeros_like(paths_and_axes),
                np.zeros_like(paths_and_axes),
            )
        duals, images_of, duals_of = self._buffers
        np.matmul(z, self.inverse, out=duals)
        np.matmul(paths_and_axes[:shorts], self.matrix.T, out=images_of[:shorts])
        np.matmul(paths_and_axes[:longs], self.inverse, out=duals_of[:longs])
        np.matmul(paths_and_axes[first:], self.inverse, out=duals_of[first:])
        return kernels.ThroughCore(images, duals, images_of, duals_of, self.path, self.damping)

    def learn(self, rows: Array, negative: int, fade: float, count: int) -> None:
        """Add the rows to G; multiply A and its inverse once there are enough rows."""
        kernels.add_squares(rows, negative, fade, self.change, threads=self.threads)
        self.waiting += count
        if self.waiting >= self.enough:
            self._multiply()

    def _multiply(self) -> None:
        """Set A to A (I + G/2), and update its inverse."""
        kernels.grow(self.change, self.matrix.T, self.inverse)
        self.waiting = 0
        self.age += 1
        if self.age % RENEW == 0:
            self.inverse[...] = np.linalg.inv(self.matrix)
        if self.age % CORRELATION_PERIOD and self.age > CORRELATION_PERIOD:
            return
        self._measure_correlations()

    def set_matrix(self, matrix: npt.NDArray[np.float64]) -> None:
        """Set A."""
        self.matrix[...], self.inverse[...] = matrix, np.linalg.inv(matrix)
        self._measure_correlations()

    def _measure_correlations(self) -> None:
        kappa = np.einsum("ij,ij->i", self.matrix, self.matrix)
        kappa *= np.einsum("ij,ij->j", self.inverse, self.inverse)
        self.damping[...] = ((1 + kappa) / 2) ** -self.damping_power
