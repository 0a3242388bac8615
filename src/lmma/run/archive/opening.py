"""Opening of archives, and their best points for ``inject=``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lmma.run.archive.columns import Columns
from lmma.run.archive.database import ArchiveError
from lmma.run.archive.identity import identity_of
from lmma.run.archive.reader import Archive
from lmma.run.archive.writer import ArchiveWriter, Policy

if TYPE_CHECKING:
    from lmma.evaluation.base import Array, Values
    from lmma.methods import Strategy
    from lmma.run.setup import Setup


def open_archive(fun: Any, setup: Setup, strategy: Strategy, *, varies: bool, resumed: bool) -> ArchiveWriter:
    """Open the archive of a run for writing.

    ``varies`` is whether values vary between calls, ``resumed`` whether the run continues a checkpoint.
    """
    options, constraints = setup.options, setup.constraints
    assert options.archive is not None
    parts = [] if constraints is None else constraints.parts
    functions = sum(part.function is not None for part in parts)

    def violation(x: Array, g: Values | None) -> float | None:
        if constraints is not None and constraints.parts:
            return constraints.violation_at(x, g)
        return None if g is None else float(g.max(initial=0.0))

    return ArchiveWriter(
        Path(options.archive),
        Columns.of(options.space, strategy.n),
        identity_of(fun, setup, strategy.dtype.name),
        Policy(not varies, options.on_error != "raise", options.timeout),
        new=options.archive_new and not resumed,
        violation=violation,
        functions=functions,
        feasibility_tol=options.feasibility_tol,
    )


def archived_points(path: str | os.PathLike[str], setup: Setup, strategy: Strategy) -> Values:
    """Return the best points of an archive for ``inject=``, at most half the population."""
    try:
        archive = Archive(path)
    except (ArchiveError, OSError) as error:
        raise ValueError(f"inject={os.fspath(path)!r}: {error}") from None
    here = identity_of(None, setup, "")
    there = archive.info
    if (there.get("n"), there.get("variables")) != (here["n"], here["variables"]):
        raise ValueError(
            f"inject={os.fspath(path)!r} is an archive with different variables: use one with the "
            "variables of this run"
        )
    box = setup.box

    def is_inside(x: Values) -> bool:
        return box is None or len(box.lower) != len(x) or bool(np.all((x >= box.lower) & (x <= box.upper)))

    points = archive.best_vectors(max(1, strategy.popsize // 2), is_inside)
    if not len(points):
        raise ValueError(f"inject={os.fspath(path)!r} has no successful evaluation within the bounds")
    return points


def all_discrete(setup: Setup) -> bool:
    """Return whether every coordinate is an integer, a choice or fixed."""
    limits, n = setup.limits, len(setup.x0)
    discrete = np.zeros(n, dtype=np.bool_)
    if limits.get("integrality") is not None:
        discrete |= np.broadcast_to(np.asarray(limits["integrality"]) == 1, (n,))
    columns: Iterable[int] = limits.get("categories") or ()
    discrete[list(columns)] = True
    if not discrete.any():
        return False
    if setup.box is not None and len(setup.box.fixed) == n:
        discrete |= setup.box.fixed
    return bool(discrete.all())
