"""The matrix A between a diagonal and a few stretched directions: the identity, or full and learned.

The full one is learned as MA-ES learns M, with active weights: A <- A (I + G/2). It changes at a rate of
1/n^2, so G is summed up over several calls, and A and its inverse are multiplied once for all of them.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.strategies.parts.integers import as_slice
from lmma.strategies.parts.linalg import row_squares
from lmma.strategies.parts.recombination import Array, Indices, cumulate_all

RENEW = 250  # products between two exact inversions, against drift
WATCH = 4  # products between two looks at the correlations: they change slowly


class Core(ABC):
    """A square matrix A with its inverse, applied to rows."""

    STATE: ClassVar[tuple[str, ...]] = ()
    threads: int = 0  # NumPy's BLAS has its own

    @abstractmethod
    def __init__(self, n: int, caution: float, dtype: npt.DTypeLike) -> None: ...

    def at_rest(self) -> Core:
        """Return one that shares the arrays of A and has no work space."""
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
        """Return the squared lengths of some rows of A, and their products with each of ``axes``."""

    @abstractmethod
    def follow(self, steps: Array, rate: float) -> None:
        """Let the path follow what was selected in several generations."""

    @abstractmethod
    def turns(self, z: Array, images: Array, few: Array, metric: kernels.Metric) -> kernels.Turns | None:
        """Return all rows as A and A^-T show them, or None where these change nothing.

        ``images`` are A B L z; ``few`` are two paths and the axes of ``metric``.
        """

    @abstractmethod
    def learn(self, rows: Array, against: int, fade: float, seen: int) -> None:
        """Let A become A (I + G/2), now or later: G = sum_p +-q_p q_p^T - fade I with the rows q_p.

        The last ``against`` rows are subtracted; ``seen`` says how many there would be with those that are 0.
        """


@final
class IdentityCore(Core):
    """A = I, which learns nothing and costs nothing."""

    def __init__(self, n: int, caution: float, dtype: npt.DTypeLike) -> None:
        """Keep nothing."""

    def times(self, rows: Array) -> Array:
        """Return the rows."""
        return rows

    transposed_times = times
    solved = times

    def rows_at(self, columns: Indices, axes: Array) -> tuple[Array, Array]:
        """Return ones, and entries of ``axes``."""
        return np.ones(len(columns)), axes[:, as_slice(columns)]

    def follow(self, steps: Array, rate: float) -> None:
        """Do nothing."""

    def turns(self, z: Array, images: Array, few: Array, metric: kernels.Metric) -> None:
        """Return None."""

    def learn(self, rows: Array, against: int, fade: float, seen: int) -> None:
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
    -            ``waiting``        int       rows that G has been summed up from
    ===========  =================  ========  ==========================================================
    """

    STATE = ("matrix", "inverse", "change", "path", "damping", "waiting", "age")

    def __init__(self, n: int, caution: float, dtype: npt.DTypeLike) -> None:
        self.matrix = np.eye(n, dtype=dtype).T  # by columns: rows meet A^T in every generation
        self.inverse = np.eye(n, dtype=dtype)
        self.change = np.zeros((n, n), dtype=dtype)
        self.path = np.zeros(n, dtype=dtype)
        self.damping = np.ones(n, dtype=dtype)  # of D, as A must undo what D does to a rotated function
        self.caution = caution
        self.waiting = 0
        self.age = 0
        self.enough = max(4 * n, n * n // 10)  # rows: each of them changes A by about 1/n^2
        self._shown: tuple[Array, Array, Array] | None = (
            None  # duals, few images and few duals: to be used again
        )

    def at_rest(self) -> FullCore:
        """Return one that shares the arrays of A and has no work space."""
        resting = copy.copy(self)
        resting._shown = None
        return resting

    def times(self, rows: Array) -> Array:
        """Return A v for each row v."""
        return rows @ self.matrix.T

    def transposed_times(self, rows: Array) -> Array:
        """Return A^T v for each row v."""
        return rows @ self.matrix

    def solved(self, rows: Array) -> Array:
        """Return A^-1 v for each row v."""
        return rows @ self.inverse.T

    def follow(self, steps: Array, rate: float) -> None:
        """Let the path follow what was selected in several generations."""
        self.path += cumulate_all(self.path, rate, steps)

    def rows_at(self, columns: Indices, axes: Array) -> tuple[Array, Array]:
        """Return the squared lengths of some rows of A, and their products with each of ``axes``."""
        return row_squares(self.matrix, columns), axes @ self.matrix[as_slice(columns)].T

    def turns(self, z: Array, images: Array, few: Array, metric: kernels.Metric) -> kernels.Turns:
        """Return all rows as A and A^-T show them, and how much less D learns where A has correlations.

        Of V the images, of U the duals are needed as far as they have a gain: up to the last one that has.
        """
        used, first = metric.gains.nonzero()[0], 2 + metric.longs
        longs = 2 + int(used.searchsorted(metric.longs))  # those that have a gain come first
        shorts = max(first, 3 + used.item(-1)) if len(used) else first
        if self._shown is None or self._shown[0].shape != z.shape:
            self._shown = np.empty(z.shape, z.dtype), np.zeros_like(few), np.zeros_like(few)
        duals, images_of, duals_of = self._shown
        np.matmul(z, self.inverse, out=duals)
        np.matmul(few[:shorts], self.matrix.T, out=images_of[:shorts])
        np.matmul(few[:longs], self.inverse, out=duals_of[:longs])
        np.matmul(few[first:], self.inverse, out=duals_of[first:])
        return kernels.Turns(images, duals, images_of, duals_of, self.path, self.damping)

    def learn(self, rows: Array, against: int, fade: float, seen: int) -> None:
        """Add to G; multiply A and its inverse where enough rows have been summed up."""
        kernels.add_squares(rows, against, fade, self.change, threads=self.threads)
        self.waiting += seen
        if self.waiting >= self.enough:
            self._multiply()

    def _multiply(self) -> None:
        """Set A to A (I + G/2), and its inverse accordingly."""
        kernels.grow(self.change, self.matrix.T, self.inverse)
        self.waiting = 0
        self.age += 1
        if self.age % RENEW == 0:
            self.inverse[...] = np.linalg.inv(self.matrix)
        if self.age % WATCH and self.age > WATCH:
            return
        kappa = np.einsum("ij,ij->i", self.matrix, self.matrix)
        kappa *= np.einsum("ij,ij->j", self.inverse, self.inverse)
        self.damping[...] = ((1 + kappa) / 2) ** -self.caution
