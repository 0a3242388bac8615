"""User constraints: parsed from SciPy's forms, evaluated with fun, and converted to g <= 0 and g = 0.

==========  ========  ===============================================================
name        shape     meaning
==========  ========  ===============================================================
``raw``     (., q)    values of the constraints, in the order given
``g``       (., p)    the same as g <= 0, or g = 0 for an equality
==========  ========  ===============================================================

lb <= c becomes lb - c <= 0, c <= ub becomes c - ub <= 0, and lb == ub becomes c - lb = 0. Infinite limits are
ignored. Linear constraints are evaluated here, by one product; candidates satisfy linear equalities exactly.
SciPy is not imported: its objects are recognised by their attributes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma._text import nearest, one_line, plural, shown
from lmma.evaluation.objective import WithConstraints
from lmma.layers.constraints import ConstraintOptions, Handling
from lmma.layers.equalities import Subspace, checked_subspace
from lmma.run.setup import has_discrete, on_vectors
from lmma.space import Space

if TYPE_CHECKING:
    from lmma.methods import Strategy
    from lmma.run.options import RunOptions

Array = npt.NDArray[np.floating]
Values = npt.NDArray[np.float64]

# Parsing

FORMS = (
    "scipy.optimize.NonlinearConstraint or LinearConstraint, a dict {'type': 'ineq' or 'eq', 'fun': ...}, "
    "lmma.constraints.Returned, a function g(x) <= 0, or a list of these"
)


@dataclass(frozen=True)
class Returned:
    """Limits for constraints that ``fun`` returns with its value, as ``(f, c)``: lb <= c <= ub.

    Parameters
    ----------
    lb, ub : float or array_like
        Limits; infinite for no limit, equal for an equality. By default c <= 0.
    """

    lb: Any = -math.inf
    ub: Any = 0.0

    def __repr__(self) -> str:
        return f"Returned(lb={one_line(shown(self.lb), 60)}, ub={one_line(shown(self.ub), 60)})"


@dataclass(frozen=True)
class Part:
    """One user constraint: limits on the values of a function, of fun itself, or of a matrix product."""

    lb: Values
    ub: Values
    function: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()
    matrix: Any = None  # (rows, n), dense or sparse
    name: str = ""

    @property
    def full_matrix(self) -> Values | None:
        """The matrix as a dense array."""
        return None if self.matrix is None else dense(self.matrix)

    def limits(self, count: int) -> tuple[Values, Values]:
        """Return lower and upper limits of ``count`` values; raise if the lengths do not match."""
        for side, limit in (("lb", self.lb), ("ub", self.ub)):
            if limit.ndim == 1 and len(limit) not in (1, count):
                raise ValueError(f"{self.name} has {plural(count, 'value')}, but its {side} has {len(limit)}")
        return np.broadcast_to(self.lb, (count,)), np.broadcast_to(self.ub, (count,))


def read_parts(constraints: Any, n: int) -> tuple[list[Part], Any]:
    """Return the constraints as a list of parts, and the bounds if they include any."""
    bounds = None
    parts: list[Part] = []
    for place, one in enumerate([] if constraints is None else _as_list(constraints)):
        if _is_bounds(one):
            if bounds is not None:
                raise ValueError("constraints contain Bounds twice: pass them once, as bounds=")
            bounds = one
        else:
            parts.append(_part(one, place, n))
    if sum(part.function is None and part.matrix is None for part in parts) > 1:
        raise ValueError("constraints contain Returned twice: put the limits of all returned values into one")
    return parts, bounds


def _is_bounds(one: Any) -> bool:
    """Return whether a constraint limits the variables themselves, as SciPy's ``Bounds`` does."""
    limits = hasattr(one, "lb") and hasattr(one, "ub")
    return limits and not (isinstance(one, Returned) or hasattr(one, "fun") or hasattr(one, "A"))


def _as_list(constraints: Any) -> list[Any]:
    single = isinstance(constraints, dict | Returned) or callable(constraints) or hasattr(constraints, "lb")
    if single:
        return [constraints]
    if isinstance(constraints, str) or not isinstance(constraints, Sequence | set | frozenset):
        raise TypeError(f"constraints must be {FORMS}; got {shown(constraints)}")
    return list(constraints)


def _part(one: Any, place: int, n: int) -> Part:
    name = f"constraint {place}"
    if isinstance(one, Returned):
        return returned_part(one)
    if isinstance(one, dict):
        return _from_dict(one, name)
    if hasattr(one, "fun") and hasattr(one, "lb"):
        return Part(*_limits(one.lb, one.ub, name), function=_callable(one.fun, name), name=name)
    if hasattr(one, "A") and hasattr(one, "lb"):
        return _linear(one, name, n)
    if callable(one):
        return Part(np.array(-math.inf), np.array(0.0), function=one, name=name)
    raise TypeError(f"constraints must be {FORMS}; {name} is {shown(one)}")


def returned_part(one: Returned) -> Part:
    """Return the part for constraints that fun returns."""
    return Part(*_limits(one.lb, one.ub, "Returned"), name="the constraint returned by fun")


def _from_dict(one: dict[str, Any], name: str) -> Part:
    known = ("type", "fun", "args", "jac")
    for key in one:
        if key not in known:
            hint = nearest(key, known) if isinstance(key, str) else ""
            raise ValueError(f"{name} has an unknown key {shown(key)}{hint}: use type, fun and args")
    kind = one.get("type")
    if kind not in ("ineq", "eq"):
        raise ValueError(f"{name} must have type 'ineq' (fun >= 0) or 'eq' (fun = 0), got {shown(kind)}")
    args = one.get("args", ())
    upper = 0.0 if kind == "eq" else math.inf
    return Part(
        np.array(0.0), np.array(upper), function=_callable(one.get("fun"), name),
        args=args if isinstance(args, tuple) else (args,), name=name,
    )  # fmt: skip


def _linear(one: Any, name: str, n: int) -> Part:
    matrix = one.A if hasattr(one.A, "toarray") else np.atleast_2d(np.asarray(one.A, dtype=np.float64))
    if matrix.ndim != 2 or matrix.shape[1] != n:
        raise ValueError(f"{name}: A must have {n} columns, one per variable; got shape {matrix.shape}")
    if not np.all(np.isfinite(dense(matrix))):
        raise ValueError(f"{name}: A must be finite")
    part = Part(*_limits(one.lb, one.ub, name), matrix=matrix, name=name)
    part.limits(matrix.shape[0])
    return part


def dense(matrix: Any) -> Values:
    """Return a matrix, sparse or not, as an array."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def _limits(lb: Any, ub: Any, name: str) -> tuple[Values, Values]:
    """Return limits as arrays with at most one dimension; raise if they are invalid."""
    try:
        low, high = (np.array(side, dtype=np.float64) for side in (lb, ub))
        wrong = np.any(low > high) or np.any(np.isnan(low)) or np.any(np.isnan(high))
    except (TypeError, ValueError):
        raise TypeError(
            f"{name}: lb and ub must be numbers or vectors of equal length; got {shown((lb, ub))}"
        ) from None
    if np.any(low > high):
        raise ValueError(f"{name}: {_crossing(low, high)}")
    if wrong or np.any(np.isposinf(low)) or np.any(np.isneginf(high)):
        raise ValueError(
            f"{name}: limits must satisfy lb <= ub, lb < inf and ub > -inf; got {shown(lb)} and {shown(ub)}"
        )
    if low.ndim > 1 or high.ndim > 1:
        raise ValueError(
            f"{name}: lb and ub must be numbers or vectors, got shapes {low.shape}, {high.shape}"
        )
    return low, high


def _crossing(low: Values, high: Values) -> str:
    """Return a description of the first lower limit that exceeds its upper limit."""
    at = tuple(np.argwhere(low > high)[0])
    sides = [
        f"{side}[{', '.join(map(str, at))}] = {values[at]:g}" if limit.ndim else f"{side} = {limit:g}"
        for side, limit, values in zip(("lb", "ub"), (low, high), np.broadcast_arrays(low, high), strict=True)
    ]
    return " exceeds ".join(sides)


def _callable(fun: Any, name: str) -> Callable[..., Any]:
    if not callable(fun):
        raise TypeError(f"{name} must have a function fun, got {shown(fun)}")
    return fun  # type: ignore[no-any-return]


# Evaluation


@dataclass
class Layout:
    """The mapping from ``raw`` to ``g``; known after the first evaluation."""

    starts: list[int]  # first column of each part in raw, and the end
    column: npt.NDArray[np.intp]  # column of raw for each column of g
    sign: Values
    limit: Values
    equality: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class ConstraintReport:
    """Constraint values and violations of a batch of candidates; see the module for ``raw`` and ``g``."""

    raw: Values  # (rows, q)
    g: Values  # (rows, p)
    violations: Values  # (rows,), the largest of each row
    tolerance: float

    def best(self, values: Values) -> int:
        """Return the best row: the feasible one with the lowest value, else the least violated one."""
        worst = np.where(self.violations <= self.tolerance, 0.0, self.violations)
        return int(np.lexsort((values, worst))[0])  # NaN is sorted last

    def progress_values(self, values: Values) -> Values:
        """Return the values for stopping rules: the best feasible value and the median violation."""
        known = ~np.isnan(values)
        if not np.any(known):
            return np.empty(0)
        feasible = values[known & (self.violations <= self.tolerance)]
        return np.array([feasible.min(initial=math.inf), np.median(self.violations[known])])

    def replaced(self, rows: npt.NDArray[np.intp], fresh: ConstraintReport) -> None:
        """Replace ``rows`` by the report ``fresh`` on new candidates."""
        self.raw[rows], self.g[rows], self.violations[rows] = fresh.raw, fresh.g, fresh.violations


@dataclass
class Constraints:
    """All constraints, and their layout in ``raw`` and ``g``.

    Attributes
    ----------
    parts : list of Part
        In the order given.
    keeps_equalities : bool
        Whether candidates satisfy linear equalities exactly; impossible with integer variables.
    subspace : Subspace or None
        The linear equalities that candidates satisfy exactly.
    """

    parts: list[Part]
    n: int
    handling: Handling
    feasibility_tol: float
    given: bool = True  # False if only fun may return some, undeclared
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
        ConstraintOptions(self.handling, None, self.feasibility_tol)  # raises for invalid values

    def objective(
        self, fun: Callable[..., Any], options: RunOptions, seeds: tuple[str, ...] = ()
    ) -> Callable[..., Any]:
        """Return a function of vectors that evaluates ``fun`` and all constraint functions in one call.

        ``seeds`` are the seed keywords that ``fun`` takes.
        """
        space, call = options.space, on_vectors(fun, options.space, options.args, seeds)
        functions = [(on_vectors(part.function, space, part.args), part.args) for part in self._functions]
        return WithConstraints(call, functions, options.vectorized) if functions else call

    @property
    def _functions(self) -> list[Any]:
        return [part for part in self.parts if part.function is not None]

    @property
    def function_names(self) -> tuple[str, ...]:
        """The names of the constraints that are functions, for messages."""
        return tuple(part.name for part in self._functions)

    def options(self) -> ConstraintOptions:
        """Return the options for a strategy."""
        layout = self.layout
        equality = None if layout is None else tuple(layout.equality.tolist())
        return ConstraintOptions(self.handling, equality, self.feasibility_tol, self.subspace)

    def prepare(self, strategy: Strategy) -> None:
        """Set in ``strategy`` which constraints are equalities, once the first values are known."""
        if strategy.constraints is None and self.layout is not None:
            equality = tuple(self.layout.equality.tolist())
            strategy.constraint_options = replace(strategy.constraint_options, equality=equality)

    # Values of constraints

    def constraint_report(
        self, candidates: Array, values: Values, constraint_values: Values | None
    ) -> ConstraintReport | None:
        """Return the report on a batch; None without constraints, or if nothing is known yet."""
        if constraint_values is None and not self.parts:
            return None
        if np.all(np.isnan(values)):
            return None if self.layout is None else self.unknown(len(values))
        raw = self._raw(candidates, constraint_values)
        raw[np.isnan(values)] = np.nan
        g = self._as_g(raw, candidates)
        return ConstraintReport(raw, g, self._violations(g), self.feasibility_tol)

    def violation_at(self, x: Array, returned: Values | None) -> float:
        """Return the largest violation at one point, or NaN if it is not known; changes no state.

        ``returned`` are the constraint values that the evaluation of ``x`` returned.
        """
        given = np.empty(0) if returned is None else returned
        functions = len(self._functions)
        counts = given[: functions + 1].astype(int).tolist() if functions else [len(given)]
        pieces = np.split(given[functions + 1 if functions else 0 :], np.cumsum(counts)[:-1])
        if not pieces or sum(counts) != sum(map(len, pieces)):
            return math.nan
        from_fun, by_function = pieces[0], iter(pieces[1:])
        declared = any(part.function is None and part.matrix is None for part in self.parts)
        worst = 0.0 if declared else float(from_fun.max(initial=0.0))
        for part in self.parts:
            values = (
                np.asarray(part.matrix @ x.astype(np.float64)).ravel() if part.matrix is not None
                else from_fun if part.function is None
                else next(by_function)
            )  # fmt: skip
            worst = max(worst, float(np.maximum(part.lb - values, values - part.ub).max(initial=0.0)))
        return worst

    def unknown(self, rows: int) -> ConstraintReport:
        """Return a report on candidates that all failed."""
        assert self.layout is not None
        widths = self.layout.starts[-1], len(self.layout.column)
        raw, g = (np.full((rows, width), np.nan) for width in widths)
        return ConstraintReport(raw, g, np.full(rows, np.nan), self.feasibility_tol)

    def _raw(self, candidates: Array, constraint_values: Values | None) -> Values:
        """Return the values of the constraints for each candidate, (rows, q)."""
        rows = len(candidates)
        if constraint_values is None:
            constraint_values = np.full((rows, 0), np.nan)
        from_fun, by_function = self._split(constraint_values)
        declared = any(part.function is None and part.matrix is None for part in self.parts)
        if from_fun.shape[1] and not declared:
            self._add_undeclared(from_fun.shape[1])
        if declared and not from_fun.shape[1]:
            raise ValueError(
                "constraints: Returned() needs a fun that also returns constraints, but fun returned only a "
                "number: return (f, g)"
            )
        blocks = []
        for part in self.parts:
            if part.matrix is not None:
                blocks.append(np.asarray(part.matrix @ candidates.T.astype(np.float64)).T)
            else:
                blocks.append(from_fun if part.function is None else by_function[id(part)])
        if self.layout is None:
            self.set_layout([block.shape[1] for block in blocks])
        return np.concatenate(blocks, axis=1)

    def _split(self, constraint_values: Values) -> tuple[Values, dict[int, Values]]:
        """Split the returned constraint values into those of fun and those of each function."""
        functions = self._functions
        if not functions:
            return constraint_values, {}
        heads = constraint_values[:, : len(functions) + 1]
        known = heads[~np.isnan(heads).any(axis=1)]
        if np.any(known != known[:1]):
            raise ValueError("constraints must return the same number of values for each candidate")
        counts = known[0].astype(int).tolist() if len(known) else self._counts_so_far()
        if not constraint_values.shape[1]:
            constraint_values = np.full((len(constraint_values), len(counts) + sum(counts)), np.nan)
        ends = np.cumsum([len(counts), *counts])
        pieces = [constraint_values[:, start:end] for start, end in itertools.pairwise(ends)]
        return pieces[0], {id(part): piece for part, piece in zip(functions, pieces[1:], strict=True)}

    def _counts_so_far(self) -> list[int]:
        """Return the number of values that fun and each function returned before."""
        assert self.layout is not None
        pairs = list(zip(self.sizes, self.parts, strict=True))
        from_fun: int = sum(size for size, part in pairs if part.function is None and part.matrix is None)
        return [from_fun, *(size for size, part in pairs if part.function is not None)]

    def _add_undeclared(self, count: int) -> None:
        """Treat undeclared values that fun returns as g <= 0, unless they may be a gradient."""
        if not self.given and count == self.n:
            raise ValueError(
                f"fun returned {count} numbers with its value, as many as there are variables: constraints "
                "or a gradient? For constraints g <= 0, pass constraints=lmma.constraints.Returned(). A "
                "gradient is not used: return only the value"
            )
        self.parts.insert(0, returned_part(Returned()))

    def set_layout(self, sizes: list[int]) -> None:
        """Set the number of values of each part, and with it the layout."""
        if len(sizes) == len(self.parts) + 1:  # from a saved run whose fun returned undeclared constraints
            self.parts.insert(0, returned_part(Returned()))
        if len(sizes) != len(self.parts):
            raise ValueError(f"there are {len(self.parts)} constraints here and {len(sizes)} in the file")
        starts = np.concatenate(([0], np.cumsum(sizes))).astype(int).tolist()
        sides = [
            (start + place, sign, limit, equal)
            for part, start, count in zip(self.parts, starts, sizes, strict=False)
            for place, limits in enumerate(zip(*part.limits(count), strict=True))
            for sign, limit, equal in _sides(*map(float, limits))
        ]
        if not sides and any(sizes):
            raise ValueError("constraints have no finite limit")
        columns = list(zip(*sides, strict=True)) or [(), (), (), ()]
        self.layout = Layout(
            starts,
            np.array(columns[0], dtype=np.intp),
            np.array(columns[1], dtype=np.float64),
            np.array(columns[2], dtype=np.float64),
            np.array(columns[3], dtype=np.bool_),
        )

    def _as_g(self, raw: Values, candidates: Array) -> Values:
        """Return the constraints as g <= 0 or g = 0."""
        assert self.layout is not None
        layout = self.layout
        g: Values = layout.sign * (raw[:, layout.column] - layout.limit)
        if self.subspace is not None:
            kept = self._kept_equalities()
            g[:, kept] = self.subspace.residuals(candidates)
        return g

    def _kept_equalities(self) -> npt.NDArray[np.intp]:
        """Return the columns of g that are linear equalities satisfied by all candidates."""
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
        """The number of values of each part; empty if not known yet."""
        return [] if self.layout is None else [int(size) for size in np.diff(self.layout.starts)]

    # Fields of the result

    def by_constraint(self, raw: Values) -> list[Values]:
        """Return the values at one point, split by constraint."""
        assert self.layout is not None
        return np.split(raw, self.layout.starts[1:-1])

    def multipliers(self, gamma: Values | None) -> list[Values] | None:
        """Return the Lagrange multipliers of each constraint.

        They are positive at an upper limit and negative at a lower one. Those of linear equalities that all
        candidates satisfy are not learned and are NaN.
        """
        if gamma is None or self.layout is None:
            return None
        total = np.zeros(self.layout.starts[-1])
        np.add.at(total, self.layout.column, self.layout.sign * gamma)
        total[self.layout.column[self._kept_equalities()]] = np.nan
        return self.by_constraint(total)

    def worst(self, raw: Values) -> tuple[str, float]:
        """Return a description of the most violated constraint at one point, and its violation."""
        assert self.layout is not None
        layout = self.layout
        g = layout.sign * (raw[layout.column] - layout.limit)
        excess = np.where(layout.equality, np.abs(g), g)
        k = int(np.argmax(excess))
        column = int(layout.column[k])
        at = int(np.searchsorted(layout.starts, column, side="right")) - 1
        count = layout.starts[at + 1] - layout.starts[at]
        place = f", number {column - layout.starts[at]}," if count > 1 else ""
        side = "=" if layout.equality[k] else "<=" if layout.sign[k] > 0 else ">="
        limit = f"{side} {layout.limit[k]:.6g}"
        return f"{self.parts[at].name}{place} is {raw[column]:.6g} but must be {limit}", float(excess[k])


def _sides(low: float, high: float) -> list[tuple[float, float, bool]]:
    """Return (sign, limit, is equality) for each finite side of low <= c <= high."""
    if low == high:
        return [(1.0, low, True)]
    sides = [(-1.0, low, False)] if low > -math.inf else []
    return sides + ([(1.0, high, False)] if high < math.inf else [])


def read_constraints(options: RunOptions, n: int, limits: Mapping[str, Any]) -> tuple[Constraints, Any]:
    """Parse ``constraints=``; return the constraints, and the bounds if they include any.

    ``limits`` are bounds, integers and choices, as arguments of strategies. Without declared constraints, the
    result applies to values that ``fun`` returns with its value; each must be <= 0.
    """
    parts, bounds = read_parts(options.constraints, n)
    if isinstance(options.space, Space):
        _check_no_vectors(parts, bounds)
    if bounds is not None and limits["bounds"] is not None:
        raise ValueError("bounds are given twice, as bounds= and in constraints: pass them once")
    made = Constraints(
        parts, n, options.constraint_handling, options.feasibility_tol, bool(parts), not has_discrete(limits)
    )
    return made, bounds


def _check_no_vectors(parts: Sequence[Part], bounds: Any) -> None:
    """Raise for constraints on vectors, which cannot be combined with named values."""
    if bounds is not None:
        raise ValueError("constraints contain Bounds, but the space defines the bounds: remove them")
    for part in parts:
        if part.matrix is not None:
            raise ValueError(
                f"{part.name} is a LinearConstraint on a vector, but a space has named values: pass a "
                "function g <= 0 of them, such as lambda **x: x['speed'] - 2 * x['load']"
            )
