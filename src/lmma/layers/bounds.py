"""Box bounds, applied to each coordinate in place: every evaluated point lies inside the box.

The search itself is unbounded; a box maps each point outside to a point inside, which is evaluated. There
are four such maps, of which docs/reliability.md compares the first three:

``reflect``
    Points outside are mirrored at the faces, repeatedly if necessary. Points inside do not change.
``smooth``
    Points near a face are moved towards it along a parabola, and points farther outside onto it; these get
    a penalty. An optimum on a face, where fun falls towards the face, becomes a smooth minimum for the
    search.
``project``
    The nearest point of the box is evaluated, and a penalty for the distance to it is added to the value.
``wrap``
    The box is repeated periodically, for angles or hours of the day. A coordinate with one bound is mirrored.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, final

import numpy as np
import numpy.typing as npt

from lmma._text import nearest, shown
from lmma.layers.layer import Layer, Told
from lmma.numerics.state import DISTANCE, NOT_NEGATIVE, Declared

if TYPE_CHECKING:
    from lmma.methods.base import Method

Array = npt.NDArray[np.floating]
Values = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Boundary = Literal["reflect", "smooth", "project", "wrap"]


class Limits(Protocol):
    """Bounds with the attributes of SciPy's ``Bounds``."""

    lb: npt.ArrayLike
    ub: npt.ArrayLike


Bounds = Limits | Iterable[Any]  # see :func:`box`

LARGEST_VARIANCE = 1e300  # of a coordinate, so that quotients of diverging searches stay numbers
BLOCK = 1 << 15  # numbers repaired at a time: keeps temporaries in the cache for any population size


class Box(Layer, ABC):
    """Lower and upper bounds of each coordinate, which may be infinite or equal.

    Parameters
    ----------
    lower, upper : ndarray, (n,)
        Bounds in float64.
    dtype
        Precision of the candidates; bounds are rounded inwards to it, so that they are kept exactly.
    """

    name = "bounds"
    boundary: ClassVar[str] = ""

    def __init__(self, lower: Values, upper: Values, dtype: npt.DTypeLike = "float64") -> None:
        low, high = lower.astype(dtype), upper.astype(dtype)
        self.lower: Array = np.where(low < lower, np.nextafter(low, np.full_like(low, np.inf)), low)
        self.upper: Array = np.where(high > upper, np.nextafter(high, np.full_like(high, -np.inf)), high)
        self.fixed = self.lower == self.upper  # may include intervals that contain only one float32 number
        self.finite = bool(np.any(np.isfinite(lower)) or np.any(np.isfinite(upper)))

    def __repr__(self) -> str:
        low, high = (f"{float(self.lower.min()):g}", f"{float(self.upper.max()):g}")
        fixed = f", {int(np.count_nonzero(self.fixed))} fixed" if np.any(self.fixed) else ""
        return (
            f"<box: n={len(self.lower)}, from {low} to {high}, {self.boundary or type(self).__name__}{fixed}>"
        )

    def on_ask(self, method: Method, X: Array, first: int, rows: int) -> None:
        """Move candidates into the box."""
        self.repair(X, first, rows)

    def on_tell(self, method: Method, told: Told) -> Told:
        """Add penalties for candidates that were outside."""
        values = self.penalised(told.values)
        return told if values is told.values else told._replace(values=values)

    def repair(self, candidates: Array, first: int = 0, rows: int | None = None) -> None:
        """Move candidates ``first``, ``first + 1``, ... of a batch of ``rows`` into the box, in place."""
        if not self.finite:
            return
        self._allocate(len(candidates) if rows is None else rows)
        block = max(1, BLOCK // candidates.shape[1])
        for row in range(0, len(candidates), block):
            self._repair(candidates[row : row + block], first + row)

    def _allocate(self, rows: int) -> None:
        """Prepare for a batch of ``rows`` candidates."""

    def _repair(self, x: Array, first: int) -> None:
        """Move candidates ``first``, ``first + 1``, ..., one per row, into the box, in place."""
        self._move(x)

    @abstractmethod
    def _move(self, x: Array) -> None:
        """Move points, one per row, into the box, in place."""

    def penalised(self, values: Values) -> Values:
        """Return the values that the search ranks."""
        return values

    def outside(self, x: Array) -> Array:
        """Return a point of the search that maps to ``x``, a point inside the box."""
        return x

    def move_inside(self, x: Array) -> None:
        """Replace ``x``, a point of the search, by the point that is evaluated for it, in place."""
        self._move(x[np.newaxis])

    def inside(self, x: Array) -> Array:
        """Return the point that is evaluated for ``x``, a point of the search."""
        moved = x.copy()
        self.move_inside(moved)
        return moved

    def largest_sigma(self, scale: Array | None) -> float:
        """Return the step size, in units of ``scale``, beyond which candidates fill the box evenly.

        Selection among such candidates is random, so the step size would not decrease again. The limit is a
        quarter of the width of the widest coordinate, or infinite if a coordinate is unbounded.
        """
        width = (self.upper - self.lower)[~self.fixed]
        return float(np.max(width if scale is None else width / scale[~self.fixed], initial=0.0)) / 4


def fold(x: Array, lower: Array, upper: Array) -> None:
    """Mirror the rows of ``x`` at the bounds until they lie between them, in place."""
    rows, columns = np.nonzero((x < lower) | (x > upper))  # usually few late in a run
    if len(rows) == 0:
        return
    y, low, high = x[rows, columns], lower[columns], upper[columns]
    width = high - low
    both = np.isfinite(width) & (width > 0)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        # A triangle wave of slope 1. A single reflection is computed directly, which is exact.
        near = np.where(y < low, 2 * low - y, 2 * high - y)
        wave = np.abs(np.remainder(y - low, 2 * width) - width)
        near = np.where(both & ((near < low) | (near > high)), high - wave, near)
    np.clip(near, low, high, out=near)  # corrects rounding, and handles width 0
    x[rows, columns] = np.where(np.isnan(near), low, near)


@final
class Reflect(Box):
    """Mirrors points outside at the faces."""

    boundary = "reflect"

    def _move(self, x: Array) -> None:
        fold(x, self.lower, self.upper)


class Penalising(Box):
    """Maps points beyond a margin around the box to its faces, and adds a penalty for their distance from it.

    There fun does not change, and the penalty alone leads the search back. A candidate whose coordinates
    all lie one standard deviation outside is penalised by WEIGHT times the recent spread of values (after
    Hansen, Niederberger, Guzzella and Koumoutsakos 2009).
    """

    WEIGHT: ClassVar[float] = 2.0
    STATE: ClassVar[Declared] = {"spreads": DISTANCE, "variances": NOT_NEGATIVE}
    VARIABLE = ("spreads",)

    def __init__(self, lower: Values, upper: Values, dtype: npt.DTypeLike = "float64") -> None:
        super().__init__(lower, upper, dtype)
        self.margin: Array = self._margins(self.upper - self.lower).astype(dtype)
        self.margin[~np.isfinite(self.margin)] = 1.0  # without bounds: any finite value, not used
        self.variances: Values = np.zeros(len(self.lower))  # of each coordinate in recent batches
        self._squares: Values = np.zeros(len(self.lower))  # squared steps of this batch, summed by coordinate
        self._excess: Values = np.zeros(0)  # mean squared distance of each candidate, in standard deviations
        self._spreads: deque[float] = deque(maxlen=20)

    @abstractmethod
    def _margins(self, width: Array) -> Array:
        """Return, for boxes of these widths, the distance outside a face up to which there is no penalty."""

    def on_ask(self, method: Method, X: Array, first: int, rows: int) -> None:
        """Record the distances of candidates from the box, then move them into it."""
        if self.finite:
            self._measure(method, X, first, rows)
        self.repair(X, first, rows)

    def on_resample(self, method: Method, X: Array, rows: Indices, attempt: int) -> None:
        """Record distances and move candidates; a batch's variances are those of its first candidates."""
        if not self.finite:
            return
        for row in rows.tolist():
            self._excess[row] = self._distances(X[row : row + 1])[0]
            self.repair(X[row : row + 1], row, len(X))

    def _measure(self, method: Method, X: Array, first: int, rows: int) -> None:
        if not self.variances.any():
            steps = np.asarray(1.0 if method.scale is None else method.scale, np.float64) * method.sigma
            with np.errstate(over="ignore"):
                self.variances[...] = np.minimum(np.square(steps), LARGEST_VARIANCE)
        if first == 0:
            self._squares[...] = 0
        if len(self._excess) != rows:
            self._excess = np.zeros(rows)
        self._excess[first : first + len(X)] = self._distances(X)
        with np.errstate(over="ignore"):
            for x in X:  # row by row, so that the sum does not depend on the blocks of a batch
                step = x - method.mean
                self._squares += step * step

    def _distances(self, x: Array) -> Values:
        low, high = self.lower - self.margin, self.upper + self.margin
        outside = np.where(self.fixed, 0, np.maximum(np.maximum(low - x, x - high), 0)).astype(np.float64)
        outside /= np.sqrt(np.maximum(self.variances, np.finfo(np.float64).tiny))
        distances: Values = np.square(outside).mean(axis=1)
        return distances

    def on_tell(self, method: Method, told: Told) -> Told:
        """Add penalties; then update the variances with those of this batch."""
        told = super().on_tell(method, told)
        if self.finite:
            with np.errstate(over="ignore"):
                recent = self.variances / 2 + self._squares / (2 * max(1, len(self._excess)))
            np.minimum(recent, LARGEST_VARIANCE, out=self.variances)
        return told

    def penalised(self, values: Values) -> Values:
        """Return values plus penalties, scaled by the spread of recent values."""
        if not self.finite:
            return values
        known = np.isfinite(values)
        if np.count_nonzero(known) >= 2:
            quarters = np.quantile(values[known], (0.25, 0.75))
            self._spreads.append(float(quarters[1] - quarters[0]))
        if not (self._spreads and np.any(self._excess > 0)):
            return values
        spread = float(np.median(self._spreads))
        if not (spread > 0 and math.isfinite(spread)):
            spread = float(np.max(np.abs(values[known]), initial=1.0)) * 1e-12 + 1e-300
        return values + self.WEIGHT * spread * self._excess

    @property
    def spreads(self) -> Values:
        """Interquartile ranges of the values of recent generations."""
        return np.array(self._spreads)

    @spreads.setter
    def spreads(self, spreads: Values) -> None:
        self._spreads = deque(map(float, spreads), maxlen=20)


@final
class Smooth(Penalising):
    """Moves points near a face towards it along a parabola, and points farther outside onto it.

    Within ``margin`` a of a lower bound l, a point y of the search maps to l + (y - l + a)^2 / (4 a). This
    meets the identity at y = l + a with slope 1, and the face at y = l - a with slope 0. Points beyond map
    to the face and are penalised.
    """

    boundary = "smooth"
    MARGIN: ClassVar[float] = 0.03  # of the width: more of the box would be distorted, less is too steep

    def _margins(self, width: Array) -> Array:
        # With one bound, its magnitude sets the scale
        one_sided = self.MARGIN * (1 + np.minimum(np.abs(self.lower), np.abs(self.upper)))
        margins: Array = np.where(np.isfinite(width), self.MARGIN * width, one_sided)
        return margins

    def _move(self, x: Array) -> None:
        a = self.margin
        np.clip(x, self.lower - a, self.upper + a, out=x)
        rows, i = np.nonzero(x < self.lower + a)
        if len(i):
            x[rows, i] = self.lower[i] + np.square(x[rows, i] - self.lower[i] + a[i]) / _four(a[i])
        rows, i = np.nonzero(x > self.upper - a)
        if len(i):
            x[rows, i] = self.upper[i] - np.square(self.upper[i] + a[i] - x[rows, i]) / _four(a[i])
        np.clip(x, self.lower, self.upper, out=x)  # corrects rounding

    def outside(self, x: Array) -> Array:
        """Return a point of the search that maps to ``x``: the inverse of the parabola."""
        y, a = x.astype(self.margin.dtype), self.margin
        i = np.flatnonzero(x < self.lower + a)
        y[i] = self.lower[i] - a[i] + 2 * np.sqrt(a[i] * np.maximum(x[i] - self.lower[i], 0))
        i = np.flatnonzero(x > self.upper - a)
        y[i] = self.upper[i] + a[i] - 2 * np.sqrt(a[i] * np.maximum(self.upper[i] - x[i], 0))
        return y


def _four(a: Array) -> Array:
    return np.where(a > 0, 4 * a, 1)  # a fixed coordinate has no margin


@final
class Project(Penalising):
    """Evaluates the nearest point of the box and adds the penalty for the distance to it."""

    boundary = "project"

    def _margins(self, width: Array) -> Array:
        return np.zeros_like(width)

    def _move(self, x: Array) -> None:
        np.clip(x, self.lower, self.upper, out=x)


@final
class Wrap(Box):
    """Repeats the box periodically: a point that leaves at one face enters at the opposite one.

    A coordinate with only one finite bound is reflected there.
    """

    boundary = "wrap"

    def _move(self, x: Array) -> None:
        rows, i = np.nonzero((x < self.lower) | (x > self.upper))
        width = self.upper[i] - self.lower[i]
        closed = np.isfinite(width) & (width > 0)
        if np.any(closed):
            rows, i, width = rows[closed], i[closed], width[closed]
            x[rows, i] = self.lower[i] + np.remainder(x[rows, i] - self.lower[i], width)
        fold(x, self.lower, self.upper)  # one bound, width 0, and rounding


BOXES: dict[str, type[Box]] = {cls.boundary: cls for cls in (Reflect, Smooth, Project, Wrap)}
# The only fast one if the optimum lies on a face; see docs/reliability.md
DEFAULT: Boundary = "smooth"


def box(
    bounds: Bounds | None, x0: Array, *, boundary: Boundary = DEFAULT, dtype: npt.DTypeLike = "float64"
) -> Box | None:
    """Return the box described by ``bounds``, or None if ``bounds`` is None.

    Parameters
    ----------
    bounds : None, scipy.optimize.Bounds, list of (low, high), or [low, high]
        None means unbounded, also inside pairs. Two numbers or two vectors are lower and upper bounds. For
        n = 2, two pairs are read as in SciPy, one pair per coordinate. Two NumPy vectors are ambiguous then
        and raise ValueError if the two readings differ.
    x0 : ndarray, (n,)
        The start, which must lie inside.
    boundary : {"reflect", "smooth", "project", "wrap"}
        Treatment of candidates outside the box.

    Raises
    ------
    TypeError, ValueError
        For invalid ``bounds`` or ``boundary``, or if ``x0`` lies outside.
    """
    if not isinstance(boundary, str) or boundary not in BOXES:
        hint = nearest(boundary, BOXES) if isinstance(boundary, str) else ""
        raise ValueError(
            f"boundary must be one of {', '.join(map(repr, BOXES))}; got {shown(boundary)}{hint}"
        )
    if bounds is None:
        return None
    n = len(x0)
    try:
        lower, upper = read_bounds(bounds, n)
    except OverflowError:
        raise ValueError(f"bounds contain an integer beyond the range of floats: {shown(bounds)}") from None
    if np.any(np.isnan(lower) | np.isnan(upper)):
        raise ValueError(
            f"bounds must not be NaN, got NaN at coordinate {int(np.isnan(lower + upper).argmax())}"
        )
    if np.any(bad := lower > upper):
        i = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"bounds: lower bound exceeds upper bound at coordinate {i}: {lower[i]:g} > {upper[i]:g}"
        )
    if np.any(np.isposinf(lower) | np.isneginf(upper)):
        raise ValueError("bounds: a lower bound must not be inf, and an upper bound must not be -inf")
    if np.all(lower == upper):
        raise ValueError("bounds fix every coordinate (low == high): at least one must be free")
    out = (x0 < lower) | (x0 > upper)
    if np.any(out):
        i = int(np.flatnonzero(out)[0])
        raise ValueError(
            f"x0 must lie within bounds: x0[{i}] = {x0[i]:g} is outside [{lower[i]:g}, {upper[i]:g}]; "
            "numpy.clip(x0, low, high) moves it inside"
        )
    made = BOXES[boundary](lower, upper, dtype)
    _check_precision(made, lower, upper)
    return made


def without_bounds(box: Box, columns: Indices) -> Box:
    """Return a copy of ``box`` without bounds at ``columns``, whose bounds another layer keeps."""
    lower, upper = box.lower.astype(np.float64), box.upper.astype(np.float64)
    lower[columns], upper[columns] = -math.inf, math.inf
    return type(box)(lower, upper, box.lower.dtype)


def _check_precision(made: Box, lower: Values, upper: Values) -> None:
    """Raise ValueError if an interval contains no number of the box's dtype, or all contain a single one."""
    if np.any(empty := made.lower > made.upper):
        i = int(np.flatnonzero(empty)[0])
        between = f"[{float(lower[i])!r}, {float(upper[i])!r}]"
        remedy = "subtract a constant offset from the coordinate and add it inside fun"
        if lower[i] == upper[i]:
            remedy = f"fix it at {float(lower[i].astype(made.lower.dtype))!r}"
        raise ValueError(
            f"bounds of coordinate {i}, {between}, contain no {made.lower.dtype} number: use "
            f"dtype='float64', or {remedy}"
        )
    if np.all(made.fixed):
        raise ValueError(
            f"bounds contain a single {made.lower.dtype} number in every coordinate: use dtype='float64'"
        )


def read_bounds(bounds: Bounds, n: int) -> tuple[Values, Values]:
    """Return lower and upper bounds, (n,) each, from any form that :func:`box` accepts."""
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        return _vector(bounds.lb, n, -math.inf), _vector(bounds.ub, n, math.inf)
    if isinstance(bounds, Mapping):
        raise ValueError(
            "bounds are a dict, which needs a structure as x0: pass one pair (low, high) per "
            "coordinate, or x0 as a dict"
        )
    if isinstance(bounds, str):
        raise _wrong_form(bounds, n, shown(bounds))
    try:
        pairs = bounds if isinstance(bounds, np.ndarray) and bounds.ndim else list(bounds)
    except TypeError:
        raise TypeError(
            f"bounds must be scipy.optimize.Bounds, {n} pairs (low, high), or [low, high]; "
            f"got {shown(bounds)}"
        ) from None
    if len(pairs) == n and all(np.ndim(pair) == 1 and len(pair) == 2 for pair in pairs):
        if n == 2 and isinstance(pairs, list):
            _check_not_ambiguous(pairs)
        return (
            np.array([-math.inf if low is None else low for low, _ in pairs], dtype=np.float64),
            np.array([math.inf if high is None else high for _, high in pairs], dtype=np.float64),
        )
    if len(pairs) == 2:
        return _vector(pairs[0], n, -math.inf), _vector(pairs[1], n, math.inf)
    raise _wrong_form(bounds, n, "1 entry" if len(pairs) == 1 else f"{len(pairs):,} entries")


def _wrong_form(bounds: Any, n: int, got: str) -> ValueError:
    return ValueError(
        f"bounds must be scipy.optimize.Bounds, {n} pairs (low, high), or [low, high] with numbers or "
        f"vectors of length {n}; got {got}"
    )


def centre(bounds: Bounds | None) -> Values:
    """Return the centre of finite ``bounds``, which also define the number of variables."""
    n = _size(bounds)
    if bounds is None or n is None:
        raise ValueError(
            "x0 is required: pass a vector with the start of each variable, or bounds= with one pair of "
            "finite bounds per variable to start at their centre"
        )
    lower, upper = read_bounds(bounds, n)
    if not np.all(finite := np.isfinite(lower) & np.isfinite(upper)):
        i = int(np.flatnonzero(~finite)[0])
        raise ValueError(
            f"x0 is required: bounds of coordinate {i} are not finite, [{lower[i]:g}, {upper[i]:g}]"
        )
    return 0.5 * lower + 0.5 * upper


def _size(bounds: Any) -> int | None:
    """Return the number of coordinates of ``bounds``; None if two numbers apply to any number of them."""
    if hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        sides: list[Any] = [bounds.lb, bounds.ub]
    elif isinstance(bounds, np.ndarray | list | tuple) and len(bounds):
        sides = list(bounds)
        if len(sides) != 2 or all(np.ndim(side) == 1 and len(side) == 2 for side in sides):
            return len(sides)
    else:
        return None
    size = max((len(side) for side in sides if np.ndim(side) == 1), default=1)
    return size if size > 1 else None  # SciPy's Bounds(0, 1) has vectors of length 1


def _check_not_ambiguous(pairs: list[Any]) -> None:
    """Raise ValueError for two NumPy vectors at n = 2, which may be pairs or lower and upper bounds."""
    first, second = pairs
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray) and first[1] != second[0]:
        raise ValueError(
            "bounds of two variables as two vectors are ambiguous: use "
            f"scipy.optimize.Bounds({first.tolist()}, {second.tolist()}) if these are lower and upper "
            f"bounds, or [{tuple(first.tolist())}, {tuple(second.tolist())}] if each is a pair (low, high)"
        )


def _vector(side: npt.ArrayLike | None, n: int, none: float) -> Values:
    values = np.asarray(none if side is None else side, dtype=np.float64)
    if values.shape not in ((), (1,), (n,)):
        raise ValueError(f"bounds must be numbers or have the shape of x0, ({n},); got shape {values.shape}")
    return np.broadcast_to(values, (n,)).copy()
