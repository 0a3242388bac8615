"""Collection of ranked generations until the metric is updated."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import ClassVar, NamedTuple, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.numerics.linalg import padded_rows
from lmma.numerics.recombination import Array, Indices, Selection, active_weights
from lmma.numerics.state import COUNT, FINITE, Declared


class Ranked(NamedTuple):
    """Candidates of one or more generations, with their weights."""

    z: Array  # (rows, n)
    images: Array  # (rows, n) their images under a matrix; no rows without a matrix
    steps: Array  # (generations, n) sqrt(mu_w) times the mean of the selected
    ranks: kernels.Ranks


@final
class Collected:
    """Buffer of the ranked candidates of up to ``period`` generations.

    =============  ===========================  =====================================================
    code           shape                        meaning
    =============  ===========================  =====================================================
    ``z``          (period lam, n)              rows, best first within each generation
    ``images``     (period lam, n) or (0, n)    z multiplied by a matrix, if required
    ``steps``      (period, n)                  sqrt(mu_w) times the mean of the selected
    ``selected``   (period,)                    number selected from each generation
    ``waiting``    int                          number of generations collected so far
    =============  ===========================  =====================================================
    """

    STATE: ClassVar[Declared] = {
        "held": FINITE, "held_images": FINITE, "steps": FINITE, "selected": COUNT, "waiting": COUNT,
    }  # fmt: skip
    RESET_TOGETHER = True  # rows and their counts must match
    threads: int = 0  # unused: no kernels

    def __init__(
        self, period: int, lam: int, n: int, dtype: npt.DTypeLike, weights: Array, *, images: bool = False
    ) -> None:
        self.z: Array = padded_rows(period * lam, n, dtype)
        self.images: Array = padded_rows(period * lam if images else 0, n, dtype)
        self.steps: Array = np.zeros((period, n), dtype=dtype)
        self.selected = np.zeros(period, dtype=np.int64)
        self.waiting = 0
        self.lam, self.weights = lam, weights.tobytes()

    @property
    def held(self) -> Array:
        """Rows that can be filled between two generations: all but those of the last one."""
        return self.z[: -self.lam]

    @property
    def held_images(self) -> Array:
        """Images of these rows under a matrix."""
        return self.images[: -self.lam]

    def emptied(self) -> Collected:
        """Return a buffer for the same n and dtype without rows."""
        return Collected(1, 0, self.z.shape[1], self.z.dtype, np.zeros(0))

    def add(self, best: Selection, images: Array | None = None) -> Ranked | None:
        """Add one generation; return all if there are ``period`` of them, valid until the next call."""
        place = slice(self.waiting * self.lam, (self.waiting + 1) * self.lam)
        _take(best.sampled_z, best.order, self.z[place])
        if images is not None:
            _take(images, best.order, self.images[place])
        np.multiply(best.z_mean, math.sqrt(best.mu_w), out=self.steps[self.waiting])
        self.selected[self.waiting] = len(best.weights)
        self.waiting += 1
        if self.waiting < len(self.selected):
            return None
        self.waiting = 0
        return Ranked(
            self.z, self.images, self.steps, ranks_of(tuple(self.selected.tolist()), self.lam, self.weights)
        )


def _take(rows: Array, order: Indices, out: Array) -> None:
    if out.flags.c_contiguous:
        rows.take(order, 0, out, "clip")
    else:  # padded rows, for which NumPy would make a temporary copy
        for row, k in zip(out, order.tolist(), strict=True):
            row[...] = rows[k]


@lru_cache(16)
def ranks_of(selected: tuple[int, ...], lam: int, weights: bytes) -> kernels.Ranks:
    """Return the weights of all rows of generations of ``lam`` ranked candidates.

    ``selected`` is the number of selected candidates in each generation; they get ``weights`` (float64),
    scaled to sum 1.
    """
    ranks = np.tile(active_weights(lam), len(selected))
    shares = np.zeros((len(selected), lam))
    for row, count in zip(shares, selected, strict=True):
        row[:count] = np.frombuffer(weights)[:count]
        row /= row.sum()
    flat = shares.ravel()
    ranks.flags.writeable = flat.flags.writeable = False  # cached: shared by all callers
    better, worse = np.count_nonzero(flat > 0), np.count_nonzero(ranks < 0)
    return kernels.Ranks(ranks, flat, int(better), int(worse), len(selected))
