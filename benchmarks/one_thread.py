"""Limit every library to one thread; must be imported before NumPy."""

import os


def use_one_thread() -> None:
    """Set what NumPy's libraries and our kernels read when they are loaded, unless it is set already."""
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "LMMA_NUM_THREADS"):
        os.environ.setdefault(name, "1")
