"""The gate: whether a function is smooth at the scale of the steps, from second differences at two scales.

A smooth function has the same curvature at both scales, up to a factor. If curvature lives at the small
scale, there are valleys within valleys; if there is none there, the function has kinks or plateaus:

    c(a) = (f(x + a r) + f(x - a r) - 2 f(x)) / a^2           for each of a few random lines r
    G = mean of ln(|c(a_2)| / |c(a_1)|),  a_2 < a_1            each clipped to ln 1e-4 ... ln 1e4
    rough  if  G > ln 4  or  G < ln 0.1

Where c(a_1) and c(a_2) differ by less than the error of values, their ratio counts as 1. Lines with a failed
evaluation are omitted. If half of the nearby values equal f(x), the function is rough: constant in steps.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from lmma.numerics.value_noise import TINY, ValueNoise

Vector = npt.NDArray[np.float64]

AT_START = (0.3, 0.02)  # a_1 and a_2, for lines of length sigma0 sqrt(n)
NEARBY = (1.0, 0.07)  # a_1 and a_2, for lines drawn from the distribution of a search
FEW_LINES, MANY_LINES = 3, 5
MANY_VARIABLES = 20  # from here on MANY_LINES
MOST = math.log(4.0)  # largest G of a smooth function
LEAST = math.log(0.1)  # smallest G of a smooth function
PLATEAU = 0.5  # share of the nearby values that equal f, from which on the function is constant in steps
CLIP = 1e4  # largest ratio of one line
CURVATURE_ERROR = 6.0  # error of f(x + r) + f(x - r) - 2 f(x), in units of that of f


class Verdict(NamedTuple):
    """Decision of the gate, with the mean logarithm of the ratios of curvature; infinite if all failed."""

    smooth: bool
    score: float


def line_count(n: int) -> int:
    """Return the number of lines for ``n`` variables."""
    return FEW_LINES if n < MANY_VARIABLES else MANY_LINES


def random_lines(generator: np.random.Generator, count: int, steps: Vector) -> Vector:
    """Return random directions of length sqrt(n) in units of ``steps``, one per row."""
    normal = generator.standard_normal((count, len(steps)))
    lengths = np.linalg.norm(normal, axis=1, keepdims=True)
    lines: Vector = normal * (math.sqrt(len(steps)) / lengths) * steps
    return lines


def points(
    centre: Vector, lines: Vector, scales: tuple[float, float], limits: tuple[Vector, Vector] | None = None
) -> Vector:
    """Return the points to evaluate, (4 q, n): both sides at the large scale, then at the small one.

    With ``limits``, lines are shortened in coordinates in which they would leave the box.
    """
    large, small = scales
    if limits is not None:
        lower, upper = limits
        room = np.minimum(centre - lower, upper - centre) / large
        lines = np.clip(lines, -room, room)
    found: Vector = np.concatenate([centre + a * lines for a in (large, -large, small, -small)])
    return found if limits is None else np.clip(found, *limits)


def judge(values: Vector, f: float, scales: tuple[float, float], errors: ValueNoise) -> Verdict:
    """Return the verdict from the values at :func:`points`, NaN for failures, and ``f`` at the centre."""
    large, small = scales
    sides = values.reshape(4, -1)
    known = values[~np.isnan(values)]
    if not len(known) or float(np.mean(sides[2:] == f)) >= PLATEAU:
        return Verdict(False, math.inf)
    with np.errstate(all="ignore"):
        far = (sides[0] + sides[1] - 2 * f) / large**2
        near = (sides[2] + sides[3] - 2 * f) / small**2
        hidden = CURVATURE_ERROR * errors.error(f) / small**2
        ratios = np.clip(np.abs(near) / np.maximum(np.abs(far), TINY), 1 / CLIP, CLIP)
        ratios[(np.abs(near - far) <= hidden) | (np.maximum(np.abs(near), np.abs(far)) <= hidden)] = 1.0
    ratios = ratios[np.isfinite(far) & np.isfinite(near)]
    if not len(ratios):
        return Verdict(False, math.inf)
    score = float(np.mean(np.log(ratios)))
    return Verdict(LEAST <= score <= MOST, score)
