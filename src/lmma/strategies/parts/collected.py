"""Ranked generations collected until there are enough to learn from."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.strategies.parts.rank_weights import active_weights
from lmma.strategies.parts.recombination import Array, Selection


class Ranked(NamedTuple):
    """Candidates of one or more generations, with what each counts for."""

    z: Array  # (rows, n)
    ranks: kernels.Ranks


@final
class Collected:
    """The candidates of the last generations, ranked, until there are ``period`` generations of them.

    =============  ===========================  =====================================================
    code           shape                        meaning
    =============  ===========================  =====================================================
    ``z``          ((period - 1) lam, n)        rows that wait, best first within each generation
    ``selected``   (period - 1,)                how many of each generation were selected
    ``waiting``    int                          generations that wait
    =============  ===========================  =====================================================
    """

    STATE = ("z", "selected", "waiting")
    threads: int = 0  # has no kernels

    def __init__(self, period: int, lam: int, n: int, dtype: npt.DTypeLike, weights: Array) -> None:
        self.z = np.zeros(((period - 1) * lam, n), dtype=dtype)
        self.selected = np.zeros(period - 1, dtype=np.int64)
        self.waiting = 0
        self.lam, self.weights = lam, weights.tobytes()

    def add(self, best: Selection) -> Ranked | None:
        """Add a generation; return all of them, and begin anew, where the period is over."""
        waiting, lam = self.waiting, self.lam
        if waiting < len(self.selected):
            rows = self.z[waiting * lam : (waiting + 1) * lam]
            np.take(best.sampled_z, best.order, axis=0, out=rows, mode="clip")
            self.selected[waiting] = len(best.weights)
            self.waiting += 1
            return None
        z = np.empty((len(self.z) + lam, self.z.shape[1]), dtype=self.z.dtype)
        z[:-lam] = self.z
        np.take(best.sampled_z, best.order, axis=0, out=z[-lam:], mode="clip")
        self.waiting = 0
        return Ranked(z, ranks_of((*self.selected.tolist(), len(best.weights)), lam, self.weights))


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
    return kernels.Ranks(ranks, flat, len(selected))
