"""A metric that neither shrinks nor wanders while noise slows the search.

=======  ============  ======  ==================================================================
symbol   code          shape   meaning
=======  ============  ======  ==================================================================
D        ``scales``    (n,)    the diagonal of the metric D A B L of ``pulse.py``
A        ``matrix``    (n, n)  its core
h, s     ``gains``     (k,)    what B contracts and L expands by
eta      ``rate``      float   learning rate of the mean
=======  ============  ======  ==================================================================

Under noise the mean hardly moves, and candidates near it are the better ones wherever curvature shows: every
generation says that steps should be shorter, so A shrinks, and B in one direction after the other. What the
search needs is said by the rule for sigma, slowed by the learning rate of the mean; a metric that shrinks
at its own pace would freeze the mean long before. So the metric learns directions alone: z count as if
they all had the length sqrt(n), and the size of A B L, its determinant's n-th root, is handed to sigma, as
slowly as all else. Where B or L have become so strong that only A undoes them, A takes them in. Where values
are noise for the most part, A takes small steps in all directions, and nothing calls it back: so it forgets,
and becomes the identity where it learns nothing. It begins anew should its condition still become one that
cannot be believed.

D takes small steps in logarithms, each as likely up as down where values are noise, and a coordinate whose
scale has become small is no longer searched: nothing calls it back. So D changes the less the smaller eta is,
all in all by a bounded amount where eta falls like 1/t, once eta is below 1/LEARNS. B and L keep their pace:
an axis along which the gradient lies makes it stand out from the noise.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from lmma.strategies.parts.dense_core import Core, FullCore
from lmma.strategies.parts.recombination import Array

LEARNS = 5.0  # times eta: the share of its steps that D takes; n = 20 does not mind, 300 does (docs/noise.md)
CREDIBLE = 1e6  # condition of A: beyond, with the mean damped, it is noise that has shaped it
MEMORY = 150.0  # n^2 rows, in which A forgets; 67 and 400 are worse on a rotated ellipsoid
STRONG = 1e3  # gain above which A takes in what B and L do


class FullMetric(Protocol):
    """What is needed of ``pulse.py``: D A B L with a core A."""

    scales: Array
    core: Core
    images: Array
    few: Array
    sizes: Array
    gains: Array
    cross: Array
    concentration: Array
    pace: float  # share of its steps that D takes; B and L, which follow D, must know

    @property
    def expansion(self) -> Array:
        """Return s."""

    @property
    def contraction(self) -> Array:
        """Return h."""

    def expanded(self, rows: Array, power: float = 0.5) -> Array:
        """Return L of each row; L^-1 with the power -1/2."""

    def contracted(self, rows: Array) -> Array:
        """Return B of each row."""


def pace(rate: float) -> float:
    """Return the share of its steps that D takes."""
    return min(1.0, LEARNS * rate)


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
    if not np.linalg.norm(core.matrix) * np.linalg.norm(core.inverse) < CREDIBLE * len(core.matrix):
        _begin_anew(core)
        metric.few[1] = 0
    beside = float(np.log1p(metric.expansion).sum() - np.log1p(metric.contraction).sum()) / 2
    size = _size(core, beside)
    if abs(size - 1) < 1e-5 or not math.isfinite(size):  # rounding: a resumed run must find the same
        return 1.0
    core.matrix /= size  # as after each change of A
    _pull_back(core)
    core.matrix /= _size(core, beside)
    core.inverse[...] = np.linalg.inv(core.matrix)
    return size


def _size(core: FullCore, beside: float) -> float:
    """Return the n-th root of the determinant of A B L, ``beside`` being the logarithm of that of B L."""
    return math.exp((float(np.linalg.slogdet(core.matrix)[1]) + beside) / len(core.matrix))


def _pull_back(core: FullCore) -> None:
    """Let A forget what it learned long ago, MEMORY n^2 rows, in favour of the identity."""
    n = len(core.matrix)
    share = core.enough / (MEMORY * n * n)
    core.matrix *= 1 - share
    core.matrix.flat[:: n + 1] += share


def _take_in(core: FullCore, metric: FullMetric) -> None:
    """Set A to A B L, and B and L to the identity."""
    identity = np.eye(len(core.matrix), dtype=core.matrix.dtype)
    with np.errstate(all="ignore"):
        core.matrix[...] = core.times(metric.contracted(metric.expanded(identity))).T
        metric.few[1] = metric.expanded(metric.few[1], -0.5)  # p_c, of L z: what A shows of it stays
        try:
            core.inverse[...] = np.linalg.inv(core.matrix)
        except np.linalg.LinAlgError:
            _begin_anew(core)
    metric.gains[...] = 0
    metric.sizes[...] = 0
    metric.few[2:] = 0  # the axes of both
    metric.cross[...] = 0
    metric.concentration[...] = 1


def _begin_anew(core: FullCore) -> None:
    """Set A to the identity."""
    core.matrix[...] = core.inverse[...] = np.eye(len(core.matrix))
    core.damping[...] = 1
