"""Generations that are never held as a whole: candidates in blocks, their random numbers drawn again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lmma.kernels.words import shown
from lmma.strategies.parts.recombination import Array, Indices, weighted_mean

if TYPE_CHECKING:
    from lmma.strategies.es import Batch, Source, StreamingTransform

TOGETHER = 2**23  # numbers in a block, unless that is less than ...
FEWEST = 8  # ... so many rows: each block takes two passes over the direction vectors


def rows_of_a_block(rows: int | None, popsize: int, n: int) -> int:
    """Return how many candidates a block has, or say what is wrong with ``rows``."""
    if rows is None:
        rows = max(FEWEST, TOGETHER // n)
    elif isinstance(rows, bool) or not isinstance(rows, int | np.integer):
        raise TypeError(f"rows must be an integer or None, got {shown(rows)}")
    elif rows < 1:
        raise ValueError(f"rows must be at least 1, got {rows}")
    return min(int(rows), popsize)


class Streamed:
    """The candidates of a generation that nobody holds: each is made again when it is looked at."""

    def __init__(self, transform: StreamingTransform, batch: Batch) -> None:
        self.transform, self.batch = transform, batch

    def __getitem__(self, row: int) -> Array:
        out = np.empty_like(self.batch.out[:1])
        self.transform.sample_block(self.batch._replace(out=out, first=int(row)))
        single: Array = out[0]
        return single


def redrawn_mean(source: Source, generation: int, weights: Array, order: Indices, like: Array) -> Array:
    """Return the sum of ``weights[i] * z[order[i]]``, with z drawn again, four candidates at a time."""
    total, z = np.zeros_like(like), np.empty((4, len(like)), dtype=like.dtype)
    for start in range(0, len(weights), 4):
        some = weights[start : start + 4]
        for row, candidate in enumerate(order[start : start + len(some)].tolist()):
            source.draw(generation, candidate, z[row : row + 1])
        total += weighted_mean(some, np.arange(len(some)), z, source.threads)
    return total
