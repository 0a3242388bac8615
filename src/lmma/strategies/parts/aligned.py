"""Arrays of rows that do not get into one another's way in the caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

LINE = 64  # bytes of a cache line
GAP = 17  # lines: an odd number of them, so that the same column of many rows falls into many places
LONG = 65536  # bytes; shorter rows are no trouble, but gaps cost NumPy half a microsecond per row


def spaced(rows: int, n: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Return zeros of shape (rows, n) from a cache line's start on, long rows with gaps between them.

    Where rows start a power of two apart, one column of all rows competes for a few places of a cache.
    """
    itemsize = np.dtype(dtype).itemsize
    stride = n if n * itemsize < LONG else (-(-n * itemsize // LINE) + GAP) * LINE // itemsize
    space = np.zeros(rows * stride + LINE // itemsize, dtype=dtype)
    start = -space.ctypes.data % LINE // itemsize
    return space[start : start + rows * stride].reshape(rows, stride)[:, :n]
