"""Constraints as a user gives them: SciPy's objects and dicts, functions, limits of what fun returns.

Nothing of SciPy is imported: its objects are known by what they have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lmma.kernels.words import one_line
from lmma.strategies.parts.bounds import Values
from lmma.strategies.parts.checks import nearest, shown

FORMS = (
    "scipy.optimize.NonlinearConstraint or LinearConstraint, a dict {'type': 'ineq' or 'eq', 'fun': ...}, "
    "lmma.constraints.Returned, a function g(x) <= 0, or a list of these"
)


@dataclass(frozen=True)
class Returned:
    """What ``fun`` returns beside its value, ``(f, c)``, is to lie between ``lb`` and ``ub``.

    Parameters
    ----------
    lb, ub : float or array_like
        Limits, infinite for none; equal ones are an equality. By default c <= 0.
    """

    lb: Any = -math.inf
    ub: Any = 0.0

    def __repr__(self) -> str:
        return f"Returned(lb={one_line(shown(self.lb), 60)}, ub={one_line(shown(self.ub), 60)})"


@dataclass(frozen=True)
class Part:
    """One constraint as a user gave it: limits of what a function, fun itself, or a matrix gives."""

    lb: Values
    ub: Values
    function: Callable[..., Any] | None = None
    args: tuple[Any, ...] = ()
    matrix: Any = None  # (rows, n), also a sparse one
    name: str = ""

    @property
    def full_matrix(self) -> Values | None:
        """The matrix as an array."""
        return None if self.matrix is None else dense(self.matrix)

    def limits(self, count: int) -> tuple[Values, Values]:
        """Return lower and upper limits of ``count`` numbers, or say that they are as many as others."""
        for side, limit in (("lb", self.lb), ("ub", self.ub)):
            if limit.ndim == 1 and len(limit) not in (1, count):
                raise ValueError(
                    f"constraints: {self.name} gave {count} numbers, its {side} has {len(limit)}"
                )
        return np.broadcast_to(self.lb, (count,)), np.broadcast_to(self.ub, (count,))


def read_parts(constraints: Any, n: int) -> tuple[list[Part], Any]:
    """Return the constraints a user means, one by one, and bounds where they are among them."""
    bounds = None
    parts: list[Part] = []
    for place, one in enumerate([] if constraints is None else _as_list(constraints)):
        if _is_bounds(one):
            if bounds is not None:
                raise ValueError("constraints hold two sets of Bounds: give one, as bounds=")
            bounds = one
        else:
            parts.append(_part(one, place, n))
    if sum(part.function is None and part.matrix is None for part in parts) > 1:
        raise ValueError("constraints hold Returned twice: limits of all that fun returns stand in one")
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
        return returned(one)
    if isinstance(one, dict):
        return _from_dict(one, name)
    if hasattr(one, "fun") and hasattr(one, "lb"):
        return Part(*_limits(one.lb, one.ub, name), function=_callable(one.fun, name), name=name)
    if hasattr(one, "A") and hasattr(one, "lb"):
        return _linear(one, name, n)
    if callable(one):
        return Part(np.array(-math.inf), np.array(0.0), function=one, name=name)
    raise TypeError(f"constraints must be {FORMS}; {name} is {shown(one)}")


def returned(one: Returned) -> Part:
    """Return what limits of what fun returns mean."""
    return Part(*_limits(one.lb, one.ub, "Returned"), name="what fun returns beside its value")


def _from_dict(one: dict[str, Any], name: str) -> Part:
    known = ("type", "fun", "args", "jac")
    for key in one:
        if key not in known:
            hint = nearest(key, known) if isinstance(key, str) else ""
            raise ValueError(f"{name} has an unknown key {shown(key)}{hint}: a dict has type, fun and args")
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
        raise ValueError(f"{name}: A must have {n} columns, one for each variable; got shape {matrix.shape}")
    if not np.all(np.isfinite(dense(matrix))):
        raise ValueError(f"{name}: A must be finite")
    part = Part(*_limits(one.lb, one.ub, name), matrix=matrix, name=name)
    part.limits(matrix.shape[0])
    return part


def dense(matrix: Any) -> Values:
    """Return a matrix, sparse or not, as an array."""
    return np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)


def _limits(lb: Any, ub: Any, name: str) -> tuple[Values, Values]:
    """Return limits as arrays of no or one dimension, or say what is wrong with them."""
    try:
        low, high = (np.array(side, dtype=np.float64) for side in (lb, ub))
        wrong = np.any(low > high) or np.any(np.isnan(low)) or np.any(np.isnan(high))
    except (TypeError, ValueError):
        raise TypeError(
            f"{name}: lb and ub must be numbers or vectors of one length; got {shown((lb, ub))}"
        ) from None
    if wrong or np.any(np.isposinf(low)) or np.any(np.isneginf(high)):
        raise ValueError(
            f"{name}: limits must be numbers, lb <= ub, and leave room; got {shown(lb)} and {shown(ub)}"
        )
    if low.ndim > 1 or high.ndim > 1:
        raise ValueError(
            f"{name}: lb and ub must be numbers or vectors, got shapes {low.shape}, {high.shape}"
        )
    return low, high


def _callable(fun: Any, name: str) -> Callable[..., Any]:
    if not callable(fun):
        raise TypeError(f"{name} must have a function fun, got {shown(fun)}")
    return fun  # type: ignore[no-any-return]
