"""Quasi-Newton search with finite differences along the columns of a learned metric. New in lmma.

=========  =====================  =========  ==============================================================
symbol     code                   shape      meaning
=========  =====================  =========  ==============================================================
x          ``mean``               (n,)       best accepted point; candidates are x + S L u
S          ``_steps0``            (n,)       sigma0, by coordinate; all lengths are in units of it
f          ``f``                  float      value at x
L          ``model.L``            (n, k)     L L^T approximates the inverse Hessian; k = n coordinates move,
           ``model.scales``       (k,)       without those that bounds fix. Beyond 1000 variables: a diagonal
g          ``g``                  (k,)       slopes at x along the columns of L
d          -                      (k,)       second derivatives along the columns of L
s^, y^     ``model.s, .y``        (k,)       last step and change of slopes, in the coordinates u
p, t       ``line.p, .t``         (k,)       direction of the line search in u, and the step length
D          ``decrease``           float      decrease of f that the metric's quadratic predicts, g.g/2
tau        ``stencil.a, .b``      (k,)       lengths of the steps of a stencil, in u, with their signs
rho        ``line.rho``           float      decrease of the Newton step over the predicted one
eps        ``errors.error(f)``    float      error of a value, see ``numerics/value_noise.py``
=========  =====================  =========  ==============================================================

Every batch is a *phase*; a function of the state and of the key gives its rows:

==========  ================  ===========================================================================
phase       rows              use
==========  ================  ===========================================================================
START       1; 4 on failure   value at x0, or at points near it if that fails
NOISE       8                 values at tiny, equal distances on a random line: eps
FIRST       2n                x +- 0.05 S e_j: slopes and the diagonal of the Hessian
TRIAL       1 to 3            unit steps along the candidate directions
REFINE      1                 a longer or shorter step along the best direction
SLOPES      n or 2n           slopes at the new point: one-sided or central differences
REPEAT      failed rows       failed rows of a one-sided stencil, mirrored; slope 0 if these fail, too
COMPLETE    n                 the other half of a one-sided stencil, after steps without a decrease
AGAIN       2n                a central stencil, after steps without a decrease
RENEW       2n                a central stencil along coordinates, after many tiny gains
HANDED      2n                a central stencil along the columns of a metric that another search learned
ENDED       1                 a random point nearby; ``stop()`` has the reason
==========  ================  ===========================================================================

A one-sided stencil has tau^2/2 = max(eps, 1e-13 D/n) and estimates g_j = +-((f(x +- tau l_j) - f)/tau -
tau/2): the last term is the curvature of the metric itself, 1 along every column, so that the estimate is of
second order where L is right. If its error is no longer small, n tau^2/2 > 0.01 D, the stencil is central
with tau^2/2 = 50 eps grow^2. As differences are taken along columns of L, errors do not depend on the
condition of the problem.

*Separable mode.* L is diagonal at first. While rho lies in [0.5, 1.8], every step updates L_jj by the secant
of its own coordinate. Otherwise L is updated as a whole, by BFGS in product form,

    w = sqrt(s^.y^/y^.y^) y^,   L+ = L (I + (s^ - w) w^T/(s^.y^)),

and up to three directions are tried in one batch: that of BFGS, that of BFGS after scaling L by Al-Baali's
factor, and that of L-BFGS from the last 12 steps. The winner's model is kept.

*Many variables.* Beyond 1000 variables L remains diagonal, and no array is larger than O(n) or a batch.
Outside separable mode, the last 12 pairs s^, y^ describe the rest of the inverse Hessian. Two directions of
L-BFGS in the coordinates u are tried: from L, and from L times a scalar. Stencils go along the columns of L,
that is, along coordinates.

*Batches.* The rows of a large stencil are asked for in several batches, of at most 64 MB or ``popsize`` rows.
Neither the search nor its random numbers depend on this division.

*Bounds.* Steps are projected into the box and end on its faces exactly. A coordinate on a face is held: the
columns of L are turned so that one of them changes this coordinate and no other does. That column remains in
the stencil. When f falls inwards along it, the coordinate is released. Near a face, the two points of a
column lie on the same side of x, at tau and 2 tau.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt

from lmma.kernels.blas import limited_threads
from lmma.methods.ask_tell import Strategy
from lmma.methods.base import Method
from lmma.numerics.linalg import Factors, row_squares
from lmma.numerics.recombination import Array, Indices
from lmma.numerics.state import (
    ANY,
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
    from lmma.numerics.metric import LowRank, Metric, MetricOperator, Transform

Vector = npt.NDArray[np.float64]
Points = Callable[[Vector, Indices | slice], Vector]

MATRIX_UP_TO = 1000  # variables; beyond, L is diagonal and pairs describe the rest
BATCH_BYTES = 2**26  # of the rows of a stencil that are asked for at a time
FIRST_STEP = 0.05  # of the first stencil, in units of sigma0
HANDED_STEP = 0.03  # of the first stencil along the columns of a metric that another search learned
LINE = np.arange(-3.0, 5.0)  # points of the noise line, in multiples of its step
REACH = 4.0  # largest change of a coordinate in one step, in units of sigma0
NEAR = (0.01, 0.03, 0.1, 0.3)  # distances of the points tried if x0 fails, in units of sigma0
ATTEMPTS = 3  # batches of these points
GOOD_RHO = (0.5, 1.8)  # the quadratic of the metric is right
CENTRAL = 50.0  # tau^2/2 of a central stencil, in units of eps
NEGLIGIBLE = 1e-13  # tau^2/2 of a one-sided stencil, in units of D/n
PAIRS = 12  # of steps and changes of slopes, for L-BFGS
REFRESH = 50  # iterations after which the inverse of L is computed again
MOST_FAILURES = 4  # steps without a decrease, after which the search ends
MOST_REFINEMENTS = 12  # step lengths of one line search
CREEPING = 6  # net number of small gains after which the metric is renewed
LAST_DIGITS = 64  # units in the last place of x: shorter steps are lost in the rounding of x
SMALL_GAIN = 0.01  # relative to the predicted decrease
WINS = 0.2  # weight of the last trial in the share of trials that a direction wins
MARGIN = 1.5  # by which the direction of L-BFGS must win
LARGEST = float(np.finfo(np.float64).max)
LIMITED = 3  # consecutive steps as long as allowed, after which longer ones are


class Phase(IntEnum):
    """Use of the next batch."""

    START = 0
    NOISE = 1
    FIRST = 2
    TRIAL = 3
    REFINE = 4
    SLOPES = 5
    REPEAT = 6
    COMPLETE = 7
    AGAIN = 8
    RENEW = 9
    ENDED = 10
    HANDED = 11


STENCILS = frozenset(
    (Phase.FIRST, Phase.SLOPES, Phase.REPEAT, Phase.COMPLETE, Phase.AGAIN, Phase.RENEW, Phase.HANDED)
)  # phases that evaluate points of a stencil, in several batches if it is large


class Direction(IntEnum):
    """Origin of a candidate direction."""

    NEWTON = 0  # of the current metric
    MEAN_CURVATURE = 1  # of the first stencil, with the mean of its second derivatives
    BFGS = 2
    SCALED_BFGS = 3
    L_BFGS = 4


DIRECTION = Range("the number of a direction", least=0, most=len(Direction) - 1, integer=True)
ENDINGS = ("", "converged", "stuck", "flat", "failures", "numerical")  # reasons of ``stop``, by number


class Pending(IntEnum):
    """Change of the metric that a direction of the trial was computed with."""

    NONE = 0
    MEAN_CURVATURE = 1
    BFGS = 2


class Update(NamedTuple):
    """Update L+ = L / sqrt(shrink) (I + z w^T / sy)."""

    shrink: float
    z: Vector
    w: Vector
    sy: float

    def slopes(self, g: Vector) -> Vector:
        """Return ``g`` in the new coordinates."""
        scaled = g / math.sqrt(self.shrink)
        updated: Vector = scaled + self.w * (float(self.z @ scaled) / self.sy)
        return updated

    def previous(self, p: Vector) -> Vector:
        """Return ``p``, a direction in the new coordinates, in the previous ones."""
        before: Vector = (p + self.z * (float(self.w @ p) / self.sy)) / math.sqrt(self.shrink)
        return before

    def direction(self, p: Vector) -> Vector:
        """Return ``p``, a direction in the previous coordinates, in the new ones."""
        scaled = p * math.sqrt(self.shrink)
        updated: Vector = scaled - self.z * (float(self.w @ scaled) / (self.sy + float(self.w @ self.z)))
        return updated


class Room(NamedTuple):
    """Distances from x to the lower bounds, at most 0, and to the upper ones, in units of sigma0."""

    low: Vector
    high: Vector

    def along(self, directions: Vector) -> Vector:
        """Return the largest t so that x + t d lies inside, for each column d of ``directions``."""
        limits = np.full(directions.shape, math.inf)
        ahead = np.where(directions > 0, self.high[:, None], self.low[:, None])
        np.divide(ahead, directions, out=limits, where=directions != 0)
        least: Vector = limits.min(axis=0)
        return least


def _inverse_times(q: Vector, steps: Vector, changes: Vector, *, scaled: bool = True) -> Vector:
    """Return the inverse Hessian of L-BFGS times ``q``, for pairs of ``steps`` and ``changes`` of slopes.

    Without pairs it is the identity, or a multiple of it that suits the last pair if ``scaled``.
    """
    factors: list[float] = []
    for s, y in zip(steps[::-1], changes[::-1], strict=True):
        factor = float(s @ q) / float(s @ y)
        factors.append(factor)
        q = q - factor * y
    if scaled:
        s, y = steps[-1], changes[-1]
        q = q * (float(s @ y) / float(y @ y))
    for s, y, factor in zip(steps, changes, reversed(factors), strict=True):
        q = q + s * (factor - float(y @ q) / float(s @ y))
    return q


class Model(ABC):
    """L, and the last pairs of steps and changes of slopes.

    Attributes
    ----------
    separable : bool
        True while L is diagonal and learned coordinate by coordinate.
    good : ndarray, (n,)
        Diagonal of L at the last good prediction in separable mode; 0 before.
    s, y : ndarray, (n,)
        The last step and change of slopes in u, from which L can be updated.
    steps, changes : ndarray, (k, n)
        The last pairs, in units of sigma0.
    holds : ndarray, (k,)
        Coordinate that the column holds at its bound, -1 for none. Such a column is a multiple of a unit
        vector, and in all other columns this coordinate is 0.
    turned : bool
        True if columns were turned since the last slopes, which are then of no use.
    """

    STATE: ClassVar[Declared] = {
        "separable": FLAG, "good": NOT_NEGATIVE, "s": FINITE, "y": FINITE, "steps": FINITE, "changes": FINITE,
        "turned": FLAG, "holds": Range("the number of a coordinate, or -1", least=-1, integer=True),
    }  # fmt: skip
    VARIABLE: ClassVar[tuple[str, ...]] = ("steps", "changes")

    def __init__(self, n: int, movable: Indices) -> None:
        k = len(movable)
        self.n = n
        self.movable = movable
        self.holds = np.full(k, -1)
        self.separable = True
        self.turned = False
        self.good: Vector = np.zeros(k)
        self.s: Vector = np.zeros(k)
        self.y: Vector = np.zeros(k)
        self.forget_pairs()

    def forget_pairs(self) -> None:
        """Drop the pairs."""
        self.steps: Vector = np.empty((0, self.n))  # of all coordinates
        self.changes: Vector = np.empty((0, self.n))

    def append_pair(self, step: Vector, change: Vector) -> None:
        """Append a pair, and drop the oldest one if there are too many."""
        self.steps = np.vstack((self.steps, step))[-PAIRS:]
        self.changes = np.vstack((self.changes, change))[-PAIRS:]

    def release(self, g: Vector, inward: Vector) -> Vector:
        """Release coordinates at bounds in which f falls inwards; return slopes without the held ones.

        ``inward`` is the sign of the direction into the box, by coordinate.
        """
        held = self.holds >= 0
        if not held.any():
            return g
        falls = held & (inward[self.holds] * g < 0)
        self.holds[falls] = -1
        free: Vector = np.where(held & ~falls, 0.0, g)
        return free

    def contradictions(self) -> dict[str, bool]:
        """Return the names of attributes in the state, and whether each is consistent with the others."""
        held = self.holds[self.holds >= 0]
        rows = min(len(self.steps), PAIRS)
        return {
            "model.steps": self.steps.shape == self.changes.shape == (rows, self.n),
            "model.holds": bool(np.isin(held, self.movable).all()) and len(np.unique(held)) == len(held),
        }

    # L

    @property
    @abstractmethod
    def diagonal(self) -> Vector:
        """A copy of the entries of L at the movable coordinates, if L is diagonal."""

    @abstractmethod
    def set_diagonal(self, diagonal: Vector) -> None:
        """Set L to a diagonal matrix."""

    @abstractmethod
    def take(self, metric: Metric, steps0: Vector) -> None:
        """Take L from the metric of another search; ``steps0`` is the unit of each coordinate."""

    @abstractmethod
    def rescale(self, factors: Vector) -> None:
        """Multiply the columns of L by ``factors``."""

    @abstractmethod
    def hold(self, coordinates: list[int]) -> None:
        """Hold coordinates at their bounds, so that a single column changes each of them."""

    @property
    @abstractmethod
    def is_finite(self) -> bool:
        """True if L is finite."""

    @abstractmethod
    def step(self, u: Vector) -> Vector:
        """Return L u."""

    @abstractmethod
    def solve(self, step: Vector) -> Vector | None:
        """Return the u of a step L u, or None if L is singular."""

    @abstractmethod
    def fill(self, out: Array, x: Array, columns: Indices, lengths: Vector, points: Points) -> None:
        """Fill ``out`` with a point for each of the ``columns``, at a multiple of it from ``x``.

        ``points`` returns the points at given offsets, or the numbers of given coordinates of such points.
        """

    @property
    @abstractmethod
    def lengths(self) -> Vector:
        """Lengths of the rows of L, (n,)."""

    @abstractmethod
    def room_along(self, room: Room, signs: Vector) -> Vector:
        """Return the largest t so that x + t sign l_j lies inside, for each column l_j."""

    @abstractmethod
    def exceeds(self, lengths: Vector, limits: Vector) -> npt.NDArray[np.bool_]:
        """Return for each column whether it changes a coordinate by more than its limit at this length."""

    # Directions

    @abstractmethod
    def directions(self, g: Vector, step: Vector, trial: Trial, iteration: int) -> dict[Direction, Vector]:
        """Learn the last ``step``; return candidate directions in u from slopes ``g``."""

    @abstractmethod
    def adopt(self, trial: Trial, kind: Direction, p: Vector, g: Vector) -> tuple[Vector, Vector]:
        """Learn the update of L behind the direction ``p`` that won a trial.

        Return the direction and the slopes in the new coordinates.
        """

    # For other searches

    @abstractmethod
    def transform(self) -> Transform:
        """Return the metric as a transform M; M M^T approximates the inverse Hessian."""

    @abstractmethod
    def record(self, mean: Array, sigma: float, scale: Array | None) -> Metric:
        """Return the metric as a record."""

    @abstractmethod
    def root(self, steps0: Vector) -> Vector:
        """Return S L as a matrix, or its diagonal if that is all; ``steps0`` is the diagonal of S."""


@final
class MatrixModel(Model):
    """L as a matrix, and its inverse when needed.

    Attributes
    ----------
    L : ndarray, (n, k)
        The matrix.
    inverse : ndarray, (k, n) or (0, 0)
        The inverse of L, empty while it is unknown.
    """

    STATE: ClassVar[Declared] = {"L": FINITE, "inverse": FINITE}
    VARIABLE: ClassVar[tuple[str, ...]] = (*Model.VARIABLE, "inverse")

    def __init__(self, n: int, movable: Indices) -> None:
        super().__init__(n, movable)
        self.L: Vector = np.zeros((n, len(movable)))
        self.set_diagonal(np.ones(len(movable)))

    def forget_pairs(self) -> None:
        """Drop the pairs and the inverse."""
        super().forget_pairs()
        self.inverse: Vector = np.empty((0, 0))

    def contradictions(self) -> dict[str, bool]:
        """Return the names of attributes in the state, and whether each is consistent with the others."""
        known = self.inverse.shape in ((0, 0), (len(self.movable), self.n))
        return super().contradictions() | {"model.inverse": known}

    @property
    def diagonal(self) -> Vector:
        """A copy of the entries of L at the movable coordinates, if L is diagonal."""
        diagonal: Vector = self.L[self.movable, np.arange(len(self.movable))]
        return diagonal

    def set_diagonal(self, diagonal: Vector) -> None:
        """Set L to a diagonal matrix."""
        self.L[...] = 0.0
        self.L[self.movable, np.arange(len(self.movable))] = diagonal
        self.inverse = np.empty((0, 0))
        held = np.isin(self.movable, self.holds)
        self.holds = np.where(held, self.movable, -1)

    def take(self, metric: Metric, steps0: Vector) -> None:
        """Take L from the metric of another search; ``steps0`` is the unit of each coordinate."""
        root = metric.root()
        if len(self.movable) < self.n:
            among = np.ix_(self.movable, self.movable)
            self.L[self.movable] = np.linalg.cholesky((root @ root.T)[among])
        else:
            self.L[...] = root
        self.L /= steps0[:, None]
        self.separable = False

    def rescale(self, factors: Vector) -> None:
        """Multiply the columns of L by ``factors``."""
        self.L *= factors
        self.inverse = np.empty((0, 0))

    def hold(self, coordinates: list[int]) -> None:
        """Hold coordinates at their bounds: turn the columns so that a single one changes each of them.

        The other columns then have the product L L^T of a search in which these coordinates are fixed.
        """
        for coordinate in coordinates:
            self._hold(coordinate)

    def _hold(self, coordinate: int) -> None:
        row = np.where(self.holds < 0, self.L[coordinate], 0.0)
        column = int(np.argmax(np.abs(row)))
        length = float(np.linalg.norm(row))
        if np.count_nonzero(row) > 1:  # a Householder reflection
            row[column] += math.copysign(length, row[column])
            self.L -= np.outer(self.L @ row, row * (2 / float(row @ row)))
        self.L[coordinate], self.L[:, column] = 0.0, 0.0
        self.L[coordinate, column] = length
        self.holds[column] = coordinate
        self.turned = True
        self.forget_pairs()

    @property
    def is_finite(self) -> bool:
        """True if L is finite."""
        return bool(np.isfinite(self.L).all())

    def step(self, u: Vector) -> Vector:
        """Return L u."""
        return self.L @ u

    def solve(self, step: Vector) -> Vector | None:
        """Return the u of a step L u, or None if L is singular."""
        try:
            return np.asarray(np.linalg.solve(self.L[self.movable], step[self.movable]), dtype=np.float64)
        except np.linalg.LinAlgError:
            return None

    def fill(self, out: Array, x: Array, columns: Indices, lengths: Vector, points: Points) -> None:
        """Fill ``out`` with a point for each of the ``columns``, at a multiple of it from ``x``."""
        out[...] = points((self.L[:, columns] * lengths).T, slice(None))

    @property
    def lengths(self) -> Vector:
        """Lengths of the rows of L, (n,)."""
        return np.sqrt(row_squares(self.L, np.arange(self.n)))

    def room_along(self, room: Room, signs: Vector) -> Vector:
        """Return the largest t so that x + t sign l_j lies inside, for each column l_j."""
        return room.along(self.L * signs)

    def exceeds(self, lengths: Vector, limits: Vector) -> npt.NDArray[np.bool_]:
        """Return for each column whether it changes a coordinate by more than its limit at this length."""
        return np.asarray((np.abs(lengths * self.L) > limits[:, None]).any(axis=0))

    # Directions

    def directions(self, g: Vector, step: Vector, trial: Trial, iteration: int) -> dict[Direction, Vector]:
        """Learn the last ``step``; return candidate directions in u from slopes ``g``."""
        sy, ss = float(self.s @ self.y), float(self.s @ self.s)
        if self.turned or not sy > 1e-8 * ss:
            return {Direction.NEWTON: -g}
        trial.pending = Pending.BFGS
        update = self.update(1.0)
        directions = {Direction.BFGS: update.previous(-update.slopes(g))}
        trial.shrink = min(1.0, max(sy / ss, 0.1))
        if trial.shrink <= 0.8 and (trial.wins[Direction.SCALED_BFGS] > 1 / 4 or iteration % 6 == 3):
            update = self.update(trial.shrink)
            directions[Direction.SCALED_BFGS] = update.previous(-update.slopes(g))
        if sy > 1e-250:
            self.remember_pair(step, refresh=iteration % REFRESH == 0)
            if len(self.steps) and (trial.wins[Direction.L_BFGS] > 1 / 5 or iteration % 6 == 1):
                directions[Direction.L_BFGS] = self.l_bfgs_direction(g)
        return directions

    def adopt(self, trial: Trial, kind: Direction, p: Vector, g: Vector) -> tuple[Vector, Vector]:
        """Learn the update of L behind the direction ``p`` that won a trial."""
        if trial.pending != Pending.BFGS or kind == Direction.NEWTON:
            return p, g
        update = self.update(trial.shrink if kind == Direction.SCALED_BFGS else 1.0)
        self.apply_update(update)
        g = update.slopes(g)
        return update.direction(p) if kind == Direction.L_BFGS else -g, g

    def update(self, shrink: float) -> Update:
        """Return the BFGS update from the last step, after L was divided by the root of ``shrink``."""
        s, y = self.s * math.sqrt(shrink), self.y / math.sqrt(shrink)
        sy = float(self.s @ self.y)
        w = math.sqrt(sy / float(y @ y)) * y
        return Update(shrink, s - w, w, sy)

    def apply_update(self, update: Update) -> None:
        """Update L, and its inverse if it is known."""
        shrink, z, w, sy = update
        if len(self.inverse):
            if shrink != 1.0:
                self.inverse *= math.sqrt(shrink)
            self.inverse -= np.outer(z / (sy + float(w @ z)), w @ self.inverse)
        if shrink != 1.0:
            self.L /= math.sqrt(shrink)
        self.L += np.outer(self.L @ z, w / sy)

    def remember_pair(self, step: Vector, *, refresh: bool) -> None:
        """Append ``step`` and the change of slopes ``y`` to the pairs, if their product is positive."""
        if not len(self.inverse) or refresh:
            inverse = np.zeros(self.L.T.shape)
            try:
                inverse[:, self.movable] = np.linalg.inv(self.L[self.movable])
            except np.linalg.LinAlgError:
                self.forget_pairs()
                return
            self.inverse = inverse
        change = self.inverse.T @ self.y
        if not (np.isfinite(self.inverse).all() and np.isfinite(change).all()):
            self.forget_pairs()
        elif float(step @ change) > 1e-250:
            self.append_pair(step, change)

    def l_bfgs_direction(self, g: Vector) -> Vector:
        """Return the direction of L-BFGS, in u, for slopes ``g``."""
        direction: Vector = -(self.inverse @ _inverse_times(self.inverse.T @ g, self.steps, self.changes))
        return direction

    # For other searches

    def transform(self) -> Transform:
        """Return the metric as a transform M; M M^T approximates the inverse Hessian."""
        return self

    def record(self, mean: Array, sigma: float, scale: Array | None) -> Metric:
        """Return the metric as a record."""
        from lmma.numerics.metric import Metric

        return Metric.of(mean, sigma, scale, self)

    def root(self, steps0: Vector) -> Vector:
        """Return the matrix S L, (n, n), with ``steps0``, the diagonal of S, for fixed coordinates."""
        found = np.diag(steps0)
        found[:, self.movable] = steps0[:, None] * self.L
        return found

    def apply(self, z: Array) -> Array:
        """Return L z."""
        return z @ self.L.T

    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of L times d."""
        return d @ self.L

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return the diagonal of L L^T at ``columns``."""
        return row_squares(self.L, columns)

    def factors(self) -> Factors:
        """Return L."""
        return Factors(matrix=self.L)

    def without_sample(self) -> Self:
        """Return the metric itself: it holds no candidates."""
        return self


@final
class PairsModel(Model):
    """L as a diagonal matrix, with O(n) numbers: the pairs describe the rest of the inverse Hessian.

    Directions are those of L-BFGS in the coordinates u. They are computed without the held coordinates, from
    the pairs that have positive curvature without these.

    Attributes
    ----------
    scales : ndarray, (k,)
        The diagonal.
    """

    STATE: ClassVar[Declared] = {"scales": FINITE}

    def __init__(self, n: int, movable: Indices) -> None:
        super().__init__(n, movable)
        self.scales: Vector = np.ones(len(movable))

    @property
    def diagonal(self) -> Vector:
        """A copy of the diagonal of L at the movable coordinates."""
        return self.scales.copy()

    def set_diagonal(self, diagonal: Vector) -> None:
        """Set the diagonal of L."""
        self.scales[...] = diagonal

    def take(self, metric: Metric, steps0: Vector) -> None:
        """Take the standard deviations of another search; ``steps0`` is the unit of each coordinate."""
        self.scales[...] = (metric.deviations() / steps0)[self.movable]

    def rescale(self, factors: Vector) -> None:
        """Multiply the diagonal by ``factors``."""
        self.scales *= factors

    def hold(self, coordinates: list[int]) -> None:
        """Hold coordinates at their bounds."""
        self.holds[np.searchsorted(self.movable, coordinates)] = coordinates

    @property
    def is_finite(self) -> bool:
        """True if the diagonal is finite."""
        return bool(np.isfinite(self.scales).all())

    def step(self, u: Vector) -> Vector:
        """Return L u."""
        return self._everywhere(self.scales * u)

    def _everywhere(self, numbers: Vector) -> Vector:
        """Return ``numbers`` of the movable coordinates with 0 for the fixed ones."""
        found = np.zeros(self.n)
        found[self.movable] = numbers
        return found

    def solve(self, step: Vector) -> Vector | None:
        """Return the u of a step L u."""
        u: Vector = step[self.movable] / self.scales
        return u

    def fill(self, out: Array, x: Array, columns: Indices, lengths: Vector, points: Points) -> None:
        """Fill ``out`` with points that differ from ``x`` in one coordinate each."""
        out[...] = x
        coordinates = self.movable[columns]
        out[np.arange(len(out)), coordinates] = points(lengths * self.scales[columns], coordinates)

    @property
    def lengths(self) -> Vector:
        """The diagonal of L, 0 for fixed coordinates."""
        return self._everywhere(self.scales)

    def room_along(self, room: Room, signs: Vector) -> Vector:
        """Return the largest t so that x + t sign l_j lies inside, for each column l_j."""
        limits = np.where(signs > 0, room.high[self.movable], room.low[self.movable])
        along: Vector = limits / (self.scales * signs)
        return along

    def exceeds(self, lengths: Vector, limits: Vector) -> npt.NDArray[np.bool_]:
        """Return for each column whether it changes its coordinate by more than the limit at this length."""
        return np.asarray(np.abs(lengths * self.scales) > limits[self.movable])

    # Directions

    def directions(self, g: Vector, step: Vector, trial: Trial, iteration: int) -> dict[Direction, Vector]:
        """Learn the last ``step``; return candidate directions in u from slopes ``g``."""
        sy, ss = float(self.s @ self.y), float(self.s @ self.s)
        if sy > max(1e-8 * ss, 1e-250):
            self.append_pair(step, self._everywhere(self.y / self.scales))
        steps, changes = self._pairs()
        if not len(steps):
            return {Direction.NEWTON: -g}
        return {
            Direction.BFGS: -_inverse_times(g, steps, changes, scaled=False),
            Direction.SCALED_BFGS: -_inverse_times(g, steps, changes),
        }

    def adopt(self, trial: Trial, kind: Direction, p: Vector, g: Vector) -> tuple[Vector, Vector]:
        """Return the direction and the slopes: L does not depend on the direction that won."""
        return p, g

    def _pairs(self) -> tuple[Vector, Vector]:
        """Return the pairs in u, without held coordinates, that have positive curvature."""
        free = self.holds < 0
        steps = np.where(free, self.steps[:, self.movable] / self.scales, 0.0)
        changes = np.where(free, self.changes[:, self.movable] * self.scales, 0.0)
        positive = np.vecdot(steps, changes) > 1e-8 * np.vecdot(steps, steps)
        return steps[positive], changes[positive]

    # For other searches

    def transform(self) -> LowRank:
        """Return the metric of L-BFGS as a transform M; M M^T approximates the inverse Hessian."""
        from lmma.numerics.metric import LowRank

        steps, changes = self._pairs()
        if not len(steps):
            return LowRank(self._everywhere(self.scales), np.empty((0, self.n)), np.empty(0), 1.0)
        sizes = np.vecdot(changes, changes)
        rows = np.concatenate(
            (steps / np.sqrt(np.vecdot(steps, steps))[:, None], changes / np.sqrt(sizes)[:, None])
        )
        _, lengths, basis = np.linalg.svd(rows, full_matrices=False)
        basis = basis[lengths > 1e-10 * lengths[0]]
        variance = float(steps[-1] @ changes[-1]) / float(sizes[-1])  # outside the span of the pairs
        images = np.array([_inverse_times(row, steps, changes) for row in basis])
        inside = images @ basis.T / variance
        values, rotation = np.linalg.eigh((inside + inside.T) / 2)
        axes = np.zeros((len(basis), self.n))
        axes[:, self.movable] = rotation.T @ basis
        gains = np.maximum(values, float(np.finfo(np.float64).eps)) - 1
        return LowRank(self._everywhere(self.scales), axes, gains, math.sqrt(variance))

    def record(self, mean: Array, sigma: float, scale: Array | None) -> Metric:
        """Return the metric as a record."""
        from lmma.numerics.metric import Metric

        diagonal, axes, gains, constant = self.transform()
        return Metric(
            mean.copy(), sigma * constant, diagonal if scale is None else diagonal * scale, axes, gains
        )

    def root(self, steps0: Vector) -> Vector:
        """Return the diagonal of S L, with ``steps0``, the diagonal of S, for fixed coordinates."""
        found = steps0.copy()
        found[self.movable] *= self.scales
        return found


@final
class Stencil:
    """Points around x along the columns of L, two for each.

    Without bounds nearby, these are x +- tau l_j. At a bound both lie on the same side.

    Attributes
    ----------
    central : bool
        True if both points are evaluated.
    a, b : ndarray, (k,)
        Distances of the first and the second points, in u, with signs.
    values, missing : ndarray, (k,)
        Values of the first points of a one-sided stencil, and whether they are unknown.
    told : ndarray
        Values of the rows of this phase in previous batches, NaN for failures.
    """

    STATE: ClassVar[Declared] = {
        "central": FLAG, "a": FINITE, "b": FINITE, "values": FINITE, "missing": FLAG, "told": ANY,
    }  # fmt: skip
    VARIABLE: ClassVar[tuple[str, ...]] = ("told",)

    def __init__(self, k: int) -> None:
        self.central = True
        self.a: Vector = np.ones(k)
        self.b: Vector = -np.ones(k)
        self.values: Vector = np.zeros(k)
        self.missing = np.ones(k, dtype=bool)
        self.told: Vector = np.empty(0)

    def place(
        self, tau: float, signs: Vector | None, room_along: Callable[[Vector], Vector] | None = None
    ) -> None:
        """Choose the points at distance ``tau``, inside the box if there is one.

        ``signs`` are the sides of a one-sided stencil; None for a central one. In a box, ``room_along``
        returns the distance to the bounds along each column times its sign.
        """
        self.central = signs is None
        self.a = tau * (np.ones(len(self.a)) if signs is None else signs)
        self.b = -self.a
        self.missing[...] = True
        if room_along is None:
            return
        ahead, behind = room_along(np.sign(self.a)), room_along(-np.sign(self.a))
        if signs is None:
            turn = (np.minimum(ahead, behind) < tau) & (behind > ahead)
            near = np.minimum(tau, np.maximum(ahead, behind) / 2)
        else:
            turn = (ahead < tau) & (behind > ahead)
            near = np.minimum(tau, np.maximum(ahead, behind))
        sides = np.where(turn, -1.0, 1.0) * np.sign(self.a)
        ahead, behind = np.where(turn, behind, ahead), np.where(turn, ahead, behind)
        both = (behind >= tau) & (ahead >= tau) if signs is None else behind >= near
        self.a = sides * np.where(both & (ahead >= tau), tau, near)
        beyond = np.where(2 * np.abs(self.a) <= ahead, 2 * self.a, self.a / 2)
        self.b = np.where(both, -self.a, beyond)

    def take(self, rows: Indices, values: Vector) -> None:
        """Store the values of the first points at ``rows``, NaN for failures."""
        self.missing[rows] = np.isnan(values)
        self.values[rows] = np.where(self.missing[rows], 0.0, values)

    def swap(self, rows: Indices) -> None:
        """Exchange the two points of ``rows``."""
        self.a[rows], self.b[rows] = self.b[rows], self.a[rows]

    def known(self) -> Vector:
        """Return the values of the first points, NaN for failures."""
        return np.where(self.missing, math.nan, self.values)

    def central_slopes(
        self, first: Vector, second: Vector, f: float, usual: float = 1.0
    ) -> tuple[Vector, Vector]:
        """Return slopes and second derivatives from the values at both points.

        If one of them failed, the curvature is assumed to be ``usual``; if both did, the slope is 0.
        """
        a, b = self.a, self.b
        rise, other = (first - f) / a, (second - f) / b
        mirrored = b == -a
        d = np.where(mirrored, (first + second - 2 * f) / a**2, 2 * (rise - other) / (a - b))
        g = np.where(mirrored, (first - second) / (2 * a), rise - d * a / 2)
        lost = ~np.isfinite(d)
        one_sided = np.where(np.isnan(first), other - usual * b / 2, rise - usual * a / 2)
        d[lost] = usual
        g[lost] = one_sided[lost]
        g[~np.isfinite(g)] = 0.0
        return g, d

    def one_sided_slopes(self, f: float) -> Vector:
        """Return slopes from the values at the first points, assuming curvature 1."""
        g: Vector = (self.known() - f) / self.a - self.a / 2
        g[~np.isfinite(g)] = 0.0
        return g


@final
class Trial:
    """Unit steps along the candidate directions.

    Attributes
    ----------
    kinds : list of int
        Origin of each direction, a :class:`Direction`.
    p, dx : ndarray, (k, n)
        Directions in u, and in units of sigma0.
    t : list of float
        Length of each step, 1 unless the step is too long.
    pending, curvature, shrink : int, float, float
        Change of the metric behind the directions, a :class:`Pending`; the mean curvature of the first
        stencil; Al-Baali's factor.
    wins : ndarray, (5,)
        Recent share of trials that each kind of direction has won.
    """

    STATE: ClassVar[Declared] = {
        "kinds": DIRECTION, "p": FINITE,
        "dx": FINITE, "t": NOT_NEGATIVE, "wins": UNIT,
        "pending": Range("the number of a change", least=0, most=len(Pending) - 1, integer=True),
        "curvature": POSITIVE, "shrink": POSITIVE,
    }  # fmt: skip
    VARIABLE: ClassVar[tuple[str, ...]] = ("p", "dx")

    def __init__(self, n: int, k: int) -> None:
        self.kinds: list[float] = []
        self.p: Vector = np.empty((0, k))
        self.dx: Vector = np.empty((0, n))
        self.t: list[float] = []
        self.pending = Pending.NONE
        self.curvature = 1.0
        self.shrink = 1.0
        self.wins: Vector = np.full(len(Direction), 0.5)

    def set_directions(
        self, directions: dict[Direction, Vector], g: Vector, model: Model, reach: float, room: Room | None
    ) -> None:
        """Set the steps of the trial.

        None of them changes a coordinate by more than ``reach`` or leaves the box.
        """
        kinds, p, dx, lengths = [], [], [], []
        for kind, direction in directions.items():
            step = model.step(direction)
            if model.separable and kind == Direction.NEWTON:  # every coordinate has its own limit
                step = np.clip(step, -reach, reach)
                if room is not None:
                    step = np.clip(step, room.low, room.high)
                direction = step[model.movable] / model.diagonal
            elif room is not None:
                direction, step = _inside(direction, step, g, model, room)
            longest = float(np.abs(step).max())
            length = min(1.0, reach / longest) if longest > 0 else 1.0
            if room is not None:
                length = min(length, float(room.along(step[:, None])[0]))
            kinds.append(float(kind))
            p.append(direction)
            dx.append(step)
            lengths.append(length)
        self.kinds, self.p, self.dx, self.t = kinds, np.array(p), np.array(dx), lengths

    def winner(self, values: Vector, f: float, slopes: Vector) -> int:
        """Return the row to continue with; L-BFGS, which is greedy, must win by a margin.

        ``values`` are infinite for failures, ``slopes`` those of f along the directions.
        """
        best = int(np.argmin(values))
        if self.kinds[best] != Direction.L_BFGS:
            return best
        gains = {}
        for row, value in enumerate(values.tolist()):
            if row == best:
                continue
            gain, t, slope = f - value, self.t[row], float(slopes[row])
            if math.isfinite(value) and slope < 0 and t * t > 0:
                curvature = (value - f - slope * t) / t**2
                if curvature > 0 and -slope / (2 * curvature) < t:  # a shorter step gains more
                    gain = max(gain, slope * slope / (4 * curvature))
            gains[row] = gain
        other = max(gains, key=gains.__getitem__, default=best)
        if other != best and gains[other] > 0 and f - values[best] < MARGIN * gains[other]:
            return other
        return best

    def score(self, winner: float) -> None:
        """Update the share of wins of the directions that were tried."""
        for kind in self.kinds:
            self.wins[int(kind)] += WINS * ((1.0 if kind == winner else 0.0) - self.wins[int(kind)])


def _inside(p: Vector, step: Vector, g: Vector, model: Model, room: Room) -> tuple[Vector, Vector]:
    """Return ``p`` and the step L p, projected into the box if f still falls along it."""
    clipped = np.clip(step, room.low, room.high)
    if np.array_equal(clipped, step):
        return p, step
    projected = model.solve(clipped)
    if projected is None or not float(g @ projected) < 0:
        return p, step
    return projected, clipped


@final
class LineSearch:
    """Search for a step length along one direction, by parabolas through values and the slope.

    Attributes
    ----------
    kind : int
        Origin of the direction, a :class:`Direction`.
    p, dx : ndarray, (n,)
        Direction in u, and in units of sigma0.
    slope : float
        Slope of f along ``p``.
    t, f : float
        Best step length, 0 if none has decreased f, and its value.
    next_t, next_is : float, int
        Step length to try next; 1 if it refines a step that is good enough, 2 if it shortens one that is not.
    count : int
        Number of step lengths tried, beyond the first.
    shortest, value : float
        Shortest step so far and its value, infinite if it failed.
    rho : float
        Decrease by the first step of Newton's direction over the predicted one; 0 if it was shortened.
    limit : float
        Step length at which the line leaves the box; infinite without bounds.
    """

    STATE: ClassVar[Declared] = {
        "kind": DIRECTION, "p": FINITE, "dx": FINITE, "slope": FINITE, "t": NOT_NEGATIVE, "f": VALUE,
        "next_t": NOT_NEGATIVE, "next_is": Range("0, 1 or 2", least=0, most=2, integer=True), "count": COUNT,
        "shortest": NOT_NEGATIVE, "value": VALUE, "rho": FINITE, "finished": FLAG,
        "limit": DISTANCE,
    }  # fmt: skip

    def __init__(self, n: int, k: int) -> None:
        self.kind = Direction.NEWTON
        self.p: Vector = np.zeros(k)
        self.dx: Vector = np.zeros(n)
        self.slope = 0.0
        self.t, self.f = 0.0, math.inf
        self.next_t, self.next_is, self.count = 0.0, 0, 0
        self.shortest, self.value = 1.0, math.inf
        self.rho = 0.0
        self.limit = math.inf
        self.finished = False

    def begin(self, trial: Trial, values: Vector, f: float, g: Vector, room: Room | None) -> None:
        """Continue with the best direction of a trial at a point with value ``f`` and slopes ``g``."""
        values = np.where(np.isnan(values), math.inf, values)
        slopes = trial.p @ g
        row = trial.winner(values, f, slopes)
        self.kind = Direction(int(trial.kinds[row]))
        self.p[...], self.dx[...], self.slope = trial.p[row], trial.dx[row], float(slopes[row])
        self.shortest, self.value = trial.t[row], float(values[row])
        self.t, self.f = (self.shortest, self.value) if self.value < f else (0.0, f)
        self.count, self.finished, self.rho = 0, False, 0.0
        self.limit = math.inf if room is None else float(room.along(self.dx[:, None])[0])
        for kind, p, t, slope, value in zip(
            trial.kinds, trial.p, trial.t, slopes.tolist(), values, strict=True
        ):
            if kind == Direction.NEWTON and t >= 0.5:
                predicted = -slope * t - 0.5 * t * t * float(p @ p)
                rho = (f - float(value)) / predicted if predicted > 0 else 0.0
                self.rho = rho if math.isfinite(rho) else 0.0

    @property
    def longest(self) -> float:
        """Largest change of a coordinate by a step of length 1, in units of sigma0."""
        return float(np.abs(self.dx).max())

    def propose(self, f: float, error: float, reach: float) -> bool:
        """Set the step length to try next; return False if the search is finished."""
        self.count += 1
        if self.finished or self.count > MOST_REFINEMENTS:
            return False
        t, slope = self.t, self.slope
        if t > 0 and self.f < f - 1e-4 * abs(slope) * t:
            bend = self.f - f - slope * t
            best = -slope * t * t / (2 * bend) if bend > 0 else 4 * t  # least value of the parabola
            best = min(best, self.limit)
            self.next_is = 1
            if best > 1.6 * t and self.longest * t < reach and self.count < 6:
                self.next_t = min(best, 4 * t, max(reach / self.longest, t))
                return True
            self.next_t = max(best, 0.1 * t)
            return best < 0.55 * t and self.count == 1
        t, value = (t, self.f) if t > 0 else (self.shortest, self.value)
        self.next_is, self.next_t = 2, t / 8
        if math.isfinite(value):
            bend = value - f - slope * t
            best = -slope * t * t / (2 * bend) if bend > 0 else t / 4
            self.next_t = min(max(best, t / 20), t / 2)
        return abs(slope) * self.next_t >= 0.6 * error and self.count <= 9

    def take(self, value: float) -> None:
        """Learn the value of the proposed step length, NaN for a failure."""
        value = math.inf if math.isnan(value) else value
        better, longer = value < self.f, self.next_t > self.t
        if self.next_is == 1:
            self.finished = not (better and longer)
        else:
            self.finished = self.t > 0 and not better
            if self.next_t < self.shortest:
                self.shortest, self.value = self.next_t, value
        if better:
            self.t, self.f = self.next_t, value


@final
class Progress:
    """Counters that decide whether the search goes on.

    Attributes
    ----------
    iteration : int
        Number of sets of slopes.
    failures : int
        Consecutive steps without a decrease.
    grow : float
        Factor of the steps of central stencils.
    creeping, renewals : int
        Net number of small gains, and how often the metric was renewed because of them.
    bad : int
        Consecutive predictions that were bad.
    recent_bad : list of float
        The last 8 of them, 1 if bad.
    moves : list of float
        The last 30 steps, the largest change of a coordinate of each.
    lengths : list of float
        The last 3 steps, the length per coordinate of each, at least that of the unit step.
    gains : list of float
        Decrease of f by each of the last 10 steps.
    reach, limited : float, int
        Longest step allowed in a coordinate, and the number of consecutive steps that were as long.
    """

    STATE: ClassVar[Declared] = {
        "iteration": COUNT, "failures": COUNT, "grow": POSITIVE, "creeping": COUNT, "renewals": COUNT,
        "bad": COUNT, "recent_bad": FLAG, "moves": NOT_NEGATIVE, "lengths": NOT_NEGATIVE,
        "gains": NOT_NEGATIVE, "reach": POSITIVE, "limited": COUNT,
    }  # fmt: skip

    def __init__(self) -> None:
        self.iteration = 0
        self.failures = 0
        self.grow = 1.0
        self.creeping, self.renewals = 0, 0
        self.bad = 0
        self.recent_bad: list[float] = []
        self.moves: list[float] = []
        self.lengths: list[float] = []
        self.gains: list[float] = []
        self.reach, self.limited = REACH, 0

    def succeeded(self, gain: float, decrease: float, move: float) -> None:
        """Count a step that has decreased f by ``gain``."""
        self.failures, self.grow = 0, max(1.0, self.grow / 2)
        self.moves = [*self.moves, move][-30:]
        self.gains = [*self.gains, min(gain, LARGEST)][-10:]
        if move >= 0.99 * self.reach:  # such a step cannot gain what the metric predicts
            self.limited += 1
        else:
            self.limited = 0
            self.creeping = self.creeping + 1 if gain < SMALL_GAIN * decrease else max(0, self.creeping - 2)
        if self.limited == LIMITED:
            self.reach, self.limited = 2 * self.reach, 0

    def judge(self, rho: float) -> bool:
        """Count a prediction of the metric; return True if it was good."""
        good = GOOD_RHO[0] <= rho <= GOOD_RHO[1]
        self.bad = 0 if good else self.bad + 1
        self.recent_bad = [*self.recent_bad, float(not good)][-8:]
        return good


def _rows_at_once(n: int, popsize: int) -> int:
    """Return the largest number of rows of a stencil in one batch."""
    return max(popsize, BATCH_BYTES // (8 * n))


class Point(NamedTuple):
    """A point that was evaluated: its value, and its place relative to x."""

    f: float
    offset: Vector


@final
class QuasiNewtonMethod(Method):
    """The phases of the quasi-Newton search."""

    name = "quasi-newton"
    uses_values = True
    supports = frozenset(("bounds",))
    keeps_bounds = True
    STATE: ClassVar[Declared] = {
        "phase": Range("the number of a phase", least=0, most=len(Phase) - 1, integer=True),
        "after_noise": Range("the number of a phase", least=0, most=len(Phase) - 1, integer=True),
        "f": VALUE, "g": FINITE, "expected": FINITE, "decrease": DISTANCE, "step": FINITE,
        "first_curvatures": NOT_NEGATIVE, "attempts": COUNT, "continued": COUNT,
        "ending": Range("the number of an ending", least=0, most=len(ENDINGS) - 1, integer=True),
        "ending_value": DISTANCE,
    }  # fmt: skip

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return the memory of the model, a batch and temporaries of these sizes."""
        if n > MATRIX_UP_TO:
            rows = min(2 * n, _rows_at_once(n, popsize))
            return 2 * rows * n * itemsize + 8 * (6 * PAIRS + 40) * n
        return 2 * n * n * itemsize + 8 * (8 * n * n + (2 * PAIRS + 30) * n)

    def initialise(self) -> None:
        """Start anew at the mean."""
        n = self.n
        bounds = self.settings.bounds
        self.lower: Vector | None = None  # None without bounds
        self.upper: Vector = np.full(n, math.inf)
        self.movable: Indices = np.arange(n)  # coordinates that are not fixed by their bounds
        if bounds is not None:
            self.lower, self.upper = bounds[0].astype(np.float64), bounds[1].astype(np.float64)
            self.movable = np.flatnonzero(self.lower < self.upper)
        k = len(self.movable)
        self.phase, self.after_noise = Phase.START, Phase.FIRST
        self.f = math.inf
        self.g: Vector = np.zeros(k)  # 0 for held coordinates
        self.expected: Vector = np.zeros(k)  # slopes before the step, as far as it did not remove them
        self.decrease = 0.0
        self.step: Vector = np.zeros(n)  # last step, in units of sigma0
        self.first_curvatures: Vector = np.zeros(k)
        self.attempts = 0  # batches of points near an x0 that failed
        self.continued = 0  # batches after which their phase continued
        self.ending, self.ending_value = 0, 0.0
        self._begin_model()
        self.errors = ValueNoise()
        self._blas = limited_threads(n, 2 * n, dense=n <= MATRIX_UP_TO)

    def _begin_model(self) -> None:
        """Forget everything learned about the function, but not the errors of its values."""
        n, k = self.n, len(self.movable)
        self.model: Model = (MatrixModel if n <= MATRIX_UP_TO else PairsModel)(n, self.movable)
        self.stencil, self.trial = Stencil(k), Trial(n, k)
        self.line, self.progress = LineSearch(n, k), Progress()

    def learned_parts(self) -> dict[str, object]:
        """Return the metric, without the batch that is planned."""
        return {"model": self.model}

    def parts(self) -> dict[str, object]:
        """Return the stateful components, by name."""
        return {
            "model": self.model, "stencil": self.stencil, "trial": self.trial, "line": self.line,
            "errors": self.errors, "progress": self.progress,
        }  # fmt: skip

    # Candidates

    @property
    def batch_size(self) -> int:
        """Number of rows of the next batch."""
        left = self.rows_left
        return min(left, _rows_at_once(self.n, self.popsize)) if self.phase in STENCILS else left

    @property
    def rows_left(self) -> int:
        """Number of rows until the end of the phase: a large stencil takes several batches."""
        match self.phase:
            case Phase.START:
                return len(NEAR) if self.attempts else 1
            case Phase.NOISE:
                return len(LINE)
            case Phase.TRIAL:
                return len(self.trial.kinds)
            case Phase.REFINE | Phase.ENDED:
                return 1
        return self._rows_of_stencil - len(self.stencil.told)

    @property
    def _rows_of_stencil(self) -> int:
        """Number of rows of the phase, which evaluates points of a stencil."""
        k, stencil = len(self.movable), self.stencil
        match self.phase:
            case Phase.REPEAT:
                return int(np.count_nonzero(stencil.missing))
            case Phase.COMPLETE:
                return k
        return 2 * k if stencil.central else k

    @property
    def continues(self) -> bool:
        """True if the next batch does not complete its phase."""
        return self.batch_size < self.rows_left

    def generator(self, stream: int = 0) -> np.random.Generator:
        """Return a random generator for this phase, whatever the number of its batches."""
        counter = np.array([0, self.generation - self.continued, 1 + stream, 0], dtype=np.uint64)
        return np.random.Generator(np.random.Philox(key=np.array(self.key, dtype=np.uint64), counter=counter))

    def sample(self, out: Array) -> None:
        """Fill ``out`` with the next rows of the phase."""
        with self._blas, np.errstate(all="ignore"):
            if self.phase in STENCILS:
                columns, lengths = self._stencil_rows()
                rows = slice(len(self.stencil.told), len(self.stencil.told) + len(out))
                self.model.fill(out, self.mean, columns[rows], lengths[rows], self._points)
            else:
                out[...] = self._points(self._offsets())

    def _points(self, offsets: Vector, at: Indices | slice = slice(None)) -> Vector:
        """Return the points at ``offsets`` from x, in units of sigma0, inside the box.

        With ``at``, return the numbers of these coordinates.
        """
        points: Vector = self.mean[at] + self._steps0[at] * offsets
        if not np.isfinite(points).all():
            points = np.clip(points, np.finfo(self.dtype).min, np.finfo(self.dtype).max)
        if self.lower is None:
            return points
        np.clip(points, self.lower[at], self.upper[at], out=points)
        if self.phase in (Phase.TRIAL, Phase.REFINE):  # steps to a bound end there in spite of rounding
            for bound in (self.lower, self.upper):
                close = np.abs(points - bound) <= 4 * np.spacing(np.maximum(np.abs(points), np.abs(bound)))
                points = np.where(close, bound, points)
        return points

    def _room(self) -> Room | None:
        """Return the distances to the bounds, or None without bounds."""
        if self.lower is None:
            return None
        return Room((self.lower - self.mean) / self._steps0, (self.upper - self.mean) / self._steps0)

    def _inward(self) -> Vector:
        """Return 1 for coordinates at their lower bound, -1 at the upper one, and 0 for others."""
        if self.lower is None:
            return np.zeros(self.n)
        inward: Vector = 1.0 * (self.mean <= self.lower) - 1.0 * (self.mean >= self.upper)
        return inward

    def _offsets(self) -> Vector:
        """Return the rows of a phase without a stencil, relative to x and in units of sigma0."""
        n = self.n
        match self.phase:
            case Phase.START:
                if not self.attempts:
                    return np.zeros((1, n))
                return np.array(NEAR)[:, None] * self.generator().standard_normal((len(NEAR), n))
            case Phase.NOISE:
                return LINE[:, None] * self._noise_step()
            case Phase.TRIAL:
                return np.array(self.trial.t)[:, None] * self.trial.dx
            case Phase.REFINE:
                return self.line.next_t * self.line.dx[None]
        return self._typical_step() * self.generator().standard_normal((1, n))

    def _stencil_rows(self) -> tuple[Indices, Vector]:
        """Return the column of L of each row of the phase, and its factor."""
        stencil, columns = self.stencil, np.arange(len(self.movable))
        match self.phase:
            case Phase.REPEAT:
                missing = np.flatnonzero(stencil.missing)
                return missing, stencil.b[missing]
            case Phase.COMPLETE:
                return columns, stencil.b
        if stencil.central:
            return np.concatenate((columns, columns)), np.concatenate((stencil.a, stencil.b))
        return columns, stencil.a

    def _lowest(self, values: Vector) -> Point | None:
        """Return the best point of a central stencil, or None if all failed."""
        if np.isnan(values).all():
            return None
        row = int(np.nanargmin(values))
        columns, lengths = self._stencil_rows()
        u = np.zeros(len(self.movable))
        u[columns[row]] = lengths[row]
        return Point(values.item(row), self.model.step(u))

    def _noise_step(self) -> Vector:
        """Return the distance of the points of a noise line: tiny, but resolved by the floats of x."""
        normal = self.generator().standard_normal(len(self.movable))
        direction = self.model.step(np.where(self.model.holds < 0, normal, 0.0))
        far, moved = self._magnitude(), float(np.abs(self.step).max())
        length = max(1e-6 * moved, 1e-13 * far) if moved else max(1e-7, 1e-9 * far)
        if self.dtype != np.float64:
            length = max(length, 100 * float(np.finfo(self.dtype).eps) * far)
        typical = float(np.linalg.norm(direction)) / math.sqrt(self.n)
        step: Vector = direction * (length / max(typical, TINY))
        if (room := self._room()) is not None:
            needed = float(LINE.max()) * np.abs(step)
            step[(needed > -room.low) | (needed > room.high)] = 0.0
        return step

    @property
    def _steps0(self) -> Vector:
        """Initial step size of each coordinate."""
        scale = np.ones(self.n) if self.scale is None else self.scale.astype(np.float64)
        return self.sigma0 * scale

    def _magnitude(self) -> float:
        """Return the largest coordinate of x, in units of sigma0."""
        return float(np.abs(self.mean / self._steps0).max())

    def _typical_step(self) -> float:
        """Return the length of the last step per coordinate, in units of sigma0; 1 before the first."""
        length = float(np.linalg.norm(self.step)) / math.sqrt(self.n)
        return length or 1.0

    # Learning

    def update(self, told: Told) -> None:
        """Learn the values of a batch, of which at least one is known."""
        self._learn(np.where(np.isfinite(told.raw), told.raw, math.nan))

    def failed(self, rows: int) -> None:
        """Learn that all ``rows`` of a batch failed."""
        self._learn(np.full(rows, math.nan))

    def _learn(self, values: Vector) -> None:
        if self.phase in STENCILS:
            stencil = self.stencil
            values, stencil.told = np.concatenate((stencil.told, values)), np.empty(0)
            if len(values) < self._rows_of_stencil:
                stencil.told = values
                self.continued += 1
                return
        self.errors.remember(values)
        try:
            self._learn_phase(values)
        except (ZeroDivisionError, OverflowError):  # slopes of 0 along a step, curvatures beyond all numbers
            self._end_numerically()

    def _learn_phase(self, values: Vector) -> None:
        with self._blas, np.errstate(all="ignore"):  # numbers that are not finite end the search
            match self.phase:
                case Phase.START:
                    self._learn_start(values)
                case Phase.NOISE:
                    self.errors.measure(values, self.f, rounded=self.dtype != np.float64)
                    self._begin_stencil(self.after_noise)
                case Phase.FIRST:
                    self._learn_first(values)
                case Phase.TRIAL:
                    self.line.begin(self.trial, values, self.f, self.g, self._room())
                    self._refine()
                case Phase.REFINE:
                    self.line.take(values.item(0))
                    self._refine()
                case Phase.SLOPES:
                    self._learn_slopes(values)
                case Phase.REPEAT:
                    self._learn_repeated(values)
                case Phase.COMPLETE:
                    self.stencil.central = True
                    self._start_anew(*self.stencil.central_slopes(self.stencil.known(), values, self.f))
                case Phase.AGAIN:
                    self._start_anew(*self._central(values), self._lowest(values))
                case Phase.RENEW:
                    self._learn_renewed(values)
                case Phase.HANDED:
                    self._learn_handed(values)

    def begin_at(self, f: float, recent: Vector | None = None) -> None:
        """Begin at the mean, where fun is ``f``.

        With ``recent`` values, only their digits give the errors of values: no evaluation is spent on noise.
        """
        self.f = f
        self.errors.remember(np.array([f]))
        self.phase, self.after_noise = Phase.NOISE, Phase.FIRST
        if recent is not None:
            self.errors.remember(recent)
            self.errors.measure(np.empty(0), f, rounded=self.dtype != np.float64)
            self._begin_stencil(Phase.FIRST)

    def begin_from(self, metric: Metric, f: float, errors: ValueNoise | None = None) -> None:
        """Begin at the mean, where fun is ``f``, with the metric of another search.

        If the ``errors`` of values are known, they are not measured again.
        """
        self._begin_model()
        self.model.take(metric, self._steps0)
        self.f, self.g, self.expected = f, np.zeros(len(self.movable)), np.zeros(len(self.movable))
        self.step = self.model.lengths
        self.decrease = 0.0
        self.ending, self.ending_value = 0, 0.0
        self.after_noise = Phase.HANDED
        if errors is None:
            self.errors.remember(np.array([f]))
            self.phase = Phase.NOISE
        else:
            restore({"": self.errors}, collect({"": errors}))
            self._begin_stencil(Phase.HANDED)

    def move_to(self, x: Array, f: float) -> None:
        """Continue from ``x``, where fun is ``f``, with the learned metric."""
        self.mean[...], self.f = x, f
        self.progress.failures = 0
        self._begin_stencil(Phase.AGAIN)

    def root(self) -> Vector:
        """Return the matrix S L, (n, n), or its diagonal, (n,), if that is all; sigma0 if fixed."""
        return self.model.root(self._steps0)

    def typical_gain(self) -> float:
        """Return the median decrease of f by the last steps; the predicted one before the first step."""
        return float(np.median(self.progress.gains)) if self.progress.gains else self.decrease

    def _learn_handed(self, values: Vector) -> None:
        """Scale the metric of another search to curvature 1, and take Newton's direction.

        A diagonal is scaled column by column, a matrix as a whole.
        """
        g, d = self._central(values)
        sizes, errors, model = np.abs(d), self._curvature_error(), self.model
        if model.separable:
            curvatures = np.maximum(sizes, np.maximum(errors, max(1e-12 * float(sizes.max()), TINY)))
            self.first_curvatures[...] = curvatures / model.diagonal**2
            factors = 1 / np.sqrt(curvatures)
        else:
            factor = 1 / math.sqrt(max(float(np.median(sizes)), float(np.median(errors)), TINY))
            factors = np.full(len(g), factor)
        model.rescale(factors)
        self.g = model.release(g, self._inward()) * factors
        self.trial.pending = Pending.NONE
        self._try({Direction.NEWTON: -self.g}, self._lowest(values))

    def _learn_start(self, values: Vector) -> None:
        if np.isnan(values).all():
            self.attempts += 1
            if self.attempts > ATTEMPTS:
                self._end("failures", self.attempts)
            return
        best = int(np.nanargmin(values))
        self._move(self._offsets()[best])
        self.f = values.item(best)
        self._begin_model()
        self.phase, self.after_noise = Phase.NOISE, Phase.FIRST

    def _learn_first(self, values: Vector) -> None:
        """Set L to the diagonal of the first stencil; try it, and its mean curvature for all coordinates."""
        k, stencil, f = len(self.movable), self.stencil, self.f
        lowest = self._lowest(values)
        sizes = np.abs(stencil.central_slopes(values[:k], values[k:], f, math.nan)[1])
        known = sizes[~np.isnan(sizes)]
        usual = float(np.median(known)) if len(known) else 1.0
        g, d = stencil.central_slopes(values[:k], values[k:], f, usual)
        g = self.model.release(g, self._inward())
        least = max(1e-12 * float(np.abs(d).max()), TINY)
        curvatures = np.maximum(np.abs(d), np.maximum(self._curvature_error(), least))
        self.first_curvatures[...] = curvatures
        self.model.set_diagonal(1 / np.sqrt(curvatures))
        self.g = g / np.sqrt(curvatures)
        directions = {Direction.NEWTON: -self.g}
        self.trial.pending = Pending.NONE
        if g @ g > 0:
            self.trial.pending = Pending.MEAN_CURVATURE
            self.trial.curvature = max(float(np.abs(d).mean()), TINY)
            directions[Direction.MEAN_CURVATURE] = -(g / self.trial.curvature) * np.sqrt(curvatures)
        self._try(directions, lowest)

    def _try(self, directions: dict[Direction, Vector], lowest: Point | None = None) -> None:
        """Begin an iteration: try unit steps, or a larger stencil if there are no slopes.

        ``lowest`` is the best point of a central stencil.
        """
        self.progress.iteration += 1
        self.decrease = 0.5 * float(self.g @ self.g)
        if self.decrease == 0.0:
            self._find_slopes(lowest)
            return
        trial = self.trial
        trial.set_directions(directions, self.g, self.model, self.progress.reach, self._room())
        numbers = (trial.p @ self.g, trial.p, trial.dx, self.decrease)
        if not all(np.isfinite(each).all() for each in numbers):
            self._end_numerically()
            return
        self.phase = Phase.TRIAL

    def _refine(self) -> None:
        """Try another step length, or finish the line search."""
        line = self.line
        if line.propose(self.f, self.errors.error(self.f), self.progress.reach):
            self.phase = Phase.REFINE
        elif line.t > 0:
            self._accept()
        else:
            self._find_decrease()

    def _find_slopes(self, lowest: Point | None) -> None:
        """Enlarge the stencil until values differ, or leave a saddle point."""
        progress = self.progress
        if lowest is not None and lowest.f < self.f - 2 * self.errors.error(self.f):
            self._move(lowest.offset)
            self.f, progress.failures = lowest.f, 0
            self._begin_stencil(Phase.AGAIN)
            return
        progress.failures += 1
        progress.grow *= 4
        reached = self.f == 0.0 and self.step.any()  # steps have led to values that underflow
        constant = bool(np.all(self.errors.recent == self.f)) and not reached
        if progress.failures <= (2 * MOST_FAILURES if constant else MOST_FAILURES):
            self._begin_stencil(Phase.AGAIN)
        elif constant:
            self._end("flat", progress.failures)
        else:
            self._end("converged", 0.0)

    def _find_decrease(self) -> None:
        """Improve the slopes after a line search without a decrease, or end."""
        progress = self.progress
        progress.failures += 1
        if progress.failures > MOST_FAILURES:
            small = self.decrease < 4 * len(self.g) * self.errors.error(self.f)
            ulps = np.abs(self._steps0 * self.line.dx) / np.spacing(np.abs(self.mean))
            unresolved = bool((ulps <= LAST_DIGITS).all())
            self._end("converged" if small or unresolved else "stuck", self.decrease)
        elif progress.failures == 1 and not self.stencil.central:
            self.phase = Phase.COMPLETE
        elif progress.failures == 2:
            self.phase, self.after_noise = Phase.NOISE, Phase.AGAIN
        else:
            if progress.failures > 2:
                progress.grow *= 4
            self._begin_stencil(Phase.AGAIN)

    def _start_anew(self, g: Vector, d: Vector, lowest: Point | None = None) -> None:
        """Rescale the columns of L to curvature 1 and take Newton's direction."""
        factors = 1 / np.sqrt(np.clip(self._significant(d), 1e-6, 1e12))
        self.model.rescale(factors)
        self.g = self.model.release(g, self._inward()) * factors
        self.trial.pending = Pending.NONE
        self._try({Direction.NEWTON: -self.g}, lowest)

    def _significant(self, d: Vector) -> Vector:
        """Return the magnitudes of second derivatives, at least their error; 1 if x was not resolved."""
        least = np.maximum(self._curvature_error(), 1e-8)
        return np.where(self._resolved(), np.maximum(np.abs(d), least), 1.0)

    def _resolved(self) -> npt.NDArray[np.bool_]:
        """Return whether the steps of the last stencil were long compared with the rounding of x."""
        ulps = np.spacing(np.abs(self.mean)) / self._steps0
        return self.model.exceeds(self.stencil.a, LAST_DIGITS * ulps)

    def _curvature_error(self) -> Vector:
        """Return the errors of the second derivatives of the last stencil; 0 where it has no size."""
        error: Vector = 6 * self.errors.error(self.f) / self.stencil.a**2
        return np.where(np.isfinite(error), error, 0.0)

    # Steps

    def _accept(self) -> None:
        """Move x to the end of the line search, learn the model of its direction, and begin a stencil."""
        line, progress, model = self.line, self.progress, self.model
        gain = self.f - line.f
        progress.succeeded(gain, self.decrease, line.longest * line.t)
        self.f, self.step = line.f, line.t * line.dx
        self._move(self.step)
        length = float(np.linalg.norm(self._steps0 * line.dx)) / math.sqrt(self.n) * max(line.t, 1.0)
        progress.lengths = [*progress.lengths, length][-3:]
        self.sigma = max(self.sigma0 * self._typical_step(), float(np.finfo(self.dtype).tiny))
        if progress.creeping >= CREEPING:
            self._renew()
            return
        self.trial.score(line.kind)
        p = self._learn_model()
        model.s = line.t * p
        self.expected = self.g * (1 - min(line.t, 1.0))
        self.decrease = min(self.decrease, max(gain, 1e-3 * self.decrease))
        if self.errors.is_outdated(self.f):
            self.phase, self.after_noise = Phase.NOISE, Phase.SLOPES
        else:
            self._begin_stencil(Phase.SLOPES)

    def _move(self, step: Vector) -> None:
        """Move x by ``step``, in units of sigma0, to a point that was evaluated."""
        self.mean[...] = self._points(step)

    def _learn_model(self) -> Vector:
        """Learn the model of the direction that won; return that direction in the new coordinates.

        The slopes are transformed, too.
        """
        line, trial, model = self.line, self.trial, self.model
        if line.kind == Direction.MEAN_CURVATURE:
            before, after = model.diagonal, np.full(len(self.g), 1 / math.sqrt(trial.curvature))
            model.set_diagonal(after)
            p: Vector = line.p * before / after
            self.g = self.g / before * after
        else:
            p, self.g = model.adopt(trial, Direction(line.kind), line.p, self.g)
        trial.pending = Pending.NONE
        return p

    def _renew(self) -> None:
        """Replace a metric whose steps gain little by a stencil along coordinates."""
        progress = self.progress
        progress.renewals += 1
        progress.creeping = 0
        if progress.renewals > 1:
            self._end("stuck", self.decrease)
            return
        large = sorted(progress.moves)[-len(progress.moves) // 4]
        self.model.set_diagonal(np.full(len(self.g), max(0.1 * large, 1e-9 * self._magnitude())))
        self.model.forget_pairs()
        self.model.separable = False
        self._begin_stencil(Phase.RENEW)

    def _learn_renewed(self, values: Vector) -> None:
        g, d = self._central(values)
        g = self.model.release(g, self._inward())
        sizes = np.abs(d)
        least = max(6 * self.errors.error(self.f), 1e-8 * float(sizes.max()), TINY)
        factors = 1 / np.sqrt(np.maximum(sizes, least))
        self.model.rescale(factors)
        self.g = g * factors
        self.trial.pending = Pending.NONE
        self._try({Direction.NEWTON: -self.g})

    # Slopes

    def _begin_stencil(self, phase: Phase) -> None:
        """Begin a stencil: hold coordinates at bounds, and choose its size and sides."""
        model, error = self.model, self.errors.error(self.f)
        if not model.is_finite:
            self._end_numerically()
            return
        self.phase, model.turned = phase, False
        if self.lower is not None:
            outside = set(model.holds.tolist())
            at_bounds = self.movable[self._inward()[self.movable] != 0].tolist()
            model.hold([coordinate for coordinate in at_bounds if coordinate not in outside])
        tau, signs = self._stencil_size(phase, error), None
        if tau == 0.0:
            tau = math.sqrt(2 * max(error, NEGLIGIBLE * self.decrease / len(self.g)))
            random = np.where(self.generator(1).random(len(self.g)) < 0.5, -1.0, 1.0)
            expected = np.zeros(len(self.g)) if model.turned else self.expected
            signs = np.where(expected == 0, random, -np.sign(expected))
        room = self._room()
        self.stencil.place(tau, signs, None if room is None else partial(model.room_along, room))

    def _stencil_size(self, phase: Phase, error: float) -> float:
        """Return the distance tau of a central stencil, or 0 if a one-sided one is exact enough."""
        if phase == Phase.FIRST:
            return FIRST_STEP
        if phase == Phase.HANDED:
            return HANDED_STEP
        if phase == Phase.RENEW:
            return 1.0
        large = math.sqrt(2 * CENTRAL * error) * self.progress.grow
        if phase == Phase.AGAIN:
            return large
        tau = math.sqrt(2 * max(error, NEGLIGIBLE * self.decrease / len(self.g)))
        inexact = len(self.g) * tau**2 / 2 > 0.01 * self.decrease
        good = GOOD_RHO[0] <= self.line.rho <= GOOD_RHO[1]
        doubtful = self.model.separable and self.errors.relative >= 1e-13 and not good
        return large if inexact or doubtful else 0.0

    def _central(self, values: Vector) -> tuple[Vector, Vector]:
        k = len(self.movable)
        return self.stencil.central_slopes(values[:k], values[k:], self.f)

    def _learn_slopes(self, values: Vector) -> None:
        if self.stencil.central:
            self._learn_step(*self._central(values))
            return
        self.stencil.take(np.arange(len(values)), values)
        if self.stencil.missing.any():
            self.phase = Phase.REPEAT
        else:
            self._learn_step(self.stencil.one_sided_slopes(self.f), None)

    def _learn_repeated(self, values: Vector) -> None:
        stencil = self.stencil
        failed = np.flatnonzero(stencil.missing)
        stencil.take(failed, values)
        stencil.swap(failed)
        self._learn_step(stencil.one_sided_slopes(self.f), None)

    def _learn_step(self, new: Vector, d: Vector | None) -> None:
        """Learn from the slopes ``new``, and second derivatives ``d`` if known, after a step."""
        model, progress = self.model, self.progress
        before = self.g
        used = model.diagonal
        if d is not None and model.separable:
            factors = 1 / np.sqrt(np.clip(self._significant(d), 0.04, 25.0))
            model.rescale(factors)
            before, new, model.s = before * factors, new * factors, model.s / factors
        held = model.holds >= 0
        new = model.release(new, self._inward())
        good = progress.judge(self.line.rho)
        if model.separable:
            if good:
                model.good = used
            if self._is_not_separable():
                model.separable = False
                before, new = self._leave_separable_mode(before, new)
        model.y = np.where(held, 0.0, new - before)
        self.g = new
        if model.separable:
            if d is None:
                self._learn_coordinates()
            self._try({Direction.NEWTON: -self.g})
        else:
            self.trial.pending = Pending.NONE
            self._try(model.directions(new, self.step, self.trial, progress.iteration))

    def _is_not_separable(self) -> bool:
        """Return whether predictions of the diagonal model have become bad."""
        progress, t = self.progress, self.line.t
        tolerated = 0 if progress.iteration == 1 or self.errors.relative < 1e-13 else 1
        far_off = progress.bad > 0 and not 0.1 < t < 10
        return progress.bad > tolerated or far_off or sum(progress.recent_bad) > 3

    def _leave_separable_mode(self, before: Vector, new: Vector) -> tuple[Vector, Vector]:
        """Return to the last diagonal that predicted well; return the slopes in its coordinates."""
        model, line = self.model, self.line
        old = model.diagonal
        diagonal = old
        if self.progress.iteration > 1:
            if model.good.any():
                diagonal = model.good
        elif line.kind == Direction.NEWTON and line.t < 0.2:
            curvatures = self.first_curvatures
            if float(np.std(np.log(curvatures))) < 3:  # scales of coordinates would only spread the spectrum
                diagonal = np.full(len(new), math.sqrt(1 / float(curvatures.mean())))
        if diagonal is not old:
            model.set_diagonal(diagonal)
            model.s = model.s * old / diagonal
        return before / old * diagonal, new / old * diagonal

    def _learn_coordinates(self) -> None:
        """Update the diagonal L by the secants of single coordinates."""
        model = self.model
        ratios = model.y / model.s
        long = np.abs(model.s) > 1e-6 * float(np.linalg.norm(model.s)) / math.sqrt(self.n)
        known = np.isfinite(ratios) & long & (ratios > 0) & self._resolved()
        factors = 1 / np.sqrt(np.where(known, np.clip(ratios, 0.02, 50.0), 1.0))
        model.rescale(factors)
        self.g = self.g * factors

    # End

    def restored(self) -> None:
        """Raise ValueError if parts of the restored state contradict one another."""
        n, k, trial, told = self.n, len(self.movable), self.trial, len(self.stencil.told)
        rows = len(trial.kinds)
        consistent = {
            **self.model.contradictions(),
            "stencil.told": not told or (self.phase in STENCILS and told < self._rows_of_stencil),
            "trial": trial.p.shape == (rows, k) and trial.dx.shape == (rows, n) and len(trial.t) == rows,
            "phase": {Phase.TRIAL: rows, Phase.REPEAT: self.stencil.missing.any()}.get(self.phase, True),
            "after_noise": self.after_noise in (Phase.FIRST, Phase.AGAIN, Phase.SLOPES, Phase.HANDED),
            "ending": (self.phase == Phase.ENDED) == (self.ending > 0),
        }
        for name, holds in consistent.items():
            if not holds:
                raise ValueError(f"state[{name!r}] contradicts the rest of the state")

    def _end(self, reason: str, value: float) -> None:
        self.phase = Phase.ENDED
        self.ending, self.ending_value = ENDINGS.index(reason), float(value)

    def _end_numerically(self) -> None:
        """End because of numbers that are not finite, which must not become part of the state."""
        self._end("numerical", self.sigma)
        self._begin_model()
        self.g, self.decrease = np.zeros(len(self.movable)), 0.0

    def stop(self) -> dict[str, float]:
        """Return the reason why the search has ended, if it has."""
        return {ENDINGS[self.ending]: self.ending_value} if self.ending else {}

    def spread(self, candidates: Array) -> float:
        """Return the length per coordinate of the longest of the last steps.

        A stencil says nothing about convergence, nor does a step that had to be shortened.
        """
        return max(self.progress.lengths, default=float(np.linalg.norm(self._steps0)) / math.sqrt(self.n))

    def hess_inv(self) -> MetricOperator:
        """Return the inverse Hessian, up to the factor sigma0^2."""
        from lmma.numerics.metric import MetricOperator

        return MetricOperator(self.model.transform(), self.scale, self.n, self.dtype)

    def metric(self) -> Metric:
        """Return the learned metric as a record."""
        return self.model.record(self.mean, self.sigma, self.scale)


class QuasiNewton(Strategy):
    """Quasi-Newton search for smooth functions: differences of values in a learned metric, O(n).

    On smooth functions it needs a fraction of the evaluations of an evolution strategy, also if values have
    few digits, come from float32, carry a little noise, or are missing. It uses the values themselves: unlike
    the other methods it is not invariant under increasing transformations of fun, and it gets stuck on
    functions with kinks or a rugged surface.

    Batches differ in size: up to 2n rows for slopes, and one to three for a step, for any number of workers.
    Beyond 2048 variables, the rows for slopes are divided into batches of at most 64 MB.
    ``popsize`` only affects the number of batches that stopping rules and restarts consider.

    Up to 1000 variables, the inverse of the Hessian is stored as a matrix, in all about 10 n^2 numbers.
    Beyond, it is stored as a diagonal and the last 12 pairs of steps and changes of slopes, about 100 n
    numbers. The scales of coordinates are then learned as quickly; dependencies between them take more steps.

    Bounds are kept by the method itself: steps end at the faces of the box, and ``boundary`` has no effect.
    Integers, choices, constraints, ``noise=``, injected points and resampling are not supported.

    Arguments are those of :class:`lmma.Strategy`.

    Examples
    --------
    >>> es = lmma.QuasiNewton(np.full(8, 3.0), 1.0, rng=1)
    >>> while not es.stop():
    ...     es.tell(np.sum(es.ask() ** 2, axis=1))
    >>> es.best_fun < 1e-9, es.evaluations < 100
    (True, True)

    References
    ----------
    Al-Baali, *Numerical experience with a class of self-scaling quasi-Newton algorithms*, Journal of
    Optimization Theory and Applications 96 (1998). Moré and Wild, *Estimating computational noise*, SIAM
    Journal on Scientific Computing 33 (2011). Nocedal, *Updating quasi-Newton matrices with limited storage*,
    Mathematics of Computation 35 (1980).
    """

    METHOD = QuasiNewtonMethod
    method: QuasiNewtonMethod
