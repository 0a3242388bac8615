"""Linear equalities A x = b, kept exactly: every candidate is moved to the nearest point that meets them.

As with a box, the search goes on in all of R^n, and the nearest point stands for each. It costs O(p n) for
each candidate, p being the number of equalities.
"""

from __future__ import annotations

from typing import final

import numpy as np
import numpy.typing as npt

from lmma.strategies.parts.bounds import Array, Box

Values = npt.NDArray[np.float64]

ROUNDS = 50  # of fixing coordinates at bounds before a candidate is left as it is
KEPT = 1e-12  # of what is added up: a residual below is one of rounding


@final
class Subspace:
    """The points with A x = b.

    Parameters
    ----------
    A : ndarray, (p, n)
        One equality a row; rows may depend on one another as long as they do not contradict.
    b : ndarray, (p,)
        Right-hand sides.
    """

    def __init__(self, A: Values, b: Values) -> None:
        self.A, self.b = A, b
        u, s, vt = np.linalg.svd(A, full_matrices=False)
        rank = int(np.count_nonzero(s > s.max(initial=0.0) * max(A.shape) * np.finfo(np.float64).eps))
        self.rank = rank
        self._rows: Values = vt[:rank]  # orthonormal, spanning those of A
        self._right: Values = (u[:, :rank].T @ b) / s[:rank]  # of the same equalities for them
        at = self._right @ self._rows
        self.contradictory = bool(np.any(np.abs(A @ at - b) > 1e-9 * (np.abs(A) @ np.abs(at) + np.abs(b))))

    def keep(self, candidates: Array, box: Box | None = None) -> None:
        """Move ``candidates``, one per row, to where A x = b, in place, and inside ``box``."""
        exact = candidates.astype(np.float64)
        for _ in range(2):  # the second time, for what the first has rounded
            exact -= (exact @ self._rows.T - self._right) @ self._rows
        candidates[...] = exact
        if box is not None and box.finite:
            for row in np.flatnonzero(np.any((exact < box.lower) | (exact > box.upper), axis=1)).tolist():
                candidates[row] = self._inside(exact[row], box)

    def _inside(self, x: Values, box: Box) -> Values:
        """Return a point of the box near ``x`` with A x = b, if fixing coordinates at bounds finds one."""
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
        """Return A x - b for each row of ``candidates``, 0 where it is one of rounding."""
        x = candidates.astype(np.float64, copy=False)
        residuals = x @ self.A.T - self.b
        noise = max(KEPT, 8 * float(np.finfo(candidates.dtype).eps)) * (
            np.abs(x) @ np.abs(self.A).T + np.abs(self.b)
        )
        return np.where(np.abs(residuals) <= noise, 0.0, residuals)


def checked_subspace(A: npt.ArrayLike, b: npt.ArrayLike, n: int) -> Subspace:
    """Return the points with A x = b in ``n`` dimensions, or say what is wrong with the equalities."""
    rows = np.atleast_2d(np.array(A, dtype=np.float64))
    right = np.atleast_1d(np.array(b, dtype=np.float64))
    if rows.ndim != 2 or rows.shape[1] != n or right.shape != (len(rows),):
        raise ValueError(
            f"constraints: linear equalities of {n} variables need A of shape (p, {n}) and b of shape (p,); "
            f"got {rows.shape} and {right.shape}"
        )
    if not (np.all(np.isfinite(rows)) and np.all(np.isfinite(right))):
        raise ValueError("constraints: linear equalities must be finite, A and b hold what is not")
    made = Subspace(rows, right)
    if made.contradictory:
        raise ValueError("constraints: the linear equalities A x = b contradict one another, no x meets all")
    if made.rank >= n:
        raise ValueError(
            f"constraints: {made.rank} linear equalities of {n} variables leave nothing to search for: solve "
            "A x = b instead"
        )
    return made
