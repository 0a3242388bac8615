"""Read and set the number of BLAS threads, which affects the last bits of products and their time.

Replicas on other machines must compute the same sums as the run itself, and additional BLAS threads must not
slow down a generation (docs/performance.md).

threadpoolctl finds the library that NumPy uses. OpenBLAS is then called directly, not through
``set_num_threads`` of threadpoolctl 3.8, which ignores calls from all threads but the first while that thread
lives. A generation in a second thread would then use any number of BLAS threads, and the last thread to leave
:class:`ThreadLimit` could not restore the number. It would also add 1.4 microseconds to the 1.9 of
``ThreadLimit``. Other libraries are called through threadpoolctl. If no library is found, nothing is set;
checksums of replicas then detect differences.
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

LARGE = 2**24  # multiplications per product above which a second thread can pay off
SMALL_MATRIX, SMALL_VECTOR = 64, 512  # number of variables up to which BLAS uses one thread anyway

Functions = tuple[Callable[[], int | None], Callable[[int], object]]  # read, set


@functools.cache
def _library() -> Functions | None:
    """Return the functions that read and set the number of threads, or None if there are none."""
    import numpy as np
    from threadpoolctl import ThreadpoolController  # late: `import lmma` must be fast

    np.dot(np.ones(2), np.ones(2))  # loads the library
    found = [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]
    # SciPy ships a second OpenBLAS; methods use NumPy's
    for library in sorted(found, key=lambda library: ("numpy" not in library.filepath, library.filepath)):
        if library.internal_api != "openblas":
            return library.get_num_threads, library.set_num_threads
        if (functions := _openblas(library.filepath)) is not None:
            return functions
    return None


def _openblas(path: str) -> Functions | None:
    """Return the functions of the OpenBLAS at ``path``, whose names depend on the build."""
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
    """Return the number of threads that BLAS uses, or None if it is unknown."""
    found = _library()
    return None if found is None else found[0]()


@contextlib.contextmanager
def using_blas_threads(count: int | None) -> Iterator[None]:
    """Make BLAS use ``count`` threads inside the block, if ``count`` is known and can be set."""
    found, before = _library(), blas_threads()
    if found is None or before is None or count is None or count == before:
        yield
        return
    found[1](count)
    try:
        yield
    finally:
        found[1](before)


class ThreadLimit:
    """A context in which BLAS uses at most ``count`` threads, for all threads of the process together.

    The previous number is restored when the last thread leaves. If two threads ask for different numbers at
    the same time, the first one decides: the other is slower, or differs in the last bits.
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
        with ThreadLimit._lock:
            if ThreadLimit._inside == 0:
                ThreadLimit._before = found[0]() or 0
                ThreadLimit._changed = self.count < ThreadLimit._before
                if ThreadLimit._changed:
                    found[1](self.count)
            ThreadLimit._inside += 1

    def __exit__(self, *raised: object) -> None:
        found = _library()
        if found is None:
            return
        with ThreadLimit._lock:
            ThreadLimit._inside -= 1
            if ThreadLimit._inside == 0 and ThreadLimit._changed:
                found[1](ThreadLimit._before)


def limited_threads(n: int, rows: int, *, dense: bool) -> AbstractContextManager[None]:
    """Return a context for the products of a generation of ``rows`` candidates with ``n`` variables.

    Inside it BLAS uses one thread, or at most LMMA_BLAS_THREADS threads if the products are ``dense`` (n x n
    matrices) and large. The context does nothing if BLAS would use one thread anyway.
    """
    small = n <= SMALL_MATRIX and rows * n * n < 2**18 if dense else n < SMALL_VECTOR
    if small:
        return contextlib.nullcontext()
    allowed = _allowed_threads()
    return ThreadLimit(allowed if dense and rows * n * n >= LARGE else 1)


def _allowed_threads() -> int:
    asked = os.environ.get("LMMA_BLAS_THREADS", "").strip()
    if not asked:
        return 1
    if not asked.isdigit() or int(asked) < 1:
        raise ValueError(f"LMMA_BLAS_THREADS={asked!r} must be a whole number of at least 1")
    return int(asked)
