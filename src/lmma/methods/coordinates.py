"""Search of sums of functions of one variable, coordinate by coordinate, all in one batch. New in lmma.

=========  ======================  =========  ============================================================
symbol     code                    shape      meaning
=========  ======================  =========  ============================================================
x          ``mean``                (n,)       base point; most rows differ from it in one coordinate
f          ``f``                   float      value at x
w          ``high - low``          (k,)       range of a coordinate: the box, or x0 +- 3 sigma0 without
                                              bounds; k = n coordinates move, without those that bounds fix
h          ``sweep.h``             (k,)       step of a sweep
d          ``sweep.curvatures``    (k,)       change of f by a step, divided by h^2
m          ``scan.levels``         int        points of a scan per coordinate
eps        ``errors.error(f)``     float      error of a value, see ``numerics/value_noise.py``
=========  ======================  =========  ============================================================

Every batch is a *phase*; its rows are planned when the previous values arrive, and kept in the state:

==========  ==================  =========================================================================
phase       rows                use
==========  ==================  =========================================================================
START       1; 4 on failure     value at x0, or at points near it if that fails
NOISE       8                   values at tiny, equal distances on a random line: eps
LOOK        12                  is f additive? See ``gate.py``
VALLEYS     40 max(2, k/100)    a grid over the ranges of a few coordinates: do they have several valleys?
SCAN        m k                 if so: m points at equal distances in every range, from a random one on
GOLDEN      5 k, four times     golden sections of the 5 lowest valleys of each coordinate
SWEEP       2 k                 x_j +- h_j
PARABOLA    k                   minimum of the parabola through these two values and f, by coordinate
JOINT       1                   the best point of every coordinate, taken together
ENDED       1                   a random point nearby; ``stop()`` has the reason
==========  ==================  =========================================================================

For a sum f(x) = sum_j f_j(x_j), what coordinates gain one by one adds up. So a few rows per coordinate, all
evaluated in parallel, change all coordinates at once, whatever their scales, their valleys and their kinks.
JOINT confirms it: if the gain is below half of the sum, the best coordinate moves alone, and if that happens
twice, the search ends as not additive. So it does after 40 sweeps if the look did not find f additive.
A joint point that fails is tried again slightly nearer to x, then with a half of the coordinates.

*Scans.* After a scan x_j moves to the lowest valley found. When all steps are small, the surroundings of x
are scanned more finely, x_j +- 10 w/m at 80 points, again and again as long as that lowers f.

*Steps.* After a sweep h_j is divided by 4 if nothing improved, and follows the move to the minimum of the
parabola, between h_j/20 and 2 h_j. The first step is 0.2 w, or 0.2 w/m after a scan.

*Noise.* Steps whose changes of f are below 100 eps are not shortened: h_j >= sqrt(100 eps/d_j). There the
minimum of a parabola is better known than its value, and it is preferred to x_j unless it is worse by 4 eps.
A coordinate that no longer improves at its shortest step rests, until eps has fallen. When all rest, the
search has converged. Of exact values, the shortest step is 1e-13 w or a few units in the last place of x.

*Ranges.* If the lowest valley of a scan is near the end of a range without a bound there, the scan continues
beyond it, up to three times. Sweeps are only limited by bounds.

*Batches.* The rows of a phase are divided into batches of at most 64 MB or ``popsize`` rows. Neither the
search nor its random numbers depend on this division. Memory is O(n) and a batch.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma.methods import gate
from lmma.methods.ask_tell import Strategy
from lmma.methods.base import Method
from lmma.methods.quasi_newton import ATTEMPTS, BATCH_BYTES, LARGEST, LINE, NEAR
from lmma.numerics.recombination import Array, Indices
from lmma.numerics.state import (
    COUNT,
    DISTANCE,
    FINITE,
    FLAG,
    NOT_NEGATIVE,
    POSITIVE,
    UNIT,
    VALUE,
    Declared,
    Range,
    collect,
    restore,
)
from lmma.numerics.value_noise import TINY, ValueNoise

if TYPE_CHECKING:
    from lmma.layers.layer import Told
    from lmma.numerics.metric import Metric, MetricOperator

Vector = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

REACH = 3.0  # half of the range of a coordinate without bounds, in units of sigma0
DISPLACEMENTS = 4  # of the look for additivity
DISPLACEMENT = (0.05, 0.1)  # of a coordinate in the look, in units of w
VALLEY_POINTS = 40  # of the grid in which valleys are counted
VALLEY_COORDINATES = 0.01  # share of the coordinates for which they are, at least 2
SEVERAL = 0.3  # share of these with several valleys, above which all coordinates are scanned
WORTH_COUNTING = 60  # evaluations per coordinate: with fewer left, valleys are not counted
MOST_LEVELS, LEAST_LEVELS = 200, 10  # of a scan
RESERVED = 35  # evaluations per coordinate that a scan leaves for sweeps
ZOOM, ZOOM_LEVELS = 10.0, 80  # distance from x and number of points of a second scan, in units of w/m
MOST_ZOOMS = 5  # such scans
SETTLED = 1e-6  # step of a sweep, in units of w/m, below which they begin
LOWEST = 5  # valleys of each coordinate that are refined
SECTIONS = 4  # golden sections of each
GOLDEN = (3 - math.sqrt(5)) / 2
EXTENSIONS = 3  # scans beyond the end of a range
NEAR_END = 0.1  # distance of the lowest valley from that end, in units of the scanned interval
SCAN_ROWS = 256  # of one batch, or one level if that is more
FIRST_STEP = 0.2  # of a sweep, in units of w, or of the distance of the levels of a scan
SPREAD = 0.1  # of its random factor, which lets runs from the same point differ
LONGEST = 3.0  # move to the minimum of a parabola, in units of h
GROWTH, SHORTEST, SHRINK = 2.0, 0.05, 0.25  # of h: most and least after a parabola, and without improvement
NEAR_FACE = 0.1  # of h: with less room both points of a sweep lie on the same side of x
ENOUGH = 0.5  # joint gain over the sum of single ones, below which f does not look additive
SHORTFALLS = 2  # such joint gains, after which the search ends
MOST_SWEEPS = 40  # of a function that does not look additive: coordinates can creep along a valley for ever
TRIES = 3  # of a joint point that fails: first nearer to x, then with half of the coordinates
NEARER = 1 - 1e-6  # factor of the first of these moves
HIDDEN = 4.0  # changes of f below eps times this are noise
RESOLVED = 100.0  # changes of f by a step, in eps, below which it is not shortened
WAKES = 2.0  # times its shortest step: a coordinate with a longer one does not rest
NARROWEST = 1e-13  # step at which a coordinate rests, in units of w
LAST_DIGITS = 4.0  # the same in units in the last place of x
STEPS = (1e-3, 0.1)  # least and largest step that another search gets, in units of w
GAINS_KEPT = 10  # gains of the last joint moves

ENDINGS = ("", "converged", "not_additive", "flat", "failures", "numerical")  # reasons of ``stop``, by number


class Phase(IntEnum):
    """Use of the next batch."""

    START = 0
    NOISE = 1
    LOOK = 2
    VALLEYS = 3
    SCAN = 4
    GOLDEN = 5
    SWEEP = 6
    PARABOLA = 7
    JOINT = 8
    ENDED = 9


def count_valleys(values: Vector, least: float) -> npt.NDArray[np.int64]:
    """Return the number of valleys of each column; rises and falls of up to ``least`` do not count.

    Missing values, NaN, are skipped.
    """
    columns = values.shape[1]
    falling, counts = np.ones(columns, dtype=bool), np.zeros(columns, dtype=np.int64)
    extreme = np.full(columns, math.inf)  # lowest value while falling, highest one while rising
    for row in values:
        known = ~np.isnan(row)
        bottom = known & falling & (row > extreme + least)
        top = known & ~falling & (row < extreme - least)
        counts += bottom
        further = known & np.where(falling, row < extreme, row > extreme)
        extreme = np.where(bottom | top | further, row, extreme)
        falling = (falling & ~bottom) | top
    return counts + falling


def minimum_of_parabola(a: Vector, b: Vector, rise: Vector, other: Vector) -> tuple[Vector, Vector]:
    """Return the minimum of the parabola through (0, 0), (a, rise) and (b, other), and its second derivative.

    Where the parabola has no minimum, the move is twice as far as the better point if that is lower than 0,
    else half as far as the worse one. Values are infinite for failures.
    """
    slopes, others = rise / a, other / b
    curvature = 2 * (slopes - others) / (a - b)
    move = -(slopes - curvature * a / 2) / curvature
    better, worse = np.where(rise < other, a, b), np.where(rise < other, b, a)
    outside = np.where(np.minimum(rise, other) < 0, 2 * better, worse / 2)
    bent = np.isfinite(move) & np.isfinite(curvature) & (curvature > 0)
    return np.where(bent, move, outside), np.where(bent, curvature, 0.0)


@final
class Plan:
    """The rows of the phase: whole points, or points that differ from x in one coordinate.

    Attributes
    ----------
    points : ndarray, (rows, n)
        Whole points; no rows if there are none.
    columns, places : ndarray, (rows,)
        The coordinate in which a row differs from x, and its number there.
    told : ndarray
        Values of the rows in previous batches, NaN for failures.
    """

    STATE: ClassVar[Declared] = {
        "points": FINITE, "columns": COUNT, "places": FINITE, "told": Range("a number or NaN", nan=True),
    }  # fmt: skip
    VARIABLE: ClassVar[tuple[str, ...]] = ("points", "columns", "places", "told")

    def __init__(self, x: Vector) -> None:
        self.set_points(x[None])

    def set_points(self, points: Vector) -> None:
        """Plan to evaluate ``points``."""
        self.points = points
        self.columns: Indices = np.empty(0, dtype=np.intp)
        self.places: Vector = np.empty(0)
        self.told: Vector = np.empty(0)

    def set_places(self, columns: Indices, places: Vector) -> None:
        """Plan to evaluate x with other ``places`` of ``columns``, one in each row."""
        self.points = np.empty((0, self.points.shape[1]))
        self.columns, self.places, self.told = columns, places, np.empty(0)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.points) or len(self.columns)

    @property
    def rows_left(self) -> int:
        """Number of rows without a value."""
        return self.rows - len(self.told)

    def fill(self, out: Array, x: Array) -> None:
        """Fill ``out`` with the next rows."""
        rows = slice(len(self.told), len(self.told) + len(out))
        if len(self.points):
            out[...] = self.points[rows]
        else:
            out[...] = x
            out[np.arange(len(out)), self.columns[rows]] = self.places[rows]

    def take(self, values: Vector) -> Vector | None:
        """Add the ``values`` of a batch; return all values if none is missing."""
        self.told = np.concatenate((self.told, values))
        return self.told if len(self.told) == self.rows else None


@final
class Scan:
    """A grid over the ranges of some coordinates, and the lowest valleys found.

    Attributes
    ----------
    levels, level : int
        Number of points per coordinate, and how many of them have values.
    columns : ndarray, (c,)
        The scanned coordinates.
    low, high, shift : ndarray, (c,)
        The interval that is scanned, and where in the first of its equal parts the first point lies.
    spacing : ndarray, (k,)
        Distance of the levels of the first scan.
    improved : bool
        Whether the last scan has lowered f.
    last_places, last_values : ndarray, (2, c)
        The last two points of each coordinate.
    places, values, left, right : ndarray, (5, k)
        The lowest valleys of each coordinate, the lowest first: their places, their values (infinite if there
        are fewer), and the neighbours that enclose them.
    extension, section, zooms : int
        Number of scans beyond the ends of ranges, of golden sections, and of scans around x.
    """

    STATE: ClassVar[Declared] = {
        "levels": COUNT, "level": COUNT, "columns": COUNT, "low": FINITE, "high": FINITE, "shift": UNIT,
        "last_places": FINITE, "last_values": VALUE, "places": FINITE, "values": VALUE, "left": FINITE,
        "right": FINITE, "extension": COUNT, "section": COUNT, "zooms": COUNT, "spacing": NOT_NEGATIVE,
        "improved": FLAG,
    }  # fmt: skip
    VARIABLE: ClassVar[tuple[str, ...]] = ("columns", "low", "high", "shift", "last_places", "last_values")

    def __init__(self, k: int) -> None:
        self.levels, self.extension, self.section, self.zooms = 0, 0, 0, 0
        self.improved = False
        self.spacing: Vector = np.zeros(k)
        self.places: Vector = np.zeros((LOWEST, k))
        self.values: Vector = np.full((LOWEST, k), math.inf)
        self.left: Vector = np.zeros((LOWEST, k))
        self.right: Vector = np.zeros((LOWEST, k))
        self.begin(np.empty(0, dtype=np.intp), np.empty(0), np.empty(0), np.empty(0))

    def restart(self, levels: int) -> None:
        """Forget all valleys before a scan with this number of ``levels``."""
        self.levels, self.extension, self.section = levels, 0, 0
        self.values[...] = math.inf

    def begin(self, columns: Indices, low: Vector, high: Vector, shift: Vector) -> None:
        """Begin to scan ``columns`` between ``low`` and ``high``, from ``shift`` on."""
        self.columns, self.low, self.high, self.shift, self.level = columns, low, high, shift, 0
        self.last_places: Vector = np.stack((low, low))
        self.last_values: Vector = np.full((2, len(columns)), math.inf)

    def next_places(self) -> Vector:
        """Return the places of the next levels, (levels, c): as many as make up a batch."""
        count = min(max(1, -(-SCAN_ROWS // len(self.columns))), self.levels - self.level)
        parts = self.level + np.arange(count)[:, None] + self.shift
        return np.clip(self.low + (self.high - self.low) * (parts / self.levels), self.low, self.high)

    def take(self, places: Vector, values: Vector) -> bool:
        """Learn the values of some levels, infinite for failures; return True if they are the last."""
        self.level += len(places)
        finished = self.level == self.levels
        places, values = np.vstack((self.last_places, places)), np.vstack((self.last_values, values))
        self.last_places, self.last_values = places[-2:], values[-2:]
        if finished:
            places = np.vstack((places, self.high))
            values = np.vstack((values, np.full(len(self.high), math.inf)))
        middle = values[1:-1]
        valley = (middle <= values[:-2]) & (middle <= values[2:]) & np.isfinite(middle)
        at = self.columns
        found = np.vstack((self.values[:, at], np.where(valley, middle, math.inf)))
        order = np.argsort(found, axis=0, kind="stable")[:LOWEST]
        for mine, new in (
            (self.values, np.where(valley, middle, math.inf)), (self.places, places[1:-1]),
            (self.left, places[:-2]), (self.right, places[2:]),
        ):  # fmt: skip
            mine[:, at] = np.take_along_axis(np.vstack((mine[:, at], new)), order, axis=0)
        return finished

    def sections(self) -> tuple[Flags, Vector]:
        """Return flags of the valleys, (5, k), and the point that divides the longer side of each."""
        longer = self.right - self.places > self.places - self.left
        ends = np.where(longer, self.right, self.left)
        return np.isfinite(self.values), self.places + GOLDEN * (ends - self.places)

    def divide(self, places: Vector, values: Vector) -> None:
        """Learn the ``values`` at the points of :meth:`sections`, infinite for failures."""
        right, lower = places > self.places, values < self.values
        self.left = np.where(right & lower, self.places, np.where(~right & ~lower, places, self.left))
        self.right = np.where(~right & lower, self.places, np.where(right & ~lower, places, self.right))
        self.places, self.values = np.where(lower, places, self.places), np.where(lower, values, self.values)
        self.section += 1

    def lowest(self) -> tuple[Vector, Vector]:
        """Return the lowest place of each coordinate, and its value, infinite if there is none."""
        best = self.values.argmin(axis=0)[None]
        return (
            np.take_along_axis(self.places, best, axis=0)[0],
            np.take_along_axis(self.values, best, axis=0)[0],
        )


@final
class Sweep:
    """Steps of all coordinates, the points of a sweep, and the point that is tried jointly.

    Attributes
    ----------
    h, curvatures : ndarray, (k,)
        Steps, and change of f by them divided by h^2; infinite before the first sweep.
    rests : ndarray, (k,)
        Whether the last sweep has not improved the coordinate.
    active : ndarray, (k,)
        Whether it takes part in this sweep.
    places, values : ndarray, (3, k)
        The two points of a sweep and the minimum of the parabola, and their values, infinite if unknown.
    targets, reached : ndarray, (k,)
        Place of each coordinate in the joint point, and the value if it moves there alone.
    tries, shortfalls, count : int
        Number of joint points that failed in a row, of joint gains that were too small, and of sweeps.
    predicted : float
        Sum of the decreases that the parabolas predict.
    history : list of float
        Decreases of f by the last moves.
    """

    STATE: ClassVar[Declared] = {
        "h": NOT_NEGATIVE, "curvatures": DISTANCE, "rests": FLAG, "active": FLAG, "places": FINITE,
        "values": VALUE, "targets": FINITE, "reached": VALUE, "tries": COUNT, "shortfalls": COUNT,
        "count": COUNT, "predicted": DISTANCE, "history": NOT_NEGATIVE,
    }  # fmt: skip

    def __init__(self, k: int) -> None:
        self.h: Vector = np.zeros(k)
        self.curvatures: Vector = np.full(k, math.inf)
        self.rests = np.zeros(k, dtype=bool)
        self.active = np.ones(k, dtype=bool)
        self.places: Vector = np.zeros((3, k))
        self.values: Vector = np.full((3, k), math.inf)
        self.targets: Vector = np.zeros(k)
        self.reached: Vector = np.full(k, math.inf)
        self.tries, self.shortfalls, self.count = 0, 0, 0
        self.predicted = math.inf
        self.history: list[float] = []

    def restart(self, columns: Flags, h: Vector) -> None:
        """Begin to move ``columns`` with the steps ``h``."""
        self.h = np.where(columns, h, self.h)
        self.curvatures[columns] = math.inf
        self.rests[columns] = False

    def begin(self, x: Vector, low: Vector, high: Vector, error: float, shortest: Vector) -> Flags:
        """Choose the coordinates and the points of a sweep; return the coordinates."""
        floor = np.maximum(shortest, np.sqrt(RESOLVED * error / self.curvatures))
        self.active = ~(self.rests & (self.h <= WAKES * floor))
        raised = np.maximum(self.h, np.minimum(floor, GROWTH * self.h))
        self.h = np.where(self.active, raised, self.h)
        h, above, below = self.h, high - x, x - low
        near = np.minimum(above, below) < NEAR_FACE * h
        side = np.where(above > below, 1.0, -1.0)
        one = np.minimum(h, np.maximum(above, below) / 2)
        self.places[0] = np.clip(x + np.where(near, side * one, np.minimum(h, above)), low, high)
        self.places[1] = np.clip(x + np.where(near, 2 * side * one, -np.minimum(h, below)), low, high)
        self.values[...] = math.inf
        self.count += 1
        return self.active

    def parabola(self, x: Vector, f: float, low: Vector, high: Vector) -> tuple[Vector, Vector]:
        """Return the third point of each coordinate and the second derivatives; 0 without a parabola."""
        a, b = self.places[:2] - x
        move, curvature = minimum_of_parabola(a, b, self.values[0] - f, self.values[1] - f)
        limit = LONGEST * self.h
        return np.clip(x + np.clip(np.nan_to_num(move), -limit, limit), low, high), curvature

    def choose(self, x: Vector, f: float, curvature: Vector, error: float, least: Vector) -> None:
        """Choose the best point of every active coordinate, and its next step, at least ``least``."""
        hidden = HIDDEN * error
        changes = self.values - f
        spans = np.abs(self.places[:2] - x)
        bent = (curvature * spans[0] * spans[1] > hidden) & (self.places[2] != x)
        scores = np.vstack((np.full(len(x), -hidden), changes))
        scores[3] -= np.where(bent, 2 * hidden, 0.0)
        scores[:, ~self.active] = 0.0
        best = scores.argmin(axis=0)
        at = np.arange(len(x))
        self.targets = np.vstack((x, self.places))[best, at]
        self.reached = np.vstack((np.full(len(x), f), self.values))[best, at]
        gains = f - self.reached
        known = np.isfinite(changes[:2])
        sizes = np.where(known, np.abs(changes[:2]), 0.0).sum(axis=0)
        sizes = np.where(known.any(axis=0), np.maximum(sizes, RESOLVED * error), math.inf)
        self.curvatures = np.where(self.active, sizes / np.maximum(self.h**2, TINY), self.curvatures)
        self.rests = np.where(self.active, gains <= hidden, self.rests)
        follow = np.clip(np.abs(self.targets - x), SHORTEST * self.h, GROWTH * self.h)
        h = np.where(best == 0, SHRINK * self.h, np.where(best == 3, follow, self.h))
        h = np.maximum(h, np.minimum(np.maximum(least, np.sqrt(RESOLVED * error / self.curvatures)), self.h))
        self.h = np.where(self.active, h, self.h)

    def moved(self, gain: float) -> None:
        """Remember a decrease of f."""
        self.history = [*self.history, min(max(gain, 0.0), LARGEST)][-GAINS_KEPT:]


@final
class Steps:
    """Steps from which another search can start, in units of sigma.

    Attributes
    ----------
    relative : ndarray, (n,)
        Those of each coordinate; sigma0 where it is fixed.
    """

    STATE: ClassVar[Declared] = {"relative": POSITIVE}

    def __init__(self, relative: Vector) -> None:
        self.relative = relative


@final
class CoordinatesMethod(Method):
    """The phases of the search."""

    name = "coordinates"
    uses_values = True
    supports = frozenset(("bounds",))
    keeps_bounds = True
    STATE: ClassVar[Declared] = {
        "phase": Range("the number of a phase", least=0, most=len(Phase) - 1, integer=True),
        "f": VALUE, "low": FINITE, "high": FINITE, "attempts": COUNT, "continued": COUNT,
        "used": COUNT,
        "known": FLAG, "additive": FLAG, "coupled": FLAG, "interaction": DISTANCE,
        "ending": Range("the number of an ending", least=0, most=len(ENDINGS) - 1, integer=True),
        "ending_value": DISTANCE,
    }  # fmt: skip

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return the memory of a batch, its copies, and the state."""
        rows = min(max(2 * n, VALLEY_POINTS * 2, SCAN_ROWS), _rows_at_once(n, popsize))
        return 2 * rows * n * itemsize + 8 * 80 * n

    def initialise(self) -> None:
        """Start again at the mean."""
        n = self.n
        self.movable: Indices = np.arange(n)  # coordinates that are not fixed by their bounds
        self.lower, self.upper = np.full(n, -math.inf), np.full(n, math.inf)
        if self.settings.bounds is not None:
            self.lower, self.upper = (bound.astype(np.float64) for bound in self.settings.bounds)
            self.movable = np.flatnonzero(self.lower < self.upper)
            self.lower, self.upper = self.lower[self.movable], self.upper[self.movable]
        k = len(self.movable)
        self.phase = Phase.START
        self.f = math.inf
        self.low, self.high = np.zeros(k), np.ones(k)
        self.attempts = 0  # batches of points near an x0 that failed
        self.continued = 0  # batches after which their phase continued
        self.used, self.allowed = 0, math.inf  # evaluations so far, and all that the run allows
        self.known, self.additive, self.coupled, self.interaction = False, False, False, math.inf
        self.ending, self.ending_value = 0, 0.0
        self.plan = Plan(self.mean.astype(np.float64))
        self.scan, self.sweep, self.errors = Scan(k), Sweep(k), ValueNoise()
        self.learned = Steps(self._steps0 / self.sigma)

    def learned_parts(self) -> dict[str, object]:
        """Return the steps, without the batch that is planned."""
        return {"learned": self.learned}

    def parts(self) -> dict[str, object]:
        """Return the stateful components, by name."""
        return {
            "plan": self.plan, "scan": self.scan, "sweep": self.sweep, "errors": self.errors,
            "learned": self.learned,
        }  # fmt: skip

    # Candidates

    @property
    def batch_size(self) -> int:
        """Number of rows of the next batch."""
        return min(self.plan.rows_left, _rows_at_once(self.n, self.popsize))

    @property
    def continues(self) -> bool:
        """True if the next batch does not complete its phase."""
        return self.batch_size < self.plan.rows_left

    @property
    def rows_left(self) -> int:
        """Number of rows until the next joint point, without which the batches before are of little use."""
        k, left = len(self.movable), self.plan.rows_left
        match self.phase:
            case Phase.SCAN:
                levels = self.scan.levels - self.scan.level
                planned = self.plan.rows // len(self.scan.columns)
                return left + (levels - planned) * len(self.scan.columns) + LOWEST * SECTIONS * k + 1
            case Phase.GOLDEN:
                return left + (SECTIONS - 1 - self.scan.section) * self.plan.rows + 1
            case Phase.SWEEP:
                return left + self.plan.rows // 2 + 1
            case Phase.PARABOLA:
                return left + 1
        return left

    def generator(self, stream: int = 0) -> np.random.Generator:
        """Return a random generator for this phase, whatever the number of its batches."""
        counter = np.array([0, self.generation - self.continued, 1 + stream, 0], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=np.array(self.key, dtype=np.uint64), counter=counter))

    def sample(self, out: Array) -> None:
        """Fill ``out`` with the next rows of the phase."""
        if self.phase == Phase.ENDED:
            steps = np.zeros(self.n)
            steps[self.movable] = self._rms_step() * self.generator().standard_normal(len(self.movable))
            out[...] = self._points(steps[None])
        else:
            self.plan.fill(out, self.mean)

    def _points(self, offsets: Vector) -> Vector:
        """Return the points at ``offsets`` from x, inside the box, as they are evaluated."""
        points: Vector = self.mean + offsets
        points[:, self.movable] = np.clip(points[:, self.movable], self.lower, self.upper)
        return self._rounded(points)

    def _rounded(self, places: Vector) -> Vector:
        """Return ``places`` as they are evaluated: finite, in the precision of candidates."""
        largest = float(np.finfo(self.dtype).max)
        return np.clip(places, -largest, largest).astype(self.dtype).astype(np.float64)

    def _plan_places(self, phase: Phase, columns: Indices, places: Vector) -> None:
        """Plan to move the coordinates ``columns`` to ``places``, one in each row."""
        self.phase = phase
        self.plan.set_places(self.movable[columns], places)

    @property
    def _steps0(self) -> Vector:
        """Initial step size of each coordinate."""
        scale = np.ones(self.n) if self.scale is None else self.scale.astype(np.float64)
        return self.sigma0 * scale

    @property
    def _x(self) -> Vector:
        """The movable coordinates of x."""
        return np.asarray(self.mean[self.movable], dtype=np.float64)

    @property
    def _error(self) -> float:
        """Error of a value at x."""
        return self.errors.error(self.f)

    # Learning

    def update(self, told: Told) -> None:
        """Learn the values of a batch, of which at least one is known."""
        self._learn(np.where(np.isfinite(told.raw), told.raw, math.nan))

    def failed(self, rows: int) -> None:
        """Learn that all ``rows`` of a batch failed."""
        self._learn(np.full(rows, math.nan))

    def _learn(self, batch: Vector) -> None:
        self.used += len(batch)
        values = self.plan.take(batch)
        if values is None:
            self.continued += 1
            return
        self.errors.remember(values)
        with np.errstate(all="ignore"):
            self._learn_phase(values)
        self.learned.relative[...] = self.root() / self.sigma

    def _learn_phase(self, values: Vector) -> None:
        raised = np.where(np.isnan(values), math.inf, values)
        match self.phase:
            case Phase.START:
                self._learn_start(values)
            case Phase.NOISE:
                self.errors.measure(values, self.f, rounded=self.dtype != np.float64)
                if self.sweep.h.any():
                    self._begin_sweep()
                elif self.known:
                    self._begin_search(self.additive, self.interaction)
                else:
                    self._look()
            case Phase.LOOK:
                count = len(values) // 3
                found = gate.judge_additivity(values[:count], values[count:], self.f, self.errors)
                self.coupled = found.decided and not found.additive
                self._begin_search(found.additive, found.interaction)
            case Phase.VALLEYS:
                least = 2 * HIDDEN * self._error
                several = count_valleys(values.reshape(VALLEY_POINTS, -1), least) > 1
                if float(np.mean(several)) > SEVERAL:
                    self._begin_scan()
                else:
                    self._begin_sweeps(FIRST_STEP)
            case Phase.SCAN:
                columns = len(self.scan.columns)
                finished = self.scan.take(self.plan.places.reshape(-1, columns), raised.reshape(-1, columns))
                self._end_scan() if finished else self._plan_levels()
            case Phase.GOLDEN:
                self._learn_sections(raised)
            case Phase.SWEEP:
                self.sweep.values[:2, self.sweep.active] = raised.reshape(2, -1)
                self._plan_parabolas()
            case Phase.PARABOLA:
                moved = self._with_parabola()
                self.sweep.values[2, moved] = raised
                self._choose()
            case Phase.JOINT:
                self._learn_joint(values.item(0))
            case Phase.ENDED:
                self.plan.told = np.empty(0)

    # Beginning

    def begin_at(self, f: float, errors: ValueNoise | None = None, *, additive: bool | None = None) -> None:
        """Begin at the mean, where fun is ``f``.

        If the ``errors`` of values are known, they are not measured again; if it is known whether fun is
        ``additive``, that is not looked at.
        """
        self.f = f
        self.low, self.high = self._range()
        if additive is not None:
            self.known, self.additive = True, additive
        if errors is None:
            self.errors.remember(np.array([f]))
            self._measure_noise()
            return
        restore({"": self.errors}, collect({"": errors}))
        if additive is None:
            self._look()
        else:
            self._begin_search(additive, self.interaction)

    def _range(self) -> tuple[Vector, Vector]:
        """Return the ends of the ranges of movable coordinates."""
        x, reach = self._x, REACH * self._steps0[self.movable]
        boxed = np.isfinite(self.lower) & np.isfinite(self.upper)
        low = np.where(boxed, self.lower, np.maximum(x - reach, self.lower))
        return low, np.where(boxed, self.upper, np.minimum(x + reach, self.upper))

    def _learn_start(self, values: Vector) -> None:
        if np.isnan(values).all():
            self.attempts += 1
            if self.attempts > ATTEMPTS:
                self._end("failures", self.attempts)
                return
            offsets = np.zeros((len(NEAR), self.n))
            normal = self.generator(1).standard_normal((len(NEAR), len(self.movable)))
            offsets[:, self.movable] = np.array(NEAR)[:, None] * self._steps0[self.movable] * normal
            self.plan.set_points(self._points(offsets))
            return
        best = int(np.nanargmin(values))
        self.mean[...] = self.plan.points[best]
        self.begin_at(values.item(best))

    def _measure_noise(self) -> None:
        """Plan values on a line so short that only their errors differ from a parabola."""
        self.phase = Phase.NOISE
        w, x = self.high - self.low, self._x
        far = float(np.abs(x / w).max())
        length = max(1e-8, 1e-9 * far)
        if self.sweep.h.any():
            length = max(1e-7 * float((self.sweep.h / w).max()), 1e-13 * far)
        if self.dtype != np.float64:
            length = max(length, 100 * float(np.finfo(self.dtype).eps) * far)
        step: Vector = length * w * self.generator(2).standard_normal(len(w))
        needed = float(LINE.max()) * np.abs(step)
        step[(needed > x - self.lower) | (needed > self.upper - x)] = 0.0
        offsets = np.zeros((len(LINE), self.n))
        offsets[:, self.movable] = LINE[:, None] * step
        self.plan.set_points(self._points(offsets))

    def _look(self) -> None:
        """Plan the look for additivity."""
        k = len(self.movable)
        if k == 1:
            self._begin_search(True, 0.0)
            return
        self.phase = Phase.LOOK
        generator, w = self.generator(3), self.high - self.low
        sizes = w * generator.uniform(*DISPLACEMENT, (DISPLACEMENTS, k))
        signs = np.where(generator.random(sizes.shape) < 0.5, -1.0, 1.0)
        ends = self._x + signs * sizes
        signs = np.where((ends < self.lower) | (ends > self.upper), -signs, signs)
        offsets = np.zeros((DISPLACEMENTS, self.n))
        offsets[:, self.movable] = signs * sizes
        points = self._points(offsets)
        parts = gate.halves(generator, self.mean.astype(np.float64), points)
        self.plan.set_points(np.concatenate((points, parts)))

    def _begin_search(self, additive: bool, interaction: float) -> None:
        """Count valleys if fun is additive, else begin to sweep."""
        self.known, self.additive, self.interaction = True, additive, interaction
        k = len(self.movable)
        if not additive or self.allowed - self.used < WORTH_COUNTING * k:
            self._begin_sweeps(FIRST_STEP)
            return
        few = self.generator(4).permutation(k)[: max(2, int(VALLEY_COORDINATES * k))]
        parts = (np.arange(VALLEY_POINTS)[:, None] + 0.5) / VALLEY_POINTS
        places = self.low[few] + (self.high - self.low)[few] * parts
        self._plan_places(Phase.VALLEYS, np.tile(few, VALLEY_POINTS), self._rounded(places.ravel()))

    # Scan

    def _begin_scan(self) -> None:
        k = len(self.movable)
        levels = int(min(MOST_LEVELS, (self.allowed - self.used) / k - LOWEST * SECTIONS - RESERVED))
        if levels < LEAST_LEVELS:
            self._begin_sweeps(FIRST_STEP)
            return
        self._set_steps(FIRST_STEP / levels)
        self.scan.spacing[...] = (self.high - self.low) / levels
        self.scan.restart(levels)
        self._scan_between(np.arange(k), self.low, self.high)

    def _zoom(self) -> bool:
        """Scan the surroundings of x; return False if that is of no use or takes too long.

        It is of use if the last scan has lowered f.
        """
        scan, x, k = self.scan, self._x, len(self.movable)
        needed = (ZOOM_LEVELS + LOWEST * SECTIONS) * k + 1
        if not scan.improved or scan.zooms == MOST_ZOOMS or needed > self.allowed - self.used:
            return False
        scan.zooms += 1
        scan.restart(ZOOM_LEVELS)
        distance = ZOOM * scan.spacing
        low, high = np.maximum(x - distance, self.lower), np.minimum(x + distance, self.upper)
        self._scan_between(np.arange(k), low, high)
        return True

    def _scan_between(self, columns: Indices, low: Vector, high: Vector) -> None:
        """Begin to scan ``columns`` between ``low`` and ``high``."""
        self.scan.begin(columns, low, high, self.generator(5).random(len(columns)))
        self._plan_levels()

    def _plan_levels(self) -> None:
        """Plan the next levels of the scan."""
        places = self._rounded(self.scan.next_places())
        self._plan_places(Phase.SCAN, np.tile(self.scan.columns, len(places)), places.ravel())

    def _end_scan(self) -> None:
        """Scan beyond the ranges at whose end the lowest valley lies; else divide valleys."""
        scan = self.scan
        w = scan.high - scan.low
        columns = scan.columns
        lowest = np.isfinite(scan.values[0, columns])
        near = NEAR_END * w
        down = lowest & (scan.places[0, columns] < scan.low + near) & (scan.low > self.lower[columns])
        up = lowest & (scan.places[0, columns] > scan.high - near) & (scan.high < self.upper[columns])
        down &= scan.low == self.low[columns]
        up &= scan.high == self.high[columns]
        beyond = down | up
        if scan.extension == EXTENSIONS or not beyond.any():
            self._plan_sections()
            return
        scan.extension += 1
        at = columns[beyond]
        low = np.where(down, np.maximum(scan.low - w, self.lower[columns]), scan.high)[beyond]
        high = np.where(down, scan.low, np.minimum(scan.high + w, self.upper[columns]))[beyond]
        self.low[at], self.high[at] = np.minimum(self.low[at], low), np.maximum(self.high[at], high)
        self._scan_between(at, low, high)

    def _plan_sections(self) -> None:
        """Plan a golden section of each valley."""
        valleys, places = self.scan.sections()
        if not valleys.any():
            self._begin_sweeps(FIRST_STEP)
            return
        self._plan_places(Phase.GOLDEN, np.nonzero(valleys)[1], self._rounded(places[valleys]))

    def _learn_sections(self, values: Vector) -> None:
        scan, sweep = self.scan, self.sweep
        valleys, places = scan.sections()
        places[valleys] = self.plan.places
        all_values = np.full(valleys.shape, math.inf)
        all_values[valleys] = values
        scan.divide(places, all_values)
        if scan.section < SECTIONS:
            self._plan_sections()
            return
        places, values = scan.lowest()
        lower = values < self.f - HIDDEN * self._error
        sweep.targets = np.where(lower, places, self._x)
        sweep.reached = np.where(lower, values, self.f)
        scan.improved = bool(lower.any())
        if scan.zooms:
            sweep.restart(lower, 2 * ZOOM / ZOOM_LEVELS * FIRST_STEP * scan.spacing)
        self._plan_joint()

    # Sweeps

    def _set_steps(self, share: float) -> None:
        """Set the steps to a ``share`` of the ranges, times a random factor."""
        factor = 1 + SPREAD * (2 * self.generator(7).random() - 1)
        self.sweep.restart(np.ones(len(self.low), dtype=bool), factor * share * (self.high - self.low))

    def _begin_sweeps(self, share: float) -> None:
        self._set_steps(share)
        self._begin_sweep()

    def _begin_sweep(self) -> None:
        """Plan two points for each coordinate that may still improve; end if there is none."""
        sweep, x = self.sweep, self._x
        if not (np.isfinite(sweep.h).all() and math.isfinite(self.f)):
            self._end("numerical", self.sigma)
            return
        active = np.flatnonzero(sweep.begin(x, self.lower, self.upper, self._error, self._shortest()))
        if bool((sweep.h <= SETTLED * self.scan.spacing)[active].all()) and self._zoom():
            return
        if not len(active):
            self._end_at_rest()
            return
        sweep.places[:2] = self._rounded(sweep.places[:2])
        self._plan_places(Phase.SWEEP, np.tile(active, 2), sweep.places[:2, active].ravel())

    def _shortest(self) -> Vector:
        """Return the steps at which coordinates rest, whatever the errors of values."""
        digits = np.spacing(np.abs(self.mean[self.movable])).astype(np.float64)
        shortest: Vector = np.maximum(NARROWEST * (self.high - self.low), LAST_DIGITS * digits)
        return shortest

    def _parabolas(self) -> tuple[Vector, Vector]:
        """Return the minimum of the parabola of each coordinate, and the second derivatives."""
        return self.sweep.parabola(self._x, self.f, self.lower, self.upper)

    def _with_parabola(self) -> Indices:
        """Return the coordinates whose parabolas lead to other points."""
        sweep = self.sweep
        new = (sweep.places[2] != sweep.places[:2]).all(axis=0) & (sweep.places[2] != self._x)
        return np.flatnonzero(sweep.active & new)

    def _plan_parabolas(self) -> None:
        """Plan the minima of the parabolas, as far as they are other points."""
        sweep = self.sweep
        places, curvature = self._parabolas()
        sweep.places[2] = np.where(sweep.active, self._rounded(places), self._x)
        decrease = 0.5 * curvature * (places - self._x) ** 2
        total = float(np.sum(np.where(sweep.active, decrease, 0.0)))
        sweep.predicted = total if total == total else math.inf
        columns = self._with_parabola()
        if len(columns):
            self._plan_places(Phase.PARABOLA, columns, sweep.places[2, columns])
        else:
            self._choose()

    def _choose(self) -> None:
        """Choose the best point of each coordinate, and plan the joint one."""
        curvature = self._parabolas()[1]
        self.sweep.choose(self._x, self.f, curvature, self._error, self._shortest())
        self._plan_joint()

    # Joint moves

    def _plan_joint(self) -> None:
        """Plan the joint point; if one coordinate moves alone, its value is known."""
        sweep = self.sweep
        moving = np.flatnonzero(sweep.targets != self._x)
        if len(moving) == 1:
            self._move_one(int(moving[0]))
        if len(moving) <= 1:
            self._continue()
            return
        self.phase = Phase.JOINT
        x, point = self._x, self.mean.astype(np.float64)
        nearer = x + NEARER * (sweep.targets - x) if sweep.tries == 1 else sweep.targets
        point[self.movable] = self._rounded(nearer)
        self.plan.set_points(point[None])

    def _move_one(self, column: int) -> None:
        """Move one coordinate to its best point if that is lower."""
        f = float(self.sweep.reached[column])
        if f < self.f:
            point = self.mean.astype(np.float64)
            point[self.movable[column]] = self.sweep.targets[column]
            self._move(point, f)

    def _move(self, point: Vector, f: float) -> None:
        """Move to ``point``, where fun is ``f``."""
        sweep = self.sweep
        self.mean[...] = point
        sweep.moved(self.f - f)
        self.f = f
        relative = sweep.h / self._steps0[self.movable]
        rms = float(np.linalg.norm(relative)) / math.sqrt(len(relative))
        self.sigma = max(self.sigma0 * rms, float(np.finfo(self.dtype).tiny))

    def _learn_joint(self, value: float) -> None:
        """Accept the joint point, or move only the best coordinate."""
        sweep = self.sweep
        moving = np.flatnonzero(sweep.targets != self._x)
        if math.isnan(value) and sweep.tries < TRIES:
            sweep.tries += 1
            if sweep.tries > 1:
                fewer = self.generator(6).permutation(moving)[: len(moving) // 2]
                sweep.targets[fewer], sweep.reached[fewer] = self._x[fewer], self.f
            self._plan_joint()
            return
        sweep.tries = 0
        hidden = HIDDEN * self._error
        gain, expected = self.f - value, self._sum_of_gains()
        if gain > 0 and gain >= ENOUGH * expected - len(moving) * hidden:
            self._move(self.plan.points[0], value)
        else:
            sweep.shortfalls += expected > len(moving) * hidden and not math.isnan(value)
            self._move_one(int(sweep.reached.argmin()))
        self._continue()

    def _sum_of_gains(self) -> float:
        """Return the sum of what coordinates gain alone."""
        return float(np.sum(self.f - self.sweep.reached))

    def _continue(self) -> None:
        """Begin the next sweep, or end if joint gains fall short."""
        sweep = self.sweep
        sweep.tries = 0
        creeps = not self.additive and sweep.count > MOST_SWEEPS
        if creeps or sweep.shortfalls == SHORTFALLS:
            self._end("not_additive", max(self._sum_of_gains(), 0.0))
        elif self.errors.is_outdated(self.f):
            self._measure_noise()
        else:
            self._begin_sweep()

    def typical_gain(self) -> float:
        """Return the median decrease of f by the last moves; the predicted one before the first."""
        history = self.sweep.history
        return float(np.median(history)) if history else min(self.sweep.predicted, LARGEST)

    # For other searches

    def root(self) -> Vector:
        """Return a step for each coordinate, (n,), from which another search can start; sigma0 if fixed."""
        found, w = self._steps0, self.high - self.low
        least, most = STEPS
        if self.sweep.h.any():
            found[self.movable] = np.clip(self.sweep.h, least * w, most * w)
        return found

    def hess_inv(self) -> MetricOperator:
        """Return the squares of :meth:`root`, divided by that of sigma."""
        from lmma.numerics.metric import LowRank, MetricOperator

        steps = self.learned.relative.copy()
        return MetricOperator(LowRank(steps, *self._no_axes(), 1.0), None, self.n, self.dtype)

    def metric(self) -> Metric:
        """Return the mean and :meth:`root` as a record."""
        from lmma.numerics.metric import Metric

        return Metric(self.mean.copy(), self.sigma, self.root() / self.sigma, *self._no_axes())

    def _no_axes(self) -> tuple[Vector, Vector]:
        return np.zeros((0, self.n)), np.zeros(0)

    # End

    def restored(self) -> None:
        """Raise ValueError if parts of the restored state contradict one another."""
        plan, scan, c = self.plan, self.scan, len(self.scan.columns)
        k, rows = len(self.movable), len(plan.columns)
        consistent = {
            "plan.points": plan.points.shape == (0 if rows else plan.rows, self.n) and plan.rows > 0,
            "plan.columns": bool(np.isin(plan.columns, self.movable).all()),
            "plan.places": len(plan.places) == rows,
            "plan.told": len(plan.told) < plan.rows,
            "scan.columns": bool((scan.columns < k).all()),
            "scan.low": len(scan.low) == len(scan.high) == len(scan.shift) == c,
            "scan.last_places": scan.last_places.shape == scan.last_values.shape == (2, c),
            "phase": self._rows_of_phase() == plan.rows,
            "ending": (self.phase == Phase.ENDED) == (self.ending > 0),
        }
        for name, holds in consistent.items():
            if not holds:
                raise ValueError(f"state[{name!r}] contradicts the rest of the state")

    def _rows_of_phase(self) -> int:
        """Return the number of rows of the phase that the rest of the state implies; -1 if it is invalid."""
        match self.phase:
            case Phase.START:
                return len(NEAR) if self.attempts else 1
            case Phase.NOISE:
                return len(LINE)
            case Phase.LOOK:
                return 3 * DISPLACEMENTS
            case Phase.VALLEYS:
                k = len(self.movable)
                return VALLEY_POINTS * min(k, max(2, int(VALLEY_COORDINATES * k)))
            case Phase.SCAN:
                c, left = len(self.scan.columns), self.scan.levels - self.scan.level
                return c * min(left, max(1, -(-SCAN_ROWS // max(c, 1)))) or -1
            case Phase.GOLDEN:
                valleys = int(np.count_nonzero(np.isfinite(self.scan.values)))
                return valleys if self.scan.section < SECTIONS else -1
            case Phase.SWEEP:
                return 2 * int(np.count_nonzero(self.sweep.active))
            case Phase.PARABOLA:
                return len(self._with_parabola())
        return 1

    def _end_at_rest(self) -> None:
        """End where no coordinate improves alone, which is convergence unless they depend on one another."""
        if self.coupled:
            self._end("not_additive", 0.0)
        elif not self.sweep.history and bool(np.all(self.errors.recent == self.f)):
            self._end("flat", self.generation)
        else:
            self._end("converged", self.sweep.predicted)

    def _end(self, reason: str, value: float) -> None:
        self.phase = Phase.ENDED
        self.plan.set_points(self.mean[None].astype(np.float64))
        self.ending, self.ending_value = ENDINGS.index(reason), float(value)

    def stop(self) -> dict[str, float]:
        """Return the reason why the search has ended, if it has."""
        return {ENDINGS[self.ending]: self.ending_value} if self.ending else {}

    def _rms_step(self) -> float:
        """Return the root mean square of the steps; before the first sweep, of the initial ones."""
        h = self.sweep.h if self.sweep.h.any() else self._steps0
        return float(np.linalg.norm(h)) / math.sqrt(len(h))

    def spread(self, candidates: Array) -> float:
        """Return the root mean square of the steps."""
        return self._rms_step()


def _rows_at_once(n: int, popsize: int) -> int:
    """Return the largest number of rows of one batch."""
    return max(popsize, BATCH_BYTES // (8 * n))


class Coordinates(Strategy):
    """Search of sums of functions of one variable, all coordinates at once, O(n) per sample.

    Functions such as f(x) = f_1(x_1) + ... + f_n(x_n) are searched along each coordinate at once: valleys are
    scanned over the whole range, then refined by golden sections and parabolas. Many valleys, kinks, jumps
    and scales that differ by any factor do not matter. A dozen evaluations show whether fun is such a sum;
    if it is not, the search soon ends with the reason ``not_additive``. It uses the values themselves: unlike
    an evolution strategy it is not invariant under increasing transformations of fun.

    A search needs about 50 evaluations per variable if each coordinate has one valley, and 350 otherwise, or
    fewer if ``maxfevals`` says so. Batches have up to 2n rows, or 256, and at most 64 MB.

    The range of a coordinate is that of its bounds, or x0 +- 3 sigma0 where a bound is missing. Bounds are
    kept by the method itself, and ``boundary`` has no effect. Integers, choices, constraints, ``noise=``,
    injected points and resampling are not supported. ``popsize`` only affects the number of batches that
    stopping rules and restarts consider.

    Parameters
    ----------
    x0 : array_like, (n,)
        Starting point.
    sigma0 : float or array_like, (n,)
        Initial step size, a sixth of the range of a coordinate without bounds.
    **options
        Other arguments of :class:`lmma.Strategy`.

    Examples
    --------
    >>> es = lmma.Coordinates(np.full(8, 3.0), 2.0, rng=1)
    >>> while not es.stop():
    ...     X = es.ask()
    ...     es.tell(np.sum(X**2 + 10 * (1 - np.cos(2 * np.pi * X)), axis=1))
    >>> es.best_fun < 1e-9, es.evaluations < 3000
    (True, True)

    References
    ----------
    Tseng and Chen, *Multiple trajectory search for large scale global optimization*, IEEE Congress on
    Evolutionary Computation (2008), for searches of all coordinates. Kiefer, *Sequential minimax search for a
    maximum*, Proceedings of the American Mathematical Society 4 (1953), for golden sections. The test of
    additivity, joint moves and the rule for noise are new in lmma.
    """

    METHOD = CoordinatesMethod
    method: CoordinatesMethod

    def limit(self, evaluations: float) -> None:
        """Take into account that at most ``evaluations`` more are allowed: scans become coarser."""
        self.method.allowed = self.method.used + evaluations
