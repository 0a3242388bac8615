"""The class of test problems, and helpers for functions of batches of rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.floating]  # float32 or float64; the output has the type of the input

# Temporaries of this many numbers (256 kB in float64) fit the second-level cache. Larger batches are
# evaluated in blocks of rows, so that n = 10^6 needs no second copy of the population.
BLOCK = 1 << 15


def as_rows(X: ArrayLike) -> Array:
    """Return X as a contiguous (rows, n) array of float32 or float64; a single x is one row.

    Contiguous rows are summed in a fixed order, so the value of a candidate does not depend on the memory
    layout or on the rest of the batch.
    """
    rows = np.asarray(X, order="C")
    if rows.dtype.char not in "df":
        if rows.dtype.kind not in "fiub":
            raise TypeError(f"X must hold real numbers, got dtype {rows.dtype}")
        rows = rows.astype(np.float64)
    if rows.ndim == 1:
        rows = rows[np.newaxis]
    if rows.ndim != 2 or rows.shape[1] == 0:
        raise ValueError(
            f"X must have shape (rows, n) or (n,) with n >= 1, got shape {np.shape(X)}; "
            "pass one candidate per row"
        )
    return rows


def in_blocks(function: Callable[[Array], Array], X: Array, block: int = BLOCK) -> Array:
    """Return function(X), computed for at most `block` numbers (at least one row) at a time."""
    if X.size <= block:
        return function(X)
    step = max(1, block // X.shape[1])
    values = np.empty(len(X), X.dtype)
    for first in range(0, len(X), step):
        values[first : first + step] = function(X[first : first + step])
    return values


def rowwise(function: Callable[[Array], Array]) -> Callable[[ArrayLike], Any]:
    """Return `function` with its input checked: (rows, n) gives (rows,), (n,) gives a float."""

    @wraps(function)
    def evaluate(X: ArrayLike) -> Any:
        values = in_blocks(function, as_rows(X))
        return values if np.ndim(X) == 2 else float(values[0])

    return evaluate


def origin(n: int) -> Array:
    """Return the n-dimensional zero vector."""
    return np.zeros(n)


@dataclass(frozen=True)
class Problem:
    """A function to minimise, with its optimum and a customary start.

    Calling a problem evaluates it: `problem(X)`.

    Parameters
    ----------
    name : str
        The name for `lmma.problems.get` and the command line.
    function : callable
        Maps rows (rows, n) to values (rows,) without changing its argument.
    optimum : float
        The minimum of the function.
    x_opt : callable
        Maps n to a minimiser of shape (n,).
    lower, upper : float
        The box [lower, upper]^n from which a start is drawn. It does not bound the search.
    sigma0 : float
        The initial step size.
    doc : str
        A one-line description.
    """

    name: str
    function: Callable[[Array], Array]
    optimum: float = 0.0
    x_opt: Callable[[int], Array] = origin
    lower: float = -5.0
    upper: float = 5.0
    sigma0: float = 3.0
    doc: str = ""

    def __repr__(self) -> str:
        return f"<problem {self.name}: optimum={self.optimum:g}, start in [{self.lower:g}, {self.upper:g}]^n>"

    def __post_init__(self) -> None:
        if not self.lower < self.upper:
            raise ValueError(f"lower must be less than upper, got lower={self.lower!r}, upper={self.upper!r}")
        if not self.sigma0 > 0:
            raise ValueError(f"sigma0 must be greater than 0, got {self.sigma0!r}")

    def __call__(self, X: ArrayLike) -> Any:
        """Return one value per row for X of shape (rows, n), a float for X of shape (n,)."""
        rows = np.asarray(X)
        if rows.ndim == 2:
            return self.function(rows)
        if rows.ndim == 1:
            return float(self.function(rows[np.newaxis])[0])
        raise ValueError(f"X must have shape (rows, n) or (n,), got shape {rows.shape}")

    def start(self, n: int, rng: np.random.Generator | int | None = None) -> Array:
        """Return a point drawn uniformly from the box [lower, upper]^n."""
        if n < 1:
            raise ValueError(f"n must be at least 1, got {n!r}")
        return np.random.default_rng(rng).uniform(self.lower, self.upper, n)
