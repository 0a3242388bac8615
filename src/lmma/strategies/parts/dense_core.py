"""The matrix A between a diagonal and a few stretched directions: the identity, or full and learned.

The full one is learned as MA-ES learns M, with active weights, and keeps its inverse: both are products
with I + G/2, where G has the rank of one generation, so that the inverse follows from Woodbury's identity
in O(r n^2) for r rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.strategies.parts.linalg import add_product, row_squares
from lmma.strategies.parts.recombination import Array, Indices

RENEW = 1000  # updates between two exact inversions, against drift
WATCH = 20  # updates between two looks at the correlations: they change slowly


class Core(ABC):
    """A square matrix A with its inverse, applied to rows."""

    STATE: ClassVar[tuple[str, ...]] = ()
    threads: int = 0  # NumPy's BLAS has its own
    inflation: Array  # (n,) for each coordinate C_jj (C^-1)_jj with C = A A^T: 1 where uncorrelated

    @abstractmethod
    def __init__(self, n: int, dtype: npt.DTypeLike) -> None: ...

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
    def transposed_solved(self, rows: Array) -> Array:
        """Return A^-T v for each row v."""

    @abstractmethod
    def rows_at(self, columns: Indices, axes: Array) -> tuple[Array, Array]:
        """Return the squared lengths of some rows of A, and their products with each of ``axes``."""

    @abstractmethod
    def multiply(self, rows: Array, images: Array, duals: Array, gains: Array, fade: float) -> None:
        """Set A to A (I + G/2) for G = sum_p gains_p q_p q_p^T - fade I with the rows q_p.

        ``images`` are A q_p, ``duals`` A^-T q_p.
        """


@final
class IdentityCore(Core):
    """A = I, which learns nothing and costs nothing."""

    def __init__(self, n: int, dtype: npt.DTypeLike) -> None:
        self.inflation = np.ones(1, dtype=dtype)

    def times(self, rows: Array) -> Array:
        """Return the rows."""
        return rows

    transposed_times = times
    solved = times
    transposed_solved = times

    def rows_at(self, columns: Indices, axes: Array) -> tuple[Array, Array]:
        """Return ones, and entries of ``axes``."""
        return np.ones(len(columns)), axes[:, columns]

    def multiply(self, rows: Array, images: Array, duals: Array, gains: Array, fade: float) -> None:
        """Do nothing."""


@final
class FullCore(Core):
    """A full matrix and its inverse."""

    STATE = ("matrix", "inverse", "inflation", "age")

    def __init__(self, n: int, dtype: npt.DTypeLike) -> None:
        self.matrix = np.eye(n, dtype=dtype)
        self.inverse = np.eye(n, dtype=dtype)
        self.inflation = np.ones(n, dtype=dtype)
        self.age = 0

    def times(self, rows: Array) -> Array:
        """Return A v for each row v."""
        return rows @ self.matrix.T

    def transposed_times(self, rows: Array) -> Array:
        """Return A^T v for each row v."""
        return rows @ self.matrix

    def solved(self, rows: Array) -> Array:
        """Return A^-1 v for each row v."""
        return rows @ self.inverse.T

    def transposed_solved(self, rows: Array) -> Array:
        """Return A^-T v for each row v."""
        return rows @ self.inverse

    def rows_at(self, columns: Indices, axes: Array) -> tuple[Array, Array]:
        """Return the squared lengths of some rows of A, and their products with each of ``axes``."""
        return row_squares(self.matrix, columns), axes @ self.matrix[columns].T

    def multiply(self, rows: Array, images: Array, duals: Array, gains: Array, fade: float) -> None:
        """Set A to A (I + G/2), and its inverse accordingly."""
        half = (gains / 2)[:, None].astype(rows.dtype)
        keep = 1 - fade / 2
        add_product(self.matrix, keep, half * images, rows)
        # (keep I + Q^T H Q)^-1 = (I - Q^T (keep I + H Q Q^T)^-1 H Q) / keep, with H = diag(half)
        small = half * (rows @ rows.T)
        small[np.diag_indices_from(small)] += keep
        mixed = np.linalg.solve(small, half * duals)
        add_product(self.inverse, 1 / keep, -rows / rows.dtype.type(keep), mixed)
        self.age += 1
        if self.age % RENEW == 0:
            self.inverse[...] = np.linalg.inv(self.matrix)
        if self.age % WATCH == 0:
            self.inflation[...] = np.einsum("ij,ij->i", self.matrix, self.matrix)
            self.inflation *= np.einsum("ij,ij->j", self.inverse, self.inverse)
