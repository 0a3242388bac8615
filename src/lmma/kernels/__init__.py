"""Hot loops: drawing, transforming and recombining candidates.

The same few functions exist twice: in plain NumPy (``twin.py``, always available) and compiled
(``compiled.py``). The compiled ones are used where they were built; the environment variable
``LMMA_KERNELS`` (``numpy`` or ``compiled``) overrides that.
"""

from __future__ import annotations

import os

from lmma.kernels.twin import Key, Update, fold

__all__ = [
    "Key",
    "Update",
    "backend",
    "default_threads",
    "fold",
    "lm_direction",
    "lm_gram",
    "lm_sample",
    "lm_update",
    "name",
    "normals",
    "recombine",
    "rescale",
    "squares",
]

_choice = os.environ.get("LMMA_KERNELS", "")
if _choice not in ("", "numpy", "compiled"):
    raise ValueError(f"LMMA_KERNELS={_choice!r} must be 'numpy', 'compiled' or unset")
try:
    if _choice == "numpy":
        raise ImportError("the NumPy twin is asked for")
    from lmma.kernels.compiled import (
        backend,
        default_threads,
        lm_direction,
        lm_gram,
        lm_sample,
        lm_update,
        normals,
        recombine,
        rescale,
        squares,
    )
except ImportError:
    if _choice == "compiled":
        raise
    from lmma.kernels.twin import (
        backend,
        default_threads,
        lm_direction,
        lm_gram,
        lm_sample,
        lm_update,
        normals,
        recombine,
        rescale,
        squares,
    )


def name() -> str:
    """Return which kernels are in use, without the number of threads: others may differ in the last bit."""
    return backend().partition(",")[0]
