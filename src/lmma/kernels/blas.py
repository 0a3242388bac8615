"""How many threads BLAS uses, read and set: products depend on it in their last bits, and in their time.

Replicas on other machines must add up as the run itself does, and a generation must take no longer where
BLAS has more threads (docs/performance.md). NumPy's wheels bring OpenBLAS, which can be told; where another
BLAS is found nothing is done, and checksums tell whether that matters.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

# Environment variables from which numerical libraries take their number of threads when they are loaded
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")

LARGE = 2**24  # multiplications in a product from which a second thread can be worth waking
SMALL_MATRIX, SMALL_VECTOR = 64, 512  # variables up to which BLAS stays on one thread by itself


@functools.cache
def _library() -> tuple[Callable[[], int], Callable[[int], object]] | None:
    """Return the functions that read and set the number of threads, or None where they are not found."""
    import numpy as np

    np.dot(np.ones(2), np.ones(2))  # so that it is loaded
    paths: set[str] = set()
    with contextlib.suppress(OSError), open("/proc/self/maps", encoding="utf-8") as maps:
        paths = {line.split(maxsplit=5)[5].strip() for line in maps if "openblas" in line}
    # SciPy brings a second one; NumPy's, with integers of 64 bits, is what strategies use
    for path in sorted(paths, key=lambda path: ("numpy" not in path, path)):
        library = ctypes.CDLL(path)
        for before in ("scipy_openblas", "openblas"):
            for after in ("64_", ""):
                with contextlib.suppress(AttributeError):
                    return (
                        getattr(library, f"{before}_get_num_threads{after}"),
                        getattr(library, f"{before}_set_num_threads{after}"),
                    )
    return None


def blas_threads() -> int | None:
    """Return how many threads BLAS uses, None if it cannot be asked."""
    found = _library()
    return None if found is None else int(found[0]())


@contextlib.contextmanager
def using_blas_threads(count: int | None) -> Iterator[None]:
    """Have BLAS use ``count`` threads inside the block, if that is known and can be set."""
    found, before = _library(), blas_threads()
    if found is None or before is None or count is None or count == before:
        yield
        return
    found[1](count)
    try:
        yield
    finally:
        found[1](before)


class Held:
    """A context in which BLAS uses ``count`` threads, whichever threads of this process are inside.

    What the process had before is there again when the last of them has left. Where two want different
    numbers at a time, the first decides: neither is wrong, only slower or different in the last bits.
    """

    _lock = threading.Lock()
    _inside = 0
    _before = 0
    _changed = False

    def __init__(self, count: int) -> None:
        self.count = count

    def __enter__(self) -> None:
        found = _library()
        if found is None:
            return
        with Held._lock:
            if Held._inside == 0:
                Held._before = found[0]()
                Held._changed = self.count < Held._before
                if Held._changed:
                    found[1](self.count)
            Held._inside += 1

    def __exit__(self, *raised: object) -> None:
        found = _library()
        if found is None:
            return
        with Held._lock:
            Held._inside -= 1
            if Held._inside == 0 and Held._changed:
                found[1](Held._before)


def held_for(n: int, rows: int, *, dense: bool) -> AbstractContextManager[None]:
    """Return a context for the products of a generation of ``rows`` candidates with ``n`` variables.

    BLAS uses one thread in it, or at most as many as LMMA_BLAS_THREADS says if the products are ``dense``, of
    n x n matrices, and large. Nothing is held where BLAS would not use a second one.
    """
    small = n <= SMALL_MATRIX and rows * n * n < 2**18 if dense else n < SMALL_VECTOR
    if small:
        return contextlib.nullcontext()
    allowed = _allowed_threads()
    return Held(allowed if dense and rows * n * n >= LARGE else 1)


def _allowed_threads() -> int:
    asked = os.environ.get("LMMA_BLAS_THREADS", "").strip()
    if not asked:
        return 1
    if not asked.isdigit() or int(asked) < 1:
        raise ValueError(f"LMMA_BLAS_THREADS={asked!r} must be a whole number, 1 or more")
    return int(asked)
