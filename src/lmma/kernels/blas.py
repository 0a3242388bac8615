"""How many threads BLAS uses, read and set: sums over long vectors depend on it in their last bits.

Replicas on other machines must add up as the run itself does. NumPy's wheels bring OpenBLAS, which can be
told; where another BLAS is found nothing is done, and checksums tell whether that matters.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator

# Environment variables from which numerical libraries take their number of threads when they are loaded
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")


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
