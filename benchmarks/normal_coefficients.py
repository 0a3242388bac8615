"""Derivation of the coefficients of the normal numbers, and their error.

    python benchmarks/normal_coefficients.py

Box-Muller needs a logarithm, a sine and a cosine. src/lmma/kernels/core_normal.inc and reference.py
compute them by polynomials whose largest weighted error on their interval is (nearly) the least possible.
For each of them Remez's exchange algorithm finds that least error here, in arithmetic of 50 digits; next
to it is the error of the coefficients in use, which are rounded to float64. Nothing is gained where the
rounding of a result, 2^-53 or 2^-24 of it, is larger: that is the bound. Exits with 1 where a bound is
exceeded.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, getcontext

getcontext().prec = 50
PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
ROOT2 = Decimal(2).sqrt()
TERMS = 130  # of power series: |f| <= 0.4142 leaves 1e-49
POINTS = 500  # of the grid on which errors are looked at


@dataclass(frozen=True)
class Series:
    """A function as a power series, and the polynomial that stands for it."""

    meaning: str
    power_series: list[Decimal]
    interval: tuple[Decimal, Decimal]
    weight: Callable[[Decimal, Decimal], Decimal]  # of the error, from the argument and the function's value
    in_use: tuple[float, ...]  # from the constant on
    bound: float


def horner(coefficients: list[Decimal], x: Decimal) -> Decimal:
    total = Decimal(0)
    for coefficient in reversed(coefficients):
        total = total * x + coefficient
    return total


def quarter_wave(first: int) -> list[Decimal]:
    """sin(pi/2 x) / x (first = 1) or cos(pi/2 x) (first = 0) in powers of x^2."""
    powers = range(first, first + 2 * 30, 2)
    return [(-1) ** k * (PI / 2) ** p / math.factorial(p) for k, p in enumerate(powers)]


QUARTER = (Decimal(0), Decimal("0.25"))  # x^2 for angles up to 45 degrees
ARTANH = (Decimal(0), ((ROOT2 - 1) / (ROOT2 + 1)) ** 2)  # s^2 for 1 + f from 1/sqrt 2 to sqrt 2
AROUND = (1 / ROOT2 - 1, ROOT2 - 1)
RELATIVE = lambda x, value: 1 / value  # noqa: E731
ABSOLUTE = lambda x, value: Decimal(1)  # noqa: E731

SERIES = {
    "sine64": Series(
        "sin(pi/2 x) / x in x^2", quarter_wave(1), QUARTER, RELATIVE,
        (1.5707963267948966, -0.6459640975062443, 0.07969262624603957, -0.004681754132282397,
         0.00016044115029141055, -3.5986417534099325e-06, 5.633720856452633e-08),
        2.0**-53,
    ),
    "cosine64": Series(
        "cos(pi/2 x) in x^2", quarter_wave(0), QUARTER, ABSOLUTE,
        (1.0, -1.2337005501361513, 0.25366950789986553, -0.020863480734960516, 0.0009192599501492171,
         -2.520013564665259e-05, 4.6553012844640495e-07),
        2.0**-53,
    ),
    "logarithm64": Series(
        "(2 artanh(s) / s - 2) / s^2 in s^2; relative to the logarithm it counts s^2 / 2",
        [Decimal(2) / (2 * k + 3) for k in range(TERMS)], ARTANH, lambda z, value: z / (2 + z * value),
        (0.6666666666666695, 0.39999999999637875, 0.2857142869826693, 0.22222202698258622,
         0.18183365796317585, 0.1531880868794061, 0.14750967499376866),
        2.0**-53,
    ),
    "sine32": Series(
        "sin(pi/2 x) / x in x^2", quarter_wave(1), QUARTER, RELATIVE,
        (1.5707963217084375, -0.6459634602357697, 0.07968003278013285, -0.0046016578931506),
        2.0**-24,
    ),
    "cosine32": Series(
        "cos(pi/2 x) in x^2", quarter_wave(0), QUARTER, ABSOLUTE,
        (1.0, -1.2337005406473758, 0.2536692039393227, -0.02086007131893305, 0.0009036317033323827),
        2.0**-24,
    ),
    "logarithm32": Series(
        "(ln(1 + f) - f + f^2 / 2) / f^3 in f; relative to f it counts f^2",
        [Decimal((-1) ** k) / (k + 3) for k in range(TERMS)], AROUND, lambda f, value: f * f,
        (0.33333316727177636, -0.25000810340520624, 0.20002286182174242, -0.16624555752366768,
         0.14181194403518174, -0.13128743610848648, 0.12881629489930885, -0.07859615582366473),
        2.0**-24,
    ),
}  # fmt: skip
# What else the header spreads over vectors: -2 ln 2, -1/2 and 1 of the formulas themselves.
EXACT = (-1.3862943611198906, -0.5, 1.0)


def grid(series: Series) -> list[tuple[Decimal, Decimal, Decimal]]:
    """Return points of the interval, dense at its ends, with the function's value and weight there."""
    low, high = series.interval
    points = []
    for k in range(POINTS + 1):
        x = low + (high - low) * (1 - Decimal(math.cos(math.pi * k / POINTS))) / 2
        value = horner(series.power_series, x)
        points.append((x, value, series.weight(x, value)))
    return points


def errors(coefficients: list[Decimal], points: list[tuple[Decimal, Decimal, Decimal]]) -> list[Decimal]:
    return [(value - horner(coefficients, x)) * weight for x, value, weight in points]


def solve(matrix: list[list[Decimal]]) -> list[Decimal]:
    """Solve a linear system given with its right side as the last column."""
    size = len(matrix)
    rows = [row[:] for row in matrix]
    for column in range(size):
        pivot = max(range(column, size), key=lambda i: abs(rows[i][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [number / rows[column][column] for number in rows[column]]
        for i in range(size):
            if i != column:
                factor = rows[i][column]
                rows[i] = [a - factor * b for a, b in zip(rows[i], rows[column], strict=True)]
    return [row[-1] for row in rows]


def remez(series: Series) -> tuple[list[Decimal], Decimal]:
    """Return the coefficients of the least largest weighted error on the grid, and that error."""
    points, count = grid(series), len(series.in_use)
    chosen = [round(POINTS * (2 * i + 1) / (2 * count + 2)) for i in range(count + 1)]
    for _ in range(30):
        system = []
        for sign, (x, value, weight) in enumerate(points[k] for k in chosen):
            row = [weight]
            while len(row) < count:
                row.append(row[-1] * x)
            system.append([*row, Decimal((-1) ** sign), weight * value])
        *coefficients, level = solve(system)
        found = errors(coefficients, points)
        if max(map(abs, found)) <= abs(level) * Decimal("1.000001"):
            break
        chosen = _alternating(found, count + 1)
    return coefficients, max(map(abs, found))


def _alternating(found: list[Decimal], count: int) -> list[int]:
    """Return ``count`` places of largest error whose signs alternate."""
    peaks: list[int] = []
    for k, error in enumerate(found):
        if peaks and (found[peaks[-1]] > 0) == (error > 0):
            if abs(error) > abs(found[peaks[-1]]):
                peaks[-1] = k
        else:
            peaks.append(k)
    while len(peaks) > count:
        del peaks[0 if abs(found[peaks[0]]) < abs(found[peaks[-1]]) else -1]
    return peaks


def error_in_use(series: Series) -> float:
    """Return the largest weighted error of the coefficients in use."""
    return float(max(map(abs, errors([Decimal(number) for number in series.in_use], grid(series)))))


def main() -> int:
    worst = 0.0
    for name, series in SERIES.items():
        best, least = remez(series)
        used = error_in_use(series)
        worst = max(worst, used / series.bound)
        print(f"{name}: {series.meaning}")
        print(f"  error in use {used:.2g}, least possible {float(least):.2g}, bound {series.bound:.2g}")
        for ours, theirs in zip(series.in_use, best, strict=True):
            print(f"  {ours!r:>26} {float(theirs)!r:>26}")
    return 0 if worst <= 1 else 1


if __name__ == "__main__":
    sys.exit(main())
