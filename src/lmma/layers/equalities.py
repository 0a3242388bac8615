"""Linear equalities A x = b, satisfied exactly: every candidate is projected onto them.

As with a box, the search itself is unrestricted, and the nearest point that satisfies the equalities is
evaluated. This costs O(p n) per candidate, where p is the number of equalities.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import numpy as np
import numpy.typing as npt

from lmma.layers.bounds import Array, Box
from lmma.layers.layer import Layer

if TYPE_CHECKING:
    from lmma.methods.base import Method

Values = npt.NDArray[np.float64]

ROUNDS = 50  # upper limit on rounds of fixing coordinates at bounds
ROUNDING = 1e-12  # relative to the sum of absolute terms: smaller residuals count as 0


@final
class Subspace:
    """The set of points with A x = b.

    Parameters
    ----------
    A : ndarray, (p, n)
        One equality per row; rows may be linearly dependent if they are consistent.
    b : ndarray, (p,)
        Right-hand sides.
    """

    def __init__(self, A: Values, b: Values) -> None:
        self.A, self.b = A, b
        u, s, vt = np.linalg.svd(A, full_matrices=False)
        rank = int(np.count_nonzero(s > s.max(initial=0.0) * max(A.shape) * np.finfo(np.float64).eps))
        self.rank = rank
        self._rows: Values = vt[:rank]  # orthonormal basis of the rows of A
        self._right: Values = (u[:, :rank].T @ b) / s[:rank]  # right-hand sides in that basis
        at = self._right @ self._rows
        self.contradictory = bool(np.any(np.abs(A @ at - b) > 1e-9 * (np.abs(A) @ np.abs(at) + np.abs(b))))

    def project(self, candidates: Array, box: Box | None = None) -> None:
        """Move ``candidates``, one per row, to nearby points with A x = b inside ``box``, in place."""
        exact = candidates.astype(np.float64)
        for _ in range(2):  # the second pass removes the rounding errors of the first
            exact -= (exact @ self._rows.T - self._right) @ self._rows
        candidates[...] = exact
        if box is not None and box.finite:
            for row in np.flatnonzero(np.any((exact < box.lower) | (exact > box.upper), axis=1)).tolist():
                candidates[row] = self._inside(exact[row], box)

    def _inside(self, x: Values, box: Box) -> Values:
        """Return a point of the box near ``x``, with A x = b if fixing coordinates at bounds finds one."""
        free = np.ones(len(x), dtype=np.bool_)
        for _ in range(ROUNDS):
            out = free & ((x < box.lower) | (x > box.upper))
            if not np.any(out):
                break
            free &= ~out
            x = np.clip(x, box.lower, box.upper)
            rows = self._rows[:, free]
            x[free] += np.linalg.lstsq(rows, self._right - self._rows @ x, rcond=None)[0]
        inside: Values = np.clip(x, box.lower, box.upper)
        return inside

    def residuals(self, candidates: Array) -> Values:
        """Return A x - b for each row of ``candidates``, with rounding errors set to 0."""
        x = candidates.astype(np.float64, copy=False)
        residuals = x @ self.A.T - self.b
        noise = max(ROUNDING, 8 * float(np.finfo(candidates.dtype).eps)) * (
            np.abs(x) @ np.abs(self.A).T + np.abs(self.b)
        )
        return np.where(np.abs(residuals) <= noise, 0.0, residuals)


@final
class Equalities(Layer):
    """Moves candidates to points with A x = b inside the box."""

    name = "equalities"

    def __init__(self, subspace: Subspace, box: Box | None) -> None:
        self.subspace, self.box = subspace, box

    def on_ask(self, method: Method, X: Array, first: int, rows: int) -> None:
        """Move candidates to points that satisfy the equalities."""
        self.subspace.project(X, self.box)

    def move_inside(self, x: Array) -> None:
        """Move ``x`` to a point that satisfies the equalities, in place."""
        self.subspace.project(x[np.newaxis], self.box)


def checked_subspace(A: npt.ArrayLike, b: npt.ArrayLike, n: int) -> Subspace:
    """Return the set of points with A x = b in ``n`` dimensions; raise ValueError for invalid equalities."""
    rows = np.atleast_2d(np.array(A, dtype=np.float64))
    right = np.atleast_1d(np.array(b, dtype=np.float64))
    if rows.ndim != 2 or rows.shape[1] != n or right.shape != (len(rows),):
        raise ValueError(
            f"constraints: linear equalities of {n} variables need A of shape (p, {n}) and b of shape (p,); "
            f"got {rows.shape} and {right.shape}"
        )
    if not (np.all(np.isfinite(rows)) and np.all(np.isfinite(right))):
        raise ValueError("constraints: A and b of linear equalities must be finite")
    made = Subspace(rows, right)
    if made.contradictory:
        raise ValueError(
            "constraints: the linear equalities A x = b are contradictory: no x satisfies all of them"
        )
    if made.rank >= n:
        raise ValueError(
            f"constraints: {made.rank} independent linear equalities determine all {n} variables: solve "
            "A x = b instead"
        )
    return made
