"""The fifteen functions of CEC'2013's large-scale suite (LSGO), evaluated in batches.

Li, Tang, Omidvar, Yang and Qin, "Benchmark functions for the CEC'2013 special session and competition on
large-scale global optimization", 2013. Shifts, rotations, permutations and weights are read from the package
cec2013lsgo, whose values these functions reproduce. n is 1000, and 905 for f13 and f14, whose groups overlap.
"""

from __future__ import annotations

import math
from functools import lru_cache
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

INSTALL = "pip install cython numpy 'setuptools<80' wheel && pip install --no-build-isolation cec2013lsgo"
KINDS = (
    "elliptic", "rastrigin", "ackley", "elliptic", "rastrigin", "ackley", "schwefel", "elliptic", "rastrigin",
    "ackley", "schwefel", "rosenbrock", "schwefel", "schwefel", "schwefel",
)  # fmt: skip
HALF_WIDTHS = {"elliptic": 100.0, "rastrigin": 5.0, "ackley": 32.0, "schwefel": 100.0, "rosenbrock": 100.0}
OVERLAP = 5  # of neighbouring groups of f13 and f14
BLOCK = 16  # rows; their coordinates and intermediate arrays stay in the cache and are allocated once


def _sine_coefficients(period: float, count: int) -> list[float]:
    """Return c_k with sin(2 pi r/period) = r (c_0 + c_1 r^2 + ...) for |r| <= 1/2."""

    def quotient(square: Array) -> Array:
        r = np.sqrt(square)
        return np.asarray(np.sin(2 * math.pi / period * r) / r)

    fit = np.polynomial.Chebyshev.interpolate(quotient, count - 1, domain=[0, 0.25])
    return [float(c) for c in fit.convert(kind=np.polynomial.Polynomial).coef]


_SINE, _HALF_SINE = _sine_coefficients(1, 10), _sine_coefficients(2, 8)
_CYCLES = 1 / (2 * math.pi)


def _sine(x: Array, coefficients: list[float], square: Array, out: Array) -> Array:
    """Return in ``out`` the sine of x, given in periods; x and ``square`` are overwritten.

    Of half periods, the sign is arbitrary. NumPy's sine of double precision takes five times as long as this
    polynomial, whose error is below 1e-13.
    """
    x -= np.rint(x, out=square)
    np.multiply(x, x, out=square)
    np.multiply(square, coefficients[-1], out=out)
    for c in coefficients[-2:0:-1]:
        out += c
        out *= square
    out += coefficients[0]
    out *= x
    return out


def _data(number: int, what: str) -> Array:
    """Return a data file of the package cec2013lsgo."""
    found = util.find_spec("cec2013lsgo")
    if found is None or found.origin is None:
        raise ModuleNotFoundError(f"the data of LSGO belong to the package cec2013lsgo: {INSTALL}")
    path = Path(found.origin).parent / "cdatafiles" / f"F{number}-{what}.txt"
    return np.loadtxt(path, delimiter=",", ndmin=1)


class LSGO:
    """Function ``number`` of the suite, with its box and its minimum of 0 (f14: unknown); not thread-safe.

    Parameters
    ----------
    number : int
        1 to 15.
    """

    def __init__(self, number: int) -> None:
        if not 1 <= number <= len(KINDS):
            raise ValueError(f"LSGO has functions 1 to {len(KINDS)}, not {number}")
        self.number, self.kind = number, KINDS[number - 1]
        self.n = 905 if number in (13, 14) else 1000
        self.upper = HALF_WIDTHS[self.kind]
        self.lower = -self.upper
        shift = _data(number, "xopt")
        self._rotations: list[Array] = []
        if number in (1, 2, 3, 12, 15):
            sizes, self._order, self._weights = np.array([self.n]), None, np.ones(1)
        else:
            sizes, self._order, self._weights = self._groups()
        # The shift of f14 is listed by groups, the others by coordinates.
        grouped = self._order is None or number == 14
        self._shift = shift if grouped else shift[self._order]
        self._sizes, self._starts = sizes, np.concatenate([[0], np.cumsum(sizes)[:-1]])
        place = np.concatenate([np.arange(size) / (size - 1) for size in sizes])
        self._skew, self._scale = 0.2 * place, 10 ** (0.5 * place)
        self._repeated = np.repeat(self._weights, sizes)
        self._elliptic = 1e6**place * self._repeated
        self._work = np.empty((6, BLOCK, sizes.sum()))

    def _groups(self) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], Array]:
        """Return sizes, coordinates in the order of groups, and weights; the last may be separable."""
        sizes = _data(self.number, "s").astype(int)
        permutation = _data(self.number, "p").astype(int) - 1
        rotations = {size: _data(self.number, f"R{size}").T.copy() for size in (25, 50, 100)}
        overlap = OVERLAP if self.number in (13, 14) else 0
        firsts = np.concatenate([[0], np.cumsum(sizes - overlap)[:-1]])
        parts = [permutation[a : a + size] for a, size in zip(firsts, sizes, strict=True)]
        weights, self._rotations = _data(self.number, "w"), [rotations[size] for size in sizes]
        rest = permutation[sizes.sum() :]
        if self.number < 8:
            return np.append(sizes, len(rest)), np.concatenate([*parts, rest]), np.append(weights, 1.0)
        return sizes, np.concatenate(parts), weights

    def __call__(self, x: npt.ArrayLike) -> Any:
        """Return the values of rows, (rows, n) -> (rows,), or the value of one point."""
        x = np.asarray(x, dtype=float)
        if x.ndim == 1:
            return float(self._block(x[None])[0])
        return np.concatenate([self._block(x[k : k + BLOCK]) for k in range(0, len(x), BLOCK)])

    def _block(self, x: Array) -> Array:
        z = self._work[0, : len(x)]
        if self._order is None:
            np.subtract(x, self._shift, out=z)
        else:
            np.take(x, self._order, axis=1, out=z, mode="clip")  # without clipping, `take` copies
            z -= self._shift
        for start, size, rotation in zip(self._starts, self._sizes, self._rotations, strict=False):
            z[:, start : start + size] = z[:, start : start + size] @ rotation
        return np.asarray(getattr(self, f"_{self.kind}_values")(z))

    def _transform(self, z: Array, skewed: bool = True) -> None:
        """Apply T_osz and, if ``skewed``, T_asy with 0.2, in place."""
        log, positive, waves, cycles, square = self._work.reshape(6, -1)[1:, : z.size].reshape(5, *z.shape)
        positive[...] = z > 0
        np.abs(z, out=log)
        log += 1e-300  # T_osz(0) is 0
        np.log(log, out=log)
        # Frequencies of 5.5 and 3.1 below zero, 10 and 7.9 above.
        np.multiply(log, positive, out=z)
        np.multiply(z, 4.5 * _CYCLES, out=cycles)
        cycles += np.multiply(log, 5.5 * _CYCLES, out=waves)
        _sine(cycles, _SINE, square, out=waves)
        z *= 4.8 * _CYCLES
        z += np.multiply(log, 3.1 * _CYCLES, out=cycles)
        waves += _sine(z, _SINE, square, out=cycles)
        waves *= 0.049
        log += waves
        if skewed:
            np.multiply(log, 0.5, out=waves)
            np.exp(waves, out=waves)  # the square root of T_osz
            waves *= self._skew[: z.shape[1]]
            waves *= positive
            waves += 1
            log *= waves
        np.exp(log, out=z)
        positive *= 2
        positive -= 1
        z *= positive

    def _ripple(self, z: Array) -> Array:
        """Return sin(pi z)^2, which is (1 - cos(2 pi z))/2 without cancellation; z is overwritten."""
        waves, square = self._work[1:3, : len(z)]
        _sine(z, _HALF_SINE, square, out=waves)
        waves *= waves
        return np.asarray(waves)

    def _sums(self, terms: Array) -> Array:
        """Return sums over groups, (rows, n) -> (rows, groups)."""
        return np.asarray(np.add.reduceat(terms, self._starts, axis=1))

    def _elliptic_values(self, z: Array) -> Array:
        self._transform(z, skewed=False)
        z *= z
        return np.asarray(z @ self._elliptic)

    def _rastrigin_values(self, z: Array) -> Array:
        self._transform(z)
        z *= self._scale
        squares = np.multiply(z, z, out=self._work[3, : len(z)])
        ripple = self._ripple(z)
        ripple *= 20
        squares += ripple
        return np.asarray(squares @ self._repeated)

    def _ackley_values(self, z: Array) -> Array:
        self._transform(z)
        z *= self._scale
        squares = np.multiply(z, z, out=self._work[3, : len(z)])
        root = np.sqrt(self._sums(squares) / self._sizes)
        ripple = self._sums(self._ripple(z)) / self._sizes
        return np.asarray(-(20 * np.expm1(-0.2 * root) + math.e * np.expm1(-2 * ripple)) @ self._weights)

    def _schwefel_values(self, z: Array) -> Array:
        """Sum squared partial sums of groups; the separable group of f7 is a sphere."""
        end = self._starts[-1] if self.number == 7 else z.shape[1]
        sphere = np.einsum("rc,rc->r", z[:, end:], z[:, end:])
        z = np.ascontiguousarray(z[:, :end])
        self._transform(z)
        for start, size in zip(self._starts, self._sizes, strict=True):
            np.cumsum(z[:, start : start + size], axis=1, out=z[:, start : start + size])
        z *= z
        return np.asarray(z @ self._repeated[:end] + sphere)

    def _rosenbrock_values(self, z: Array) -> Array:
        before, after = z[:, :-1], z[:, 1:]
        return np.asarray((100 * (before**2 - after) ** 2 + (before - 1) ** 2).sum(axis=1))


@lru_cache
def get(number: int) -> LSGO:
    """Return function ``number``; its data are read once."""
    return LSGO(number)
