"""Box bounds, coordinate by coordinate and in place: every evaluation lies inside.

The search goes on in all of R^n; a box says which point inside stands for each point outside. Four ways,
the first three compared in docs/reliability.md:

``reflect``
    The box is mirrored at its faces, again and again. Inside nothing changes.
``smooth``
    As reflect, but bent into the face by a parabola near it: an optimum on a face, where fun falls towards
    the face, becomes a smooth minimum of what the search sees.
``project``
    The nearest point of the box is evaluated, and the distance to it is added to the value as a penalty.
``wrap``
    The box is repeated without end: angles, hours of the day. A coordinate with one bound is mirrored.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Literal, Protocol, final

import numpy as np
import numpy.typing as npt

from lmma.kernels.words import shown

Array = npt.NDArray[np.floating]
Values = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Boundary = Literal["reflect", "smooth", "project", "wrap"]


class Limits(Protocol):
    """Bounds as SciPy's ``Bounds`` has them."""

    lb: npt.ArrayLike
    ub: npt.ArrayLike


Bounds = Limits | Iterable[Any]  # see :func:`box`

BLOCK = 1 << 15  # numbers repaired at a time: temporaries stay in the cache, however large the generation


class Box(ABC):
    """Lower and upper bounds for each coordinate, which may be infinite or equal.

    Parameters
    ----------
    lower, upper : ndarray, (n,)
        Bounds in float64.
    dtype
        Precision of the candidates; bounds are rounded inwards to it, so that they hold exactly.
    """

    name: ClassVar[str] = ""

    def __init__(self, lower: Values, upper: Values, dtype: npt.DTypeLike = "float64") -> None:
        low, high = lower.astype(dtype), upper.astype(dtype)
        self.lower: Array = np.where(low < lower, np.nextafter(low, np.full_like(low, np.inf)), low)
        self.upper: Array = np.where(high > upper, np.nextafter(high, np.full_like(high, -np.inf)), high)
        fixed = lower == upper
        if np.any(fixed):  # the same number twice, even where it is no single-precision number
            self.lower[fixed] = self.upper[fixed] = lower[fixed]
        self.fixed = self.lower == self.upper  # in single precision, one number may be all that is between
        self.finite = bool(np.any(np.isfinite(lower)) or np.any(np.isfinite(upper)))

    def __repr__(self) -> str:
        low, high = (f"{float(self.lower.min()):g}", f"{float(self.upper.max()):g}")
        fixed = f", {int(np.count_nonzero(self.fixed))} fixed" if np.any(self.fixed) else ""
        return f"<box: n={len(self.lower)}, from {low} to {high}, {self.name or type(self).__name__}{fixed}>"

    def repair(self, candidates: Array, rows: Indices | None = None) -> None:
        """Move ``candidates``, or some rows of them, into the box, in place."""
        if rows is None:
            self.repair_block(candidates, 0, len(candidates))
            return
        for row in rows.tolist():
            self.repair_block(candidates[row : row + 1], row, len(candidates))

    def repair_block(self, candidates: Array, first: int, popsize: int) -> None:
        """Move candidates number ``first`` and on of a generation of ``popsize`` into the box, in place."""
        if not self.finite:
            return
        self._expect(popsize)
        block = max(1, BLOCK // candidates.shape[1])
        for row in range(0, len(candidates), block):
            self._repair(candidates[row : row + block], first + row)

    def _expect(self, popsize: int) -> None:  # noqa: B027 (most boxes remember nothing of a generation)
        """Prepare for a generation of so many candidates."""

    def _repair(self, x: Array, first: int) -> None:
        """Move some candidates, one per row, the first of them number ``first``, into the box, in place."""
        self._move(x)

    @abstractmethod
    def _move(self, x: Array) -> None:
        """Move points, one per row, into the box, in place."""

    def penalised(self, values: Values) -> Values:
        """Return the values the search is told."""
        return values

    def outside(self, x: Array) -> Array:
        """Return where the search must stand for ``x``, a point inside, to be evaluated."""
        return x

    def inside(self, x: Array) -> Array:
        """Return the point that is evaluated where the search stands at ``x``."""
        moved = x[np.newaxis].copy()
        self._move(moved)
        inside: Array = moved[0]
        return inside

    def largest_sigma(self, scale: Array | None) -> float:
        """Return the step size, in units of ``scale``, beyond which candidates fill the box evenly.

        Selection among such candidates is blind, and nothing would bring the step size down again. It is a
        quarter of the width, of the widest coordinate; infinite if one has no end.
        """
        width = (self.upper - self.lower)[~self.fixed]
        return float(np.max(width if scale is None else width / scale[~self.fixed], initial=0.0)) / 4

    def get_state(self) -> dict[str, Values]:
        """Return what a box has learned, as named arrays."""
        return {}

    def set_state(self, state: Mapping[str, Values]) -> None:  # noqa: B027 (most boxes learn nothing)
        """Go on from a state of :meth:`get_state`."""


def fold(x: Array, lower: Array, upper: Array) -> None:
    """Mirror the rows of ``x`` at the bounds until they lie between them, in place."""
    rows, columns = np.nonzero((x < lower) | (x > upper))  # few in a late run: work on them alone
    if len(rows) == 0:
        return
    y, low, high = x[rows, columns], lower[columns], upper[columns]
    width = high - low
    both = np.isfinite(width) & (width > 0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # A wave of slope 1: up over one width, down over the next. The first mirror image comes out exactly.
        near = np.where(y < low, 2 * low - y, 2 * high - y)
        wave = np.abs(np.remainder(y - low, 2 * width) - width)
        near = np.where(both & ((near < low) | (near > high)), high - wave, near)
    np.clip(near, low, high, out=near)  # against rounding, and for width 0
    x[rows, columns] = np.where(np.isnan(near), low, near)


@final
class Reflect(Box):
    """Mirrors what lies outside at the faces."""

    name = "reflect"

    def _move(self, x: Array) -> None:
        fold(x, self.lower, self.upper)


@final
class Smooth(Box):
    """Mirrors a little beyond the faces, and bends what is near them inside by a parabola.

    Within ``margin`` a of a lower bound l, the search's y stands for l + (y - l + a)^2 / (4 a), which
    meets the identity at y = l + a with slope 1 and the face at y = l - a with slope 0, where it is mirrored.
    """

    name = "smooth"

    def __init__(self, lower: Values, upper: Values, dtype: npt.DTypeLike = "float64") -> None:
        super().__init__(lower, upper, dtype)
        width = self.upper - self.lower
        # A tenth of the box, so that nothing changes in most of it; of one face alone, by its own scale.
        one_sided = 0.1 * (1 + np.minimum(np.abs(self.lower), np.abs(self.upper)))
        self.margin: Array = np.where(np.isfinite(width), 0.1 * width, one_sided).astype(dtype)
        self.margin[~np.isfinite(self.margin)] = 1.0  # of a coordinate without bounds: of no effect

    def _move(self, x: Array) -> None:
        a = self.margin
        fold(x, self.lower - a, self.upper + a)
        rows, i = np.nonzero(x < self.lower + a)
        if len(i):
            x[rows, i] = self.lower[i] + np.square(x[rows, i] - self.lower[i] + a[i]) / _four(a[i])
        rows, i = np.nonzero(x > self.upper - a)
        if len(i):
            x[rows, i] = self.upper[i] - np.square(self.upper[i] + a[i] - x[rows, i]) / _four(a[i])
        np.clip(x, self.lower, self.upper, out=x)  # against rounding

    def outside(self, x: Array) -> Array:
        """Return where the search must stand for ``x`` to be evaluated: the parabola backwards."""
        y, a = x.astype(self.margin.dtype), self.margin
        i = np.flatnonzero(x < self.lower + a)
        y[i] = self.lower[i] - a[i] + 2 * np.sqrt(a[i] * np.maximum(x[i] - self.lower[i], 0))
        i = np.flatnonzero(x > self.upper - a)
        y[i] = self.upper[i] + a[i] - 2 * np.sqrt(a[i] * np.maximum(self.upper[i] - x[i], 0))
        return y


def _four(a: Array) -> Array:
    return np.where(a > 0, 4 * a, 1)  # a fixed coordinate has no margin


@final
class Project(Box):
    """Evaluates the nearest point of the box and adds a penalty that grows with the square of the distance.

    The penalty of a distance as long as a typical one is twice the recent spread of values: more than that
    hides fun, less lets the search drift away (after Hansen, Niederberger, Guzzella and Koumoutsakos 2009).
    """

    name = "project"

    def __init__(self, lower: Values, upper: Values, dtype: npt.DTypeLike = "float64") -> None:
        super().__init__(lower, upper, dtype)
        self._excess: Values = np.zeros(0)  # squared distance of each candidate from the box
        self._spreads: deque[float] = deque(maxlen=20)
        self._lengths: deque[float] = deque(maxlen=20)

    def _expect(self, popsize: int) -> None:
        if len(self._excess) != popsize:
            self._excess = np.zeros(popsize)

    def _repair(self, x: Array, first: int) -> None:
        before = x.copy()
        self._move(x)
        by = np.where(self.fixed, 0, before - x).astype(np.float64)
        self._excess[first : first + len(x)] = np.vecdot(by, by)

    def _move(self, x: Array) -> None:
        np.clip(x, self.lower, self.upper, out=x)

    def penalised(self, values: Values) -> Values:
        """Return values plus penalties on the scale of how values differ."""
        if not self.finite:
            return values
        excess = self._excess
        known = np.isfinite(values)
        if np.count_nonzero(known) >= 2:
            quarters = np.quantile(values[known], (0.25, 0.75))
            self._spreads.append(float(quarters[1] - quarters[0]))
        if np.any(excess > 0):
            self._lengths.append(float(np.median(excess[excess > 0])))
        if not (self._spreads and self._lengths and np.any(excess > 0)):
            return values
        spread, length = float(np.median(self._spreads)), float(np.median(self._lengths))
        if not (spread > 0 and math.isfinite(spread)):
            spread = float(np.max(np.abs(values[known]), initial=1.0)) * 1e-12 + 1e-300
        return values + 2 * spread * excess / length

    def get_state(self) -> dict[str, Values]:
        """Return the recent spreads and lengths."""
        return {"spreads": np.array(self._spreads), "lengths": np.array(self._lengths)}

    def set_state(self, state: Mapping[str, Values]) -> None:
        """Go on from recent spreads and lengths."""
        self._spreads = deque((float(v) for v in state["spreads"]), maxlen=20)
        self._lengths = deque((float(v) for v in state["lengths"]), maxlen=20)


@final
class Wrap(Box):
    """Repeats the box: what leaves it at one face comes in at the opposite one, as periodic variables do."""

    name = "wrap"

    def _move(self, x: Array) -> None:
        rows, i = np.nonzero((x < self.lower) | (x > self.upper))
        width = self.upper[i] - self.lower[i]
        closed = np.isfinite(width) & (width > 0)
        if np.any(closed):
            rows, i, width = rows[closed], i[closed], width[closed]
            x[rows, i] = self.lower[i] + np.remainder(x[rows, i] - self.lower[i], width)
        fold(x, self.lower, self.upper)  # of one bound, of none between two, and against rounding


WAYS: dict[str, type[Box]] = {cls.name: cls for cls in (Reflect, Smooth, Project, Wrap)}
# The only one that is fast where fun presses against a face; docs/reliability.md
DEFAULT: Boundary = "smooth"


def box(
    bounds: Bounds | None, x0: Array, *, boundary: Boundary = DEFAULT, dtype: npt.DTypeLike = "float64"
) -> Box | None:
    """Return the box a user means by ``bounds``, or say what is wrong with it; None for no bounds.

    Parameters
    ----------
    bounds : None, scipy.optimize.Bounds, list of (low, high), or [low, high]
        None stands for no bound, also inside pairs. Two numbers or two vectors are lower and upper bounds.
        For n = 2 two pairs are read as SciPy does, one pair for each coordinate; two NumPy vectors, which
        could mean either, are refused where that makes a difference.
    x0 : ndarray, (n,)
        The start, which must lie inside.
    boundary : {"reflect", "smooth", "project", "wrap"}
        What happens to candidates outside.
    """
    if not isinstance(boundary, str) or boundary not in WAYS:
        raise ValueError(f"boundary must be one of {', '.join(map(repr, WAYS))}; got {shown(boundary)}")
    if bounds is None:
        return None
    n = len(x0)
    lower, upper = read_bounds(bounds, n)
    if np.any(np.isnan(lower) | np.isnan(upper)):
        raise ValueError(f"bounds must not be NaN, coordinate {int(np.isnan(lower + upper).argmax())} is")
    if np.any(bad := lower > upper):
        i = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"bounds of coordinate {i} are upside down: low = {lower[i]:g} > high = {upper[i]:g}"
        )
    if np.any(np.isposinf(lower) | np.isneginf(upper)):
        raise ValueError("bounds must leave room: a lower bound of inf or an upper bound of -inf does not")
    if np.all(lower == upper):
        raise ValueError("bounds fix every coordinate (low == high): nothing is left to search for")
    out = (x0 < lower) | (x0 > upper)
    if np.any(out):
        i = int(np.flatnonzero(out)[0])
        raise ValueError(
            f"x0 must lie within bounds: x0[{i}] = {x0[i]:g} is outside [{lower[i]:g}, {upper[i]:g}]; "
            "numpy.clip(x0, low, high) moves it in"
        )
    made = WAYS[boundary](lower, upper, dtype)
    _refuse_what_precision_cannot_tell(made, lower, upper)
    return made


def opened(closed: Box, columns: Indices) -> Box:
    """Return a box like ``closed`` with no bounds at ``columns``, which somebody else keeps."""
    lower, upper = closed.lower.astype(np.float64), closed.upper.astype(np.float64)
    lower[columns], upper[columns] = -math.inf, math.inf
    return type(closed)(lower, upper, closed.lower.dtype)


def _refuse_what_precision_cannot_tell(made: Box, lower: Values, upper: Values) -> None:
    """Raise ValueError where no number of the box's precision lies between two bounds, or one in each."""
    if np.any(empty := made.lower > made.upper):
        i = int(np.flatnonzero(empty)[0])
        between = f"[{float(lower[i])!r}, {float(upper[i])!r}]"
        raise ValueError(
            f"bounds of coordinate {i}, {between}, have no {made.lower.dtype} number between them: use "
            "dtype='float64', or add the large part of the coordinate inside fun"
        )
    if np.all(made.fixed):
        raise ValueError(
            f"bounds leave a single {made.lower.dtype} number for every coordinate: use dtype='float64'"
        )


def read_bounds(bounds: Bounds, n: int) -> tuple[Values, Values]:
    """Return lower and upper bounds, (n,) each, from any of the forms :func:`box` takes."""
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        return _vector(bounds.lb, n, -math.inf), _vector(bounds.ub, n, math.inf)
    try:
        pairs = bounds if isinstance(bounds, np.ndarray) and bounds.ndim else list(bounds)
    except TypeError:
        raise TypeError(
            f"bounds must be scipy.optimize.Bounds, {n} pairs (low, high), or [low, high]; "
            f"got {shown(bounds)}"
        ) from None
    if len(pairs) == n and all(np.ndim(pair) == 1 and len(pair) == 2 for pair in pairs):
        if n == 2 and isinstance(pairs, list):
            _refuse_two_vectors(pairs)
        return (
            np.array([-math.inf if low is None else low for low, _ in pairs], dtype=np.float64),
            np.array([math.inf if high is None else high for _, high in pairs], dtype=np.float64),
        )
    if len(pairs) == 2:
        return _vector(pairs[0], n, -math.inf), _vector(pairs[1], n, math.inf)
    raise ValueError(
        f"bounds must be scipy.optimize.Bounds, {n} pairs (low, high), or [low, high] with numbers or "
        f"vectors of length {n}; got {len(pairs)} entries"
    )


def _refuse_two_vectors(pairs: list[Any]) -> None:
    """Raise ValueError for two NumPy vectors at n = 2: pairs are SciPy's reading, vectors look like sides."""
    first, second = pairs
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and first[1] != second[0]:
        raise ValueError(
            "bounds of two variables as two vectors can be read in two ways: say "
            f"scipy.optimize.Bounds({first.tolist()}, {second.tolist()}) if these are lower and upper "
            f"bounds, or [{tuple(first.tolist())}, {tuple(second.tolist())}] if each is a pair (low, high)"
        )


def _vector(side: npt.ArrayLike | None, n: int, none: float) -> Values:
    values = np.asarray(none if side is None else side, dtype=np.float64)
    if values.shape not in ((), (1,), (n,)):
        raise ValueError(f"bounds must be numbers or have the shape of x0, ({n},); got shape {values.shape}")
    return np.broadcast_to(values, (n,)).copy()
