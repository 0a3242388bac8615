"""Constrained problems with known optima: Hock and Schittkowski's, Klee and Minty's, and a large one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Constrained:
    """A function of rows X that returns (f, G), G <= 0, with its start, step, optimum and bounds."""

    function: Callable[[Any], tuple[Any, Any]]
    x0: Any
    sigma0: float
    optimum: float
    bounds: Any = None

    def one(self, x):
        """Return (f, g) of a single point."""
        f, g = self.function(np.atleast_2d(x))
        return float(f[0]), g[0]


def hs24(X):
    a, b = X.T
    root = math.sqrt(3)
    f = ((a - 3) ** 2 - 9) * b**3 / (27 * root)
    return f, np.stack([b - a / root, -a - b * root, a + b * root - 6], 1)


def hs36(X):
    a, b, c = X.T
    return -a * b * c, (a + 2 * b + 2 * c - 72)[:, None]


def hs76(X):
    a, b, c, d = X.T
    f = a**2 + b**2 / 2 + c**2 + d**2 / 2 - a * c + c * d - a - 3 * b + c - d
    return f, np.stack([a + 2 * b + c + d - 5, 3 * a + b + 2 * c - d - 4, 1.5 - b - 4 * c], 1)


def hs100(X):
    a, b, c, d, e, f, g = X.T
    value = (
        (a - 10) ** 2 + 5 * (b - 12) ** 2 + c**4 + 3 * (d - 11) ** 2 + 10 * e**6 + 7 * f**2 + g**4
        - 4 * f * g - 10 * f - 8 * g
    )  # fmt: skip
    return value, np.stack(
        [
            2 * a**2 + 3 * b**4 + c + 4 * d**2 + 5 * e - 127,
            7 * a + 3 * b + 10 * c**2 + d - e - 282,
            23 * a + b**2 + 6 * f**2 - 8 * g - 196,
            4 * a**2 + b**2 - 3 * a * b + 2 * c**2 + 5 * f - 11 * g,
        ],
        1,
    )


def hs113(X):
    a, b, c, d, e, f, g, h, i, j = X.T
    value = (
        a**2 + b**2 + a * b - 14 * a - 16 * b + (c - 10) ** 2 + 4 * (d - 5) ** 2 + (e - 3) ** 2
        + 2 * (f - 1) ** 2 + 5 * g**2 + 7 * (h - 11) ** 2 + 2 * (i - 10) ** 2 + (j - 7) ** 2 + 45
    )  # fmt: skip
    return value, np.stack(
        [
            4 * a + 5 * b - 3 * g + 9 * h - 105,
            10 * a - 8 * b - 17 * g + 2 * h,
            -8 * a + 2 * b + 5 * i - 2 * j - 12,
            3 * (a - 2) ** 2 + 4 * (b - 3) ** 2 + 2 * c**2 - 7 * d - 120,
            5 * a**2 + 8 * b + (c - 6) ** 2 - 2 * d - 40,
            0.5 * (a - 8) ** 2 + 2 * (b - 4) ** 2 + 3 * e**2 - f - 30,
            a**2 + 2 * (b - 2) ** 2 - 2 * a * b + 14 * e - 6 * f,
            -3 * a + 6 * b + 12 * (i - 8) ** 2 - 7 * j,
        ],
        1,
    )


def klee_minty(n):
    """Return the linear programme whose polytope is a squeezed cube; the optimum is one corner of 2^n."""
    weights = 2.0 ** np.arange(n - 1, -1, -1)
    rows = np.array([[2.0 ** (i - j + 1) if j < i else float(i == j) for j in range(n)] for i in range(n)])
    right = 5.0 ** np.arange(1, n + 1)
    return lambda X: (-(X @ weights), np.concatenate([-X, X @ rows.T - right], 1))


def large(n, linear=10, quadratic=10, seed=1):
    """Return a problem whose optimum and multipliers are known; every second constraint is not active.

    f = |x - c|^2 / 2 with c such that the gradients of f and of the active constraints cancel at x*.
    """
    rng = np.random.default_rng(seed)
    best = rng.standard_normal(n)
    A = rng.standard_normal((linear, n)) / math.sqrt(n)
    centres = rng.standard_normal((quadratic, n))
    multipliers = rng.uniform(0.5, 2, linear + quadratic)
    multipliers[::2] = 0
    slack = np.where(multipliers == 0, 1.0, 0.0)
    gradients = np.concatenate([A, (best - centres) / math.sqrt(n)])
    c = best + multipliers @ gradients
    b = A @ best + slack[:linear]
    r = ((best - centres) ** 2).sum(1) / (2 * math.sqrt(n)) + slack[linear:]

    def function(X):
        squares = (X**2).sum(1)[:, None] - 2 * X @ centres.T + (centres**2).sum(1)
        return ((X - c) ** 2).sum(1) / 2, np.concatenate([X @ A.T - b, squares / (2 * math.sqrt(n)) - r], 1)

    return Constrained(function, np.zeros(n), 0.3, float(((best - c) ** 2).sum() / 2)), multipliers


PROBLEMS = {
    "sphere": Constrained(lambda X: ((X**2).sum(1), X[:, :1] + 1), np.ones(3), 1.0, 1.0),
    "hs24": Constrained(hs24, np.array([1.0, 0.5]), 0.3, -1.0, [(0, None)] * 2),
    "hs36": Constrained(hs36, np.full(3, 10.0), 3.0, -3300.0, [(0, 20), (0, 11), (0, 42)]),
    "hs76": Constrained(hs76, np.full(4, 0.5), 0.3, -4.681818181818182, [(0, None)] * 4),
    "hs100": Constrained(hs100, np.array([1.0, 2, 0, 4, 0, 1, 1]), 0.5, 680.6300573744),
    "hs113": Constrained(hs113, np.array([2.0, 3, 5, 5, 1, 2, 7, 3, 6, 10]), 0.5, 24.306209068),
    "klee-minty 3": Constrained(klee_minty(3), np.ones(3), 1.0, -(5.0**3)),
    "klee-minty 5": Constrained(klee_minty(5), np.ones(5), 1.0, -(5.0**5)),
}
