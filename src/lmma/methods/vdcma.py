"""VD-CMA-ES: C = D (I + v v^T) D, learned by natural gradient in O(n) (Akimoto, Auger, Hansen 2014).

==========  ==================  ========  =============================================================
paper       code                shape     meaning
==========  ==================  ========  =============================================================
D           ``scales``          (n,)      diagonal matrix of scales
v           ``direction``       (n,)      the one direction stretched beyond the diagonal
|v|^2       ``v2``              float
v / |v|     ``u``               (n,)
y           -                   (lam, n)  d / D = z + (sqrt(1 + v2) - 1) (z . u) u
p_c         ``path``            (n,)      evolution path of d
c_c         ``c_c``             float     its fading rate
c_1, c_mu   ``c_1``, ``c_mu``   float     CMA-ES's rates times max((n - 5)/6, 1/2)
s, t        ``p``, ``q``        (n,)      right-hand sides of the gradient for D and for v
alpha, b    ``alpha``, ``b``    float     modified Fisher matrix, positive definite for every v
A           ``a``               (n,)      its diagonal part
==========  ==================  ========  =============================================================

Except for z, no array has more than n numbers: sums over candidates only need z and the projections z . u,
which sampling stores. The initial v ~ N(0, I/n) is the paper's; v = 0 is not admissible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import numpy.typing as npt

from lmma import kernels
from lmma.methods.ask_tell import Strategy
from lmma.methods.es import ES, Transform
from lmma.numerics.linalg import Factors, divide_by_excess, subtract_outer
from lmma.numerics.parameters import TutorialParameters, constant, derived
from lmma.numerics.recombination import Array, Indices, Selection, cumulate
from lmma.numerics.sampling import Batch, independent_key, with_opposites
from lmma.numerics.state import COUNT, FINITE, NOT_NEGATIVE, Declared
from lmma.numerics.stepsize import path_is_short, population_excess

SHORTEST = 1e-10  # lower limit on |v|: below it 1 + v2 rounds to 1, and under noise v would vanish
LARGEST_CHANGE = 0.7  # limit on the relative change of |v| and of each element of D in one generation


@dataclass(frozen=True, kw_only=True)
class VDParameters(TutorialParameters):
    """The constants of VD-CMA-ES."""

    c_sigma: float = constant(lambda p: math.sqrt(p.mu_w) / (2 * (math.sqrt(p.n) + math.sqrt(p.mu_w))))
    d_sigma: float = constant(lambda p: 1 + p.c_sigma + 2 * population_excess(p.mu_w, p.n))
    faster: float = derived(lambda p: max((p.n - 5) / 6, 0.5))  # 2n numbers are learned, not n^2 / 2
    c_1: float = constant(lambda p: p.faster * 2 / ((p.n + 1.3) ** 2 + p.mu_w))
    c_mu: float = constant(
        lambda p: min(1 - p.c_1, p.faster * 2 * (p.mu_w - 2 + 1 / p.mu_w) / ((p.n + 2) ** 2 + p.mu_w))
    )


@final
class ScaledDirection(Transform):
    """Transform d = D (I + (sqrt(1 + v2) - 1) u u^T) z."""

    STATE: ClassVar[Declared] = {"scales": NOT_NEGATIVE, "direction": FINITE, "path": FINITE, "age": COUNT}

    def __init__(self, n: int, parameters: VDParameters, dtype: npt.DTypeLike, key: kernels.Key) -> None:
        self.parameters = parameters
        self.scales = np.ones(n, dtype=dtype)
        start = np.empty((1, n), dtype=dtype)
        kernels.normals(independent_key(key), 0, 0, start)
        self.direction = start[0] / math.sqrt(n)
        self.path = np.zeros(n, dtype=dtype)
        self.age = 0
        self.projections: Array = np.zeros(parameters.lam)  # z . u of the last sample

    def _direction(self) -> tuple[float, Array]:
        """Return |v|^2 and v / |v|; if |v|^2 underflows, use the smallest positive number."""
        v2 = float(np.dot(self.direction, self.direction))
        v2 = max(v2, float(np.finfo(self.direction.dtype).tiny))
        return v2, self.direction / math.sqrt(v2)

    def sample(self, batch: Batch) -> None:
        """Draw candidates and store the projections of z on u."""
        super().sample(batch)
        self.projections = batch.z @ self._direction()[1]

    def paired(self, count: int) -> None:
        """Add the negative of each projection."""
        self.projections = with_opposites(self.projections, count)

    def replaced(self, rows: Indices, z: Array) -> None:
        """Project the new z onto u."""
        self.projections[rows] = z @ self._direction()[1]

    def apply(self, z: Array, out: Array | None = None) -> Array:
        """Return M z."""
        v2, u = self._direction()
        d = np.positive(z, out=out)
        subtract_outer(np.atleast_2d(d), np.atleast_1d((1 - math.sqrt(1 + v2)) * (z @ u)), u)
        d *= self.scales
        return d

    def apply_transposed(self, d: Array) -> Array:
        """Return the transpose of M times d."""
        v2, u = self._direction()
        y = d * self.scales
        subtract_outer(np.atleast_2d(y), np.atleast_1d((1 - math.sqrt(1 + v2)) * (y @ u)), u)
        return y

    def variances_at(self, columns: Indices, like: Array) -> Array:
        """Return D^2 (1 + v^2) at ``columns``."""
        v, scales = self.direction[columns].astype(np.float64), self.scales[columns].astype(np.float64)
        variances: Array = np.square(scales) * (1 + np.square(v))
        return variances

    def factors(self) -> Factors:
        """Return the scales and the direction u."""
        return Factors(diagonal=self.scales, rows=self._direction()[1][np.newaxis])

    def update(self, best: Selection, p_sigma: Array) -> None:
        """Move D and v along the modified natural gradient of the selected steps and the path."""
        p, n = self.parameters, len(self.path)
        self.age += 1
        short = path_is_short(p_sigma, (2 + 4 / (n + 1)) * n, p.c_sigma, self.age)
        cumulate(self.path, p.c_c, best.mu_w, best.d_mean, add=short)
        v2, u = self._direction()
        rise = math.sqrt(1 + v2) - 1
        t2 = float(best.weights @ np.square(best.pick(self.projections)))
        z_t = best.mean_of(best.sampled_z, self.projections)  # sum of w_i (z_i . u) z_i
        square = best.mean_square_of(best.sampled_z) + rise * u * (2 * z_t + rise * t2 * u)  # of y
        cross = (1 + rise) * (z_t + rise * t2 * u)  # sum of w_i (y_i . u) y_i
        gradient = _gradient(u, v2, p.c_mu, square, cross, (1 + v2) * t2)
        if short:
            y = self.path / self.scales
            y_u = float(np.dot(y, u))
            rank_one = _gradient(u, v2, p.c_1, y * y, y_u * y, y_u * y_u)
            gradient = gradient[0] + rank_one[0], gradient[1] + rank_one[1]
        self._climb(u, v2, *gradient)

    def _climb(self, u: Array, v2: float, p: Array, q: Array) -> None:
        """Solve the system of the modified Fisher matrix for (p, q); take the step, shortened if too long."""
        v = math.sqrt(v2)
        uu = u * u
        peak = float(uu.max())
        room = 2 - 1 / math.sqrt(1 + v2)
        alpha = math.sqrt(v2 * v2 + (1 + v2) / peak * room) / (2 + v2)
        if alpha < 1:
            b = 2 * alpha**2 - (4 - room / peak) / (1 + 2 / v2) ** 2
        else:
            alpha, b = 1.0, 2.0
        a = 2 - (b + 2 * alpha**2) * uu
        share = uu / a
        r = p - alpha / (1 + v2) * ((2 + v2) * q * u - v2 * float(np.dot(u, q)) * uu)
        s = r / a - b * float(np.dot(r, share)) / (1 + b * float(np.dot(uu, share))) * share
        gradient_v = (q - alpha * ((2 + v2) * u * s - float(np.dot(s, uu)) * u)) / v
        longest = max(float(np.sqrt(np.dot(gradient_v, gradient_v))) / v, float(np.abs(s).max()))
        factor = min(1.0, LARGEST_CHANGE / longest) if longest > 0 else 1.0
        self.direction += factor * gradient_v
        length = float(np.sqrt(np.dot(self.direction, self.direction)))
        if length < SHORTEST:
            self.direction *= SHORTEST / length
        self.scales *= 1 + factor * s

    def balance(self, generation: int) -> float:
        """Move the largest scale into sigma if it is far from 1."""
        return divide_by_excess(float(self.scales.max()), (self.scales, 1), (self.path, 1))


def _gradient(
    u: Array, v2: float, rate: float, square: Array, cross: Array, square_u: float
) -> tuple[Array, Array]:
    """Return the right-hand sides of the paper for D and v, times ``rate``.

    ``square``, ``cross`` and ``square_u`` are the weighted means of y^2, (y . u) y and (y . u)^2.
    """
    p = rate * (square - v2 / (1 + v2) * u * cross - 1)
    q = rate * (cross - (square_u + 1 + v2) / 2 * u)
    return p, q


@final
class VDMethod(ES):
    """Sampling and update of VD-CMA-ES: a diagonal and one direction."""

    name = "vd-cma-es"
    define = VDParameters
    parameters: VDParameters
    rows = staticmethod(lambda n, popsize: 2 * popsize + 20)  # candidates, their z, some vectors

    def _make_transform(self) -> ScaledDirection:
        return ScaledDirection(self.n, self.parameters, self.dtype, self.key)


class VDCMAES(Strategy):
    """CMA-ES with C = D (I + v v^T) D, O(n) per sample.

    Arguments are those of :class:`lmma.Strategy`, options the fields of :class:`VDParameters`.

    Examples
    --------
    One long axis, in any direction, is learned in addition to the scales:

    >>> es = lmma.VDCMAES(np.ones(16), 1.0, rng=1)
    >>> while es.best_fun > 1e-9:
    ...     X = es.ask()
    ...     es.tell(1e4 * np.sum(X**2, axis=1) - 1e4 * np.sum(X, axis=1) ** 2 / 17)
    >>> es.evaluations < 20_000
    True

    References
    ----------
    Akimoto, Auger and Hansen, *Comparison-based natural gradient optimization in high dimension*, GECCO 2014.
    """

    METHOD = VDMethod
    method: VDMethod
