"""The kernels of the compiled core: the functions of ``twin.py``, same meaning, less time.

Arrays must have rows without gaps and native number types; whatever else comes in is refused with an
exception, never with a crash. ``threads`` changes how long a call takes and nothing else.
"""

from __future__ import annotations

import os

import numpy as np

import lmma.kernels._core as _core  # not "from": what is missing shall be a ModuleNotFoundError
from lmma.kernels.twin import Array, Indices, Key, Update


def _default_threads() -> int:
    """Return what LMMA_NUM_THREADS says, else one thread for each usable core, at most eight."""
    asked = os.environ.get("LMMA_NUM_THREADS", "").strip()
    if asked:
        if not asked.isdigit() or int(asked) < 1:
            raise ValueError(f"LMMA_NUM_THREADS={asked!r} must be a whole number, 1 or more")
        return int(asked)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return min(usable or 1, 8)


THREADS = _default_threads()
NO_UPDATE = (None, None, None)


def default_threads() -> int:
    """Return how many threads a call may use that does not say."""
    return THREADS


def backend() -> str:
    """Return one line that says which kernels are in use."""
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
    where ``d`` is ``z`` taken through the first ``active`` direction vectors. Where ``z`` is None the
    numbers are drawn twice instead of kept. ``update`` is done first, as :func:`lm_update` would, but on
    the way; ``gram`` is of the vectors after it.
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
    """Return how many bytes :func:`lm_sample` allocates: its work space and the projections it returns."""
    return _core.lm_workspace(n, rows, m, itemsize, threads or THREADS) + 8 * rows * m


def lm_update(vectors: Array, keep: Array, gain: Array, z_mean: Array, *, threads: int = 0) -> None:
    """Set row ``i`` of ``vectors`` to ``keep[i] * row + gain[i] * z_mean``."""
    _core.lm_update(vectors, keep, gain, z_mean, threads or THREADS)


def fade(path: Array, keep: float, gain: float, step: Array) -> None:
    """Set ``path`` to ``keep * path + gain * step``."""
    _core.fade(path, keep, gain, step)


def lm_gram(gram: Array, keep: Array, gain: Array, u: Array, length2: float) -> None:
    """Take ``gram`` = V V^T where :func:`lm_update` takes V; ``u`` = V z_mean, ``length2`` = |z_mean|^2."""
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
