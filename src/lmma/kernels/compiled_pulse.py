"""The kernels of pulse in the compiled core: the functions of ``twin_pulse.py``, same meaning, less time."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

import lmma.kernels._core as _core  # not "from": what is missing shall be a ModuleNotFoundError
from lmma.kernels import twin_pulse
from lmma.kernels.compiled import THREADS
from lmma.kernels.twin import Array, Key
from lmma.kernels.twin_pulse import Learned, Limits, Metric, Ranks, Rates, Turns

GAP = 136  # numbers between long rows: a power of two apart they would compete for places in the caches
LONG = 65536  # bytes
NO_TURNS = (None, None, None, None, None, None)
MOST_ROWS = 128  # of the core's own eigenvectors: larger matrices are LAPACK's
MOST_GROWN = 64  # columns that the core multiplies and solves for itself


numbers = lru_cache(16)(np.array)  # of Rates and Limits, which stay the same all the time


def pulse_sample(
    key: Key,
    place: tuple[int, int],
    metric: Metric,
    cross: Array,
    mean: Array,
    steps: Array,
    z: Array,
    out: Array,
    *,
    threads: int = 0,
) -> None:
    """Draw z of the candidates from ``place`` on; set ``out`` to mean + steps * (B L z)."""
    _, axes, longs, _, gains, _ = metric
    _core.pulse_sample(*key, *place, axes, longs, gains, cross, mean, steps, z, out, threads or THREADS)


def pulse_learn(
    z: Array,
    paths: Array,
    ranked: Ranks,
    metric: Metric,
    rates: Rates,
    turns: Turns | None = None,
    out: Learned | None = None,
    *,
    threads: int = 0,
) -> Learned:
    """Let D learn from the ranked ``z``, and return the rows from which H and F will."""
    v, w, better, worse, t = ranked
    scales, axes, longs, sizes, gains, concentration = metric
    n, k = z.shape[1], len(axes)
    shapes = (longs + 1 + better, n), (k - longs + worse, n), (0 if turns is None else len(z) + 1 + k, n)
    if out is not None and shapes == (out[0].shape, out[1].shape, out[2].shape):
        learned = out
    else:
        gap = GAP if n * z.itemsize >= LONG else 0
        learned = Learned(*(np.empty((rows, n + gap), z.dtype)[:, :n] for rows, n in shapes))
    images, duals, few_images, few_duals, path, damping = turns or NO_TURNS
    _core.pulse_learn(
        z, paths, v, w, t, scales, axes, longs, gains, sizes, concentration, numbers(rates),
        images, duals, few_images, few_duals, path, damping, *learned, threads or THREADS,
    )  # fmt: skip
    return learned


def pulse_renew(
    F: Array,
    H: Array,
    metric: Metric,
    path: Array,
    limits: Limits,
    *,
    threads: int = 0,
) -> None:
    """Set the axes of ``metric``, their sizes, gains and concentration, and ``path``."""
    if min(F.shape) > MOST_ROWS or min(H.shape) > MOST_ROWS:
        return twin_pulse.pulse_renew(F, H, metric, path, limits)
    _, axes, longs, sizes, gains, concentration = metric
    return _core.pulse_renew(
        F, H, axes, longs, gains, sizes, concentration, path, numbers(limits), threads or THREADS
    )


def leading_axes(rows: Array, axes: Array, *, threads: int = 0) -> tuple[Array, Array]:
    """Set ``axes`` to the leading eigenvectors of ``rows^T rows``; return eigenvalues and fourth powers."""
    if min(rows.shape) > MOST_ROWS:
        return twin_pulse.leading_axes(rows, axes)
    sizes, fourths = np.empty(len(axes)), np.empty(len(axes))
    _core.leading_axes(rows, axes, sizes, fourths, threads or THREADS)
    return sizes, fourths


def stretched(
    rows: Array, axes: Array, gains: Array, power: float, out: Array | None = None, *, threads: int = 0
) -> Array:
    """Return ``(I + U^T diag(gains) U)^power`` times each row, for orthonormal axes U."""
    out = np.empty_like(rows) if out is None else out
    if rows.ndim == 1:
        _core.stretched(rows[np.newaxis], axes, gains, power, out[np.newaxis], threads or THREADS)
    else:
        _core.stretched(rows, axes, gains, power, out, threads or THREADS)
    return out


def add_squares(rows: Array, against: int, fade: float, total: Array, *, threads: int = 0) -> None:
    """Add +-q q^T of each row q, less ``fade`` I, to the lower triangle of ``total``."""
    _core.add_squares(rows, against, fade, total, threads or THREADS)


def grow(change: Array, columns: Array, inverse: Array) -> None:
    """Multiply a matrix, given by its columns, by I + G/2 from the right, and its inverse accordingly."""
    if len(change) > MOST_GROWN or not _core.grow(change, columns, inverse):
        twin_pulse.grow(change, columns, inverse)
