"""Named variables in a run: from a space to vectors and back, where a run takes values and gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.space import Space

if TYPE_CHECKING:
    from lmma.run.options import RunOptions
    from lmma.run.run import Run

SHOWN = 1000  # coordinates at most whose values go into a log


def with_space(x0: Any, options: RunOptions) -> tuple[Any, RunOptions]:
    """Return start and options of a run, where a space in place of ``x0`` starts in its middle."""
    if not isinstance(x0, Space):
        return x0, options
    if options.space is not None:
        raise ValueError(
            "the space is there twice, as x0 and as space=: give x0 as a dict of values, or drop one"
        )
    return None, options.replaced(space=x0)


def check_space(options: RunOptions) -> None:
    """Raise where a space contradicts other arguments."""
    if not isinstance(options.space, Space):
        raise TypeError(f"space must be an lmma.Space, got {options.space!r:.80}")
    for name in ("bounds", "integrality"):
        if getattr(options, name) is not None:
            raise ValueError(f"{name} and space contradict one another: a space has its own, drop {name}")


def called_with(
    fun: Callable[..., Any], space: Space | None, args: tuple[Any, ...] = (), more: tuple[str, ...] = ()
) -> Callable[..., Any]:
    """Return ``fun`` as a function of vectors: with a space it is called with values by name.

    ``more`` are names of what it is given besides.
    """
    if space is None:
        return fun
    from lmma.space.calling import NamedValues

    return NamedValues(fun, space, args, more)


def points_of(options: RunOptions) -> Any:
    """Return the points to inject as vectors; with a space they may be dicts of values."""
    points, space = options.inject, options.space
    if space is None or points is None:
        return points
    if isinstance(points, Mapping):
        return space.encode(points)
    if isinstance(points, list | tuple) and all(isinstance(point, Mapping) for point in points):
        return np.array([space.encode(point) for point in points])
    return points


def best_values(run: Run) -> dict[str, Any]:
    """Return the best so far for a log: values, and where each lies between its limits, 0 to 1, by name.

    Nothing without a space, or for too many variables.
    """
    space, best = run.options.space, run.counters.best_x
    if space is None or best is None or space.n > SHOWN:
        return {}
    positions = dict(zip(space.labels, space.positions(best).round(6).tolist(), strict=True))
    return {"x": as_json(space.decode(best)), "positions": positions}


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values such that JSON can hold them: lists for arrays, words for what it does not know."""
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
