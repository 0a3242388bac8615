"""Stabilise the metric of pulse while the learning rate of the mean is reduced under noise.

=======  ============  ======  ==================================================================
symbol   code          shape   meaning
=======  ============  ======  ==================================================================
D        ``scales``    (n,)    the diagonal of the metric D A B L of ``method.py``
A        ``matrix``    (n, n)  its core
h, s     ``gains``     (k,)    gains of the axes that B contracts and L expands
eta      ``rate``      float   learning rate of the mean
=======  ============  ======  ==================================================================

Under noise the mean hardly moves, and candidates near it are better wherever curvature is measurable. Every
generation then favours shorter steps: A shrinks, and B in one direction after the other. The step size should
be set by the rule for sigma, slowed by the learning rate of the mean; a metric that shrinks at its own rate
would stop the mean long before. Therefore:

- The metric only learns directions: all z are scaled to the length sqrt(n), and the size of A B L, the n-th
  root of its determinant, moves into sigma at the learning rate of the mean.
- If B or L become so strong that only A compensates for them, they are merged into A.
- If values are mostly noise, A performs a random walk. It therefore decays towards the identity.
- A is reset to the identity if its condition number is still implausible.

log D also performs a random walk under noise, and a coordinate whose scale has become small is no longer
searched. Therefore changes of D are proportional to eta once eta is below 1/PACE_FACTOR. If eta falls like
1/t, they remain bounded. B and L keep their rates: an axis along the gradient raises it above the noise.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from lmma.methods.pulse.core import Core, FullCore
from lmma.methods.pulse.parameters import matrix_speed
from lmma.numerics.recombination import Array

PACE_FACTOR = 5.0  # times eta: factor of the steps of D; matters at n = 300, not at n = 20 (docs/noise.md)
CREDIBLE = 1e6  # condition number of A; with a damped mean, larger ones are caused by noise
MEMORY = 150.0  # time constant of the decay of A, in n^2 rows; 67 and 400 are worse on a rotated ellipsoid
STRONG = 1e3  # gain above which B and L are merged into A


class FullMetric(Protocol):
    """Interface of the metric D A B L that is stabilised."""

    scales: Array
    core: Core
    images: Array
    paths_and_axes: Array
    sizes: Array
    gains: Array
    cross: Array
    concentration: Array
    pace: float  # factor of the steps of D; B and L depend on it

    @property
    def expansion(self) -> Array:
        """Return s, the variance in excess of 1 along each long axis."""

    @property
    def contraction(self) -> Array:
        """Return h, the precision in excess of 1 along each short axis."""

    def expanded(self, rows: Array, power: float = 0.5) -> Array:
        """Multiply each row by L, or by L^-1 with the power -1/2."""

    def contracted(self, rows: Array) -> Array:
        """Multiply each row by B."""


def pace(rate: float) -> float:
    """Return the factor of the steps of D at the learning rate ``rate``."""
    return min(1.0, PACE_FACTOR * rate)


def normalise_lengths(z: Array, images: Array) -> None:
    """Scale each row of ``z`` to the length sqrt(n), in place, and its image by the same factor."""
    squares = np.vecdot(z, z)
    factors = np.sqrt(z.shape[1] / np.maximum(squares, np.finfo(z.dtype).eps))
    z *= factors[:, np.newaxis]
    images *= factors[:, np.newaxis]


def normalise_size(metric: FullMetric) -> float:
    """Scale A so that A B L has size 1; return the previous size, or 1 while an update of A is pending."""
    core = metric.core
    if not isinstance(core, FullCore) or core.waiting:
        return 1.0
    if float(metric.gains.max(initial=0.0)) > STRONG:
        _absorb_axes(core, metric)
    if not np.linalg.norm(core.matrix) * np.linalg.norm(core.inverse) < CREDIBLE * len(core.matrix):
        _reset(core)
        metric.paths_and_axes[1] = 0
    log_determinant = float(np.log1p(metric.expansion).sum() - np.log1p(metric.contraction).sum()) / 2
    size = _size(core, log_determinant)
    if abs(size - 1) < 1e-5 or not math.isfinite(size):  # rounding: a resumed run must get the same result
        return 1.0
    core.matrix /= size  # before each decay
    _forget(core)
    core.matrix /= _size(core, log_determinant)
    core.inverse[...] = np.linalg.inv(core.matrix)
    return size


def _size(core: FullCore, log_determinant: float) -> float:
    """Return the n-th root of the determinant of A B L, given the log determinant of B L."""
    return math.exp((float(np.linalg.slogdet(core.matrix)[1]) + log_determinant) / len(core.matrix))


def _forget(core: FullCore) -> None:
    """Move A towards the identity, with a time constant of MEMORY n^2 rows; faster if A learns faster."""
    n = len(core.matrix)
    share = core.enough / (MEMORY * n * n) * matrix_speed(n) ** 2
    core.matrix *= 1 - share
    core.matrix.flat[:: n + 1] += share


def _absorb_axes(core: FullCore, metric: FullMetric) -> None:
    """Set A to A B L, and B and L to the identity."""
    identity = np.eye(len(core.matrix), dtype=core.matrix.dtype)
    with np.errstate(all="ignore"):
        core.matrix[...] = core.times(metric.contracted(metric.expanded(identity))).T
        metric.paths_and_axes[1] = metric.expanded(
            metric.paths_and_axes[1], -0.5
        )  # p_c, a path of L z: its image under A is unchanged
        try:
            core.inverse[...] = np.linalg.inv(core.matrix)
        except np.linalg.LinAlgError:
            _reset(core)
    metric.gains[...] = 0
    metric.sizes[...] = 0
    metric.paths_and_axes[2:] = 0  # U and V
    metric.cross[...] = 0
    metric.concentration[...] = 1


def _reset(core: FullCore) -> None:
    """Set A to the identity."""
    core.matrix[...] = core.inverse[...] = np.eye(len(core.matrix))
    core.damping[...] = 1
