"""The learned metric as an operator that can be copied, pickled and sent to other processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import LinearOperator

if TYPE_CHECKING:
    from lmma.strategies.es import Transform
    from lmma.strategies.parts.recombination import Indices

Array = npt.NDArray[np.floating]
EXACT = 100  # variables up to which all axes are computed
STEPS = 30  # of Lanczos's method beyond
HELD = 2**22  # numbers that it may hold


@final
class Metric(LinearOperator):  # type: ignore[misc]  # SciPy has no types
    """C = S M M^T S, the inverse Hessian up to a factor: M is what was learned, S the given scales.

    It refers to the strategy's transform rather than copying it; a copy holds what M is made of and nothing
    of the last sample.
    """

    def __init__(self, transform: Transform, scale: Array | None, n: int, dtype: npt.DTypeLike) -> None:
        super().__init__(dtype, (n, n))
        self.transform = transform
        self.scale = scale

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"transform": self.transform.at_rest()}

    def _matvec(self, x: Array) -> Array:
        scale = 1.0 if self.scale is None else self.scale
        v = np.ravel(x).astype(self.dtype) * scale
        return self.transform.apply(self.transform.apply_transposed(v)) * scale

    _rmatvec = _matvec

    def deviations(self, columns: Indices | None = None) -> npt.NDArray[np.float64]:
        """Return the square root of C's diagonal, at ``columns`` or everywhere.

        Times sigma they are the standard deviations of candidates, coordinate by coordinate.
        """
        n = self.shape[0]
        columns = np.arange(n) if columns is None else columns
        found = np.sqrt(self.transform.variances_at(columns, np.zeros(n, self.dtype)).astype(np.float64))
        return found if self.scale is None else found * self.scale[columns]

    def axis_ratio(self) -> float:
        """Return the longest axis of the search over its shortest: the root of C's condition number.

        Exact for up to a hundred variables; for more it is a lower bound, by Lanczos's method and the
        diagonal, and mostly a close one.
        """
        n = self.shape[0]
        if n <= EXACT:
            scaled = np.eye(n, dtype=self.dtype) if self.scale is None else np.diag(self.scale)
            axes = np.linalg.svd(self.transform.apply_transposed(scaled).astype(np.float64), compute_uv=False)
            return float(axes[0] / axes[-1]) if axes[-1] > 0 else np.inf
        diagonal = np.square(self.deviations(np.linspace(0, n - 1, min(n, 10_000)).astype(np.intp)))
        seen = np.concatenate((diagonal, self._ritz_values(min(STEPS, max(4, HELD // n)))))
        least = float(seen[seen > 0].min())
        return float(np.sqrt(seen.max() / least))

    def _ritz_values(self, steps: int) -> npt.NDArray[np.float64]:
        """Return approximations of C's eigenvalues, the outer ones first to be right: Lanczos's method."""
        n = self.shape[0]
        basis = np.zeros((steps, n))
        diagonal, beside = np.zeros(steps), np.zeros(steps)
        v = np.random.default_rng(0).standard_normal(n)  # the same each time: nothing is left to chance
        for step in range(steps):
            length = float(np.linalg.norm(v))
            if step and length <= 1e-12 * diagonal[:step].max():  # the space is exhausted
                steps = step
                break
            beside[step] = length
            basis[step] = v / length
            v = np.asarray(self._matvec(basis[step]), dtype=np.float64)
            diagonal[step] = v @ basis[step]
            for _ in range(2):  # once is not enough: what is left of old directions would come back as copies
                v = v - basis[: step + 1].T @ (basis[: step + 1] @ v)
        matrix = np.diag(diagonal[:steps]) + np.diag(beside[1:steps], 1) + np.diag(beside[1:steps], -1)
        return np.asarray(np.linalg.eigvalsh(matrix), dtype=np.float64)
