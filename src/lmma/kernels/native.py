"""Kernels of the compiled core, with the signatures and results of the three reference modules.

Arrays must have contiguous rows and native number types; anything else raises an exception. ``threads``
affects the time of a call and never its result. Constants that define a kernel's meaning live in the
reference modules and are passed to the core; limits of the core's own buffers are read from the core.
"""

from __future__ import annotations

import os

import numpy as np

import lmma.kernels._core as _core  # not "from": a missing core must raise ModuleNotFoundError
from lmma.kernels import reference_pulse
from lmma.kernels.reference import Array, Indices, Key, Update
from lmma.kernels.reference_integers import LEAST, Drawn, Grid, Values
from lmma.kernels.reference_pulse import Learned, Limits, Metric, Ranks, Rates, ThroughCore


def _default_threads() -> int:
    """Return LMMA_NUM_THREADS if it is set, else the number of usable cores, at most eight."""
    asked = os.environ.get("LMMA_NUM_THREADS", "").strip()
    if asked:
        if not asked.isdigit() or int(asked) < 1:
            raise ValueError(f"LMMA_NUM_THREADS={asked!r} must be a whole number of at least 1")
        return int(asked)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(usable or 1, 8)


THREADS = _default_threads()
NO_UPDATE = (None, None, None)

GAP = 136  # numbers between long rows: rows a power of two apart conflict in the caches
LONG = 65536  # bytes of a row from which GAP is added
DAMPED = (reference_pulse.CALMING, reference_pulse.SHORTEST)  # the constants of pulse_learn
KEPT = (reference_pulse.SMALLEST, reference_pulse.LOST)  # the constants of leading_axes


def default_threads() -> int:
    """Return the number of threads used if ``threads`` is not given."""
    return THREADS


def backend() -> str:
    """Return a one-line description of the kernels in use."""
    return f"compiled ({_core.instructions()}), up to {THREADS} threads"


def normals(key: Key, generation: int, first: int, out: Array, *, threads: int = 0) -> None:
    """Fill row ``r`` of ``out`` with the standard normal numbers of candidate ``first + r``."""
    _core.normals(*key, generation, first, out, threads or THREADS)


def recombine(weights: Array, order: Indices, rows: Array, out: Array, *, threads: int = 0) -> None:
    """Set ``out`` to the sum of ``weights[i] * rows[order[i]]``."""
    _core.recombine(weights, order, rows, out, threads or THREADS)


def squares(weights: Array, order: Indices, rows: Array, out: Array, *, threads: int = 0) -> None:
    """Set ``out`` to the sum of ``weights[i] * rows[order[i]] ** 2``."""
    _core.squares(weights, order, rows, out, threads or THREADS)


def rescale(
    scales: Array,
    rate: float,
    weights: Array,
    order: Indices,
    rows: Array,
    path: Array,
    share: float,
    *,
    threads: int = 0,
) -> None:
    """Multiply ``scales`` by exp(rate (s + share (path^2 - 1))), s the sum of weights[i] rows[order[i]]^2."""
    _core.rescale(scales, rate, weights, order, rows, path, share, threads or THREADS)


def lm_sample(
    key: Key,
    generation: int,
    first: int,
    vectors: Array,
    active: int,
    gram: Array,
    c_d: Array,
    mean: Array,
    step: float | Array,
    z: Array | None,
    out: Array,
    *,
    update: Update | None = None,
    threads: int = 0,
) -> Array:
    """Draw candidates of LM-MA-ES; return the projections ``z V^T`` on all direction vectors.

    Afterwards ``z`` holds the standard normal numbers and ``out`` the candidates ``mean + step * d``,
    where ``d`` is ``z`` transformed by the first ``active`` direction vectors. If ``z`` is None the numbers
    are drawn twice instead of kept. ``update`` is applied first, as by :func:`lm_update`, but during
    sampling; ``gram`` belongs to the updated vectors.
    """
    projections = np.empty((len(out), len(vectors)))
    keep, gain, z_mean = update or NO_UPDATE
    _core.lm_sample(
        *key,
        generation,
        first,
        vectors,
        active,
        gram,
        c_d,
        mean,
        step,
        z,
        out,
        projections,
        keep,
        gain,
        z_mean,
        threads or THREADS,
    )
    return projections


def lm_workspace(n: int, rows: int, m: int, itemsize: int, *, threads: int = 0) -> int:
    """Return the number of bytes that :func:`lm_sample` allocates, including the projections it returns."""
    return int(_core.lm_workspace(n, rows, m, itemsize, threads or THREADS)) + 8 * rows * m


def lm_update(vectors: Array, keep: Array, gain: Array, z_mean: Array, *, threads: int = 0) -> None:
    """Set row ``i`` of ``vectors`` to ``keep[i] * row + gain[i] * z_mean``."""
    _core.lm_update(vectors, keep, gain, z_mean, threads or THREADS)


def fade(path: Array, keep: float, gain: float, step: Array) -> None:
    """Set ``path`` to ``keep * path + gain * step``."""
    _core.fade(path, keep, gain, step)


def lm_gram(gram: Array, keep: Array, gain: Array, u: Array, length2: float) -> None:
    """Update ``gram`` = V V^T as :func:`lm_update` does V; ``u`` = V z_mean, ``length2`` = |z_mean|^2."""
    _core.lm_gram(gram, keep, gain, u, length2)


def lm_direction(
    weights: Array,
    order: Indices,
    projections: Array,
    active: int,
    gram: Array,
    c_d: Array,
    vectors: Array,
    z_mean: Array,
    *,
    threads: int = 0,
) -> tuple[Array, Array]:
    """Return V z_mean, the weighted mean of rows of ``projections``, and M z_mean."""
    u, out = np.empty(len(vectors)), np.empty(len(z_mean), z_mean.dtype)
    _core.lm_direction(
        weights, order, projections, active, gram, c_d, vectors, z_mean, u, out, threads or THREADS
    )
    return u, out


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
    """Draw z for the candidates from ``place`` on; set ``out`` to mean + steps * (B L z)."""
    _core.pulse_sample(*key, *place, metric, cross, mean, steps, z, out, threads or THREADS)


def pulse_learn(
    z: Array,
    paths: Array,
    ranked: Ranks,
    metric: Metric,
    rates: Rates,
    through_core: ThroughCore | None = None,
    out: Learned | None = None,
    *,
    threads: int = 0,
) -> Learned:
    """Update D from the ranked ``z``, and return the rows from which F and H are updated."""
    n, k, longs = z.shape[1], len(metric.axes), metric.longs
    shapes = (
        (longs + 1 + ranked.better, n),
        (k - longs + ranked.worse, n),
        (0 if through_core is None else len(z) + 1 + k, n),
    )
    if out is not None and shapes == (out[0].shape, out[1].shape, out[2].shape):
        learned = out
    else:
        gap = GAP if n * z.itemsize >= LONG else 0
        learned = Learned(*(np.empty((rows, n + gap), z.dtype)[:, :n] for rows, n in shapes))
    _core.pulse_learn(z, paths, ranked, metric, rates, DAMPED, through_core, learned, threads or THREADS)
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
    if min(F.shape) > _core.MOST_ROWS or min(H.shape) > _core.MOST_ROWS:
        reference_pulse.pulse_renew(F, H, metric, path, limits)
    else:
        _core.pulse_renew(F, H, metric, path, limits, KEPT, threads or THREADS)


def leading_axes(rows: Array, axes: Array, *, threads: int = 0) -> tuple[Array, Array]:
    """Set ``axes`` to the leading eigenvectors of ``rows^T rows``, one per row.

    Return their eigenvalues, and the sum of the fourth powers of each eigenvector.
    """
    if min(rows.shape) > _core.MOST_ROWS:
        return reference_pulse.leading_axes(rows, axes)
    sizes, fourths = np.empty(len(axes)), np.empty(len(axes))
    _core.leading_axes(rows, axes, sizes, fourths, KEPT, threads or THREADS)
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
    """Add +-q q^T of each row q, minus ``fade`` I, to the lower triangle of ``total``."""
    _core.add_squares(rows, against, fade, total, threads or THREADS)


def grow(change: Array, columns: Array, inverse: Array) -> None:
    """Multiply a matrix, given by its columns, by I + G/2 from the right, and its inverse accordingly."""
    if len(change) > _core.MOST_GROWN or not _core.grow(change, columns, inverse):
        reference_pulse.grow(change, columns, inverse)


def round_integers(candidates: Array, grid: Grid, drawn: Drawn) -> None:
    """Round the integer coordinates of ``candidates`` in place, and set ``drawn``."""
    _core.round_integers(candidates, *grid, *drawn)


def recentre_integers(
    mean: Array,
    scale: Array,
    grid: Grid,
    drawn: Drawn,
    ranked: tuple[Array, Indices],
    old: Array,
    deviation: Values,
    bounds: tuple[float, Values],
) -> None:
    """Centre ``mean``, then adjust it and ``scale`` to the bounds on mutation probabilities, in place."""
    _core.recentre_integers(mean, scale, *grid, *drawn, *ranked, old, deviation, *bounds, LEAST)
