"""Integer coordinates in the compiled core: ``twin_integers.py`` with less time."""

from __future__ import annotations

import lmma.kernels._core as _core  # not "from": what is missing shall be a ModuleNotFoundError
from lmma.kernels.twin import Array, Indices
from lmma.kernels.twin_integers import Drawn, Grid, Values


def round_integers(candidates: Array, grid: Grid, drawn: Drawn) -> None:
    """Round the integers of ``candidates`` in place, and set ``drawn``."""
    _core.round_integers(candidates, *grid, *drawn)


def settle_integers(
    mean: Array,
    scale: Array,
    grid: Grid,
    drawn: Drawn,
    ranked: tuple[Array, Indices],
    old: Array,
    deviation: Values,
    bounds: tuple[float, Values],
) -> None:
    """Centre ``mean`` and keep the bounds on mutation probabilities by ``mean`` and ``scale``, in place."""
    _core.settle_integers(mean, scale, *grid, *drawn, *ranked, old, deviation, *bounds)
