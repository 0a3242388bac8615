"""Timed steps: one generation of lmma, of other packages, and of bare operations for reference."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lmma import kernels
from lmma.kernels import reference
from lmma.methods import strategy
from lmma.numerics.checks import Precision
from lmma.numerics.linalg import add_product
from lmma.numerics.recombination import default_popsize, default_vectors
from lmma_lab.peers import ADAPTORS
from lmma_lab.timing.stopwatch import Step

THEIR_MATRICES_UP_TO = 1024  # variables, for packages whose generation costs O(n^2) or more
SWAPPED = ("normals", "recombine", "squares", "rescale", "lm_sample", "lm_update", "lm_direction", "lm_gram")


def lmma_step(method: str, n: int, *, dtype: Precision = "float64", threads: int = 1) -> Step:
    """Return one ask and tell of a strategy of lmma, as after its first m generations."""
    es: Any = strategy(method, np.zeros(n), 1.0, rng=1, dtype=dtype, threads=threads)
    X = np.empty((es.popsize, n), dtype)
    values = np.random.default_rng(1).random(es.popsize)
    if hasattr(es.method.transform, "age"):
        es.method.transform.age = default_vectors(n)  # apply all vectors; zeros cost as much as other values

    def generation() -> None:
        es.ask(out=X)
        es.tell(values)

    generation()
    return generation


def on_numpy(method: str, n: int) -> Step | None:
    """Return the same step on the NumPy kernels; None without compiled kernels."""
    if not kernels.backend().startswith("compiled"):
        return None
    step = lmma_step(method, n)

    def generation() -> None:
        with _numpy_kernels():
            step()

    return generation


@contextmanager
def _numpy_kernels() -> Iterator[None]:
    kept = {name: getattr(kernels, name) for name in SWAPPED}
    for name in SWAPPED:
        setattr(kernels, name, getattr(reference, name))
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(kernels, name, function)


def peer(name: str, n: int) -> Step | None:
    """Return one generation of another package with the paper's lambda, as after its first m generations.

    Return None if its full matrix is too large at ``n``; raise ImportError if the package is not installed.
    """
    adaptor = ADAPTORS[name]
    if adaptor.full_matrix and n > THEIR_MATRICES_UP_TO:
        return None
    other = adaptor(np.zeros(n), 1.0, adaptor.admissible(default_popsize(n)), 1)
    other.skip_first_generations()
    rng = np.random.default_rng(0)

    def generation() -> None:
        other.generation(rng)

    generation()  # triggers just-in-time compilation
    return generation


def draw(n: int) -> Step:
    """Return the reference step: NumPy draws the random numbers of one generation."""
    rng, z = np.random.default_rng(1), np.empty((default_popsize(n), n))
    return lambda: rng.standard_normal(out=z)


def copy(n: int) -> Step:
    """Return a step that copies the numbers of one generation: the cost of memory bandwidth alone."""
    size = default_popsize(n) * n
    a = np.ones(size)
    space = np.empty(size + 512)
    # Half a page apart: reads stall on writes to the same offset of another page.
    apart = (a.ctypes.data + 2048 - space.ctypes.data) % 4096 // a.itemsize
    b = space[apart : apart + size]
    return lambda: np.copyto(b, a)


def products(n: int) -> Step:
    """Return only the matrix products of one generation of fast MA-ES."""
    lam = default_popsize(n)
    rng = np.random.default_rng(1)
    matrix, z, p = np.eye(n), rng.standard_normal((lam, n)), rng.standard_normal(n)
    d = np.empty_like(z)
    rows = rng.standard_normal((lam // 2 + 1, n))

    def generation() -> None:
        np.matmul(z, matrix.T, out=d)
        _ = matrix @ p
        add_product(matrix, 0.999, rows, rows)

    return generation
