"""Ranked generations collected until there are enough to learn from."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.strategies.parts.aligned import spaced
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
    ``z``          (period lam, n)              rows, best first within each generation
    ``valid``      (period,)                    how many rows each generation has
    ``waiting``    int                          generations that wait
    =============  ===========================  =====================================================
    """

    STATE = ("z", "valid", "waiting")
    threads: int = 0  # has no kernels

    def __init__(self, period: int, lam: int, n: int, dtype: npt.DTypeLike) -> None:
        self.z: Array = spaced(period * lam, n, dtype)
        self.valid = np.zeros(period, dtype=np.int64)
        self.waiting = 0

    def add(self, best: Selection) -> Ranked | None:
        """Add a generation; where the period is over, return all of them, until the next is added."""
        count, start = len(best.order), int(self.valid[: self.waiting].sum())
        rows = self.z[start : start + count]
        if rows.flags.c_contiguous:
            np.take(best.sampled_z, best.order, axis=0, out=rows, mode="clip")
        else:  # long rows with gaps between them, which NumPy would take by way of a copy
            for row, k in zip(rows, best.order.tolist(), strict=True):
                row[...] = best.sampled_z[k]
        self.valid[self.waiting] = count
        self.waiting += 1
        if self.waiting < len(self.valid):
            return None
        self.waiting = 0
        return Ranked(self.z[: start + count], ranks_of(tuple(self.valid.tolist()), best.weights.tobytes()))


@lru_cache(16)
def ranks_of(counts: tuple[int, ...], weights: bytes) -> kernels.Ranks:
    """Return what each row of generations of ``counts`` ranked candidates counts for.

    The selected are weighted as far as ``weights`` (float64) go, and sum to 1 in each generation.
    """
    ranks = np.concatenate([active_weights(count) for count in counts])
    selected = np.concatenate([_closed(np.frombuffer(weights), count) for count in counts])
    ranks.flags.writeable = selected.flags.writeable = False  # every caller shares them
    better, worse = np.count_nonzero(selected > 0), np.count_nonzero(ranks < 0)
    return kernels.Ranks(ranks, selected, int(better), int(worse), len(counts))


def _closed(weights: Array, count: int) -> Array:
    """Return one weight for each of ``count`` ranked candidates, those of the selected summing to 1."""
    full = np.zeros(count)
    selected = weights[:count]
    full[: len(selected)] = selected / selected.sum()
    return full
