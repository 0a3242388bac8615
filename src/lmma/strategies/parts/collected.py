"""Ranked generations collected until there are enough to learn from."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.strategies.parts.aligned import spaced
from lmma.strategies.parts.rank_weights import active_weights
from lmma.strategies.parts.recombination import Array, Indices, Selection


class Ranked(NamedTuple):
    """Candidates of one or more generations, with what each counts for."""

    z: Array  # (rows, n)
    images: Array  # (rows, n) what a matrix made of them; no rows where there is none
    steps: Array  # (generations, n) sqrt(mu_w) times the mean of the selected
    ranks: kernels.Ranks


@final
class Collected:
    """The candidates of the last generations, ranked, until there are ``period`` generations of them.

    =============  ===========================  =====================================================
    code           shape                        meaning
    =============  ===========================  =====================================================
    ``z``          (period lam, n)              rows, best first within each generation
    ``images``     (period lam, n) or (0, n)    what a matrix made of them, if asked for
    ``steps``      (period, n)                  sqrt(mu_w) times the mean of the selected
    ``selected``   (period,)                    how many of each generation were selected
    ``waiting``    int                          generations that wait
    =============  ===========================  =====================================================
    """

    STATE = ("held", "held_images", "steps", "selected", "waiting")
    threads: int = 0  # has no kernels

    def __init__(
        self, period: int, lam: int, n: int, dtype: npt.DTypeLike, weights: Array, *, images: bool = False
    ) -> None:
        self.z: Array = spaced(period * lam, n, dtype)
        self.images: Array = spaced(period * lam if images else 0, n, dtype)
        self.steps: Array = np.zeros((period, n), dtype=dtype)
        self.selected = np.zeros(period, dtype=np.int64)
        self.waiting = 0
        self.lam, self.weights = lam, weights.tobytes()

    @property
    def held(self) -> Array:
        """The rows that can wait between two generations: all but the last one's."""
        return self.z[: -self.lam]

    @property
    def held_images(self) -> Array:
        """What a matrix made of these rows."""
        return self.images[: -self.lam]

    def emptied(self) -> Collected:
        """Return one of the same kind that holds no rows."""
        return Collected(1, 0, self.z.shape[1], self.z.dtype, np.zeros(0))

    def add(self, best: Selection, images: Array | None = None) -> Ranked | None:
        """Add a generation; where the period is over, return all of them, until the next is added."""
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
    else:  # long rows with gaps between them, which NumPy would take by way of a copy
        for row, k in zip(out, order.tolist(), strict=True):
            row[...] = rows[k]


@lru_cache(16)
def ranks_of(selected: tuple[int, ...], lam: int, weights: bytes) -> kernels.Ranks:
    """Return what each row of generations of ``lam`` ranked candidates counts for.

    As many of them as ``selected`` says are weighted with ``weights`` (float64), scaled to sum 1.
    """
    ranks = np.tile(active_weights(lam), len(selected))
    shares = np.zeros((len(selected), lam))
    for row, count in zip(shares, selected, strict=True):
        row[:count] = np.frombuffer(weights)[:count]
        row /= row.sum()
    flat = shares.ravel()
    ranks.flags.writeable = flat.flags.writeable = False  # every caller shares them
    better, worse = np.count_nonzero(flat > 0), np.count_nonzero(ranks < 0)
    return kernels.Ranks(ranks, flat, int(better), int(worse), len(selected))
