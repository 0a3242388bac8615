"""Constraint handling: combine values and constraints into values to rank, and track the best point.

``lagrange``
    :class:`AugmentedLagrangian`, which uses the magnitudes of values and violations. With integers or choices
    it is replaced by ``rank`` if it prefers infeasible points and every neighbour was tried without a better
    feasible point.
``rank``
    Ranks only: of f, of each violation, and of the number of violated constraints. It depends only on their
    order, so a constraint may be a yes/no answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, final, get_args

import numpy as np
import numpy.typing as npt

from lmma.layers.equalities import Subspace
from lmma.layers.layer import Layer, Report, Told
from lmma.numerics.recombination import Array, Indices, log_weights
from lmma.numerics.state import COUNT, DISTANCE, FINITE, FLAG, NOT_NEGATIVE, UNIT, VALUE, Declared

if TYPE_CHECKING:
    from lmma.layers.integers import NeighbourSearch
    from lmma.methods.base import Method


Handling = Literal["lagrange", "rank"]

FEASIBILITY_TOL = 1e-8  # the default of SciPy's COBYQA
LAST_DIGITS = 64  # units in the last place: smaller differences count as rounding errors
PATIENCE = 20  # generations with differences of rounding size before the search has converged


@dataclass(frozen=True)
class ConstraintOptions:
    """Constraint handling of a strategy.

    Parameters
    ----------
    handling : {"lagrange", "rank"}
        See :mod:`lmma.layers.constraints`.
    equality : tuple of bool, optional
        True for equalities, g = 0; by default all constraints are inequalities, g <= 0.
    feasibility_tol : float
        The largest violation at which a point counts as feasible.
    subspace : Subspace, optional
        Linear equalities that every candidate satisfies.
    multipliers : ndarray, (2, p), optional
        Initial ``gamma`` and ``mu``.
    """

    handling: Handling = "lagrange"
    equality: tuple[bool, ...] | None = None
    feasibility_tol: float = FEASIBILITY_TOL
    subspace: Subspace | None = None
    multipliers: Values | None = None

    def __post_init__(self) -> None:
        from lmma._text import shown
        from lmma.numerics.checks import checked_number

        if self.handling not in get_args(Handling):
            raise ValueError(f"constraint_handling must be 'lagrange' or 'rank', got {shown(self.handling)}")
        if not 0 <= checked_number("feasibility_tol", self.feasibility_tol) < math.inf:
            raise ValueError(
                f"feasibility_tol must be at least 0 and finite, got {shown(self.feasibility_tol)}"
            )


@final
class Constrained(Layer):
    """The constraint handling of one strategy, with its state across generations.

    Attributes
    ----------
    violation, fun : float
        The largest constraint violation at the best point, and its value. Feasible points are compared by
        value and precede infeasible ones, which are compared by violation.
    at_best : ndarray, (p,)
        The constraints at the best point.
    merit, spread : float
        Quantities of the convergence test: best value and range of the last generation.
    floor : float
        Differences up to this size are rounding errors.
    """

    name = "constraints"
    STATE: ClassVar[Declared] = {
        "violation": DISTANCE, "fun": VALUE, "at_best": FINITE, "drift": FINITE, "merit": VALUE,
        "spread": DISTANCE, "floor": NOT_NEGATIVE, "flat_for": COUNT, "idle_for": COUNT, "given_up": FLAG,
    }  # fmt: skip

    def __init__(
        self,
        n: int,
        popsize: int,
        count: int,
        options: ConstraintOptions,
        *,
        convergence_share: float = 1.0,
        neighbours: NeighbourSearch | None = None,
    ) -> None:
        equality = np.zeros(count, dtype=np.bool_)
        if options.equality is not None:
            if len(options.equality) != count:
                raise ValueError(
                    f"equality must have one entry for each of the {count} constraints, "
                    f"got {len(options.equality)}"
                )
            equality[:] = options.equality
        self.equality = equality
        self.count = count
        self.tolerance = options.feasibility_tol
        self.convergence_share = convergence_share  # share of candidates, best first, in the convergence test
        self._neighbours = neighbours  # None without discrete variables
        self.lagrangian: AugmentedLagrangian | None = None
        if options.handling == "lagrange":
            self.lagrangian = AugmentedLagrangian(n, popsize, equality)
            given = options.multipliers
            if given is not None and given.shape == (2, count):
                self.lagrangian.gamma, self.lagrangian.mu = given[0].copy(), given[1].copy()
                self.lagrangian.begun = given[1] > 0
                self.lagrangian.most = GROWTH * given[1]
        self.violation = math.inf
        self.fun = math.inf
        self.at_best: Values = np.zeros(count)
        self.drift = 0.0  # change of a typical value caused by changed coefficients, summed over the run
        self.merit = math.inf
        self.spread = math.inf
        self.floor = 0.0
        self.flat_for = 0  # consecutive generations whose ranked values differed only by rounding
        self.idle_for = 0  # generations since the best feasible point improved
        self.given_up = False  # the augmented Lagrangian has been replaced by ranks

    def parts(self) -> dict[str, object]:
        """Return the stateful objects, by name."""
        return {self.name: self} | ({} if self.lagrangian is None else {"lagrangian": self.lagrangian})

    @property
    def feasible(self) -> bool:
        """True if the best point is feasible."""
        return self.violation <= self.tolerance

    @property
    def by_ranks(self) -> bool:
        """True if constraints are handled by ranks only, from the start or since ``given_up``."""
        return self.lagrangian is None or self.given_up

    @property
    def multipliers(self) -> Values | None:
        """Lagrange multipliers, (p,), or None with ``handling="rank"``."""
        return None if self.lagrangian is None else self.lagrangian.gamma.copy()

    def on_tell(self, method: Method, told: Told) -> Told:
        """Combine values and constraints into the values to minimise."""
        given = self._checked(told.constraints, len(told.raw))
        by_ranks = self.by_ranks
        values, new_best = self.rank(told.raw, given)
        if self._neighbours is not None and self.by_ranks and not by_ranks:
            self._neighbours.unimproved = 0  # the comparison of neighbours has changed
        report = Report(new_best, self.feasible, self.by_ranks, self.merit, self.spread, self.floor)
        return told._replace(plain=values, values=values, report=report)

    def compare(self, values: Values, constraints: npt.ArrayLike | None) -> tuple[Mask, int | None]:
        """Return a mask of the rows with values, and the row of a new best point or None; learn nothing."""
        given = self._checked(constraints, len(values))
        known = np.isfinite(values) & np.isfinite(given).all(axis=1)
        if not np.any(known):
            return known, None
        f, g = values[known], given[known]
        best = self._new_best(f, g, self._excess(g).max(axis=1, initial=0.0))
        return known, None if best is None else int(np.flatnonzero(known)[best])

    def _checked(self, constraints: npt.ArrayLike | None, rows: int) -> Values:
        """Return the constraints of ``rows`` candidates after validation."""
        if constraints is None:
            raise ValueError(
                "tell() called without constraints: pass them in every generation once they have been passed"
            )
        return checked_constraints(constraints, rows, self.count)

    def _excess(self, g: Values) -> Values:
        """Return the violations of all constraints."""
        return np.where(self.equality, np.abs(g), np.maximum(g, 0.0))

    def _new_best(self, f: Values, g: Values, worst: Values) -> int | None:
        """Store the best of these points if it is the best so far; return its row, or None."""
        best = int(np.lexsort((f, np.where(worst <= self.tolerance, 0.0, worst)))[0])
        if not better((worst[best], f[best]), (self.violation, self.fun), self.tolerance):
            return None
        self.violation, self.fun = float(worst[best]), float(f[best])
        if self.feasible:
            self.idle_for = 0
        np.copyto(self.at_best, g[best])
        return best

    def rank(self, values: Values, constraints: Values) -> tuple[Values, int | None]:
        """Return the values to rank, and the row of a new best point, or None.

        A row with a value or constraint that is not finite has failed; its value is NaN.
        """
        known = np.isfinite(values) & np.isfinite(constraints).all(axis=1)
        ranked = np.full(len(values), np.nan)
        if not np.any(known):
            return ranked, None
        f, g = values[known], constraints[known]
        excess = self._excess(g)
        worst = excess.max(axis=1, initial=0.0)
        by_ranks = self.by_ranks
        ranked[known] = self._by_rank(f, excess, worst) if by_ranks else self._by_lagrangian(f, g)
        self._measure(f, worst, ranked[known])
        self.idle_for += 1
        if not by_ranks and self._neighbours is not None and self.idle_for >= self._neighbours.patience:
            # Constraints jump between integers: multipliers may oscillate between an integer that violates a
            # constraint and one that satisfies it, while the preferred one is never feasible
            self.given_up = bool(worst[np.argmin(ranked[known])] > self.tolerance)
        best = self._new_best(f, g, worst)
        return ranked, None if best is None else int(np.flatnonzero(known)[best])

    def _by_lagrangian(self, f: Values, g: Values) -> Values:
        assert self.lagrangian is not None
        before = self.lagrangian.value(f, g)
        self.lagrangian.initialise(f, g)
        h = self.lagrangian.value(f, g)
        self._add_drift(h - before)
        values = h - self.drift
        self.lagrangian.learn(np.argsort(h, kind="stable"), g)
        self._add_drift(self.lagrangian.value(f, g) - h)
        self.floor = LAST_DIGITS * math.ulp(float(np.abs(f).max()))
        if not self.feasible and np.ptp(h) <= LAST_DIGITS * math.ulp(float(np.abs(h).max())):
            self.lagrangian.tighten()
        self.merit = float(h.min())
        return values

    def _add_drift(self, change: Values) -> None:
        """Add the change of a typical value caused by new coefficients to ``drift``.

        ``drift`` is subtracted from the values, so that those of different generations are comparable.
        """
        typical = float(np.median(change))
        self.drift += typical if math.isfinite(typical) else 0.0

    def _by_rank(self, f: Values, excess: Values, worst: Values) -> Values:
        """Return ranks by MCR-mod of Sakamoto and Akimoto (GECCO 2019)."""
        feasible = float(np.mean(worst <= self.tolerance))
        violated = np.count_nonzero(excess > self.tolerance, axis=1)
        of_constraints = _column_ranks(excess).mean(axis=1) + _column_ranks(violated[:, np.newaxis])[:, 0]
        total = feasible * _column_ranks(f[:, np.newaxis])[:, 0] + (1.0 - feasible) * of_constraints
        # Break ties, which are frequent: equal values would indicate that the steps are too short
        keys = np.stack((total, of_constraints, f), axis=1)
        place = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        return place.astype(np.float64)

    def _measure(self, f: Values, worst: Values, ranked: Values) -> None:
        """Update ``merit`` and ``spread``, the quantities of the convergence test.

        The augmented Lagrangian may be flat while f still falls along a constraint. Therefore ``spread`` is
        the range of f and of the violation, unless the ranked values differ only by rounding.
        """
        if self.convergence_share < 1.0:
            best = np.argsort(ranked, kind="stable")[: math.ceil(self.convergence_share * len(ranked))]
            f, worst, ranked = f[best], worst[best], ranked[best]
        if self.by_ranks:
            self.merit = float(f[np.argmin(ranked)])
        else:
            spread = float(np.ptp(ranked))
            self.flat_for = self.flat_for + 1 if self.feasible and spread <= self.floor else 0
            if self.flat_for >= PATIENCE:
                self.spread = spread
                return
        self.spread = max(float(np.ptp(f)), float(np.ptp(worst)))


def better(one: tuple[float, float], other: tuple[float, float], tolerance: float) -> bool:
    """Return True if (violation, value) ``one`` precedes ``other``: feasible first, then by value."""
    first, second = (max(violation, tolerance) for violation, _ in (one, other))
    return first < second or (first == second == tolerance and one[1] < other[1])


def checked_constraints(constraints: npt.ArrayLike, popsize: int, count: int | None) -> Values:
    """Return constraints as float64, (popsize, p); raise an exception if they are invalid."""
    raw = np.asarray(constraints)
    if raw.dtype.kind not in "fiub":
        raise TypeError(f"constraints must be real numbers of shape (popsize, p), got dtype {raw.dtype}")
    if raw.ndim == 1 and len(raw) == popsize:
        raw = raw[:, np.newaxis]
    if raw.ndim != 2 or len(raw) != popsize or raw.shape[1] != (raw.shape[1] if count is None else count):
        wanted = "p" if count is None else str(count)
        raise ValueError(
            f"constraints must have shape ({popsize}, {wanted}), one row per candidate of ask() in the same "
            f"order; got shape {raw.shape}"
        )
    return raw.astype(np.float64, copy=False)


def _column_ranks(columns: Array) -> Values:
    """Return for each entry the number of smaller entries in its column."""
    return np.stack([np.searchsorted(np.sort(column), column) for column in columns.T], axis=1).astype(
        np.float64
    )


def as_flags(equality: Iterable[bool] | None) -> tuple[bool, ...] | None:
    """Return flags as a tuple of bool."""
    return None if equality is None else tuple(bool(flag) for flag in equality)


Values = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

DAMPING = 5.0  # of the multipliers: gamma += mu g / DAMPING
SOME_VIOLATE, MOST_VIOLATE = 0.1, 0.9  # shares of a generation that violate a constraint
LARGEST = 1e100  # upper limit on coefficients
GROWTH = 1e12  # upper limit on mu relative to its first value: if infeasible, mu would grow without limit
FAR = 2.0  # times the largest violation at initialisation: beyond it, coefficients are initialised again


@final
class AugmentedLagrangian:
    """The augmented Lagrangian h, whose coefficients are adapted in every generation.

    Parameters
    ----------
    n, popsize : int
        The number of variables, and of candidates per generation.
    equality : ndarray of bool, (p,)
        True for equality constraints.

    Attributes
    ----------
    gamma, mu : ndarray, (p,)
        Lagrange multipliers, and coefficients of the squares; 0 until a constraint is first violated.
    """

    STATE: ClassVar[Declared] = {
        "gamma": FINITE, "mu": NOT_NEGATIVE, "most": NOT_NEGATIVE, "begun": FLAG, "far": DISTANCE,
        "share": UNIT, "moves": FINITE,
    }  # fmt: skip

    def __init__(self, n: int, popsize: int, equality: Mask) -> None:
        p = len(equality)
        self.equality = equality
        self.n = n
        self.weights = log_weights(popsize, max(1, popsize // 2))
        # Atamna's 2^(1/(5n)) would need 5,000 generations at n = 1,000 to double mu
        self.chi = 2.0 ** min(0.2, 1.0 / math.sqrt(n))
        self.horizon = 5.0 + math.sqrt(n)  # generations over which the share of feasible means is averaged
        self.gamma: Values = np.zeros(p)
        self.mu: Values = np.zeros(p)
        self.most: Values = np.zeros(p)  # upper limits on mu
        self.begun: Mask = np.zeros(p, dtype=np.bool_)  # coefficients are initialised
        self.far: Values = np.full(p, math.inf)  # violations beyond this reinitialise the coefficients
        self.share: Values = np.full(p, 0.5)  # share of recent generations whose mean was feasible
        self.moves: Values = np.zeros(p)  # consecutive increases (> 0) or decreases (< 0) of mu

    def value(self, values: Values, constraints: Values) -> Values:
        """Return h for each candidate."""
        gamma, mu = self.gamma, self.mu
        active = self.equality | (mu * constraints >= -gamma)
        without_sample = np.divide(-0.5 * gamma**2, mu, out=np.zeros_like(mu), where=mu > 0)
        with np.errstate(over="ignore"):  # infinite values rank last
            terms = np.where(active, constraints * (gamma + 0.5 * mu * constraints), without_sample)
            h: Values = values + terms.sum(axis=1)
        return h

    def tighten(self) -> None:
        """Double every mu, because h no longer distinguishes candidates and none is feasible."""
        self.mu = np.minimum(2.0 * self.mu, self.most)

    def initialise(self, values: Values, constraints: Values) -> None:
        """Initialise the coefficients of constraints that candidates violate for the first time."""
        size = np.abs(constraints)
        violated = np.where(self.equality, 1.0, np.mean(constraints > 0, axis=0))
        least = np.where(self.equality, size, constraints).min(axis=0)
        self.begun &= ~(least > self.far)
        new = ~self.begun & (violated > SOME_VIOLATE) & (size.max(axis=0) > 0)
        if not np.any(new):
            return
        initialised_before = np.isfinite(self.far)
        width = _width(constraints)
        width = np.where(width > 0, width, np.maximum(size.max(axis=0), np.finfo(np.float64).tiny))
        height = float(_width(values)) or float(np.abs(values).max()) or 1.0
        slope = height / np.maximum(self.n * width, height / LARGEST)
        mu = np.maximum(
            slope / np.maximum(width, slope / LARGEST), np.where(initialised_before, self.mu, 0.0)
        )
        gamma = np.minimum(np.maximum(slope, np.where(initialised_before, self.gamma, 0.0)), LARGEST)
        self.mu[new] = mu[new]
        self.most[new] = np.minimum(GROWTH * mu[new], LARGEST)
        self.gamma[new & ~self.equality] = gamma[new & ~self.equality]
        self.far[new] = FAR * size.max(axis=0)[new]
        self.begun |= new & ((violated < MOST_VIOLATE) | self.equality)

    def learn(self, order: Indices, constraints: Values) -> None:
        """Update the coefficients; ``order`` ranks the candidates of the generation by h."""
        weights = self.weights[: len(order)]
        g = (weights / weights.sum()) @ constraints[order[: len(weights)]]  # approximates g at the mean
        gamma, mu, equality = self.gamma, self.mu, self.equality
        idle = ~equality & (mu * constraints < -gamma).all(axis=0)
        changed = gamma + mu * g / DAMPING
        untouched = ~equality & ((changed < 0) | (mu * g < -gamma))  # mu does not change
        self.share += ((g <= 0) - self.share) / self.horizon
        is_far = np.abs(g) > _width(constraints)  # farther from the limit than the spread of candidates
        up = np.where(equality, is_far, (g > 0) | (self.share > 0.95)) & (mu > 0) & ~untouched
        down = np.where(equality, ~is_far, (g < 0) & (self.share < 0.9)) & (mu > 0) & ~untouched & ~up
        self.moves = np.where(
            up, np.maximum(self.moves, 0) + 1, np.where(down, np.minimum(self.moves, 0) - 1, self.moves)
        )
        patience = len(gamma) + 2  # consecutive moves before they grow, up to five times
        haste = np.clip(np.abs(self.moves) / patience - 1, 0, 4)
        # This far beyond the limit, mu is too small against the slope of f and the search would oscillate
        factor = self.chi ** ((1 + haste) / 4 + (up & is_far & ~equality))
        self.mu = np.minimum(np.where(up, mu * factor, np.where(down, mu / factor, mu)), self.most)
        self.gamma = np.where(idle, gamma, np.where(equality, changed, np.maximum(changed, 0)))


def _width(values: Values) -> Values:
    """Return the interquartile range of each column."""
    quarters = np.quantile(values, (0.25, 0.75), axis=0)
    return np.asarray(quarters[1] - quarters[0])
