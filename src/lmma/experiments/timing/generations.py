"""One generation of ours, of other packages, and of the bare operations they are measured against."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lmma import kernels
from lmma.experiments.peers import ADAPTORS
from lmma.experiments.timing.contest import Step
from lmma.kernels import twin
from lmma.strategies import strategy
from lmma.strategies.parts.linalg import add_product
from lmma.strategies.parts.recombination import default_popsize

THEIR_MATRICES_UP_TO = 1024  # variables, for packages whose generation costs O(n^2) or more
SWAPPED = ("normals", "recombine", "squares", "rescale", "lm_sample", "lm_update", "lm_direction", "lm_gram")


def ours(method: str, n: int, *, dtype: str = "float64", threads: int = 1) -> Step:
    """Return one ask and tell of a strategy of ours, past its first m generations."""
    es: Any = strategy(method, np.zeros(n), 1.0, rng=1, dtype=dtype, threads=threads)
    X = np.empty((es.popsize, n), dtype)
    values = np.random.default_rng(1).random(es.popsize)
    if hasattr(es.transform, "age"):
        es.transform.age = default_popsize(n)  # all direction vectors are applied; zeros cost what others do

    def generation() -> None:
        es.ask(out=X)
        es.tell(values)

    generation()
    return generation


def on_the_twin(method: str, n: int) -> Step | None:
    """Return the same on the NumPy twin; None where that is in use anyway."""
    if not kernels.backend().startswith("compiled"):
        return None
    step = ours(method, n)

    def generation() -> None:
        with _twin_in_use():
            step()

    return generation


@contextmanager
def _twin_in_use() -> Iterator[None]:
    kept = {name: getattr(kernels, name) for name in SWAPPED}
    for name in SWAPPED:
        setattr(kernels, name, getattr(twin, name))
    try:
        yield
    finally:
        for name, function in kept.items():
            setattr(kernels, name, function)


def peer(name: str, n: int) -> Step | None:
    """Return one generation of another package's strategy with the paper's lambda, past its first m.

    None where a full matrix is out of the question; ImportError where the package is not installed.
    """
    adaptor = ADAPTORS[name]
    if adaptor.full_matrix and n > THEIR_MATRICES_UP_TO:
        return None
    other = adaptor(np.zeros(n), 1.0, adaptor.admissible(default_popsize(n)), 1)
    other.skip_first_generations()
    rng = np.random.default_rng(0)

    def generation() -> None:
        other.generation(rng)

    generation()  # compiles, where there is something to compile
    return generation


def draw(n: int) -> Step:
    """Return what everything is measured against: NumPy drawing the numbers of a generation."""
    rng, z = np.random.default_rng(1), np.empty((default_popsize(n), n))
    return lambda: rng.standard_normal(out=z)


def copy(n: int) -> Step:
    """Return a copy of a generation's numbers: what memory bandwidth alone would cost, once."""
    size = default_popsize(n) * n
    a = np.ones(size)
    space = np.empty(size + 512)
    # Half a page apart: reads wait for writes to the same place of another page.
    apart = (a.ctypes.data + 2048 - space.ctypes.data) % 4096 // a.itemsize
    b = space[apart : apart + size]
    return lambda: np.copyto(b, a)


def products(n: int) -> Step:
    """Return the matrix products of a generation of fast MA-ES and nothing else."""
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
