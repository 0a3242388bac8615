"""The learned metric, as a record for another search and as a linear operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, final

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

from lmma.numerics.linalg import Factors

if TYPE_CHECKING:
    from lmma.numerics.recombination import Indices

Array = npt.NDArray[np.floating]
EXACT_UP_TO = 100  # variables; all axes are computed up to this number
LANCZOS_STEPS = 30  # for more variables
LARGEST_ROOT = 5000  # variables; beyond, a matrix takes more than 200 MB
LANCZOS_NUMBERS = 2**22  # limit on the numbers stored by Lanczos's method


class Transform(Protocol):
    """A learned linear transform M."""

    def apply(self, z: Array) -> Array:
        """Return M z."""

    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of M times d."""

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return the diagonal of M M^T at ``columns``."""

    def factors(self) -> Factors:
        """Return the factors of M."""

    def without_sample(self) -> Self:
        """Return a copy that does not hold the last sample."""


@final
class LowRank(NamedTuple):
    """A transform M = D (I + sum_i g_i u_i u_i^T)^(1/2), times a constant, in O(n) numbers.

    Parameters
    ----------
    diagonal : ndarray, (n,)
        D.
    axes, gains : ndarray, (k, n) and (k,)
        Orthonormal rows u_i, and g_i > -1.
    constant : float
        The factor.
    """

    diagonal: Array
    axes: Array
    gains: Array
    constant: float

    def apply(self, z: Array) -> Array:
        """Return M z."""
        return self.diagonal * self._core(z)

    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of M times d."""
        return self._core(self.diagonal * d)

    def _core(self, z: Array) -> Array:
        along = (z @ self.axes.T) * (np.sqrt(1 + self.gains) - 1)
        core: Array = self.constant * (z + along @ self.axes)
        return core

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return the diagonal of M M^T at ``columns``."""
        core = 1 + self.gains @ np.square(self.axes[:, columns])
        variances: Array = np.square(self.constant * self.diagonal[columns]) * np.maximum(core, 0.0)
        return variances

    def factors(self) -> Factors:
        """Return the factors of M."""
        return Factors(diagonal=self.diagonal, rows=self.axes, constant=self.constant)

    def without_sample(self) -> Self:
        """Return the transform itself: it holds no candidates."""
        return self


@final
@dataclass(frozen=True)
class Metric:
    """The learned search distribution, from which another search can start: mean + sigma D R L z.

    Parameters
    ----------
    mean : ndarray, (n,)
        Centre of the search.
    sigma : float
        Step size.
    diagonal : ndarray, (n,)
        D, one factor for each coordinate.
    axes, gains : ndarray, (k, n) and (k,)
        Orthonormal rows u_i and g_i > -1: L L^T = I + sum_i g_i u_i u_i^T.
    matrix : ndarray, (n, n), optional
        R; None for the identity.
    """

    mean: Array
    sigma: float
    diagonal: Array
    axes: Array
    gains: Array
    matrix: Array | None = None

    @classmethod
    def of(cls, mean: Array, sigma: float, scale: Array | None, transform: Transform) -> Metric:
        """Return the record of a transform; D includes ``scale``, sigma the factor common to all axes."""
        diagonal, matrix, rows, constant = transform.factors()
        scales = np.ones(len(mean)) if diagonal is None else diagonal.astype(np.float64)
        axes, gains = np.zeros((0, len(mean))), np.zeros(0)
        if rows is not None and len(rows):
            basis = np.linalg.svd(rows.astype(np.float64), full_matrices=False)
            spanned = basis[2][basis[1] > basis[1].max(initial=0.0) * 1e-12]
            # N^T u = M^T w with w = D^-1 R^-T u, as M = D R N
            mapped = spanned if matrix is None else spanned @ np.linalg.inv(matrix)
            images = transform.apply_transposed((mapped / scales).astype(mean.dtype)).astype(np.float64)
            sizes, rotation = np.linalg.eigh(images @ images.T)
            axes, gains = rotation.T @ spanned, np.maximum(sizes, 0.0) / constant**2 - 1
        combined = scales if scale is None else scales * scale
        return cls(mean.copy(), sigma * constant, combined, axes, gains, matrix)

    def root(self) -> npt.NDArray[np.float64]:
        """Return sigma D R (L L^T)^(1/2), (n, n): a matrix whose columns are steps of the search."""
        n = len(self.mean)
        if n > LARGEST_ROOT:
            raise ValueError(f"root() would need a matrix of {n} x {n} numbers: use deviations()")
        core = np.eye(n) + (self.axes.T * (np.sqrt(1 + self.gains) - 1)) @ self.axes
        if self.matrix is not None:
            core = self.matrix @ core
        return np.asarray(self.sigma * self.diagonal[:, np.newaxis] * core, dtype=np.float64)

    def deviations(self) -> npt.NDArray[np.float64]:
        """Return the standard deviation of the search in each coordinate."""
        rows = np.ones((1, len(self.mean))) if self.matrix is None else np.square(self.matrix).sum(axis=1)
        axes = self.axes if self.matrix is None else self.axes @ self.matrix.T
        variances = rows + self.gains @ np.square(axes)
        return np.asarray(self.sigma * self.diagonal * np.sqrt(variances), dtype=np.float64).ravel()

    def covariance(self) -> npt.NDArray[np.float64]:
        """Return D R L L^T R^T D, (n, n), without the factor sigma^2."""
        core = np.eye(len(self.mean)) + (self.axes.T * self.gains) @ self.axes
        if self.matrix is not None:
            core = self.matrix @ core @ self.matrix.T
        return np.asarray(self.diagonal[:, np.newaxis] * core * self.diagonal)


@final
class MetricOperator(LinearOperator):  # type: ignore[misc]  # SciPy has no types
    """C = S M M^T S, the inverse Hessian up to a factor; M is the learned transform, S the given scales.

    It refers to the strategy's transform. A copy holds the factors of M but not the last sample.
    """

    def __init__(self, transform: Transform, scale: Array | None, n: int, dtype: npt.DTypeLike) -> None:
        super().__init__(dtype, (n, n))
        self.transform = transform
        self.scale = scale

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"transform": self.transform.without_sample()}

    def _matvec(self, x: Array) -> Array:
        scale = 1.0 if self.scale is None else self.scale
        v = np.ravel(x).astype(self.dtype) * scale
        return self.transform.apply(self.transform.apply_transposed(v)) * scale

    _rmatvec = _matvec

    def scaled(self, factors: Array) -> MetricOperator:
        """Return F C F, the metric of coordinates multiplied by ``factors``."""
        scale = factors if self.scale is None else factors * self.scale
        return MetricOperator(self.transform, scale.astype(self.dtype), self.shape[0], self.dtype)

    def deviations(self, columns: Indices | None = None) -> npt.NDArray[np.float64]:
        """Return the square root of C's diagonal, at ``columns`` or everywhere.

        Multiplied by sigma, these are the standard deviations of candidates in each coordinate.
        """
        n = self.shape[0]
        columns = np.arange(n) if columns is None else columns
        found = np.sqrt(self.transform.variances_at(columns, np.zeros(n, self.dtype)).astype(np.float64))
        return found if self.scale is None else found * self.scale[columns]

    def axis_ratio(self) -> float:
        """Return the ratio of the longest axis to the shortest, the root of C's condition number.

        Exact for up to 100 variables. For more it is a lower bound, usually close, from Lanczos's method and
        the diagonal.
        """
        n = self.shape[0]
        if n <= EXACT_UP_TO:
            scaled = np.eye(n, dtype=self.dtype) if self.scale is None else np.diag(self.scale)
            axes = np.linalg.svd(self.transform.apply_transposed(scaled).astype(np.float64), compute_uv=False)
            return float(axes[0] / axes[-1]) if axes[-1] > 0 else np.inf
        diagonal = np.square(self.deviations(np.linspace(0, n - 1, min(n, 10_000)).astype(np.intp)))
        found = np.concatenate(
            (diagonal, self._ritz_values(min(LANCZOS_STEPS, max(4, LANCZOS_NUMBERS // n))))
        )
        least = float(found[found > 0].min())
        return float(np.sqrt(found.max() / least))

    def _ritz_values(self, steps: int) -> npt.NDArray[np.float64]:
        """Approximate eigenvalues of C by Lanczos's method; the extreme ones converge first."""
        n = self.shape[0]
        basis = np.zeros((steps, n))
        diagonal, off_diagonal = np.zeros(steps), np.zeros(steps)
        v = np.random.default_rng(0).standard_normal(n)  # fixed seed: the result is reproducible
        for step in range(steps):
            length = float(np.linalg.norm(v))
            if step and length <= 1e-12 * diagonal[:step].max():  # the space is exhausted
                steps = step
                break
            off_diagonal[step] = length
            basis[step] = v / length
            v = np.asarray(self._matvec(basis[step]), dtype=np.float64)
            diagonal[step] = v @ basis[step]
            for _ in range(2):  # reorthogonalise twice: after once, rounding errors create spurious copies
                v = v - basis[: step + 1].T @ (basis[: step + 1] @ v)
        matrix = (
            np.diag(diagonal[:steps]) + np.diag(off_diagonal[1:steps], 1) + np.diag(off_diagonal[1:steps], -1)
        )
        return np.asarray(np.linalg.eigvalsh(matrix), dtype=np.float64)
