"""Trust-region search with an interpolation model of least change, in a slowly learned metric. New in lmma.

=========  =======================  =========  ============================================================
symbol     code                     shape      meaning
=========  =======================  =========  ============================================================
x_k        ``mean``                 (n,)       best point; candidates are x_k + S L d
S          ``_steps0``              (n,)       sigma0, by coordinate
L          ``model.L``              (k, k)     learned metric; k = n coordinates move, without those that
                                               bounds fix
X, F       ``model.X, .F``          (m, k)     interpolation points and their values, m = 2k + 1
base       ``model.base``           (k,)       origin of u: x = base + S L u
u          ``model.U``              (m, k)     points in the metric
Q          ``model.c, .g, .B``      (k, k)     model c + g.u + u.B u/2, equal to F at all points
H          ``model.H``              (m+k+1)²   inverse of the matrix of the interpolation conditions
s          ``model.length``         float      unit of length of H: v = u/s
Delta      ``region.delta``         float      radius of the trust region, in u
rho        ``region.rho``           float      its lower limit, which only shrinks when the model is good
eps        ``errors.error(f)``      float      error of a value, see ``numerics/value_noise.py``
=========  =======================  =========  ============================================================

Every batch is a *phase*; its rows are planned when the previous values arrive, and kept in the state:

==========  ================  ===========================================================================
phase       rows              use
==========  ================  ===========================================================================
START       1; 4 on failure   value at x0, or at points near it if that fails
NOISE       8                 values at tiny, equal distances on a random line: eps
FIRST       2k                about x +- 0.1 S e_j: slopes and the diagonal of the Hessian
TRIAL       1                 Newton step by coordinate
STEP        1                 the minimum of the model in the trust region
GEOMETRY    1                 a point that replaces one far away
LONG        1                 at the floor of the noise: a step of length rho
FLOOR       2k                at the floor of the noise: a stencil of random directions replaces all points
HANDED      2k                a stencil along the columns of a metric that another search learned
ENDED       1                 a random point nearby; ``stop()`` has the reason
==========  ================  ===========================================================================

A row that fails is repeated: a step nearer to x_k, a point of a stencil at other distances. Then the batch
has only these rows.

The model is Powell's (NEWUOA, 2006): among all quadratics that interpolate the 2k + 1 values, the one whose
Hessian differs least, in the Frobenius norm, from that of the previous model. Each evaluation replaces one
point. As the points lie at the distance of the trust region, rounding and noise of values matter little.

*Metric.* Every 2k updates, with B = V diag(lam) V^T and a = max(|lam|, max|lam|/100, 4 eps/Delta^2),

    T = V diag((a/mean a)^-p) V^T,   L <- L T,  g <- T^T g,  B <- T^T B T,

with the geometric mean of a: a moving average of the logarithm of the metric. Points and values are kept;
only the norm changes in which changes of B are small, and the shape of the trust region. Constant
ill-conditioning adds up, while the axes of a curved valley average out; a metric that follows B at once would
spoil the steps along such a valley.
The power p depends on C = V diag(ln a) V^T, without its trace: it is 0.05 if the cosine between C and that of
the last change is at most 0.88, as in a valley that turns, and grows to 0.2 at 0.98.

*Floor of the noise.* Differences at distances below low = sqrt(8 eps/mean|lam|) are noise. Instead of a rho
below it, a stencil of growing radius in random directions replaces all points, and B is changed by least
norm. The steps after it are lengthened to rho if they are shorter: only so are directions found in which the
function is so flat that the gain is hidden at smaller distances.

*Bounds.* Steps minimise the model with coordinates held at the faces that the step would leave through.
Points of a stencil near a face lie on the same side of x, at h and 2h.
"""

from __future__ import annotations

import math
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self, final

import numpy as np
import numpy.typing as npt

from lmma.kernels.blas import limited_threads
from lmma.methods.ask_tell import Strategy
from lmma.methods.base import Method
from lmma.methods.quasi_newton import ATTEMPTS, ENDINGS, LARGEST, LINE, NEAR, Room, Stencil
from lmma.numerics.linalg import Factors, row_squares
from lmma.numerics.recombination import Array, Indices
from lmma.numerics.state import (
    COUNT,
    DISTANCE,
    FINITE,
    FLAG,
    NOT_NAN,
    NOT_NEGATIVE,
    POSITIVE,
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

MOST_VARIABLES = 200  # a step costs O(n^3) operations and a checkpoint 16 n^2 numbers
FIRST_STEP = 0.1  # of the first stencil, in units of sigma0; 0.3 and 1 need about as many evaluations
SPREAD = 0.1  # of its random factor, which lets runs from the same point differ
REACH = 4.0  # largest change of a coordinate in the trial, and radius of stencils, in units of sigma0
GOOD_RATIO = (0.5, 1.8)  # gain of the trial over the predicted one with which the diagonal is right
SCALES_DIFFER = 3.0  # standard deviation of ln(curvature) above which the diagonal is kept in any case
LEAST_CURVATURE = 1e-12  # of the first stencil, relative to the largest
POOR, GOOD = 0.1, 0.7  # gain over the predicted gain: Delta shrinks below, and grows above (Powell 2006)
SHRINK = 0.1  # of rho (Powell 2006)
CLOSE = 1.5  # Delta up to 1.5 rho becomes rho (Powell 2006)
SHORT = 0.5  # of rho: shorter steps are not evaluated (Powell 2006)
ACCURATE = 0.125  # of rho^2 times curvature: smaller errors of the model allow a smaller rho (Powell 2006)
FAR = 2.0  # of Delta: points beyond are replaced (Powell 2006)
DISTANCE_POWER = 3  # of squared distance: far points leave first (Powell 2006)
LEAST_WEIGHT = 1e-2  # with which a point without a decrease enters the set
LEAST_WEIGHT_LONG = 1e-4  # the same after a long step, which is meant to show curvature
LEAST_PIVOT = 1e-12  # smallest denominator of an update of H
METRIC_EVERY = 2  # updates per variable between changes of the metric
METRIC_POWER = (0.05, 0.2)  # of |B|; large powers follow the turns of a curved valley
AGREEMENT = (0.88, 0.98)  # of ln|B| with the last one, at which the power is the smaller and the larger one
METRIC_RATIO = 100.0  # largest ratio of curvatures that one change of the metric uses
METRIC_NOISE = 4.0  # curvatures below eps/Delta^2 times this could be noise
LEAST_RHO = 0.1  # of Delta, after a change of the metric
STEPS_KEPT = 8  # successful steps, whose length a change of the metric keeps
FLOOR = 4.0  # gains below eps times this are noise
OUTDATED = 0.01  # fall of the value after which an absolute error is estimated again
NOISY = 1e-12  # relative error of values from which on the rule for noise applies
FLOOR_STENCILS = 12  # stencils without a decrease, after which a search under noise has converged
EXACT_STENCILS = 2  # the same for exact values
FLAT_STENCILS = 4  # stencils of equal values, after which a function is flat
WIDER = 2.0  # factor of the radius of each further stencil
LONG_STEPS = 3  # steps without a decrease after such a stencil
CLEAR_GAIN = 10.0  # predicted gain, in eps, above which a short step is worth an evaluation
LONG_GROWTH = 4.0  # of Delta after a long step that decreased f
DRIFT = 10.0  # distance of the best point from base, in Delta, beyond which base moves
NEARER = 0.93  # factor of a step whose point failed
MOST_NEARER = 5  # tries of a step
INSTEAD = (1.0, 0.9, -1.9, 0.5, -1.5, 0.2, -1.2)  # factors of a point of a stencil that failed
RESOLUTION = 4.0  # length of rho in a coordinate, in units in the last place, below which points coincide
SHORTEST = 1e-60  # the same in units of sigma0, for an optimum at 0: values would underflow
KINK = 1e4  # growth of curvature since the first stencil that means a kink
LEAST_ROOT = 1e-6  # curvature that the root of the metric uses, relative to the largest
GAINS_KEPT = 10  # gains of the last steps


class Phase(IntEnum):
    """Use of the next batch."""

    START = 0
    NOISE = 1
    FIRST = 2
    TRIAL = 3
    STEP = 4
    GEOMETRY = 5
    LONG = 6
    FLOOR = 7
    HANDED = 8
    ENDED = 9


STENCILS = frozenset((Phase.FIRST, Phase.FLOOR, Phase.HANDED))
TOWARDS = frozenset((Phase.TRIAL, Phase.STEP, Phase.GEOMETRY, Phase.LONG))  # single steps from x_k


class Step(NamedTuple):
    """A step d in u from the best point."""

    d: Vector
    length: float
    gain: float  # predicted decrease
    least: float  # least curvature of the model if the step ends inside the trust region; else 0


def minimum_in_ball(curvatures: Vector, slopes: Vector, radius: float) -> tuple[Vector, bool]:
    """Return the z with |z| <= radius that minimises slopes.z + sum(curvatures z^2)/2, and True if inside.

    ``curvatures`` are in ascending order. On the boundary (curvatures + shift) z = -slopes, and 1/|z| is
    almost linear in the shift: Newton's method, kept within an interval (Moré and Sorensen 1983).
    """
    size = float(np.linalg.norm(slopes))
    least, largest = float(curvatures[0]), float(np.abs(curvatures).max())
    if size == 0.0 and least >= 0.0:
        return np.zeros(len(slopes)), True
    if least > 1e-12 * largest:
        z = -slopes / curvatures
        if float(z @ z) <= radius * radius:
            return z, True
    low = max(0.0, -least)
    high = low + size / radius + 1e-12 * largest
    shift = max(low + 1e-12 * largest, size / radius - float(curvatures[-1]), TINY)
    for _ in range(60):
        z = -slopes / (curvatures + shift)
        length = float(np.linalg.norm(z))
        if not length > 0.0 or abs(length - radius) < 1e-3 * radius:
            break
        if length > radius:
            low = max(low, shift)
        else:
            high = min(high, shift)
        change = float(np.sum(z * z / (curvatures + shift)))
        following = shift + length * length / change * (length - radius) / radius
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - shift) <= 1e-14 * abs(shift):
            break
        shift = following
    z = -slopes / (curvatures + shift)
    length = float(np.linalg.norm(z))
    if length > radius:
        z *= radius / length
    elif least < 0.0 and length < 0.99 * radius:  # the hard case: no slope along the most negative curvature
        z[0] += math.copysign(math.sqrt(radius**2 - length**2), -slopes[0] if slopes[0] else 1.0)
    return z, False


def minimum_of_quadratic(B: Vector, g: Vector, radius: float) -> Step:
    """Return the step that minimises g.d + d.B d/2 for |d| <= radius."""
    if not len(g):
        return Step(g, 0.0, 0.0, 0.0)
    curvatures, axes = np.linalg.eigh(B)
    z, inside = minimum_in_ball(curvatures, axes.T @ g, radius)
    d = axes @ z
    gain = -(float(g @ d) + 0.5 * float(d @ (B @ d)))
    return Step(d, float(np.linalg.norm(d)), gain, float(curvatures[0]) if inside else 0.0)


class Effects(NamedTuple):
    """Powell's quantities for replacing each of the points by a new one: sigma = alpha beta + tau^2."""

    alpha: Vector
    beta: float
    tau: Vector
    sigma: Vector
    Hw: Vector


@final
class Model:
    """The interpolation points and the quadratic through their values.

    Attributes
    ----------
    best : int
        Number of the best point.
    since : int
        Updates since H was computed by inversion.
    hidden : float
        Curvatures up to here are hidden by noise.

    Other attributes are in the table of the module.
    """

    STATE: ClassVar[Declared] = {
        "L": FINITE, "X": FINITE, "F": FINITE, "U": FINITE, "best": COUNT, "base": FINITE, "c": FINITE,
        "g": FINITE, "B": FINITE, "H": FINITE, "length": POSITIVE, "since": COUNT,
        "hidden": NOT_NEGATIVE,
    }  # fmt: skip

    def __init__(self, n: int, movable: Indices) -> None:
        k = len(movable)
        m = 2 * k + 1
        self.n, self.movable = n, movable
        self.L: Vector = FIRST_STEP * np.eye(k)
        self.X: Vector = np.zeros((m, k))
        self.F: Vector = np.zeros(m)
        self.U: Vector = np.zeros((m, k))
        self.best = 0
        self.base: Vector = np.zeros(k)
        self.c = 0.0
        self.g: Vector = np.zeros(k)
        self.B: Vector = np.zeros((k, k))
        self.H: Vector = np.zeros((m + k + 1, m + k + 1))
        self.length = 1.0
        self.since = 0
        self.hidden = 0.0

    def is_finite(self) -> bool:
        """Return whether all numbers are finite."""
        parts = (self.L, self.X, self.U, self.base, self.c, self.g, self.B, self.H)
        return all(bool(np.isfinite(part).all()) for part in parts)

    def replace_all(self, x: Vector, f: float, X: Vector, F: Vector) -> None:
        """Replace all points: ``x`` with value ``f``, the best one so far, and ``X`` with values ``F``."""
        self.g += self.B @ self.U[self.best]
        self.X[0], self.X[1:] = x, X
        self.F[0], self.F[1:] = f, F
        self.U[...] = 0.0
        self.best = 0

    def rebuild(self, length: float, steps0: Vector, change: Vector | None = None) -> None:
        """Move base to the best point, multiply L by ``change`` if given, and compute H by inversion."""
        k, m = len(self.base), len(self.F)
        self.g += self.B @ self.U[self.best]
        self.c = float(self.F[self.best])
        self.base[...] = self.X[self.best]
        if change is not None:
            self.L[...] = self.L @ change
            self.g[...] = change.T @ self.g
            B = change.T @ self.B @ change
            self.B[...] = 0.5 * (B + B.T)
        self.U[...] = np.linalg.solve(self.L, ((self.X - self.base) / steps0).T).T
        self.U[self.best] = 0.0
        self.length, self.since = length, 0
        V = self.U / length
        W = np.zeros((m + k + 1, m + k + 1))
        W[:m, :m] = 0.5 * (V @ V.T) ** 2
        W[:m, m] = W[m, :m] = 1.0
        W[:m, m + 1 :], W[m + 1 :, :m] = V, V.T
        scales = np.ones(m + k + 1)
        scales[:m] = 1 / np.maximum(1.0, np.sum(V * V, axis=1))  # else far points would hide near ones
        scales[m + 1 :] = 1 / np.maximum(np.abs(V * scales[:m, None]).max(axis=0), 1e-8)
        H = np.linalg.inv(W * scales[:, None] * scales) * scales[:, None] * scales
        if not np.isfinite(H).all():
            raise np.linalg.LinAlgError("points coincide")
        self.H[...] = 0.5 * (H + H.T)
        self._add(self.H[:, :m] @ (self.F - self.values(self.U)))

    def values(self, U: Vector) -> Vector:
        """Return the values of the model at ``U``, (rows, k)."""
        found: Vector = self.c + U @ self.g + 0.5 * np.sum((U @ self.B) * U, axis=1)
        return found

    def slopes(self) -> Vector:
        """Return the slopes of the model at the best point."""
        found: Vector = self.g + self.B @ self.U[self.best]
        return found

    def offset(self, x: Vector, steps0: Vector) -> Vector:
        """Return the u of a point."""
        return np.asarray(np.linalg.solve(self.L, (x - self.base) / steps0), dtype=np.float64)

    def _quadratic(self, column: Vector) -> tuple[float, Vector, Vector]:
        """Return c, g and B of the quadratic with coefficients ``column`` = (lambda, c, g/s)."""
        m, V = len(self.F), self.U / self.length
        B = (V.T * column[:m]) @ V / self.length**2
        return float(column[m]), column[m + 1 :] / self.length, B

    def _add(self, column: Vector) -> None:
        c, g, B = self._quadratic(column)
        self.c += c
        self.g += g
        self.B += B

    def lagrange(self, point: int) -> tuple[float, Vector, Vector]:
        """Return c, g and B of the quadratic that is 1 at ``point`` and 0 at all others, of least Hessian."""
        return self._quadratic(self.H[:, point])

    def effects(self, u: Vector) -> Effects:
        """Return the effects of replacing each of the points by ``u``."""
        m, k = len(self.F), len(u)
        v, V = u / self.length, self.U / self.length
        w = np.empty(m + k + 1)
        w[:m], w[m], w[m + 1 :] = 0.5 * (V @ v) ** 2, 1.0, v
        Hw = self.H @ w
        beta = 0.5 * float(v @ v) ** 2 - float(w @ Hw)
        alpha, tau = self.H.diagonal()[:m], Hw[:m]
        return Effects(alpha, beta, tau, alpha * beta + tau * tau, Hw)

    def leaving(self, u: Vector, f: float, effects: Effects, length: float) -> tuple[int, float]:
        """Return the point that ``u`` with value ``f`` should replace, and its weight.

        Points farther than ``length`` from the best one leave first. That one stays unless it is beaten.
        """
        better = f < float(self.F[self.best])
        distances = np.sum((self.U - (u if better else self.U[self.best])) ** 2, axis=1) / length**2
        weights = np.abs(effects.sigma) * np.maximum(1.0, distances) ** DISTANCE_POWER
        if not better:
            weights[self.best] = -1.0
        point = int(np.argmax(weights))
        return point, float(weights[point])

    def replace(self, point: int, x: Vector, u: Vector, f: float, effects: Effects) -> None:
        """Replace ``point`` by ``x``, at ``u``, with value ``f``: update H, and Q by least change."""
        alpha, beta, tau, sigma = (
            effects.alpha[point], effects.beta, effects.tau[point], effects.sigma[point]
        )  # fmt: skip
        residual = f - float(self.values(u[None])[0])
        h, e = self.H[:, point].copy(), -effects.Hw
        e[point] += 1.0
        both = np.stack((h, e))
        change = both.T @ (np.array([[-beta, tau], [tau, alpha]]) @ both) / sigma
        self.H += (change + change.T) / 2  # exactly symmetric
        better = f < float(self.F[self.best])
        self.X[point], self.U[point], self.F[point] = x, u, f
        self._add(self.H[:, point] * residual)
        self.since += 1
        if better:
            self.best = point

    # The learned metric, and the model as its transform for ``lmma.numerics.metric``

    def root(self) -> Vector:
        """Return R = L |B|^-1/2, with R R^T near the inverse Hessian; L before the first values.

        Curvatures that noise hides or below a millionth of the largest one are raised to these limits.
        """
        if not self.B.any():
            return self.L
        lam, axes = np.linalg.eigh(self.B)
        sizes = np.abs(lam)
        least = max(LEAST_ROOT * float(sizes.max()), self.hidden)
        found: Vector = self.L @ ((axes / np.sqrt(np.maximum(sizes, least))) @ axes.T)
        return found

    def _transform(self) -> Vector:
        """Return R for all coordinates, in units of sigma0; 1 for fixed ones."""
        found = np.eye(self.n)
        found[np.ix_(self.movable, self.movable)] = self.root()
        return found

    def apply(self, z: Array) -> Array:
        """Return R z."""
        return z @ self._transform().T

    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of R times d."""
        return d @ self._transform()

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return the diagonal of R R^T at ``columns``."""
        return row_squares(self._transform(), columns)

    def factors(self) -> Factors:
        """Return R."""
        return Factors(matrix=self._transform())

    def without_sample(self) -> Self:
        """Return the model itself: it holds no candidates."""
        return self


@final
class Region:
    """The trust region, and the counters that decide what follows a step.

    Attributes
    ----------
    steps : ndarray, (j, k)
        The last successful steps, in u.
    misfits : list of float
        Error of the model at the last three steps.
    updates : int
        Points replaced since the metric changed.
    logs : ndarray, (k, k)
        Logarithm of |B| at the last change of the metric, without its trace; 0 before.
    hits, mark : int, float
        Stencils at the floor of the noise without a decrease, and the value from which it counts.
    left : int
        Long steps left until the next such stencil.
    gains, lengths : list of float
        Decrease of f by each of the last steps, and the length per coordinate of the last 3, in sigma0.
    first_curvature : float
        Sum of the curvatures of the first stencil along coordinates, in units of sigma0; 0 if unknown.
    """

    STATE: ClassVar[Declared] = {
        "delta": POSITIVE, "rho": POSITIVE, "steps": FINITE, "misfits": NOT_NEGATIVE, "updates": COUNT,
        "logs": FINITE,
        "hits": COUNT, "mark": NOT_NAN, "left": COUNT, "gains": NOT_NEGATIVE, "lengths": NOT_NEGATIVE,
        "first_curvature": NOT_NEGATIVE,
    }  # fmt: skip
    VARIABLE: ClassVar[tuple[str, ...]] = ("steps",)

    def __init__(self, k: int) -> None:
        self.delta, self.rho = 1.0, 1.0
        self.steps: Vector = np.empty((0, k))
        self.misfits: list[float] = []
        self.updates = 0
        self.logs: Vector = np.zeros((k, k))
        self.hits, self.mark, self.left = 0, math.inf, 0
        self.gains: list[float] = []
        self.lengths: list[float] = []
        self.first_curvature = 0.0

    def resize(self, delta: float) -> None:
        """Set Delta, to rho if it is close to it."""
        self.delta = self.rho if delta <= CLOSE * self.rho else delta

    def power(self, logs: Vector) -> float:
        """Return the power of |B| for a change of the metric, by how little its logarithm has changed."""
        size = float(np.linalg.norm(logs)) * float(np.linalg.norm(self.logs))
        agreement = float(np.sum(logs * self.logs)) / size if size > 0 else 0.0
        self.logs[...] = logs
        (least, most), (low, high) = METRIC_POWER, AGREEMENT
        return least + (most - least) * min(max((agreement - low) / (high - low), 0.0), 1.0)

    def judge(self, ratio: float, length: float) -> None:
        """Set Delta after a step with this ratio of the gain to the predicted one."""
        if ratio <= POOR:
            self.resize(0.5 * min(self.delta, length))
        elif ratio <= GOOD:
            self.resize(max(0.5 * self.delta, length))
        else:
            self.resize(max(0.5 * self.delta, 2 * length))

    def moved(self, gain: float, length: float) -> None:
        """Remember a decrease of f."""
        self.gains = [*self.gains, min(gain, LARGEST)][-GAINS_KEPT:]
        self.lengths = [*self.lengths, length][-3:]


@final
class Plan:
    """The points of the next batch.

    Attributes
    ----------
    points : ndarray, (rows, n)
        All points of the phase, as they are evaluated.
    values, missing : ndarray, (rows,)
        Values of these points as far as known, and whether they are unknown: these rows are the batch.
    attempt : int
        How often failed rows have been repeated.
    d, gain, least, target, near : ndarray, float, float, int, bool
        Of a single step: the step in u, its predicted gain, the least curvature, the point that it is to
        replace, and whether a step at the floor of the noise has kept its length.
    """

    STATE: ClassVar[Declared] = {
        "points": FINITE, "values": FINITE, "missing": FLAG, "attempt": COUNT, "d": FINITE, "gain": FINITE,
        "target": COUNT, "near": FLAG,
    }  # fmt: skip
    VARIABLE: ClassVar[tuple[str, ...]] = ("points", "values", "missing")

    def __init__(self, n: int, k: int) -> None:
        self.d: Vector = np.zeros(k)
        self.gain, self.target, self.near = 0.0, 0, False
        self.set(np.zeros((1, n)))

    def set(self, points: Vector) -> None:
        """Plan to evaluate ``points``."""
        self.points = points
        self.values: Vector = np.zeros(len(points))
        self.missing = np.ones(len(points), dtype=bool)
        self.attempt = 0

    def take(self, values: Vector) -> bool:
        """Store the values of the missing rows, NaN for failures; return True if none is missing now."""
        failed = np.isnan(values)
        self.values[self.missing] = np.where(failed, 0.0, values)
        self.missing[self.missing] = failed
        return not self.missing.any()


@final
class InterpolationMethod(Method):
    """The phases of the search."""

    name = "interpolation"
    uses_values = True
    supports = frozenset(("bounds",))
    keeps_bounds = True
    STATE: ClassVar[Declared] = {
        "phase": Range("the number of a phase", least=0, most=len(Phase) - 1, integer=True),
        "after_noise": Range("the number of a phase", least=0, most=len(Phase) - 1, integer=True),
        "f": VALUE, "step": FINITE,
        "attempts": COUNT,
        "ending": Range("the number of an ending", least=0, most=len(ENDINGS) - 1, integer=True),
        "ending_value": DISTANCE,
    }  # fmt: skip

    @classmethod
    def memory(cls, n: int, popsize: int, itemsize: int = 8) -> int:
        """Return the memory of H and its temporaries, the points, L, B and their temporaries."""
        return 8 * (5 * 9 + 20) * n * n + 2 * n * n * itemsize

    def initialise(self) -> None:
        """Start again at the mean."""
        n = self.n
        bounds = self.settings.bounds
        self.lower: Vector | None = None  # None without bounds
        self.upper: Vector = np.full(n, math.inf)
        self.movable: Indices = np.arange(n)  # coordinates that are not fixed by their bounds
        if bounds is not None:
            self.lower, self.upper = bounds[0].astype(np.float64), bounds[1].astype(np.float64)
            self.movable = np.flatnonzero(self.lower < self.upper)
        if len(self.movable) > MOST_VARIABLES:
            raise ValueError(
                f"interpolation supports at most {MOST_VARIABLES} variables, got {len(self.movable)}: "
                "set method='quasi-newton'"
            )
        self.phase, self.after_noise = Phase.START, Phase.FIRST
        self.f = math.inf
        self.step: Vector = np.zeros(n)  # last step, in units of sigma0
        self.attempts = 0  # batches of points near an x0 that failed
        self.ending, self.ending_value = 0, 0.0
        self._begin_model()
        self.errors = ValueNoise()
        self._blas = limited_threads(n, 2 * n, dense=True)

    def _begin_model(self) -> None:
        """Forget everything learned about the function, but not the errors of its values."""
        k = len(self.movable)
        self.model, self.region = Model(self.n, self.movable), Region(k)
        self.plan = Plan(self.n, k)

    def learned_parts(self) -> dict[str, object]:
        """Return the model, without the batch that is planned."""
        return {"model": self.model}

    def parts(self) -> dict[str, object]:
        """Return the stateful components, by name."""
        return {"model": self.model, "region": self.region, "plan": self.plan, "errors": self.errors}

    # Candidates

    @property
    def batch_size(self) -> int:
        """Number of rows of the next batch."""
        return int(np.count_nonzero(self.plan.missing))

    def sample(self, out: Array) -> None:
        """Fill ``out`` with the rows of the phase."""
        if self.phase == Phase.ENDED:
            out[...] = self._points(self._typical_step() * self._normal(0, (1, len(self.movable))))
        elif self.phase == Phase.START and not self.attempts:
            out[...] = self.mean
        else:
            out[...] = self.plan.points[self.plan.missing]

    def _normal(self, stream: int, shape: tuple[int, ...]) -> Vector:
        return self.generator(stream).standard_normal(shape)

    def _points(self, offsets: Vector, *, snap: bool = False) -> Vector:
        """Return the points at ``offsets`` from x_k, in units of sigma0: inside the box, as evaluated.

        With ``snap``, points that only miss a bound by rounding lie on it.
        """
        points: Vector = np.tile(self.mean.astype(np.float64), (len(offsets), 1))
        points[:, self.movable] += self._moves0 * offsets
        if not np.isfinite(points).all():
            points = np.clip(points, np.finfo(self.dtype).min, np.finfo(self.dtype).max)
        if self.lower is not None:
            np.clip(points, self.lower, self.upper, out=points)
        for bound in (self.lower, self.upper) if snap and self.lower is not None else ():
            assert bound is not None
            close = np.abs(points - bound) <= 4 * np.spacing(np.maximum(np.abs(points), np.abs(bound)))
            points = np.where(close, bound, points)
        return points.astype(self.dtype).astype(np.float64)

    def _room(self) -> Room | None:
        """Return the distances to the bounds, in units of sigma0, or None without bounds."""
        if self.lower is None:
            return None
        x, steps0, j = self._x, self._moves0, self.movable
        return Room((self.lower[j] - x) / steps0, (self.upper[j] - x) / steps0)

    @property
    def _steps0(self) -> Vector:
        """Initial step size of each coordinate."""
        scale = np.ones(self.n) if self.scale is None else self.scale.astype(np.float64)
        return self.sigma0 * scale

    @property
    def _moves0(self) -> Vector:
        """Initial step sizes of the movable coordinates."""
        return self._steps0[self.movable]

    @property
    def _x(self) -> Vector:
        """The movable coordinates of x_k."""
        return np.asarray(self.mean[self.movable], dtype=np.float64)

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
        self.errors.remember(values)
        with self._blas, np.errstate(all="ignore"):  # numbers that are not finite end the search
            try:
                self._learn_phase(values)
            except (ZeroDivisionError, OverflowError, np.linalg.LinAlgError):
                self._end_numerically()

    def _learn_phase(self, values: Vector) -> None:
        phase = self.phase
        if phase == Phase.START:
            self._learn_start(values)
        elif phase == Phase.NOISE:
            self.errors.measure(values, self.f, rounded=self.dtype != np.float64)
            self._learned_noise()
        elif phase in STENCILS:
            if self.plan.take(values):
                self._learn_stencil()
            else:
                self._repeat_stencil()
        elif phase in TOWARDS:
            if not np.isnan(values[0]):
                self._learn_step(values.item(0))
            elif phase == Phase.TRIAL or self.plan.attempt + 1 == MOST_NEARER:
                self._give_up_step()
            else:
                self._repeat_step()

    # Beginning

    def begin_at(self, f: float) -> None:
        """Begin at the mean, where fun is ``f``."""
        self.f = f
        self.errors.remember(np.array([f]))
        self._look_at_noise(Phase.FIRST)

    def begin_from(
        self, root: Vector, f: float, radius: float = 1.0, errors: ValueNoise | None = None
    ) -> None:
        """Begin at the mean, where fun is ``f``, in the metric of another search.

        Parameters
        ----------
        root : ndarray, (n, n)
            Columns are steps of that search, in units of x: its ``root()``.
        f : float
            Value at the mean.
        radius : float
            Distance of the first stencil, in columns of ``root``; the trust region is as large.
        errors : ValueNoise, optional
            Errors of values, which are not measured again.
        """
        self._begin_model()
        self.model.L[...] = radius * self._among_movable(root) / self._moves0[:, None]
        self.f, self.ending, self.ending_value = f, 0, 0.0
        self.step[self.movable] = np.sqrt(row_squares(self.model.L, np.arange(len(self.movable))))
        if errors is None:
            self.errors.remember(np.array([f]))
            self._look_at_noise(Phase.HANDED)
        else:
            restore({"": self.errors}, collect({"": errors}))
            self._begin_stencil(Phase.HANDED, self.model.L)

    def move_to(self, x: Array, f: float) -> None:
        """Continue from ``x``, where fun is ``f``, with the learned metric."""
        root = self.root()
        self.mean[...] = x
        self.begin_from(root, f, math.sqrt(2 * max(self.typical_gain(), 4 * self._error())), self.errors)

    @property
    def rows_left(self) -> int:
        """Number of rows without which the next batch is of no use."""
        return self.batch_size

    def _among_movable(self, root: Vector) -> Vector:
        """Return a square root of the part of ``root`` times its transpose that movable coordinates have."""
        if len(self.movable) == self.n:
            return root
        part = (root @ root.T)[np.ix_(self.movable, self.movable)]
        return np.asarray(np.linalg.cholesky(part), dtype=np.float64)

    def root(self) -> Vector:
        """Return S L |B|^-1/2, (n, n): columns are steps along which f curves by 1; sigma0 for fixed ones."""
        found = np.diag(self._steps0)
        found[np.ix_(self.movable, self.movable)] = self._moves0[:, None] * self.model.root()
        return found

    def typical_gain(self) -> float:
        """Return the median decrease of f by the last steps; the predicted one before the first step."""
        return float(np.median(self.region.gains)) if self.region.gains else max(self.plan.gain, 0.0)

    def _error(self) -> float:
        """Return the error of the best value."""
        return self.errors.error(self.f)

    def _learn_start(self, values: Vector) -> None:
        if np.isnan(values).all():
            self.attempts += 1
            if self.attempts > ATTEMPTS:
                self._end("failures", self.attempts)
                return
            shape = (len(NEAR), len(self.movable))
            self.plan.set(self._points(np.array(NEAR)[:, None] * self._normal(1, shape)))
            return
        best = int(np.nanargmin(values))
        if self.attempts:
            self.mean[...] = self.plan.points[best]
        self.f = values.item(best)
        if len(self.movable):
            self._look_at_noise(Phase.FIRST)
        else:
            self._end("converged", 0.0)

    def _look_at_noise(self, after: Phase) -> None:
        """Plan values on a line so short that only their errors differ from a parabola."""
        self.phase, self.after_noise = Phase.NOISE, after
        if after == Phase.FIRST:
            self.model.L *= 1 + SPREAD * (2 * self.generator(1).random() - 1)
        direction = self.model.L @ self._normal(2, (len(self.movable),))
        far, moved = float(np.abs(self.mean / self._steps0).max()), float(np.abs(self.step).max())
        length = max(1e-6 * moved, 1e-13 * far) if moved else max(1e-7, 1e-9 * far)
        if self.dtype != np.float64:
            length = max(length, 100 * float(np.finfo(self.dtype).eps) * far)
        typical = float(np.linalg.norm(direction)) / math.sqrt(len(direction))
        step: Vector = direction * (length / max(typical, TINY))
        if (room := self._room()) is not None:
            needed = float(LINE.max()) * np.abs(step)
            step[(needed > -room.low) | (needed > room.high)] = 0.0
        self.plan.set(self._points(LINE[:, None] * step))

    def _learned_noise(self) -> None:
        if self.after_noise != Phase.STEP:
            self._begin_stencil(Phase(self.after_noise), self.model.L)
        elif not self._reduce():
            self._advance()

    # Stencils

    def _begin_stencil(self, phase: Phase, directions: Vector) -> None:
        """Plan points at +- the columns of ``directions``, in units of sigma0."""
        self.phase = phase
        room = self._room()
        if room is not None:
            directions = self._parted(directions, room)
        pairs = Stencil(len(self.movable))
        pairs.place(1.0, None, None if room is None else lambda signs: room.along(directions * signs))
        rows = (pairs.a[:, None] * directions.T, pairs.b[:, None] * directions.T)
        self.plan.set(self._points(np.concatenate(rows)))

    def _parted(self, directions: Vector, room: Room) -> Vector:
        """Return directions of the same lengths among which only one changes each coordinate near a face.

        Others have no room on either side in a corner of the box.
        """
        lengths = np.sqrt(row_squares(directions, np.arange(len(directions))))
        near = (lengths > -room.low) | (lengths > room.high)
        if not near.any():
            return directions
        parted = np.diag(lengths)
        inner = np.flatnonzero(~near)
        if len(inner):
            product = (directions @ directions.T)[np.ix_(inner, inner)]
            turned = np.linalg.qr(self._normal(4, (len(inner), len(inner))))[0]
            parted[np.ix_(inner, inner)] = np.linalg.cholesky(product) @ turned
        return parted

    def _repeat_stencil(self) -> None:
        """Plan the failed points of a stencil again, elsewhere on their lines through x_k."""
        plan = self.plan
        plan.attempt += 1
        if plan.attempt == len(INSTEAD):
            self._end("stuck", self.typical_gain())
            return
        factor = INSTEAD[plan.attempt] / INSTEAD[plan.attempt - 1]
        offsets = (plan.points[plan.missing][:, self.movable] - self._x) / self._moves0
        points = self._points(factor * offsets)
        outside = np.abs((points[:, self.movable] - self._x) / self._moves0 - factor * offsets)
        clipped = outside.max(axis=1) > 1e-6 * np.abs(factor * offsets).max(axis=1)
        points[clipped] = self._points(0.5 * offsets)[clipped]  # that side has no room
        plan.points[plan.missing] = points

    def _learn_stencil(self) -> None:
        """Let the points of a stencil replace all others."""
        model, region, plan = self.model, self.region, self.plan
        model.replace_all(self._x, self.f, plan.points[:, self.movable], plan.values)
        if self.phase != Phase.FLOOR:
            model.g[...] = 0.0
        if not self._rebuild():
            return
        region.updates, region.misfits = 0, []
        if self.phase == Phase.FIRST:
            self._try_coordinates()
            return
        self._take_best()
        self._advance()

    def _rebuild(self, change: Vector | None = None) -> bool:
        """Compute H and the model again; if points coincide, plan a new stencil or end, and return False."""
        try:
            self.model.rebuild(self.region.delta, self._moves0, change)
        except np.linalg.LinAlgError:
            if self.phase in STENCILS or not self.model.is_finite():
                self._end_numerically()
            else:
                self._begin_stencil(Phase.FLOOR, self.region.rho * self.model.L)
            return False
        if not self.model.is_finite():
            self._end_numerically()
            return False
        return True

    def _take_best(self) -> None:
        """Move x_k to the best point."""
        model = self.model
        best = int(np.argmin(model.F))
        if model.F[best] >= self.f:
            return
        model.best = best
        x = model.X[best]
        self.step[self.movable] = (x - self._x) / self._moves0
        gain = self.f - float(model.F[best])
        length = float(np.linalg.norm(self.step * self._steps0)) / math.sqrt(self.n)
        self.region.moved(gain, length)
        self.mean[self.movable] = x
        self.f = float(model.F[best])
        self.sigma = max(self.sigma0 * self._typical_step(), float(np.finfo(self.dtype).tiny))

    # Trial

    def _first_curvatures(self) -> Vector:
        d = np.abs(self.model.B.diagonal())
        least = max(6 * self._error(), LEAST_CURVATURE * float(d.max()), TINY)
        found: Vector = np.maximum(d, least)
        return found

    def _try_coordinates(self) -> None:
        """Plan Newton's step by coordinate after the first stencil."""
        model, region = self.model, self.region
        d = model.B.diagonal().copy()
        h = float(model.L[0, 0])
        region.first_curvature = float(np.abs(d).sum()) / h**2
        u = np.clip(-model.g / self._first_curvatures(), -REACH / h, REACH / h)
        room = self._room()
        if room is not None:
            u = np.clip(u, room.low / h, room.high / h)
        gain = -float(model.g @ u + 0.5 * (d * u) @ u)
        if not math.isfinite(gain):
            self._end_numerically()
        elif not u.any():
            if self._finish_trial(0.0):
                self._advance()
        else:
            self._plan_step(Phase.TRIAL, u, gain)

    def _finish_trial(self, ratio: float) -> bool:
        """Set L to the diagonal of the first stencil if the trial confirms it or scales differ widely.

        Return False if that ends the search.
        """
        region, a = self.region, self._first_curvatures()
        good = GOOD_RATIO[0] <= ratio <= GOOD_RATIO[1]
        diagonal = good or float(np.std(np.log(a))) >= SCALES_DIFFER
        if diagonal:
            region.delta = region.rho = math.sqrt(float(np.median(a)))
            if good:
                region.delta = max(region.delta, float(np.linalg.norm(self.plan.d * np.sqrt(a))))
        if not self._rebuild(np.diag(1 / np.sqrt(a)) if diagonal else None):
            return False
        self._take_best()
        return True

    # Steps

    def _plan_step(self, phase: Phase, d: Vector, gain: float) -> None:
        """Plan the point x_k + S L d."""
        self.phase = phase
        self.plan.d, self.plan.gain = d, gain
        self.plan.set(self._points((self.model.L @ d)[None], snap=True))

    def _repeat_step(self) -> None:
        """Plan a failed step again, nearer to x_k."""
        plan, attempt = self.plan, self.plan.attempt + 1
        plan.set(self._points((NEARER**attempt * (self.model.L @ plan.d))[None], snap=True))
        plan.attempt = attempt

    def _give_up_step(self) -> None:
        """Continue after a step whose point failed wherever it was tried."""
        region = self.region
        if self.phase == Phase.TRIAL and not self._finish_trial(0.0):
            return
        if self.phase == Phase.LONG:
            region.left -= 1
        elif self.phase == Phase.STEP:
            region.resize(0.5 * region.delta)
            if region.delta == region.rho and self._reduce():
                return
        self._advance()

    def _learn_step(self, f: float) -> None:
        """Learn the value of a single step."""
        region, plan, phase, before = self.region, self.plan, self.phase, self.f
        ratio = (before - f) / plan.gain if plan.gain > 0 else 0.0
        if phase == Phase.TRIAL and not self._finish_trial(ratio):
            return
        length = float(np.linalg.norm(plan.d))
        if phase == Phase.STEP:
            region.judge(ratio, length)
        if not self._insert(plan.points[0, self.movable], f):
            return
        if phase == Phase.LONG:
            if f < before:
                region.delta = region.rho if plan.near else LONG_GROWTH * region.rho
            else:
                region.left -= 1
        elif phase == Phase.STEP and ratio < POOR:
            if self._improve():
                return
            if ratio <= 0 and max(length, region.delta) <= region.rho and self._reduce():
                return
        self._advance()

    def _insert(self, x: Vector, f: float) -> bool:
        """Let ``x`` with value ``f`` replace a point; return False if that ends the search."""
        model, region, phase, before = self.model, self.region, self.phase, self.f
        u = model.offset(x, self._moves0)
        effects, d = model.effects(u), u - model.U[model.best]
        if phase == Phase.STEP:
            misfit = abs(f - float(model.values(u[None])[0]))
            region.misfits = [*region.misfits, min(misfit, LARGEST)][-3:]
        if phase == Phase.GEOMETRY and not abs(effects.sigma[self.plan.target]) > LEAST_PIVOT:
            if not self._rebuild():
                return False
            u = model.offset(x, self._moves0)
            effects = model.effects(u)
        point, weight = model.leaving(u, f, effects, max(region.rho, 0.1 * region.delta))
        if phase == Phase.GEOMETRY and abs(effects.sigma[self.plan.target]) > LEAST_PIVOT:
            point, weight = self.plan.target, math.inf
        if not (f < before or weight > (LEAST_WEIGHT_LONG if phase == Phase.LONG else LEAST_WEIGHT)):
            return True
        model.replace(point, x, u, f, effects)
        region.updates += 1
        self._take_best()
        if f < before and phase in (Phase.STEP, Phase.LONG):
            region.steps = np.vstack((region.steps, d))[-STEPS_KEPT:]
        drifted = float(np.linalg.norm(model.U[model.best])) > DRIFT * region.delta
        old = model.since >= METRIC_EVERY * len(u) or not math.isfinite(model.H[point, point])
        return not (old or drifted) or self._rebuild()

    def _advance(self) -> None:
        """Plan the next step; reduce rho while the model sees none."""
        model, region = self.model, self.region
        while True:
            if not model.is_finite():
                self._end_numerically()
                return
            if region.updates >= METRIC_EVERY * len(self.movable) and not self._learn_metric():
                return
            step = self._step_in_region(region.delta)
            if step.length >= SHORT * region.rho and step.gain > 0:
                self._plan_step(Phase.STEP, step.d, step.gain)
                return
            accurate = len(region.misfits) == 3 and max(region.misfits) <= (
                ACCURATE * step.least * region.rho**2
            )
            if not accurate:
                region.resize(0.1 * region.delta)
                if self._improve():
                    return
            if region.left > 0 and step.length > 0 and self._is_at_floor():
                near = step.gain > CLEAR_GAIN * self._error()
                d = step.d if near else step.d * (region.rho / step.length)
                self._plan_step(Phase.LONG, d, step.gain)
                self.plan.near = near
                return
            if self._reduce(sloping=step.gain > 0):
                return

    def _step_in_region(self, delta: float) -> Step:
        """Return the step to the minimum of the model within ``delta`` and within the box."""
        model, slopes = self.model, self.model.slopes()
        room = self._room()
        if room is None:
            return minimum_of_quadratic(model.B, slopes, delta)
        outward = np.linalg.solve(model.L.T, slopes)
        held = ((room.low >= 0) & (outward > 0)) | ((room.high <= 0) & (outward < 0))
        moves = np.zeros(len(slopes))  # of held coordinates
        best = Step(np.zeros(len(slopes)), 0.0, 0.0, 0.0)
        for _ in range(len(slopes) + 1):
            found = _minimum_with_held(model.B, slopes, model.L[held], moves[held], delta)
            if found is None:
                break
            move = model.L @ found.d
            move[held] = moves[held]
            outside = ~held & ((move < room.low) | (move > room.high))
            if outside.any():
                t = min(1.0, float(room.along(move[:, None])[0]))
                d = t * found.d
                gain = -(float(slopes @ d) + 0.5 * float(d @ (model.B @ d)))
                shorter = Step(d, t * found.length, gain, 0.0)
            else:
                shorter = found
            if shorter.gain > best.gain:
                best = shorter
            if not outside.any():
                break
            held |= outside
            moves[outside] = np.where(move < room.low, room.low, room.high)[outside]
        return best

    def _improve(self) -> bool:
        """Plan a point that replaces the farthest one; return False if none is beyond 2 Delta."""
        model, region = self.model, self.region
        distances = np.sum((model.U - model.U[model.best]) ** 2, axis=1)
        point = int(np.argmax(distances))
        distance = math.sqrt(float(distances[point]))
        if distance <= FAR * region.delta:
            return False
        radius = max(min(0.1 * distance, 0.5 * region.delta), region.rho)
        g, B = model.lagrange(point)[1:]
        if not (np.isfinite(g).all() and np.isfinite(B).all()):
            return False
        g = g + B @ model.U[model.best]
        lam, axes = np.linalg.eigh(B)
        slopes = axes.T @ g
        low = minimum_in_ball(lam, slopes, radius)[0]
        high = minimum_in_ball(-lam[::-1], -slopes[::-1], radius)[0][::-1]
        rows = np.array([axes @ low, axes @ high])
        room = self._room()
        if room is not None:
            rows = self._inside(np.concatenate((rows, radius * axes.T)), radius, room)
        sizes = np.abs(rows @ g + 0.5 * np.sum((rows @ B) * rows, axis=1))
        d = rows[int(np.argmax(sizes))].copy()
        self._plan_step(Phase.GEOMETRY, d, 0.0)
        self.plan.target = point
        return True

    def _inside(self, rows: Vector, radius: float, room: Room) -> Vector:
        """Return ``rows``, their opposites and steps along coordinates, shortened to end inside the box.

        In a corner there may be room along coordinates only.
        """
        inverse = np.linalg.inv(self.model.L)
        lengths = radius / np.linalg.norm(inverse, axis=0)
        rows = np.concatenate((rows, (inverse * lengths).T))
        moves = np.concatenate((rows[: -len(lengths)] @ self.model.L.T, np.diag(lengths)))
        rows, moves = np.concatenate((rows, -rows)), np.concatenate((moves, -moves))
        shortened: Vector = rows * np.minimum(1.0, room.along(moves.T))[:, None]
        return shortened

    # Metric

    def _learn_metric(self) -> bool:
        """Change the metric by a small power of the Hessian of the model; return False if that ends."""
        model, region = self.model, self.region
        lam, axes = np.linalg.eigh(model.B)
        sizes = np.abs(lam)
        noise = METRIC_NOISE * self._error() / region.delta**2
        model.hidden = noise if math.isfinite(noise) else 0.0
        limited = np.maximum(sizes, max(float(sizes.max()) / METRIC_RATIO, noise, TINY))
        logs = np.log(limited)
        logs -= logs.mean()  # a common factor has no effect
        powers = np.exp(region.power((axes * logs) @ axes.T) * logs)
        change, inverse = (axes / powers) @ axes.T, (axes * powers) @ axes.T
        stretch = float(np.median(powers))
        if len(region.steps):
            steps = region.steps @ inverse
            lengths = np.linalg.norm(steps, axis=1) / np.linalg.norm(region.steps, axis=1)
            stretch, region.steps = float(np.median(lengths)), np.asarray(steps, dtype=np.float64)
        region.delta *= stretch
        region.rho = max(region.rho * stretch, LEAST_RHO * region.delta)
        region.updates, region.misfits = 0, []
        lengths_are_finite = 0 < region.rho < math.inf and 0 < region.delta < math.inf
        if not (lengths_are_finite and np.isfinite(region.logs).all() and np.isfinite(region.steps).all()):
            self._end_numerically()
            return False
        return self._rebuild(change)

    # The floor of the noise

    def _is_noisy(self) -> bool:
        """Return whether values have errors beyond the rounding of their sum."""
        errors = self.errors
        return errors.relative > NOISY or errors.absolute > NOISY * abs(self.f)

    def _low(self) -> float:
        """Return the distance below which differences of values are noise, in u, at most 4 sigma0."""
        mean = float(np.abs(np.linalg.eigvalsh(self.model.B)).mean())
        return min(math.sqrt(2 * FLOOR * self._error() / max(mean, TINY)), self._reach())

    def _reach(self) -> float:
        """Return the length of a step of 4 sigma0 along the longest column of L, in u."""
        return REACH / max(float(np.abs(self.model.L).max()), TINY)

    def _is_at_floor(self) -> bool:
        return self._is_noisy() and SHRINK * self.region.rho < self._low()

    def _reduce(self, *, sloping: bool = True) -> bool:
        """Reduce rho, or renew the points at the floor; return True if a batch is planned or all ended.

        If the model is not ``sloping`` at x_k, smaller distances show nothing.
        """
        region, errors = self.region, self.errors
        fallen = errors.absolute > 0 and abs(self.f) < OUTDATED * errors.measured_at
        if fallen or errors.is_outdated(self.f):  # large values with few digits look like whole numbers
            self._look_at_noise(Phase.STEP)
            return True
        if SHRINK * region.rho < self._low() or not sloping:
            return self._renew_at_floor()
        rho = region.rho
        region.rho = SHRINK * rho
        region.delta = max(0.5 * rho, region.rho)
        sizes = np.sqrt(row_squares(self.model.L, np.arange(len(self.movable)))) * self._moves0
        shortest = RESOLUTION * np.spacing(np.abs(self.mean[self.movable])) + SHORTEST * self._moves0
        if bool((region.rho * sizes < shortest).any()):
            self._end_converged()
            return True
        return not self._learn_metric()

    def _renew_at_floor(self) -> bool:
        """Plan a stencil wider than before, in random directions, or end."""
        region, model = self.region, self.model
        if self.f < region.mark - FLOOR * self._error():
            region.hits = 0
        region.mark = self.f
        region.hits += 1
        if bool(np.all(self.errors.recent == self.f)) and not (self.f == 0.0 and self.step.any()):
            if region.hits > FLAT_STENCILS:
                self._end("flat", region.hits)
                return True
        elif region.hits > (FLOOR_STENCILS if self._is_noisy() else EXACT_STENCILS):
            self._end_converged()
            return True
        if region.hits > 1 and not self._learn_metric():
            return True
        radius = max(region.rho, self._low()) * WIDER**region.hits
        region.delta = region.rho = min(radius, max(self._reach(), region.rho))
        region.left = LONG_STEPS
        k = len(self.movable)
        turned = np.linalg.qr(self._normal(3, (k, k)))[0]
        self._begin_stencil(Phase.FLOOR, region.rho * (model.L @ turned))
        return True

    # End

    def _end_converged(self) -> None:
        """End where rho cannot shrink: converged, or stuck at a kink, where curvature grows without limit."""
        model, first = self.model, self.region.first_curvature
        inverse = np.linalg.inv(model.L)
        curvature = float(np.abs(np.diag(inverse.T @ model.B @ inverse)).sum())
        step = self._step_in_region(self.region.delta)
        room = self._room()
        inside = room is None or not ((room.low >= 0) | (room.high <= 0)).any()
        kinked = inside and first > 0 and curvature > KINK * first
        self._end("stuck" if kinked else "converged", max(step.gain, 0.0))

    def restored(self) -> None:
        """Raise ValueError if parts of the restored state contradict one another."""
        n, k, plan, region = self.n, len(self.movable), self.plan, self.region
        rows = len(plan.points)
        expected = {
            Phase.NOISE: len(LINE), Phase.FIRST: 2 * k, Phase.FLOOR: 2 * k, Phase.HANDED: 2 * k,
            Phase.START: len(NEAR) if self.attempts else 1,
        }.get(Phase(self.phase), 1)  # fmt: skip
        consistent = {
            "model.best": self.model.best < len(self.model.F),
            "region.steps": region.steps.shape == (min(len(region.steps), STEPS_KEPT), k),
            "plan.points": plan.points.shape == (expected, n),
            "plan.missing": len(plan.values) == len(plan.missing) == rows and bool(plan.missing.any()),
            "plan.target": plan.target < len(self.model.F),
            "after_noise": self.after_noise in (Phase.FIRST, Phase.HANDED, Phase.STEP),
            "ending": (self.phase == Phase.ENDED) == (self.ending > 0),
        }
        for name, holds in consistent.items():
            if not holds:
                raise ValueError(f"state[{name!r}] contradicts the rest of the state")

    def _end(self, reason: str, value: float) -> None:
        self.phase = Phase.ENDED
        self.plan.set(self.mean[None].astype(np.float64))
        self.ending, self.ending_value = ENDINGS.index(reason), float(value)

    def _end_numerically(self) -> None:
        """End because of numbers that are not finite, which must not become part of the state."""
        self._begin_model()
        self._end("numerical", self.sigma)

    def stop(self) -> dict[str, float]:
        """Return the reason why the search has ended, if it has."""
        return {ENDINGS[self.ending]: self.ending_value} if self.ending else {}

    def spread(self, candidates: Array) -> float:
        """Return the length per coordinate of the longest of the last steps, or of the trust region.

        A point that only improves the model says nothing about convergence.
        """
        if self.phase in (Phase.START, Phase.NOISE, Phase.FIRST, Phase.TRIAL) or not self.region.lengths:
            return float(np.linalg.norm(self._steps0)) / math.sqrt(self.n)
        size = float(np.linalg.norm(self.model.L * self._moves0[:, None])) / self.n
        return max(*self.region.lengths, self.region.delta * size)

    def hess_inv(self) -> MetricOperator:
        """Return the inverse Hessian, up to the factor sigma0^2."""
        from lmma.numerics.metric import MetricOperator

        return MetricOperator(self.model, self.scale, self.n, self.dtype)

    def metric(self) -> Metric:
        """Return the learned metric as a record."""
        from lmma.numerics.metric import Metric

        return Metric.of(self.mean, self.sigma, self.scale, self.model)


def _minimum_with_held(B: Vector, g: Vector, rows: Vector, moves: Vector, radius: float) -> Step | None:
    """Return the best step d with ``rows`` d = ``moves`` and |d| <= radius; None if there is none."""
    if not len(rows):
        return minimum_of_quadratic(B, g, radius)
    Q, R = np.linalg.qr(rows.T, mode="complete")
    held = len(rows)
    start = Q[:, :held] @ np.linalg.solve(R[:held].T, moves)
    left = radius**2 - float(start @ start)
    if not left >= 0:
        return None
    free = Q[:, held:]
    step = minimum_of_quadratic(free.T @ B @ free, free.T @ (g + B @ start), math.sqrt(left))
    d = start + free @ step.d
    gain = -(float(g @ d) + 0.5 * float(d @ (B @ d)))
    return Step(d, float(np.linalg.norm(d)), gain, step.least)


class Interpolation(Strategy):
    """Interpolation search for few variables, and values with few digits, O(n^3).

    A quadratic model through 2n + 1 points gives one step per evaluation. The points keep the distance of the
    trust region, so that values with six digits serve almost as well as exact ones, also in curved valleys.
    On exact values of smooth functions ``quasi-newton`` usually needs fewer evaluations. It uses the values
    themselves: unlike an evolution strategy it is not invariant under increasing transformations of fun.

    It supports up to 200 variables. Batches have 2n rows for a stencil, and one for a step. ``popsize`` only
    affects the number of batches that stopping rules and restarts consider.

    Bounds are kept by the method itself: steps end at the faces of the box, and ``boundary`` has no effect.
    Integers, choices, constraints, ``noise=``, injected points and resampling are not supported.

    Arguments are those of :class:`lmma.Strategy`.

    Examples
    --------
    >>> es = lmma.Interpolation(np.full(8, 3.0), 1.0, rng=1)
    >>> while not es.stop():
    ...     es.tell(np.sum(es.ask() ** 2, axis=1))
    >>> es.best_fun < 1e-9, es.evaluations < 200
    (True, True)

    References
    ----------
    Powell, *Least Frobenius norm updating of quadratic models that satisfy interpolation conditions*,
    Mathematical Programming 100 (2004), and *The NEWUOA software for unconstrained optimization without
    derivatives* (2006). Moré and Sorensen, *Computing a trust region step*, SIAM Journal on Scientific and
    Statistical Computing 4 (1983). The learned metric and the rule for noise are new in lmma.
    """

    METHOD = InterpolationMethod
    method: InterpolationMethod
