"""The gate: whether a function is smooth at the scale of the steps, and whether it is a sum over coordinates.

*Smoothness* is judged from second differences at two scales. A smooth function has the same curvature at
both scales, up to a factor. If curvature lives at the small scale, there are valleys within valleys; if there
is none there, the function has kinks or plateaus:

    c(a) = (f(x + a r) + f(x - a r) - 2 f(x)) / a^2           for each of a few random lines r
    G = mean of ln(|c(a_2)| / |c(a_1)|),  a_2 < a_1            each clipped to ln 1e-4 ... ln 1e4
    rough  if  G > ln 4  or  G < ln 0.1

Where c(a_1) and c(a_2) differ by less than the error of the largest value, their ratio counts as 1. Lines
with a failed evaluation are omitted. If half of the nearby values equal f(x), the function is rough: it is
constant in steps.

*Additivity.* A sum of functions of one variable each changes by the sum of the changes of two halves of its
variables. Coordinates of each displacement r are divided at random into halves A and B, which costs two
evaluations in addition to f(x + r):

    a = f(x + r_A) - f(x),  b = f(x + r_B) - f(x),  c = f(x + r) - f(x)
    additive  if  |c - a - b| <= max(1e-6 (|a| + |b| + |c|), 10 eps)  for all r

with the error eps of a value. If 10 eps exceeds a hundredth of |a| + |b| + |c|, nothing can be decided, and
the function does not count as additive; nor does it if most evaluations fail.
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
INTERACTION = 1e-6  # |c - a - b|/(|a| + |b| + |c|) of an additive function; rounding errors are far smaller
INTERACTION_ERROR = 10.0  # error of c - a - b, in units of that of f: five standard deviations
DECIDED = 1e-2  # largest such error, relative to |a| + |b| + |c|, with which additivity is decided
LEAST_DISPLACEMENTS = 2  # displacements without failures needed for that


class Verdict(NamedTuple):
    """Decision of the gate, with the mean logarithm of the ratios of curvature; infinite if all failed."""

    smooth: bool
    score: float


class Additivity(NamedTuple):
    """Decision about additivity.

    Attributes
    ----------
    additive : bool
        True if the function is a sum as far as the displacements and the errors of values show.
    decided : bool
        False if values failed, or if their errors hide an interaction.
    interaction : float
        Median of |c - a - b|/(|a| + |b| + |c|); infinite if all values failed.
    """

    additive: bool
    decided: bool
    interaction: float


def line_count(n: int) -> int:
    """Return the number of lines for ``n`` variables."""
    return FEW_LINES if n < MANY_VARIABLES else MANY_LINES


def random_lines(generator: np.random.Generator, count: int, steps: Vector) -> Vector:
    """Return random directions of length sqrt(n) in units of ``steps``, one per row."""
    normal = generator.standard_normal((count, len(steps)))
    lengths = np.linalg.norm(normal, axis=1, keepdims=True)
    lines: Vector = normal * (math.sqrt(len(steps)) / lengths) * steps
    return lines


def inside(
    centre: Vector, lines: Vector, reach: float, limits: tuple[Vector, Vector] | None
) -> tuple[Vector, bool]:
    """Return the lines, changed to stay in the box, and whether both points of each lie on the same side.

    Near a face, lines point inwards and their points are x + a r and x + 2 a r. Otherwise lines are shortened
    in coordinates in which they would leave the box.
    """
    if limits is None:
        return lines, False
    below, above = centre - limits[0], limits[1] - centre
    longest = reach * np.abs(lines).max(axis=0)
    if np.all((np.minimum(below, above) >= longest / 2) | (limits[0] == limits[1])):
        room = np.minimum(below, above) / reach
        return np.clip(lines, -room, room), False
    inwards = np.where(above < longest, -1.0, np.where(below < longest, 1.0, np.sign(lines)))
    inwards = np.where((above < longest) & (below < longest), np.where(above > below, 1.0, -1.0), inwards)
    room = np.where(inwards > 0, above, below) / (2 * reach)
    return inwards * np.minimum(np.abs(lines), room), True


def points(
    centre: Vector, lines: Vector, scales: tuple[float, float], limits: tuple[Vector, Vector] | None, *,
    one_sided: bool,
) -> Vector:  # fmt: skip
    """Return the points to evaluate, (4 q, n): two per line at the large scale, then at the small one."""
    factors = [a * side for a in scales for side in ((1, 2) if one_sided else (1, -1))]
    found: Vector = np.concatenate([centre + factor * lines for factor in factors])
    return found if limits is None else np.clip(found, *limits)


def judge(
    values: Vector, f: float, scales: tuple[float, float], errors: ValueNoise, *, one_sided: bool
) -> Verdict:
    """Return the verdict from the values at :func:`points`, NaN for failures, and ``f`` at the centre."""
    large, small = scales
    sides = values.reshape(4, -1)
    known = values[~np.isnan(values)]
    if not len(known) or float(np.mean(sides[2:] == f)) >= PLATEAU:
        return Verdict(False, math.inf)
    with np.errstate(all="ignore"):
        first, second = (sides[0], sides[2]), (sides[1], sides[3])
        if one_sided:
            far, near = (f - 2 * one + two for one, two in zip(first, second, strict=True))
        else:
            far, near = (one + two - 2 * f for one, two in zip(first, second, strict=True))
        far, near = far / large**2, near / small**2
        largest = np.maximum(np.abs(sides).max(axis=0), abs(f))
        hidden = CURVATURE_ERROR * np.array([errors.error(value) for value in largest]) / small**2
        ratios = np.clip(np.abs(near) / np.maximum(np.abs(far), TINY), 1 / CLIP, CLIP)
        ratios[(np.abs(near - far) <= hidden) | (np.maximum(np.abs(near), np.abs(far)) <= hidden)] = 1.0
    ratios = ratios[np.isfinite(far) & np.isfinite(near)]
    if not len(ratios):
        return Verdict(False, math.inf)
    score = float(np.mean(np.log(ratios)))
    return Verdict(LEAST <= score <= MOST, score)


def halves(generator: np.random.Generator, centre: Vector, points: Vector) -> Vector:
    """Return the points to evaluate for :func:`judge_additivity`, (2 q, n), for ``points``, (q, n).

    The first q rows are ``points`` with a random half of the coordinates of each taken from ``centre``, the
    others those with the other half. Coordinates that do not differ from ``centre`` belong to neither half.
    """
    differs = points != centre
    order = np.where(differs, generator.random(points.shape), math.inf).argsort(axis=1).argsort(axis=1)
    first = order < (np.count_nonzero(differs, axis=1, keepdims=True) + 1) // 2
    return np.concatenate((np.where(first, points, centre), np.where(first, centre, points)))


def judge_additivity(joint: Vector, parts: Vector, f: float, errors: ValueNoise) -> Additivity:
    """Return whether fun is a sum of functions of one variable each.

    Parameters
    ----------
    joint : ndarray, (q,)
        Values at the points given to :func:`halves`, NaN for failures.
    parts : ndarray, (2 q,)
        Values at the points that it returned.
    f : float
        Value at the centre.
    errors : ValueNoise
        Errors of values.
    """
    with np.errstate(all="ignore"):
        c, (a, b) = joint - f, parts.reshape(2, -1) - f
        sizes, rest = np.abs(a) + np.abs(b) + np.abs(c), np.abs(c - a - b)
        largest = np.max(np.abs([joint, *parts.reshape(2, -1), np.full(len(joint), f)]), axis=0)
        hidden = INTERACTION_ERROR * np.array([errors.error(value) for value in largest])
        known = np.isfinite(sizes)
        explained = rest <= np.maximum(INTERACTION * sizes, hidden)
        decided = ~explained | (hidden <= DECIDED * sizes)
        interactions = rest / np.maximum(sizes, TINY)
    if np.count_nonzero(known) < LEAST_DISPLACEMENTS:
        return Additivity(False, False, math.inf)
    coupled = not explained[known].all()
    clear = coupled or bool(decided[known].all())
    return Additivity(clear and not coupled, clear, float(np.median(interactions[known])))
