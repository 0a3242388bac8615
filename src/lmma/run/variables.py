"""Named variables and structures in a run: to vectors and back, where a run takes values and gives them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from lmma.run.warm_start import is_result
from lmma.space import Space, Tree
from lmma.space.tree import is_structure
from lmma.strategies.parts.checks import checked_x0

if TYPE_CHECKING:
    from lmma.run.options import RunOptions
    from lmma.run.run import Run

Array = npt.NDArray[np.floating]
SHOWN = 1000  # coordinates at most whose values go into a log


def with_space(x0: Any, options: RunOptions) -> tuple[Any, RunOptions]:
    """Return start and options of a run, where ``x0`` may be a space, a tree or a structure itself.

    A space starts in its middle, a tree at its example. A tree of single precision is searched in it.
    """
    found: Space | Tree | None = None
    if isinstance(x0, Space | Tree):
        found = x0
        if options.space is not None:
            raise ValueError(
                "the space is there twice, as x0 and as space=: give x0 as a dict of values, or drop one"
            )
        x0 = None
    elif options.space is None and is_result(x0):
        found = x0.get("tree")
    elif options.space is None and is_structure(x0):
        try:
            found = Tree(x0)
        except (TypeError, ValueError) as error:
            raise type(error)(f"x0: {error}") from None
    if found is not None:
        options = options.replaced(space=found)
    if isinstance(options.space, Tree) and options.dtype == "float64":
        options = options.replaced(dtype=options.space.dtype.name)
    return x0, options


def check_space(options: RunOptions) -> None:
    """Raise where a space contradicts other arguments; a tree has neither bounds nor integers of its own."""
    if isinstance(options.space, Tree):
        return
    if not isinstance(options.space, Space):
        raise TypeError(f"space must be an lmma.Space or an lmma.Tree, got {options.space!r:.80}")
    for name in ("bounds", "integrality"):
        if getattr(options, name) is not None:
            raise ValueError(f"{name} and space contradict one another: a space has its own, drop {name}")


def start_and_limits(
    x0: Any, sigma0: Any, options: RunOptions, usual: Callable[[Array], Any]
) -> tuple[Array, Any, dict[str, Any]]:
    """Return where a run starts, its step size if one is known, and its limits as strategies take them.

    ``usual`` is the step size where a user knows none.
    """
    space = options.space
    limits: dict[str, Any] = {"bounds": options.bounds, "integrality": options.integrality}
    if space is None:
        return checked_x0(x0, np.float64), sigma0, limits
    if isinstance(space, Tree):
        limits["bounds"] = space.bounds(options.bounds)
        start = space.start(x0)
        return start, space.steps(sigma0, usual(start) if isinstance(sigma0, Mapping) else None), limits
    limits = space.strategy_arguments(x0, sigma0)
    return limits.pop("x0"), limits.pop("sigma0"), limits


def called_with(
    fun: Callable[..., Any],
    space: Space | Tree | None,
    args: tuple[Any, ...] = (),
    more: tuple[str, ...] = (),
) -> Callable[..., Any]:
    """Return ``fun`` as a function of vectors: with a space it is called with values by name.

    ``more`` are names of what it is given besides. With a tree it is called with a structure.
    """
    if space is None:
        return fun
    from lmma.space.calling import NamedValues, Structures

    return Structures(fun, space) if isinstance(space, Tree) else NamedValues(fun, space, args, more)


def points_of(options: RunOptions) -> Any:
    """Return the points to inject as vectors; with a space they may be dicts of values, or structures."""
    points, space = options.inject, options.space
    if space is None or points is None:
        return points
    if isinstance(space, Tree):
        return _structures_as_rows(points, space)
    if isinstance(points, Mapping):
        return space.encode(points)
    if isinstance(points, list | tuple) and all(isinstance(point, Mapping) for point in points):
        return np.array([space.encode(point) for point in points])
    return points


def _structures_as_rows(points: Any, tree: Tree) -> Any:
    """Return one structure, or several, as vectors; vectors as they are."""
    if isinstance(points, np.ndarray):
        return points
    try:
        return tree.encode(points)
    except (TypeError, ValueError):
        if not isinstance(points, list | tuple):
            raise
    return np.array([tree.encode(point) for point in points])


def names_of(options: RunOptions) -> tuple[str, ...]:
    """Return the names that an objective is called with as keywords, and that mean variables."""
    return tuple(options.space) if isinstance(options.space, Space) else ()


def coordinate_name(options: RunOptions, place: int) -> str:
    """Return what a user calls a coordinate of the vector."""
    space = options.space
    if space is None:
        return f"x[{place}]"
    if isinstance(space, Space):
        return space.labels[place]
    for path, part in space.slices.items():
        if part.start <= place < part.stop:
            return path if part.stop - part.start == 1 else f"{path}[{place - part.start}]"
    raise IndexError(place)


def best_values(run: Run) -> dict[str, Any]:
    """Return the best so far for a log: values, and where each lies between its limits, 0 to 1, by name.

    Nothing without a space, or for too many variables.
    """
    space, best = run.options.space, run.counters.best_x
    if not isinstance(space, Space) or best is None or space.n > SHOWN:
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
