"""The kernels of the compiled core: the functions of ``twin.py``, same meaning, less time.

Arrays must have rows without gaps and native number types; whatever else comes in is refused with an
exception, never with a crash. ``threads`` changes how long a call takes and nothing else.
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt

from lmma.kernels import _core
from lmma.kernels.twin import Array, Key


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


def backend() -> str:
    """Return one line that says which kernels are in use."""
    return f"compiled ({_core.instructions()}), up to {THREADS} threads"


def normals(key: Key, generation: int, first: int, out: Array, *, threads: int = 0) -> None:
    """Fill row ``r`` of ``out`` with the standard normal numbers of candidate ``first + r``."""
    _core.normals(*key, generation, first, out, threads or THREADS)


def recombine(
    weights: Array, order: npt.NDArray[np.intp], rows: Array, out: Array, *, threads: int = 0
) -> None:
    """Set ``out`` to the sum of ``weights[i] * rows[order[i]]``."""
    _core.recombine(weights, order, rows, out, threads or THREADS)


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
    threads: int = 0,
) -> Array:
    """Draw candidates of LM-MA-ES; return the projections ``z V^T`` on all direction vectors.

    Afterwards ``z`` holds the standard normal numbers and ``out`` the candidates ``mean + step * d``,
    where ``d`` is ``z`` taken through the first ``active`` direction vectors. Where ``z`` is None the
    numbers are drawn twice instead of kept.
    """
    projections = np.empty((len(out), len(vectors)))
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
        threads or THREADS,
    )
    return projections


def lm_update(vectors: Array, keep: Array, gain: Array, z_mean: Array, *, threads: int = 0) -> None:
    """Set row ``i`` of ``vectors`` to ``keep[i] * row + gain[i] * z_mean``."""
    _core.lm_update(vectors, keep, gain, z_mean, threads or THREADS)


def lm_mix(active: int, gram: Array, c_d: Array, u: Array) -> tuple[float, Array]:
    """Return ``alpha`` and ``mixed`` with M z = alpha z + mixed V, for one z with V z = ``u``."""
    mixed = np.empty(active)
    return _core.lm_mix(active, gram, c_d, u, mixed), mixed
