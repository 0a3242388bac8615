"""Problems of a comparison: built-in problems by name and user functions as ``module:function``."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, reduce
from importlib import import_module
from typing import Any, final

import numpy as np
import numpy.typing as npt

from lmma import problems
from lmma._text import one_line, shown
from lmma.problems import Problem

Array = npt.NDArray[np.floating]


@final
class RowWise:
    """Apply a function of one vector to each row of a matrix; a failed evaluation is NaN."""

    def __init__(self, fun: Callable[..., Any], name: str) -> None:
        self.fun, self.name = fun, name

    def __call__(self, X: Array) -> Array:
        """Return one value per row."""
        return np.array([self._value(x.copy()) for x in X])

    def _value(self, x: Array) -> float:
        try:
            value = self.fun(x)
        except Exception:  # a failed evaluation is data: it ranks last
            return math.nan
        try:
            return float(value)
        except (TypeError, ValueError):
            raise TypeError(f"{self.name} must return one real number, got {shown(value)}") from None


def find_problem(name: str) -> Problem:
    """Return a built-in problem by name, or the problem at ``module:function``.

    ``module:function`` names a function of one vector, whose runs start in [-5, 5]^n, or a
    :class:`lmma.problems.Problem`, which defines its own start.
    """
    return _user_problem(name) if ":" in name else problems.get(name)


@lru_cache(64)
def _user_problem(name: str) -> Problem:
    module, _, path = name.partition(":")
    try:
        found = reduce(getattr, path.split("."), import_module(module))
    except Exception as error:
        raise ValueError(
            f"problem {name!r} cannot be imported: {type(error).__name__}: {one_line(error)}"
        ) from None
    if isinstance(found, Problem):
        return found
    if not callable(found):
        raise ValueError(f"problem {name!r} is {shown(found)}, not a function")
    return Problem(name, RowWise(found, name), doc="user function")
