"""Constraints of a strategy: from values and constraints to what it ranks, and the best point in their light.

``lagrange``
    The augmented Lagrangian of ``lagrangian.py``. It uses how large values and violations are. With integers
    or choices, ranks take over if it takes infeasible points for the best and no feasible one has become
    better while every neighbour was tried.
``rank``
    Ranks alone: of f, of each violation, of how many constraints are violated. It needs only their order,
    and a constraint may answer yes or no.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, final, get_args

import numpy as np
import numpy.typing as npt

from lmma.strategies.parts.lagrangian import GROWTH, AugmentedLagrangian, Values
from lmma.strategies.parts.recombination import Array
from lmma.strategies.parts.subspace import Subspace

Handling = Literal["lagrange", "rank"]

FEASIBILITY_TOL = 1e-8  # as SciPy's COBYQA has it
LAST_DIGITS = 64  # units in the last place: differences below are those of rounding
PATIENCE = 20  # generations in which differences are those of rounding before the search has converged


@dataclass(frozen=True)
class ConstraintOptions:
    """How a strategy is to treat constraints.

    Parameters
    ----------
    handling : {"lagrange", "rank"}
        See :mod:`lmma.strategies.parts.constraints`.
    equality : tuple of bool, optional
        Which constraints are equalities, g = 0; by default all are g <= 0.
    feasibility_tol : float
        The largest violation of a point that counts as feasible.
    subspace : Subspace, optional
        Linear equalities that candidates keep.
    multipliers : ndarray, (2, p), optional
        ``gamma`` and ``mu`` to begin with.
    """

    handling: Handling = "lagrange"
    equality: tuple[bool, ...] | None = None
    feasibility_tol: float = FEASIBILITY_TOL
    subspace: Subspace | None = None
    multipliers: Values | None = None

    def __post_init__(self) -> None:
        from lmma.strategies.parts.checks import checked_number, shown

        if self.handling not in get_args(Handling):
            raise ValueError(f"constraint_handling must be 'lagrange' or 'rank', got {shown(self.handling)}")
        if not 0 <= checked_number("feasibility_tol", self.feasibility_tol) < math.inf:
            raise ValueError(f"feasibility_tol must be 0 or more, got {shown(self.feasibility_tol)}")


@final
class Constrained:
    """The constraints of one strategy, from generation to generation.

    Attributes
    ----------
    violation, fun : float
        The largest violation of any constraint at the best point, and the value there. A feasible point is
        better than any other, one with a lower value better than another feasible one; where none is
        feasible, that with the smallest violation is best.
    at_best : ndarray, (p,)
        The constraints there.
    merit, spread : float
        What convergence is judged by: the best of a generation, and how far its candidates are apart.
    floor : float
        A difference of that size is one of rounding.
    """

    STATE = (
        "violation", "fun", "at_best", "drift", "merit", "spread", "floor", "flat_for", "idle_for",
        "given_up",
    )  # fmt: skip

    def __init__(
        self,
        n: int,
        popsize: int,
        count: int,
        options: ConstraintOptions,
        *,
        judged: float = 1.0,
        patience: int | None = None,
    ) -> None:
        equality = np.zeros(count, dtype=np.bool_)
        if options.equality is not None:
            if len(options.equality) != count:
                raise ValueError(
                    f"equality must say of each of {count} constraints whether it is one; got "
                    f"{len(options.equality)} answers"
                )
            equality[:] = options.equality
        self.equality = equality
        self.count = count
        self.tolerance = options.feasibility_tol
        self.judged = judged  # the share of the candidates, the better ones, that tells convergence
        self.patience = patience  # generations until all neighbours of discrete variables have been tried
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
        self.drift = 0.0  # what coefficients have added to a typical value since the beginning
        self.merit = math.inf
        self.spread = math.inf
        self.floor = 0.0
        self.flat_for = 0  # generations in a row in which what is ranked differed by rounding alone
        self.idle_for = 0  # generations since a feasible point was better than all before
        self.given_up = False  # whether ranks have taken over from the augmented Lagrangian

    def parts(self) -> dict[str, object]:
        """Return what carries state, by name."""
        return {"constraints": self} | ({} if self.lagrangian is None else {"lagrangian": self.lagrangian})

    @property
    def feasible(self) -> bool:
        """Whether the best point is feasible."""
        return self.violation <= self.tolerance

    @property
    def by_ranks(self) -> bool:
        """Whether constraints are treated by ranks alone, from the beginning or by now."""
        return self.lagrangian is None or self.given_up

    @property
    def multipliers(self) -> Values | None:
        """Lagrange multipliers, (p,), where they are learned."""
        return None if self.lagrangian is None else self.lagrangian.gamma.copy()

    def told(self, values: Values, constraints: Values) -> tuple[Values, int | None]:
        """Return what the strategy is to rank, and the row of a new best point, or None.

        Rows in which anything is not finite are failed, NaN in what is returned.
        """
        known = np.isfinite(values) & np.isfinite(constraints).all(axis=1)
        ranked = np.full(len(values), np.nan)
        if not np.any(known):
            return ranked, None
        f, g = values[known], constraints[known]
        excess = np.where(self.equality, np.abs(g), np.maximum(g, 0.0))
        worst = excess.max(axis=1, initial=0.0)
        by_ranks = self.by_ranks
        ranked[known] = self._by_rank(f, excess, worst) if by_ranks else self._by_lagrangian(f, g)
        self._measure(f, worst, ranked[known])
        self.idle_for += 1
        if not by_ranks and self.patience is not None and self.idle_for >= self.patience:
            # From one integer to the next a constraint jumps: multipliers may balance between an integer that
            # violates it and one that does not, with the better one of the two never feasible
            self.given_up = bool(worst[np.argmin(ranked[known])] > self.tolerance)
        best = int(np.lexsort((f, np.where(worst <= self.tolerance, 0.0, worst)))[0])
        if not better((worst[best], f[best]), (self.violation, self.fun), self.tolerance):
            return ranked, None
        self.violation, self.fun = float(worst[best]), float(f[best])
        if self.feasible:
            self.idle_for = 0
        np.copyto(self.at_best, g[best])
        return ranked, int(np.flatnonzero(known)[best])

    def _by_lagrangian(self, f: Values, g: Values) -> Values:
        assert self.lagrangian is not None
        before = self.lagrangian.value(f, g)
        self.lagrangian.begin(f, g)
        h = self.lagrangian.value(f, g)
        self._follow(h - before)
        told = h - self.drift
        self.lagrangian.learn(np.argsort(h, kind="stable"), g)
        self._follow(self.lagrangian.value(f, g) - h)
        self.floor = LAST_DIGITS * math.ulp(float(np.abs(f).max()))
        if not self.feasible and np.ptp(h) <= LAST_DIGITS * math.ulp(float(np.abs(h).max())):
            self.lagrangian.tighten()
        self.merit = float(h.min())
        return told

    def _follow(self, change: Values) -> None:
        """Take note of what new coefficients add to a typical value.

        Values are told without it: a strategy may compare those of two generations.
        """
        typical = float(np.median(change))
        self.drift += typical if math.isfinite(typical) else 0.0

    def _by_rank(self, f: Values, excess: Values, worst: Values) -> Values:
        """Return places by MCR-mod of Sakamoto and Akimoto (GECCO 2019)."""
        feasible = float(np.mean(worst <= self.tolerance))
        violated = np.count_nonzero(excess > self.tolerance, axis=1)
        of_constraints = _places(excess).mean(axis=1) + _places(violated[:, np.newaxis])[:, 0]
        total = feasible * _places(f[:, np.newaxis])[:, 0] + (1.0 - feasible) * of_constraints
        # Equal totals are frequent, and equal values would tell a strategy that its steps are too short
        keys = np.stack((total, of_constraints, f), axis=1)
        place = np.unique(keys, axis=0, return_inverse=True)[1].reshape(-1)
        return place.astype(np.float64)

    def _measure(self, f: Values, worst: Values, ranked: Values) -> None:
        """Note what convergence is judged by.

        The augmented Lagrangian is as flat as a square where f still falls along a constraint: it is f, and
        the violation, that must have ceased to differ, or else what is ranked, down to its last digits.
        """
        if self.judged < 1.0:
            some = np.argsort(ranked, kind="stable")[: math.ceil(self.judged * len(ranked))]
            f, worst, ranked = f[some], worst[some], ranked[some]
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
    """Return whether a (violation, value) is better than another one: feasible first, then by value."""
    first, second = (max(violation, tolerance) for violation, _ in (one, other))
    return first < second or (first == second == tolerance and one[1] < other[1])


def checked_constraints(constraints: npt.ArrayLike, popsize: int, count: int | None) -> Values:
    """Return constraints as float64, (popsize, p), or say what is wrong with them."""
    raw = np.asarray(constraints)
    if raw.dtype.kind not in "fiub":
        raise TypeError(f"constraints must be real numbers, (popsize, p), got dtype {raw.dtype}")
    if raw.ndim == 1 and len(raw) == popsize:
        raw = raw[:, np.newaxis]
    if raw.ndim != 2 or len(raw) != popsize or raw.shape[1] != (raw.shape[1] if count is None else count):
        wanted = "p" if count is None else str(count)
        raise ValueError(
            f"constraints must have shape ({popsize}, {wanted}), one row for each candidate of ask() in the "
            f"same order; got shape {raw.shape}"
        )
    return raw.astype(np.float64, copy=False)


def _places(columns: Array) -> Values:
    """Return for each entry how many of its column are smaller."""
    return np.stack([np.searchsorted(np.sort(column), column) for column in columns.T], axis=1).astype(
        np.float64
    )


def as_flags(equality: Iterable[bool] | None) -> tuple[bool, ...] | None:
    """Return flags as a tuple of bool."""
    return None if equality is None else tuple(bool(flag) for flag in equality)
