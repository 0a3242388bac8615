"""Arrays of rows that do not get into one another's way in the caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

LINE = 64  # bytes of a cache line
GAP = 17  # lines: an odd number of them, so that the same column of many rows falls into many places
LONG = 4096  # bytes; shorter rows are no trouble


def spaced(rows: int, n: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return zeros of shape (rows, n), each long row a little further from the last than its length.

    Where rows start a power of two apart, one column of all rows competes for a few places of a cache.
    """
    itemsize = np.dtype(dtype).itemsize
    if n * itemsize < LONG:
        return np.zeros((rows, n), dtype=dtype)
    stride = (-(-n * itemsize // LINE) + GAP) * LINE // itemsize
    return np.zeros((rows, stride), dtype=dtype)[:, :n]
