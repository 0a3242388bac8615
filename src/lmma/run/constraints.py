"""Constraints of a run: read from what SciPy takes, evaluated beside the objective, told as g <= 0 and g = 0.

==========  ========  ===============================================================
name        shape     meaning
==========  ========  ===============================================================
``raw``     (., q)    what the constraints' functions give, in the order they were given
``g``       (., p)    the same as g <= 0, or g = 0 where it is an equality
==========  ========  ===============================================================

A side lb <= c is lb - c <= 0, a side c <= ub is c - ub <= 0, lb == ub is c - lb = 0; sides that are infinite
are none. Linear constraints are evaluated here, by one product; linear equalities are kept by the candidates.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma.evaluation.beside import Beside
from lmma.run.constraint_forms import Part, Returned, dense, read_parts, returned
from lmma.run.variables import called_with
from lmma.space import Space
from lmma.strategies.parts.bounds import Values
from lmma.strategies.parts.constraints import ConstraintOptions, Handling
from lmma.strategies.parts.subspace import Subspace, checked_subspace

if TYPE_CHECKING:
    from lmma.run.options import RunOptions
    from lmma.strategies import Strategy

Array = npt.NDArray[np.floating]


@dataclass
class Layout:
    """Where each number of ``raw`` comes from, and how ``g`` is made of it; known once one was evaluated."""

    starts: list[int]  # of each part in raw, and the end
    column: npt.NDArray[np.intp]  # of raw, for each of g
    sign: Values
    limit: Values
    equality: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Judged:
    """What the constraints say of some candidates."""

    raw: Values  # (rows, q)
    g: Values  # (rows, p)
    violations: Values  # (rows,), the largest of each
    tolerance: float

    def best(self, values: Values) -> int:
        """Return the row that is best: a feasible one with the least value, else that violated least."""
        worst = np.where(self.violations <= self.tolerance, 0.0, self.violations)
        return int(np.lexsort((values, worst))[0])  # NaN goes last

    def watched(self, values: Values) -> Values:
        """Return what tells progress from stagnation: the best feasible value, and the median violation."""
        known = ~np.isnan(values)
        if not np.any(known):
            return np.empty(0)
        feasible = values[known & (self.violations <= self.tolerance)]
        return np.array([feasible.min(initial=math.inf), np.median(self.violations[known])])

    def replaced(self, rows: npt.NDArray[np.intp], fresh: Judged) -> None:
        """Put what is said of other candidates in place of ``rows``."""
        self.raw[rows], self.g[rows], self.violations[rows] = fresh.raw, fresh.g, fresh.violations


@dataclass
class Constraints:
    """All constraints of a run.

    Attributes
    ----------
    parts : list of Part
        In the order given.
    keeps_equalities : bool
        Whether candidates keep linear equalities: where some variables are integers they cannot.
    subspace : Subspace or None
        The linear equalities that candidates keep.
    """

    parts: list[Part]
    n: int
    handling: Handling
    feasibility_tol: float
    given: bool = True  # False: there are some only if fun returns them unasked
    keeps_equalities: bool = True
    subspace: Subspace | None = field(default=None, init=False)
    layout: Layout | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        rows = [
            (part.matrix, *part.limits(part.matrix.shape[0]))
            for part in self.parts
            if part.matrix is not None
        ]
        A = [dense(matrix)[low == high] for matrix, low, high in rows if np.any(low == high)]
        b = [low[low == high] for _, low, high in rows if np.any(low == high)]
        if A and self.keeps_equalities:
            self.subspace = checked_subspace(np.vstack(A), np.concatenate(b), self.n)
        ConstraintOptions(self.handling, None, self.feasibility_tol)  # refuses what cannot be meant

    def objective(
        self, fun: Callable[..., Any], options: RunOptions, seeds: tuple[str, ...] = ()
    ) -> Callable[..., Any]:
        """Return what evaluates ``fun`` and the constraints' functions in one call, of vectors.

        ``fun`` is also given ``seeds`` by name, if there are any.
        """
        space, call = options.space, called_with(fun, options.space, options.args, seeds)
        functions = [(called_with(part.function, space, part.args), part.args) for part in self._functions]
        return Beside(call, functions, options.vectorized) if functions else call

    @property
    def _functions(self) -> list[Any]:
        return [part for part in self.parts if part.function is not None]

    def options(self) -> ConstraintOptions:
        """Return what a strategy must know."""
        layout = self.layout
        equality = None if layout is None else tuple(layout.equality.tolist())
        return ConstraintOptions(self.handling, equality, self.feasibility_tol, self.subspace)

    def prepare(self, strategy: Strategy) -> None:
        """Tell ``strategy`` which constraints are equalities, known when the first were evaluated."""
        if strategy.constraints is None and self.layout is not None:
            equality = tuple(self.layout.equality.tolist())
            strategy.constraint_options = replace(strategy.constraint_options, equality=equality)

    # From candidates to constraints

    def judge(self, candidates: Array, values: Values, beside: Values | None) -> Judged | None:
        """Return what the constraints say of each candidate; None if there are none, or nothing is known."""
        if beside is None and not self.parts:
            return None
        if np.all(np.isnan(values)):
            return None if self.layout is None else self.unknown(len(values))
        raw = self._raw(candidates, beside)
        raw[np.isnan(values)] = np.nan
        g = self._as_g(raw, candidates)
        return Judged(raw, g, self._violations(g), self.feasibility_tol)

    def unknown(self, rows: int) -> Judged:
        """Return what is said of candidates that all failed."""
        assert self.layout is not None
        widths = self.layout.starts[-1], len(self.layout.column)
        raw, g = (np.full((rows, width), np.nan) for width in widths)
        return Judged(raw, g, np.full(rows, np.nan), self.feasibility_tol)

    def _raw(self, candidates: Array, beside: Values | None) -> Values:
        """Return what the constraints give for each candidate, (rows, q)."""
        rows = len(candidates)
        if beside is None:
            beside = np.full((rows, 0), np.nan)
        own, given = self._split(beside)
        asked = any(part.function is None and part.matrix is None for part in self.parts)
        if own.shape[1] and not asked:
            self._take_unasked(own.shape[1])
        if asked and not own.shape[1]:
            raise ValueError(
                "constraints: Returned() is about what fun returns beside its value, but fun returned a "
                "number alone: return (f, g)"
            )
        blocks = []
        for part in self.parts:
            if part.matrix is not None:
                blocks.append(np.asarray(part.matrix @ candidates.T.astype(np.float64)).T)
            else:
                blocks.append(own if part.function is None else given[id(part)])
        if self.layout is None:
            self.lay_out([block.shape[1] for block in blocks])
        return np.concatenate(blocks, axis=1)

    def _split(self, beside: Values) -> tuple[Values, dict[int, Values]]:
        """Return what fun itself gave, and each function, from what stood beside the values."""
        functions = self._functions
        if not functions:
            return beside, {}
        heads = beside[:, : len(functions) + 1]
        known = heads[~np.isnan(heads).any(axis=1)]
        if np.any(known != known[:1]):
            raise ValueError("constraints must give as many numbers for each candidate, theirs vary")
        counts = known[0].astype(int).tolist() if len(known) else self._counts_so_far()
        if not beside.shape[1]:
            beside = np.full((len(beside), len(counts) + sum(counts)), np.nan)
        ends = np.cumsum([len(counts), *counts])
        pieces = [beside[:, start:end] for start, end in itertools.pairwise(ends)]
        return pieces[0], {id(part): piece for part, piece in zip(functions, pieces[1:], strict=True)}

    def _counts_so_far(self) -> list[int]:
        """Return how many numbers fun and each function gave before."""
        assert self.layout is not None
        pairs = list(zip(self.sizes, self.parts, strict=True))
        own: int = sum(size for size, part in pairs if part.function is None and part.matrix is None)
        return [own, *(size for size, part in pairs if part.function is not None)]

    def _take_unasked(self, count: int) -> None:
        """Take what fun returns beside its value as g <= 0, unless it may be a gradient."""
        if not self.given and count == self.n:
            raise ValueError(
                f"fun returned {count} numbers beside its value, as many as there are variables: constraints "
                "or a gradient? For constraints g <= 0 pass constraints=lmma.constraints.Returned(); a "
                "gradient is of no use here, return the value alone"
            )
        self.parts.insert(0, returned(Returned()))

    def lay_out(self, sizes: list[int]) -> None:
        """Take note of how many numbers each part gives."""
        if len(sizes) == len(self.parts) + 1:  # of a saved run, in which fun returned some unasked
            self.parts.insert(0, returned(Returned()))
        if len(sizes) != len(self.parts):
            raise ValueError(f"constraints are {len(self.parts)} here and {len(sizes)} there")
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(int).tolist()
        sides = [
            (start + place, sign, limit, equal)
            for part, start, count in zip(self.parts, starts, sizes, strict=False)
            for place, limits in enumerate(zip(*part.limits(count), strict=True))
            for sign, limit, equal in _sides(*map(float, limits))
        ]
        if not sides and any(sizes):
            raise ValueError("constraints have no finite limit: nothing is constrained")
        columns = list(zip(*sides, strict=True)) or [(), (), (), ()]
        self.layout = Layout(
            starts,
            np.array(columns[0], dtype=np.intp),
            np.array(columns[1], dtype=np.float64),
            np.array(columns[2], dtype=np.float64),
            np.array(columns[3], dtype=np.bool_),
        )

    def _as_g(self, raw: Values, candidates: Array) -> Values:
        """Return the constraints as g <= 0, or g = 0."""
        assert self.layout is not None
        layout = self.layout
        g: Values = layout.sign * (raw[:, layout.column] - layout.limit)
        if self.subspace is not None:
            kept = self._kept()
            g[:, kept] = self.subspace.residuals(candidates)
        return g

    def _kept(self) -> npt.NDArray[np.intp]:
        """Return which of g are linear equalities that candidates keep."""
        if self.subspace is None:
            return np.empty(0, dtype=np.intp)
        assert self.layout is not None
        layout = self.layout
        linear = np.zeros(layout.starts[-1], dtype=np.bool_)
        for part, start, end in zip(self.parts, layout.starts[:-1], layout.starts[1:], strict=True):
            linear[start:end] = part.matrix is not None
        return np.flatnonzero(linear[layout.column] & layout.equality)

    def _violations(self, g: Values) -> Values:
        """Return the largest violation in each row."""
        assert self.layout is not None
        excess = np.where(self.layout.equality, np.abs(g), np.maximum(g, 0.0))
        return np.asarray(excess.max(axis=1, initial=0.0))

    @property
    def sizes(self) -> list[int]:
        """How many numbers each part gives; empty while that is not known."""
        return [] if self.layout is None else [int(size) for size in np.diff(self.layout.starts)]

    # What a result says

    def as_given(self, raw: Values) -> list[Values]:
        """Return what each constraint gave at one point."""
        assert self.layout is not None
        return np.split(raw, self.layout.starts[1:-1])

    def multipliers(self, gamma: Values | None) -> list[Values] | None:
        """Return Lagrange multipliers of each constraint: positive at an upper limit, negative at a lower.

        Those of linear equalities, which candidates keep, are not learned: NaN.
        """
        if gamma is None or self.layout is None:
            return None
        total = np.zeros(self.layout.starts[-1])
        np.add.at(total, self.layout.column, self.layout.sign * gamma)
        total[self.layout.column[self._kept()]] = np.nan
        return self.as_given(total)

    def worst(self, raw: Values) -> tuple[str, float]:
        """Return which constraint is violated most at one point, in words, and by how much."""
        assert self.layout is not None
        layout = self.layout
        g = layout.sign * (raw[layout.column] - layout.limit)
        excess = np.where(layout.equality, np.abs(g), g)
        k = int(np.argmax(excess))
        column = int(layout.column[k])
        at = int(np.searchsorted(layout.starts, column, side="right")) - 1
        count = layout.starts[at + 1] - layout.starts[at]
        place = f", number {column - layout.starts[at]}" if count > 1 else ""
        side = "=" if layout.equality[k] else "<=" if layout.sign[k] > 0 else ">="
        words = (
            f"{self.parts[at].name}{place}: {raw[column]:.6g} where {side} {layout.limit[k]:.6g} is asked for"
        )
        return words, float(excess[k])


def _sides(low: float, high: float) -> list[tuple[float, float, bool]]:
    """Return sign, limit, and whether it is an equality, for each side of low <= c <= high that is one."""
    if low == high:
        return [(1.0, low, True)]
    sides = [(-1.0, low, False)] if low > -math.inf else []
    return sides + ([(1.0, high, False)] if high < math.inf else [])


def read_constraints(options: RunOptions, n: int, limits: Mapping[str, Any]) -> tuple[Constraints, Any]:
    """Return the constraints a user means, and bounds where they are among them.

    ``limits`` are bounds, integers and choices, as strategies take them.
    """
    parts, bounds = read_parts(options.constraints, n)
    if isinstance(options.space, Space):
        _refuse_vectors(parts, bounds)
    if bounds is not None and limits["bounds"] is not None:
        raise ValueError("bounds are given twice, as bounds= and among constraints: give them once")
    integrality = limits.get("integrality")
    discrete = bool(limits.get("categories")) or (integrality is not None and np.any(integrality))
    made = Constraints(
        parts, n, options.constraint_handling, options.feasibility_tol, bool(parts), not discrete
    )
    return made, bounds


def _refuse_vectors(parts: Sequence[Part], bounds: Any) -> None:
    """Raise where constraints are about vectors, which stand for values by name in a way of their own."""
    if bounds is not None:
        raise ValueError("constraints hold Bounds, but a space has its own: leave them out")
    for part in parts:
        if part.matrix is not None:
            raise ValueError(
                f"{part.name} is a LinearConstraint, of a vector, but a space has values by name: give a "
                "function of these, such as lambda **x: x['speed'] - 2 * x['load'], to become 0 or less"
            )
