"""A full metric that keeps its size while noise slows the search.

=======  ============  ======  ==================================================================
symbol   code          shape   meaning
=======  ============  ======  ==================================================================
A        ``matrix``    (n, n)  the core of the metric D A B L of ``pulse.py``
h, s     ``gains``     (k,)    what B contracts and L expands by
=======  ============  ======  ==================================================================

Under noise the mean hardly moves, and candidates near it are the better ones wherever curvature shows: every
generation says that steps should be shorter, so A shrinks, and B in one direction after the other. What the
search needs is said by the rule for sigma, slowed by the learning rate of the mean; a metric that shrinks
at its own pace would freeze the mean long before. So the metric learns directions alone: z count as if
they all had the length sqrt(n), and the size of A B L, its determinant's n-th root, is handed to sigma, as
slowly as all else. Where B or L have become so strong that only A undoes them, A takes them in.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from lmma.strategies.parts.dense_core import Core, FullCore
from lmma.strategies.parts.recombination import Array

STRONG = 1e3  # gain above which A takes in what B and L do


class FullMetric(Protocol):
    """What is needed of ``pulse.py``: D A B L with a core A."""

    core: Core
    images: Array
    few: Array
    sizes: Array
    gains: Array
    cross: Array
    concentration: Array

    @property
    def expansion(self) -> Array:
        """Return s."""

    @property
    def contraction(self) -> Array:
        """Return h."""

    def expanded(self, rows: Array) -> Array:
        """Return L of each row."""

    def contracted(self, rows: Array) -> Array:
        """Return B of each row."""


def forget_lengths(z: Array, images: Array) -> None:
    """Give each row of ``z`` the length sqrt(n), in place, and its image the same factor."""
    squares = np.vecdot(z, z)
    factors = np.sqrt(z.shape[1] / np.maximum(squares, np.finfo(z.dtype).eps))
    z *= factors[:, np.newaxis]
    images *= factors[:, np.newaxis]


def size_taken(metric: FullMetric) -> float:
    """Return the size of A B L, which is 1 afterwards; 1 while A is being summed up."""
    core = metric.core
    if not isinstance(core, FullCore) or core.waiting:
        return 1.0
    if float(metric.gains.max()) > STRONG:
        _take_in(core, metric)
    logarithm = float(np.linalg.slogdet(core.matrix)[1])
    logarithm += float(np.log1p(metric.expansion).sum() - np.log1p(metric.contraction).sum()) / 2
    size = math.exp(logarithm / len(core.matrix))
    if abs(size - 1) < 1e-5 or not math.isfinite(size):  # rounding: a resumed run must find the same
        return 1.0
    core.matrix /= size
    core.inverse *= size
    return size


def _take_in(core: FullCore, metric: FullMetric) -> None:
    """Set A to A B L, and B and L to the identity."""
    identity = np.eye(len(core.matrix), dtype=core.matrix.dtype)
    core.matrix[...] = core.times(metric.contracted(metric.expanded(identity))).T
    core.inverse[...] = np.linalg.inv(core.matrix)
    metric.gains[...] = 0
    metric.sizes[...] = 0
    metric.few[2:] = 0  # the axes of both
    metric.cross[...] = 0
    metric.concentration[...] = 1
